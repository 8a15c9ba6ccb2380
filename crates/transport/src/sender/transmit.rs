//! What leaves: the decision, a pure function of the sender's state, and carrying it out. Every
//! packet is encoded into the batch and accounted for here.

use std::time::Instant;

use super::{Blocked, Closing, Fate, Sender, SentPacket, State};
use crate::planted::{self, Bug};
use crate::recovery::{Leave, Recovery, Repeat, Timing};
use crate::send_buffer::SendBuffer;
use crate::wire::native::CloseReason;
use crate::wire::{Codec, DataHead};
use crate::{PacketKind, Resend, Trace, TransmitBuf};

/// Of the congestion window, which part may be kept free for a segment that tries a larger
/// datagram.
const PROBE_SHARE: u64 = 4;

/// The one thing that may be sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Syn { attempt: u32 },
    Question,
    Again(Repeat),
    Fresh { len: usize, probe: bool },
    KeepAlive,
    Fin { attempt: u32 },
    Close(CloseReason),
    Wait(Blocked),
}

impl Sender {
    fn next(&self, now: Instant) -> Next {
        match self.state {
            State::Opening { attempts, send: true, .. } => Next::Syn { attempt: attempts + 1 },
            State::Open if self.asks() => Next::Question,
            State::Opening { .. } | State::Open if self.data_flows() => match self.closing {
                Some(Closing { attempts, send: true, .. }) => Next::Fin { attempt: attempts + 1 },
                _ => self.next_data(now),
            },
            State::Aborting { reason } => Next::Close(reason),
            _ => Next::Wait(Blocked::NoData),
        }
    }

    fn next_data(&self, now: Instant) -> Next {
        let next = self.next_unpaced();
        let bytes = match next {
            Next::Again(_) => self.mss,
            Next::Fresh { len, .. } => len,
            _ => return next,
        };
        match self.pacer.as_ref().and_then(|pacer| pacer.next_send_at(now, bytes as u64)) {
            Some(at) if at > now => Next::Wait(Blocked::Pacing(at)),
            _ => next,
        }
    }

    fn next_unpaced(&self) -> Next {
        let len = self.fresh_len();
        if let Recovery::Engine(rules) = &self.recovery
            && rules.probe_pending()
        {
            return self.next_probe(len);
        }
        if let Some(repeat) = self.next_repeat() {
            if self.beyond_peer_window(repeat.offset) {
                return Next::Wait(Blocked::PeerWindow);
            }
            let allowed = match repeat.leave {
                Leave::Forced => true,
                Leave::InWindow => self.cwnd_allows(self.mss),
                Leave::AfterAnswer => false,
            };
            return if allowed { Next::Again(repeat) } else { Next::Wait(Blocked::Cwnd) };
        }
        // Whoever writes only what the windows let out has written nothing where they let nothing
        // out.
        let wanted = if len == 0 && self.waiting.has_more() { self.mss } else { len };
        if let Some(len) = self.mtu_probe_len() {
            let fits = self.cwnd_allows(len);
            return if fits { Next::Fresh { len, probe: false } } else { Next::Wait(Blocked::Cwnd) };
        }
        match self.windows_allow(wanted) {
            Ok(()) if len > 0 => Next::Fresh { len, probe: false },
            _ if self.remind => Next::KeepAlive,
            Ok(()) => Next::Wait(Blocked::NoData),
            Err(blocked) => Next::Wait(blocked),
        }
    }

    /// Payload of a new segment that tries a larger datagram, if one is to be tried now. Where the
    /// window has many times its size, others wait until there is room for it: an ACK makes room
    /// for a few segments at once, never for more.
    pub(super) fn mtu_probe_len(&self) -> Option<usize> {
        let len = self.mtu_candidate_len()?;
        let written = self.buffer.end() - self.board.next_offset() >= len as u64;
        let roomy = len as u64 <= self.cwnd / PROBE_SHARE || self.cwnd_allows(len);
        // What asks a receiver whether it has room says nothing of the path, nor does what it takes
        // a part of.
        let taken = self.board.flight_size() + self.board.span(len) <= self.snd_wnd.size();
        (written && self.prr.is_none() && taken && roomy).then_some(len)
    }

    /// Payload of the next segment that tries a larger datagram.
    fn mtu_candidate_len(&self) -> Option<usize> {
        let mtu = self.mtu.as_ref().filter(|_| self.state == State::Open)?;
        // The receiver says what it takes. Where that was lost, it is taken to be what receivers
        // take that say nothing.
        let most = usize::from(self.peer.unwrap_or_default().max_datagram);
        let size = mtu.candidate().filter(|size| *size <= most)?;
        Some(size - self.config.wire.data_header())
    }

    /// Bytes of new data that could leave now, were they written, in whole packets.
    pub(super) fn window_room(&self) -> u64 {
        let mss = self.mss as u64;
        let cwnd = match &self.prr {
            Some(prr) => prr.sndcnt(),
            None => self.cwnd.saturating_sub(self.board.in_flight()),
        };
        let peer = self.snd_wnd.size().saturating_sub(self.board.flight_size()) / self.board.span(self.mss);
        let room = (cwnd / mss).min(peer) * mss;
        // One packet leaves where nothing is in flight, or as a probe, whatever the windows say;
        // and a larger datagram is not tried before it is written.
        let probes = matches!(&self.recovery, Recovery::Engine(rules) if rules.probe_pending());
        let alone = self.windows_allow(self.mss).is_ok() || (probes && self.peer_allows(self.mss));
        let larger = self.mtu_candidate_len().unwrap_or(0);
        room.max(u64::from(alone) * mss).max(larger as u64)
    }

    /// A segment known to be lost, else new data if there is any that the receiver has room for,
    /// else the last segment in flight again (RFC 8985, section 7.3).
    fn next_probe(&self, len: usize) -> Next {
        if let Some(lost) = self.board.first_lost() {
            let (reason, leave) = (Resend::Probe, Leave::Forced);
            return Next::Again(Repeat { offset: lost.offset, reason, leave });
        }
        if len > 0 && self.peer_allows(len) {
            return Next::Fresh { len, probe: true };
        }
        let last = self.board.segments().rev().find(|segment| segment.fate == Fate::InFlight);
        last.map_or(Next::Wait(Blocked::NoData), |last| {
            Next::Again(Repeat { offset: last.offset, reason: Resend::Probe, leave: Leave::Forced })
        })
    }

    pub(super) fn next_repeat(&self) -> Option<Repeat> {
        match &self.recovery {
            Recovery::BaseOnly(rules) => {
                let (reason, base) = (rules.pending()?, self.board.base()?);
                Some(Repeat { offset: base.offset, reason, leave: Leave::Forced })
            }
            Recovery::Engine(rules) => rules.next(&self.board),
        }
    }

    /// Bytes that the next new packet would carry; 0 if it must wait for more.
    pub(super) fn fresh_len(&self) -> usize {
        let waiting = self.buffer.end() - self.board.next_offset();
        let full = self.mss;
        match usize::try_from(waiting) {
            Ok(rest) if rest < full => {
                let pushed = self.pushed > self.board.next_offset() && self.board.is_empty();
                if self.finishing || pushed { rest } else { 0 }
            }
            _ => full,
        }
    }

    /// Reason why `len` more bytes may not leave, if a window has no room for them. With nothing in
    /// flight one packet may always leave: a window of 0 is probed so, at the pace of the timer
    /// (RFC 9293, section 3.8.6.1).
    pub(super) fn windows_allow(&self, len: usize) -> Result<(), Blocked> {
        if !self.peer_allows(len) {
            Err(Blocked::PeerWindow)
        } else if !self.cwnd_allows(len) {
            Err(Blocked::Cwnd)
        } else {
            Ok(())
        }
    }

    fn peer_allows(&self, len: usize) -> bool {
        let slack = u64::from(planted::is(Bug::WindowOffByOne));
        self.board.is_empty()
            || self.board.flight_size() + self.board.span(len) <= self.snd_wnd.size() + slack
    }

    /// The segment at `offset` lies beyond what the receiver takes, and so was refused rather than
    /// lost: early data may go beyond the window that is then offered. The base always leaves, as a
    /// probe.
    fn beyond_peer_window(&self, offset: u64) -> bool {
        let base = self.board.una_offset();
        let packets = self.board.span(self.mss) == 1;
        let end = self.board.find(offset).map_or(base, super::Segment::end);
        !packets && offset > base && end - base > self.snd_wnd.size()
    }

    fn cwnd_allows(&self, len: usize) -> bool {
        let (in_flight, len) = (self.board.in_flight(), len as u64);
        match &self.prr {
            Some(prr) => in_flight == 0 || len <= prr.sndcnt(),
            None => in_flight == 0 || in_flight + len <= self.cwnd,
        }
    }

    /// Encodes and accounts for one packet; false if there is none or it does not fit `out`.
    pub(super) fn transmit_one(&mut self, now: Instant, out: &mut TransmitBuf) -> bool {
        let sent = match self.next(now) {
            Next::Syn { attempt } => self.transmit_syn(now, attempt, out),
            Next::Question => self.transmit_question(now, out),
            Next::Again(repeat) => self.transmit_again(now, repeat, out),
            Next::Fresh { len, probe } => self.transmit_fresh(now, len, probe, out),
            Next::KeepAlive => self.transmit_keep_alive(now, out),
            Next::Fin { attempt } => self.transmit_fin(now, attempt, out),
            Next::Close(reason) => self.transmit_close(reason, out),
            Next::Wait(why) => {
                self.wait(now, why);
                None
            }
        };
        if sent.is_some() {
            self.stats.datagrams_sent += 1;
            self.waiting.go(now);
        }
        sent.is_some()
    }

    fn wait(&mut self, now: Instant, why: Blocked) {
        if why == Blocked::NoData && !self.waiting.is_starved(now) {
            return;
        }
        if self.waiting.reason() != Some(why) {
            self.waiting.stop(now, why, self.board.in_flight());
        }
        if let Some(delivery) = &mut self.delivery
            && matches!(why, Blocked::NoData | Blocked::PeerWindow)
            && self.board.in_flight() < self.cwnd
        {
            delivery.set_app_limited(self.board.in_flight());
        }
    }

    fn transmit_fresh(&mut self, now: Instant, len: usize, probe: bool, out: &mut TransmitBuf) -> Option<()> {
        let header = self.config.wire.data_header();
        let slot = out.slot(header + len)?;
        let (seq, offset) = (self.board.snd_nxt(), self.board.next_offset());
        let tx = self.sent_packets.next_tx();
        let asks = probe || self.is_last(offset + len as u64);
        let ack_every = self.ask_for_acks();
        let head = DataHead { seq, tx, asks, ack_every };
        let crc = put_segment(&self.codec, &mut self.buffer, head, offset, slot);
        self.buffer.sent(len, crc);
        let alone = self.board.is_empty();
        if alone {
            self.start_flight(now);
        }
        self.note_flight(now, Some(offset), len as u64);
        // A packet's payload is at most 65,499 bytes.
        self.board.push(now, u32::try_from(len).unwrap_or(u32::MAX), tx);
        if self.state == State::Open {
            self.recovery.on_sent(now, self.rtt.rto(), self.rtt.sampled(), alone);
        }
        self.note_sent(now, len as u64);
        if len > self.mss {
            self.note_mtu_probe(header + len, tx);
        }
        if probe {
            self.note_probe(tx, false);
        }
        self.stats.first_data_at.get_or_insert(now);
        self.trace_sent_data(now, seq, tx, offset, len, None);
        self.trace_data(now, seq, 1, None);
        Some(())
    }

    /// Something leaves while nothing is outstanding: until now nothing was owed.
    pub(super) fn start_flight(&mut self, now: Instant) {
        self.heard_at = Some(now);
        self.keep_alive = None;
        self.remind = false;
    }

    fn transmit_again(&mut self, now: Instant, repeat: Repeat, out: &mut TransmitBuf) -> Option<()> {
        let header = self.config.wire.data_header();
        // The path may have shrunk since it was cut.
        let whole = self.board.find(repeat.offset)?.len;
        self.board.recut(repeat.offset, u32::try_from(self.mss).unwrap_or(u32::MAX));
        let segment = *self.board.find(repeat.offset)?;
        if let Recovery::BaseOnly(rules) = &mut self.recovery
            && segment.len < whole
        {
            rules.on_recut(segment.tx);
        }
        let slot = out.slot(header + segment.len as usize)?;
        if let Some(mtu) = &mut self.mtu {
            // Rules that declare nothing lost send it again all the same.
            mtu.on_lost(segment.tx);
        }
        let tx = self.sent_packets.next_tx();
        let seq = self.board.number(segment.offset);
        // The FIN, which would make the receiver acknowledge it, may have left before.
        let last = self.finishing && segment.end() == self.buffer.end();
        let asks = repeat.reason == Resend::Probe || last;
        let ack_every = self.ask_for_acks();
        let head = DataHead { seq, tx, asks, ack_every };
        put_segment(&self.codec, &mut self.buffer, head, segment.offset, slot);
        self.note_flight(now, Some(segment.offset), u64::from(segment.len));
        self.board.resend(now, segment.offset, tx);
        self.note_sent(now, u64::from(segment.len));
        self.stats.retransmitted += 1;
        self.stats.retransmitted_bytes += u64::from(segment.len);
        let (timing, rest) = (self.timing(), self.patience(now));
        // A receiver without room is asked again by the timer alone.
        let timing = Timing { srtt: timing.srtt.filter(|_| self.has_room()), ..timing };
        match &mut self.recovery {
            Recovery::BaseOnly(rules) => {
                rules.on_resent(now, timing.rto.min(rest));
                self.stats.timeouts += u64::from(repeat.reason == Resend::Timeout);
            }
            Recovery::Engine(rules) => rules.on_resent(now, &timing, &segment),
        }
        match repeat.reason {
            Resend::Timeout => {}
            Resend::DupAcks | Resend::Lost => self.stats.fast_retransmits += 1,
            Resend::Probe => self.note_probe(tx, true),
        }
        self.trace_sent_data(now, seq, tx, segment.offset, segment.len as usize, Some(repeat.reason));
        self.trace_data(now, seq, u32::from(segment.sent_count) + 1, Some(repeat.reason));
        Some(())
    }

    /// Nothing comes after `end` for now, not even a FIN: nothing that would make the receiver
    /// acknowledge what it waits with. A source that pauses has pushed what it has.
    pub(super) fn is_last(&self, end: u64) -> bool {
        let followed = self.finishing && self.codec.fin_follows_data();
        end == self.buffer.end() && !followed && (self.finishing || self.pushed >= end)
    }

    /// The record of a transmission, where they are numbered.
    pub(super) fn note_flight(&mut self, now: Instant, offset: Option<u64>, bytes: u64) {
        if let Some(delivery) = &mut self.delivery {
            let state = delivery.on_sent(now, bytes, self.board.in_flight());
            self.sent_packets.push(SentPacket { offset, state }, bytes);
        }
    }

    /// Stream bytes left and are on the scoreboard.
    fn note_sent(&mut self, now: Instant, bytes: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, bytes);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(bytes);
        }
        if let Some(delivery) = &self.delivery {
            self.congestion.on_sent(now, bytes, self.board.in_flight(), delivery.app_limited());
        }
    }

    fn note_mtu_probe(&mut self, size: usize, tx: u64) {
        let Some(mtu) = &mut self.mtu else { return };
        mtu.on_probe_sent(size, tx);
        if let Recovery::Engine(rules) = &mut self.recovery {
            rules.excuse(mtu.probe());
        }
    }

    fn note_probe(&mut self, tx: u64, repeated: bool) {
        if let Recovery::Engine(rules) = &mut self.recovery {
            rules.on_probe_sent(tx, self.board.next_offset(), repeated, self.duplicates);
            self.stats.probes += 1;
        }
    }

    pub(super) fn timing(&self) -> Timing {
        Timing {
            rto: self.rtt.rto(),
            srtt: self.rtt.sampled(),
            may_wait: self.board.outstanding() <= u64::from(self.ack_every.max(1)) * self.mss as u64,
        }
    }

    /// Something that every receiver answers and none delivers.
    fn transmit_keep_alive(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let head =
            DataHead { seq: self.board.snd_una(), tx: self.sent_packets.next_tx(), asks: true, ack_every: 0 };
        self.codec.encode_keep_alive(head, out.slot(self.codec.keep_alive_len(head))?);
        self.note_flight(now, None, 0);
        self.remind = false;
        self.keep_alive = Some(now + self.reminder());
        self.stats.keep_alives += 1;
        self.trace_sent(now, PacketKind::KeepAlive, head.tx, head.seq, None);
        Some(())
    }

    fn transmit_close(&mut self, reason: CloseReason, out: &mut TransmitBuf) -> Option<()> {
        self.codec.encode_close(reason, out.slot(self.codec.close_len())?);
        self.state = State::Closed;
        Some(())
    }

    fn trace_data(&mut self, now: Instant, seq: u64, attempt: u32, resend: Option<Resend>) {
        if self.observer.is_some() {
            let (of, rto) = (self.config.attempts.data, self.rtt.rto());
            let deadline = self.recovery.deadline().unwrap_or(now);
            self.trace(now, &Trace::DataSent { seq, attempt, of, rto, deadline, resend });
        }
    }
}

/// Writes a whole segment from `offset` of the stream; gives its payload's CRC-32, where packets
/// have a check. That is read where the payload comes from: where it goes, it may not be in the
/// cache yet.
pub(super) fn put_segment(
    codec: &Codec,
    buffer: &mut SendBuffer,
    head: DataHead,
    offset: u64,
    slot: &mut [u8],
) -> Option<u32> {
    let (header, payload) = slot.split_at_mut(codec.data_header());
    let crc = codec.checks_packets().then(|| buffer.checksum(offset, payload.len()));
    codec.encode_data(head, crc.unwrap_or(0), header);
    buffer.copy_to(offset, payload);
    crc
}
