//! Datagrams between a protocol machine and a socket. Knows no protocol, no clock and no system
//! call, so the machines in `rdt-transport`, the sockets in `rdt-udp` and the network in `rdt-sim`
//! do not depend on each other.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | I/O | `lib.rs` | trait of a socket or a simulated network: batches in, batches out |
//! | batch | `transmit_buf.rs` | datagrams to one peer, laid out for segmentation offload |
//! | frame | `frame.rs` | memory of unacknowledged packets, which a socket may send by reference |
//! | ECN | `ecn.rs` | codepoint in the IP header |
#![forbid(unsafe_code)]

mod ecn;
mod frame;
mod transmit_buf;

pub use ecn::Ecn;
pub use frame::{FileOffset, Frame, FrameSource, Reuse};
pub use transmit_buf::{MAX_DATAGRAM, TransmitBuf};

use std::time::Instant;

/// Batched datagram I/O, as a socket or a simulated network implements it.
pub trait DatagramIo {
    /// Address of a remote endpoint; `()` if there is only one.
    type Peer: Copy;

    /// Returns the next received batch, or `None` if nothing is readable now.
    fn recv(&mut self) -> Option<Received<'_, Self::Peer>>;

    /// Returns the number of ICMP port-unreachable errors since the last call.
    fn take_refused(&mut self) -> u64 {
        0
    }

    /// Returns the number of messages dropped at a full receive buffer since the last call, as far
    /// as the messages read so far report it.
    fn take_overflow(&mut self) -> u64 {
        0
    }

    /// Returns an empty batch, or `None` while an earlier batch is unsent because the socket was
    /// full. That batch is sent first: the machine counts it as transmitted.
    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf>;

    /// Sends the batch filled after [`DatagramIo::transmit_buf`]. If the socket is full, the rest
    /// is kept, and a later call of `transmit_buf` sends it.
    fn flush(&mut self, peer: Self::Peer);

    /// Ends a turn: releases the batch memory to other sockets of the thread, unless the batch is
    /// still unsent.
    fn leave(&mut self) {}

    /// Reads the clock again after input was processed, so that packets sent next get their true
    /// send time. Returns `now` unchanged if there is no clock.
    fn present(&self, now: Instant) -> Instant {
        now
    }
}

/// Batch of datagrams received from one peer, end to end, with one ECN codepoint. Receive offload
/// (GRO) coalesces no others.
#[derive(Debug)]
pub struct Received<'a, P> {
    /// Source of the datagrams.
    pub peer: P,
    /// Concatenated payloads.
    pub bytes: &'a [u8],
    /// Size of each datagram, bytes; the last may be shorter. 0 for a single empty datagram.
    pub stride: usize,
    /// ECN codepoint; [`Ecn::NotEct`] if the system does not report it.
    pub ecn: Ecn,
    /// Arrival time, from the kernel's timestamp if there is one; never later than the present.
    pub at: Instant,
}
