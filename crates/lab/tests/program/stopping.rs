//! Rules that end repetitions: what a run keeps is what its rule asks for, repetition by
//! repetition.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rdt_lab::cell::CellId;
use rdt_lab::journal::decode;

use crate::process::{arg, experiment, succeeds};

/// Runs the experiment of four cells with this table `[repeats]`, and returns its results.
fn results(place: &Path, repeats: &str, more: &str) -> PathBuf {
    let file = experiment(place, 1, 1);
    let text = fs::read_to_string(&file).expect("the file");
    let (head, rest) = text.split_once("[repeats]").expect("a table");
    let (_, measure) = rest.split_once("[measure]").expect("a table");
    fs::write(&file, format!("{head}[repeats]\n{repeats}\n{more}\n[measure]{measure}"))
        .expect("a written file");
    succeeds(&["run", &file, "-q", "--only-run", "-o", arg(&place.join("results"))]);
    place.join("results/short")
}

/// Returns the goodput of each cell by repetition. No repetition is there twice.
fn goodput(folder: &Path) -> BTreeMap<CellId, Vec<f64>> {
    let mut values: BTreeMap<CellId, BTreeMap<u32, f64>> = BTreeMap::new();
    for entry in fs::read_dir(folder.join("journal")).expect("journals") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("a journal");
        for record in text.lines().map(|line| decode(line).expect("a record")) {
            let before =
                values.entry(record.cell).or_default().insert(record.rep, record.metrics["a.goodput"]);
            assert!(before.is_none(), "repetition {} is there twice", record.rep);
        }
    }
    let list = |reps: BTreeMap<u32, f64>| {
        assert!(
            reps.keys().copied().eq(0..u32::try_from(reps.len()).expect("few")),
            "repetitions have no gap"
        );
        reps.into_values().collect()
    };
    values.into_iter().map(|(cell, reps)| (cell, list(reps))).collect()
}

/// Number of repetitions at each look, and t(0.975; n - 1) of the table in "Student's t".
const LOOKS: [(usize, f64); 6] =
    [(10, 2.262_16), (15, 2.144_79), (20, 2.093_02), (30, 2.045_23), (40, 2.022_69), (60, 2.001_00)];

/// Returns the half-width of the 95 % interval as a share of the mean.
fn relative_half_width(values: &[f64], t: f64) -> f64 {
    let n = f64::from(u32::try_from(values.len()).expect("few"));
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
    t * (squares / (n - 1.0) / n).sqrt() / mean
}

#[test]
fn repetitions_end_at_the_first_narrow_look() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = results(place.path(), "least = 10\nmost = 60\nuntil = \"6% of goodput\"", "");
    let cells = goodput(&folder);
    assert_eq!(cells.len(), 4);
    let mut ends = Vec::new();
    for (cell, values) in &cells {
        let narrow =
            |(n, t): &&(usize, f64)| relative_half_width(&values[..*n.min(&values.len())], *t) <= 0.06;
        let expected = LOOKS.iter().find(narrow).map_or(60, |(n, _)| *n);
        assert_eq!(values.len(), expected, "cell {cell}");
        ends.push(expected);
    }
    assert!(ends.iter().any(|n| *n > 10), "no cell needed a second look: {ends:?}");
}

#[test]
fn decided_claims_end_after_the_first_round() {
    let claim = |that: &str| format!("[[claim]]\nid = \"c\"\nsays = \"s\"\nthat = \"{that}\"\n");
    let until = "least = 8\nmost = 32\nuntil = \"claims\"";
    // The first holds and the second fails: both are decided.
    for that in ["goodput > 1kbit", "goodput > 8mbit"] {
        let place = tempfile::tempdir().expect("a folder");
        let cells = goodput(&results(place.path(), until, &claim(that)));
        assert_eq!(cells.values().map(Vec::len).collect::<Vec<_>>(), [8; 4], "{that}");
    }
}

#[test]
fn cells_without_chance_run_twice() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 1);
    let text = fs::read_to_string(&file).expect("the file");
    let text = text.replace("loss = \"2%\"\n", "").replace("least = 1\nmost = 1\nuntil = \"least\"", "");
    fs::write(&file, text).expect("a written file");
    succeeds(&["run", &file, "-q", "--only-run", "-o", arg(&place.path().join("results"))]);
    let cells = goodput(&place.path().join("results/short"));
    for values in cells.values() {
        assert_eq!(values.len(), 2, "two show that they are equal: {values:?}");
        assert!((values[0] - values[1]).abs() < 1e-9, "{values:?}");
    }
}
