//! Quantiles of distributions, and intervals of means and quantiles.

use rdt_lab::statistics::{
    bca_interval, half_normal_scores, mean, normal_quantile, quantile, quantile_interval, standard_deviation,
    t_interval, t_quantile, t_two_sided_p,
};

use crate::support::near;

/// Michelson's first twenty measurements of the speed of light in 1879, km/s above 299,000 (the
/// data set `morley` of R).
const MORLEY: [f64; 20] = [
    850.0, 740.0, 900.0, 1070.0, 930.0, 850.0, 950.0, 980.0, 980.0, 880.0, 1000.0, 980.0, 930.0, 650.0,
    760.0, 810.0, 1000.0, 1000.0, 960.0, 960.0,
];

/// The first rows are of the table in "Student's t", and all equal `scipy.stats.t.ppf` to nine
/// digits.
#[test]
fn t_quantiles_equal_published_tables() {
    for (p, degrees, expected) in [
        (0.95, 1.0, 6.313_751_514_675),
        (0.975, 2.0, 4.302_652_729_749),
        (0.975, 4.0, 2.776_445_105_198),
        (0.995, 5.0, 4.032_142_983_555),
        (0.99, 30.0, 2.457_261_542_401),
        (0.975, 120.0, 1.979_930_405_082),
        (0.9, 2.5, 1.730_250_928_807),
        (0.9995, 10.0, 4.586_893_858_703),
        (0.025, 7.0, -2.364_624_251_593),
    ] {
        near(t_quantile(p, degrees), expected, 1e-9);
    }
    assert!(t_quantile(0.5, 3.0).abs() < 1e-12, "the median");
    near(t_quantile(0.975, 1e7), normal_quantile(0.975), 1e-6);
}

#[test]
fn t_quantiles_without_degrees_are_no_number() {
    assert!(t_quantile(0.975, 0.0).is_nan());
    assert!(t_quantile(0.975, -1.0).is_nan());
}

/// `2 * scipy.stats.t.sf(abs(t), degrees)`; with one degree of freedom it is `1 - 2 atan(t) / pi`.
#[test]
fn tail_probabilities_equal_those_of_scipy() {
    for (t, degrees, expected) in [
        (0.0, 5.0, 1.0),
        (1.0, 1.0, 0.5),
        (2.571, 5.0, 0.049_974_634_683_85),
        (-2.571, 5.0, 0.049_974_634_683_85),
        (12.706, 1.0, 0.050_000_802_358_13),
        (40.0, 3.0, 3.438_068_078_916e-5),
        (1.96, 1e6, 0.049_996_067_585_27),
    ] {
        near(t_two_sided_p(t, degrees), expected, 1e-8);
    }
    assert_eq!(t_two_sided_p(f64::INFINITY, 4.0).to_bits(), 0.0_f64.to_bits());
    assert_eq!(t_two_sided_p(f64::NAN, 4.0).to_bits(), 1.0_f64.to_bits(), "no evidence");
}

#[test]
fn normal_quantiles_equal_published_tables() {
    for (p, expected) in [
        (1e-9, -5.997_807_015_008),
        (0.001, -3.090_232_306_168),
        (0.1, -1.281_551_565_545),
        (0.841_344_746_068_542_9, 1.0),
        (0.99, 2.326_347_874_041),
        (0.999_999_9, 5.199_337_582_291),
    ] {
        near(normal_quantile(p), expected, 1e-8);
    }
    assert!(normal_quantile(0.5).abs() < 1e-12);
}

/// R prints the same for `t.test(morley$Speed[1:20])`.
#[test]
fn interval_of_michelson_equals_that_of_scipy() {
    near(mean(&MORLEY).expect("values"), 909.0, 1e-12);
    near(standard_deviation(&MORLEY).expect("values"), 104.926_039_114_276, 1e-12);
    let it = t_interval(&MORLEY, 0.95).expect("an interval");
    near(it.low, 859.893_102_085_939, 1e-9);
    near(it.high, 958.106_897_914_061, 1e-9);
    let wide = t_interval(&MORLEY, 0.99).expect("an interval");
    near(wide.low, 841.876_249_863_169, 1e-9);
    assert!(!it.contains(850.0) && wide.contains(850.0), "{it:?} {wide:?}");
    near(it.half_width(), 49.106_897_914_061, 1e-9);
}

#[test]
fn two_values_have_an_interval_by_hand() {
    // t(0.975; 1) = 12.706, the standard error of 1 and 3 is 1.
    let it = t_interval(&[1.0, 3.0], 0.95).expect("an interval");
    near(it.high - 2.0, 12.706_204_736_175, 1e-9);
    assert_eq!((mean(&[]), standard_deviation(&[4.0]), t_interval(&[], 0.95)), (None, None, None));
    let equal = t_interval(&[4.0; 3], 0.95).expect("an interval");
    assert!(equal.contains(4.0) && equal.half_width().abs() < 1e-12, "{equal:?}");
}

/// `numpy.quantile`, which is type 7 of Hyndman and Fan (1996) as in R.
#[test]
fn quantiles_interpolate_as_numpy_does() {
    let mut values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0];
    values.sort_by(f64::total_cmp);
    for (p, expected) in [(0.05, 1.0), (0.25, 2.5), (0.5, 4.0), (0.75, 5.0), (0.95, 7.5), (0.99, 8.7)] {
        near(quantile(&values, p).expect("values"), expected, 1e-12);
    }
    for (p, expected) in [(-1.0, 1.0), (2.0, 9.0)] {
        near(quantile(&values, p).expect("values"), expected, 1e-12);
    }
    assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
    assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5), "median of an even number");
}

/// Ranks of the ends by the definition: the largest r with P(X < r) and the smallest s with P(X >=
/// s) of at most half of the error, X binomial (`scipy.stats.binom`). Those of the median are in
/// the tables of Conover, "Practical Nonparametric Statistics".
#[test]
fn ends_of_quantile_intervals_have_exact_ranks() {
    for (n, p, level, expected) in [
        (9_u32, 0.5, 0.95, Some((2, 8))),
        (9, 0.5, 0.99, Some((1, 9))),
        (15, 0.5, 0.95, Some((4, 12))),
        (25, 0.5, 0.95, Some((8, 18))),
        (25, 0.5, 0.99, Some((6, 20))),
        (50, 0.5, 0.95, Some((18, 33))),
        (50, 0.5, 0.9, Some((19, 32))),
        (50, 0.9, 0.95, Some((41, 50))),
        (50, 0.9, 0.9, Some((41, 49))),
        (50, 0.9, 0.99, None),
        (50, 0.1, 0.95, Some((1, 10))),
        (100, 0.5, 0.95, Some((40, 61))),
        (100, 0.9, 0.95, Some((84, 96))),
        (100, 0.1, 0.99, Some((3, 19))),
        (25, 0.9, 0.95, None),
        (6, 0.5, 0.99, None),
    ] {
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        let ends = quantile_interval(&values, p, level).map(|it| (it.low, it.high));
        let expected = expected.map(|(low, high)| (f64::from(low), f64::from(high)));
        assert_eq!(ends, expected, "quantile {p} of {n} values at {level}");
    }
}

/// Coverage of the interval's ranks is at least the level, and that of the next narrower ones is
/// less, computed from Pascal's triangle: 2^-n sums of binomial coefficients.
#[test]
fn median_intervals_cover_at_least_their_level() {
    for n in 6..40_usize {
        let values: Vec<f64> = (1..=u32::try_from(n).expect("small")).map(f64::from).collect();
        let it = quantile_interval(&values, 0.5, 0.95).expect("six values or more");
        let mut row = vec![1.0_f64];
        for _ in 0..n {
            let mut next = vec![1.0; row.len() + 1];
            (1..row.len()).for_each(|i| next[i] = row[i - 1] + row[i]);
            row = next;
        }
        let whole: f64 = row.iter().sum();
        let below = |rank: f64| {
            let smaller = row.iter().zip(0_u32..).filter(|(_, i)| f64::from(*i) < rank);
            smaller.map(|(ways, _)| ways).sum::<f64>() / whole
        };
        assert!(
            (it.low + it.high - f64::from(u32::try_from(n).expect("small")) - 1.0).abs() < 1e-12,
            "symmetric"
        );
        assert!(1.0 - 2.0 * below(it.low) >= 0.95, "{n}: {it:?}");
        assert!(1.0 - 2.0 * below(it.low + 1.0) < 0.95, "{n}: {it:?} is wider than needed");
    }
}

/// `scipy.stats.bootstrap(method='BCa', n_resamples=400000)`. Ours has 2,000 resamples, whose ends
/// scatter.
#[test]
fn bootstrap_of_skewed_values_equals_that_of_scipy() {
    let skewed = [1.2, 0.3, 0.7, 2.9, 0.1, 0.4, 8.5, 1.1, 0.6, 0.2, 3.3, 0.5];
    let even: Vec<f64> = (10..20).map(f64::from).collect();
    for (values, level, low, high, tolerance) in [
        (&skewed[..], 0.95, 0.775, 3.85, 0.4),
        (&skewed, 0.8, 1.008, 2.933, 0.15),
        (&even, 0.95, 12.7, 16.3, 0.2),
    ] {
        for seed in 0..10 {
            let it = bca_interval(values, level, seed).expect("an interval");
            assert!((it.low - low).abs() < tolerance && (it.high - high).abs() < tolerance, "{seed}: {it:?}");
        }
    }
    let it = bca_interval(&skewed, 0.95, 1).expect("an interval");
    near(it.estimate, 1.65, 1e-12);
    assert!(it.high - it.estimate > 2.0 * (it.estimate - it.low), "skewed as the values: {it:?}");
}

/// Resamples of transformed values are the transformed resamples, so the ends are too.
#[test]
fn bootstrap_follows_shift_and_scale() {
    let values = [1.2, 0.3, 0.7, 2.9, 0.1, 0.4, 8.5, 1.1];
    let it = bca_interval(&values, 0.95, 3).expect("an interval");
    let moved = bca_interval(&values.map(|value| 4.0 * value + 100.0), 0.95, 3).expect("an interval");
    near(moved.low, 4.0 * it.low + 100.0, 1e-6);
    near(moved.high, 4.0 * it.high + 100.0, 1e-6);
    let mirrored = bca_interval(&values.map(|value| -value), 0.95, 3).expect("an interval");
    near(mirrored.low, -it.high, 0.05);
    near(mirrored.high, -it.low, 0.05);
    assert_eq!(bca_interval(&[1.0], 0.95, 3), None);
}

/// `scipy.stats.norm.ppf(0.5 + 0.5 * (i + 0.5) / 7)`.
#[test]
fn half_normal_scores_equal_those_of_scipy() {
    let expected = [
        0.089_642_351_076,
        0.271_880_005_399,
        0.463_707_751_457,
        0.674_489_750_196,
        0.920_822_976_368,
        1.241_866_791_843,
        1.802_743_090_739,
    ];
    let scores = half_normal_scores(7);
    assert_eq!(scores.len(), 7);
    scores.iter().zip(expected).for_each(|(ours, theirs)| near(*ours, theirs, 1e-8));
}
