//! `HyStart++` (RFC 9406): leaves the first slow start when the RTT rises, before packets are lost.
//!
//! A round ends when all bytes in flight at its start have been delivered.

use std::time::Duration;

use super::AckEvent;

/// RTT rise that counts: the RTT over the divisor, within these limits (RFC 9406, section 4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;

/// RTT samples needed per round.
const N_RTT_SAMPLE: u32 = 8;

/// Growth divisor of conservative slow start, and its length in rounds.
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// Window growth per ACK without pacing, segments (`L`).
const UNPACED_LIMIT: u64 = 8;

/// Result of an ACK in slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The window may open by this many bytes.
    Grow(u64),
    /// End slow start, without a loss.
    Exit,
}

/// Detector state, used during the first slow start only.
#[derive(Debug, Clone, Default)]
pub(super) struct HyStart {
    paced: bool,
    conservative: Option<Conservative>,
    /// The round ends at this value of `delivered`; `None` before the first ACK.
    round_end: Option<u64>,
    last_round_min_rtt: Option<Duration>,
    current_round_min_rtt: Option<Duration>,
    rtt_sample_count: u32,
}

/// Conservative slow start (CSS).
#[derive(Debug, Clone, Copy)]
struct Conservative {
    baseline_min_rtt: Duration,
    /// Rounds completed in this phase, including its first round.
    rounds: u32,
}

impl HyStart {
    /// Returns a detector in standard slow start. With `paced`, growth per ACK is not limited.
    pub(super) fn new(paced: bool) -> Self {
        Self { paced, ..Self::default() }
    }

    /// True in conservative slow start, which tests whether the RTT rise persists.
    pub(super) fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// True until this round has enough RTT samples.
    pub(super) fn lacks_samples(&self) -> bool {
        self.rtt_sample_count < N_RTT_SAMPLE
    }

    /// Processes an ACK and returns the window growth. The caller ignores `Grow` if the sender was
    /// not cwnd-limited.
    pub(super) fn on_ack(&mut self, ack: &AckEvent, mss: u64) -> Step {
        let round_end = *self.round_end.get_or_insert(ack.delivered + ack.in_flight);
        let limit = if self.paced { u64::MAX } else { UNPACED_LIMIT * mss };
        let divisor = if self.is_conservative() { CSS_GROWTH_DIVISOR } else { 1 };
        if let Some(rtt) = ack.latest_rtt {
            self.current_round_min_rtt = Some(self.current_round_min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.rtt_sample_count += 1;
        }
        self.judge();
        if ack.delivered >= round_end && self.end_round(ack.delivered + ack.in_flight) {
            return Step::Exit;
        }
        Step::Grow(ack.acked.min(limit) / divisor)
    }

    /// Enters or leaves conservative slow start.
    fn judge(&mut self) {
        let Some(current) = self.current_round_min_rtt else { return };
        if self.lacks_samples() {
            return;
        }
        match (self.conservative, self.last_round_min_rtt) {
            (None, Some(last)) if current >= last + threshold(last) => {
                self.conservative = Some(Conservative { baseline_min_rtt: current, rounds: 0 });
            }
            (Some(css), _) if current < css.baseline_min_rtt => self.conservative = None,
            _ => {}
        }
    }

    /// Ends a round. Returns true if conservative slow start has lasted [`CSS_ROUNDS`].
    fn end_round(&mut self, next_end: u64) -> bool {
        self.round_end = Some(next_end);
        self.last_round_min_rtt = self.current_round_min_rtt.take();
        self.rtt_sample_count = 0;
        let Some(css) = &mut self.conservative else { return false };
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }
}

/// Returns the smallest significant rise of a round's minimum RTT over the previous round's.
fn threshold(last_round_min_rtt: Duration) -> Duration {
    (last_round_min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, start};
    use super::*;

    const MSS: u64 = 1000;

    /// Rounds of ten ACKs, each of one segment.
    struct Rounds {
        hystart: HyStart,
        delivered: u64,
    }

    impl Rounds {
        fn new() -> Self {
            Self { hystart: HyStart::new(false), delivered: 0 }
        }

        /// Returns the results of the round's ACKs. Ten segments are in flight after the last ACK
        /// of the previous round, nine after the first ACK of this one.
        fn round(&mut self, rtts: [u64; 10]) -> Vec<Step> {
            let mut steps = Vec::new();
            for (i, rtt) in (0..).zip(rtts) {
                self.delivered += MSS;
                let in_flight = if i == 9 { 10 } else { 9 - i } * MSS;
                let event = AckEvent {
                    delivered: self.delivered,
                    in_flight,
                    latest_rtt: Some(Duration::from_millis(rtt)),
                    ..ack(start(), MSS)
                };
                steps.push(self.hystart.on_ack(&event, MSS));
            }
            steps
        }
    }

    #[test]
    fn rtt_threshold_is_an_eighth_within_bounds() {
        for (rtt, rise) in [(1, 4000), (32, 4000), (40, 5000), (100, 12_500), (128, 16_000), (600, 16_000)] {
            assert_eq!(threshold(Duration::from_millis(rtt)), Duration::from_micros(rise), "{rtt} ms");
        }
    }

    #[test]
    fn steady_rtt_never_ends_slow_start() {
        let mut rounds = Rounds::new();
        for _ in 0..20 {
            assert_eq!(rounds.round([100; 10]), [Step::Grow(MSS); 10]);
        }
    }

    #[test]
    fn rtt_rise_enters_css_for_five_rounds() {
        let mut rounds = Rounds::new();
        rounds.round([100; 10]);
        // 100 / 8 = 12.5 ms: 112 ms is no rise, 113 ms is, detected at the eighth sample.
        assert_eq!(rounds.round([112; 10]), [Step::Grow(MSS); 10]);
        rounds.round([100; 10]);
        let steps = rounds.round([113; 10]);
        assert_eq!(steps[..8], [Step::Grow(1000); 8]);
        assert_eq!(steps[8..], [Step::Grow(250); 2]);
        for _ in 0..3 {
            assert_eq!(rounds.round([113; 10]), [Step::Grow(250); 10]);
        }
        // The round of the rise is the first of the five.
        let steps = rounds.round([113; 10]);
        assert_eq!((steps[8], steps[9]), (Step::Grow(250), Step::Exit));
    }

    #[test]
    fn transient_rtt_rise_resumes_slow_start() {
        let mut rounds = Rounds::new();
        rounds.round([100; 10]);
        rounds.round([120; 10]);
        assert!(rounds.hystart.is_conservative());
        let steps = rounds.round([110; 10]);
        assert!(!rounds.hystart.is_conservative());
        assert_eq!(steps[7..], [Step::Grow(250), Step::Grow(1000), Step::Grow(1000)]);
    }

    #[test]
    fn seven_samples_are_too_few() {
        let mut rounds = Rounds::new();
        rounds.round([100; 10]);
        for i in 0..7 {
            let event = AckEvent {
                delivered: 11_000 + i,
                in_flight: 9000,
                latest_rtt: Some(Duration::from_millis(500)),
                ..ack(start(), MSS)
            };
            rounds.hystart.on_ack(&event, MSS);
        }
        assert!(!rounds.hystart.is_conservative());
    }

    #[test]
    fn one_low_sample_prevents_conservative_slow_start() {
        let mut rounds = Rounds::new();
        rounds.round([100; 10]);
        rounds.round([500, 500, 500, 105, 500, 500, 500, 500, 500, 500]);
        assert!(!rounds.hystart.is_conservative());
    }

    #[test]
    fn unpaced_ack_opens_at_most_eight_segments() {
        let stretched = ack(start(), 44 * MSS);
        assert_eq!(HyStart::new(false).on_ack(&stretched, MSS), Step::Grow(8 * MSS));
        assert_eq!(HyStart::new(true).on_ack(&stretched, MSS), Step::Grow(44 * MSS));
    }
}
