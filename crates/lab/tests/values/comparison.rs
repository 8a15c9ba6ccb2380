//! Comparison of two samples, equivalence, and several tests at once.

use rdt_lab::statistics::{difference, equivalent, holm, paired_log_ratio, pairing_gain, unpaired_log_ratio};

use crate::support::near;

/// Heights of Darwin's cross- and self-fertilised plants, inches (Fisher, "The Design of
/// Experiments", section 17).
const CROSSED: [f64; 15] =
    [23.5, 12.0, 21.0, 22.0, 19.125, 21.5, 22.125, 20.375, 18.25, 21.625, 23.25, 21.0, 22.125, 23.0, 12.0];
const SELFED: [f64; 15] =
    [17.375, 20.375, 20.0, 20.0, 18.375, 18.625, 18.625, 15.25, 16.5, 18.0, 16.25, 18.0, 12.75, 15.5, 18.0];

fn differences() -> Vec<f64> {
    CROSSED.iter().zip(&SELFED).map(|(a, b)| a - b).collect()
}

/// Fisher gives a mean of 2.617 inches and a probability just below 5 % (t = 2.148).
#[test]
fn darwins_pairs_differ_as_fisher_found() {
    let it = difference(&differences(), 0.95).expect("fifteen pairs");
    near(it.interval.estimate, 2.616_666_666_667, 1e-9);
    near(it.p, 0.049_702_944_022, 1e-8);
    near(it.interval.low, 0.003_899_164_799, 1e-6);
    near(it.interval.high, 5.229_434_168_534, 1e-9);
    near(it.degrees, 14.0, 1e-12);
    let wide = difference(&differences(), 0.99).expect("fifteen pairs");
    near(wide.interval.low, -1.009_706_994_802, 1e-8);
    near(wide.p, it.p, 1e-12);
}

#[test]
fn swapped_samples_give_the_inverse_ratio() {
    let it = paired_log_ratio(&CROSSED, &SELFED, 0.95).expect("fifteen pairs");
    // scipy.stats.ttest_1samp of the logarithms.
    near(it.interval.estimate, 1.134_975_377_489, 1e-9);
    near(it.interval.low, 0.971_917_37, 1e-7);
    near(it.interval.high, 1.325_389_53, 1e-7);
    near(it.p, 0.101_836_757_202, 1e-8);
    let swapped = paired_log_ratio(&SELFED, &CROSSED, 0.95).expect("fifteen pairs");
    near(swapped.interval.estimate, 1.0 / it.interval.estimate, 1e-12);
    near(swapped.interval.low, 1.0 / it.interval.high, 1e-12);
    near(swapped.p, it.p, 1e-12);
}

/// `scipy.stats.ttest_ind(log(a), log(b), equal_var=False)`.
#[test]
fn welch_handles_unequal_sizes_and_spreads() {
    let (a, b) = ([5.61, 5.55, 5.70, 5.48, 5.66, 5.59], [5.20, 5.95, 5.02, 5.61]);
    let it = unpaired_log_ratio(&a, &b, 0.95).expect("two samples");
    near(it.interval.estimate, 1.030_330_432_607, 1e-9);
    near(it.interval.low, 0.913_993_246_350, 1e-8);
    near(it.interval.high, 1.161_475_541_089, 1e-8);
    near(it.p, 0.492_781_912_874, 1e-8);
    near(it.degrees, 3.135_532_075_853, 1e-9);
    assert_eq!(unpaired_log_ratio(&a, &[5.0], 0.95), None, "one value has no spread");
}

#[test]
fn samples_without_spread_are_certain() {
    let same = difference(&[0.0; 4], 0.95).expect("four pairs");
    near(same.p, 1.0, 1e-12);
    let apart = difference(&[0.5; 4], 0.95).expect("four pairs");
    assert!(apart.p < 1e-12, "{apart:?}");
    let equal = unpaired_log_ratio(&[3.0; 3], &[3.0; 5], 0.95).expect("two samples");
    near(equal.p, 1.0, 1e-12);
    let apart = unpaired_log_ratio(&[6.0; 3], &[3.0; 5], 0.95).expect("two samples");
    near(apart.interval.estimate, 2.0, 1e-12);
    assert!(apart.p < 1e-12, "{apart:?}");
}

#[test]
fn ratios_need_positive_values_of_equal_number() {
    for (a, b) in [(&[1.0, 0.0][..], &[1.0, 2.0][..]), (&[1.0, 2.0], &[1.0, -2.0]), (&[1.0, 2.0], &[1.0])] {
        assert_eq!(paired_log_ratio(a, b, 0.95), None, "{a:?} {b:?}");
    }
    assert_eq!(unpaired_log_ratio(&[1.0, 0.0], &[1.0, 2.0], 0.95), None);
    assert_eq!(difference(&[1.0], 0.95), None);
}

/// The larger of `scipy.stats.t.sf` at both bounds.
#[test]
fn equivalence_equals_two_one_sided_tests() {
    for (estimate, error, degrees, margin, expected) in [
        (0.1, 0.2, 12.0, 0.5, 0.034_327_507_019),
        (-0.1, 0.2, 12.0, 0.5, 0.034_327_507_019),
        (-0.45, 0.2, 12.0, 0.5, 0.403_407_950_323),
        (0.6, 0.2, 5.0, 0.5, 0.680_850_564_180),
        (0.5, 0.2, 5.0, 0.5, 0.5),
    ] {
        near(equivalent(estimate, error, degrees, [-margin, margin]), expected, 1e-8);
    }
    // Bounds of 5 % below and above, on the scale of logarithms.
    let bounds = [0.95_f64.ln(), 1.05_f64.ln()];
    near(equivalent(0.02, 0.01, 9.0, bounds), 0.009_103_587_428, 1e-8);
}

#[test]
fn equivalence_without_spread_includes_its_bounds() {
    for (estimate, expected) in [(0.5, 0.0), (-0.5, 0.0), (0.0, 0.0), (0.51, 1.0), (-0.51, 1.0)] {
        let p = equivalent(estimate, 0.0, 4.0, [-0.5, 0.5]);
        assert!((p - expected).abs() < 1e-12, "{estimate}: {p}");
    }
}

/// Wright (1992), "Adjusted P-values for simultaneous inference": p values times the number of
/// hypotheses that are left, never less than the one before, at most 1.
#[test]
fn holm_multiplies_by_tests_that_are_left() {
    for (p, expected) in [
        (&[0.02][..], &[0.02][..]),
        (&[0.01, 0.01, 0.01], &[0.03, 0.03, 0.03]),
        (&[0.9, 0.001, 0.5], &[1.0, 0.003, 1.0]),
        (&[0.012, 0.02, 0.025, 0.9], &[0.048, 0.06, 0.06, 0.9]),
        (&[0.0, 1.0], &[0.0, 1.0]),
    ] {
        let adjusted = holm(p);
        assert!(adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{p:?}: {adjusted:?}");
    }
    assert!(holm(&[]).is_empty());
}

/// `numpy.var(a - b) / (numpy.var(a) + numpy.var(b))`: in these pairs what helps one hurts the
/// other.
#[test]
fn pairs_that_move_apart_lose_by_pairing() {
    near(pairing_gain(&CROSSED, &SELFED).expect("pairs"), 1.287_323_580_034, 1e-9);
    assert_eq!(pairing_gain(&[1.0, 1.0], &[2.0, 2.0]), None, "nothing varies");
    assert_eq!(pairing_gain(&[1.0, 2.0, 3.0], &[2.0, 5.0]), None, "no pairs");
}
