//! Memory and processor time of this process, where the system reports them.

/// Resident set, peak and current, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) peak: Option<u64>,
    pub(crate) now: Option<u64>,
}

/// In bytes.
const MIN_DEFAULT_PACKET_MEMORY: u64 = 1 << 30;

/// Default memory for packets, in bytes: a quarter of the host's memory or of the control group's
/// limit, the smaller of them, and at least 1 GiB.
pub(crate) fn default_packet_memory() -> u64 {
    let host = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    default_packet_memory_of(&host, &group)
}

fn default_packet_memory_of(meminfo: &str, memory_max: &str) -> u64 {
    let host = field(meminfo, "MemTotal:").unwrap_or(0);
    let group = memory_max.trim().parse().unwrap_or(u64::MAX);
    (host.min(group) / 4).max(MIN_DEFAULT_PACKET_MEMORY)
}

/// A field of a file in /proc, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Reads /proc/self/status; `None` on other systems.
pub(crate) fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory { peak: field(&status, "VmHWM:"), now: field(&status, "VmRSS:") }
}

/// Processor time of all threads of this process so far, user and system; `None` if unknown.
#[cfg(unix)]
pub fn processor_time() -> Option<std::time::Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.try_into().ok()
}

/// Processor time of all threads of this process so far; not implemented on this system.
#[cfg(not(unix))]
pub fn processor_time() -> Option<std::time::Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_a_quarter_of_host_or_group() {
        const GIB: u64 = 1 << 30;
        let host = "MemTotal:       33554432 kB\nMemFree:        1 kB\n";
        assert_eq!(default_packet_memory_of(host, "max\n"), 8 * GIB);
        assert_eq!(default_packet_memory_of(host, "17179869184\n"), 4 * GIB);
        assert_eq!(default_packet_memory_of(host, "1073741824\n"), GIB);
        assert_eq!(default_packet_memory_of("", ""), GIB);
    }
}
