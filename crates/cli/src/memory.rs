//! How much memory and processor time this process uses, where the system tells.

/// Largest resident set so far and the present one, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) peak: Option<u64>,
    pub(crate) now: Option<u64>,
}

/// Asks the system.
pub(crate) fn read() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Memory { peak: field("VmHWM:"), now: field("VmRSS:") }
}

/// Processor time of all threads of this process so far, user and system; `None` where it is not told.
#[cfg(unix)]
pub fn processor_time() -> Option<std::time::Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.try_into().ok()
}

/// Processor time of all threads of this process so far; `None`, because this system is not asked.
#[cfg(not(unix))]
pub fn processor_time() -> Option<std::time::Duration> {
    None
}
