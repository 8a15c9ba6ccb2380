//! Memory of the host and of this process, where the system reports them.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Resident set size, peak and current, bytes; `None` if the system does not report it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Largest so far.
    pub peak: Option<u64>,
    /// Present one.
    pub now: Option<u64>,
}

/// Returns the resident memory of this process.
pub fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory { peak: field(&status, "VmHWM:"), now: field(&status, "VmRSS:") }
}

/// Time between a call of [`return_soon`] and its effect, in which most of what has ended is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RETURN_DELAY: Duration = Duration::from_secs(2);
/// Stack of the thread that waits, bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const STACK: usize = 64 << 10;

/// Returns the free memory of this process to the system in 2 s. For programs of which a connection
/// has ended: the allocator of glibc keeps what was freed below blocks in use, so a program that
/// had many unread connections would keep their memory. Several calls within 2 s act as one.
pub fn return_soon() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        static IS_DUE: AtomicBool = AtomicBool::new(false);
        if IS_DUE.swap(true, Ordering::Relaxed) {
            return;
        }
        let wait_and_return = || {
            thread::park_timeout(RETURN_DELAY);
            IS_DUE.store(false, Ordering::Relaxed);
            return_now();
        };
        let thread = thread::Builder::new().name("memory".to_owned()).stack_size(STACK);
        // Without a thread the next end of a connection tries again.
        if thread.spawn(wait_and_return).is_err() {
            IS_DUE.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn return_now() {
    // SAFETY: `malloc_trim` may be called at any time from any thread.
    #[expect(unsafe_code, reason = "the standard library has no call for it")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns the host's memory or the control group's limit, whichever is smaller, bytes.
pub fn host_memory() -> Option<u64> {
    let host = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    host_memory_of(&host, &group)
}

fn host_memory_of(meminfo: &str, memory_max: &str) -> Option<u64> {
    let group = memory_max.trim().parse().ok();
    field(meminfo, "MemTotal:").into_iter().chain(group).min()
}

/// Returns a field of a file in /proc, converted from KiB to bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free blocks between blocks in use, as chunks of connections that have ended are.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn freed_blocks_return_to_system() {
        const BLOCKS: u64 = 4096;
        let blocks: Vec<_> = (0..BLOCKS).map(|_| (vec![1_u8; 64 << 10], Box::new(1_u8))).collect();
        let full = memory().now.unwrap();
        let kept: Vec<_> = blocks.into_iter().map(|(_, kept)| kept).collect();
        return_now();
        let after = memory().now.unwrap();
        assert!(after < full - BLOCKS * (48 << 10), "{full} bytes, then {after}");
        drop(kept);
    }

    #[test]
    fn smaller_limit_counts() {
        let host = "MemTotal:       33554432 kB\nMemFree:        1 kB\n";
        assert_eq!(host_memory_of(host, "max\n"), Some(32 << 30));
        assert_eq!(host_memory_of(host, "1073741824\n"), Some(1 << 30));
        assert_eq!(host_memory_of("", "1073741824\n"), Some(1 << 30));
        assert_eq!(host_memory_of("", ""), None);
    }
}
