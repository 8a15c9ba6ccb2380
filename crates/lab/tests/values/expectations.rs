//! Published values beside measured ones, and the arithmetic of statements.

use rdt_lab::claim::{Expectation, Fit, expectations};
use rdt_lab::experiment::{Experiment, Tolerance};
use rdt_lab::{EngineKind, Results};

use crate::support::{experiment, near, results};

const SACK: &str = "flow.a.sack = ['off', 'on']\n";

fn with_expect(of: &str, within: &str, more: &str, values: &str) -> Experiment {
    experiment(&format!(
        "{SACK}[[expect]]\nsource = 'table 1'\nof = '{of}'\nwithin = '{within}'\n{more}\nvalues = [{values}]\n"
    ))
}

fn beside(experiment: &Experiment, off: &[f64], on: &[f64]) -> Vec<Expectation> {
    let results = results(experiment, "goodput", &[off, on]);
    expectations(&experiment.expects[0], &results, EngineKind::Virtual)
}

#[test]
fn tolerances_include_their_border() {
    for (within, is, measured, fit) in [
        ("5%", "100", 105.0, Fit::Inside),
        ("5%", "100", 95.0, Fit::Inside),
        ("5%", "100", 105.2, Fit::Outside),
        ("5%", "100", 94.8, Fit::Outside),
        ("0%", "100", 100.0, Fit::Inside),
        ("0%", "100", 100.5, Fit::Outside),
        ("2mbit", "8mbit", 10e6, Fit::Inside),
        ("2mbit", "8mbit", 5.9e6, Fit::Outside),
        // A tolerance in points is an amount, not a share of the value.
        ("1.5 points", "5%", 0.064, Fit::Inside),
        ("1.5 points", "5%", 0.066, Fit::Outside),
        ("1.5%", "5%", 0.0507, Fit::Inside),
        ("1.5%", "5%", 0.0509, Fit::Outside),
    ] {
        let experiment = with_expect("goodput", within, "", &format!("{{ sack = 'on', is = '{is}' }}"));
        let it = &beside(&experiment, &[1.0, 1.0], &[measured, measured])[0];
        assert_eq!(it.fit, fit, "{measured} for {is} within {within}: {it:?}");
        assert!(!it.has_interval && it.repetitions == 2, "equal runs have no interval: {it:?}");
    }
}

/// Values as papers print them.
#[test]
fn published_values_are_read_in_base_units() {
    for (text, expected) in [
        ("1.2390mbit", 1.239e6),
        ("25ms", 0.025),
        ("353ms", 0.353),
        ("16kib", 16_384.0),
        ("1.5 points", 0.015),
        ("5%", 0.05),
        ("0.5", 0.5),
        ("-3", -3.0),
        ("1e6", 1e6),
    ] {
        let experiment = with_expect("goodput", "5%", "", &format!("{{ sack = 'on', is = '{text}' }}"));
        near(experiment.expects[0].values[0].is, expected, 1e-12);
        assert_eq!(experiment.expects[0].values[0].text, text);
    }
    let shares =
        ["5%", "5 points", "5"].map(|within| with_expect("goodput", within, "", "").expects[0].within);
    assert_eq!(shares, [Tolerance::Share(0.05), Tolerance::Absolute(0.05), Tolerance::Absolute(5.0)]);
    for wrong in ["inf", "nan", "nan%", "inf points", "fast", ""] {
        let text = with_expect("goodput", "5%", "", "").text.replace("values = []", "");
        let text = format!("{text}values = [{{ sack = 'on', is = '{wrong}' }}]\n");
        assert!(Experiment::from_toml(&text).is_err(), "'{wrong}' is no value");
    }
}

/// An interval that reaches the tolerance leaves the question open: t(0.975; 2) / sqrt(3) = 2.484
/// times the deviation.
#[test]
fn intervals_that_reach_the_tolerance_are_unclear() {
    let experiment = with_expect("goodput", "5%", "else = 'fail'", "{ sack = 'on', is = 100 }");
    for (values, fit, fails) in [
        // Means of 107 with half-widths of 2.484 and 1.242; the tolerance ends at 105.
        ([106.0, 107.0, 108.0], Fit::Unclear, false),
        ([106.5, 107.0, 107.5], Fit::Outside, true),
        ([92.0, 93.0, 94.0], Fit::Unclear, false),
        ([92.5, 93.0, 93.5], Fit::Outside, true),
        ([60.0, 100.0, 140.0], Fit::Inside, false),
    ] {
        let it = &beside(&experiment, &[1.0; 3], &values)[0];
        assert_eq!((it.fit, it.fails()), (fit, fails), "{values:?}: {it:?}");
        assert!(it.has_interval && it.must);
    }
    let interval = beside(&experiment, &[1.0; 3], &[106.0, 107.0, 108.0])[0].measured.expect("a value");
    near(interval.low, 107.0 - 2.484_137_713, 1e-8);
    near(interval.high, 107.0 + 2.484_137_713, 1e-8);
}

/// Jackknife of a ratio of means with numpy: 1.061584 +- t(0.975; 5) * standard error of the pseudo
/// values.
#[test]
fn ratios_have_the_interval_of_the_jackknife() {
    let experiment =
        with_expect("goodput", "5%", "compare = 'ratio to sack=off'", "{ sack = 'on', is = 1.1 }");
    let it = &beside(&experiment, &[5.5, 5.9, 5.6, 5.6, 5.8, 5.7], &[5.9, 6.1, 5.7, 6.3, 6.0, 6.2])[0];
    let measured = it.measured.expect("a value");
    near(measured.estimate, 1.061_583_577_713, 1e-9);
    near(measured.half_width(), 0.042_343_018_230, 1e-7);
    assert_eq!((it.fit, it.repetitions), (Fit::Inside, 6));
    near(it.ratio().expect("a ratio"), 1.061_583_577_713 / 1.1, 1e-9);
}

/// Where the reference is published too, the published ratio is compared: 1.92 / 1.24 = 1.548.
#[test]
fn published_pairs_are_compared_as_ratios() {
    let values = "{ sack = 'off', is = '1.24mbit' }, { sack = 'on', is = '1.92mbit' }";
    let experiment = with_expect("goodput", "1%", "compare = 'ratio to sack=off'", values);
    let all = beside(&experiment, &[2e6, 2e6], &[3.1e6, 3.1e6]);
    near(all[0].expected, 1.0, 1e-12);
    near(all[1].expected, 1.92 / 1.24, 1e-12);
    near(all[1].measured.expect("a value").estimate, 1.55, 1e-12);
    assert_eq!(all.iter().map(|it| it.fit).collect::<Vec<_>>(), [Fit::Inside, Fit::Inside]);
    let far = beside(&experiment, &[2e6, 2e6], &[2.9e6, 2.9e6]);
    assert_eq!(far[1].fit, Fit::Outside);
}

#[test]
fn values_that_were_not_measured_are_missing() {
    let experiment = with_expect("completion", "5%", "else = 'fail'", "{ sack = 'on', is = '1ms' }");
    let it = &beside(&experiment, &[1.0, 1.0], &[1.0, 1.0])[0];
    assert_eq!((it.fit, it.measured, it.ratio()), (Fit::Missing, None, None));
    assert!(it.is_missing() && !it.fails());
    let note = with_expect("completion", "5%", "else = 'note'", "{ sack = 'on', is = '1ms' }");
    assert!(!beside(&note, &[1.0, 1.0], &[1.0, 1.0])[0].is_missing(), "a note is no claim");
    let none = expectations(&experiment.expects[0], &Results::default(), EngineKind::Virtual);
    assert!(none.is_empty(), "no cell has the level");
    // Without a run of the reference there is no ratio.
    let ratio = with_expect("goodput", "5%", "compare = 'ratio to sack=off'", "{ sack = 'on', is = 1.1 }");
    assert_eq!(beside(&ratio, &[], &[1.0, 2.0])[0].fit, Fit::Missing);
}

#[test]
fn expected_values_of_zero_have_no_ratio() {
    let experiment = with_expect("goodput", "0.5", "", "{ sack = 'on', is = 0 }");
    let it = &beside(&experiment, &[1.0, 1.0], &[0.25, 0.25])[0];
    assert_eq!((it.fit, it.ratio()), (Fit::Inside, None));
}

fn statement(step: &str) -> Result<(), String> {
    let text = experiment(SACK).text;
    let text = format!(
        "{text}[[statement]]\nnumber = 1\nkind = 'error'\nat = '000-A'\nsays = 'x'\nso = 'y'\nshows = ['{step}']\n"
    );
    Experiment::from_toml(&text).map(drop).map_err(|error| error.to_string())
}

/// A step is right if its right side is the left side, rounded to the digits that it has.
#[test]
fn arithmetic_is_checked_to_the_last_digit() {
    for right in [
        "38785361 + 30790 * 54 + 12 = 40448033",
        "2 / 3 = 0.667",
        "2 / 3 = 0.67",
        "1 / 8 = 0.13",
        "1 / 8 = 0.125",
        "8mbit / 3 = 2.67mbit",
        "1 / 8 = 12.5%",
        "1 / 8 = 13%",
        "10ms * 3 = 30ms",
        "5e6 / 3 = 1.67e6",
        "0 / 5 = 0",
    ] {
        assert_eq!(statement(right), Ok(()), "{right}");
    }
    for wrong in [
        "38785361 + 30790 * 54 + 12 = 40448034",
        "2 / 3 = 0.666",
        "2 / 3 = 0.68",
        "8mbit / 3 = 2.66mbit",
        "1 / 8 = 14%",
        "1 / 2 = 63%",
        "0.629 = 62.5%",
        "10ms * 3 = 31ms",
        "5e6 / 3 = 1.66e6",
        "1 / 0 = 5",
        "goodput / 2 = 5",
    ] {
        assert!(statement(wrong).is_err(), "{wrong}");
    }
}
