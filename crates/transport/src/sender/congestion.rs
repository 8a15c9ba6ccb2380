//! Congestion control of one transfer: the controller, its reductions, and the window and pacing
//! rate that follow from it.

use std::time::{Duration, Instant};

use super::blocked::{Blocked, BlockedTime};
use super::recent_loss::RecentLoss;
use super::under_way::UnderWay;
use super::{Sender, SenderConfig};
use crate::congestion::{
    AckEvent, Cause, CongestionEvent, Controller, LostPacket, Pacer, Prr, PrrAck, RateSample,
};
use crate::recovery::{AckOutcome, Flight, Scoreboard};
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
    /// The controller's window and what is [under way](UnderWay), limited by the sender's window W
    /// and memory, bytes.
    pub(super) cwnd: u64,
    /// Limit on the bytes in flight until the peer has acknowledged something: in a connection
    /// without a handshake, nothing else shows that the peer is still at its address.
    pub(super) early: Option<u64>,
    /// Data whose ACK waits on the way back; nothing if the controller has a rate.
    under_way: UnderWay,
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
    pub(super) recent_loss: RecentLoss,
    /// Bytes lost for want of room on the path.
    pub(super) lost: u64,
    /// Largest sample of the delivery rate on this path, bytes per second.
    pub(super) fastest: u64,
    /// Newest sample of the delivery rate that the application did not limit, bytes per second; 0
    /// once other connections have it.
    pub(super) newest: u64,
    /// True if the latest recovery began with a response of the controller, which can be undone.
    /// False if a path MTU probe or a zero-window probe was overdue: the window did not change, so
    /// the controller would undo an earlier recovery.
    pub(super) undoable: bool,
}

impl CongestionControl {
    /// Returns the initial state, before the handshake, for segments of `mss` bytes.
    pub(super) fn new(config: &SenderConfig, mss: usize) -> Self {
        let controller = config.controller(None, 0, mss);
        Self {
            cwnd: config.within_memory(controller.cwnd(), mss),
            controller,
            early: None,
            under_way: UnderWay::default(),
            prr: None,
            pacer: (config.pacing || config.max_rate.is_some())
                .then(|| Pacer::new(mss as u64, config.max_rate)),
            capped: config.max_rate.is_some(),
            delivers_limit: false,
            lost_since_ack: 0,
            recent_loss: RecentLoss::default(),
            lost: 0,
            fastest: 0,
            newest: 0,
            undoable: false,
        }
    }

    /// Starts again on a new path. The pacer keeps its tokens: a full bucket would let a burst out
    /// directly behind the packets that left on the old path.
    pub(super) fn restart(&mut self, config: &SenderConfig, mss: usize) {
        *self = Self { pacer: self.pacer.take(), ..Self::new(config, mss) };
    }

    /// True if the sender is cwnd-limited.
    pub(super) fn is_limiting(&self, blocked: &BlockedTime) -> bool {
        let cwnd = self.cwnd.saturating_sub(self.under_way.bytes);
        blocked.used_cwnd(cwnd, self.capped || self.controller.pacing_rate().is_none())
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
    /// does not count (RFC 5681, section 3.2, step 2; RFC 6675, section 5, step 4.2). Nor does what
    /// is under way.
    pub(super) fn flight_size(&self, prior: &Prior, blocked: &BlockedTime) -> u64 {
        let window = self.cwnd.saturating_sub(self.under_way.bytes);
        if self.is_limiting(blocked) {
            window
        } else {
            self.under_way.share_of(window, self.cwnd.min(prior.in_flight))
        }
    }

    /// Returns the bytes that the window allows with `in_flight` bytes in flight.
    pub(super) fn room(&self, in_flight: u64) -> u64 {
        match &self.prr {
            Some(prr) => prr.sndcnt,
            None => self.cwnd.min(self.early.unwrap_or(u64::MAX)).saturating_sub(in_flight),
        }
    }

    /// True if the window allows `len` bytes with `in_flight` bytes in flight.
    pub(super) fn allows(&self, in_flight: u64, len: usize) -> bool {
        in_flight == 0 || len as u64 <= self.room(in_flight)
    }

    /// Returns the time at which the pacer allows `bytes`; `None` if it does now.
    #[inline]
    pub(super) fn paced_until(&self, now: Instant, bytes: u64) -> Option<Instant> {
        self.pacer.as_ref()?.next_send_at(now, bytes).filter(|at| *at > now)
    }

    /// Returns how many of `count` segments of `len` bytes the pacer allows now.
    pub(super) fn paced(&self, now: Instant, len: usize, count: u64) -> u64 {
        self.pacer.as_ref().map_or(count, |pacer| pacer.allows(now, len as u64, count))
    }

    /// Records that sending stops now for this reason.
    pub(super) fn on_stopped(&mut self, now: Instant, why: Blocked) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_stopped(now, matches!(why, Blocked::Pacing(_)));
        }
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
    fn take_lost(&mut self) -> u64 {
        self.lost += self.lost_since_ack;
        std::mem::take(&mut self.lost_since_ack)
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost_since_ack > 0
    }

    /// Updates PRR with an ACK, after which `pipe` bytes are in flight.
    pub(super) fn on_ack_in_recovery(&mut self, delivered: u64, pipe: u64, safe: bool) {
        if let Some(prr) = &mut self.prr {
            let ssthresh = self.controller.ssthresh().unwrap_or(u64::MAX);
            let ssthresh = ssthresh.saturating_add(self.under_way.bytes);
            prr.on_ack(&PrrAck { delivered, pipe, ssthresh, safe });
        }
    }

    /// Adapts to datagrams of `size` bytes with `mss` bytes of payload.
    pub(super) fn resize(&mut self, config: &SenderConfig, size: usize, mss: usize) {
        self.controller.on_mss(mss as u64);
        self.cwnd = self.window(config, mss);
        if let Some(pacer) = &mut self.pacer {
            let batch = (MAX_DATAGRAM / size).min(MAX_BATCH_SEGMENTS) * mss;
            pacer.set_sizes(mss as u64, batch as u64);
        }
    }

    /// Returns the controller's window and what is under way, within the limits.
    fn window(&self, config: &SenderConfig, mss: usize) -> u64 {
        config.within_memory(self.controller.cwnd().saturating_add(self.under_way.bytes), mss)
    }

    /// True if the controller is in slow start.
    fn in_slow_start(&self) -> bool {
        self.controller.ssthresh().is_none_or(|ssthresh| self.controller.cwnd() < ssthresh)
    }

    /// Adopts window and pacing rate of the controller. Returns the pacing rate, bytes per second.
    /// For a controller without a rate it is its window / `srtt`, times 2 in slow start and 1.2
    /// afterwards (as in Linux), but no more than [`UnderWay::max_rate`]. The configured limit
    /// applies to all.
    pub(super) fn follow_controller(
        &mut self,
        now: Instant,
        config: &SenderConfig,
        mss: usize,
        srtt: Duration,
    ) -> Option<u64> {
        self.cwnd = self.window(config, mss);
        let slow_start = self.in_slow_start();
        let pacer = self.pacer.as_mut()?;
        let srtt = srtt.max(Duration::from_micros(1));
        let cwnd = self.controller.cwnd();
        let most = self.under_way.max_rate(cwnd, slow_start);
        let rate = self.controller.pacing_rate().unwrap_or_else(|| {
            let gain = if slow_start { 20 } else { 12 };
            let per_second = u128::from(cwnd) * 1_000_000_000 * gain / (10 * srtt.as_nanos());
            u64::try_from(per_second).unwrap_or(u64::MAX).min(most)
        });
        let rate = if config.pacing { rate } else { u64::MAX };
        let limit = config.max_rate.unwrap_or(u64::MAX);
        self.capped = limit < rate;
        let rate = rate.min(limit);
        pacer.set_train(self.controller.train());
        pacer.set_rate(now, Some(rate));
        Some(rate)
    }

    /// Limits the window after a pause of a retransmission timeout, against a burst (RFC 5681,
    /// section 4.1). A paced sender lets none out.
    pub(super) fn restart_after_idle(&mut self, config: &SenderConfig, mss: usize) {
        if self.pacer.is_none() {
            self.controller.reopen_from(u64::from(config.initial_window) * mss as u64);
            self.cwnd = self.window(config, mss);
        }
    }

    /// Returns the part of `bytes`, which an ACK newly acknowledged, by which the window may grow.
    /// The ACK gave this sample of the delivery rate and had this delay on its way back.
    fn growth(&mut self, now: Instant, bytes: u64, rate: Option<RateSample>, way_back: Duration) -> u64 {
        let (controller, slow_start) = (&self.controller, self.in_slow_start());
        if self.pacer.is_some() && controller.uses_prr() && controller.pacing_rate().is_none() {
            self.under_way.on_ack(now, rate.map(|it| it.delivery_rate), way_back, slow_start);
        }
        if slow_start { self.under_way.share_of(controller.cwnd(), bytes) } else { bytes }
    }

    /// Undoes the response to a spurious loss (RFC 4015, section 3.2). Step 8 prevents a burst, as
    /// a pacer does: without one the window reopens from `in_flight` plus the delivered bytes, at
    /// most `first`.
    #[cold]
    pub(super) fn on_spurious(&mut self, outcome: &AckOutcome, in_flight: u64, first: u64) {
        self.prr = None;
        if std::mem::take(&mut self.undoable) {
            self.controller.on_spurious(outcome.now);
            if self.pacer.is_none() {
                self.controller.reopen_from(in_flight + outcome.bytes.min(first));
            }
        }
    }

    /// Ends PRR, and leaves nothing to undo or to count as under way: a retransmission timeout or a
    /// new path changes the window by other rules.
    pub(super) fn forget_recovery(&mut self) {
        self.prr = None;
        self.cwnd = self.cwnd.saturating_sub(self.under_way.bytes);
        self.under_way = UnderWay::default();
        self.undoable = false;
    }
}

impl Sender {
    /// Reports an ACK to the controller (native).
    pub(super) fn report_ack(&mut self, outcome: &AckOutcome, prior_in_flight: u64, episode: Option<Cause>) {
        let Self { congestion, flight, path, .. } = self;
        let Flight { board, rate: Some(delivery), .. } = flight else { return };
        congestion.early = None;
        let cwnd_limited = congestion.is_limiting(&self.blocked);
        let min_rtt = path.rtt.min_rtt.unwrap_or_default();
        let lost = congestion.take_lost();
        congestion.recent_loss.update(outcome, path.rtt.srtt(), lost);
        if congestion.controller.train() > 0
            && let Some(train) = delivery.train()
        {
            congestion.controller.on_train(train);
        }
        let rate = delivery.sample(min_rtt);
        let way_back = path.way_back.delay;
        let bytes = outcome.bytes - outcome.old_path_bytes;
        let growth = congestion.growth(outcome.now, bytes, rate, way_back);
        let newly_delivered = delivery.newly_delivered(bytes);
        if let Some((limit, sample)) = self.config.max_rate.zip(rate) {
            congestion.delivers_limit = sample.delivery_rate >= limit - limit / LIMIT_TOLERANCE_DIVISOR;
        }
        let latest_rtt = outcome.latest_rtt.map(|rtt| path.without_way_back(rtt));
        let controller = &mut congestion.controller;
        controller.on_ack(&AckEvent {
            now: outcome.now,
            // Duplicate ACKs do not raise the window of a loss-based controller (RFC 5681,
            // section 3.2).
            acked: if controller.uses_prr() { growth } else { newly_delivered },
            lost,
            prior_in_flight,
            in_flight: board.in_flight(),
            cwnd_limited,
            episode,
            // Where the path reorders, single samples say little.
            latest_rtt: latest_rtt.and(if self.recovery.reorders() { path.mean_rtt } else { latest_rtt }),
            way_back,
            srtt: path.forward_srtt(),
            min_rtt,
            delivered: delivery.delivered(),
            rate,
        });
        congestion.fastest = congestion.fastest.max(rate.map_or(0, |sample| sample.delivery_rate));
        if let Some(sample) = rate.filter(|sample| !sample.app_limited) {
            congestion.newest = sample.delivery_rate;
        }
        self.observers.on_rate(rate);
    }

    /// Reduces the window in response to congestion.
    pub(super) fn slow_down(&mut self, now: Instant, cause: Cause, prior: Prior) {
        let Self { congestion, flight, path, .. } = self;
        let is_old = flight.largest_acked.is_some_and(|number| path.is_older(number));
        if is_old && cause != Cause::Timeout {
            return;
        }
        // Model-based controllers (BBR) treat loss and CE differently, so report both.
        let reduces = congestion.controller.uses_prr();
        let covered = cause == Cause::Loss
            && reduces
            && flight.largest_acked.is_some_and(|number| path.ecn.covers_loss(number));
        if !covered {
            let flight_size = congestion.flight_size(&prior, &self.blocked);
            congestion.controller.on_congestion(&CongestionEvent { now, cause, flight_size });
            if reduces || cause == Cause::Ecn {
                path.ecn.on_answered(cause, flight.next_number());
            }
        }
        // A CE mark during recovery does not end it; PRR then reduces to the new ssthresh.
        if cause != Cause::Ecn {
            congestion.undoable = !covered;
            let paces_repeats = self.recovery.marks_losses() && self.config.recovery.uses_prr();
            let prr = paces_repeats
                && cause == Cause::Loss
                && reduces
                && congestion.controller.ssthresh().is_some();
            congestion.prr = prr.then(|| Prr::new(path.mss as u64, prior.recover_fs));
        }
        self.pace(now);
    }

    /// Adopts window and pacing rate of the controller.
    pub(super) fn pace(&mut self, now: Instant) {
        let srtt = self.path.forward_srtt();
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
        let control = CongestionControl::new(&config, config.first_payload_size());
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
