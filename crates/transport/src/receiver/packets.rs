//! A stream that is numbered by packets: what of it is here, and the window that every answer offers. Owns what the
//! application may leave unread before no more is taken.

use std::time::Instant;

use super::body::Taken;
use super::flight_limit::FlightLimit;
use super::{LEAST_UNREAD, WindowPolicy};
use crate::receive_buffer::slots::{Insert, Reassembly};
use crate::wire::Numbering;

/// Payload of a packet before any has come, bytes: that of a full one.
const PAYLOAD: u64 = 1464;
/// Bytes that an application may leave unread in any case, as far as there is memory: what it takes to ride out a pause of
/// a disk at a few hundred megabytes a second.
const UNREAD: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct Packets {
    pub(super) reassembly: Reassembly,
    policy: WindowPolicy,
    pub(super) in_flight: FlightLimit,
    /// Number after the last one that was ever offered.
    edge: u64,
    /// Bytes that may be held, unread or beyond holes, as the listener said last.
    memory: u64,
    /// The window that was told last is smaller than the policy's, for what is unread.
    narrowed: bool,
    /// The packet that comes next was not taken, the last time that it came.
    refused: bool,
}

impl Packets {
    pub(super) fn new(reassembly: Reassembly, policy: WindowPolicy) -> Self {
        Self {
            edge: reassembly.rcv_nxt(),
            reassembly,
            policy,
            in_flight: FlightLimit::new(Numbering::Packets, PAYLOAD),
            memory: LEAST_UNREAD,
            narrowed: false,
            refused: false,
        }
    }

    /// Takes packet `seq`. `memory` is how many bytes may be held beyond holes.
    pub(super) fn insert(&mut self, now: Instant, seq: u64, payload: &[u8], memory: u64) -> Taken {
        let arrived = self.reassembly.arrived();
        self.memory = memory.max(LEAST_UNREAD);
        // One that keeps up leaves less than half unread at any time, and nothing here is for it.
        let backlog = self.backlog();
        let held = self.reassembly.held_memory();
        let fits = backlog == 0 || backlog + held + payload.len() as u64 <= self.memory;
        if seq == self.reassembly.rcv_nxt() && !fits {
            self.refused = true;
            return Taken::Unread;
        }
        // What fills a hole must find room behind all that is held beyond it.
        let kept_free = if backlog > 0 { self.reassembly.largest() } else { 0 };
        match self.reassembly.insert(seq, payload, memory.saturating_sub(backlog + kept_free)) {
            Insert::Accepted { moved } => {
                self.refused &= moved == 0;
                // What lies beyond the window tells nothing of a network that was offered no more.
                let end = seq.saturating_add(1).min(self.edge);
                self.in_flight.on_arrival(now, end, payload.len() as u64, arrived);
                Taken::New { in_order: moved > 0 }
            }
            Insert::Duplicate => Taken::Duplicate,
            Insert::OutOfRange => Taken::OutOfRange,
            Insert::NoMemory => Taken::NoMemory,
        }
    }

    /// The window to offer for a start at `seq`.
    pub(super) fn first_window(&mut self, now: Instant, seq: u64) -> u64 {
        let wanted = u64::from(self.policy.window(seq));
        let window = wanted.min(self.in_flight.edge(seq) - seq);
        self.edge = seq + window;
        self.in_flight.on_offer(now, seq, self.edge, seq, window < wanted);
        window
    }

    /// What was offered of the socket's buffer and has not arrived, in bytes as the system charges them.
    pub(super) fn offered(&self) -> u64 {
        self.in_flight.held(self.reassembly.arrived(), self.edge)
    }

    /// The answer to a packet: the cumulative ACK and the window.
    pub(super) fn answer(&mut self, now: Instant) -> (u64, u64) {
        let (before, arrived) = (self.edge, self.reassembly.arrived());
        let (ack, window) = self.ack();
        let bounded = self.in_flight.edge(arrived) <= ack + window;
        self.in_flight.on_offer(now, before, ack + window, arrived, bounded);
        (ack, window)
    }

    /// The cumulative ACK and the window to tell now. While the application is behind, the window ends where
    /// packets as large as the largest so far would fill the memory: as what arrives is left unread, its right edge
    /// stays (RFC 9293, section 3.8.6).
    fn ack(&mut self) -> (u64, u64) {
        let ack = self.reassembly.rcv_nxt();
        let full = self.full_window();
        let window = match self.backlog() {
            0 => full,
            // Or its sender would count how often it was sent in vain.
            _ if self.refused => 0,
            backlog => full.min(self.room().saturating_sub(backlog) / self.reassembly.largest().max(1)),
        };
        self.narrowed = window < full;
        self.edge = self.edge.max(ack + window);
        (ack, window)
    }

    /// The same, if the peer waits for it: its window was narrowed and need not be any more.
    pub(super) fn window_update(&mut self) -> Option<(u64, u64)> {
        (self.narrowed && self.backlog() == 0).then(|| self.ack())
    }

    /// The window for an application that keeps up: what the policy says, and where bytes are kept for the application
    /// no more than fit beside what it may have unread without being behind. So what was offered when it falls behind
    /// fits, too. And no more than may be on its way, but for what was offered before the bound became narrower.
    fn full_window(&self) -> u64 {
        let reach = self.in_flight.edge(self.reassembly.arrived()).max(self.edge) - self.reassembly.rcv_nxt();
        let window = u64::from(self.policy.window(self.reassembly.rcv_nxt())).min(reach);
        let largest = self.reassembly.largest();
        if largest == 0 || !self.reassembly.keeps_payload() {
            return window;
        }
        window.min((self.memory / 2 / largest).max(1))
    }

    /// Unread bytes, if the application is behind: 0 for one that left no more than half of its room unread.
    fn backlog(&self) -> u64 {
        let unread = self.reassembly.unread();
        if unread > self.room() / 2 { unread } else { 0 }
    }

    /// Of the memory, what an application may fill with what it does not read, in bytes: as much again as may be on its way, for
    /// that must find room when it falls behind, and no more for a sender that has no larger window.
    fn room(&self) -> u64 {
        let on_its_way = self.full_window().saturating_mul(self.reassembly.largest());
        self.memory.min(UNREAD.max(on_its_way.saturating_mul(2)))
    }
}
