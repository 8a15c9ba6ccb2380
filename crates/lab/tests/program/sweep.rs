//! `sweep`: grids without a file.

use crate::process::{arg, run, succeeds};

#[test]
fn a_grid_from_the_command_line_runs() {
    let place = tempfile::tempdir().expect("a folder");
    let args = [
        "sweep",
        "flow.receiver.window=16kib,64kib",
        "path.rtt=2ms,50ms",
        "--flow",
        "cc=cubic,bytes=200kb",
        "--path",
        "loss=0.1%",
        "--repeats",
        "3",
        "-q",
        "-o",
        arg(place.path()),
    ];
    let out = succeeds(&args);
    assert!(out.contains("16kib") && out.contains("bit/s"), "{out}");
    let json = succeeds(&[&args[..], &["--json", "--by", "completion"]].concat());
    assert_eq!(json.lines().count(), 4, "{json}");
    let first: serde_json::Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert!(first["mean_s"].as_f64().is_some_and(|time| time > 0.0), "{first}");
}

#[test]
fn the_printed_file_is_what_runs() {
    let place = tempfile::tempdir().expect("a folder");
    let sweep = ["sweep", "path.rate=1mbit,8mbit", "flow.cc=reno,cubic", "--for", "2s", "--repeats", "2"];
    let text = succeeds(&[&sweep[..], &["--show"]].concat());
    let file = place.path().join("grid.toml");
    std::fs::write(&file, &text).expect("a written file");
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    succeeds(&[&sweep[..], &["-q", "-o", arg(&one)]].concat());
    succeeds(&["run", arg(&file), "-q", "-o", arg(&two)]);
    let merged = |folder: &std::path::Path, name: &str| {
        let target = place.path().join(name);
        succeeds(&["merge", "--canonical", arg(folder), "-o", arg(&target)]);
        let found = std::fs::read_dir(&target).expect("a folder").next().expect("an experiment");
        let journal = found.expect("an entry").path().join("journal/merged.ndjson");
        std::fs::read_to_string(journal).expect("a journal")
    };
    let journal = merged(&one, "a");
    assert_eq!(journal.lines().count(), 8);
    assert_eq!(journal, merged(&two, "b"));
}

#[test]
fn wrong_words_of_a_sweep_are_told() {
    let (code, _, err) = run(&["sweep", "path.rat=1mbit", "--show"]);
    assert_eq!(code, 64);
    assert!(err.contains("rate"), "{err}");
    assert_eq!(run(&["sweep", "path.rate"]).0, 64);
}
