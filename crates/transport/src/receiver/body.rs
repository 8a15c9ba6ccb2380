//! What of a stream arrived, and what there is to say of it, in the two ways in which wires number streams: by
//! packets or by bytes. The receiver wires either to its state.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::ack_policy::{Acks, Order, Packet};
use super::flight_limit::{BufferShare, FlightLimit};
use super::packets::Packets;
use super::sack_list::SackList;
use super::window::ReceiveWindow;
use super::{LEAST_UNREAD, ReceiverConfig};
use crate::Ecn;
use crate::planted;
use crate::receive_buffer::chunks::{CHUNK, SLOT};
use crate::receive_buffer::ranges::{self, Limits, MAX_RANGES, Segment, Stream};
use crate::receive_buffer::slots::{self, Reassembly};
use crate::wire::native::{Ack, FIRST_WINDOW, LEAST_FIRST_WINDOW, SackBlock};
use crate::wire::{Numbering, Piece};

/// Shortest interval and number of repetitions of an ACK that reopens a window. The interval doubles each time.
const REOPENED_AGAIN: Duration = Duration::from_millis(200);
const REOPENED_TIMES: u32 = 4;

/// What became of a packet of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It brought something new; `in_order` if nothing was missing before it.
    New { in_order: bool },
    /// It was here before.
    Duplicate,
    /// It is too far from what is expected.
    OutOfRange,
    /// There is no memory for it.
    NoMemory,
    /// It is the next one, but the application has left so much unread that there is no room for it.
    Unread,
}

#[derive(Debug)]
pub(crate) enum Body {
    Packets(Box<Packets>),
    Bytes(Box<Bytes>),
}

/// A stream that is numbered by bytes.
#[derive(Debug)]
pub(crate) struct Bytes {
    stream: Stream,
    acks: Acks,
    window: ReceiveWindow,
    in_flight: FlightLimit,
    sacks: SackList,
    /// The application read since the window was last looked at.
    read: bool,
    /// Bytes that may be held, unread or beyond holes, as the listener said last.
    memory: u64,
    /// The window of the last ACK, bytes.
    told: u64,
    /// What comes next was not taken when it came, and the application has not caught up since.
    refused: bool,
    /// The news that the window opened, until something arrives.
    reopened: Option<Reopened>,
    /// Newest transmission received.
    largest_tx: u64,
    /// The application's side is not kept, so everything in order counts as read.
    kept: bool,
}

/// Repetition of an ACK that reopens a window. Zero-window probes back off (RFC 9293, section 3.8.6.1), so a sender that
/// misses this ACK would ask again only after a long time.
#[derive(Debug, Clone, Copy)]
struct Reopened {
    /// Time of the next repetition.
    at: Instant,
    /// Interval before it.
    wait: Duration,
    /// Repetitions left.
    left: u32,
}

/// Bytes that are taken before anything is offered: no more than will be, but ten packets in any case.
fn unasked(config: &ReceiverConfig) -> u64 {
    let window = config.stream_window.initial.min(config.stream_window.max);
    FIRST_WINDOW.min(window).max(LEAST_FIRST_WINDOW)
}

impl Body {
    pub(crate) fn new(config: &ReceiverConfig, numbering: Numbering, first: u64) -> Self {
        let (payload, checksum) = (config.keep_payload, config.checksum);
        match numbering {
            Numbering::Packets => {
                let keep = slots::Keep { payload, checksum };
                let reassembly = Reassembly::new(first, u64::from(config.range), keep);
                Self::Packets(Box::new(Packets::new(reassembly, config.window)))
            }
            Numbering::Bytes => Self::Bytes(Box::new(Bytes {
                stream: Stream::new(first, MAX_RANGES, ranges::Keep { payload, checksum }),
                acks: Acks::new(config.acks),
                window: ReceiveWindow::new(first, config.stream_window).with_unasked(unasked(config)),
                in_flight: FlightLimit::new(numbering, config.stream_window.mss),
                sacks: SackList::new(),
                read: false,
                memory: LEAST_UNREAD,
                refused: false,
                told: FIRST_WINDOW,
                reopened: None,
                largest_tx: planted::first_tx(),
                kept: payload,
            })),
        }
    }

    /// What the peer may have on its way of the socket's buffer.
    pub(crate) fn set_share(&mut self, share: BufferShare) {
        match self {
            Self::Packets(packets) => packets.in_flight.set_share(share),
            Self::Bytes(bytes) => bytes.in_flight.set_share(share),
        }
    }

    /// What it was offered of that and has not arrived, in bytes as the system charges them.
    pub(crate) fn offered(&self) -> u64 {
        match self {
            Self::Packets(packets) => packets.offered(),
            Self::Bytes(bytes) => bytes.in_flight.held(bytes.window.arrived(), bytes.window.right_edge()),
        }
    }

    /// Round trips in which it waited for a window that would have been larger but for that, since this was asked last.
    pub(crate) fn take_limited(&mut self) -> u64 {
        match self {
            Self::Packets(packets) => packets.in_flight.take_limited(),
            Self::Bytes(bytes) => bytes.in_flight.take_limited(),
        }
    }

    /// Takes a packet of data that came with `ecn`. `memory` is how many bytes may be held beyond holes.
    pub(crate) fn insert(&mut self, now: Instant, piece: &Piece<'_>, ecn: Ecn, memory: u64) -> Taken {
        match self {
            Self::Packets(packets) => packets.insert(now, piece.seq, piece.payload, memory),
            Self::Bytes(bytes) => bytes.insert(now, piece, ecn, memory),
        }
    }

    /// The window to offer for a start at `seq`, counted from there: data that followed an earlier copy of the SYN may
    /// have been taken already, beyond what is offered.
    pub(crate) fn first_window(&mut self, now: Instant, seq: u64) -> u64 {
        match self {
            Self::Packets(packets) => packets.first_window(now, seq),
            Self::Bytes(bytes) => bytes.offer(now) - seq,
        }
    }

    /// The cumulative ACK and window that every packet of data is answered with, where that is the rule.
    pub(crate) fn plain_ack(&mut self, now: Instant) -> Option<(u64, u64)> {
        match self {
            Self::Packets(packets) => Some(packets.answer(now)),
            Self::Bytes(_) => None,
        }
    }

    /// The same, where the peer has to be told that the window opened; else ACKs of their own tell it.
    pub(crate) fn window_update(&mut self) -> Option<(u64, u64)> {
        match self {
            Self::Packets(packets) => packets.window_update(),
            Self::Bytes(_) => None,
        }
    }

    /// A packet that carries nothing wants an answer.
    pub(crate) fn on_probe(&mut self, now: Instant, tx: u64, ecn: Ecn) {
        if let Self::Bytes(bytes) = self {
            bytes.note(now, Packet { tx, ecn, order: Order::InOrder, asks: true, every: 0 });
        }
    }

    /// The FIN came; it is acknowledged at once if it came `early`, else it has an answer of its own.
    pub(crate) fn on_fin(&mut self, now: Instant, tx: u64, ecn: Ecn, early: bool) {
        if let Self::Bytes(bytes) = self {
            bytes.note(now, Packet { tx, ecn, order: Order::InOrder, asks: early, every: 0 });
        }
    }

    /// Next number expected.
    pub(crate) fn rcv_nxt(&self) -> u64 {
        match self {
            Self::Packets(packets) => packets.reassembly.rcv_nxt(),
            Self::Bytes(bytes) => bytes.stream.rcv_nxt(),
        }
    }

    /// Newest transmission received.
    pub(crate) fn largest_tx(&self) -> u64 {
        match self {
            Self::Packets(..) => 0,
            Self::Bytes(bytes) => bytes.largest_tx,
        }
    }

    pub(crate) fn data(&self) -> &[u8] {
        match self {
            Self::Packets(packets) => packets.reassembly.data(),
            Self::Bytes(bytes) => bytes.stream.data(),
        }
    }

    pub(crate) fn consume(&mut self, n: usize) {
        match self {
            Self::Packets(packets) => packets.reassembly.consume(n),
            Self::Bytes(bytes) => {
                bytes.stream.consume(n as u64);
                bytes.read = true;
            }
        }
    }

    /// Nothing more will come: no memory is kept for it.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Packets(packets) => packets.reassembly.end(),
            Self::Bytes(bytes) => bytes.stream.end(),
        }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.reassembly.is_contiguous(),
            Self::Bytes(bytes) => bytes.stream.is_contiguous(),
        }
    }

    /// Bytes in order so far.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Packets(packets) => packets.reassembly.bytes(),
            Self::Bytes(bytes) => bytes.stream.bytes(),
        }
    }

    /// Their CRC-32; 0 if it is not computed.
    pub(crate) fn crc(&self) -> u32 {
        match self {
            Self::Packets(packets) => packets.reassembly.crc(),
            Self::Bytes(bytes) => bytes.stream.crc(),
        }
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Packets(packets) => packets.reassembly.memory(),
            Self::Bytes(bytes) => bytes.stream.memory(),
        }
    }

    /// True if [`Body::take_ack`] may have something now.
    pub(crate) fn may_ack(&self, now: Instant) -> bool {
        match self {
            Self::Packets(..) => false,
            Self::Bytes(bytes) => bytes.read || bytes.acks.is_due(now) || bytes.repeats(now),
        }
    }

    /// When an ACK is due that is not due yet.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Packets(..) => None,
            Self::Bytes(bytes) => {
                let again = bytes.reopened.map(|reopened| reopened.at);
                [bytes.acks.deadline(), again].into_iter().flatten().min()
            }
        }
    }

    /// The selective ACK to send now, if one is due, with its blocks in `blocks`, at most `most` of them.
    pub(crate) fn take_ack(&mut self, now: Instant, most: usize, blocks: &mut Vec<SackBlock>) -> Option<Ack> {
        let Self::Bytes(bytes) = self else { return None };
        bytes.take_ack(now, most, blocks)
    }
}

impl Bytes {
    fn insert(&mut self, now: Instant, piece: &Piece<'_>, ecn: Ecn, memory: u64) -> Taken {
        let tx = piece.tx.unwrap_or(self.largest_tx);
        if piece.payload.is_empty() {
            self.note(now, Packet { tx, ecn, order: Order::InOrder, asks: true, every: 0 });
            return Taken::Duplicate;
        }
        let segment = Segment { offset: piece.seq, payload: piece.payload, crc: piece.crc };
        self.memory = memory.max(LEAST_UNREAD);
        // What is offered fits, although it may begin and end within pieces of memory.
        self.window.set_memory(memory.saturating_sub(2 * (CHUNK + SLOT)).max(LEAST_UNREAD));
        let right_edge = self.window.right_edge();
        let (end, length) =
            (piece.seq.saturating_add(piece.payload.len() as u64), piece.payload.len() as u64);
        self.in_flight.on_arrival(now, end.min(right_edge), length, self.window.arrived());
        let arrival = self.stream.insert(segment, Limits { right_edge, memory, unread: LEAST_UNREAD });
        let unread = arrival.no_room > 0 && piece.seq <= self.stream.rcv_nxt();
        let refused = arrival.new == 0 && (arrival.duplicate == 0 || unread);
        self.refused = unread || self.refused && arrival.advanced == 0;
        let order = if refused {
            // It was not here before, so it is no duplicate.
            Order::InOrder
        } else if arrival.new == 0 {
            Order::Duplicate
        } else if arrival.advanced == 0 {
            Order::BeyondHole
        } else if arrival.had_hole {
            Order::FilledHole
        } else {
            Order::InOrder
        };
        if arrival.advanced == 0 && arrival.new > 0 {
            self.report_block(piece.seq);
        }
        if arrival.new > 0 {
            self.window.on_arrival(now, end, self.stream.rcv_nxt());
            self.read |= !self.kept;
        }
        self.note(now, Packet { tx, ecn, order, asks: piece.asks || refused, every: piece.ack_every });
        match arrival {
            _ if arrival.new > 0 => Taken::New { in_order: arrival.advanced > 0 },
            _ if unread => Taken::Unread,
            _ if arrival.duplicate > 0 => Taken::Duplicate,
            _ if arrival.no_room > 0 => Taken::NoMemory,
            _ => Taken::OutOfRange,
        }
    }

    /// The right edge to tell now.
    fn offer(&mut self, now: Instant) -> u64 {
        let (before, arrived) = (self.window.right_edge(), self.window.arrived());
        self.window.set_most(self.in_flight.edge(arrived));
        let edge = self.window.offer(now);
        self.in_flight.on_offer(now, before, edge, arrived, self.window.is_bounded());
        edge
    }

    /// Bytes that wait for the application.
    fn unread(&self) -> u64 {
        self.stream.rcv_nxt() - self.stream.read_offset()
    }

    fn report_block(&mut self, offset: u64) {
        let block: Option<Range<u64>> = self.stream.held().range_of(offset);
        if let Some(block) = block {
            self.sacks.on_arrival(&block);
        }
    }

    fn note(&mut self, now: Instant, packet: Packet) {
        self.reopened = None;
        self.largest_tx = self.largest_tx.max(packet.tx);
        self.acks.on_packet(now, packet);
    }

    /// True if the news that the window opened is due again.
    fn repeats(&self, now: Instant) -> bool {
        self.reopened.is_some_and(|reopened| reopened.at <= now)
    }

    /// An ACK tells of this window. If the one before left no room for a packet, its sender waits for this news.
    fn note_told(&mut self, now: Instant, window: u64) {
        let mss = self.window.mss();
        let shut = std::mem::replace(&mut self.told, window) < mss;
        self.reopened = match self.reopened {
            _ if window < mss => None,
            Some(Reopened { at, wait, left }) if at <= now => {
                (left > 1).then(|| Reopened { at: now + 2 * wait, wait: 2 * wait, left: left - 1 })
            }
            None if shut => {
                // An answer takes a round trip.
                let wait = REOPENED_AGAIN.max(2 * self.window.rtt().unwrap_or_default());
                Some(Reopened { at: now + wait, wait, left: REOPENED_TIMES })
            }
            reopened => reopened,
        };
    }

    fn take_ack(&mut self, now: Instant, most: usize, blocks: &mut Vec<SackBlock>) -> Option<Ack> {
        if std::mem::take(&mut self.read) {
            self.window.on_read(now, self.stream.read_offset());
            // One that was refused waits to hear that there is room again, wherever the edge is.
            let caught_up = self.refused && self.unread() <= self.memory / 2;
            self.refused &= !caught_up;
            if caught_up || self.window.should_update() {
                self.acks.request();
            }
        }
        if self.repeats(now) {
            self.acks.request();
        }
        let fields = self.acks.take(now)?;
        let report = self.sacks.report(self.stream.held(), most);
        blocks.clear();
        blocks.extend(report.iter().map(|range| SackBlock { start: range.start, end: range.end }));
        blocks.sort_unstable_by_key(|block| block.start);
        let ack = self.stream.rcv_nxt();
        // The next expected bytes would be refused as well: the sender is to probe instead.
        let window = if self.refused { 0 } else { self.offer(now).saturating_sub(ack) };
        self.note_told(now, window);
        // Counts wrap on the wire, and a delay stays at the largest that it can say.
        #[allow(clippy::cast_possible_truncation, reason = "the wire carries counts modulo 2^32")]
        let low = |count: u64| count as u32;
        Some(Ack {
            echo_tx: fields.largest_tx,
            echo_delay_us: u32::try_from(fields.delay.as_micros()).unwrap_or(u32::MAX),
            ack,
            window,
            packets: low(fields.packets),
            duplicates: low(fields.duplicates),
            ce: low(fields.ce),
            ect: low(fields.ect0 + fields.ect1),
            overflow: None,
        })
    }
}
