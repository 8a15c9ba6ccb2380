//! The controller with numbers computed by hand, and the share of drops over many packets.

use super::*;
use crate::draw::{Direction, Stage, draw};
use rdt_testing::{epoch, ms};

fn nth_draw(n: u64) -> u64 {
    draw(9, Direction::Forward, Stage::EarlyDrop, n)
}

/// Returns a controller with this drop probability, no burst allowance, and a long queue.
fn settled(drop_prob: f64) -> Pie {
    let mut pie = Pie::new(PieConfig::default());
    pie.drop_prob = drop_prob;
    pie.qdelay_old = ms(20);
    pie.burst_allowance = Duration::ZERO;
    pie
}

fn close(actual: f64, expected: f64) -> bool {
    (actual - expected).abs() <= expected.abs() * 1e-9
}

#[test]
fn defaults_are_those_of_the_rfc() {
    let config = PieConfig::default();
    assert_eq!((config.target, config.tupdate, config.max_burst), (ms(15), ms(15), ms(150)));
    assert!(close(config.alpha, 1.0 / 8.0) && close(config.beta, 1.0 + 1.0 / 4.0));
}

#[test]
fn adjustment_scale_follows_section_4_2() {
    for (drop_prob, divisor) in [
        (0.0, 2_048.0),
        (0.000_000_9, 2_048.0),
        (0.000_001, 512.0),
        (0.000_009, 512.0),
        (0.000_01, 128.0),
        (0.000_1, 32.0),
        (0.001, 8.0),
        (0.01, 2.0),
        (0.099, 2.0),
        (0.1, 1.0),
        (1.0, 1.0),
    ] {
        assert!(close(scale(drop_prob), 1.0 / divisor), "{drop_prob}");
    }
}

#[test]
fn probability_follows_error_and_trend() {
    let updated = |drop_prob, old, new| {
        let mut pie = settled(drop_prob);
        pie.qdelay_old = ms(old);
        pie.update(ms(new));
        pie.drop_prob
    };
    // 1/8 of 0.1 s and 5/4 of 0.015 s are 0.03125.
    assert!(close(updated(0.0, 100, 115), 0.031_25 / 2_048.0));
    assert!(close(updated(0.005, 100, 115), 0.005 + 0.031_25 / 8.0));
    assert!(close(updated(0.05, 100, 115), 0.05 + 0.031_25 / 2.0));
    // The probability is constant with a steady delay at the target, and falls below the target.
    assert!(close(updated(0.05, 15, 15), 0.05));
    assert!(close(updated(0.05, 15, 7), 0.05 - 0.011 / 2.0));
    assert!(updated(0.005, 500, 0).abs() < f64::EPSILON);
}

#[test]
fn rise_is_capped_above_ten_percent() {
    let mut pie = settled(0.1);
    pie.update(ms(900));
    assert!(close(pie.drop_prob, 0.12));
    for _ in 0..100 {
        pie.update(ms(900));
    }
    assert!(close(pie.drop_prob, 1.0));
}

#[test]
fn probability_decays_while_queue_is_empty() {
    let mut pie = settled(0.5);
    pie.qdelay_old = Duration::ZERO;
    pie.update(Duration::ZERO);
    assert!(close(pie.drop_prob, (0.5 - 0.001_875) * 0.98));
    // The probability decays only if two consecutive updates have no queueing delay.
    let mut pie = settled(0.5);
    pie.qdelay_old = ms(1);
    pie.update(Duration::ZERO);
    assert!(close(pie.drop_prob, 0.5 - 0.001_875 - 0.001_25));
}

#[test]
fn queue_delay_is_exact_at_each_update() {
    let start = epoch();
    let mut pie = Pie::new(PieConfig::default());
    pie.signal(start, 0, Ecn::NotEct, 0);
    // The last packet is served from 40 to 50 ms. A packet that arrived at 15 ms would wait for 35
    // ms, and one at 30 ms for 20 ms.
    pie.last_service = Some((start + ms(40), start + ms(50)));
    let old = [14, 15, 30, 44, 45].map(|at| {
        pie.signal(start + ms(at), 0, Ecn::NotEct, 0);
        pie.qdelay_old
    });
    assert_eq!(old, [ms(0), ms(35), ms(20), ms(20), ms(0)]);
}

#[test]
fn missed_updates_are_made_up_within_bound() {
    let start = epoch();
    let run = |asked: &[u64]| {
        let mut pie = Pie::new(PieConfig::default());
        pie.signal(start, 0, Ecn::NotEct, 0);
        pie.last_service = Some((start + ms(800), start + ms(810)));
        for at in asked {
            pie.signal(start + ms(*at), 0, Ecn::NotEct, 0);
        }
        (pie.drop_prob, pie.qdelay_old, pie.burst_allowance)
    };
    assert_eq!(run(&[100, 101, 500, 700]), run(&[700]));
    let mut pie = settled(0.9);
    pie.signal(start, 0, Ecn::NotEct, 0);
    pie.signal(start + Duration::from_secs(3_000_000_000), 0, Ecn::NotEct, 0);
    assert!(pie.drop_prob.abs() < f64::EPSILON && pie.burst_allowance == ms(150));
    assert!(pie.next_update > Some(start + Duration::from_secs(3_000_000_000)));
}

#[test]
fn burst_allowance_admits_burst_into_calm_queue() {
    let start = epoch();
    let mut pie = Pie::new(PieConfig { alpha: 1e6, ..PieConfig::default() });
    let mut first = None;
    for at in 0..300 {
        // The queueing delay is always half a second, so every update makes the largest step.
        pie.last_service = Some((start + ms(at + 490), start + ms(at + 500)));
        if pie.signal(start + ms(at), 1_000_000, Ecn::NotEct, 0).is_some() {
            first.get_or_insert(at);
        }
    }
    assert_eq!(first, Some(150), "ten updates of 15 ms");

    // Two updates with a short queue restore the allowance.
    assert_eq!(pie.burst_allowance, Duration::ZERO);
    pie.drop_prob = 0.0;
    pie.qdelay_old = ms(7);
    pie.update(ms(7));
    assert_eq!(pie.burst_allowance, ms(150));
    pie.update(ms(8));
    assert_eq!(pie.burst_allowance, ms(135));
}

#[test]
fn short_queue_causes_no_drop() {
    let dropped = |pie: &Pie, backlog| pie.drops_early(backlog, 0);
    let mut pie = settled(0.19);
    assert!(dropped(&pie, 2_049) && !dropped(&pie, 2_048), "two packets");
    pie.qdelay_old = Duration::from_micros(7_499);
    assert!(!dropped(&pie, 1_000_000), "half the target");
    pie.drop_prob = 0.2;
    assert!(dropped(&pie, 1_000_000), "but not with a probability that high");
}

#[test]
fn drop_share_equals_probability() {
    const PACKETS: u32 = 200_000;
    let now = epoch();
    for p in [0.001, 0.01, 0.05, 0.3, 0.9] {
        let mut pie = settled(p);
        let told = |n: &u32| pie.signal(now, 100_000, Ecn::NotEct, nth_draw((*n).into())).is_some();
        let dropped = f64::from(u32::try_from((0..PACKETS).filter(told).count()).unwrap());
        let (mean, count) = (p * f64::from(PACKETS), f64::from(PACKETS));
        let deviation = (dropped - mean) / (count * p * (1.0 - p)).sqrt();
        assert!(deviation.abs() < 4.0, "{dropped} of {PACKETS} at {p}: {deviation} sigma");
    }
}

#[test]
fn marks_replace_drops_below_ten_percent() {
    let now = epoch();
    let signals = |p, ecn_on, codepoint| -> Vec<Option<Signal>> {
        let mut pie = settled(p);
        pie.config.ecn = ecn_on;
        (0..1_000).map(|n| pie.signal(now, 100_000, codepoint, nth_draw(n))).collect()
    };
    let drops = signals(0.09, false, Ecn::Ect0);
    assert!(drops.contains(&Some(Signal::Drop)) && !drops.contains(&Some(Signal::Mark)));
    assert_eq!(signals(0.09, true, Ecn::NotEct), drops);
    let marks: Vec<_> = drops.iter().map(|signal| signal.map(|_| Signal::Mark)).collect();
    assert_eq!(signals(0.09, true, Ecn::Ect1), marks);
    assert!(!signals(0.1, true, Ecn::Ect1).contains(&Some(Signal::Mark)));
}

#[test]
fn invalid_gains_and_zero_interval_are_safe() {
    let start = epoch();
    for gain in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let config = PieConfig { alpha: gain, beta: gain, tupdate: Duration::ZERO, ..PieConfig::default() };
        let mut pie = Pie::new(config);
        for at in 0..100 {
            pie.signal(start + ms(at), 10_000, Ecn::NotEct, 0);
            pie.last_service = Some((start + ms(at * 2), start + ms(at * 2 + 2)));
            assert!((0.0..=1.0).contains(&pie.drop_prob), "{gain}");
        }
    }
}
