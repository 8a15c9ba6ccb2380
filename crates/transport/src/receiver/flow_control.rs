//! Flow control: the data that is accepted from the peer, and the window offered to it.

use std::time::{Duration, Instant};

use super::flight_limit::FlightLimit;
use super::packet_window::{PacketWindow, Reception};
use super::window::ReceiveWindow;
use super::{LEAST_UNREAD, ReceiverConfig};
use crate::receive_buffer::chunks::{CHUNK, SLOT};
use crate::receive_buffer::{Arrival, Limits, ReceiveBuffer, Segment};
use crate::wire::Numbering;
use crate::wire::native::DataRun;

/// Payload of a full classic packet, in bytes.
const FULL_PACKET: u64 = 1464;

#[derive(Debug)]
pub(super) struct FlowControl {
    window: Window,
    /// Limit by the socket's receive buffer.
    pub(super) limit: FlightLimit,
    /// Limit of the bytes unread or beyond holes, as last set by the set.
    memory: u64,
    /// True if the next expected data was dropped for lack of memory, and none was accepted since.
    refused: bool,
}

/// Window in packets (classic) or bytes (native).
#[derive(Debug)]
enum Window {
    Packets(PacketWindow),
    Bytes(ReceiveWindow),
}

impl FlowControl {
    pub(super) fn new(config: &ReceiverConfig, numbering: Numbering, first: u64) -> Self {
        let (window, packet) = match numbering {
            Numbering::Packets => (Window::Packets(PacketWindow::new(first, config)), FULL_PACKET),
            Numbering::Bytes => {
                let window = ReceiveWindow::new(first, config.stream_window);
                (Window::Bytes(window), config.stream_window.mss)
            }
        };
        Self { window, limit: FlightLimit::new(numbering, packet), memory: LEAST_UNREAD, refused: false }
    }

    /// Inserts a segment into the buffer within the limits. `memory` limits the bytes beyond holes.
    #[inline]
    pub(super) fn insert(
        &mut self,
        now: Instant,
        segment: Segment<'_>,
        memory: u64,
        buffer: &mut ReceiveBuffer,
    ) -> Arrival {
        self.memory = memory.max(LEAST_UNREAD);
        let (seq, len) = (segment.seq, segment.payload.len() as u64);
        let (end, arrived, edge, limits) = match &mut self.window {
            Window::Packets(window) => {
                let Self { limit, memory: held, refused, .. } = self;
                let state = Reception { buffer, limit, memory: *held, refused: *refused };
                (seq.saturating_add(1), buffer.arrived(), window.edge(), window.limits(memory, state))
            }
            Window::Bytes(window) => {
                set_window_memory(window, memory);
                let right_edge = window.right_edge();
                let limits = Limits { right_edge, memory, unread: LEAST_UNREAD };
                (seq.saturating_add(len), window.arrived(), right_edge, limits)
            }
        };
        let arrival = buffer.insert(segment, limits);
        if arrival.new > 0 || matches!(self.window, Window::Bytes(_)) {
            // A packet beyond the offered edge says nothing about the path's capacity.
            self.limit.on_arrival(now, end.min(edge), len, arrived);
        }
        if let Window::Bytes(window) = &mut self.window
            && arrival.new > 0
        {
            window.on_arrival(now, end, buffer.rcv_nxt());
        }
        self.refused = arrival.next_refused || self.refused && arrival.advanced == 0;
        arrival
    }

    /// Appends packets to the buffer if all of their data is the next in order, no data is held
    /// beyond a hole, and the limits allow it. Else sets the memory limit and returns false.
    pub(super) fn append_run(
        &mut self,
        now: Instant,
        run: DataRun<'_>,
        memory: u64,
        buffer: &mut ReceiveBuffer,
    ) -> bool {
        let Window::Bytes(window) = &mut self.window else { return false };
        self.memory = memory.max(LEAST_UNREAD);
        set_window_memory(window, memory);
        let (range, arrived) = (run.range(), window.arrived());
        let limits = Limits { right_edge: window.right_edge(), memory, unread: LEAST_UNREAD };
        if !buffer.append_run(range.clone(), run.payloads(), limits) {
            return false;
        }
        self.limit.on_arrival(now, range.end, run.largest_payload(), arrived);
        window.on_arrival(now, range.end, buffer.rcv_nxt());
        self.refused = false;
        true
    }

    /// Returns the right edge to offer in the ACK sent now.
    pub(super) fn offer(&mut self, now: Instant, buffer: &ReceiveBuffer) -> u64 {
        let Self { window, limit, memory, refused } = self;
        let (arrived, before, edge, bounded) = match window {
            Window::Packets(window) => {
                let state = Reception { buffer, limit, memory: *memory, refused: *refused };
                let (before, edge) = (window.edge(), window.offer(state));
                (buffer.arrived(), before, edge, state.edge_limit() <= edge)
            }
            Window::Bytes(window) => {
                let (arrived, before) = (window.arrived(), window.right_edge());
                window.set_edge_limit(limit.edge(arrived));
                (arrived, before, window.offer(now), window.is_bounded())
            }
        };
        limit.on_offer(now, before, edge, arrived, bounded);
        edge
    }

    /// Returns the window for the selective ACK sent now. It is 0 after the next expected bytes
    /// were dropped for lack of memory, so that the sender probes instead of retransmitting.
    pub(super) fn window(&mut self, now: Instant, buffer: &ReceiveBuffer) -> u64 {
        if self.refused { 0 } else { self.offer(now, buffer).saturating_sub(buffer.rcv_nxt()) }
    }

    /// Returns the cumulative ACK and the window in packets for a window update, if one is due.
    pub(super) fn window_update(&mut self, buffer: &ReceiveBuffer) -> Option<(u64, u64)> {
        let Self { window, limit, memory, refused } = self;
        let state = Reception { buffer, limit, memory: *memory, refused: *refused };
        match window {
            Window::Packets(window) if window.should_update(state) => {
                Some((buffer.rcv_nxt(), window.offer(state) - buffer.rcv_nxt()))
            }
            _ => None,
        }
    }

    /// Handles a read by the application. True if a selective ACK should announce the window.
    pub(super) fn on_read(&mut self, now: Instant, buffer: &ReceiveBuffer) -> bool {
        let Window::Bytes(window) = &mut self.window else { return false };
        window.on_read(now, buffer.read_offset());
        // A sender whose data was dropped waits for this ACK, even if the right edge is unchanged.
        let caught_up = self.refused && buffer.unread() <= self.memory / 2;
        self.refused &= !caught_up;
        caught_up || window.should_update()
    }

    /// As [`Receiver::offered`](super::Receiver::offered) while the stream is open.
    pub(super) fn offered(&self, buffer: &ReceiveBuffer) -> u64 {
        let (arrived, edge) = match &self.window {
            Window::Packets(window) => (buffer.arrived(), window.edge()),
            Window::Bytes(window) => (window.arrived(), window.right_edge()),
        };
        self.limit.held(arrived, edge)
    }

    /// Returns the RTT measured by the window (native).
    pub(super) fn rtt(&self) -> Option<Duration> {
        match &self.window {
            Window::Packets(_) => None,
            Window::Bytes(window) => window.rtt(),
        }
    }
}

/// Limits the window so that offered bytes fit, although they may begin and end inside chunks.
fn set_window_memory(window: &mut ReceiveWindow, memory: u64) {
    window.set_memory(memory.saturating_sub(2 * (CHUNK + SLOT)).max(LEAST_UNREAD));
}
