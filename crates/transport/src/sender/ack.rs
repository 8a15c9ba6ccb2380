//! What an answer means. `on_ack` reads top to bottom as the protocol does: the scoreboard takes
//! the ACK, the round-trip time its sample, the loss detector judges what is still out, and the
//! congestion controller hears of all of it.

use std::time::{Duration, Instant};

use super::Sender;
use super::timeout::LostTo;
use crate::congestion::{AckEvent, Cause, CongestionEvent, Prr, PrrAck, SentState};
use crate::planted::{self, Bug};
use crate::receiver::sack_list::MAX_BLOCKS;
use crate::recovery::{AckOutcome, Delivered, Ended, Expired, Recovery};
use crate::wire::{Ack, Reply};
use crate::{MAX_DATAGRAM, Trace};

/// Segments that one call to the kernel takes at most.
const MAX_SEGMENTS: usize = 64;

/// Window and flight just before an ACK or a timer: reductions count from them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prior {
    /// Bytes in flight (`pipe` of RFC 6675).
    pub(super) in_flight: u64,
    /// `RecoverFS`, bytes: outstanding, less what SACK or duplicate ACKs already reported as
    /// delivered (RFC 9937, section 6).
    pub(super) recover_fs: u64,
    /// The receiver's window, in the wire's numbers.
    pub(super) wnd: u64,
}

impl Sender {
    pub(super) fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let reply = self.codec.decode(datagram, self.board.snd_una(), self.sent_packets.next_tx());
        self.trace_received(now, reply.as_ref().ok(), datagram.len());
        if reply.is_ok() {
            self.refusals = None;
        }
        match reply {
            Ok(Reply::Ack(ack)) => self.on_ack(now, &ack),
            Ok(Reply::SynAck { ack, wnd, params }) => self.on_syn_ack(now, ack, wnd, params),
            Ok(Reply::Retry { cookie }) => self.on_retry(now, cookie),
            Ok(Reply::FinAck { ack, crc }) => self.on_fin_ack(now, ack, crc),
            Ok(Reply::Close { reason, answers }) => self.on_close(reason, answers),
            Ok(Reply::Versions(versions)) => self.on_versions(versions),
            Err(_) => self.stats.malformed += 1,
        }
    }

    fn on_ack(&mut self, now: Instant, ack: &Ack<'_>) {
        let old = ack.ack < self.board.snd_una() && !planted::is(Bug::StaleAck);
        if !self.data_flows() || old {
            return self.stats.stale += 1;
        }
        if ack.ack > self.board.snd_nxt() {
            return self.stats.acks_beyond += 1;
        }
        self.open_by_answer(now);
        let prior = self.prior();
        self.snd_wnd.on_ack(ack, ack.ack > self.board.snd_una(), self.sent_packets.next_tx());
        if self.board.is_empty() {
            self.note_storing(now, ack);
            return self.stats.stale += 1;
        }
        match self.recovery {
            Recovery::BaseOnly(_) => self.on_base_ack(now, ack, prior),
            Recovery::Engine(_) => self.on_marking_ack(now, ack, prior),
        }
    }

    fn on_marking_ack(&mut self, now: Instant, ack: &Ack<'_>, prior: Prior) {
        let mut facts = self.apply(now, ack, prior.wnd);
        self.trace_ack(now, ack, &facts);
        self.note_progress(&facts);
        self.excuse_probe(prior.wnd);
        self.back_off_probes(now, ack);
        self.repeat_refused(now, ack, prior.wnd);
        let Recovery::Engine(rules) = &mut self.recovery else { return };
        if let Some(messages) = ack.overflow {
            rules.on_overflow(messages, self.sent_packets.next_tx());
        }
        let told = self.board.assumed();
        let begins = rules.on_ack(&facts, &mut self.board, &mut self.sent_packets);
        facts.delivered = (facts.bytes + self.board.assumed()).saturating_sub(told);
        self.stats.dup_acks += u64::from(facts.repeats);
        let expired = if begins { Expired::Episode } else { Expired::Nothing };
        self.on_losses(now, expired, prior, LostTo::Network);
        if let Some(marks) = ack.marks {
            self.heed_marks(now, marks, facts.largest_tx, prior);
        }
        self.control_congestion(&facts, prior);
        if facts.moved {
            self.on_moved(now, ack, facts.latest_rtt);
        }
    }

    /// The cumulative edge moved.
    pub(super) fn on_moved(&mut self, now: Instant, ack: &Ack<'_>, sample: Option<Duration>) {
        self.trace_moved(now, ack, sample);
        self.note_moved(now);
    }

    /// What the new edge means for all that is not part of the loss detector's business.
    pub(super) fn note_moved(&mut self, now: Instant) {
        let una = self.board.una_offset();
        self.keep_alive = self.is_idle().then(|| now + self.reminder());
        self.buffer.release(una, self.stats.retransmitted);
        self.stats.bytes_acked = una;
        self.stats.last_ack_at = Some(now);
        self.close_if_done();
        self.expect_fin_ack(now);
    }

    /// The scoreboard takes the ACK, the estimators what it says of time. Before it the window was
    /// `prior_wnd`.
    pub(super) fn apply(&mut self, now: Instant, ack: &Ack<'_>, prior_wnd: u64) -> AckOutcome {
        let largest_tx = ack.echo.map(|echo| echo.tx).filter(|tx| *tx < self.sent_packets.next_tx());
        let fresh_echo = largest_tx.filter(|tx| self.largest_tx.is_none_or(|before| before < *tx));
        let prior_largest = self.largest_tx;
        self.largest_tx = self.largest_tx.max(largest_tx);
        let prior_duplicates = self.duplicates;
        self.duplicates = ack.duplicates.unwrap_or(self.duplicates);
        let echoed = fresh_echo
            .and_then(|tx| self.sent_packets.get(tx))
            .and_then(|packet| Some(self.delivery.as_ref()?.sent_at(&packet.state)));
        if let (Some(tx), Some(sent_at)) = (fresh_echo, echoed) {
            self.note_fin_echo(tx, sent_at);
        }
        // After a timeout the records are gone, but not when each segment left that was not sent
        // again.
        let mut unrecorded = None;
        let numbered = self.codec.numbers_transmissions();
        let heeds_sack = self.config.recovery.heeds_sack();
        let (next_tx, srtt) = (self.sent_packets.next_tx(), self.rtt.srtt());
        // The newest segment sent once that a later one overtook: an ACK for it left at once, and
        // echoes the later one. Without SACK there is no telling when it came.
        let overtaking = prior_largest.filter(|_| heeds_sack);
        let mut overtaken: Option<(u64, Instant)> = None;
        if let Recovery::Engine(rules) = &mut self.recovery {
            rules.on_ack_begins(now, srtt, ack.sack.iter().count() >= MAX_BLOCKS, next_tx);
        }
        // Where a record is missing, a segment has what is to be known of it.
        let recorded = fresh_echo.is_none() || echoed.is_some();
        let run = if recorded { self.acknowledge_run(now, ack.ack, largest_tx) } else { None };
        let mut grown = run.is_some_and(|(_, grown)| grown);
        let Self { board, recovery, sent_packets, delivery, mtu, observer, stats, .. } = self;
        let mut on_delivered = |segment: &super::Segment| {
            if let Some(observer) = observer {
                observer.on_acked(now, segment, numbered);
            }
            if Some(segment.tx) == fresh_echo {
                unrecorded = Some(segment.sent_at);
            }
            if segment.sent_count == 1 && overtaking.is_some_and(|largest| segment.tx < largest) {
                overtaken = overtaken.max(Some((segment.tx, segment.sent_at)));
            }
            if let Some(delivery) = delivery.as_mut()
                && let Some(packet) = sent_packets.get(segment.tx)
            {
                delivery.on_delivered(now, &packet.state, u64::from(segment.len));
            }
            if let Recovery::Engine(rules) = &mut *recovery {
                rules.on_delivered(&Delivered { now, segment, largest_tx, next_tx, srtt });
            }
            grown |= mtu.as_mut().is_some_and(|mtu| mtu.on_delivered(segment.tx));
        };
        let acked = match run {
            Some((acked, _)) => acked,
            None => board.acknowledge(ack.ack, &mut on_delivered),
        };
        let mut bytes = acked.bytes;
        for block in ack.sack.iter().filter(|_| heeds_sack) {
            // Nobody can have what was not sent, so whatever else such a block says is wrong, too.
            if block.end <= board.next_offset() || planted::is(Bug::SackBeyondSent) {
                bytes += board.sack(&(block.start..block.end), &mut on_delivered);
            } else {
                stats.acks_beyond += 1;
            }
        }
        if let Some(mtu) = mtu {
            mtu.on_ack(now);
        }
        if grown {
            self.resize();
        }
        let echo = ack.echo.filter(|_| !planted::is(Bug::Karn));
        let sample = match (echo, echoed.or(unrecorded)) {
            // The receiver's delay is its own word: it takes no sample below the smallest (RFC
            // 9002, section 5.3).
            (Some(echo), Some(sent_at)) => {
                let rtt = now.saturating_duration_since(sent_at);
                let without = rtt.saturating_sub(echo.delay);
                Some(if without >= self.rtt.min_rtt().unwrap_or_default() && !without.is_zero() {
                    without
                } else {
                    rtt
                })
            }
            (Some(_), None) => None,
            (None, _) => acked.karn.map(|sent_at| now.saturating_duration_since(sent_at)),
        };
        let late = overtaken.map(|(_, sent_at)| now.saturating_duration_since(sent_at));
        for sample in [sample, late].into_iter().flatten() {
            // One ACK for two packets, unless fewer were asked for.
            let samples = self.board.in_flight() / (u64::from(self.ack_every.max(2)) * self.mss as u64);
            self.rtt.on_sample(sample, u32::try_from(samples).unwrap_or(u32::MAX));
            let mean = self.mean_rtt.unwrap_or(sample);
            self.mean_rtt = Some((mean * 15 + sample) / 16);
        }
        let sample = sample.or(late);
        // RFC 5681, section 2, tells duplicates from window updates by an unchanged window. Where
        // ACKs name the packet that they answer, a new name does: a receiver's window may change
        // with every packet. The answer to a packet that the receiver had already, or had no room
        // for, is no duplicate.
        let answers_packet = match ack.echo {
            Some(_) => fresh_echo.is_some() && self.duplicates == prior_duplicates,
            None => ack.wnd == prior_wnd,
        };
        let repeats = !acked.moved && answers_packet && self.has_room();
        AckOutcome {
            moved: acked.moved,
            repeats,
            bytes,
            delivered: bytes,
            largest_tx,
            latest_rtt: sample,
            ..self.quiet_outcome(now)
        }
    }

    /// What holds without an ACK.
    pub(super) fn quiet_outcome(&self, now: Instant) -> AckOutcome {
        AckOutcome {
            now,
            moved: false,
            repeats: false,
            bytes: 0,
            delivered: 0,
            largest_tx: None,
            duplicates: self.duplicates,
            latest_rtt: None,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min_rtt().unwrap_or_default(),
            mss: self.mss as u64,
        }
    }

    /// Tells of the losses that the detector found, and of the episode that began. If the timer
    /// fired, `lost_to` is what the silence before it is put down to.
    pub(super) fn on_losses(&mut self, now: Instant, expired: Expired, prior: Prior, lost_to: LostTo) {
        let Recovery::Engine(rules) = &mut self.recovery else { return };
        let refused = expired == Expired::Timeout && lost_to == LostTo::NoRoom;
        for lost in rules.take_lost() {
            let excused = self.mtu.as_ref().is_some_and(|mtu| mtu.probe() == Some(lost.tx));
            if let Some(mtu) = &mut self.mtu {
                mtu.on_lost(lost.tx);
            }
            if refused {
                continue;
            }
            self.stats.lost += 1;
            self.stats.lost_to_socket += u64::from(lost.to_socket);
            if let Some(observer) = &mut self.observer {
                observer.on_lost(now, &lost, self.codec.numbers_transmissions());
            }
            // A size that the path does not carry, and a socket without room, say nothing of
            // congestion.
            if !excused && !lost.to_socket {
                self.note_lost(now, u64::from(lost.bytes), lost.state);
            }
        }
        match expired {
            Expired::Nothing => {}
            Expired::Episode => {
                self.stats.recoveries += 1;
                self.trace(now, &Trace::RecoveryBegan { cause: Cause::Loss });
                self.slow_down(now, Cause::Loss, prior);
            }
            Expired::Timeout => {
                self.stats.timeouts += 1;
                self.trace(now, &Trace::RecoveryBegan { cause: Cause::Timeout });
                self.rtt.on_timeout();
                self.prr = None;
                self.back_down(now, prior, lost_to);
            }
        }
    }

    /// Bytes were lost by the network that had left when the connection stood at `state`.
    pub(super) fn note_lost(&mut self, now: Instant, bytes: u64, state: Option<SentState>) {
        self.lost_since_ack += bytes;
        let Some(delivery) = &mut self.delivery else { return };
        delivery.on_lost(bytes);
        if let Some(state) = state {
            self.congestion.on_packet_lost(&delivery.lost_packet(now, &state, bytes));
        }
    }

    /// The path turned out to carry another size.
    pub(super) fn resize(&mut self) {
        let Some(mtu) = &self.mtu else { return };
        self.mss = mtu.size() - self.config.wire.data_header();
        self.stats.packet_size = mtu.size();
        self.congestion.on_mss(self.mss as u64);
        self.cwnd = self.config.within_memory(self.congestion.cwnd(), self.mss);
        if let Some(pacer) = &mut self.pacer {
            let batch = (MAX_DATAGRAM / mtu.size()).min(MAX_SEGMENTS) * self.mss;
            pacer.set_sizes(self.mss as u64, batch as u64);
        }
    }

    /// An ACK counts as a sign of life if it tells of something new, or that there is no room for
    /// more: one that only repeats itself comes from a path that lets nothing of use through.
    pub(super) fn note_progress(&mut self, facts: &AckOutcome) {
        if facts.moved || facts.bytes > 0 || !self.has_room() {
            self.heard_at = Some(facts.now);
        }
    }

    /// State that the next ACK or timer finds.
    pub(super) fn prior(&self) -> Prior {
        let (in_flight, recover_fs) = (self.board.in_flight(), self.board.undelivered());
        Prior { in_flight, recover_fs, wnd: self.snd_wnd.size() }
    }

    /// `FlightSize` of a reduction, bytes: the congestion window where it limits the sender, else
    /// the smaller of it and `pipe`. Excludes what was selectively acknowledged and what limited
    /// transmit sent (RFC 5681, section 3.2, step 2; RFC 6675, section 5, step 4.2).
    fn flight_size(&self, prior: &Prior) -> u64 {
        let limited = self.waiting.used_cwnd(self.cwnd, self.congestion.pacing_rate().is_none());
        if limited { self.cwnd } else { self.cwnd.min(prior.in_flight) }
    }

    pub(super) fn slow_down(&mut self, now: Instant, cause: Cause, prior: Prior) {
        // One that has a model of its own tells losses from marks, and wants to hear of both.
        let reduces = self.congestion.uses_prr();
        let covered =
            cause == Cause::Loss && reduces && self.largest_tx.is_some_and(|tx| self.ecn.covers_loss(tx));
        if !covered {
            self.congestion.on_congestion(&CongestionEvent {
                now,
                cause,
                flight_size: self.flight_size(&prior),
            });
            if reduces || cause == Cause::Ecn {
                self.ecn.on_answered(cause, self.sent_packets.next_tx());
            }
        }
        // A mark ends no recovery: its new threshold is what the recovery then goes down to.
        if cause != Cause::Ecn {
            let marking = matches!(self.recovery, Recovery::Engine(_));
            let reduces = marking && cause == Cause::Loss && reduces && self.congestion.ssthresh().is_some();
            self.prr = reduces.then(|| Prr::new(self.mss as u64, prior.recover_fs));
        }
        self.pace(now);
    }

    /// Reports an ACK to the controller and lets the window of a recovery follow it.
    fn control_congestion(&mut self, facts: &AckOutcome, prior: Prior) {
        let Recovery::Engine(rules) = &mut self.recovery else { return };
        let episode = rules.episode();
        let now = facts.now;
        let found = self.lost_since_ack > 0;
        let ended = rules.ended(facts, &mut self.board);
        self.tell_of_ack(facts, prior.in_flight, episode);
        match ended {
            Some(Ended::Spurious { timeout, late_rtt }) => {
                self.respond_to_spurious(facts, timeout, late_rtt);
            }
            Some(Ended::Recovered) => {
                self.trace(now, &Trace::RecoveryEnded { spurious: false });
                self.prr = None;
            }
            Some(Ended::RepairedByProbe) => {
                self.trace(now, &Trace::ProbeRepaired);
                self.slow_down(now, Cause::Loss, prior);
                self.prr = None;
            }
            None => {}
        }
        if let Some(prr) = &mut self.prr {
            let safe = facts.moved && !found;
            let ssthresh = self.congestion.ssthresh().unwrap_or(u64::MAX);
            prr.on_ack(&PrrAck { delivered: facts.delivered, pipe: self.board.in_flight(), ssthresh, safe });
        }
        if facts.bytes > 0 || facts.moved {
            let timing = self.timing();
            if let Recovery::Engine(rules) = &mut self.recovery {
                rules.on_progress(facts, &timing, &self.board);
            }
        }
        self.pace(now);
    }

    /// Undoes the response to a loss that was none (RFC 4015, section 3.2). Step 8 prevents a
    /// burst, which a pacer does as well; step 9 makes the next such delay no timeout.
    pub(super) fn respond_to_spurious(
        &mut self,
        facts: &AckOutcome,
        timeout: bool,
        late_rtt: Option<Duration>,
    ) {
        self.stats.spurious += 1;
        self.trace(facts.now, &Trace::RecoveryEnded { spurious: true });
        self.congestion.on_spurious(facts.now);
        self.prr = None;
        if self.pacer.is_none() {
            let first = u64::from(self.config.initial_window) * self.mss as u64;
            self.congestion.reopen_from(self.board.in_flight() + facts.bytes.min(first));
        }
        if let Some(sample) = late_rtt.or(facts.latest_rtt).filter(|_| timeout) {
            self.rtt.on_spurious_timeout(sample);
        }
    }

    /// The controller hears of an ACK, where there is a record of what left.
    pub(super) fn tell_of_ack(&mut self, facts: &AckOutcome, prior_in_flight: u64, episode: Option<Cause>) {
        let Some(delivery) = &mut self.delivery else { return };
        let now = facts.now;
        let lost = std::mem::take(&mut self.lost_since_ack);
        if self.congestion.train() > 0
            && let Some(train) = delivery.train()
        {
            self.congestion.on_train(train);
        }
        let reorders = matches!(&self.recovery, Recovery::Engine(rules) if rules.reorders());
        let rate = delivery.sample(now, facts.min_rtt);
        if let Some(observer) = &mut self.observer {
            observer.note_rate(rate);
        }
        self.congestion.on_ack(&AckEvent {
            now,
            acked: facts.bytes,
            lost,
            prior_in_flight,
            in_flight: self.board.in_flight(),
            cwnd_limited: self.waiting.used_cwnd(self.cwnd, self.congestion.pacing_rate().is_none()),
            episode,
            latest_rtt: facts.latest_rtt.and(if reorders { self.mean_rtt } else { facts.latest_rtt }),
            srtt: facts.srtt,
            min_rtt: facts.min_rtt,
            delivered: delivery.delivered(),
            rate,
        });
    }

    /// Window and pace follow the controller; if it has no rate, a window is spread over the round
    /// trip, with room to grow: twice in slow start, 1.2 times after it (as Linux does).
    pub(super) fn pace(&mut self, now: Instant) {
        self.cwnd = self.config.within_memory(self.congestion.cwnd(), self.mss);
        let Some(pacer) = &mut self.pacer else { return };
        let srtt = self.rtt.srtt().max(Duration::from_micros(1));
        let rate = self.congestion.pacing_rate().unwrap_or_else(|| {
            let slow_start =
                self.congestion.ssthresh().is_none_or(|ssthresh| self.congestion.cwnd() < ssthresh);
            let gain = if slow_start { 20 } else { 12 };
            let per_second =
                u128::from(self.congestion.cwnd()) * 1_000_000_000 * gain / (10 * srtt.as_nanos());
            u64::try_from(per_second).unwrap_or(u64::MAX)
        });
        pacer.set_train(self.congestion.train());
        pacer.set_rate(now, Some(rate));
        self.trace(now, &Trace::Paced { rate });
    }
}
