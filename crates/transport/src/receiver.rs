//! State machine of the receiver of one stream: data, replies, and close; and the handshake of a
//! classic transfer. Owns the state of the transfer and the reply queue; the stream, its flow
//! control and its ACKs are in their own files. `docs/PROTOCOL.md` and `docs/CLASSIC.md` have the
//! rules. Admission, the idle timeout and the peer's address belong to the owner of the receiver:
//! the set of peers (classic) or the connection (native).

mod ack_policy;
mod close;
mod config;
mod data;
mod events;
mod flight_limit;
mod flow_control;
mod handshake;
mod packet_window;
mod sack_list;
mod selective_acks;
mod stream;
mod window;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::receive_buffer::chunks::ChunkPool;
use crate::wire::classic::{REPLY_LEN, encode_answer};
use crate::wire::native::{self, SackBlock};
use crate::wire::{Answer, FromSender, Numbering};
use crate::{Ecn, TransmitBuf};
pub use ack_policy::AckConfig;
pub use config::{AckPolicy, ReceiverConfig, WindowConfig, WindowPolicy};
pub use events::{ReceiverEvent, ReceiverStats};
pub(crate) use flight_limit::BufferShare;
pub(crate) use handshake::Offer;
use stream::Stream;

/// Limit of queued replies. A full queue drops the oldest, as the network might.
const MAX_REPLIES: usize = 4096;

/// Packets in order after which the application hears of a classic transfer.
const PROBATION_PACKETS: u64 = 3;

/// Silence after which a classic sender is gone: its keep-alives are 10 s apart.
const CLASSIC_SILENCE_LIMIT: Duration = Duration::from_secs(12);

/// Unread bytes allowed to each peer even if other peers use up the memory, so that none starves.
const LEAST_UNREAD: u64 = 128 << 10;

/// Idle timeout of a classic peer, whose address is not validated; as in the reference.
pub(crate) const CLASSIC_IDLE: Duration = Duration::from_secs(25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No SYN has arrived.
    Listening,
    /// Data may arrive, up to `end` if the FIN has arrived.
    Open { end: Option<u64> },
    /// A FIN contradicts what arrived.
    Broken,
    /// The FIN was accepted at `since`. The FIN-ACK waits for the application's confirmation.
    Finishing { seq: u64, since: Instant },
    /// The FIN-ACK was sent. A retransmitted FIN gets another one.
    Finished { seq: u64, crc: u32 },
}

/// Receiver of one stream.
#[derive(Debug)]
pub(crate) struct Receiver {
    config: ReceiverConfig,
    state: State,
    /// Number of the first packet or byte of the transfer.
    first: u64,
    stream: Stream,
    /// Share of the socket's receive buffer; `None` for no limit.
    share: Option<BufferShare>,
    replies: VecDeque<Answer>,
    /// Arrival of the packet that a pending classic ACK will acknowledge ([`AckPolicy::Batch`]).
    ack_due: Option<Instant>,
    /// ACK frequency and delay: as configured, or as the sender requests if that is more frequent.
    acks: AckConfig,
    /// Drops in the socket's receive queue (`SO_RXQ_OVFL`), as last reported by the set.
    /// `None` if that queue does not limit the window.
    overflow: Option<u32>,
    /// True if the sender requested the count of drops.
    reports_drops: bool,
    /// First value of `overflow` in the transfer; `None` without a request.
    overflow_before: Option<u32>,
    events: VecDeque<ReceiverEvent>,
    readable_sent: bool,
    first_data_at: Option<Instant>,
    last_data_at: Option<Instant>,
    /// Arrival of the newest duplicate, such as a keep-alive.
    duplicate_at: Option<Instant>,
    /// True if the FIN arrived again before it was answered.
    fin_repeated: bool,
    /// Counters, without what the stream counts itself ([`Receiver::stats`]).
    stats: ReceiverStats,
}

impl Receiver {
    /// Returns a receiver that waits for a SYN.
    pub(crate) fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            state: State::Listening,
            first: 0,
            stream: Stream::new(&config, Numbering::Packets, 0),
            share: None,
            replies: VecDeque::new(),
            ack_due: None,
            acks: config.acks,
            overflow: None,
            reports_drops: false,
            overflow_before: None,
            events: VecDeque::new(),
            readable_sent: false,
            first_data_at: None,
            last_data_at: None,
            duplicate_at: None,
            fin_repeated: false,
            stats: ReceiverStats::default(),
        }
    }

    /// Sets the part of the socket's receive buffer that the peer may fill. Unlimited at first.
    pub(crate) fn set_share(&mut self, share: BufferShare) {
        self.share = Some(share);
        self.stream.flow.limit.set_share(share);
    }

    /// Handles the minimum RTT, as measured by the sender of this side's stream.
    pub(crate) fn on_min_rtt(&mut self, rtt: Duration) {
        self.stream.flow.limit.on_rtt(rtt);
    }

    /// Returns the part of the socket's receive buffer that is offered to the peer and not yet
    /// filled, in bytes of kernel accounting (truesize); 0 if no more data is expected.
    pub(crate) fn offered(&self) -> u64 {
        if matches!(self.state, State::Open { .. }) {
            self.stream.flow.offered(&self.stream.buffer)
        } else {
            0
        }
    }

    /// Sets the number of drops in the socket's receive queue, as in [`Receiver::overflow`].
    pub(crate) fn set_overflow(&mut self, messages: Option<u32>) {
        self.overflow = messages;
        if self.reports_drops {
            self.overflow_before = self.overflow_before.or(messages);
        }
    }

    /// True if [`Receiver::poll_reply`] would create an ACK with the current window.
    pub(crate) fn may_offer(&self) -> bool {
        self.ack_due.is_some()
    }

    /// Processes a packet. `memory` limits bytes beyond holes or unread, of which 128 KiB may be.
    #[inline]
    pub(crate) fn handle(&mut self, now: Instant, packet: &FromSender<'_>, ecn: Ecn, memory: u64) {
        if !matches!(packet, FromSender::Data(_)) {
            self.make_due_ack();
        }
        match packet {
            FromSender::Syn(open) => self.on_syn(now, open),
            FromSender::Data(piece) => self.handle_data(now, piece, ecn, memory),
            &FromSender::Fin { seq, packet_number, understands_ack } => {
                self.on_fin(now, seq, packet_number, understands_ack, ecn);
            }
        }
    }

    /// Returns the next classic reply.
    pub(crate) fn poll_reply(&mut self) -> Option<[u8; REPLY_LEN]> {
        self.make_due_ack();
        let answer = self.replies.pop_front()?;
        let mut reply = [0; REPLY_LEN];
        encode_answer(answer, &mut reply);
        Some(reply)
    }

    /// Drops the oldest queued replies but `count`.
    pub(crate) fn keep_newest_replies(&mut self, count: usize) {
        let excess = self.replies.len().saturating_sub(count);
        self.replies.drain(..excess);
    }

    /// True if a packet that leaves anyway should carry a selective ACK.
    pub(crate) fn has_ack_to_carry(&self) -> bool {
        self.stream.selective.as_ref().is_some_and(|acks| acks.is_worth_carrying())
    }

    pub(crate) fn request_ack(&mut self) {
        if let Some(acks) = &mut self.stream.selective {
            acks.request();
        }
    }

    /// Notes that the newest selective ACK left in a packet of its own.
    pub(crate) fn on_ack_left_alone(&mut self) {
        if let Some(acks) = &mut self.stream.selective {
            acks.on_left_alone();
        }
    }

    /// Returns the selective ACK to send now, if one is due.
    pub(crate) fn take_ack(&mut self, now: Instant) -> Option<(native::Ack, &[SackBlock])> {
        if !self.acknowledges() {
            return None;
        }
        let Stream { buffer, flow, selective } = &mut self.stream;
        let (mut ack, blocks) = selective.as_mut()?.take(now, flow, buffer)?;
        ack.overflow = self.overflow.zip(self.overflow_before).map(|(now, before)| now.wrapping_sub(before));
        self.stats.replies += 1;
        Some((ack, blocks))
    }

    /// Returns the length of the stream if a FIN-ACK is to be sent now (native).
    pub(crate) fn take_fin_ack(&mut self) -> Option<u64> {
        match self.replies.pop_front()? {
            Answer::FinAck { ack, .. } => Some(ack),
            _ => None,
        }
    }

    /// Writes queued classic ACKs into `out`, up to another reply. Returns their number.
    pub(crate) fn fill_acks(&mut self, out: &mut TransmitBuf) -> u64 {
        // A pending ACK may replace the newest queued one.
        if self.ack_due.is_some() {
            return 0;
        }
        let mut count = 0;
        while let Some(answer @ &Answer::Ack { .. }) = self.replies.front()
            && let Some(slot) = out.slot(REPLY_LEN)
        {
            encode_answer(*answer, slot);
            self.replies.pop_front();
            count += 1;
        }
        count
    }

    /// True if [`Receiver::poll_reply`] may return a packet.
    pub(crate) fn may_reply(&self) -> bool {
        self.ack_due.is_some() || !self.replies.is_empty()
    }

    /// Returns the time at which [`Receiver::take_ack`] will return an ACK if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.stream.selective.as_ref()?.deadline().filter(|_| self.acknowledges())
    }

    /// False once the FIN-ACK was sent, which acknowledges everything.
    fn acknowledges(&self) -> bool {
        !matches!(self.state, State::Finished { .. })
    }

    pub(crate) fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    pub(crate) fn unread(&self) -> u64 {
        self.stream.buffer.unread()
    }

    /// Returns the next unread in-order bytes, up to a chunk's end. Empty only if there are none.
    pub(crate) fn data(&self) -> &[u8] {
        self.stream.buffer.data()
    }

    /// Marks the next `n` bytes in order as read.
    pub(crate) fn consume(&mut self, n: usize) {
        let Stream { buffer, flow, selective } = &mut self.stream;
        buffer.consume(n as u64);
        if let Some(acks) = selective {
            acks.on_read();
        }
        self.readable_sent = false;
        // A pending ACK will carry the window anyway.
        if matches!(self.state, State::Open { .. })
            && self.ack_due.is_none()
            && let Some((ack, window)) = flow.window_update(buffer)
        {
            self.reply(Answer::Ack { ack, window });
        }
    }

    /// True if the whole stream has arrived and the application has read it.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.state, State::Finishing { .. } | State::Finished { .. }) && self.unread() == 0
    }

    /// True if the whole stream has arrived with its FIN, and the application has not confirmed it.
    pub(crate) fn awaits_confirmation(&self) -> bool {
        matches!(self.state, State::Finishing { .. })
    }

    /// True if the FIN-ACK was sent.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished { .. })
    }

    /// Sends the FIN-ACK: the application has stored the transfer of [`ReceiverEvent::Finished`].
    pub(crate) fn confirm(&mut self) {
        if let State::Finishing { seq, .. } = self.state {
            let crc = self.stream.buffer.crc();
            self.state = State::Finished { seq, crc };
            self.reply(Answer::FinAck { ack: seq, crc });
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    pub(crate) fn rcv_nxt(&self) -> u64 {
        self.stream.buffer.rcv_nxt()
    }

    /// Takes the memory of the stream from `pool`. Only before the first data.
    pub(crate) fn set_pool(&mut self, pool: ChunkPool) {
        self.stream.buffer.set_pool(pool);
    }

    /// Frees memory that an idle stream does not need.
    pub(crate) fn shrink(&mut self) {
        self.events.shrink_to_fit();
        self.replies.shrink_to_fit();
        self.stream.shrink();
    }

    /// Frees all memory of a transfer that was aborted. No packet of it may follow.
    pub(crate) fn discard(&mut self) {
        self.stream = Stream::new(&self.config, Numbering::Bytes, 0);
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.stream.buffer.memory()
    }

    /// True if a transfer began and its FIN was not answered.
    pub(crate) fn is_unfinished(&self) -> bool {
        matches!(self.state, State::Open { .. } | State::Broken | State::Finishing { .. })
    }

    /// True if three classic packets in order arrived, or all of the transfer. Of an empty transfer
    /// the FIN must be repeated, because a SYN and a FIN alone are cheap to forge.
    pub(crate) fn has_passed_probation(&self) -> bool {
        let packets = self.rcv_nxt() - self.first;
        match self.state {
            State::Finishing { .. } => packets > 0 || self.fin_repeated,
            State::Finished { .. } => true,
            _ => packets >= PROBATION_PACKETS,
        }
    }

    pub(crate) fn stats(&self) -> ReceiverStats {
        let Stream { buffer, flow, .. } = &self.stream;
        ReceiverStats {
            bytes: self.stats.bytes + buffer.bytes(),
            socket_limited: self.stats.socket_limited + flow.limit.limited(),
            ..self.stats
        }
    }

    /// Queues the pending classic ACK, so that it precedes any other reply.
    fn make_due_ack(&mut self) {
        if let Some(came_at) = self.ack_due.take() {
            self.answer(came_at);
        }
    }

    /// Queues the classic ACK of a packet.
    fn answer(&mut self, now: Instant) {
        let Stream { buffer, flow, selective } = &mut self.stream;
        if selective.is_none() {
            let (ack, edge) = (buffer.rcv_nxt(), flow.offer(now, buffer));
            self.reply(Answer::Ack { ack, window: edge - ack });
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
