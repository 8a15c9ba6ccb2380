//! Choice of the processor on which a thread starts. Two threads that wake each other tend to stay
//! on one processor, where each waits for the end of the other's time slice.

/// Moves the calling thread to another processor than `creator`, if it may use one. From then on
/// the scheduler may move it again.
#[cfg(target_os = "linux")]
pub fn start_on_other_cpu(creator: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let Some(other) = (0..CpuSet::MAX_CPU).find(|cpu| *cpu != creator && allowed.is_set(*cpu)) else {
        return;
    };
    let mut one = CpuSet::new();
    one.set(other);
    // If the first call fails, the thread stays on its processor.
    if sched_setaffinity(None, &one).is_ok() {
        let _ = sched_setaffinity(None, &allowed);
    }
}

/// Does nothing: the scheduler decides.
#[cfg(not(target_os = "linux"))]
pub fn start_on_other_cpu(_creator: usize) {}

/// Returns the processor on which the calling thread runs.
#[cfg(target_os = "linux")]
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// Returns 0: the processor is not known.
#[cfg(not(target_os = "linux"))]
pub fn current_cpu() -> usize {
    0
}
