//! `compare` with planted differences: the direction of each metric, its threshold, and noise.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{arg, experiment, run};
use crate::store::rewrite;

/// Repetitions of each of the four cells.
const REPS: u32 = 6;

/// Folders of two runs of one experiment.
struct Runs {
    _place: TempDir,
    a: PathBuf,
    b: PathBuf,
}

impl Runs {
    /// Runs an experiment twice, the second time with this seed.
    fn new(seed: u32) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let file = experiment(place.path(), 1, REPS);
        let text = std::fs::read_to_string(&file).expect("the file");
        let results = |name: &str, seed: u32| {
            let text = text.replace("[repeats]", &format!("[design]\nseed = {seed}\n\n[repeats]"));
            std::fs::write(&file, text).expect("a written file");
            let folder = place.path().join(name);
            let (code, out, err) = run(&["run", &file, "-q", "--only-run", "-o", arg(&folder)]);
            assert_eq!(code, 0, "{out}{err}");
            folder.join("short")
        };
        let (a, b) = (results("a", 1), results("b", seed));
        Self { _place: place, a, b }
    }

    /// Compares a metric, and returns the exit code, and the objects of the cells.
    fn compare(&self, metric: &str, options: &[&str]) -> (i32, Vec<Value>) {
        let mut args = vec!["compare", arg(&self.a), arg(&self.b), "--by", metric, "--json"];
        args.extend(options);
        let (code, out, err) = run(&args);
        let cells: Vec<Value> =
            out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(cells.len(), 4, "{out}{err}");
        (code, cells)
    }

    /// Returns the exit code of a comparison, and the outcome, which all cells share.
    fn outcome(&self, metric: &str, options: &[&str]) -> (i32, String) {
        let (code, cells) = self.compare(metric, options);
        assert!(cells.iter().all(|it| it["outcome"] == cells[0]["outcome"]), "{cells:?}");
        (code, cells[0]["outcome"].as_str().expect("a word").to_owned())
    }
}

/// Sets a metric of each repetition.
fn set(folder: &Path, metric: &str, value: impl Fn(u32) -> f64) {
    rewrite(folder, |record| _ = record.metrics.insert(metric.to_owned(), value(record.rep)));
}

/// A share of 1 % above and below 1, which differs between repetitions and has the mean 1.
fn noise(rep: u32) -> f64 {
    1.0 + [0.010, -0.004, 0.002, -0.010, 0.004, -0.002][rep as usize % 6]
}

/// LAB.md: of rates, utilisation and delivered packets more is better; of times, losses and other
/// costs less is.
#[test]
fn doubled_metrics_are_better_or_worse_by_kind() {
    let runs = Runs::new(1);
    let (more, less) = (
        ["a.goodput", "sum", "jain", "link.forward.utilisation", "a.delivered"],
        [
            "a.completion",
            "a.rtt-mean",
            "a.jitter",
            "a.loss",
            "a.lost-queue",
            "a.retransmitted",
            "a.timeouts",
            "link.forward.queue-mean",
            "link.forward.dropped-loss",
            "a.first-byte",
        ],
    );
    for metric in more.iter().chain(&less) {
        set(&runs.a, metric, |rep| 100.0 * noise(rep));
        set(&runs.b, metric, |rep| 200.0 * noise(rep + 3));
    }
    for metric in more {
        assert_eq!(runs.outcome(metric, &[]), (0, "better".to_owned()), "{metric}");
    }
    for metric in less {
        assert_eq!(runs.outcome(metric, &[]), (1, "worse".to_owned()), "{metric}");
    }
    // The option replaces the direction of the name.
    assert_eq!(runs.outcome("a.goodput", &["--better", "less"]), (1, "worse".to_owned()));
    assert_eq!(runs.outcome("a.completion", &["--better", "more"]), (0, "better".to_owned()));
    let swapped = Runs { a: runs.b.clone(), b: runs.a.clone(), ..runs };
    assert_eq!(swapped.outcome("a.goodput", &[]), (1, "worse".to_owned()));
    assert_eq!(swapped.outcome("a.completion", &[]), (0, "better".to_owned()));
}

/// A loss of exactly the threshold counts; of times it is the inverse, 1 / 0.97 = 1.0309.
#[test]
fn threshold_is_the_smallest_loss_that_counts() {
    let runs = Runs::new(1);
    for (metric, factor, threshold, outcome) in [
        ("a.goodput", 0.97, "3%", "worse"),
        ("a.goodput", 0.97, "0.03", "worse"),
        ("a.goodput", 0.971, "3%", "same"),
        ("a.goodput", 0.971, "2.9%", "worse"),
        ("a.goodput", 1.0 / 0.97, "3%", "better"),
        ("a.goodput", 1.03, "3%", "same"),
        ("a.completion", 1.0 / 0.97, "3%", "worse"),
        ("a.completion", 1.03, "3%", "same"),
        ("a.completion", 0.97, "3%", "better"),
        ("a.goodput", 0.999, "0%", "worse"),
    ] {
        set(&runs.a, metric, |rep| 100.0 * noise(rep));
        // Each repetition loses the same share but for a millionth.
        set(&runs.b, metric, |rep| 100.0 * noise(rep) * factor * (1.0 + (noise(rep) - 1.0) * 1e-8));
        let expected = (i32::from(outcome == "worse"), outcome.to_owned());
        assert_eq!(
            runs.outcome(metric, &["--threshold", threshold]),
            expected,
            "{metric} {factor} {threshold}"
        );
    }
}

/// Noise is no difference: neither other noise around one mean, nor a mean difference of less than
/// its error.
#[test]
fn noise_is_the_same() {
    let runs = Runs::new(1);
    for (name, factor, spread) in [("shuffled", 1.0, 1.0), ("wide", 0.9, 20.0)] {
        set(&runs.a, "a.goodput", |rep| 100.0 * (1.0 + (noise(rep) - 1.0) * spread));
        set(&runs.b, "a.goodput", |rep| 100.0 * factor * (1.0 + (noise(rep + 1) - 1.0) * spread));
        let (code, cells) = runs.compare("goodput", &[]);
        assert!(code == 0 && cells.iter().all(|it| it["outcome"] == "same"), "{name}: {cells:?}");
    }
    set(&runs.b, "a.goodput", |rep| 100.0 * (1.0 + (noise(rep) - 1.0) * 20.0));
    let (_, cells) = runs.compare("goodput", &[]);
    assert_eq!(
        (&cells[0]["ratio"], &cells[0]["ratio_interval_95"]),
        (&1.0.into(), &Value::Null),
        "identical"
    );
}

const ON: [f64; 6] = [5.9, 6.1, 5.7, 6.3, 6.0, 6.2];
const OFF: [f64; 6] = [5.5, 5.9, 5.6, 5.6, 5.8, 5.7];

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value / expected - 1.0).abs() < 1e-9, "{value} for {expected}");
}

/// Paired t test of the logarithms with scipy: p is 0.0121, so the difference is none at 0.1 % for
/// four cells.
#[test]
fn equal_seeds_are_compared_in_pairs() {
    let runs = Runs::new(1);
    set(&runs.a, "a.goodput", |rep| OFF[rep as usize]);
    set(&runs.b, "a.goodput", |rep| ON[rep as usize]);
    let (code, cells) = runs.compare("goodput", &[]);
    let it = &cells[0];
    assert_eq!((code, &it["outcome"], &it["is_paired"]), (0, &"same".into(), &true.into()), "{it}");
    near(&it["ratio"], 1.061_307_169_082_5);
    near(&it["ratio_interval_95"][0], 1.019_864_721_240_2);
    near(&it["ratio_interval_95"][1], 1.104_433_640_744_3);
    near(&it["mean_a_bps"], OFF.iter().sum::<f64>() / 6.0);
    near(&it["mean_b_bps"], ON.iter().sum::<f64>() / 6.0);
}

/// Welch's test with scipy, because no seed is in both folders.
#[test]
fn other_seeds_are_compared_without_pairs() {
    let runs = Runs::new(2);
    set(&runs.a, "a.goodput", |rep| OFF[rep as usize]);
    set(&runs.b, "a.goodput", |rep| ON[rep as usize]);
    let (_, cells) = runs.compare("goodput", &[]);
    let it = &cells[0];
    assert_eq!(it["is_paired"], false, "{it}");
    near(&it["ratio"], 1.061_307_169_082_5);
    near(&it["ratio_interval_95"][0], 1.018_781_057_433_9);
    near(&it["ratio_interval_95"][1], 1.105_608_412_059_7);
}

#[test]
fn cells_with_one_value_are_unknown() {
    let runs = Runs::new(2);
    rewrite(&runs.b, |record| {
        if record.rep > 0 {
            record.metrics.remove("a.goodput");
        }
    });
    let (code, cells) = runs.compare("goodput", &[]);
    assert_eq!((code, &cells[0]["outcome"]), (3, &"unknown".into()), "{cells:?}");
    assert_eq!(cells[0]["reason"], "some repetitions lack the metric");
    assert_eq!((&cells[0]["ratio"], &cells[0]["ratio_interval_95"]), (&Value::Null, &Value::Null));
}
