//! Base loss rate: random loss on the path that does not depend on the sending rate. Deviation from
//! the draft, which has no such estimate.
//!
//! The draft treats every loss as a sign of a full queue. A round with over 2 % loss ends a probe
//! and caps `inflight_longterm`; outside probes, any loss lowers the rate each round. On a path
//! with 5 % random loss (radio, a bad cable, a link model) every probe fails and the rate
//! collapses, without any benefit to competing flows.
//!
//! The estimator therefore samples loss while the queue is known to be short, and only the excess
//! over the estimate counts as congestion. An ACK and the losses it reveals are a sample if
//!
//! - its RTT is within 1/8 of `min_rtt`: the queue was (nearly) empty. A lost packet is detected by
//!   an ACK of a packet sent just after it, which saw the same queue;
//! - in `Startup`, the delivery rate grew by 25 % in the round after it, so the pipe was not full.
//!   In later phases, no packet sent above the estimated bandwidth is being acknowledged.
//!
//! The samples of a round take effect in the next round, so a loss burst cannot excuse itself. The
//! tolerance for `n` packets at base rate `p` adds three standard deviations, 3 sqrt(n p (1 - p)),
//! and 4/3 of a packet. With a base of 0 there is no tolerance, and the draft's rule applies
//! unchanged. The samples are halved after [`WINDOW_SEGMENTS`] and after each probing cycle. A
//! cycle that added samples leaves at least [`MIN_SEGMENTS`]: in small windows it adds fewer, and
//! without an estimate all loss would count as congestion.
//!
//! A base above 1/8 requires a test: `ProbeRTT` halves the data in flight, and rate-dependent loss
//! then decreases. The base is at most what a straight line through both loss rates, at the whole
//! and at half the rate, gives for no rate at all. A test with too few packets goes on a second
//! later. Without the test, four flows that share a five-packet queue mistake each other's losses
//! for random loss and settle at 50 % loss; with the test, at 16 %. The base never exceeds 1/2.
//!
//! Known errors:
//!
//! - A policer, or a queue shorter than 1/8 of the RTT that other flows keep full, drops packets at
//!   small RTTs. The base then rises to their steady-state loss. Probing still detects additional
//!   loss and keeps `inflight_longterm`; its headroom lowers the rate, the loss and then the base.
//! - Many flows over one short queue hardly see a test: one flow that halves its rate leaves all
//!   others as they are. Eight over a queue of five packets lose 43 %, sixteen 55 %.
//! - If the RTT varies by over 1/8 without a queue, there are too few samples, and random loss
//!   again counts as congestion.
//!
//! Switch: `base_loss` of [`BbrConfig`](super::BbrConfig).

use std::time::{Duration, Instant};

use super::math::{PPM, mul_div};

/// Sampled segments above which the tally is halved.
const WINDOW_SEGMENTS: u64 = 8192;
/// Smallest number of sampled segments for an estimate.
const MIN_SEGMENTS: u64 = 64;
/// Largest base loss rate, parts per million.
const MAX_BASE: u64 = PPM / 2;
/// Largest base loss rate without a test at half the rate, parts per million.
const MAX_UNTESTED: u64 = PPM / 8;
/// Smallest time after a test that had too few samples, until it goes on.
const RESUME_INTERVAL: Duration = Duration::from_secs(1);
/// Smallest time between two tests.
const TEST_INTERVAL: Duration = Duration::from_secs(5);
/// The queue counts as empty if the RTT exceeds `min_rtt` by at most one part in this many.
const EMPTY_QUEUE_RTT_DIVISOR: u32 = 8;
/// Tolerance for random variation, standard deviations.
const SIGMAS: u64 = 3;
/// Additional tolerance, in thirds of a segment. The Poisson distribution is skewed to the right:
/// its quantile is (z^2 - 1) / 6 losses above the normal one (first term of Cornish-Fisher).
const SKEW_THIRDS: u64 = (SIGMAS * SIGMAS - 1) / 2;

/// True if the RTT shows a (nearly) empty queue: at most 1/8 above `min_rtt`.
pub(super) fn queue_is_empty(rtt: Duration, min_rtt: Duration) -> bool {
    rtt <= min_rtt + min_rtt / EMPTY_QUEUE_RTT_DIVISOR
}

/// Delivered and lost bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) acked: u64,
    pub(super) lost: u64,
}

impl Tally {
    pub(super) fn add(&mut self, acked: u64, lost: u64) {
        self.acked += acked;
        self.lost += lost;
    }

    pub(super) fn sent(&self) -> u64 {
        self.acked + self.lost
    }

    /// Returns the loss rate, parts per million.
    fn ppm(&self) -> u64 {
        mul_div(self.lost, PPM, self.sent().max(1))
    }

    fn halve(&mut self) {
        self.acked /= 2;
        self.lost /= 2;
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BaseLoss {
    evidence: Tally,
    round: Tally,
    awaiting_growth: Tally,
    /// True if the current cycle added samples.
    is_fresh: bool,
    test: Test,
}

/// Loss test at half the rate.
#[derive(Debug, Clone, Copy, Default)]
struct Test {
    /// Samples of the current or the last test.
    tally: Tally,
    /// Loss rate that does not depend on the rate, as found by the last test, parts per million.
    found: u64,
    began: Option<Instant>,
}

impl Test {
    fn is_complete(&self, mss: u64) -> bool {
        self.tally.sent() >= MIN_SEGMENTS * mss
    }
}

impl BaseLoss {
    /// Ends a round of `Startup`. `grew`: the delivery rate rose by 25 % over the previous round.
    pub(super) fn on_startup_round(&mut self, grew: bool, mss: u64) {
        if grew {
            self.commit(self.awaiting_growth, mss);
        }
        self.awaiting_growth = self.round;
        self.round = Tally::default();
    }

    /// Adds an ACK with an [empty queue](queue_is_empty), in `Startup` or while no packet sent
    /// above the bandwidth is being acknowledged.
    pub(super) fn on_empty_queue_ack(&mut self, acked: u64, lost: u64) {
        self.round.add(acked, lost);
    }

    /// Ends a round outside `Startup`, after its loss was evaluated.
    pub(super) fn on_round(&mut self, mss: u64) {
        self.commit(self.round, mss);
        self.round = Tally::default();
    }

    /// Ends a probing cycle: halves the tally, but keeps enough for an estimate if the cycle added
    /// samples. A flow that never sees an empty queue again thus does not tolerate loss forever
    /// because of old samples.
    pub(super) fn on_cycle(&mut self, mss: u64) {
        let is_fresh = std::mem::take(&mut self.is_fresh);
        if !is_fresh || self.evidence.sent() >= 2 * MIN_SEGMENTS * mss {
            self.evidence.halve();
        }
    }

    /// Ends `Startup`: drops the samples of rounds after which the delivery rate did not grow,
    /// because a full pipe may have caused their losses.
    pub(super) fn on_startup_done(&mut self) {
        self.round = Tally::default();
        self.awaiting_growth = Tally::default();
    }

    /// True if there are enough samples for an estimate.
    pub(super) fn is_known(&self, mss: u64) -> bool {
        self.evidence.sent() >= MIN_SEGMENTS * mss
    }

    /// Returns the base loss rate, parts per million of the bytes sent.
    pub(super) fn ppm(&self, mss: u64) -> u64 {
        if !self.is_known(mss) {
            return 0;
        }
        self.evidence.ppm().min(self.test.found.clamp(MAX_UNTESTED, MAX_BASE))
    }

    /// True if the measured rate needs a test and the last one is over [`TEST_INTERVAL`] ago, or
    /// [`RESUME_INTERVAL`] if it had too few samples.
    pub(super) fn wants_test(&self, now: Instant, mss: u64) -> bool {
        let much = self.is_known(mss) && self.evidence.ppm() > MAX_UNTESTED;
        let interval = if self.test.is_complete(mss) { TEST_INTERVAL } else { RESUME_INTERVAL };
        much && self.test.began.is_none_or(|began| now > began + interval)
    }

    /// Starts a test, or goes on with one: the caller halves the rate from now on.
    pub(super) fn on_test_begins(&mut self, now: Instant, mss: u64) {
        if self.test.is_complete(mss) {
            self.test.tally = Tally::default();
        }
        self.test.began = Some(now);
    }

    /// Adds an ACK of data sent at half the rate.
    pub(super) fn on_test_ack(&mut self, acked: u64, lost: u64, mss: u64) {
        self.test.tally.add(acked, lost);
        if self.test.is_complete(mss) {
            let at_half_rate = self.test.tally.ppm();
            let by_rate = self.evidence.ppm().saturating_sub(at_half_rate);
            self.test.found = at_half_rate.saturating_sub(by_rate);
        }
    }

    /// Returns the bytes of loss among `sent` bytes that the base rate and random variation
    /// explain.
    pub(super) fn explained(&self, sent: u64, mss: u64) -> u64 {
        let ppm = self.ppm(mss);
        let expected = mul_div(sent, ppm, PPM);
        if expected == 0 {
            return 0;
        }
        let variance = mul_div(expected, PPM - ppm, PPM).saturating_mul(mss);
        expected + SIGMAS * variance.isqrt() + SKEW_THIRDS * mss / 3
    }

    fn commit(&mut self, round: Tally, mss: u64) {
        self.is_fresh |= round.sent() > 0;
        self.evidence.add(round.acked, round.lost);
        if self.evidence.sent() > WINDOW_SEGMENTS * mss {
            self.evidence.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    #[test]
    fn rtt_within_eighth_of_minimum_is_empty_queue() {
        let min_rtt = Duration::from_millis(80);
        assert!(queue_is_empty(Duration::from_millis(90), min_rtt));
        assert!(!queue_is_empty(Duration::from_micros(90_001), min_rtt));
    }

    #[test]
    fn too_few_samples_explain_no_loss() {
        let mut base = BaseLoss::default();
        base.on_empty_queue_ack(60 * MSS, 3 * MSS);
        base.on_round(MSS);
        assert_eq!((base.ppm(MSS), base.explained(1_000_000, MSS)), (0, 0), "63 packets are not enough");
    }

    #[test]
    fn loss_counts_from_next_round() {
        let mut base = BaseLoss::default();
        base.on_empty_queue_ack(950 * MSS, 50 * MSS);
        assert_eq!(base.ppm(MSS), 0);
        base.on_round(MSS);
        assert_eq!(base.ppm(MSS), 50_000);
        // Of 400 packets, 20 losses are expected; the tolerance is 3 * sqrt(19) + 4/3 = 14.4 more.
        assert_eq!(base.explained(400 * MSS, MSS), 20_000 + 3 * 4358 + 1333);
    }

    /// At 0.1 % loss, a round of 1200 packets has five losses once in 130 rounds, six once in 670.
    #[test]
    fn low_base_rate_tolerates_poisson_skew() {
        let mut base = BaseLoss::default();
        base.on_empty_queue_ack(7992 * MSS, 8 * MSS);
        base.on_round(MSS);
        assert_eq!(base.ppm(MSS), 1000);
        assert!((5 * MSS..6 * MSS).contains(&base.explained(1200 * MSS, MSS)));
    }

    #[test]
    fn startup_round_counts_after_next_round_grows() {
        let mut base = BaseLoss::default();
        base.on_empty_queue_ack(98 * MSS, 2 * MSS);
        base.on_startup_round(true, MSS);
        assert_eq!(base.ppm(MSS), 0, "not yet confirmed");
        base.on_empty_queue_ack(100 * MSS, 100 * MSS);
        base.on_startup_round(true, MSS);
        assert_eq!(base.ppm(MSS), 20_000, "the first round was below the pipe");
        base.on_startup_round(false, MSS);
        base.on_startup_done();
        assert_eq!(base.ppm(MSS), 20_000, "half the second round was lost, and the rate grew no more");
    }

    #[test]
    fn base_above_eighth_needs_half_rate_test() {
        let now = crate::congestion::bbr::tests::origin();
        let mut base = BaseLoss::default();
        base.on_empty_queue_ack(700 * MSS, 300 * MSS);
        base.on_round(MSS);
        assert!(base.wants_test(now, MSS));
        assert_eq!(base.ppm(MSS), MAX_UNTESTED);
        base.on_test_begins(now, MSS);
        assert!(!base.wants_test(now + RESUME_INTERVAL, MSS));
        base.on_test_ack(50 * MSS, 13 * MSS, MSS);
        assert_eq!(base.ppm(MSS), MAX_UNTESTED, "63 packets are not enough");
        assert!(base.wants_test(now + RESUME_INTERVAL * 2, MSS));
        base.on_test_begins(now + RESUME_INTERVAL * 2, MSS);
        base.on_test_ack(20 * MSS, 17 * MSS, MSS);
        assert_eq!(base.ppm(MSS), 300_000);
        assert!(!base.wants_test(now + TEST_INTERVAL, MSS));
        // At half the rate, 25 % is lost: at none, it would be 20 %.
        base.on_test_begins(now + 2 * TEST_INTERVAL, MSS);
        base.on_test_ack(75 * MSS, 25 * MSS, MSS);
        assert_eq!(base.ppm(MSS), 200_000);
        // At half the rate, 5 % is lost: all depends on the rate.
        base.on_test_begins(now + 4 * TEST_INTERVAL, MSS);
        base.on_test_ack(95 * MSS, 5 * MSS, MSS);
        assert_eq!(base.ppm(MSS), MAX_UNTESTED);
    }

    #[test]
    fn cycle_with_samples_keeps_estimate() {
        let mut base = BaseLoss::default();
        base.on_empty_queue_ack(60 * MSS, 12 * MSS);
        base.on_round(MSS);
        base.on_cycle(MSS);
        assert!(base.is_known(MSS), "72 packets stay");
        base.on_cycle(MSS);
        assert!(!base.is_known(MSS), "a cycle without samples");
    }

    #[test]
    fn base_is_bounded_and_decays() {
        let mut base = BaseLoss::default();
        base.on_empty_queue_ack(5000 * MSS, 5000 * MSS);
        base.on_round(MSS);
        assert_eq!(base.ppm(MSS), 125_000);
        for _ in 0..10 {
            base.on_empty_queue_ack(5000 * MSS, 0);
            base.on_round(MSS);
        }
        assert!(base.ppm(MSS) < 10_000, "{}", base.ppm(MSS));
    }
}
