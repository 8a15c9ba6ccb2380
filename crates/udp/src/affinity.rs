//! Processor on which a thread starts. Two threads that wake each other tend to stay on one
//! processor, where each waits for the other's time slice.

/// Moves the calling thread to another processor than `creator`'s, if there is one, and leaves it
/// to the scheduler from then on.
#[cfg(target_os = "linux")]
pub fn start_on_other_cpu(creator: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let Some(other) = (0..CpuSet::MAX_CPU).find(|cpu| *cpu != creator && allowed.is_set(*cpu)) else {
        return;
    };
    let mut one = CpuSet::new();
    one.set(other);
    // If either call fails, the thread stays where it is.
    if sched_setaffinity(None, &one).is_ok() {
        let _ = sched_setaffinity(None, &allowed);
    }
}

/// Does nothing: the scheduler decides.
#[cfg(not(target_os = "linux"))]
pub fn start_on_other_cpu(_creator: usize) {}

/// The processor that the calling thread is on, where that is known.
#[cfg(target_os = "linux")]
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// The processor that the calling thread is on, where that is known.
#[cfg(not(target_os = "linux"))]
pub fn current_cpu() -> usize {
    0
}
