//! Interface between protocol state machines and sockets: batches of datagrams. Has no protocol, no
//! clock and no system call, so that the state machines in `rdt-transport`, the sockets in
//! `rdt-udp` and the network in `rdt-sim` do not depend on each other.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | I/O | `lib.rs` | trait of a socket or a simulated network: batches in, batches out |
//! | batch | `transmit_buf.rs` | datagrams to one peer, laid out for segmentation offload |
//! | frame | `frame.rs` | memory of unacknowledged packets, for zero-copy sending |
//! | ECN | `ecn.rs` | codepoint in the IP header |
#![forbid(unsafe_code)]

mod ecn;
mod frame;
mod transmit_buf;

pub use ecn::Ecn;
pub use frame::{FileOffset, Frame, FrameSource, Reuse};
pub use transmit_buf::{MAX_DATAGRAM, TransmitBuf};

use std::time::Instant;

/// Batched datagram I/O, which a socket or a simulated network implements.
pub trait DatagramIo {
    /// Address of a remote endpoint; `()` if there is only one.
    type Peer: Copy;

    /// Returns the next received batch, or `None` if nothing is readable now.
    fn recv(&mut self) -> Option<Received<'_, Self::Peer>>;

    /// Returns a peer for which ICMP port-unreachable errors arrived, and their number since the
    /// last call for this peer. Call until it returns `None`.
    fn take_refused(&mut self) -> Option<(Self::Peer, u64)> {
        None
    }

    /// Returns the number of messages dropped at a full receive buffer since the last call.
    /// Includes only drops that the messages read so far report (`SO_RXQ_OVFL`).
    fn take_overflow(&mut self) -> u64 {
        0
    }

    /// Returns an empty batch, after sending the rest of an earlier one, which the protocol counts
    /// as transmitted. `None` while the full send buffer prevents that.
    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf>;

    /// Sends the batch of the last [`DatagramIo::transmit_buf`] to `peer`. If the send buffer is
    /// full, a later call of `transmit_buf` sends the rest.
    fn flush(&mut self, peer: Self::Peer);

    /// Called at the end of each turn. Releases the batch memory to other sockets of the thread,
    /// unless the batch is still unsent.
    fn leave(&mut self) {}

    /// Returns the current time; in virtual time, `now`. Called after input was processed, so that
    /// packets sent next get their true send time.
    fn present(&self, now: Instant) -> Instant {
        now
    }
}

/// Datagrams from one peer with one ECN codepoint, as receive offload (GRO) coalesces them.
#[derive(Debug)]
pub struct Received<'a, P> {
    /// Peer that sent the datagrams.
    pub peer: P,
    /// Concatenated payloads of the datagrams. The reader may overwrite them.
    pub bytes: &'a mut [u8],
    /// Payload bytes of each datagram; the last may be shorter. 0 for a single empty datagram.
    pub stride: usize,
    /// ECN codepoint of all datagrams; [`Ecn::NotEct`] if the system does not report it.
    pub ecn: Ecn,
    /// Arrival time, from the kernel's timestamp if there is one. Never in the future.
    pub at: Instant,
}
