use super::*;
use crate::draw::Direction;
use rdt_testing::{epoch, ms, ns};

#[test]
fn every_bit_travels_for_the_delay() {
    let now = epoch();
    assert_eq!(Delay::new(ms(50)).arrival(now), now + ms(50));
}

#[test]
fn an_endless_wire_saturates_in_order() {
    let now = epoch();
    let wire = Delay::new(Duration::MAX);
    assert!(wire.arrival(now) <= wire.arrival(now + ns(1)));
}

fn draws(index: u64) -> Draws {
    Draws { seed: 21, direction: Direction::Forward, index }
}

const COUNT: u64 = 100_000;

/// Returns the delays of `COUNT` packets that are sent one every `gap`.
fn travels(wire: &mut Delay, gap: Duration) -> Vec<Duration> {
    let mut sent_at = epoch();
    (0..COUNT)
        .map(|n| {
            sent_at += gap;
            wire.travel(sent_at, draws(n)).due - sent_at
        })
        .collect()
}

/// Returns mean and standard deviation of `times`, in nanoseconds.
fn moments(times: &[Duration]) -> (f64, f64) {
    let times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e9).collect();
    let count = f64::from(u32::try_from(times.len()).unwrap());
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

/// The mean of n values has the standard error sigma / sqrt(n). Their standard deviation has at
/// most sigma / sqrt(2 n) if the tails are no heavier than those of a normal distribution.
fn assert_moments(times: &[Duration], mean: f64, sigma: f64) {
    let (actual_mean, actual_sigma) = moments(times);
    let count = f64::from(u32::try_from(times.len()).unwrap());
    let of_mean = (actual_mean - mean) / (sigma / count.sqrt());
    let of_sigma = (actual_sigma - sigma) / (sigma / (2.0 * count).sqrt());
    assert!(of_mean.abs() < 4.0, "mean {actual_mean}: {of_mean} sigma");
    assert!(of_sigma.abs() < 4.0, "deviation {actual_sigma}: {of_sigma} sigma");
}

#[test]
fn nothing_varied_is_the_fixed_wire() {
    let mut wire = Delay::new(ms(5)).varied(None, None);
    assert!(wire.variation.is_none());
    assert!(travels(&mut wire, ns(1)).iter().all(|&time| time == ms(5)));
}

#[test]
fn uniform_jitter_adds_up_to_spread() {
    let mut wire = Delay::new(ms(50)).varied(Some(Jitter::uniform(ms(8))), None);
    let times = travels(&mut wire, ms(8));
    assert!(times.iter().all(|&time| time >= ms(50) && time < ms(58)));
    assert_moments(&times, 54e6, 8e6 / 12.0_f64.sqrt());
}

#[test]
fn normal_jitter_has_configured_mean_and_deviation() {
    let mut wire = Delay::new(ms(50)).varied(Some(Jitter::normal(ms(2))), None);
    let times = travels(&mut wire, ms(20));
    assert_moments(&times, 50e6, 2e6);
    let reach = ns(6_940_000);
    assert!(times.iter().all(|&time| time.abs_diff(ms(50)) < reach));
    // The sum of four numbers from -1/2 to 1/2 has the density 2/3 - x^2 + |x|^3 / 2 up to |x| = 1,
    // and the deviation 1 / sqrt(3): this is the integral over one deviation either way.
    let c = 1.0 / 3.0_f64.sqrt();
    let share = 4.0 / 3.0 * c - 2.0 / 3.0 * c.powi(3) + 0.25 * c.powi(4);
    let within = times.iter().filter(|&&time| time >= ms(48) && time < ms(52)).count();
    let (within, count) = (f64::from(u32::try_from(within).unwrap()), 1e5);
    let deviation = (within - count * share) / (count * share * (1.0 - share)).sqrt();
    assert!(deviation.abs() < 4.0, "{within}: {deviation} sigma");
}

#[test]
fn a_delay_is_never_negative() {
    let mut wire = Delay::new(ms(1)).varied(Some(Jitter::normal(ms(100))), None);
    let times = travels(&mut wire, ms(1_000));
    assert!(times.contains(&Duration::ZERO));
}

#[test]
fn jitter_keeps_order_by_default() {
    for shape in [Jitter::uniform(ms(10)), Jitter::normal(ms(3))] {
        let start = epoch();
        let dues = |jitter| -> Vec<Instant> {
            let mut wire = Delay::new(ms(20)).varied(Some(jitter), None);
            (0..1_000).map(|n| wire.travel(start + ns(n * 100_000), draws(n)).due).collect()
        };
        let (ordered, free) = (dues(shape), dues(shape.unordered()));
        assert!(ordered.is_sorted());
        assert!(!free.is_sorted());
        // With the order preserved, a packet is due with the latest packet up to it.
        let mut latest = free[0];
        for (n, &due) in free.iter().enumerate() {
            latest = latest.max(due);
            assert_eq!(ordered[n], latest, "packet {n}");
        }
    }
}

#[test]
fn reordering_adds_exact_extra_delay() {
    let reorder = Reorder { probability: Probability::new(0.1).unwrap(), extra: ms(7) };
    let mut wire = Delay::new(ms(20)).varied(None, Some(reorder));
    let start = epoch();
    let mut held_back = 0_u32;
    for n in 0..COUNT {
        let sent_at = start + ns(n);
        let arrival = wire.travel(sent_at, draws(n));
        held_back += u32::from(arrival.held_back);
        assert_eq!(arrival.due - sent_at, if arrival.held_back { ms(27) } else { ms(20) });
    }
    let sigma = (1e5_f64 * 0.1 * 0.9).sqrt();
    let deviation = (f64::from(held_back) - 1e4) / sigma;
    assert!(deviation.abs() < 4.0, "{held_back}: {deviation} sigma");
}

#[test]
fn held_back_packet_delays_no_other() {
    let reorder = Reorder { probability: Probability::new(0.5).unwrap(), extra: ms(500) };
    let mut alone = Delay::new(ms(20)).varied(Some(Jitter::uniform(ns(1))), None);
    let mut mixed = Delay::new(ms(20)).varied(Some(Jitter::uniform(ns(1))), Some(reorder));
    let now = epoch();
    for n in 0..1_000 {
        let (expected, arrival) = (alone.travel(now, draws(n)), mixed.travel(now, draws(n)));
        if !arrival.held_back {
            assert_eq!(arrival, expected);
        }
    }
}

#[test]
fn share_stays_below_bound() {
    assert_eq!([share(0, 10), share(u64::MAX, 10), share(u64::MAX, 0)], [0, 9, 0]);
    assert_eq!(share(1 << 63, u64::MAX), u64::MAX / 2);
}

#[test]
fn extreme_jitter_saturates() {
    let now = epoch();
    for jitter in [Jitter::uniform(Duration::MAX), Jitter::normal(Duration::MAX)] {
        let reorder = Reorder { probability: Probability::ONE, extra: Duration::MAX };
        let mut wire = Delay::new(Duration::MAX).varied(Some(jitter), Some(reorder));
        assert!((0..100).all(|n| wire.travel(now, draws(n)).due > now));
    }
}
