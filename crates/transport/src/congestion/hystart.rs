//! `HyStart++` (RFC 9406): leaves the first slow start when the round-trip time rises, before
//! packets are lost.
//!
//! Rounds are counted by delivered bytes: a round is over when everything that was in flight at its
//! start has been delivered.

use std::time::Duration;

use super::AckEvent;

/// Smallest and largest rise that counts, and the share of the round-trip time that counts between
/// them (RFC 9406, section 4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;

/// Samples that a round must have given before its minimum says anything.
const N_RTT_SAMPLE: u32 = 8;

/// By how much slower conservative slow start grows, and for how many rounds.
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// Segments by which one ACK may open the window when nothing paces what it releases (`L`).
const UNPACED_LIMIT: u64 = 8;

/// Result of an ACK in slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The window may open by this many bytes.
    Grow(u64),
    /// The window is large enough: slow start is over, without a loss.
    Exit,
}

/// The detector's state. It lives for the first slow start only.
#[derive(Debug, Clone)]
pub(super) struct HyStart {
    paced: bool,
    conservative: Option<Conservative>,
    /// Value of `delivered` with which the round ends; `None` before the first ACK.
    round_end: Option<u64>,
    last_round_min_rtt: Option<Duration>,
    current_round_min_rtt: Option<Duration>,
    rtt_sample_count: u32,
}

/// Conservative slow start (CSS).
#[derive(Debug, Clone, Copy)]
struct Conservative {
    baseline_min_rtt: Duration,
    /// Rounds ended in this phase, the one in which it began included.
    rounds: u32,
}

impl HyStart {
    /// With `paced`, one ACK may open the window by all that it acknowledges.
    pub(super) fn new(paced: bool) -> Self {
        Self {
            paced,
            conservative: None,
            round_end: None,
            last_round_min_rtt: None,
            current_round_min_rtt: None,
            rtt_sample_count: 0,
        }
    }

    /// True while growth is slowed down to see whether the rise lasts.
    pub(super) fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// Takes the ACK's sample and says by how much the window may open. The caller ignores `Grow`
    /// where the window was not in full use.
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
        if self.rtt_sample_count < N_RTT_SAMPLE {
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

    /// True if conservative slow start has lasted long enough.
    fn end_round(&mut self, next_end: u64) -> bool {
        self.round_end = Some(next_end);
        self.last_round_min_rtt = self.current_round_min_rtt.take();
        self.rtt_sample_count = 0;
        let Some(css) = &mut self.conservative else { return false };
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }
}

/// The rise of a round's smallest round-trip time over the last one's, `last_round_min_rtt`, that
/// counts.
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

        /// What the round's ACKs led to, one after the other. Nine segments are in flight after the
        /// round's first ACK, the last ACK of the round before having found ten.
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
        // 100 / 8 = 12.5 ms: 112 ms is no rise, 113 ms is one, seen with the eighth sample.
        assert_eq!(rounds.round([112; 10]), [Step::Grow(MSS); 10]);
        rounds.round([100; 10]);
        let steps = rounds.round([113; 10]);
        assert_eq!(steps[..8], [Step::Grow(1000); 8]);
        assert_eq!(steps[8..], [Step::Grow(250); 2]);
        for _ in 0..3 {
            assert_eq!(rounds.round([113; 10]), [Step::Grow(250); 10]);
        }
        // The round in which it began was the first of the five.
        let steps = rounds.round([113; 10]);
        assert_eq!((steps[8], steps[9]), (Step::Grow(250), Step::Exit));
    }

    #[test]
    fn a_rise_that_passes_resumes_slow_start() {
        let mut rounds = Rounds::new();
        rounds.round([100; 10]);
        rounds.round([120; 10]);
        assert!(rounds.hystart.is_conservative());
        let steps = rounds.round([110; 10]);
        assert!(!rounds.hystart.is_conservative());
        assert_eq!(steps[7..], [Step::Grow(250), Step::Grow(1000), Step::Grow(1000)]);
    }

    #[test]
    fn seven_samples_say_nothing() {
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
    fn one_low_sample_is_the_rounds_minimum() {
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
