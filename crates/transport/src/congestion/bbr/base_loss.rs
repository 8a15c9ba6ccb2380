//! The loss that is there however slowly one sends. A deviation from the draft, which has no such notion.
//!
//! The draft takes every loss for a sign of a full queue: a round of more than 2 % ends a probe and caps what
//! may be in flight, and outside probes any loss at all lowers the rate a little each round. On a path that
//! loses 5 % by itself (radio, a bad cable, a link model) each probe fails at once and the rate withers, though
//! nobody's queue gains by it: that loss does not answer to our rate.
//!
//! So the loss is measured where a full queue can be ruled out, and only what exceeds it is congestion. Two
//! things must hold of an ACK for it and the losses that came with it to count:
//!
//! - its round-trip time is within 1/8 of the smallest: the queue was (nearly) empty when that packet passed.
//!   Losses are noticed by ACKs of packets sent just after those lost, so they saw the same queue;
//! - in `Startup`, its round is one after which the delivery rate grew by another quarter: had the pipe been
//!   full it could not have grown. Later, nothing sent above the bandwidth is being acknowledged.
//!
//! What a round gave is used from the next one on, so that a burst of loss cannot excuse itself. Chance is
//! allowed for: with a base of p and n packets three times sqrt(n p), which is three standard deviations, and 4/3.
//! Without a base there is no allowance either, and the draft's rule is left as it stands. What the base rests on
//! counts half after [`WINDOW`] packets and after each cycle of probing.
//!
//! Above 1/8 the base is believed only as far as a test confirms it: `ProbeRTT` halves what is in flight, and loss
//! that answers to the rate is then less. Without the test, four flows that share a queue of five packets take each
//! other's losses for the path's and rise to 50 % loss; with it they stay at 15 %. The base is never above 1/2.
//!
//! Where it errs: a policer, and a queue shorter than 1/8 of the round trip that other flows keep full, lose
//! packets at small round trips. There the base rises to what such loss is in steady state; probing still sees
//! what it adds to it and keeps `inflight_longterm`, whose headroom brings the rate down, the loss and then
//! the base with it. And where the round trip varies by more than 1/8 without a queue there is too little
//! evidence, so that random loss is again taken for congestion. It can be switched off in
//! [`BbrConfig`](super::BbrConfig).

use std::time::{Duration, Instant};

use super::scale::{PPM, mul_div};

/// Packets of evidence above which the older half is forgotten.
const WINDOW: u64 = 8192;
/// Packets below which there is no evidence.
const ENOUGH: u64 = 64;
/// The largest base, parts per million.
const MAX_BASE: u64 = PPM / 2;
/// The largest base that no test at half the rate has confirmed.
const MAX_UNTESTED: u64 = PPM / 8;
/// Time between tests.
const TEST_INTERVAL: Duration = Duration::from_secs(5);
/// Of the smallest round trip: how much more still means an empty queue.
const CALM: u32 = 8;
/// Standard deviations that chance is granted.
const SIGMAS: u64 = 3;
/// What chance has beyond them where few losses are expected: a Poisson distribution leans to the right, and its
/// quantile lies (z^2 - 1) / 6 losses above that of the normal one (Cornish and Fisher's first term). Thirds.
const SKEW_THIRDS: u64 = (SIGMAS * SIGMAS - 1) / 2;

/// The queue was (nearly) empty: `rtt` exceeds `min_rtt` by an eighth at most.
pub(super) fn calm(rtt: Duration, min_rtt: Duration) -> bool {
    rtt <= min_rtt + min_rtt / CALM
}

/// Bytes that arrived and that did not.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    acked: u64,
    lost: u64,
}

impl Tally {
    fn sent(&self) -> u64 {
        self.acked + self.lost
    }

    /// Share that was lost, parts per million.
    fn ppm(&self) -> u64 {
        mul_div(self.lost, PPM, self.sent().max(1))
    }

    fn halve(&mut self) {
        self.acked /= 2;
        self.lost /= 2;
    }
}

/// The estimator of the base loss rate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BaseLoss {
    evidence: Tally,
    round: Tally,
    awaiting_growth: Tally,
    test: Test,
}

/// Loss at half the rate.
#[derive(Debug, Clone, Copy, Default)]
struct Test {
    /// Of the test that is on, or was.
    tally: Tally,
    /// What the last one found, parts per million.
    found: u64,
    began: Option<Instant>,
}

impl BaseLoss {
    /// A round of `Startup` is over; `grew` says that its rate was a quarter above the one before.
    pub(super) fn on_startup_round(&mut self, grew: bool, mss: u64) {
        if grew {
            self.commit(self.awaiting_growth, mss);
        }
        self.awaiting_growth = self.round;
        self.round = Tally::default();
    }

    /// Takes one [`calm`] ACK of `Startup`, or of a time in which nothing sent above the bandwidth is being
    /// acknowledged.
    pub(super) fn on_calm_ack(&mut self, acked: u64, lost: u64) {
        self.round.acked += acked;
        self.round.lost += lost;
    }

    /// A round outside `Startup` is over and has been judged.
    pub(super) fn on_round(&mut self, mss: u64) {
        self.commit(self.round, mss);
        self.round = Tally::default();
    }

    /// A cycle of probing is over: what is known counts half as much, so that a flow which never finds the
    /// queue empty again does not excuse loss for ever by what it saw long ago.
    pub(super) fn on_cycle(&mut self) {
        self.evidence.halve();
    }

    /// `Startup` is over: what no growth has confirmed may be due to the full pipe.
    pub(super) fn on_startup_done(&mut self) {
        self.round = Tally::default();
        self.awaiting_growth = Tally::default();
    }

    /// The base loss rate, parts per million of what is sent.
    pub(super) fn ppm(&self, mss: u64) -> u64 {
        if self.evidence.sent() < ENOUGH * mss {
            return 0;
        }
        self.evidence.ppm().min(self.test.found.clamp(MAX_UNTESTED, MAX_BASE))
    }

    /// There is more loss than is believed without a test, and the last test was long ago.
    pub(super) fn wants_test(&self, now: Instant, mss: u64) -> bool {
        let much = self.evidence.sent() >= ENOUGH * mss && self.evidence.ppm() > MAX_UNTESTED;
        much && self.test.began.is_none_or(|began| now > began + TEST_INTERVAL)
    }

    /// Sends at half the rate from now on.
    pub(super) fn on_test_begins(&mut self, now: Instant) {
        self.test.began = Some(now);
        self.test.tally = Tally::default();
    }

    /// Takes an ACK of what was sent at half the rate.
    pub(super) fn on_test_ack(&mut self, acked: u64, lost: u64, mss: u64) {
        self.test.tally.acked += acked;
        self.test.tally.lost += lost;
        if self.test.tally.sent() >= ENOUGH * mss {
            self.test.found = self.test.tally.ppm();
        }
    }

    /// Loss, in bytes, that the base and chance explain among `sent` bytes.
    pub(super) fn explained(&self, sent: u64, mss: u64) -> u64 {
        let expected = mul_div(sent, self.ppm(mss), PPM);
        if expected == 0 {
            return 0;
        }
        expected + SIGMAS * expected.saturating_mul(mss).isqrt() + SKEW_THIRDS * mss / 3
    }

    fn commit(&mut self, round: Tally, mss: u64) {
        self.evidence.acked += round.acked;
        self.evidence.lost += round.lost;
        if self.evidence.sent() > WINDOW * mss {
            self.evidence.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    #[test]
    fn an_eighth_more_than_the_least_is_no_queue() {
        let min_rtt = Duration::from_millis(80);
        assert!(calm(Duration::from_millis(90), min_rtt));
        assert!(!calm(Duration::from_micros(90_001), min_rtt));
    }

    #[test]
    fn without_evidence_nothing_is_explained() {
        let mut base = BaseLoss::default();
        base.on_calm_ack(60 * MSS, 3 * MSS);
        base.on_round(MSS);
        assert_eq!((base.ppm(MSS), base.explained(1_000_000, MSS)), (0, 0), "63 packets are not enough");
    }

    #[test]
    fn loss_counts_from_the_next_round_on() {
        let mut base = BaseLoss::default();
        base.on_calm_ack(950 * MSS, 50 * MSS);
        assert_eq!(base.ppm(MSS), 0);
        base.on_round(MSS);
        assert_eq!(base.ppm(MSS), 50_000);
        // Of 400 packets 20 are expected, and 3 * sqrt(20) + 4/3 = 14.7 more are chance.
        assert_eq!(base.explained(400 * MSS, MSS), 20_000 + 3 * 4472 + 1333);
    }

    /// One loss in a thousand, a round of 1200 packets: five lost come once in 130 rounds, six once in 670.
    #[test]
    fn the_few_losses_of_a_rare_base_are_chance_too() {
        let mut base = BaseLoss::default();
        base.on_calm_ack(7992 * MSS, 8 * MSS);
        base.on_round(MSS);
        assert_eq!(base.ppm(MSS), 1000);
        assert!((5 * MSS..6 * MSS).contains(&base.explained(1200 * MSS, MSS)));
    }

    #[test]
    fn startup_counts_a_round_once_the_next_has_grown() {
        let mut base = BaseLoss::default();
        base.on_calm_ack(98 * MSS, 2 * MSS);
        base.on_startup_round(true, MSS);
        assert_eq!(base.ppm(MSS), 0, "not yet confirmed");
        base.on_calm_ack(100 * MSS, 100 * MSS);
        base.on_startup_round(true, MSS);
        assert_eq!(base.ppm(MSS), 20_000, "the first round was below the pipe");
        base.on_startup_round(false, MSS);
        base.on_startup_done();
        assert_eq!(base.ppm(MSS), 20_000, "half the second round was lost, and the rate grew no more");
    }

    #[test]
    fn more_than_an_eighth_needs_a_test_at_half_the_rate() {
        let now = crate::congestion::bbr::tests::origin();
        let mut base = BaseLoss::default();
        base.on_calm_ack(700 * MSS, 300 * MSS);
        base.on_round(MSS);
        assert!(base.wants_test(now, MSS));
        assert_eq!(base.ppm(MSS), MAX_UNTESTED);
        base.on_test_begins(now);
        assert!(!base.wants_test(now + TEST_INTERVAL, MSS));
        base.on_test_ack(50 * MSS, 13 * MSS, MSS);
        assert_eq!(base.ppm(MSS), MAX_UNTESTED, "63 packets are not enough");
        base.on_test_ack(20 * MSS, 17 * MSS, MSS);
        assert_eq!(base.ppm(MSS), 300_000);
        // At half the rate a twentieth is lost: the rest answers to the rate.
        base.on_test_begins(now + 2 * TEST_INTERVAL);
        base.on_test_ack(95 * MSS, 5 * MSS, MSS);
        assert_eq!(base.ppm(MSS), MAX_UNTESTED);
    }

    #[test]
    fn the_base_is_bounded_and_forgets() {
        let mut base = BaseLoss::default();
        base.on_calm_ack(5000 * MSS, 5000 * MSS);
        base.on_round(MSS);
        assert_eq!(base.ppm(MSS), 125_000);
        for _ in 0..10 {
            base.on_calm_ack(5000 * MSS, 0);
            base.on_round(MSS);
        }
        assert!(base.ppm(MSS) < 10_000, "{}", base.ppm(MSS));
    }
}
