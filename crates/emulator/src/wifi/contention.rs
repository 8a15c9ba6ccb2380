//! Airtime that contention between stations costs.
//!
//! The model is that of G. Bianchi, "Performance Analysis of the IEEE 802.11 Distributed
//! Coordination Function", IEEE JSAC 18(3), March 2000: stations always have a frame to send,
//! collide with a constant probability, and repeat a frame until it arrives.

use super::phy::Timing;

/// Mean idle time and collisions for each delivered frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contention {
    /// Mean time of idle slots for each delivered frame, in ns.
    pub(super) idle: u64,
    /// Mean number of collisions for each delivered frame, in millionths.
    pub(super) collisions: u64,
}

/// One collision, in the unit of [`Contention::collisions`].
pub(super) const PER_MILLION: u64 = 1_000_000;

impl Contention {
    /// Returns the means for a cell of `stations` stations, at least 1.
    ///
    /// A single station has no collisions, and half of `aCWmin` idle slots on average.
    pub(super) fn among(stations: u32, timing: Timing) -> Self {
        let attempt = attempt_probability(stations, timing);
        // Idle slots and collisions for each successful transmission (equations 10, 11).
        let silent = power(1.0 - attempt, stations);
        let success = f64::from(stations) * attempt * power(1.0 - attempt, stations - 1);
        let idle = silent / success * f64::from(u32::try_from(timing.slot).unwrap_or(u32::MAX));
        let collisions = (1.0 - silent - success).max(0.0) / success;
        Self { idle: whole(idle), collisions: whole(collisions * 1e6) }
    }
}

/// Returns the probability that a station sends in a slot: the solution of equations 7 and 9. Their
/// difference is monotonic in the collision probability, so bisection finds it.
fn attempt_probability(stations: u32, timing: Timing) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let collision = f64::midpoint(low, high);
        let attempt = attempt_given(collision, timing);
        if 1.0 - power(1.0 - attempt, stations - 1) > collision {
            low = collision;
        } else {
            high = collision;
        }
    }
    attempt_given(low, timing)
}

/// Returns the probability that a station sends in a slot, given the collision probability. This is
/// equation 7 with its geometric series as a sum, which is also defined at a probability of 1/2.
fn attempt_given(collision: f64, timing: Timing) -> f64 {
    let window = f64::from(timing.cw_min + 1);
    let sum: f64 = (0..timing.stages()).map(|stage| power(2.0 * collision, stage)).sum();
    2.0 / (1.0 + window + collision * window * sum)
}

/// Returns `base` to the power of `exponent`; the result of `powf` may differ between platforms.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "means of at most 256 stations: positive and below 2^40"
)]
fn whole(mean: f64) -> u64 {
    mean.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wifi::phy::{CW_MAX, SlotTime, WifiStandard};
    use rdt_testing::Numbers;

    #[test]
    fn single_station_waits_half_window_without_collision() {
        for (standard, idle) in
            [(WifiStandard::A, 67_500), (WifiStandard::B, 310_000), (WifiStandard::G, 150_000)]
        {
            let alone = Contention::among(1, Timing::new(standard, SlotTime::Long));
            assert_eq!(alone, Contention { idle, collisions: 0 });
        }
    }

    #[test]
    fn more_stations_collide_more_often() {
        let timing = Timing::new(WifiStandard::B, SlotTime::Long);
        let collisions: Vec<_> = (1..=255).map(|n| Contention::among(n, timing).collisions).collect();
        assert!(collisions.is_sorted_by(|a, b| a < b), "{collisions:?}");
    }

    /// Simulates the back-off of 10.3.3 slot by slot: a station whose count reaches zero sends, and
    /// a collision doubles the range of its next back-off.
    fn played(stations: usize, timing: Timing, seed: u64) -> (f64, f64) {
        const SUCCESSES: u32 = 100_000;

        let mut numbers = Numbers::new(seed);
        let mut windows = vec![timing.cw_min; stations];
        let mut draw = |window: u32| numbers.below(u64::from(window) + 1);
        let mut counters: Vec<_> = windows.iter().map(|&window| draw(window)).collect();
        let (mut idle, mut collisions, mut successes) = (0_u32, 0_u32, 0_u32);
        while successes < SUCCESSES {
            let senders: Vec<_> = (0..stations).filter(|&station| counters[station] == 0).collect();
            match senders.len() {
                0 => idle += 1,
                1 => successes += 1,
                _ => collisions += 1,
            }
            for (station, counter) in counters.iter_mut().enumerate() {
                if *counter > 0 {
                    *counter -= 1;
                    continue;
                }
                let window = &mut windows[station];
                *window = if senders.len() == 1 { timing.cw_min } else { (*window * 2 + 1).min(CW_MAX) };
                *counter = draw(*window);
            }
        }
        (f64::from(idle) / f64::from(SUCCESSES), f64::from(collisions) / f64::from(SUCCESSES))
    }

    #[test]
    fn means_match_slot_simulation() {
        for standard in [WifiStandard::A, WifiStandard::B] {
            let timing = Timing::new(standard, SlotTime::Long);
            for stations in [1, 2, 5, 10, 30] {
                let seed = u64::from(stations);
                let model = Contention::among(stations, timing);
                let (idle, collisions) = played(stations as usize, timing, seed);
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let (model_idle, model_collisions) =
                    (model.idle as f64 / timing.slot as f64, model.collisions as f64 / 1e6);
                let what = format!("{standard}, {stations} stations, seed {seed}");
                assert!((model_idle - idle).abs() < 0.06 * idle + 0.15, "{what}: {model_idle} {idle}");
                assert!(
                    (model_collisions - collisions).abs() < 0.03,
                    "{what}: {model_collisions} {collisions}"
                );
            }
        }
    }
}
