//! Selective ACKs of one stream (native): when the next one is due, and its contents.

use std::time::{Duration, Instant};

use super::ReceiverConfig;
use super::ack_policy::{Acks, Order, Received};
use super::flow_control::FlowControl;
use super::sack_list::SackList;
use crate::Ecn;
use crate::receive_buffer::{Arrival, ReceiveBuffer};
use crate::wire::Piece;
use crate::wire::native::{Ack, FITTING_BLOCKS, RunFields, SackBlock};

/// First interval, which doubles, of the repetitions of an ACK that reopens a window; their number.
const REOPEN_INTERVAL: Duration = Duration::from_millis(200);
const MAX_REOPEN_REPEATS: u32 = 4;

#[derive(Debug, Default)]
pub(super) struct SelectiveAcks {
    acks: Acks,
    sacks: SackList,
    /// Blocks of the newest ACK.
    blocks: Vec<SackBlock>,
    /// Bytes of stream in a packet of full size.
    mss: u64,
    /// True if the application read since the window was last updated.
    read: bool,
    /// Window of the newest ACK, bytes. Before the first one it counts as open.
    window: u64,
    reopened: Option<Reopened>,
    pub(super) largest_received: u64,
    /// Time of the first ACK, from which the times of all count.
    first_at: Option<Instant>,
}

/// Repetition of an ACK that reopens a window. Zero-window probes back off (RFC 9293, section
/// 3.8.6.1), so a sender that misses this ACK would probe only after a long time.
#[derive(Debug, Clone, Copy)]
struct Reopened {
    /// Time of the next repetition.
    at: Instant,
    /// Interval before `at`.
    wait: Duration,
    /// Repetitions left.
    left: u32,
}

impl SelectiveAcks {
    pub(super) fn new(config: &ReceiverConfig) -> Self {
        let (acks, mss) = (Acks::new(config.acks), config.stream_window.mss);
        Self { acks, mss, window: u64::MAX, ..Self::default() }
    }

    /// Handles the arrival of a data packet, after the buffer processed it with result `arrival`.
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        piece: &Piece<'_>,
        ecn: Ecn,
        arrival: &Arrival,
        buffer: &ReceiveBuffer,
    ) {
        let &Arrival { new, advanced, duplicate, next_refused, .. } = arrival;
        let refused = new == 0 && (duplicate == 0 || next_refused);
        let order = match new {
            // Dropped data is new, and no duplicate.
            0 if refused => Order::Next,
            0 => Order::Duplicate,
            _ if advanced == 0 => Order::BeyondHole,
            _ if arrival.had_hole => Order::FilledHole,
            _ => Order::Next,
        };
        if new > 0
            && advanced == 0
            && let Some(block) = buffer.held().and_then(|held| held.range_of(piece.seq))
        {
            self.sacks.on_arrival(&block);
        }
        // If the payload is not kept, in-order bytes count as read.
        self.read |= new > 0 && !buffer.keeps_payload();
        let packet_number = piece.packet_number.unwrap_or(self.largest_received);
        let (ack_now, every) = self.request_of(piece.ack_now, piece.ack_every);
        let ack_now = ack_now || refused;
        self.on_packets(now, Received { packet_number, count: 1, ecn, order, ack_now, every });
    }

    /// Handles the arrival of data packets that the buffer accepted in order, without a hole.
    pub(super) fn on_run(&mut self, now: Instant, run: &RunFields, ecn: Ecn, keeps_payload: bool) {
        self.read |= !keeps_payload;
        let (ack_now, every) = self.request_of(run.ack_now, run.ack_every);
        let count = u32::try_from(run.count).unwrap_or(u32::MAX);
        let order = Order::Next;
        self.on_packets(
            now,
            Received { packet_number: run.packet_number, count, ecn, order, ack_now, every },
        );
    }

    /// Returns the sender's request for ACKs, if it counts.
    fn request_of(&self, ack_now: bool, every: u16) -> (bool, u16) {
        if self.acks.is_exact() { (false, 0) } else { (ack_now, every) }
    }

    /// Handles the arrival of a packet without data. With `ack_now` it is acknowledged at once.
    pub(super) fn on_control(&mut self, now: Instant, packet_number: u64, ecn: Ecn, ack_now: bool) {
        let order = Order::Next;
        self.on_packets(now, Received { packet_number, count: 1, ecn, order, ack_now, every: 0 });
    }

    /// Releases memory that is needed only while data beyond a hole is held.
    pub(super) fn shrink(&mut self) {
        self.sacks.shrink();
        self.blocks = Vec::new();
    }

    pub(super) fn on_read(&mut self) {
        self.read = true;
    }

    /// True if a packet that leaves anyway should carry an ACK. Exact ACKs have their own rules.
    pub(super) fn is_worth_carrying(&self) -> bool {
        !self.acks.is_exact() && self.acks.is_worth_carrying()
    }

    pub(super) fn request(&mut self) {
        self.acks.request();
    }

    pub(super) fn on_left_alone(&mut self) {
        self.acks.on_left_alone();
    }

    /// Returns the time at which the next ACK is due, if none is due yet.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        let reopening = self.reopened.map(|reopened| reopened.at);
        [self.acks.deadline(), reopening].into_iter().flatten().min()
    }

    /// Returns the ACK to send now and its blocks, if one is due.
    pub(super) fn take(
        &mut self,
        now: Instant,
        flow: &mut FlowControl,
        buffer: &ReceiveBuffer,
    ) -> Option<(Ack, &[SackBlock])> {
        let update = std::mem::take(&mut self.read) && flow.on_read(now, buffer);
        // The ACK of packets that wait for one will carry the window.
        let waits = self.acks.is_exact() && self.acks.is_waiting();
        if update && !waits || self.is_reopening_due(now) {
            self.acks.request();
        }
        let fields = self.acks.take(now)?;
        self.blocks.clear();
        if let Some(held) = buffer.held() {
            let report = self.sacks.report(held, FITTING_BLOCKS);
            self.blocks.extend(report.iter().map(|range| SackBlock { start: range.start, end: range.end }));
            self.blocks.sort_unstable_by_key(|block| block.start);
        }
        let window = flow.window(now, buffer);
        self.on_window(now, window, flow.rtt());
        let sent = now.saturating_duration_since(*self.first_at.get_or_insert(now));
        // Counts and times wrap on the wire; delays saturate.
        #[allow(clippy::cast_possible_truncation, reason = "the wire carries counts modulo 2^32")]
        let low = |count: u64| count as u32;
        let ack = Ack {
            largest_received: fields.largest_received,
            sent_us: low(u64::try_from(sent.as_micros()).unwrap_or(u64::MAX)),
            echo_delay_us: u32::try_from(fields.delay.as_micros()).unwrap_or(u32::MAX),
            ack: buffer.rcv_nxt(),
            window,
            packets: low(fields.packets),
            duplicates: low(fields.duplicates),
            ce: low(fields.ce),
            ect: low(fields.ect0 + fields.ect1),
            overflow: None,
        };
        Some((ack, &self.blocks))
    }

    fn on_packets(&mut self, now: Instant, packets: Received) {
        self.reopened = None;
        self.largest_received = self.largest_received.max(packets.last());
        self.acks.on_packets(now, packets);
    }

    fn is_reopening_due(&self, now: Instant) -> bool {
        self.reopened.is_some_and(|reopened| reopened.at <= now)
    }

    /// Records the window of an ACK. If the previous window had no room for a packet, the sender
    /// waits for this ACK, so it will be repeated.
    fn on_window(&mut self, now: Instant, window: u64, rtt: Option<Duration>) {
        let was_closed = std::mem::replace(&mut self.window, window) < self.mss;
        self.reopened = match self.reopened {
            _ if window < self.mss => None,
            Some(Reopened { at, wait, left }) if at <= now => {
                (left > 1).then(|| Reopened { at: now + 2 * wait, wait: 2 * wait, left: left - 1 })
            }
            None if was_closed => {
                // New data arrives an RTT after the ACK at the earliest.
                let wait = REOPEN_INTERVAL.max(2 * rtt.unwrap_or_default());
                Some(Reopened { at: now + wait, wait, left: MAX_REOPEN_REPEATS })
            }
            reopened => reopened,
        };
    }
}
