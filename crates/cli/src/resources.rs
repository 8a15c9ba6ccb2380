//! Memory, processor time and open files of this process, where the system reports them.

/// Resident set size, peak and current, bytes; `None` if the system does not report it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) peak: Option<u64>,
    pub(crate) now: Option<u64>,
}

/// Lower bound of [`default_packet_memory`], bytes.
const MIN_DEFAULT_PACKET_MEMORY: u64 = 1 << 30;

/// Returns the default memory for packets, bytes: a quarter of the host's memory or of the control
/// group's limit, whichever is smaller, and at least 1 GiB.
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

/// Returns a field of a file in /proc, converted from KiB to bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

pub(crate) fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory { peak: field(&status, "VmHWM:"), now: field(&status, "VmRSS:") }
}

/// Descriptors kept for other uses than received files: the standard streams, libraries and
/// `/proc`, and for each thread its socket and poller.
const RESERVED_DESCRIPTORS: u64 = 64;
const DESCRIPTORS_PER_THREAD: u64 = 4;
/// Lower bound of the received files that may be open together.
const MIN_OPEN_FILES: u64 = 16;

/// Returns the number of received files that each of `threads` threads may have open, with this
/// limit on the descriptors of the process.
pub(crate) fn max_open_files(descriptors: u64, threads: usize) -> usize {
    let threads = threads as u64;
    let reserved = RESERVED_DESCRIPTORS + DESCRIPTORS_PER_THREAD * threads;
    let files = descriptors.saturating_sub(reserved).max(MIN_OPEN_FILES) / threads;
    usize::try_from(files.max(1)).unwrap_or(usize::MAX)
}

/// Returns the processor time, user and system, of all threads of this process so far; `None` if
/// unknown.
#[cfg(unix)]
pub fn processor_time() -> Option<std::time::Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.try_into().ok()
}

/// Returns `None`: not implemented for this system.
#[cfg(not(unix))]
pub fn processor_time() -> Option<std::time::Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_descriptors_left_for_files() {
        assert_eq!(max_open_files(1024, 1), 1024 - 64 - 4);
        assert_eq!(max_open_files(1024, 4), (1024 - 64 - 16) / 4);
        assert_eq!([max_open_files(30, 1), max_open_files(30, 64)], [16, 1]);
    }

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
