//! Transmission: chooses the next packet as a pure function of the sender's state, encodes it and
//! accounts for it. New data is sent in runs of segments of one length; a single segment is a run
//! of one.

use std::ops::Range;
use std::time::Instant;

use super::ack_frequency::AckFrequency;
use super::encode::{Encoded, Heads, Segments, put_segment};
use super::observer::DataRun;
use super::stream::SendStream;
use super::{Blocked, Closing, Sender, State};
use crate::congestion::DeliveryRate;
use crate::recovery::{Fate, Leave, Pending, Probe, Repeat, Resent, Segment, Timing};
use crate::send_buffer::Cut;
use crate::wire::DataHeader;
use crate::{PacketKind, Resend, TransmitBuf};

/// Divisor of the congestion window. A path MTU probe may hold back smaller segments until the
/// window has room for it, if it takes at most a quarter of the window.
const MTU_PROBE_CWND_DIVISOR: u64 = 4;

/// Next packet, or the reason to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Syn { attempt: u32 },
    Again(Repeat),
    Fresh(Fresh),
    KeepAlive,
    Fin { attempt: u32 },
    Wait(Blocked),
}

/// Result of an attempt to append packets to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Packets were appended.
    Sent,
    /// There is nothing to send before the next input, write or timer.
    Waits,
    /// The batch has no room for the next packet.
    Full,
}

/// Run of new segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fresh {
    /// Payload of each segment, bytes.
    len: usize,
    /// Number of segments, at least 1.
    count: u64,
    /// True for a tail loss probe.
    probe: bool,
}

impl Fresh {
    fn single(len: usize) -> Self {
        Self { len, count: 1, probe: false }
    }
}

impl Sender {
    /// True if a single new packet leaves next, and now.
    pub(super) fn sends_one(&self, now: Instant) -> bool {
        matches!(self.next(now), Next::Fresh(Fresh { count: 1, .. }))
    }

    fn next(&self, now: Instant) -> Next {
        match self.state {
            State::Opening { attempts, send: true, .. } => Next::Syn { attempt: attempts + 1 },
            State::Open => match self.closing {
                Some(Closing { unanswered, send: true, .. }) => Next::Fin { attempt: unanswered + 1 },
                _ => self.next_data(now),
            },
            _ => Next::Wait(Blocked::NoData),
        }
    }

    fn next_data(&self, now: Instant) -> Next {
        let next = self.next_unpaced();
        let len = match next {
            Next::Again(_) => self.path.mss,
            Next::Fresh(Fresh { len, .. }) => len,
            _ => return next,
        };
        if let Some(at) = self.congestion.paced_until(now, len as u64) {
            return Next::Wait(Blocked::Pacing(at));
        }
        match next {
            Next::Fresh(fresh @ Fresh { count: 2.., .. }) => {
                Next::Fresh(Fresh { count: self.congestion.paced(now, len, fresh.count).max(1), ..fresh })
            }
            next => next,
        }
    }

    fn next_unpaced(&self) -> Next {
        let len = self.fresh_len();
        match self.recovery.next(&self.flight.board) {
            Some(Pending::Probe) => return self.next_probe(len),
            Some(Pending::Repeat(repeat)) => return self.next_repeat(repeat),
            None => {}
        }
        if let Some(len) = self.mtu_probe_len() {
            let fits = self.cwnd_allows(len);
            return if fits { Next::Fresh(Fresh::single(len)) } else { Next::Wait(Blocked::Cwnd) };
        }
        // Not app-limited: with `spare_now` no data is written while the windows are full.
        let wanted = if len == 0 && self.blocked.filled_room { self.path.mss } else { len };
        match self.windows_allow(wanted) {
            Ok(()) if len == self.path.mss => {
                Next::Fresh(Fresh { count: self.run_len(), ..Fresh::single(len) })
            }
            Ok(()) if len > 0 => Next::Fresh(Fresh::single(len)),
            _ if self.keep_alive.due => Next::KeepAlive,
            Ok(()) => Next::Wait(Blocked::NoData),
            Err(blocked) => Next::Wait(blocked),
        }
    }

    /// Returns the number of full segments that are written and fit the windows, at least 1: the
    /// caller has checked one.
    fn run_len(&self) -> u64 {
        let (board, mss) = (&self.flight.board, self.path.mss as u64);
        let written = (self.stream.end() - board.next_offset()) / mss;
        let cwnd = self.congestion.room(board.in_flight()) / mss;
        written.min(cwnd).min(self.peer_room()).max(1)
    }

    /// Returns the number of full segments that fit the receive window.
    fn peer_room(&self) -> u64 {
        let board = &self.flight.board;
        self.peer.window.size.saturating_sub(board.flight_size()) / board.span(self.path.mss)
    }

    /// Returns the payload length of a path MTU probe, if one is due. If the congestion window is
    /// many times larger, other segments wait until it has room for the probe, because each ACK
    /// makes room for only a few segments.
    fn mtu_probe_len(&self) -> Option<usize> {
        let (len, board) = (self.mtu_candidate_len()?, &self.flight.board);
        let written = self.stream.end() - board.next_offset() >= len as u64;
        let roomy = len as u64 <= self.congestion.cwnd / MTU_PROBE_CWND_DIVISOR || self.cwnd_allows(len);
        // A zero-window probe, or a segment that the receive window cuts off, says nothing about
        // the path MTU.
        let taken = board.flight_size() + board.span(len) <= self.peer.window.size;
        (written && self.congestion.prr.is_none() && taken && roomy).then_some(len)
    }

    /// Returns the payload length of the next path MTU probe.
    fn mtu_candidate_len(&self) -> Option<usize> {
        let mtu = self.path.mtu.as_ref()?;
        let size = mtu.candidate().filter(|size| *size <= self.peer.max_datagram())?;
        Some(size - self.path.overhead())
    }

    /// Returns the number of bytes of new data that could be sent now if they were written, in
    /// whole packets.
    pub(super) fn window_room(&self) -> u64 {
        let mss = self.path.mss as u64;
        let cwnd = self.congestion.room(self.flight.board.in_flight());
        let room = (cwnd / mss).min(self.peer_room()) * mss;
        // The windows always allow one packet if nothing is in flight, or as a tail loss probe. A
        // path MTU probe needs enough written data.
        let probes =
            self.recovery.next(&self.flight.board) == Some(Pending::Probe) && self.peer_allows(self.path.mss);
        let alone = probes || self.windows_allow(self.path.mss).is_ok();
        let larger = self.mtu_candidate_len().unwrap_or(0);
        room.max(u64::from(alone) * mss).max(larger as u64)
    }

    /// True if the application may write: little unsent data is buffered.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        let wanted = if self.buffers_ahead() {
            SendStream::lookahead(self.congestion.cwnd, self.path.mss)
        } else {
            self.window_room()
        };
        let waiting = self.stream.end() - self.flight.board.next_offset();
        self.state == State::Open && !self.stream.finishing && waiting < wanted && !self.awaits_frames()
    }

    fn next_repeat(&self, repeat: Repeat) -> Next {
        if self.beyond_peer_window(repeat.offset) {
            return Next::Wait(Blocked::PeerWindow);
        }
        let allowed = match repeat.leave {
            Leave::Forced => true,
            Leave::InWindow => self.cwnd_allows(self.path.mss),
            Leave::AfterAnswer => false,
        };
        if allowed { Next::Again(repeat) } else { Next::Wait(Blocked::Cwnd) }
    }

    /// Chooses a tail loss probe: a segment known to be lost, else new data if the receive window
    /// has room, else the last segment in flight (RFC 8985, section 7.3).
    fn next_probe(&self, len: usize) -> Next {
        let again = |segment: &Segment| {
            Next::Again(Repeat { offset: segment.offset, reason: Resend::Probe, leave: Leave::Forced })
        };
        let board = &self.flight.board;
        if let Some(lost) = board.first_lost() {
            return again(lost);
        }
        if len > 0 && self.peer_allows(len) {
            return Next::Fresh(Fresh { probe: true, ..Fresh::single(len) });
        }
        let last = board.segments().rev().find(|segment| segment.fate == Fate::InFlight);
        last.map_or(Next::Wait(Blocked::NoData), again)
    }

    /// Returns the payload of the next new packet, bytes; 0 if it must wait for more data.
    pub(super) fn fresh_len(&self) -> usize {
        let board = &self.flight.board;
        self.stream.fresh_len(board.next_offset(), self.path.mss, board.una_offset())
    }

    /// Checks that the windows have room for `len` more bytes; else returns the reason. With
    /// nothing in flight one packet is always allowed, as a zero-window probe at the pace of the
    /// timer (RFC 9293, section 3.8.6.1).
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
        let board = &self.flight.board;
        board.is_empty() || board.flight_size() + board.span(len) <= self.peer.window.size
    }

    /// True if the segment at `offset` lies beyond the receive window, so that the receiver dropped
    /// it: the window shrank. Always false for the oldest segment, which probes the window.
    fn beyond_peer_window(&self, offset: u64) -> bool {
        let board = &self.flight.board;
        let base = board.una_offset();
        let packets = board.span(self.path.mss) == 1;
        let end = board.find(offset).map_or(base, Segment::end);
        !packets && offset > base && end - base > self.peer.window.size
    }

    fn cwnd_allows(&self, len: usize) -> bool {
        self.congestion.allows(self.flight.board.in_flight(), len)
    }

    /// Encodes the next packets and accounts for them.
    pub(super) fn transmit_next(&mut self, now: Instant, out: &mut TransmitBuf) -> Step {
        let sent = match self.next(now) {
            Next::Syn { attempt } => self.transmit_syn(now, attempt, out).map(|()| 1),
            Next::Again(repeat) => self.transmit_again(now, repeat, out).map(|()| 1),
            Next::Fresh(fresh) => self.transmit_fresh(now, fresh, out),
            Next::KeepAlive => self.transmit_keep_alive(now, out).map(|()| 1),
            Next::Fin { attempt } => self.transmit_fin(now, attempt, out).map(|()| 1),
            Next::Wait(why) => {
                self.wait(now, why);
                return Step::Waits;
            }
        };
        let Some(count) = sent else { return Step::Full };
        self.stats.datagrams_sent += count;
        self.blocked.go(now);
        Step::Sent
    }

    fn wait(&mut self, now: Instant, why: Blocked) {
        let is_over = self.stream.finishing && self.fresh_len() == 0;
        if is_over && self.recovery.next(&self.flight.board).is_none() {
            self.blocked.end(now);
        }
        if why == Blocked::NoData && !self.blocked.is_starved(now) {
            return self.blocked.cancel_pace();
        }
        self.congestion.on_stopped(now, why);
        if !self.blocked.is_stopped_for(why) {
            self.blocked.stop(now, why, self.flight.board.in_flight());
        }
        let in_flight = self.flight.board.in_flight();
        if let Some(rate) = self.flight.rate.as_mut()
            && self.congestion.leaves_path_idle(why)
            && in_flight < self.congestion.cwnd
        {
            rate.set_app_limited(in_flight);
        }
    }

    /// Sends new segments and returns their number.
    fn transmit_fresh(&mut self, now: Instant, fresh: Fresh, out: &mut TransmitBuf) -> Option<u64> {
        let cut = Cut { mss: fresh.len, ..self.cut() };
        let (first_of_batch, starts) = (out.is_empty(), self.flight.board.is_empty());
        let (seq, packet_number) = (self.flight.board.snd_nxt(), self.flight.next_number());
        let heads = self.heads(fresh.len, fresh.probe);
        let holds_back = fresh.len < self.path.mss && !self.is_alone(fresh.len as u64);
        let room = self.path.mss.saturating_sub(fresh.len);
        let ack = self.stream.carried_ack.take_if(|ack| fresh.count == 1 && ack.len() <= room);
        let Self { codec, stream, stats, .. } = self;
        let mut segments = Segments { codec, buffer: &mut stream.buffer, heads, cut, count: fresh.count };
        let in_place = fresh.len == self.path.mss && !fresh.probe;
        let encoded = segments.encode(ack.as_deref(), in_place.then_some(stats.retransmitted), out);
        let Some(Encoded { count, full }) = encoded else {
            self.stream.carried_ack = ack;
            return None;
        };
        let last = count.checked_sub(1)?;
        self.peer.ack_every = heads.nth(last).ack_every;
        if starts {
            // Nothing was unacknowledged until now, so the give-up time starts.
            self.give_up_timer.restart(now);
            self.keep_alive.cancel();
        }
        if first_of_batch && full {
            self.stream.batch = count * fresh.len as u64;
        }
        // Fits: a payload has at most 65,499 bytes.
        self.flight.push_run(now, u32::try_from(fresh.len).unwrap_or(u32::MAX), count);
        let first_deadline = self.start_timers(now, starts, count);
        self.account(now, count * fresh.len as u64);
        if holds_back {
            self.stream.short_end = self.flight.board.next_offset();
        }
        if fresh.len > self.path.mss {
            self.note_mtu_probe(cut.packet_len(), packet_number);
        }
        if fresh.probe {
            self.note_probe(packet_number, false);
        }
        if self.stats.first_data_at.is_none() {
            self.stats.first_data_at = Some(now);
            self.blocked.forget();
        }
        if self.observers.take_everything() {
            let bytes = cut.offset..self.flight.board.next_offset();
            let run = self.data_run(seq, packet_number, bytes, count);
            self.observe_run(now, first_deadline, run);
        }
        Some(count)
    }

    /// Reports new segments, of which the first had this deadline, if the others changed it.
    fn observe_run(&mut self, now: Instant, first_deadline: Option<Instant>, run: DataRun) {
        let deadlines = [first_deadline.or(run.deadlines[0]), run.deadlines[1]];
        self.observers.on_data_sent(now, &DataRun { deadlines, ..run });
    }

    /// Starts the timers for `count` new segments. Returns the deadline after the first of them, if
    /// the others changed it.
    fn start_timers(&mut self, now: Instant, starts: bool, count: u64) -> Option<Instant> {
        let alone = Timing { rtt: &self.path.rtt, may_wait: starts };
        if starts || count == 1 {
            self.recovery.on_sent(now, &alone);
        }
        if count == 1 {
            return None;
        }
        let first = if starts { self.recovery.deadline() } else { None };
        self.recovery.on_sent(now, &Timing { may_wait: false, ..alone });
        first
    }

    /// Returns the headers of the next new packets with `len` bytes each.
    fn heads(&self, len: usize, probe: bool) -> Heads {
        let board = &self.flight.board;
        Heads {
            seq: board.snd_nxt(),
            span: board.span(len),
            packet_number: self.flight.next_number(),
            number_step: self.flight.number_step(),
            len: len as u64,
            ack_now: if probe { 0 } else { self.last_of(board.next_offset(), len as u64) },
            frequency: self.ack_frequency(),
            in_flight: board.in_flight(),
        }
    }

    fn transmit_again(&mut self, now: Instant, repeat: Repeat, out: &mut TransmitBuf) -> Option<()> {
        let overhead = self.path.overhead();
        let board = &mut self.flight.board;
        // The path MTU may have become smaller since the first transmission.
        let whole = board.find(repeat.offset)?.len;
        board.recut(repeat.offset, u32::try_from(self.path.mss).unwrap_or(u32::MAX));
        let segment = *board.find(repeat.offset)?;
        if segment.len < whole {
            self.recovery.on_recut(segment.packet_number);
        }
        let slot = out.slot(overhead + segment.len as usize)?;
        // Base-only recovery retransmits without declaring a loss.
        self.path.on_lost(segment.packet_number);
        let (seq, packet_number) = (self.flight.board.number(segment.offset), self.flight.next_number());
        // The FIN may have been sent before, so no later packet triggers an immediate ACK.
        let last = self.stream.finishing && segment.end() == self.stream.end();
        let ack_now = repeat.reason == Resend::Probe || last;
        let ack_every = self.ack_frequency().packets_per_ack(self.flight.board.in_flight());
        self.peer.ack_every = ack_every;
        let head = DataHeader { seq, packet_number, ack_now, ack_every };
        put_segment(&self.codec, &mut self.stream.buffer, head, segment.offset, slot);
        self.flight.on_transmitted(now, Some(segment.offset), u64::from(segment.len), 1);
        self.flight.board.resend(now, segment.offset, packet_number);
        self.account(now, u64::from(segment.len));
        self.stats.retransmitted += 1;
        self.stats.retransmitted_bytes += u64::from(segment.len);
        let timing = Timing { rtt: &self.path.rtt, may_wait: self.may_wait() };
        let (has_room, time_left) = (self.has_room(), self.give_up_timer.time_left(now));
        self.recovery.on_resent(&Resent { now, timing, has_room, time_left, before: segment });
        match repeat.reason {
            // Counted here because an ACK after the timeout may cancel the retransmission.
            Resend::Timeout => self.stats.timeouts += u64::from(!self.recovery.marks_losses()),
            Resend::DupAcks | Resend::Lost => self.stats.fast_retransmits += 1,
            Resend::Probe => self.note_probe(packet_number, true),
        }
        if self.observers.take_everything() {
            let run = self.data_run(seq, packet_number, segment.offset..segment.end(), 1);
            let attempt = u32::from(segment.sent_count) + 1;
            self.observers.on_data_sent(now, &DataRun { attempt, resend: Some(repeat.reason), ..run });
        }
        Some(())
    }

    /// Accounts for stream bytes that were sent and recorded on the scoreboard.
    fn account(&mut self, now: Instant, bytes: u64) {
        let app_limited = self.flight.rate.as_ref().map(DeliveryRate::app_limited);
        self.congestion.on_sent(now, bytes, self.flight.board.in_flight(), app_limited);
    }

    fn note_mtu_probe(&mut self, size: usize, packet_number: u64) {
        let Some(mtu) = &mut self.path.mtu else { return };
        mtu.on_probe_sent(size, packet_number);
        self.recovery.excuse(Some(packet_number));
    }

    fn note_probe(&mut self, packet_number: u64, repeated: bool) {
        let (end, duplicates) = (self.flight.board.next_offset(), self.peer.duplicates);
        self.recovery.on_probe_sent(Probe { packet_number, end, repeated, duplicates });
        self.stats.probes += 1;
    }

    /// Returns true if so little is outstanding that the receiver may delay its ACK.
    pub(super) fn may_wait(&self) -> bool {
        // One packet fewer than the receiver waits for, or as many as the newest packet requested.
        let waits = self.peer.params.map_or(1, |params| params.ack_every.saturating_sub(1));
        let delayed = u64::from(self.peer.ack_every.max(waits).max(1)) * self.path.mss as u64;
        self.flight.board.outstanding() <= delayed
    }

    fn ack_frequency(&self) -> AckFrequency {
        let uses_sack = self.config.recovery.uses_sack();
        AckFrequency::choose(&self.path, &self.congestion, uses_sack)
    }

    fn transmit_keep_alive(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let (seq, packet_number) = (self.flight.board.snd_una(), self.flight.next_number());
        let head = DataHeader { seq, packet_number, ack_now: true, ack_every: 0 };
        let length = self.codec.keep_alive_len(head);
        self.codec.encode_keep_alive(head, out.slot(length)?);
        // Remove old records: the ACK of a keep-alive finds nothing outstanding and gives no RTT
        // sample, so without data the records of keep-alives would accumulate.
        self.flight.forget_resolved();
        self.flight.on_transmitted(now, None, 0, 1);
        self.keep_alive.on_sent(now, self.peer.idle_timeout());
        self.stats.keep_alives += 1;
        let offset = self.flight.board.next_offset();
        self.observers.on_sent(now, PacketKind::KeepAlive, (packet_number, seq), offset, length);
        Some(())
    }

    /// Returns the description of new packets for observers.
    #[cold]
    fn data_run(&self, seq: u64, packet_number: u64, bytes: Range<u64>, count: u64) -> DataRun {
        let (of, rto) = (self.config.attempts.data, self.path.rtt.rto());
        let deadlines = [self.recovery.deadline(); 2];
        DataRun {
            seq,
            packet_number,
            bytes,
            count,
            overhead: self.path.overhead(),
            attempt: 1,
            of,
            resend: None,
            rto,
            deadlines,
        }
    }
}
