//! Batched UDP sockets. Independent of any protocol on top: moves datagrams, and reports which
//! requests the kernel granted, refused and dropped.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | socket | `io.rs`, `connected.rs` | receive slab, counters; a socket with one peer |
//! | options | `socket_options.rs` | buffers and offloads that a user chooses; kernel options |
//! | counters | `stats.rs` | statistics |
//! | send batch | `send_batch.rs` | batch to send next; send calls that still work |
//! | kernel socket | `socket.rs` | descriptor, state of its options, the calls of a send batch |
//! | system calls | `sendmmsg.rs`, `recvmmsg.rs` | many datagrams in one call (Linux) |
//! | zero-copy | `zerocopy.rs` | frames sent by reference, and when they may be overwritten |
//! | buffer pool | `buffer_pool.rs` | batch memory shared by the sockets of a thread |
//! | printed address | `shown.rs` | zones by name |
//! | ICMP errors | `icmp.rs`, `error_queue.rs`, `error.rs` | undeliverable datagrams; error kinds |
//! | busy polling | `busy_poll.rs`, `waiter.rs` | polling for a moment, then sleeping |
//! | poller | `poller/` | `ppoll` or `epoll` on Linux, the `polling` crate elsewhere |
//! | buffer occupancy | `buffer_occupancy.rs` | back-pressure between two sockets of a process |
//! | addressed socket | `addressed.rs` | replies from the address that a peer used (Linux) |
//! | TCP info | `tcp_info.rs` | TCP connections of the kernel, for measurements (Linux) |
//! | clock | `clock.rs` | the only place of the libraries that reads the time |

#[cfg(target_os = "linux")]
mod addressed;
mod buffer_occupancy;
mod buffer_pool;
mod busy_poll;
pub mod clock;
mod connected;
mod error;
#[cfg(linux_api)]
mod error_queue;
mod icmp;
mod io;
mod poller;
#[cfg(linux_api)]
mod recvmmsg;
mod send_batch;
#[cfg(linux_api)]
mod sendmmsg;
mod shown;
mod socket;
mod socket_options;
mod stats;
#[cfg(target_os = "linux")]
mod tcp_info;
mod waiter;
mod zerocopy;

#[cfg(target_os = "linux")]
pub use addressed::{AddressedReads, forbid_fragments, send_from};
pub use buffer_occupancy::BufferOccupancy;
pub use buffer_pool::prefill_batch_pool;
pub use busy_poll::{BusyPoll, Policy};
pub use connected::Connected;
pub use error::SocketError;
pub use io::{Remote, UdpIo, wildcard_for};
pub use poller::{PollSet, Waker};
pub use rdt_datagram::{DatagramIo, Ecn, Jitter, Received, TransmitBuf};
pub use send_batch::{GivenUp, MAX_SEGMENTS, SendCall};
pub use shown::Shown;
pub use socket_options::UdpOptions;
pub use stats::{Offload, UdpStats};
#[cfg(target_os = "linux")]
pub use tcp_info::{NoCongestionControl, TcpInfo, set_congestion};
pub use waiter::Waiter;

/// Moves the calling thread to another processor than `creator`, if it may use one. From then on
/// the scheduler may move it again. Two threads that wake each other tend to stay on one processor,
/// where each waits for the end of the other's time slice.
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
