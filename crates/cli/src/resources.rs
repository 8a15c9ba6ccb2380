//! Memory, processor time and open files of this process, where the system reports them.

use rdt_program::memory::host_memory;
pub(crate) use rdt_program::memory::memory;

/// Lower bound of [`default_packet_memory`], bytes.
const MIN_DEFAULT_PACKET_MEMORY: u64 = 1 << 30;

/// Returns the default memory for packets, bytes: a quarter of the host's memory or of the control
/// group's limit, whichever is smaller, and at least 1 GiB.
pub(crate) fn default_packet_memory() -> u64 {
    (host_memory().unwrap_or(0) / 4).max(MIN_DEFAULT_PACKET_MEMORY)
}

/// Descriptors kept for other uses than received files: the standard streams, libraries and
/// `/proc`, and for each thread its socket and poller.
const RESERVED_DESCRIPTORS: u64 = 64;
const DESCRIPTORS_PER_THREAD: u64 = 4;
/// Lower bound of the received files that may be open together.
const MIN_OPEN_FILES: u64 = 16;

/// Returns the number of received files that each thread may have open.
pub(crate) fn max_open_files(descriptors: u64, threads: usize) -> usize {
    let threads = threads as u64;
    let reserved = RESERVED_DESCRIPTORS + DESCRIPTORS_PER_THREAD * threads;
    let files = descriptors.saturating_sub(reserved).max(MIN_OPEN_FILES) / threads;
    usize::try_from(files.max(1)).unwrap_or(usize::MAX)
}

/// Returns the processor time of all threads of this process so far; `None` if unknown.
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
}
