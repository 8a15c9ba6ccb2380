//! Congestion control of one transfer: the controller, its reductions, and the window and pacing
//! rate that follow from it. The sender's responses to losses, CE marks and ACKs.

use std::time::{Duration, Instant};

use super::blocked::{Blocked, BlockedTime};
use super::{Sender, SenderConfig};
use crate::congestion::{AckEvent, Cause, CongestionEvent, Controller, LostPacket, Pacer, Prr, PrrAck};
use crate::recovery::{AckOutcome, Ended, Lost, Scoreboard, Timing, Verdict};
use crate::wire::Ack;
use crate::{MAX_DATAGRAM, Trace};

/// Largest number of segments in one send call.
const MAX_BATCH_SEGMENTS: usize = 64;

/// A delivery rate of at least `limit - limit / 32` counts as reaching the configured limit.
const LIMIT_TOLERANCE_DIVISOR: u64 = 32;

/// State just before an ACK or a timeout, from which window reductions are computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prior {
    /// Bytes in flight (`pipe` of RFC 6675).
    pub(super) in_flight: u64,
    /// `RecoverFS`, bytes: outstanding, less what SACK or duplicate ACKs already reported as
    /// delivered (RFC 9937, section 6).
    pub(super) recover_fs: u64,
    /// Receive window, packets (classic) or bytes (native).
    pub(super) window: u64,
    /// Bytes that duplicate ACKs show to be delivered, without naming the segments.
    pub(super) assumed: u64,
}

impl Prior {
    /// Returns the state before the next ACK or timeout.
    pub(super) fn of(board: &Scoreboard, window: u64) -> Self {
        Self {
            in_flight: board.in_flight(),
            recover_fs: board.undelivered(),
            window,
            assumed: board.assumed(),
        }
    }
}

pub(super) struct CongestionControl {
    pub(super) controller: Box<dyn Controller>,
    /// The controller's window, limited by the sender's window W and memory, bytes.
    pub(super) cwnd: u64,
    /// Proportional rate reduction, during recovery.
    pub(super) prr: Option<Prr>,
    pub(super) pacer: Option<Pacer>,
    /// True if the configured rate limit is below the controller's pacing rate.
    capped: bool,
    /// True if the newest sample of the delivery rate is near the configured limit: the path
    /// carries the limit.
    delivers_limit: bool,
    /// Bytes declared lost since the last `on_ack` of the controller.
    lost_since_ack: u64,
    /// True if the latest recovery began with a response of the controller, which can be undone.
    /// False if a path MTU probe or a zero-window probe was overdue: the window did not change, so
    /// the controller would undo an earlier recovery.
    pub(super) undoable: bool,
}

impl CongestionControl {
    /// Returns the initial state, before the handshake, for segments of `mss` bytes.
    pub(super) fn new(config: &SenderConfig, mss: usize) -> Self {
        let controller = config.controller(None, mss);
        Self {
            cwnd: config.within_memory(controller.cwnd(), mss),
            controller,
            prr: None,
            pacer: match config.max_rate {
                Some(rate) => Some(Pacer::with_rate(mss as u64, rate)),
                None => config.pacing.then(|| Pacer::new(mss as u64)),
            },
            capped: config.max_rate.is_some(),
            delivers_limit: false,
            lost_since_ack: 0,
            undoable: false,
        }
    }

    /// True if the sender is cwnd-limited.
    pub(super) fn is_limiting(&self, blocked: &BlockedTime) -> bool {
        blocked.used_cwnd(self.cwnd, self.capped || self.controller.pacing_rate().is_none())
    }

    /// True if waiting for `why` leaves the path idle: a sample of the delivery rate then measures
    /// the sender instead of the path.
    pub(super) fn leaves_path_idle(&self, why: Blocked) -> bool {
        match why {
            Blocked::NoData | Blocked::PeerWindow => true,
            Blocked::Pacing(_) => self.capped && self.delivers_limit,
            Blocked::Cwnd => false,
        }
    }

    /// Returns `FlightSize` for a reduction, bytes: cwnd if the sender is cwnd-limited, else
    /// min(cwnd, `pipe`). So data that is selectively acknowledged or was sent by limited transmit
    /// does not count (RFC 5681, section 3.2, step 2; RFC 6675, section 5, step 4.2).
    pub(super) fn flight_size(&self, prior: &Prior, blocked: &BlockedTime) -> u64 {
        if self.is_limiting(blocked) { self.cwnd } else { self.cwnd.min(prior.in_flight) }
    }

    /// Returns the bytes that the window allows with `in_flight` bytes in flight.
    pub(super) fn room(&self, in_flight: u64) -> u64 {
        match &self.prr {
            Some(prr) => prr.sndcnt(),
            None => self.cwnd.saturating_sub(in_flight),
        }
    }

    /// True if the window allows `len` bytes with `in_flight` bytes in flight.
    pub(super) fn allows(&self, in_flight: u64, len: usize) -> bool {
        in_flight == 0 || len as u64 <= self.room(in_flight)
    }

    /// Returns the time at which the pacer allows `bytes`; `None` if it does now.
    pub(super) fn paced_until(&self, now: Instant, bytes: u64) -> Option<Instant> {
        self.pacer.as_ref()?.next_send_at(now, bytes).filter(|at| *at > now)
    }

    /// Returns how many of `count` segments of `len` bytes the pacer allows now.
    pub(super) fn paced(&self, now: Instant, len: usize, count: u64) -> u64 {
        self.pacer.as_ref().map_or(count, |pacer| pacer.allows(now, len as u64, count))
    }

    /// Records the transmission of `bytes`, after which `in_flight` bytes are in flight.
    /// `app_limited` is `None` in the classic format, which reports nothing to the controller.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64, app_limited: Option<bool>) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, bytes);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(bytes);
        }
        if let Some(app_limited) = app_limited {
            self.controller.on_sent(now, bytes, in_flight, app_limited);
        }
    }

    /// Records a loss of `bytes` in the network; `packet` describes the transmission, if recorded.
    pub(super) fn on_lost(&mut self, bytes: u64, packet: Option<&LostPacket>) {
        self.lost_since_ack += bytes;
        if let Some(packet) = packet {
            self.controller.on_packet_lost(packet);
        }
    }

    /// Returns and clears the bytes declared lost since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost_since_ack)
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost_since_ack > 0
    }

    /// Updates PRR with an ACK, after which `pipe` bytes are in flight.
    pub(super) fn on_ack_in_recovery(&mut self, delivered: u64, pipe: u64, safe: bool) {
        if let Some(prr) = &mut self.prr {
            let ssthresh = self.controller.ssthresh().unwrap_or(u64::MAX);
            prr.on_ack(&PrrAck { delivered, pipe, ssthresh, safe });
        }
    }

    /// Adapts to datagrams of `size` bytes with `mss` bytes of payload.
    pub(super) fn resize(&mut self, config: &SenderConfig, size: usize, mss: usize) {
        self.controller.on_mss(mss as u64);
        self.cwnd = config.within_memory(self.controller.cwnd(), mss);
        if let Some(pacer) = &mut self.pacer {
            let batch = (MAX_DATAGRAM / size).min(MAX_BATCH_SEGMENTS) * mss;
            pacer.set_sizes(mss as u64, batch as u64);
        }
    }

    /// Adopts window and pacing rate of the controller. Returns the pacing rate, bytes per second.
    /// For a controller without a rate it is cwnd / `srtt`, times 2 in slow start and 1.2
    /// afterwards (as in Linux). The configured limit applies to all.
    pub(super) fn follow_controller(
        &mut self,
        now: Instant,
        config: &SenderConfig,
        mss: usize,
        srtt: Duration,
    ) -> Option<u64> {
        self.cwnd = config.within_memory(self.controller.cwnd(), mss);
        let pacer = self.pacer.as_mut()?;
        let srtt = srtt.max(Duration::from_micros(1));
        let rate = self.controller.pacing_rate().unwrap_or_else(|| {
            let cwnd = self.controller.cwnd();
            let slow_start = self.controller.ssthresh().is_none_or(|ssthresh| cwnd < ssthresh);
            let gain = if slow_start { 20 } else { 12 };
            let per_second = u128::from(cwnd) * 1_000_000_000 * gain / (10 * srtt.as_nanos());
            u64::try_from(per_second).unwrap_or(u64::MAX)
        });
        let rate = if config.pacing { rate } else { u64::MAX };
        let limit = config.max_rate.unwrap_or(u64::MAX);
        self.capped = limit < rate;
        let rate = rate.min(limit);
        pacer.set_train(self.controller.train());
        pacer.set_rate(now, Some(rate));
        Some(rate)
    }
}

impl Sender {
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
                let packet = self.flight.rate_mut().and_then(|rate| {
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
    pub(super) fn on_marks(&mut self, now: Instant, ack: &Ack<'_>, outcome: &AckOutcome, prior: Prior) {
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
    pub(super) fn control_congestion(&mut self, outcome: &AckOutcome, verdict: &Verdict, prior: Prior) {
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
        if self.flight.rate().is_some() || self.recovery.marks_losses() {
            self.pace(now);
        }
    }

    /// Undoes the response to a spurious loss (RFC 4015, section 3.2). Step 8 prevents a burst, as
    /// a pacer does; step 9 raises the RTO above the delay.
    #[cold]
    fn respond_to_spurious(&mut self, outcome: &AckOutcome, timeout: bool, late_rtt: Option<Duration>) {
        self.stats.spurious += 1;
        self.observers.on(outcome.now, &Trace::RecoveryEnded { spurious: true });
        let congestion = &mut self.congestion;
        congestion.prr = None;
        if std::mem::take(&mut congestion.undoable) {
            congestion.controller.on_spurious(outcome.now);
            if congestion.pacer.is_none() {
                let first = u64::from(self.config.initial_window) * outcome.mss;
                congestion.controller.reopen_from(self.flight.board.in_flight() + outcome.bytes.min(first));
            }
        }
        if let Some(sample) = late_rtt.or(outcome.latest_rtt).filter(|_| timeout) {
            self.path.rtt.on_spurious_timeout(sample);
        }
    }

    /// Reports an ACK to the controller (native).
    fn report_ack(&mut self, outcome: &AckOutcome, prior_in_flight: u64, episode: Option<Cause>) {
        if self.flight.rate().is_none() {
            return;
        }
        let cwnd_limited = self.congestion.is_limiting(&self.blocked);
        let in_flight = self.flight.board.in_flight();
        let Self { congestion, observers, config, .. } = self;
        let Some(delivery) = self.flight.rate_mut() else { return };
        let rtt = &self.path.rtt;
        let min_rtt = rtt.min_rtt().unwrap_or_default();
        let lost = congestion.take_lost();
        let controller = &mut congestion.controller;
        if controller.train() > 0
            && let Some(train) = delivery.train()
        {
            controller.on_train(train);
        }
        let rate = delivery.sample(outcome.now, min_rtt);
        let newly_delivered = delivery.newly_delivered(outcome.bytes);
        observers.on_rate(rate);
        if let Some((limit, sample)) = config.max_rate.zip(rate) {
            congestion.delivers_limit = sample.delivery_rate >= limit - limit / LIMIT_TOLERANCE_DIVISOR;
        }
        let latest_rtt = outcome.latest_rtt;
        let smooth = self.recovery.reorders();
        controller.on_ack(&AckEvent {
            now: outcome.now,
            // Duplicate ACKs do not raise the window of a loss-based controller (RFC 5681,
            // section 3.2).
            acked: if controller.uses_prr() { outcome.bytes } else { newly_delivered },
            lost,
            prior_in_flight,
            in_flight,
            cwnd_limited,
            episode,
            latest_rtt: latest_rtt.and(if smooth { self.path.mean_rtt } else { latest_rtt }),
            srtt: rtt.srtt(),
            min_rtt,
            delivered: delivery.delivered(),
            rate,
        });
    }

    /// Reduces the window in response to congestion.
    pub(super) fn slow_down(&mut self, now: Instant, cause: Cause, prior: Prior) {
        // Model-based controllers (BBR) treat loss and CE differently, so report both.
        let reduces = self.congestion.controller.uses_prr();
        let largest_acked = self.flight.largest_acked();
        let covered = cause == Cause::Loss
            && reduces
            && largest_acked.is_some_and(|number| self.path.ecn.covers_loss(number));
        if !covered {
            let flight_size = self.congestion.flight_size(&prior, &self.blocked);
            self.congestion.controller.on_congestion(&CongestionEvent { now, cause, flight_size });
            if reduces || cause == Cause::Ecn {
                self.path.ecn.on_answered(cause, self.flight.next_number());
            }
        }
        // A CE mark during recovery does not end it; PRR then reduces to the new ssthresh.
        if cause != Cause::Ecn {
            self.congestion.undoable = !covered;
            let repairs = self.recovery.marks_losses() && cause == Cause::Loss;
            let prr = repairs
                && self.config.recovery.uses_prr()
                && reduces
                && self.congestion.controller.ssthresh().is_some();
            self.congestion.prr = prr.then(|| Prr::new(self.path.mss as u64, prior.recover_fs));
        }
        self.pace(now);
    }

    /// Adopts window and pacing rate of the controller.
    pub(super) fn pace(&mut self, now: Instant) {
        let srtt = self.path.rtt.srtt();
        if let Some(rate) = self.congestion.follow_controller(now, &self.config, self.path.mss, srtt) {
            self.observers.on(now, &Trace::Paced { rate });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Algorithm, Cause, CongestionEvent};
    use rdt_testing::{epoch, ms};

    fn reno() -> (SenderConfig, CongestionControl) {
        let config = SenderConfig { congestion: Algorithm::Reno, ..SenderConfig::native(7) };
        let control = CongestionControl::new(&config, config.first_payload_size(&config.codec()));
        (config, control)
    }

    #[test]
    fn lost_bytes_are_taken_once() {
        let (_, mut control) = reno();
        assert!(!control.has_lost());
        control.on_lost(100, None);
        control.on_lost(50, None);
        assert!(control.has_lost());
        assert_eq!((control.take_lost(), control.take_lost()), (150, 0));
        assert!(!control.has_lost());
    }

    #[test]
    fn pace_is_two_or_1_2_windows_per_rtt() {
        let ((config, mut control), now) = (reno(), epoch());
        let cwnd = control.controller.cwnd();
        assert_eq!(control.follow_controller(now, &config, 1444, ms(100)), Some(cwnd * 20));
        let flight_size = cwnd;
        control.controller.on_congestion(&CongestionEvent { now, cause: Cause::Loss, flight_size });
        let cwnd = control.controller.cwnd();
        assert_eq!(control.controller.ssthresh(), Some(cwnd), "slow start is over");
        assert_eq!(control.follow_controller(now, &config, 1444, ms(100)), Some(cwnd * 12));
    }

    #[test]
    fn configured_limit_caps_every_pacing_rate() {
        for pacing in [true, false] {
            for congestion in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr, Algorithm::Fixed(9000)] {
                let config =
                    SenderConfig { congestion, pacing, max_rate: Some(1000), ..SenderConfig::native(7) };
                let mut control = CongestionControl::new(&config, 1444);
                let rates = |control: &CongestionControl| control.pacer.as_ref().unwrap().rate();
                assert_eq!(rates(&control), Some(1000), "before the handshake, {congestion}");
                control.follow_controller(epoch(), &config, 1444, ms(1));
                assert_eq!((rates(&control), control.capped), (Some(1000), true), "{congestion}");
                let config = SenderConfig { max_rate: Some(u64::MAX), ..config };
                control.follow_controller(epoch(), &config, 1444, ms(1));
                assert!(!control.capped, "{congestion}");
            }
        }
    }

    #[test]
    fn burst_is_two_datagrams_of_offload() {
        for (size, packets) in [(1200, 54), (8972, 7), (600, 64)] {
            let ((config, mut control), now) = (reno(), epoch());
            let mss = size - 100;
            control.resize(&config, size, mss);
            let pacer = control.pacer.as_mut().unwrap();
            pacer.set_rate(now, Some(10_000_000_000));
            assert_eq!(pacer.burst(), 2 * packets * mss as u64, "{size}");
        }
    }
}
