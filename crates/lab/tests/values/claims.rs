//! Notation of claims, values of expressions, and verdicts at their borders.

use rdt_lab::claim::{
    Direction, Expression, Judgement, Predicate, Relation, Verdict, constant, judge, parse, parse_expression,
    value_of,
};
use rdt_lab::experiment::Experiment;
use rdt_lab::{EngineKind, Results, Status};

use crate::support::{experiment, near, record, results};

const SACK: &str = "flow.a.sack = ['off', 'on']\n";

fn with_claims(factors: &str, claims: &[&str]) -> Experiment {
    let claims = claims.iter().enumerate();
    let claims = claims.map(|(i, that)| format!("[[claim]]\nid = 'c{i}'\nsays = 's'\nthat = '{that}'\n"));
    experiment(&format!("{factors}{}", claims.collect::<String>()))
}

/// Judges claims about the goodput of cells that `factors` give, at a level of 5 %.
fn judged(factors: &str, claims: &[&str], goodput: &[&[f64]]) -> Vec<Judgement> {
    let experiment = with_claims(factors, claims);
    let results = results(&experiment, "goodput", goodput);
    judge(&experiment.claims, &results, EngineKind::Virtual, &|_| 0.05)
}

fn one(factors: &str, claim: &str, goodput: &[&[f64]]) -> Judgement {
    judged(factors, &[claim], goodput).remove(0)
}

fn computed(text: &str) -> Option<f64> {
    constant(&parse_expression(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

#[test]
fn arithmetic_follows_school_rules() {
    for (text, expected) in [
        ("2 + 3 * 4", 14.0),
        ("(2 + 3) * 4", 20.0),
        ("7 - 2 - 1", 4.0),
        ("7 - (2 - 1)", 6.0),
        ("8 / 2 / 2", 2.0),
        ("8 / (2 / 2)", 8.0),
        ("2 * 3 + 4 * 5", 26.0),
        ("1 - 2 * 3", -5.0),
        ("-3 + 5", 2.0),
        ("2*3", 6.0),
        ("((1))", 1.0),
        ("1e3 + 2e-3", 1000.002),
        ("5% * 200", 10.0),
    ] {
        near(computed(text).expect(text), expected, 1e-12);
    }
    assert_eq!(computed("1 / 0"), None, "no finite value");
    assert_eq!(computed("0 / 0"), None);
    assert_eq!(computed("goodput"), None, "a metric is no constant");
}

/// Base units: bits per second, seconds, bytes, shares. Binary prefixes are powers of 1,024.
#[test]
fn numbers_with_units_are_in_base_units() {
    for (text, expected) in [
        ("300bit", 300.0),
        ("500kbit", 5e5),
        ("1.5mbit", 1.5e6),
        ("2gbit", 2e9),
        ("20ns", 2e-8),
        ("250us", 2.5e-4),
        ("10ms", 0.01),
        ("1.5s", 1.5),
        ("2min", 120.0),
        ("100b", 100.0),
        ("16kb", 16_000.0),
        ("16kib", 16_384.0),
        ("3mb", 3e6),
        ("3mib", 3_145_728.0),
        ("1gb", 1e9),
        ("1gib", 1_073_741_824.0),
        ("2.5%", 0.025),
        ("150%", 1.5),
    ] {
        near(computed(text).expect(text), expected, 1e-12);
    }
    for wrong in ["8mbyte", "10m", "5p", "1.2.3", "5 mbit", "1e", "8MBIT"] {
        assert!(parse_expression(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn spaces_change_meaning_of_hyphens_alone() {
    let same =
        ["goodput>1mbit", " goodput  >  1mbit ", "goodput\n> 1mbit"].map(|text| parse(text).expect(text));
    assert!(same.iter().all(|it| *it == same[0]), "{same:?}");
    let Ok(Expression::Metric(metric)) = parse_expression("goodput-1") else { panic!("a metric") };
    assert_eq!(metric.name, "goodput-1");
    assert!(matches!(parse_expression("goodput -1"), Ok(Expression::Binary(..))));
    let Ok(Expression::Metric(metric)) = parse_expression("udp:goodput[sack=on, rate=8mbit]") else {
        panic!("a metric")
    };
    let levels: Vec<_> = metric.selection.0.iter().map(|(name, level)| format!("{name}/{level}")).collect();
    assert_eq!((metric.name.as_str(), levels.join(" ")), ("udp.goodput", "sack/on rate/8mbit".to_owned()));
}

#[test]
fn forms_have_their_numbers() {
    let quantile = |text: &str| match parse_expression(text) {
        Ok(Expression::Quantile(p, _)) => p,
        other => panic!("{text}: {other:?}"),
    };
    for (text, p) in
        [("q5(rtt)", 0.05), ("q05(rtt)", 0.05), ("q50(rtt)", 0.5), ("q99(rtt)", 0.99), ("q999(rtt)", 0.999)]
    {
        near(quantile(text), p, 1e-12);
    }
    let relation = |text: &str| match parse(text) {
        Ok(Predicate::Compare(_, relation, _)) => relation,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(relation("goodput within 2.5% of 8mbit"), Relation::WithinFraction(0.025));
    assert_eq!(relation("rtt within 2ms of 10ms"), Relation::WithinAmount(0.002));
    assert_eq!(relation("loss within 0.5 of 1"), Relation::WithinAmount(0.5));
    let flat = parse("monotone(goodput, rate, flat 5%)");
    assert!(
        matches!(flat, Ok(Predicate::Monotone(_, _, Direction::Flat(by))) if (by - 0.05).abs() < 1e-12),
        "{flat:?}"
    );
    for wrong in [
        "goodput = 1",
        "monotone(goodput, rate)",
        "all goodput > 1",
        "1 < 2 < 3",
        "q(rtt) > 1",
        "",
        "goodput[] > 1",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

const GRID: &str = "flow.a.sack = ['off', 'on']\npath.rtt = ['1ms', '2ms']\n";

/// A mean of rates, so not size divided by mean time: 4 and 8 Mbit/s have the mean 6, the harmonic
/// mean is 5.33.
#[test]
fn metric_is_mean_over_cells_and_repetitions() {
    let experiment = experiment(GRID);
    let results = results(&experiment, "goodput", &[&[4e6, 8e6], &[1e6, 3e6], &[2e6, 2e6], &[10e6, 10e6]]);
    let value = |text: &str| value_of(&parse_expression(text).expect(text), &results, EngineKind::Virtual);
    for (text, expected) in [
        ("goodput[sack=off, rtt=1ms]", 6e6),
        ("goodput[sack=off]", 4e6),
        ("goodput[rtt=2ms]", 6e6),
        ("goodput", 5e6),
        ("a:goodput", 5e6),
        ("goodput[sack=on, rtt=2ms] / goodput[sack=on, rtt=1ms]", 5.0),
        ("q50(goodput[sack=off])", 3.5e6),
        ("q25(goodput[rtt=1ms])", 2e6),
    ] {
        near(value(text).expect(text), expected, 1e-9);
    }
    assert_eq!(value("goodput[sack=maybe]"), None);
    assert_eq!(value("b:goodput"), None);
    assert_eq!(value("goodput / (goodput[sack=off] - 4mbit)"), None, "a division by zero");
    let other = value_of(&parse_expression("goodput").expect("a metric"), &results, EngineKind::Kernel);
    assert_eq!(other, None, "another engine measured nothing");
}

/// Contrasts of logarithms as in Box, Hunter and Hunter: a main effect is the ratio of geometric
/// means at both levels; an interaction is that of the cells with equal and with unequal levels.
#[test]
fn effects_are_ratios_of_geometric_means() {
    let experiment = experiment(GRID);
    let results = results(&experiment, "goodput", &[&[1.0, 4.0], &[8.0, 8.0], &[4.0, 4.0], &[32.0, 128.0]]);
    // Geometric means of the cells: 2, 8, 4 and 64.
    let value = |text: &str| value_of(&parse_expression(text).expect(text), &results, EngineKind::Virtual);
    for (text, expected) in [
        ("effect(goodput, sack)", 16.0 / 4.0),
        ("effect(goodput, rtt)", 512.0_f64.sqrt() / 8.0_f64.sqrt()),
        ("effect(goodput, sack, rtt)", 128.0_f64.sqrt() / 32.0_f64.sqrt()),
        ("effect(goodput, rtt, sack)", 2.0),
        ("effect(goodput[rtt=1ms], sack)", 2.0),
        ("effect(goodput[sack=on], rtt)", 16.0),
    ] {
        near(value(text).expect(text), expected, 1e-9);
    }
    assert_eq!(value("effect(goodput[sack=on], sack)"), None, "one level has no effect");
}

/// Values without spread: what a claim says of them is certain, at its border too.
#[test]
fn exact_values_are_judged_at_the_border() {
    for (claim, on, expected) in [
        ("goodput[sack=on] > 105", 105.0, Verdict::Fails),
        ("goodput[sack=on] < 105", 105.0, Verdict::Fails),
        ("goodput[sack=on] > 105", 105.001, Verdict::Holds),
        ("goodput[sack=on] within 5 of 100", 105.0, Verdict::Holds),
        ("goodput[sack=on] within 5 of 100", 95.0, Verdict::Holds),
        ("goodput[sack=on] within 5 of 100", 105.01, Verdict::Fails),
        ("goodput[sack=on] within 5 of 100", 94.99, Verdict::Fails),
        ("goodput[sack=on] within 5% of 100", 105.0, Verdict::Holds),
        ("goodput[sack=on] within 5% of 100", 95.0, Verdict::Holds),
        ("goodput[sack=on] within 5% of 100", 105.01, Verdict::Fails),
        ("goodput[sack=on] within 5% of 100", 94.99, Verdict::Fails),
        ("goodput[sack=on] within 50% of goodput[sack=off]", 51.0, Verdict::Holds),
        ("goodput[sack=on] within 50% of goodput[sack=off]", 49.0, Verdict::Fails),
        ("goodput[sack=on] within 150% of goodput[sack=off]", 1.0, Verdict::Holds),
        ("goodput[sack=on] within 150% of goodput[sack=off]", 251.0, Verdict::Fails),
        ("goodput[sack=on] - 105 within 5% of -100", -3.0, Verdict::Fails),
        ("goodput[sack=on] - 205 within 5% of -100", 100.0, Verdict::Holds),
    ] {
        let it = one(SACK, claim, &[&[100.0, 100.0], &[on, on]]);
        assert_eq!(it.verdict, expected, "{claim} with {on}: {it:?}");
        assert!(it.nothing_random, "{it:?}");
    }
}

const ON: [f64; 6] = [5.9, 6.1, 5.7, 6.3, 6.0, 6.2];
const OFF: [f64; 6] = [5.5, 5.9, 5.6, 5.6, 5.8, 5.7];

/// One-sided paired t tests of the logarithms, and two one-sided tests, with scipy.
#[test]
fn p_values_equal_those_of_scipy() {
    for (claim, p, verdict) in [
        ("goodput[sack=on] > goodput[sack=off]", 0.006_061_734_805, Some(Verdict::Holds)),
        ("goodput[sack=on] < goodput[sack=off]", 1.0 - 0.006_061_734_805, Some(Verdict::Fails)),
        ("goodput[sack=on] > 1.05 * goodput[sack=off]", 0.260_088_363_523, None),
        ("goodput[sack=on] within 10% of goodput[sack=off]", 0.034_411_365_564, Some(Verdict::Holds)),
        ("goodput[sack=on] within 15% of goodput[sack=off]", 0.001_763_020_948, Some(Verdict::Holds)),
        ("goodput[sack=on] within 5% of goodput[sack=off]", 0.739_911_636_476, None),
        ("goodput[sack=on] within 0.6 of goodput[sack=off]", 0.021_096_998_353, Some(Verdict::Holds)),
        ("goodput[sack=on] within 0.3 of goodput[sack=off]", 0.694_559_408_302, None),
    ] {
        let it = one(SACK, claim, &[&OFF, &ON]);
        near(it.p.expect("a p value"), p, 1e-7);
        match verdict {
            Some(verdict) => assert_eq!(it.verdict, verdict, "{claim}"),
            None => {
                assert!(matches!(it.verdict, Verdict::Undecided { needs } if needs > 6), "{claim}: {it:?}");
            }
        }
    }
}

#[test]
fn estimates_are_ratios_or_differences_with_intervals() {
    let ratio = one(SACK, "goodput[sack=on] > goodput[sack=off]", &[&OFF, &ON]);
    let it = ratio.estimate.expect("an interval");
    assert!(ratio.is_ratio && ratio.repetitions == 6 && !ratio.nothing_random, "{ratio:?}");
    near(it.estimate, 1.061_307_169_083, 1e-9);
    near(it.low, 1.019_864_721_240, 1e-9);
    near(it.high, 1.104_433_640_744, 1e-9);
    near(ratio.pairing.expect("both vary"), 0.733_145_307_277, 1e-9);
    // A factor of the claim is in the ratio: 1.05 times the right side.
    let scaled = one(SACK, "goodput[sack=on] > 1.05 * goodput[sack=off]", &[&OFF, &ON]);
    near(scaled.estimate.expect("an interval").estimate, 1.010_768_732_460, 1e-9);
    let amount = one(SACK, "goodput[sack=on] within 0.6 of goodput[sack=off]", &[&OFF, &ON]);
    let it = amount.estimate.expect("an interval");
    assert!(!amount.is_ratio, "{amount:?}");
    near(it.estimate, 0.35, 1e-9);
    near(it.low, 0.113_004_06, 1e-7);
    near(it.high, 0.586_995_94, 1e-7);
    let number = one(SACK, "goodput[sack=on] > 5", &[&OFF, &ON]);
    assert_eq!(number.pairing, None, "a number has no repetitions");
}

/// Holm: the smallest of two p values counts twice, the other once.
#[test]
fn claims_of_a_family_share_the_error() {
    let claims = ["goodput[sack=on] > goodput[sack=off]", "goodput[sack=on] within 10% of goodput[sack=off]"];
    let both = judged(SACK, &claims, &[&OFF, &ON]);
    near(both[0].p.expect("a p value"), 2.0 * 0.006_061_734_805, 1e-7);
    near(both[1].p.expect("a p value"), 0.034_411_365_564, 1e-7);
    let missing = judged(SACK, &[claims[0], claims[1], "completion > 1"], &[&OFF, &ON]);
    near(missing[0].p.expect("a p value"), 3.0 * 0.006_061_734_805, 1e-7);
    assert!(
        matches!(missing[1].verdict, Verdict::Undecided { .. }),
        "6.9 % for two that are left: {missing:?}"
    );
    assert_eq!((missing[2].verdict, missing[2].p), (Verdict::Missing, None));
}

#[test]
fn claims_without_measurements_say_why() {
    for (claim, reason) in [
        ("completion > 1", "the cells have no metric completion"),
        (
            "goodput / (goodput - goodput) > 1",
            "it divides by zero, or takes an effect on a metric that is zero",
        ),
        ("goodput > theory(mathis)", "the cells have no metric theory(mathis)"),
    ] {
        let it = one(SACK, claim, &[&OFF, &ON]);
        assert_eq!((it.verdict, it.reason.as_deref()), (Verdict::Missing, Some(reason)), "{claim}");
        assert_eq!((it.estimate, it.repetitions), (None, 0));
    }
    let experiment = with_claims(SACK, &["goodput[sack=on] > 1"]);
    let none = judge(&experiment.claims, &Results::default(), EngineKind::Virtual, &|_| 0.05);
    assert_eq!(none[0].reason.as_deref(), Some("no cell has engine virtual, sack=on"));
}

#[test]
fn only_common_valid_repetitions_are_compared() {
    let experiment = with_claims(SACK, &["goodput[sack=on] > goodput[sack=off]"]);
    let mut results =
        results(&experiment, "goodput", &[&[5.0, 5.1, 5.2, 5.3, 0.1, 5.2], &[6.0, 6.1, 6.3, 99.0]]);
    let [off, on] = [results.cells[0].clone(), results.cells[1].clone()];
    // Repetition 3 of one cell is invalid, and 4 and 5 of the other have no partner.
    let slow = rdt_lab::Record { status: Status::HostLimited, ..record(&on, 3, &[("a.goodput", 99.0)]) };
    results.records.get_mut(&on.id).expect("records").insert(3, slow);
    let it = judge(&experiment.claims, &results, EngineKind::Virtual, &|_| 0.05).remove(0);
    assert_eq!(it.repetitions, 3);
    let expected = (6.0 * 6.1 * 6.3 / (5.0 * 5.1 * 5.2_f64)).cbrt();
    near(it.estimate.expect("an interval").estimate, expected, 1e-12);
    results.records.get_mut(&off.id).expect("records").retain(|rep, _| *rep == 0);
    let it = judge(&experiment.claims, &results, EngineKind::Virtual, &|_| 0.05).remove(0);
    assert_eq!((it.verdict, it.estimate), (Verdict::Undecided { needs: 2 }, None), "one pair");
}

#[test]
fn cells_without_chance_fit_all_repetitions() {
    // The cell `off` has two equal runs, which stand for all six of `on`.
    let it = one(SACK, "goodput[sack=on] > goodput[sack=off]", &[&[5.0, 5.0], &ON]);
    assert_eq!((it.repetitions, it.verdict), (6, Verdict::Holds));
    let mean = ON.iter().map(|it| (it / 5.0).ln()).sum::<f64>() / 6.0;
    near(it.estimate.expect("an interval").estimate, mean.exp(), 1e-12);
}

const RATES: &str = "path.rtt = ['1ms', '2ms', '3ms']\n";

#[test]
fn monotone_compares_each_level_with_the_one_before() {
    let exact = |values: [f64; 3]| values.map(|value| [value, value]);
    for (direction, values, expected) in [
        ("up", [1.0, 2.0, 3.0], Verdict::Holds),
        ("up", [1.0, 3.0, 2.0], Verdict::Fails),
        ("up", [1.0, 2.0, 2.0], Verdict::Fails),
        ("down", [3.0, 2.0, 1.0], Verdict::Holds),
        ("down", [3.0, 1.0, 2.0], Verdict::Fails),
        // Neighbours differ by 4 %, the ends by more than 5 %.
        ("flat 5%", [1.0, 1.04, 1.0816], Verdict::Holds),
        ("flat 5%", [1.0, 1.04, 1.1], Verdict::Fails),
        ("flat 5%", [1.0, 0.951, 1.0], Verdict::Fails),
    ] {
        let [one_ms, two_ms, three_ms] = exact(values);
        let it = one(RATES, &format!("monotone(goodput, rtt, {direction})"), &[&one_ms, &two_ms, &three_ms]);
        assert_eq!(it.verdict, expected, "{direction} {values:?}");
    }
    let single = one("path.rtt = ['1ms']\n", "monotone(goodput, rtt, up)", &[&[1.0, 1.0]]);
    assert_eq!(single.reason.as_deref(), Some("no cell has a second level of rtt"));
}

/// The weakest evidence counts for all, and the strongest against one, times the number of cells.
#[test]
fn all_needs_every_cell() {
    let (low, high) = (ON.map(|it| it - 2.0), ON);
    let holds = one(RATES, "all: goodput > 3", &[&low, &high, &high]);
    let alone = one(RATES, "goodput[rtt=1ms] > 3", &[&low, &high, &high]);
    assert_eq!(holds.verdict, Verdict::Holds);
    near(holds.p.expect("a p value"), alone.p.expect("a p value"), 1e-9);
    near(holds.estimate.expect("an interval").estimate, alone.estimate.expect("an interval").estimate, 1e-12);
    let fails = one(RATES, "all: goodput > 5", &[&low, &high, &high]);
    assert_eq!(fails.verdict, Verdict::Fails);
    let part = one(RATES, "all[rtt=2ms]: goodput > 5", &[&low, &high, &low]);
    assert_eq!(part.verdict, Verdict::Holds);
    let none = judged(RATES, &["all[rtt=3ms]: goodput > goodput[rtt=1ms]"], &[&low, &high, &high]);
    assert_eq!(none[0].verdict, Verdict::Holds, "cells are compared with those of another level");
}

#[test]
fn quantiles_are_judged_by_resamples() {
    let wide: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i * 37 % 40)).collect();
    let higher: Vec<f64> = wide.iter().map(|it| it + 60.0).collect();
    let it = one(SACK, "q50(goodput[sack=on]) > q50(goodput[sack=off])", &[&wide, &higher]);
    assert_eq!(it.verdict, Verdict::Holds);
    // Medians of 100 to 139 and of 160 to 199.
    near(it.estimate.expect("an interval").estimate, 179.5 / 119.5, 1e-9);
    let border = one(SACK, "q50(goodput[sack=off]) > 119", &[&wide, &higher]);
    assert!(matches!(border.verdict, Verdict::Undecided { .. }), "{border:?}");
}

/// `margin` replaces the relation: both sides must be equal within this share.
#[test]
fn margins_turn_claims_into_equality() {
    let text = |margin: &str| {
        experiment(&format!(
            "{SACK}[[claim]]\nid = 'c'\nsays = 's'\nthat = 'goodput[sack=on] > goodput[sack=off]'\nmargin = '{margin}'\n"
        ))
    };
    for (margin, on, expected) in [
        ("5%", 104.9, Verdict::Holds),
        ("5%", 95.1, Verdict::Holds),
        ("5%", 105.1, Verdict::Fails),
        ("1%", 98.9, Verdict::Fails),
    ] {
        let experiment = text(margin);
        let results = results(&experiment, "goodput", &[&[100.0, 100.0], &[on, on]]);
        let it = judge(&experiment.claims, &results, EngineKind::Virtual, &|_| 0.05).remove(0);
        assert_eq!(it.verdict, expected, "{margin} {on}");
    }
}

#[test]
fn points_are_reached_by_claims_that_hold() {
    let claim =
        |that: &str| format!("[[claim]]\nid = 'c{}'\nsays = 's'\nthat = '{that}'\npoints = 3\n", that.len());
    let claims = claim("goodput[sack=on] > 1") + &claim("goodput[sack=on] > 100") + &claim("completion > 1");
    let experiment = experiment(&format!("{SACK}{claims}"));
    let results = results(&experiment, "goodput", &[&OFF, &ON]);
    let judged = judge(&experiment.claims, &results, EngineKind::Virtual, &|_| 0.05);
    assert_eq!(judged.iter().map(Judgement::reached).collect::<Vec<_>>(), [Some(3), Some(0), Some(0)]);
    let kernel = judge(&experiment.claims, &results, EngineKind::Kernel, &|_| 0.05);
    assert!(kernel.iter().all(|it| it.verdict == Verdict::Missing), "{kernel:?}");
}

#[test]
fn verdicts_read_as_sentences() {
    for (verdict, text) in [
        (Verdict::Holds, "holds"),
        (Verdict::Fails, "fails"),
        (Verdict::Missing, "not measured"),
        (Verdict::Undecided { needs: 40 }, "undecided (needs about 40 runs)"),
        (Verdict::Undecided { needs: 100_000 }, "undecided (needs about 100000 runs)"),
        (Verdict::Undecided { needs: 100_001 }, "undecided (no difference in sight)"),
        (Verdict::Undecided { needs: u32::MAX }, "undecided (no difference in sight)"),
    ] {
        assert_eq!(verdict.to_string(), text);
    }
}

/// A list that begins with the second level: the effect is that from the first level of the file to
/// the second, of cells that differ in nothing else.
#[test]
fn effects_and_trends_follow_the_order_of_the_file() {
    let factors = "flow.a.sack = ['off', 'on']\npath.rtt = ['10ms', '20ms', '30ms']\n[design]\nkind = 'list'\ncells = [\
                   { sack = 'on', rtt = '20ms' }, { sack = 'off', rtt = '20ms' }, { sack = 'off', rtt = '10ms' }]\n";
    let claims = ["effect(goodput, sack) > 1.4", "monotone(goodput[sack=off], rtt, down)"];
    let experiment = with_claims(factors, &claims);
    let mut results = results(&experiment, "goodput", &[&[150.0, 151.0], &[100.0, 100.0], &[900.0, 900.0]]);
    let levels = |factor: &rdt_lab::experiment::Factor| {
        (factor.name.clone(), factor.levels.iter().map(|level| level.name.clone()).collect())
    };
    results.levels = experiment.factors.iter().map(levels).collect();
    for it in judge(&experiment.claims, &results, EngineKind::Virtual, &|_| 0.05) {
        assert_eq!(it.verdict, Verdict::Holds, "{it:?}");
    }
}

#[test]
fn metric_that_some_repetitions_lack_has_no_mean() {
    let experiment = with_claims("flow.a.sack = ['on']\n", &["completion < 9s"]);
    let mut results = results(&experiment, "completion", &[&[1.0, 2.0, 3.0]]);
    let cell = results.cells[0].id;
    let records = results.records.get_mut(&cell).expect("a cell");
    records.get_mut(&1).expect("a repetition").metrics.clear();
    let it = judge(&experiment.claims, &results, EngineKind::Virtual, &|_| 0.05).remove(0);
    assert_eq!(it.verdict, Verdict::Missing);
    let reason = it.reason.expect("a reason");
    assert_eq!(reason, "1 of 3 repetitions of cell [sack=on] lack completion, so it has no mean");
}
