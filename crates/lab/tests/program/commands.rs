//! Exit codes of verdicts, and commands that take several experiments or folders.

use std::path::{Path, PathBuf};

use rdt_lab::Status;
use rdt_program_testing::closed_pipe;

use crate::process::{arg, experiment, lab, run, succeeds, texts};
use crate::store::rewrite;

/// Runs an experiment with claims, and returns its folder of results.
fn with_claims(place: &Path, claims: &[&str]) -> (i32, PathBuf) {
    let file = experiment(place, 1, 3);
    let text = std::fs::read_to_string(&file).expect("the file");
    let claim =
        |(number, that)| format!("\n[[claim]]\nid = \"c{number}\"\nsays = \"x\"\nthat = \"{that}\"\n");
    let claims: String = claims.iter().enumerate().map(claim).collect();
    std::fs::write(&file, text + &claims).expect("a written file");
    let results = place.join("results");
    let (code, ..) = run(&["run", &file, "-q", "-o", arg(&results)]);
    (code, results)
}

#[test]
fn claims_that_are_not_measured_end_with_code_3() {
    let place = tempfile::tempdir().expect("a folder");
    let (code, results) = with_claims(place.path(), &["goodput > 1kbit", "goodput / 0 > 1"]);
    let (same, out, _) = run(&["claims", arg(&results)]);
    assert_eq!((code, same), (3, 3), "{out}");
    assert!(out.contains("1 claims hold, 0 fail, 1 not measured"), "{out}");
    let (code, results) = with_claims(place.path(), &["goodput < 1kbit", "goodput / 0 > 1"]);
    assert_eq!((code, run(&["claims", arg(&results.join("short"))]).0), (1, 1), "a claim fails");
}

#[test]
fn unmeasured_expected_values_end_with_code_3() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 3);
    let text = std::fs::read_to_string(&file).expect("the file");
    for (otherwise, code) in [("fail", 3), ("note", 0)] {
        let expect = format!(
            "\n[[expect]]\nsource = \"s\"\nof = \"goodput / 0\"\nwithin = \"5%\"\nelse = \"{otherwise}\"\n\
             values = [{{ cc = \"reno\", is = 1 }}, {{ cc = \"cubic\", is = 2 }}]\n"
        );
        std::fs::write(&file, format!("{text}{expect}")).expect("a written file");
        let results = place.path().join(otherwise);
        let ran = run(&["run", &file, "-q", "-o", arg(&results)]);
        let (same, out, _) = run(&["claims", arg(&results)]);
        assert_eq!((ran.0, same), (code, code), "{otherwise}: {out}");
        assert_eq!(out.contains("2 expected values are not measured"), code == 3, "{out}");
    }
}

#[test]
fn misspelled_command_gets_nearest() {
    let (code, _, said) = run(&["rnu"]);
    assert_eq!((code, &*said), (64, "rdt-lab: unrecognized subcommand 'rnu': is it run?; see --help\n"));
}

#[test]
fn closed_stdout_fails_json_alone() {
    for (args, code) in [(&["list"][..], 0), (&["list", "--json"], 74)] {
        let output = lab(args).stdout(closed_pipe()).output().expect("the program starts");
        let (ended, _, said) = texts(&output);
        assert_eq!((ended, said.contains("standard output")), (code, code == 74), "{args:?}: {said}");
    }
}

#[test]
fn failed_repetitions_end_with_code_2() {
    let place = tempfile::tempdir().expect("a folder");
    let (code, results) = with_claims(place.path(), &["goodput < 1kbit"]);
    assert_eq!(code, 1);
    rewrite(&results.join("short"), |record| {
        if record.rep == 0 {
            record.status = Status::Failed("no route".to_owned());
        }
    });
    let (code, _, err) = run(&["claims", arg(&results)]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("4 failed repetitions; the first is number 0 of virtual"), "{err}");
    let out = succeeds(&["status", arg(&results)]);
    assert!(out.contains("12 repetitions done, 0 missing") && out.contains("4 failed repetitions"), "{out}");
}

#[test]
fn folders_without_results_end_with_code_66() {
    let place = tempfile::tempdir().expect("a folder");
    let (empty, all) = (arg(place.path()), place.path().join("all"));
    for command in [
        vec!["claims", empty],
        vec!["report", empty],
        vec!["status", empty],
        vec!["merge", empty, "-o", arg(&all)],
    ] {
        let (code, _, err) = run(&command);
        assert_eq!(code, 66, "{command:?}: {err}");
        assert!(err.contains("has no results") && err.contains("'rdt-lab run ID"), "{command:?}: {err}");
    }
}

#[test]
fn plan_and_show_take_several_experiments() {
    let shown = succeeds(&["show", "002-a", "002-B"]);
    let (one, two) = (succeeds(&["show", "002-A"]), succeeds(&["show", "002-B"]));
    assert_eq!(shown, format!("# 002-A\n{one}\n# 002-B\n{two}"));
    let planned = succeeds(&["plan", "002-A", "002-B"]);
    let together = succeeds(&["plan", "002-A"]) + "\n002-B\n" + &succeeds(&["plan", "002-B"]);
    assert!(planned.starts_with(&format!("002-A\n{together}\ntogether\nvirtual: ")), "{planned}");
    let lines = succeeds(&["plan", "002-A", "002-B", "--json"]);
    let names = lines.lines().map(|line| {
        let plan: serde_json::Value = serde_json::from_str(line).expect("JSON");
        plan["experiment"].as_str().expect("a name").to_owned()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["002-a", "002-b"]);
}

#[test]
fn experiments_without_the_engine_are_left_out() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 1);
    let (code, out, err) = run(&["plan", "000-A", &file, "--engine", "kernel"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("short.toml: left out, it has none of these engines"), "{err}");
    assert!(out.contains("kernel: ") && !out.contains("virtual"), "{out}");
    assert_eq!(run(&["plan", &file, "--engine", "kernel"]).0, 64, "a single experiment must have it");
}

#[test]
fn figures_of_equal_names_are_not_overwritten() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 3);
    let figure = "\n[[figure]]\nkind = \"means\"\nx = \"cc\"\n";
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text + figure).expect("a written file");
    let folders = ["one", "two"].map(|name| place.path().join(name));
    for folder in &folders {
        succeeds(&["run", &file, "-q", "-o", arg(folder)]);
    }
    let figures = place.path().join("figures");
    let (code, _, err) = run(&["export", arg(&folders[0]), arg(&folders[1]), "--svg", "-o", arg(&figures)]);
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("experiment short") && err.contains("folder of its own"), "{err}");
}

#[test]
fn typing_errors_end_plan_and_run_before_anything_runs() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 3);
    let text = std::fs::read_to_string(&file).expect("the file");
    let claim = "\n[[claim]]\nid = \"c\"\nsays = \"x\"\nthat = \"godput[cc=reno] > 1kbit\"\n";
    for (wrong, word) in [
        (format!("{text}{claim}"), "did you mean 'goodput'?"),
        (text.replace("\"cubic\"", "\"fxed:2\""), "did you mean 'fixed:2'?"),
    ] {
        std::fs::write(&file, wrong).expect("a written file");
        let results = place.path().join("results");
        for args in [&["plan", &file][..], &["run", &file, "-o", arg(&results)]] {
            let (code, out, err) = run(args);
            assert!(code == 64 && out.is_empty() && err.contains(word), "{args:?}: {out}{err}");
            assert!(err.contains(": line "), "{err}");
        }
        assert!(!results.exists(), "nothing ran");
    }
}

#[test]
fn report_of_a_run_has_earlier_results_too() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 2);
    let text = std::fs::read_to_string(&file).expect("the file");
    let other = place.path().join("other.toml");
    let renamed = text.replace("\"short\"", "\"other\"").replace("Short transfers", "Other transfers");
    std::fs::write(&other, renamed).expect("a written file");
    let results = place.path().join("results");
    succeeds(&["run", &file, "-q", "-o", arg(&results)]);
    let said = succeeds(&["run", arg(&other), "-q", "-o", arg(&results)]);
    assert!(said.starts_with("Ran other, \"Other transfers\": 4 cells"), "{said}");
    let page = std::fs::read_to_string(results.join("report.html")).expect("the report");
    assert!(page.contains("Short transfers") && page.contains("Other transfers"));
    assert!(page.contains("Results of 2 experiments"));
    // What cannot be read is named, and the run counts all the same.
    std::fs::write(results.join("short/experiment.toml"), "schema = 9").expect("a damaged folder");
    let (code, _, err) = run(&["run", arg(&other), "-q", "-o", arg(&results)]);
    assert!(code == 0 && err.contains("short is not in the report: "), "{err}");
}
