//! The receiving machine of one peer: reassembles, answers every packet, computes the CRC-32 and closes.
//! It wires its parts together and owns only the state and the replies; `docs/PROTOCOL.md` gives the rules.
//! Admission, idle clean-up and the peer's address are the listener's.

pub mod ack_policy;
mod close;
mod config;
mod flight_limit;
mod flow_control;
mod packet_window;
pub mod sack_list;
mod selective_acks;
mod stats;
mod stream;
pub mod window;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::receive_buffer::Arrival;
use crate::wire::native::{MAX_SACK_BLOCKS, Params, SMALLEST_PATH, most_blocks};
use crate::wire::{self, Answer, MAX_REPLY, Near, Numbering, Open, Packet, Piece, Wire, Wishes};
use crate::{Ecn, TransmitBuf};
use ack_policy::AckConfig;
use close::{End, Fin};
pub use config::{AckPolicy, ReceiverConfig, WindowPolicy};
pub use flight_limit::BufferShare;
pub use stats::ReceiverStats;
use stream::Stream;

/// Replies kept for a caller that does not take them; then the oldest goes, as if the network had lost it.
const MAX_REPLIES: usize = 4096;

/// Bytes that the application may leave unread of a peer however little memory the others leave, so that none starves.
const LEAST_UNREAD: u64 = 128 << 10;

/// A peer that has no proof of its address is forgotten when it was silent for this long, as by the reference.
pub(crate) const CLASSIC_IDLE: Duration = Duration::from_secs(25);
/// One that has is waited for longer than a sender waits (100 s), so that a path that comes back finds its transfer.
pub(crate) const NATIVE_IDLE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No SYN yet.
    Listening,
    /// Data may come, up to `end` if the FIN came already.
    Open { end: Option<End> },
    /// Everything arrived, with another checksum than the sender's.
    Broken,
    /// The FIN was accepted, at `since`, and waits for the application.
    Finishing { seq: u64, since: Instant },
    /// The FIN is answered, and answered again when repeated.
    Finished { seq: u64, crc: u32 },
}

/// News of one peer for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// The listener admitted a new peer.
    Connected,
    /// A transfer begins. An earlier one that was not finished is void.
    Started,
    /// There are bytes to read. Repeated only for bytes that arrive after the application read some.
    Readable,
    /// Everything arrived. The FIN is answered once the application confirms ([`Receiver::confirm`]), so that it may
    /// refuse what it could not store.
    Finished {
        /// Bytes of the transfer.
        bytes: u64,
        /// Their CRC-32; 0 if it is not computed.
        crc: u32,
        /// From the first to the last data packet.
        elapsed: Duration,
    },
    /// The peer was idle for too long, or the application closed it.
    Closed {
        /// True if a transfer was under way.
        unfinished: bool,
    },
}

/// The receiving machine of one peer.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// After so long without a packet its listener forgets it.
    idle: Duration,
    wire: Wire,
    state: State,
    stream: Stream,
    /// Share of the socket's buffer; `None` for no limit.
    share: Option<BufferShare>,
    replies: VecDeque<Answer>,
    /// When the newest packet came of those in order that are answered together, as long as their answer was not made.
    ack_due: Option<Instant>,
    /// When to acknowledge: as configured, and no later than the sender wants.
    acks: AckConfig,
    /// Blocks of the longest ACK that the sender accepts.
    max_blocks: usize,
    /// Messages for which the socket had no room, as the listener said last, if it bounds windows by that.
    overflow: Option<u32>,
    /// What they were when the transfer began, for a sender that wants to be told of more.
    overflow_before: Option<u32>,
    events: VecDeque<ReceiverEvent>,
    readable_told: bool,
    first_data_at: Option<Instant>,
    last_data_at: Option<Instant>,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that waits for its SYN.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            idle: NATIVE_IDLE,
            config,
            wire: Wire::default(),
            state: State::Listening,
            stream: Stream::new(&config, Numbering::Packets, 0, MAX_SACK_BLOCKS),
            share: None,
            replies: VecDeque::new(),
            ack_due: None,
            acks: config.acks,
            max_blocks: MAX_SACK_BLOCKS,
            overflow: None,
            overflow_before: None,
            events: VecDeque::new(),
            readable_told: false,
            first_data_at: None,
            last_data_at: None,
            stats: ReceiverStats::default(),
        }
    }

    /// Announces, where the format can say it, that it is forgotten after so long without a packet.
    pub fn set_idle(&mut self, idle: Duration) {
        self.idle = idle;
    }

    /// Sets the share of the socket's buffer that the peer may have in flight. Initially there is no limit.
    pub fn set_share(&mut self, share: BufferShare) {
        self.share = Some(share);
        self.stream.flow.limit.set_share(share);
    }

    /// What of the socket's buffer it was offered and has not arrived, in bytes as the system charges
    /// them: nothing where no more is to come.
    pub fn offered(&self) -> u64 {
        if matches!(self.state, State::Open { .. }) {
            self.stream.flow.offered(&self.stream.buffer)
        } else {
            0
        }
    }

    /// So many messages found the socket's buffer full so far, modulo 2^32; `None` if windows do not follow it.
    pub fn set_overflow(&mut self, messages: Option<u32>) {
        self.overflow = messages;
    }

    /// True if [`Receiver::poll_reply`] makes its reply when it is asked, with a window as it is then.
    pub fn may_offer(&self) -> bool {
        self.ack_due.is_some() || self.replies.is_empty() && self.acknowledges()
    }

    /// Takes one packet that came with `ecn`. `memory` is how many bytes may be held, beyond holes or unread, though
    /// 128 KiB may be unread in any case.
    pub fn handle(&mut self, now: Instant, packet: &Packet<'_>, ecn: Ecn, memory: u64) {
        if !matches!(packet, Packet::Data(_)) {
            self.make_due_ack();
        }
        match packet {
            Packet::Syn(open) => self.on_syn(now, open),
            Packet::Data(piece) => self.on_data(now, piece, ecn, memory),
            Packet::Probe { tx } => self.stream.on_control(now, *tx, ecn, true),
            Packet::Fin { seq, seal, heeds_ack } => {
                let fin = Fin { seq: *seq, seal: *seal, heeds_ack: *heeds_ack };
                self.on_fin(now, fin, ecn);
            }
            // Its listener forgets the peer.
            Packet::Close => {}
        }
    }

    /// Writes the next packet for the peer into `out` and gives its length.
    pub fn poll_reply(&mut self, now: Instant, out: &mut [u8; MAX_REPLY]) -> Option<usize> {
        self.make_due_ack();
        if let Some(answer) = self.replies.pop_front() {
            return wire::encode_answer(self.wire, answer, || self.params(), out);
        }
        if !self.acknowledges() {
            return None;
        }
        let Stream { buffer, flow, selective } = &mut self.stream;
        let (mut ack, blocks) = selective.as_mut()?.take(now, flow, buffer)?;
        ack.overflow = self.overflow.zip(self.overflow_before).map(|(now, before)| now.wrapping_sub(before));
        let connection_id = self.wire.connection_id()?;
        self.stats.replies += 1;
        Some(wire::encode_ack(connection_id, &ack, blocks, out))
    }

    /// Writes the plain ACKs that [`Receiver::poll_reply`] would return next, until another reply comes first or the batch is
    /// full. Returns how many.
    pub(crate) fn fill_acks(&mut self, out: &mut TransmitBuf) -> u64 {
        // The ACK that is due replaces the newest one.
        let Some(len) = self.wire.plain_ack_len().filter(|_| self.ack_due.is_none()) else { return 0 };
        let mut count = 0;
        while let Some(&Answer::Ack { ack, wnd }) = self.replies.front()
            && let Some(slot) = out.slot(len)
        {
            wire::encode_plain_ack(ack, wnd, slot);
            self.replies.pop_front();
            count += 1;
        }
        count
    }

    /// True if [`Receiver::poll_reply`] may have something.
    pub fn may_reply(&self, now: Instant) -> bool {
        self.ack_due.is_some()
            || !self.replies.is_empty()
            || self.acknowledges() && self.stream.selective.as_ref().is_some_and(|acks| acks.may_ack(now))
    }

    /// When [`Receiver::poll_reply`] will have something, if nothing else happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.stream.selective.as_ref()?.deadline().filter(|_| self.acknowledges())
    }

    /// False once the answer to the FIN has said all that there is to say.
    fn acknowledges(&self) -> bool {
        !matches!(self.state, State::Finished { .. })
    }

    /// The next thing that the application should know.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// In-order bytes that were not consumed.
    pub fn data(&self) -> &[u8] {
        self.stream.buffer.data()
    }

    /// Takes the first `n` bytes of [`Receiver::data`] as read.
    pub fn consume(&mut self, n: usize) {
        let Stream { buffer, flow, selective } = &mut self.stream;
        buffer.consume(n as u64);
        if let Some(acks) = selective {
            acks.on_read();
        }
        self.readable_told = false;
        // An ACK that is due tells of the window as it is then.
        if matches!(self.state, State::Open { .. })
            && self.ack_due.is_none()
            && let Some((ack, wnd)) = flow.window_update(buffer)
        {
            self.reply(Answer::Ack { ack, wnd });
        }
    }

    /// Answers the FIN: the application has stored what [`ReceiverEvent::Finished`] told of.
    pub fn confirm(&mut self) {
        if let State::Finishing { seq, .. } = self.state {
            let crc = self.stream.buffer.crc();
            self.state = State::Finished { seq, crc };
            self.reply(Answer::FinAck { ack: seq, crc });
        }
    }

    /// True if everything arrived and has another checksum than the sender's: it must not be taken for good.
    pub fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Next number expected.
    pub fn rcv_nxt(&self) -> u64 {
        self.stream.buffer.rcv_nxt()
    }

    /// What the peer's numbers are unwrapped around.
    pub fn near(&self) -> Near {
        Near { seq: self.rcv_nxt(), tx: self.stream.selective.as_ref().map_or(0, |acks| acks.largest_tx()) }
    }

    /// Number of the peer's connection, where the format has one.
    pub fn connection_id(&self) -> Option<u64> {
        self.wire.connection_id().filter(|_| self.state != State::Listening)
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        self.stream.buffer.memory()
    }

    /// True if a transfer began and its FIN was not answered.
    pub fn is_unfinished(&self) -> bool {
        matches!(self.state, State::Open { .. } | State::Broken | State::Finishing { .. })
    }

    /// Counters as they stand.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    fn params(&self) -> Params {
        Params {
            max_datagram: Params::clamp_datagram(self.config.max_datagram),
            ack_delay_max_us: u32::try_from(self.acks.max_delay.as_micros()).unwrap_or(u32::MAX),
            ack_every: u16::try_from(self.acks.every.max(1)).unwrap_or(u16::MAX),
            idle_timeout_ms: Params::clamp_idle(self.idle),
            ecn: true,
            ..Params::default()
        }
    }

    /// Without a number of its own, every SYN starts the transfer again from its first number, even in
    /// mid-transfer; only one that finds nothing to start again is no news to the application. Where connections
    /// are numbered, one that repeats the number is a copy.
    fn on_syn(&mut self, now: Instant, open: &Open) {
        let copy = open.wire.connection_id().is_some() && open.wire == self.wire;
        match self.state {
            // The application is storing the transfer: the peer will ask again.
            State::Finishing { .. } => return self.stats.unexpected += 1,
            State::Open { .. } | State::Finished { .. } if copy => {}
            State::Open { .. }
                if open.wire == self.wire && self.first_data_at.is_none() && self.rcv_nxt() == open.seq => {}
            _ => {
                self.wire = open.wire;
                self.heed(open.wishes);
                let config = ReceiverConfig { acks: self.acks, ..self.config };
                self.stream = Stream::new(&config, open.wire.numbering(), open.seq, self.max_blocks);
                if let Some(share) = self.share {
                    self.stream.flow.limit.set_share(share);
                }
                self.first_data_at = None;
                self.last_data_at = None;
                self.state = State::Open { end: None };
                self.readable_told = false;
                self.events.retain(|event| *event != ReceiverEvent::Readable);
                self.events.push_back(ReceiverEvent::Started);
            }
        }
        // Data that followed an earlier copy of the SYN may have been accepted already, beyond what is offered.
        let Stream { buffer, flow, .. } = &mut self.stream;
        let wnd = flow.offer(now, buffer) - open.seq;
        self.reply(Answer::SynAck { ack: open.seq, wnd, attempt: open.attempt });
    }

    /// Acknowledges as the sender wants from now on, as far as that is not rarer or later than configured.
    fn heed(&mut self, wishes: Option<Wishes>) {
        let configured = self.config.acks;
        self.acks = wishes.map_or(configured, |want| configured.within(want.ack_every, want.ack_delay));
        self.overflow_before = self.overflow.filter(|_| wishes.is_some_and(|want| want.overflow));
        // An ACK must pass wherever data does: its sender may have found out that the path carries no more.
        let longest = |want: Wishes| want.max_datagram.min(SMALLEST_PATH);
        self.max_blocks = wishes.map_or(MAX_SACK_BLOCKS, |want| most_blocks(longest(want)));
    }

    fn on_data(&mut self, now: Instant, piece: &Piece<'_>, ecn: Ecn, memory: u64) {
        self.stats.data += 1;
        self.stats.ce += u64::from(ecn == Ecn::Ce);
        let end = match self.state {
            State::Open { end } => end.map_or(u64::MAX, |end| end.seq),
            // A sender that missed our answers, where it hears of single packets, sends again what is here.
            State::Finishing { seq, .. } if piece.tx.is_some() => seq,
            State::Finished { seq, crc } if piece.tx.is_some() => {
                // One answer does for all that come together.
                let answer = Answer::FinAck { ack: seq, crc };
                if self.replies.back() != Some(&answer) {
                    self.reply(answer);
                }
                return;
            }
            _ => return self.stats.unexpected += 1,
        };
        if piece.seq.saturating_add(piece.payload.len() as u64) > end {
            return self.stats.unexpected += 1;
        }
        let bytes = self.stream.buffer.bytes();
        let arrival = self.stream.insert(now, piece, ecn, memory);
        self.stats.socket_limited += self.stream.flow.limit.take_limited();
        match arrival {
            Arrival { new: 1.., advanced, .. } => {
                self.stats.bytes += self.stream.buffer.bytes() - bytes;
                self.stats.accepted += 1;
                self.stats.out_of_order += u64::from(advanced == 0);
                self.first_data_at.get_or_insert(now);
                self.last_data_at = Some(now);
                self.tell_readable();
            }
            // Answered, so that the sender knows that the receiver is alive, and its window.
            Arrival { next_refused: true, .. } => self.stats.no_memory += 1,
            Arrival { duplicate: 1.., .. } => self.stats.duplicates += 1,
            Arrival { no_room: 1.., .. } => return self.stats.no_memory += 1,
            _ => return self.stats.out_of_range += 1,
        }
        let is_next = arrival.advanced > 0 && self.config.ack == AckPolicy::Batch;
        if is_next && self.stream.selective.is_none() {
            self.ack_due = Some(now);
        } else {
            self.make_due_ack();
            self.answer(now);
        }
        self.finish_if_complete(now);
    }

    fn tell_readable(&mut self) {
        if !self.readable_told && !self.stream.buffer.data().is_empty() {
            self.readable_told = true;
            self.events.push_back(ReceiverEvent::Readable);
        }
    }

    /// Makes the answer to packets in order that is due, before anything else is said.
    fn make_due_ack(&mut self) {
        if let Some(came_at) = self.ack_due.take() {
            self.answer(came_at);
        }
    }

    /// Answers a packet, where each has an answer.
    fn answer(&mut self, now: Instant) {
        let Stream { buffer, flow, selective } = &mut self.stream;
        if selective.is_none() {
            let (ack, edge) = (buffer.rcv_nxt(), flow.offer(now, buffer));
            self.reply(Answer::Ack { ack, wnd: edge - ack });
        }
    }

    fn reply(&mut self, reply: Answer) {
        if self.config.ack == AckPolicy::Batch
            && let Answer::Ack { ack, .. } = reply
            && let Some(waiting @ Answer::Ack { .. }) = self.replies.back_mut()
            && matches!(*waiting, Answer::Ack { ack: earlier, .. } if earlier < ack)
        {
            *waiting = reply;
            return;
        }
        if self.replies.len() >= MAX_REPLIES {
            self.replies.pop_front();
            self.stats.replies_dropped += 1;
        }
        self.stats.replies += 1;
        self.replies.push_back(reply);
    }
}

#[cfg(test)]
mod tests;
