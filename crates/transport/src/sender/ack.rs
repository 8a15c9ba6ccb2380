//! Processing of packets from the receiver. An ACK goes through the scoreboard, the RTT estimator,
//! loss detection and congestion control, in this order (`on_ack`), and so do the losses and marks
//! that it reports.

use std::time::{Duration, Instant};

use super::coalesced_acks::coalesce;
use super::congestion::Prior;
use super::{Path, Sender, State};
use crate::congestion::Cause;
use crate::endpoint::one_by_one;
use crate::recovery::scoreboard::Acked;
use crate::recovery::{AckArrival, AckOutcome, Ended, Lost, SegmentRun, Timing, Verdict};
use crate::wire::classic::REPLY_LEN;
use crate::wire::native::FITTING_BLOCKS;
use crate::wire::{Ack, Echo, FromReceiver, Numbering};
use crate::{Ecn, Endpoint, RtoPolicy, Trace, TransferError};

/// Packet numbers that the receiver echoes.
#[derive(Default)]
struct Echoes {
    /// Echo of this ACK, if it is above all earlier ones.
    fresh: Option<u64>,
    /// Send time of `fresh`.
    sent_at: Option<Instant>,
    /// Echo of this ACK, also if the ACK was reordered ("Largest Acknowledged" of RFC 9000).
    largest_acked: Option<u64>,
    /// Largest echo of all earlier ACKs.
    prior_largest: Option<u64>,
}

/// Information from newly acknowledged segments.
#[derive(Default)]
struct Arrived {
    /// True if a path MTU probe arrived.
    grown: bool,
    /// True if a segment is acknowledged whose only transmission is newer than the echoed one: the
    /// receiver cannot have it.
    impossible: bool,
    /// Bytes that left before the path changed.
    old_path_bytes: u64,
    /// Send time of the echoed transmission, taken from its segment; needed if its record is gone.
    echoed: Option<Instant>,
    /// Packet number and send time of the newest overtaken segment that was never retransmitted.
    /// The ACK of such a segment names the packet that overtook it.
    overtaken: Option<(u64, Instant)>,
}

impl Sender {
    /// See [`Endpoint::handle_datagrams`].
    pub(super) fn on_datagrams(&mut self, now: Instant, bytes: &mut [u8], stride: usize) -> usize {
        // The estimator of RFC 6298 weights samples by the data in flight, which is unknown within
        // coalesced ACKs.
        let unweighted = self.config.rto == RtoPolicy::Reference;
        let plain = self.config.wire.numbering() == Numbering::Packets
            && stride == REPLY_LEN
            && self.recovery.coalesces_acks();
        if bytes.is_empty() || !plain || !unweighted {
            return one_by_one(self, now, (), Ecn::NotEct, bytes, stride);
        }
        let datagrams = bytes.len().div_ceil(stride);
        let mut rest = bytes;
        while !rest.is_empty() {
            let Self { state, flight, codec, path, observers, .. } = self;
            let open = *state == State::Open;
            let run = if open {
                coalesce(now, rest, stride, flight, codec, &mut path.rtt, observers)
            } else {
                None
            };
            let taken = if let Some(run) = run {
                self.stats.datagrams_received += run.count as u64;
                self.give_up_timer.unreachable = None;
                self.on_ack(now, &Ack::plain(run.edge, run.window), true);
                self.after_call(now);
                run.count * stride
            } else {
                let taken = stride.min(rest.len());
                self.handle_datagram(now, (), Ecn::NotEct, &mut rest[..taken]);
                taken
            };
            rest = &mut rest[taken..];
        }
        datagrams
    }

    pub(super) fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        if let Ok(reply) = self.codec.decode(datagram, self.flight.board.snd_una()) {
            self.on_reply(now, &reply, datagram.len());
        } else {
            self.observers.on_received(now, None, datagram.len());
            self.stats.malformed += 1;
        }
    }

    /// Processes a decoded reply, from a packet of `len` bytes.
    fn on_reply(&mut self, now: Instant, reply: &FromReceiver<'_>, len: usize) {
        self.observers.on_received(now, Some(reply), len);
        self.give_up_timer.unreachable = None;
        match *reply {
            FromReceiver::Ack(ack) => self.on_ack(now, &ack, false),
            FromReceiver::SynAck { ack, window } => self.on_syn_ack(now, ack, window),
            FromReceiver::FinAck { ack, crc } => self.on_fin_ack(now, ack, crc),
        }
    }

    /// Processes a reply that the connection has opened and decoded (native), from a packet of
    /// `len` bytes.
    pub(crate) fn handle_reply(&mut self, now: Instant, reply: &FromReceiver<'_>, len: usize) {
        self.stats.datagrams_received += 1;
        self.on_reply(now, reply, len);
        self.after_call(now);
    }

    /// Processes an ACK. If it is `coalesced`, its RTT samples were taken and reported to observers
    /// before.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, coalesced: bool) {
        let una = self.flight.board.snd_una();
        // An authentic ACK of what was never sent is invalid in any state (native).
        let is_checked = self.state == State::Open || self.codec.has_packet_numbers();
        if is_checked && !self.is_possible(ack) {
            return;
        }
        if self.state != State::Open || ack.ack < una {
            return self.stats.stale += 1;
        }
        let prior = Prior::of(&self.flight.board, self.peer.window.size);
        self.peer.window.on_ack(ack, ack.ack > una, self.flight.next_number());
        if self.flight.board.is_empty() {
            self.note_storing(now, ack);
            return self.stats.stale += 1;
        }
        let Some(outcome) = self.apply(now, ack, prior.window, coalesced) else {
            return self.fail(TransferError::InvalidAcks);
        };
        if !coalesced {
            self.observers.on_ack(now, ack, &outcome);
        }
        self.note_progress(&outcome);
        if !self.config.recovery.uses_sack() {
            self.flight.measure_duplicates(&outcome);
        }
        let timing = Timing { rtt: &self.path.rtt, may_wait: self.may_wait() };
        let mut verdict = self.recovery.on_ack(&outcome, &timing, &mut self.flight);
        if let Some(dup_acks) = verdict.dup_acks {
            self.observers.on(now, &Trace::DupAckReceived { ack: ack.ack, window: ack.window, dup_acks });
        }
        self.stats.dup_acks += u64::from(outcome.repeats || verdict.dup_acks.is_some());
        if !verdict.lost.is_empty() {
            self.on_losses(now, std::mem::take(&mut verdict.lost), false);
        }
        if verdict.begins {
            self.on_episode(now, verdict.episode.unwrap_or(Cause::Loss), prior);
        }
        self.on_marks(now, ack, &outcome, prior);
        self.control_congestion(&outcome, &verdict, prior);
        if outcome.moved {
            self.on_moved(now, ack, outcome.latest_rtt, coalesced);
        }
        if !self.limit_invalid_acks() && !outcome.moved && outcome.bytes == 0 {
            self.limit_no_progress(now);
        }
    }

    /// Handles an advance of `snd_una`.
    fn on_moved(&mut self, now: Instant, ack: &Ack<'_>, sample: Option<Duration>, coalesced: bool) {
        if !coalesced {
            let Self { observers, recovery, path, .. } = self;
            let (ack, window) = (ack.ack, ack.window);
            observers.on_moved(now, || {
                let (rto, deadline) = (path.rtt.rto(), recovery.deadline());
                Trace::AckReceived { ack, window, rto, deadline, sample }
            });
        }
        let una = self.flight.board.una_offset();
        self.keep_alive.restart(now, self.is_idle(), || self.peer.idle_timeout());
        self.stream.buffer.release(una, self.stats.retransmitted);
        self.codec.on_acknowledged(una);
        self.stats.bytes_acked = una;
        self.stats.last_ack_at = Some(now);
        self.blocked.count(now);
        self.close_if_done();
        self.expect_fin_ack(now);
    }

    /// Applies an ACK to the scoreboard and the RTT estimator. `prior_window` is the receive window
    /// before it. Returns `None` if the receiver cannot have what the ACK reports.
    fn apply(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        prior_window: u64,
        coalesced: bool,
    ) -> Option<AckOutcome> {
        let prior_duplicates = self.peer.duplicates;
        self.peer.on_duplicates(ack.duplicates);
        let echoes = self.on_echo(ack);
        let mut arrived = Arrived::default();
        self.path.on_ack(now, ack.sent_us, echoes.sent_at);
        let acked = self.deliver(now, ack, &echoes, &mut arrived);
        if arrived.impossible {
            return None;
        }
        if let Some(mtu) = &mut self.path.mtu {
            mtu.on_ack(now);
        }
        if arrived.grown {
            self.resize();
        }
        let latest_rtt =
            if coalesced { None } else { self.on_trips(now, ack, &echoes, (acked.karn, &arrived)) };
        let (board, span) = (&self.flight.board, self.flight.board.span(self.path.mss));
        let window = self.peer.on_window(ack, prior_window, span, board, &self.path.rtt);
        let is_duplicate = self.peer.duplicates != prior_duplicates;
        let answers_packet = answers_packet(ack, &echoes, prior_window, is_duplicate);
        let repeats = !acked.moved && answers_packet && window.has_room;
        // If the receiver has nothing of the new path, the original of a retransmission arrived.
        let is_old = echoes.largest_acked.is_some_and(|number| self.path.is_older(number));
        Some(AckOutcome {
            now,
            moved: acked.moved,
            repeats,
            bytes: acked.bytes,
            old_path_bytes: if is_old { acked.bytes } else { arrived.old_path_bytes },
            largest_acked: echoes.largest_acked,
            duplicates: self.peer.duplicates,
            overflow: ack.overflow.filter(|_| self.config.wants_overflow()),
            window,
            latest_rtt,
            mss: self.path.mss as u64,
        })
    }

    /// Takes the RTT samples of an ACK: of its echo (native) or by Karn's algorithm (classic), and
    /// of a reordered segment. Returns the newest one.
    fn on_trips(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        echoes: &Echoes,
        (karn, arrived): (Option<Instant>, &Arrived),
    ) -> Option<Duration> {
        let Self { flight, path, peer, .. } = self;
        let since = |sent_at: Instant| now.saturating_duration_since(sent_at);
        let sample = match ack.echo {
            Some(echo) => {
                // After a timeout the records are gone, but a segment that was never retransmitted
                // has its send time.
                let sent_at = echoes.sent_at.or(arrived.echoed);
                let sent_at = sent_at.filter(|_| !path.is_older(echo.packet_number));
                sent_at.map(|sent_at| path.without_delay(since(sent_at), echo.delay))
            }
            None => karn.map(since),
        };
        let late = arrived.overtaken.filter(|(number, _)| !path.is_older(*number));
        let late = late.map(|(_, sent_at)| since(sent_at));
        // One sample is expected for every two packets in flight, or `ack_every` if that is more.
        // At most as many packets are on their way as were sent since the echoed one. Recovery that
        // marks no losses counts more in flight: all that arrived beyond a hole. If it sends one
        // packet per timeout, there is one sample per timeout, which must count in full.
        let next_number = flight.next_number();
        let sent_since = ack.echo.map_or(u64::MAX, |echo| next_number.saturating_sub(echo.packet_number));
        let packets = (flight.board.in_flight() / path.mss as u64).min(sent_since);
        let samples = u32::try_from(packets / u64::from(peer.ack_every.max(2))).unwrap_or(u32::MAX);
        for sample in sample.into_iter().chain(late) {
            path.on_sample(sample, samples);
        }
        sample.or(late)
    }

    /// Records the packet number that an ACK echoes.
    fn on_echo(&mut self, ack: &Ack<'_>) -> Echoes {
        let mut echoes = Echoes { prior_largest: self.flight.largest_acked, ..Echoes::default() };
        let Some(Echo { packet_number, .. }) = ack.echo else { return echoes };
        echoes.largest_acked = Some(packet_number);
        if echoes.prior_largest.is_none_or(|before| before < packet_number) {
            self.flight.largest_acked = Some(packet_number);
            echoes.fresh = Some(packet_number);
            echoes.sent_at = self.flight.sent_at(packet_number);
            if let Some(sent_at) = echoes.sent_at {
                self.note_fin_echo(packet_number, sent_at);
            }
        }
        echoes
    }

    /// Marks on the scoreboard what the ACK and its SACK blocks acknowledge. Collects send times
    /// and sizes in `arrived`.
    fn deliver(&mut self, now: Instant, ack: &Ack<'_>, echoes: &Echoes, arrived: &mut Arrived) -> Acked {
        let Self { config, flight, recovery, path, observers, stats, .. } = self;
        // Data counts as delivered when its ACK left, less the unknown least time of an ACK.
        let delivered_at = now.checked_sub(path.way_back.delay).unwrap_or(now);
        let Path { rtt, mtu, first_number, .. } = path;
        let blocks = ack.sack.iter();
        let (largest_acked, next_number) = (echoes.largest_acked, flight.next_number());
        let arrival =
            AckArrival { now, rtt, largest_acked, next_number, full: blocks.len() >= FITTING_BLOCKS };
        recovery.on_ack_begins(&arrival);
        if ack.ack <= flight.board.snd_una() && blocks.len() == 0 {
            return Acked::default();
        }
        let Arrived { grown, impossible, old_path_bytes, echoed, overtaken } = arrived;
        let uses_sack = config.recovery.uses_sack();
        // Without SACK the arrival time of a reordered segment is unknown.
        let overtaking = echoes.prior_largest.filter(|_| uses_sack);
        let mut on_delivered = |run: &SegmentRun<'_>| {
            observers.on_acked(now, run);
            let newest = run.last;
            *impossible |=
                newest.sent_count == 1 && largest_acked.is_some_and(|largest| newest.packet_number > largest);
            if newest.packet_number < *first_number {
                *old_path_bytes += run.bytes();
            }
            if echoes.fresh == Some(run.first.packet_number) {
                *echoed = Some(run.first.sent_at);
            }
            if let Some(largest) = overtaking {
                *overtaken = (*overtaken).max(run.newest_below(largest));
            }
            recovery.on_delivered(run, &arrival);
            *grown |= mtu.as_mut().is_some_and(|mtu| mtu.on_delivered(&run.packet_numbers()));
        };
        let mut acked = flight.acknowledge(delivered_at, ack.ack, &mut on_delivered);
        for block in blocks.filter(|_| uses_sack) {
            // A block of data that was never sent is invalid as a whole.
            if block.end <= flight.board.next_offset() {
                acked.bytes += flight.sack(delivered_at, &(block.start..block.end), &mut on_delivered);
            } else {
                stats.acks_beyond += 1;
            }
        }
        acked
    }

    /// Adopts the datagram size confirmed by path MTU discovery.
    pub(super) fn resize(&mut self) {
        let Some(size) = self.path.resize() else { return };
        self.stats.packet_size = size;
        self.congestion.resize(&self.config, size, self.path.mss);
    }

    /// Restarts the give-up time if the ACK delivered data or closed the window. Other ACKs may
    /// come from a path that delivers no data.
    fn note_progress(&mut self, outcome: &AckOutcome) {
        if outcome.moved || outcome.bytes > 0 {
            self.give_up_timer.restart(outcome.now);
        } else if !outcome.window.has_room {
            self.give_up_timer.on_answer(outcome.now);
        }
    }

    /// Accounts for segments declared lost. If `refused`, the receiver dropped them for lack of
    /// room, and they do not count as lost.
    pub(super) fn on_losses(&mut self, now: Instant, lost: Vec<Lost>, refused: bool) {
        for lost in lost {
            let excused = self.path.mtu_probe() == Some(lost.packet_number);
            self.path.on_lost(lost.packet_number);
            if refused {
                continue;
            }
            self.stats.lost += 1;
            self.stats.lost_to_socket += u64::from(lost.to_socket);
            self.observers.on_lost(now, &lost);
            // Path MTU probes and drops in the receiver's socket are no signs of congestion.
            if !excused && !lost.to_socket {
                let bytes = u64::from(lost.bytes);
                let packet = self.flight.rate.as_mut().and_then(|rate| {
                    rate.on_lost(bytes);
                    lost.state.map(|state| rate.lost_packet(now, &state, bytes))
                });
                self.congestion.on_lost(bytes, packet.as_ref());
            }
        }
    }

    /// Begins a recovery episode for losses detected by ACKs. `cause` is that for the controller:
    /// in Tahoe the window responds as to a timeout.
    pub(super) fn on_episode(&mut self, now: Instant, cause: Cause, prior: Prior) {
        self.stats.recoveries += 1;
        self.observers.on(now, &Trace::RecoveryBegan { cause: Cause::Loss });
        self.slow_down(now, cause, prior);
    }

    /// Responds to the CE marks that an ACK reports.
    fn on_marks(&mut self, now: Instant, ack: &Ack<'_>, outcome: &AckOutcome, prior: Prior) {
        let Some(marks) = ack.marks else { return };
        let (marked, answer) = self.path.ecn.on_ack(marks, outcome.largest_acked);
        self.stats.ce_marks += u64::from(marked);
        if answer {
            self.stats.ecn_reductions += 1;
            self.observers.on(now, &Trace::EcnReduced);
            self.slow_down(now, Cause::Ecn, prior);
        }
    }

    /// Reports an ACK to the controller and updates PRR.
    fn control_congestion(&mut self, outcome: &AckOutcome, verdict: &Verdict, prior: Prior) {
        let now = outcome.now;
        let found = self.congestion.has_lost();
        self.report_ack(outcome, prior.in_flight, verdict.episode);
        match verdict.ended {
            Some(Ended::Spurious { timeout, late_rtt }) => {
                self.respond_to_spurious(outcome, timeout, late_rtt);
            }
            Some(Ended::Recovered) => {
                self.observers.on(now, &Trace::RecoveryEnded { spurious: false });
                self.congestion.prr = None;
            }
            Some(Ended::RepairedByProbe) => {
                self.observers.on(now, &Trace::ProbeRepaired);
                self.slow_down(now, Cause::Loss, prior);
                self.congestion.prr = None;
            }
            None => {}
        }
        let board = &self.flight.board;
        // `DeliveredData` of RFC 9937: without data that duplicate ACKs already reported.
        let delivered = (outcome.bytes + board.assumed()).saturating_sub(prior.assumed);
        self.congestion.on_ack_in_recovery(delivered, board.in_flight(), outcome.moved && !found);
        if outcome.restarts_timers() {
            let timing = Timing { rtt: &self.path.rtt, may_wait: self.may_wait() };
            self.recovery.rearm(outcome, &timing, &self.flight.board);
        }
        // Without a delivery rate no ACK is reported to the controller: its window changes only
        // with episodes, and base-only recovery (classic) has none.
        if self.flight.rate.is_some() || self.recovery.marks_losses() {
            self.pace(now);
        }
    }

    /// Undoes the response to a spurious loss. Step 9 of RFC 4015, section 3.2, raises the RTO
    /// above the delay.
    #[cold]
    fn respond_to_spurious(&mut self, outcome: &AckOutcome, timeout: bool, late_rtt: Option<Duration>) {
        self.stats.spurious += 1;
        self.observers.on(outcome.now, &Trace::RecoveryEnded { spurious: true });
        let first = u64::from(self.config.initial_window) * outcome.mss;
        self.congestion.on_spurious(outcome, self.flight.board.in_flight(), first);
        if let Some(sample) = late_rtt.or(outcome.latest_rtt).filter(|_| timeout) {
            self.path.on_spurious_timeout(sample);
        }
    }
}

/// True if the ACK answers a packet, so that it may be a duplicate ACK. `is_duplicate` is true if
/// that packet was one itself.
///
/// RFC 5681, section 2, tells duplicate ACKs from window updates by an unchanged window. A native
/// window may change with every packet, but native ACKs echo a transmission: a new echo shows that
/// a packet arrived. It is no duplicate ACK if the packet itself was a duplicate, or was dropped
/// for lack of room.
#[inline]
fn answers_packet(ack: &Ack<'_>, echoes: &Echoes, prior_window: u64, is_duplicate: bool) -> bool {
    match ack.echo {
        Some(_) => echoes.fresh.is_some() && !is_duplicate,
        None => ack.window == prior_window,
    }
}
