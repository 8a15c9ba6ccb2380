//! `compare` of runs with themselves, with other seeds, and with a planted loss.

use std::path::{Path, PathBuf};

use crate::process::{arg, experiment, run, succeeds};
use crate::store::rewrite;

/// Runs an experiment with some repetitions, and returns its folder of results.
fn results(place: &tempfile::TempDir, name: &str, seed: u32) -> PathBuf {
    let file = experiment(place.path(), 2, 10);
    let text = std::fs::read_to_string(&file).expect("the file");
    let seeded = text.replace("[repeats]", &format!("[design]\nseed = {seed}\n\n[repeats]"));
    std::fs::write(&file, seeded).expect("a written file");
    let folder = place.path().join(name);
    succeeds(&["run", &file, "-q", "-o", arg(&folder)]);
    folder.join("short")
}

#[test]
fn equal_builds_never_differ() {
    let place = tempfile::tempdir().expect("a folder");
    let (one, two) = (results(&place, "one", 1), results(&place, "two", 1));
    let out = succeeds(&["compare", arg(&one), arg(&two)]);
    assert!(out.contains("0 cells worse, 0 better, 8 the same"), "{out}");
    never_worse(&place, &one, 2..12);
}

/// `cargo test --release -p rdt-lab --test program -- --ignored equal_builds`
#[test]
#[ignore = "100 runs"]
fn equal_builds_never_differ_in_100_runs() {
    let place = tempfile::tempdir().expect("a folder");
    let one = results(&place, "one", 1);
    never_worse(&place, &one, 2..102);
}

/// Compares results with those of other seeds, in both directions.
fn never_worse(place: &tempfile::TempDir, one: &Path, seeds: std::ops::Range<u32>) {
    for seed in seeds {
        let other = results(place, &format!("seed-{seed}"), seed);
        for (a, b) in [(one, other.as_path()), (&other, one)] {
            let (code, out, err) = run(&["compare", arg(a), arg(b)]);
            assert_eq!(code, 0, "seed {seed}: {out}{err}");
        }
    }
}

#[test]
fn a_planted_loss_of_3_percent_is_worse() {
    let place = tempfile::tempdir().expect("a folder");
    let (one, two) = (results(&place, "one", 1), results(&place, "two", 1));
    rewrite(&two, |record| {
        let slow = record.metrics["a.goodput"] * 0.97 * (1.0 + (f64::from(record.rep % 3) - 1.0) * 1e-3);
        record.metrics.insert("a.goodput".to_owned(), slow);
        *record.metrics.get_mut("a.completion").expect("a time") *= 1.04;
    });
    let (code, out, _) = run(&["compare", arg(&one), arg(&two)]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("8 cells worse"), "{out}");
    let (code, out, _) = run(&["compare", arg(&two), arg(&one), "--json"]);
    assert_eq!(code, 0, "{out}");
    let first: serde_json::Value = serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["outcome"], &first["is_paired"]), (&"better".into(), &true.into()), "{first}");
    assert_eq!(run(&["compare", arg(&one), arg(&two), "--by", "completion"]).0, 1, "more time is worse");
    assert_eq!(run(&["compare", arg(&one), arg(&two), "--threshold", "10%"]).0, 0);
}

#[test]
fn cells_without_counterpart_are_counted() {
    let place = tempfile::tempdir().expect("a folder");
    let one = results(&place, "one", 1);
    let (file, two) = (experiment(place.path(), 1, 10), place.path().join("two"));
    succeeds(&["run", &file, "-q", "-o", arg(&two)]);
    let (code, out, err) = run(&["compare", arg(&one), arg(&two.join("short"))]);
    assert!(code == 3 && out.contains("4 the same"), "{out}{err}");
    assert!(err.contains("4 cells of ") && err.contains("one/short are not compared"), "{err}");
    let (code, out, err) = run(&["compare", arg(&two.join("short")), arg(&one)]);
    assert!(code == 0 && err.contains("one/short are not compared"), "{out}{err}");
}

#[test]
fn cells_that_lost_their_values_are_not_the_same() {
    let place = tempfile::tempdir().expect("a folder");
    let (one, two) = (results(&place, "one", 1), results(&place, "two", 1));
    let metric = |folder: &Path, value: Option<f64>| {
        rewrite(folder, |record| {
            record.metrics.remove("a.lost");
            record.metrics.extend(value.map(|value| ("a.lost".to_owned(), value + f64::from(record.rep))));
        });
        folder.to_owned()
    };
    let (none, some) = (metric(&one, None), metric(&two, Some(500.0)));
    assert_eq!(run(&["compare", arg(&some), arg(&none), "--by", "lost"]).0, 64, "nothing to compare");
    rewrite(&one, |record| _ = record.metrics.insert("a.lost".to_owned(), 0.0));
    let (code, out, _) = run(&["compare", arg(&one), arg(&two), "--by", "lost"]);
    assert!(code == 3 && out.contains("not positive"), "{out}");
    let cell = std::cell::RefCell::new(None);
    rewrite(&one, |record| {
        let cell = *cell.borrow_mut().get_or_insert(record.cell);
        (record.cell == cell).then(|| record.metrics.remove("a.goodput"));
    });
    let (code, out, _) = run(&["compare", arg(&two), arg(&one)]);
    assert!(code == 3 && out.contains("no valid values"), "{out}");
    let (code, out, _) = run(&["compare", arg(&one), arg(&two)]);
    assert_eq!(code, 0, "A has no value to compare with: {out}");
}

#[test]
fn errors_of_compare_name_the_remedy() {
    let place = tempfile::tempdir().expect("a folder");
    let one = results(&place, "one", 1);
    let (code, _, err) = run(&["compare", arg(&one), arg(&one), "--by", "a.godput"]);
    assert_eq!(code, 64);
    assert!(err.contains("a.goodput"), "{err}");
    assert_eq!(run(&["compare", arg(&one), arg(place.path())]).0, 66);
    assert_eq!(run(&["compare", arg(&one), arg(&one), "--threshold", "x"]).0, 64);
    let (code, _, err) = run(&["compare", arg(&one), arg(&one), "--by", "cwnd-mean"]);
    assert!(code == 64 && err.contains("add --better more or --better less"), "{err}");
    succeeds(&["compare", arg(&one), arg(&one), "--by", "cwnd-mean", "--better", "more"]);
}
