//! Memory of the host and of this process, where the system reports them.

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

/// Returns the host's memory or the control group's limit, whichever is smaller, bytes. `None` if
/// the system reports neither.
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

    #[test]
    fn smaller_limit_counts() {
        let host = "MemTotal:       33554432 kB\nMemFree:        1 kB\n";
        assert_eq!(host_memory_of(host, "max\n"), Some(32 << 30));
        assert_eq!(host_memory_of(host, "1073741824\n"), Some(1 << 30));
        assert_eq!(host_memory_of("", "1073741824\n"), Some(1 << 30));
        assert_eq!(host_memory_of("", ""), None);
    }
}
