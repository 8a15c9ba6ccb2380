//! Tests of the probability curve, the average, and the share of drops over many packets.

use super::*;
use crate::draw::{Direction, Stage, draw};
use rdt_testing::{epoch, ms};

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// Returns settings in which the drop probability rises to 10 % from 10,000 to 30,000 bytes. With a
/// weight of 1 the average is the last sample.
fn config() -> RedConfig {
    RedConfig { min: 10_000, max: 30_000, weight: Probability::ONE, ..RedConfig::default() }
}

fn nth_draw(n: u64) -> u64 {
    draw(5, Direction::Forward, Stage::EarlyDrop, n)
}

/// Returns the state of a queue whose serialiser is busy for a day.
fn busy(config: RedConfig, now: Instant) -> Red {
    let mut red = Red::new(config, Some(Bitrate::from_bps(1_000_000)));
    red.busy_until = Some(now + Duration::from_secs(86_400));
    red
}

/// Returns the signal for an arriving packet that the queue limit admits.
fn meet(red: &mut Red, now: Instant, backlog: u64, ecn: Ecn, draw: u64) -> Option<Signal> {
    red.on_arrival(now, backlog);
    red.signal(ecn, draw)
}

fn close(actual: f64, expected: f64) -> bool {
    (actual - expected).abs() < 1e-12
}

#[test]
fn probability_curve_matches_paper_and_gentle() {
    let points = [
        (0.0, 0.0, 0.0),
        (9_999.0, 0.0, 0.0),
        (15_000.0, 0.025, 0.025),
        (20_000.0, 0.05, 0.05),
        (29_999.999_999, 0.1, 0.1),
        (30_000.0, 0.1, 1.0),
        (45_000.0, 0.55, 1.0),
        (60_000.0, 1.0, 1.0),
        (1e12, 1.0, 1.0),
    ];
    let abrupt = RedConfig { gentle: false, ..config() };
    for (average, gentle, not) in points {
        assert!((config().probability(average) - gentle).abs() < 1e-9, "{average}");
        assert!((abrupt.probability(average) - not).abs() < 1e-9, "{average}");
    }
}

#[test]
fn inverted_thresholds_make_a_step() {
    let step = RedConfig { min: 10, max: 10, ..config() };
    assert_eq!([9.0, 19.9, 20.0].map(|average| step.probability(average) >= 1.0), [false, false, true]);
    let nothing = RedConfig { min: 0, max: 0, ..config() };
    assert!(close(nothing.probability(0.0), 1.0));
}

#[test]
fn average_moves_by_weight() {
    let now = epoch();
    let mut red = busy(RedConfig { weight: probability(0.25), ..config() }, now);
    let averages = [4_000, 8_000, 0].map(|backlog| {
        meet(&mut red, now, backlog, Ecn::NotEct, u64::MAX);
        red.average
    });
    let expected = [1_000.0, 2_750.0, 2_062.5];
    assert!(
        averages.iter().zip(expected).all(|(average, expected)| close(*average, expected)),
        "{averages:?}"
    );
}

#[test]
fn idle_wire_ages_average_by_small_packets() {
    let now = epoch();
    // A packet of 500 bytes takes 4 ms at 1 Mbit/s, so just over 40 ms of idle time are 10 packets.
    let mut red = busy(RedConfig { weight: probability(0.5), ..config() }, now);
    red.average = 8_192.0;
    red.busy_until = Some(now + ms(10));
    meet(&mut red, now + ms(53), 0, Ecn::NotEct, u64::MAX);
    assert!(close(red.average, 8.0), "{}", red.average);
    // After an idle year the average is zero.
    meet(&mut red, now + Duration::from_secs(31_536_000), 0, Ecn::NotEct, u64::MAX);
    assert!(close(red.average, 0.0));
}

#[test]
fn idle_wire_without_rate_resets_average() {
    let now = epoch();
    let mut red = Red::new(config(), None);
    red.average = 1e9;
    red.busy_until = Some(now);
    assert_eq!(meet(&mut red, now + ms(1), 0, Ecn::NotEct, 0), None);
}

#[test]
fn power_matches_repeated_multiplication() {
    for exponent in 0..40_u8 {
        let expected: f64 = (0..exponent).map(|_| 0.9).product();
        assert!(close(power(0.9, exponent.into()), expected), "{exponent}");
    }
    assert!(close(power(0.999, u128::MAX), 0.0));
}

/// Returns which of `count` packets that arrive with this backlog get a signal, by number.
fn told(red: &mut Red, now: Instant, backlog: u64, count: u64) -> Vec<u64> {
    (0..count).filter(|&n| meet(red, now, backlog, Ecn::NotEct, nth_draw(n)).is_some()).collect()
}

#[test]
fn drop_share_follows_curve() {
    const PACKETS: u32 = 200_000;
    let now = epoch();
    for (backlog, p) in
        [(10_400, 0.002), (12_000, 0.01), (15_000, 0.025), (20_000, 0.05), (25_000, 0.075), (29_998, 0.1)]
    {
        let mut red = busy(config(), now);
        let dropped = told(&mut red, now, backlog, PACKETS.into());
        // The number of packets between drops is uniform from 1 to 1/p - 1 (section 4 of the
        // paper), with mean 1/(2p) and variance (1/p)^2 / 12.
        let count = f64::from(u32::try_from(dropped.len()).unwrap());
        let mean = f64::from(PACKETS) / count;
        let sigma = (1.0 / p) / 12.0_f64.sqrt() / count.sqrt();
        let deviation = (mean - 0.5 / p) / sigma;
        assert!(deviation.abs() < 4.0, "one in {mean} at {p}: {deviation} sigma");
        let longest = dropped.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        let bound = f64::from(u32::try_from(longest).unwrap());
        assert!(bound <= (1.0 / p).ceil(), "{longest} packets from one to the next at {p}");
    }
}

#[test]
fn no_drop_below_min_all_when_certain() {
    let now = epoch();
    assert!(told(&mut busy(config(), now), now, 9_999, 10_000).is_empty());
    assert_eq!(told(&mut busy(config(), now), now, 60_000, 1_000).len(), 1_000);
    let abrupt = RedConfig { gentle: false, ..config() };
    assert_eq!(told(&mut busy(abrupt, now), now, 30_000, 1_000).len(), 1_000);
}

#[test]
fn marks_replace_drops_unless_certain() {
    let now = epoch();
    let with = |ecn_on, codepoint, backlog| -> Vec<Option<Signal>> {
        let mut red = busy(RedConfig { ecn: ecn_on, ..config() }, now);
        (0..1_000).map(|n| meet(&mut red, now, backlog, codepoint, nth_draw(n))).collect()
    };
    let drops = with(false, Ecn::Ect0, 20_000);
    assert!(drops.contains(&Some(Signal::Drop)) && !drops.contains(&Some(Signal::Mark)));
    assert_eq!(with(true, Ecn::NotEct, 20_000), drops);
    let marks: Vec<_> = drops.iter().map(|signal| signal.map(|_| Signal::Mark)).collect();
    assert_eq!(with(true, Ecn::Ect0, 20_000), marks);
    assert!(with(true, Ecn::Ect1, 60_000).iter().all(|signal| *signal == Some(Signal::Drop)));
}
