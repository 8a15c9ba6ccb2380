//! Rules that end repetitions, warm-up, and fairness.

use rdt_lab::statistics::{Cut, convergence_time, jain, mser5, next_look, runs_to_decide, spent_level};

use crate::support::near;

/// Spending function of Lan and DeMets (1983) for Pocock's boundaries: `alpha ln(1 + (e - 1) t)`.
#[test]
fn spent_level_follows_lan_and_demets() {
    for (done, expected) in [
        (40, 0.007_928_253_937),
        (100, 0.017_868_700_975),
        (200, 0.031_005_725_348),
        (300, 0.041_399_446_962),
        (400, 0.05),
    ] {
        near(spent_level(0.05, 0, done, 400), expected, 1e-9);
    }
    near(spent_level(0.05, 200, 300, 400), 0.041_399_446_962 - 0.031_005_725_348, 1e-8);
    assert!(spent_level(0.05, 400, 500, 400).abs() < 1e-12, "nothing is left after the last look");
    near(spent_level(0.05, 0, 0, 0), 0.0, 1e-12);
}

#[test]
fn looks_stay_between_their_bounds() {
    for (done, least, most, expected) in [
        (0, 1, 1, Some(1)),
        (0, 12, 12, Some(12)),
        (0, 4, 7, Some(7)),
        (7, 4, 7, None),
        (10, 10, 12, Some(12)),
        (12, 10, 12, None),
        (11, 10, 400, Some(15)),
        (15, 10, 400, Some(20)),
        (20, 10, 400, Some(30)),
        (320, 10, 400, Some(400)),
        (400, 10, 400, None),
        (500, 10, 400, None),
    ] {
        assert_eq!(next_look(done, least, most), expected, "after {done} of {least} to {most}");
    }
    assert_eq!(next_look(u32::MAX - 1, 1, u32::MAX), Some(u32::MAX), "no overflow");
}

/// N with `1.96 sqrt(n / N) + 0.84 sqrt(1 - n / N) = errors`, by `scipy.optimize.brentq`, rounded
/// up.
#[test]
fn proposed_runs_solve_their_equation() {
    for (done, errors, expected) in [
        (10, 1.0, 1448),
        (10, 1.2, 273),
        (10, 1.5, 75),
        (10, 1.9, 25),
        (10, 2.0, 20),
        (20, 1.3, 325),
        (50, 0.9, 52_654),
        (10, 2.14, 11),
    ] {
        assert_eq!(runs_to_decide(done, errors), expected, "{errors} errors after {done}");
    }
    assert_eq!(runs_to_decide(10, 0.84), u32::MAX, "no number has the probability");
    assert_eq!(runs_to_decide(u32::MAX, 3.0), u32::MAX, "no overflow");
}

/// Computed apart from the definition of White, Cobb and Spratt (2000): the least squared error of
/// the mean over batches of five, in Python. `wave` is a fixed noise.
#[test]
fn warm_up_minimises_the_error_of_the_mean() {
    let wave = |i: u32, step: u32, modulus: u32| f64::from(i * step % modulus);
    let decaying: Vec<f64> =
        (0..200).map(|i| 100.0 * (-f64::from(i) / 15.0).exp() + wave(i, 37, 11)).collect();
    let step = |first: u32, n: u32| -> Vec<f64> {
        (0..n).map(|i| if i < first { 0.0 } else { 50.0 } + wave(i, 53, 7)).collect()
    };
    for (values, bins) in [(decaying, 75), (step(20, 150), 20), (step(23, 153), 25), (step(0, 150), 5)] {
        assert_eq!(mser5(&values), Cut { bins, is_stationary: true });
    }
}

#[test]
fn short_series_have_no_warm_up() {
    for n in [0, 1, 4, 29] {
        let values: Vec<f64> = (0..n).map(f64::from).collect();
        assert_eq!(mser5(&values), Cut { bins: 0, is_stationary: true }, "{n} bins");
    }
}

/// Jain, Chiu and Hawe (1984): k of n equal users that have all give k / n; the example of 1, 2 and
/// 3 is 36 / 42.
#[test]
fn index_of_jain_is_share_of_served_users() {
    for (rates, expected) in [
        (&[7.0, 7.0, 0.0, 0.0][..], 0.5),
        (&[1.0, 2.0, 3.0], 6.0 / 7.0),
        (&[5.0], 1.0),
        (&[1e9, 1e9, 1e9, 0.0, 0.0], 0.6),
    ] {
        near(jain(rates).expect("rates"), expected, 1e-12);
        let scaled: Vec<f64> = rates.iter().map(|rate| rate * 8e-3).collect();
        near(jain(&scaled).expect("rates"), expected, 1e-12);
    }
    assert_eq!(jain(&[]), None);
}

#[test]
fn convergence_needs_two_fair_seconds() {
    let rates = |pairs: &[(f64, f64)]| -> Vec<Vec<f64>> {
        vec![pairs.iter().map(|it| it.0).collect(), pairs.iter().map(|it| it.1).collect()]
    };
    // A share of 5 each: 6 and 4 are 20 % away, 6.1 and 3.9 are more.
    let (fair, border, unfair) = ((5.0, 5.0), (6.0, 4.0), (6.1, 3.9));
    for (pairs, bin_s, expected) in [
        (vec![unfair, border, fair, fair], 1.0, Some(1)),
        (vec![border, unfair, fair, fair], 1.0, Some(2)),
        (vec![fair, unfair, fair, unfair], 1.0, None),
        (vec![unfair, fair], 2.0, Some(1)),
        (vec![unfair, fair], 5.0, Some(1)),
        (vec![(0.0, 0.0), (0.0, 0.0), fair, border], 1.0, Some(2)),
        (vec![fair; 19], 0.1, None),
        (vec![fair; 20], 0.1, Some(0)),
    ] {
        assert_eq!(convergence_time(&rates(&pairs), bin_s), expected, "{pairs:?} in bins of {bin_s} s");
    }
    assert_eq!(convergence_time(&[], 1.0), None);
    assert_eq!(convergence_time(&[vec![5.0; 3], vec![5.0; 1]], 1.0), None, "one flow ended");
}
