//! Receive window in packets (classic). Each ACK offers it. Its right edge never moves back (RFC
//! 9293, section 3.8.6), even if the application stops reading.

use super::flight_limit::FlightLimit;
use super::{ReceiverConfig, WindowPolicy};
use crate::receive_buffer::{Limits, ReceiveBuffer};

/// Unread bytes always allowed if there is memory: pauses of a disk at some hundred MB/s.
const MIN_UNREAD_LIMIT: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct PacketWindow {
    policy: WindowPolicy,
    /// Largest right edge offered so far, as a sequence number.
    edge: u64,
    /// True if packets beyond `edge` are accepted, as the reference does.
    accepts_beyond_edge: bool,
    /// True if unread data made the last window smaller than the policy's.
    narrowed: bool,
}

/// State of the receiver on which the window depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reception<'a> {
    pub(super) buffer: &'a ReceiveBuffer,
    /// Limit by the socket's receive buffer.
    pub(super) limit: &'a FlightLimit,
    /// Limit of the bytes unread or beyond holes.
    pub(super) memory: u64,
    /// True if the next packet was dropped for lack of memory, and none was accepted since.
    pub(super) refused: bool,
}

impl Reception<'_> {
    /// Returns the right edge up to which the socket's receive buffer has room.
    pub(super) fn edge_limit(&self) -> u64 {
        self.limit.edge(self.buffer.arrived())
    }
}

impl PacketWindow {
    pub(super) fn new(first: u64, config: &ReceiverConfig) -> Self {
        Self { policy: config.window, edge: first, accepts_beyond_edge: config.faithful, narrowed: false }
    }

    pub(super) fn edge(&self) -> u64 {
        self.edge
    }

    /// Returns the limits for the next packet. `memory` limits the bytes beyond holes.
    #[inline]
    pub(super) fn limits(&self, memory: u64, state: Reception<'_>) -> Limits {
        let (backlog, buffer) = (self.backlog(state), state.buffer);
        let right_edge = if self.accepts_beyond_edge { u64::MAX } else { self.edge };
        // With less than half of the memory unread, every packet fits.
        if backlog == 0 {
            return Limits { right_edge, memory, unread: u64::MAX };
        }
        // Keep room for one packet that fills a hole.
        let memory = memory.saturating_sub(backlog + buffer.largest_packet());
        Limits { right_edge, memory, unread: state.memory.saturating_sub(buffer.held_memory()) }
    }

    /// Returns the right edge to offer. While the application is behind, the window has room for
    /// packets of the largest size so far.
    pub(super) fn offer(&mut self, state: Reception<'_>) -> u64 {
        let full = self.full_window(state);
        let window = match self.backlog(state) {
            0 => full,
            // A sender limits retransmissions within the window, and no probes of a closed one.
            _ if state.refused => 0,
            backlog => {
                let room = self.unread_limit(state).saturating_sub(backlog);
                full.min(room / state.buffer.largest_packet().max(1))
            }
        };
        self.narrowed = window < full;
        let edge = state.buffer.rcv_nxt() + window;
        self.edge = self.edge.max(edge);
        edge
    }

    /// True if unread data narrowed the last window, and the application is no longer behind.
    pub(super) fn should_update(&self, state: Reception<'_>) -> bool {
        self.narrowed && self.backlog(state) == 0
    }

    /// Returns the window for an application that keeps up: the policy's, as far as the socket's
    /// buffer has room. If bytes are kept for the application, at most half of the memory: the
    /// other half is for the unread data of an application that still counts as keeping up. So data
    /// already offered fits when it falls behind.
    fn full_window(&self, state: Reception<'_>) -> u64 {
        let rcv_nxt = state.buffer.rcv_nxt();
        let window = u64::from(self.policy.window(rcv_nxt)).min(state.edge_limit().max(self.edge) - rcv_nxt);
        let largest = state.buffer.largest_packet();
        if largest == 0 || !state.buffer.keeps_payload() {
            return window;
        }
        window.min((state.memory / 2 / largest).max(1))
    }

    /// Returns the unread bytes if the application is behind, over half of the limit; else 0.
    fn backlog(&self, state: Reception<'_>) -> u64 {
        let unread = state.buffer.unread();
        // Less than half of the smallest possible limit: skip the computation of the limit.
        if unread <= state.memory.min(MIN_UNREAD_LIMIT) / 2 {
            return 0;
        }
        if unread > self.unread_limit(state) / 2 { unread } else { 0 }
    }

    /// Returns the limit on unread bytes: twice the largest flight (at least 16 MiB), so that data
    /// already offered still fits when the application stops reading.
    fn unread_limit(&self, state: Reception<'_>) -> u64 {
        let flight = self.full_window(state).saturating_mul(state.buffer.largest_packet());
        state.memory.min(MIN_UNREAD_LIMIT.max(flight.saturating_mul(2)))
    }
}
