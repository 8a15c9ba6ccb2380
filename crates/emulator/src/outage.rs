//! Outages: times at which a link drops arriving packets.
//!
//! Packets already inside the link are delivered, as by a router whose input was disconnected.

use std::time::Duration;

/// Times at which a link drops arriving packets, counted from the start of the link
/// ([`Link::start`](crate::Link::start)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Outage {
    /// No outage.
    #[default]
    None,
    /// The link is down for the first `down` of every `period`. Periods begin at `offset`.
    Periodic {
        /// Time from the start of one outage to the start of the next. Zero: no outage.
        period: Duration,
        /// Duration of each outage. If it is not shorter than `period`, the link stays down.
        down: Duration,
        /// Start of the first outage.
        offset: Duration,
    },
    /// The link is down from the first time of each pair to just before the second.
    Intervals(Vec<(Duration, Duration)>),
}

impl Outage {
    /// Returns outages of `down` at the start of every `period`, the first at `offset`.
    pub const fn periodic(period: Duration, down: Duration, offset: Duration) -> Self {
        Self::Periodic { period, down, offset }
    }

    /// Returns a single outage, from `from` to just before `to`.
    pub fn once(from: Duration, to: Duration) -> Self {
        Self::Intervals(vec![(from, to)])
    }

    /// Returns whether the link is down at `elapsed` after its start.
    pub fn is_down(&self, elapsed: Duration) -> bool {
        match self {
            Self::None => false,
            Self::Periodic { period, down, offset } => elapsed
                .checked_sub(*offset)
                .and_then(|since| since.as_nanos().checked_rem(period.as_nanos()))
                .is_some_and(|phase| phase < down.as_nanos()),
            Self::Intervals(intervals) => intervals.iter().any(|&(from, to)| (from..to).contains(&elapsed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{just_before, ms, ns};

    fn down(outage: &Outage, times: &[Duration]) -> Vec<bool> {
        times.iter().map(|&at| outage.is_down(at)).collect()
    }

    #[test]
    fn periodic_outage_is_exact_at_both_ends() {
        let outage = Outage::periodic(ms(100), ms(30), ms(50));
        let times =
            [ms(0), just_before(ms(50)), ms(50), just_before(ms(80)), ms(80), just_before(ms(150)), ms(150)];
        assert_eq!(down(&outage, &times), [false, false, true, true, false, false, true]);
        let far = ms(50) + ms(100) * 1_000_000;
        assert_eq!(down(&outage, &[just_before(far), far, far + ms(30)]), [false, true, false]);
    }

    #[test]
    fn periodic_outage_lasts_its_share() {
        let outage = Outage::periodic(ns(7), ns(3), ns(2));
        let dead = (2..7_002).filter(|&at| outage.is_down(ns(at))).count();
        assert_eq!(dead, 3_000);
    }

    #[test]
    fn zero_period_and_full_period_outages() {
        assert!(!Outage::periodic(ms(0), ms(5), ms(0)).is_down(ms(1)));
        let endless = Outage::periodic(ms(5), ms(9), ms(1));
        assert_eq!(down(&endless, &[ms(0), ms(1), ms(6), Duration::MAX]), [false, true, true, true]);
    }

    #[test]
    fn intervals_include_start_and_exclude_end() {
        let outage = Outage::Intervals(vec![(ms(30), ms(40)), (ms(10), ms(20)), (ms(15), ms(15))]);
        let times = [just_before(ms(10)), ms(10), just_before(ms(20)), ms(20), ms(30), ms(40)];
        assert_eq!(down(&outage, &times), [false, true, true, false, true, false]);
        assert!(!Outage::None.is_down(ms(10)));
        assert!(Outage::once(ms(1), ms(2)).is_down(ms(1)));
    }
}
