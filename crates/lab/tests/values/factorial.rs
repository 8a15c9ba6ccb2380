//! Factorial designs of textbooks: effects, analysis of variance, and Lenth's margins.

use rdt_lab::statistics::{effects, lenth, variance};

use crate::support::near;

/// Pilot plant of Box, Hunter and Hunter, "Statistics for Experimenters", table 5.3: two runs for
/// each combination of catalyst, concentration and temperature, of which the last varies fastest.
fn pilot_plant() -> Vec<Vec<f64>> {
    let runs = [[59, 61], [74, 70], [50, 58], [69, 67], [50, 54], [81, 85], [46, 44], [79, 81]];
    runs.map(|runs| runs.map(f64::from).to_vec()).to_vec()
}

/// The book gives the temperature 23, the concentration -5, the catalyst 1.5, and the interactions
/// 1.5, 10, 0 and 0.5.
#[test]
fn effects_of_the_pilot_plant_equal_the_book() {
    let effects = effects(&[2, 2, 2], &pilot_plant(), 3).expect("a full factorial");
    let expected = [
        (&[0][..], 1.5),
        (&[1], -5.0),
        (&[2], 23.0),
        (&[0, 1], 0.0),
        (&[0, 2], 10.0),
        (&[1, 2], 1.5),
        (&[0, 1, 2], 0.5),
    ];
    assert_eq!(effects.len(), expected.len());
    for (effect, (factors, size)) in effects.iter().zip(expected) {
        assert_eq!(effect.factors, factors);
        assert!((effect.estimate - size).abs() < 1e-9, "{effect:?}");
    }
}

/// With two repetitions an interval has one degree of freedom, t(0.975; 1) = 12.706: the contrasts
/// of the temperature are 24.5 and 21.5, their standard error is 1.5.
#[test]
fn intervals_of_effects_come_from_repetitions() {
    let effects = effects(&[2, 2, 2], &pilot_plant(), 1).expect("a full factorial");
    let interval = |index: usize| effects[index].interval.expect("two repetitions");
    near(interval(2).low, 3.940_692_895_738, 1e-9);
    near(interval(2).high, 42.059_307_104_262, 1e-9);
    assert!(interval(1).half_width() < 1e-9, "both repetitions give -5");
}

/// Filtration rate of Montgomery, "Design and Analysis of Experiments", example 6.2: one run of
/// each combination. In the book factor A varies fastest, so the factors here are D, C, B and A.
const FILTRATION: [f64; 16] =
    [45.0, 71.0, 48.0, 65.0, 68.0, 60.0, 80.0, 65.0, 43.0, 100.0, 45.0, 104.0, 75.0, 86.0, 70.0, 96.0];

fn filtration() -> Vec<Vec<f64>> {
    FILTRATION.map(|rate| vec![rate]).to_vec()
}

/// Table 6.12 of the book: effect estimates, and their contributions to the sum of squares in
/// percent.
#[test]
fn filtration_effects_and_shares_equal_the_book() {
    let effects = effects(&[2; 4], &filtration(), 4).expect("a full factorial");
    let terms = variance(&[2; 4], &filtration(), 4).expect("a full factorial");
    for (factors, effect, squares, percent) in [
        (&[3][..], 21.625, 1870.56, 32.6397),
        (&[2], 3.125, 39.0625, 0.681_608),
        (&[1], 9.875, 390.062, 6.806_26),
        (&[0], 14.625, 855.563, 14.9288),
        (&[2, 3], 0.125, 0.0625, 0.001_090_57),
        (&[1, 3], -18.125, 1314.06, 22.9293),
        (&[0, 3], 16.625, 1105.56, 19.2911),
        (&[1, 2], 2.375, 22.5625, 0.393_696),
        (&[0, 2], -0.375, 0.5625, 0.009_815_15),
        (&[0, 1], -1.125, 5.0625, 0.088_336_3),
        (&[1, 2, 3], 1.875, 14.0625, 0.245_379),
        (&[0, 2, 3], 4.125, 68.0625, 1.187_63),
        (&[0, 1, 3], -1.625, 10.5625, 0.184_307),
        (&[0, 1, 2], -2.625, 27.5625, 0.480_942),
        (&[0, 1, 2, 3], 1.375, 7.5625, 0.131_959),
    ] {
        let found = effects.iter().find(|it| it.factors == factors).expect("the effect");
        assert!((found.estimate - effect).abs() < 1e-9 && found.interval.is_none(), "{found:?}");
        let term = terms.iter().find(|it| it.factors == factors).expect("the term");
        near(term.sum_of_squares, squares, 1e-5);
        near(term.share, percent / 100.0, 1e-5);
        assert_eq!((term.degrees, term.p), (1, None), "no repetitions");
    }
    near(terms.iter().map(|it| it.share).sum(), 1.0, 1e-12);
}

/// The book computes with Lenth's method 2.625, 6.748 and 13.699.
#[test]
fn lenth_of_filtration_equals_the_book() {
    let estimates: Vec<f64> =
        effects(&[2; 4], &filtration(), 4).expect("a design").iter().map(|it| it.estimate).collect();
    let it = lenth(&estimates).expect("effects");
    near(it.pseudo_standard_error, 2.625, 1e-12);
    near(it.margin, 6.748, 1e-4);
    near(it.simultaneous_margin, 13.699, 1e-4);
    let active = estimates.iter().filter(|it| it.abs() > 6.748).count();
    assert_eq!(active, 5, "A, C, D, AC and AD");
    assert_eq!(lenth(&[]), None);
}

#[test]
fn equal_effects_are_all_noise() {
    // s0 = 1.5 * 2, all are below 2.5 s0, so the pseudo standard error is 3.
    let it = lenth(&[2.0, -2.0, 2.0]).expect("effects");
    near(it.pseudo_standard_error, 3.0, 1e-12);
    near(it.margin, 3.0 * 12.706_204_736_175, 1e-9);
}

/// Battery life of Montgomery, table 5.1: three materials at three temperatures, four batteries
/// each.
fn batteries() -> Vec<Vec<f64>> {
    [
        [130, 155, 74, 180],
        [34, 40, 80, 75],
        [20, 70, 82, 58],
        [150, 188, 159, 126],
        [136, 122, 106, 115],
        [25, 70, 58, 45],
        [138, 110, 168, 160],
        [174, 120, 150, 139],
        [96, 104, 82, 60],
    ]
    .map(|hours| hours.map(f64::from).to_vec())
    .to_vec()
}

/// Sums of squares of the book's table 5.5: 10,683.72, 39,118.72, 9,613.78 of 77,646.97. Its error
/// has 27 degrees of freedom; here column r is a block, which leaves 24 and 17,875.78, computed
/// with numpy and `scipy.stats.f`.
#[test]
fn variance_of_batteries_equals_the_book() {
    let terms = variance(&[3, 3], &batteries(), 2).expect("a full factorial");
    for (term, (factors, degrees, squares, p)) in terms.iter().zip([
        (&[0][..], 2, 10_683.72, 0.003_615_531_645),
        (&[1], 2, 39_118.72, 9.061_163_955e-7),
        (&[0, 1], 4, 9_613.78, 0.029_709_417_348),
    ]) {
        assert_eq!((term.factors.as_slice(), term.degrees), (factors, degrees));
        near(term.sum_of_squares, squares, 1e-6);
        near(term.share, squares / 77_646.97, 1e-6);
        near(term.p.expect("repetitions"), p, 1e-7);
    }
    assert_eq!(effects(&[3, 3], &batteries(), 2).map(|it| it.len()), Some(0), "none has two levels");
}

#[test]
fn shifts_of_whole_repetitions_are_no_error() {
    // A host that is slower in one block slows all combinations alike.
    let shifted: Vec<Vec<f64>> = batteries()
        .into_iter()
        .map(|hours| {
            hours.into_iter().zip([0.0, 500.0, -300.0, 40.0]).map(|(it, block)| it + block).collect()
        })
        .collect();
    let p = |values: &[Vec<f64>]| -> Vec<f64> {
        variance(&[3, 3], values, 2).expect("a design").iter().filter_map(|it| it.p).collect()
    };
    let (plain, shifted) = (p(&batteries()), p(&shifted));
    assert_eq!(plain.len(), 3);
    plain.iter().zip(&shifted).for_each(|(plain, shifted)| near(*shifted, *plain, 1e-7));
}

#[test]
fn designs_without_variation_have_no_terms() {
    let flat = vec![vec![5.0, 5.0]; 4];
    assert_eq!(variance(&[2, 2], &flat, 2).map(|it| it.len()), Some(0));
    let effects = effects(&[2, 2], &flat, 2).expect("a design");
    assert!(effects.iter().all(|it| it.estimate.abs() < 1e-12), "{effects:?}");
    assert_eq!(variance(&[2, 2], &[vec![], vec![], vec![], vec![]], 2), None, "no repetition");
}
