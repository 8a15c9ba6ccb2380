//! `scale`, `doctor`, and the scripts that are shipped.

use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

#[cfg(unix)]
use crate::process::{LOCK_FOLDER, texts};
use crate::process::{arg, experiment, run, succeeds};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/scale").join(name)
}

/// The shipped files are those of this experiment: `rdt-lab scale slurm 001-B --shards 16`.
#[test]
fn shipped_scripts_are_printed_ones() {
    for (target, file) in
        [("slurm", "slurm.sbatch"), ("parallel", "parallel.sh"), ("k8s", "kubernetes-job.yaml")]
    {
        let printed = succeeds(&["scale", target, "001-B", "--shards", "16"]);
        let text = std::fs::read_to_string(shipped(file)).expect("a shipped file");
        // The time follows from the estimated cost of the cells.
        let is_time = |line: &&str| line.contains("--time=") || line.contains("activeDeadlineSeconds");
        let lines =
            |text: &str| text.lines().filter(|it| !is_time(it)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(&text), lines(&printed), "{file}");
    }
}

#[test]
fn number_of_shards_never_comes_from_the_scheduler() {
    for target in ["slurm", "parallel", "k8s"] {
        let script = succeeds(&["scale", target, "001-B", "--shards", "16"]);
        assert!(script.contains("/16"), "{script}");
        assert!(!script.contains("TASK_COUNT"), "{script}");
    }
    let (code, _, err) = run(&["scale", "slurm", "001-B", "--shards", "9999"]);
    assert_eq!(code, 64);
    assert!(err.contains("at most"), "{err}");
}

/// Runs a script in a folder with this program in its path.
#[cfg(unix)]
fn shell(folder: &Path, script: &str, environment: &[(&str, &str)]) -> (i32, String, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_rdt-lab")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder).env("PATH", path).env(LOCK_FOLDER.0, LOCK_FOLDER.1);
    command.envs(environment.iter().copied());
    texts(&command.output().expect("a shell"))
}

/// The scheduler's environment is emulated: each task has its index, and a task that is submitted
/// again is told that its array has one task.
#[cfg(unix)]
#[test]
fn tasks_of_an_array_merge_to_equal_bytes() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 2, 2);
    succeeds(&["run", &file, "-q", "-o", arg(&place.path().join("whole"))]);
    let script = succeeds(&["scale", "slurm", &file, "--shards", "4"]);
    for (index, tasks) in [("3", "4"), ("0", "4"), ("2", "4"), ("1", "1")] {
        let environment = [("SLURM_ARRAY_TASK_ID", index), ("SLURM_ARRAY_TASK_COUNT", tasks)];
        let (code, out, err) = shell(place.path(), &script, &environment);
        assert_eq!(code, 0, "{out}{err}");
    }
    assert_eq!(merged(&place, "results"), merged(&place, "whole"));
}

/// Merges a folder of results without times and hosts, and returns the journal.
fn merged(place: &tempfile::TempDir, folder: &str) -> String {
    let target = place.path().join(format!("{folder}-merged"));
    succeeds(&["merge", "--canonical", arg(&place.path().join(folder)), "-o", arg(&target)]);
    std::fs::read_to_string(target.join("short/journal/merged.ndjson")).expect("a journal")
}

/// Writes an experiment whose claim about one half of the cells is decided late, if at all.
#[cfg(unix)]
fn undecided(folder: &Path) -> String {
    let file = experiment(folder, 1, 10);
    let text = std::fs::read_to_string(&file).expect("the file");
    let text = text.replace("most = 10", "most = 80").replace("\"least\"", "\"claims\"");
    let claim =
        |id: &str, that: &str| format!("\n[[claim]]\nid = \"{id}\"\nsays = \"x\"\nthat = \"{that}\"\n");
    let close =
        claim("close", "goodput[initial-window=4, cc=reno] > 1.46 * goodput[initial-window=1, cc=reno]");
    let clear = claim("clear", "goodput[cc=cubic] < 10 * goodput[cc=reno]");
    std::fs::write(&file, text + &close + &clear).expect("a written file");
    file
}

/// Reads the state of results as JSON.
#[cfg(unix)]
fn status(folder: &Path) -> serde_json::Value {
    let (_, out, err) = run(&["status", arg(folder), "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

/// Rounds of repetitions until claims are decided: each is an array, submitted by the line that
/// `status` prints. A made-up `sbatch` runs the tasks.
#[cfg(unix)]
#[test]
fn rounds_of_shards_repeat_what_one_process_repeats() {
    let place = tempfile::tempdir().expect("a folder");
    let file = undecided(place.path());
    succeeds(&["run", &file, "-q", "--only-run", "-o", arg(&place.path().join("whole"))]);
    let sbatch = "#!/bin/sh\ncat > script\nfor i in $(echo ${1#--array=} | tr , ' '); do \
                  SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=1 sh script || exit 1; done\n";
    let bin = place.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::fs::write(bin.join("sbatch"), sbatch).expect("a written file");
    let with_sbatch = "chmod +x bin/sbatch; PATH=$PWD/bin:$PATH; ";
    let first = format!("{with_sbatch} rdt-lab scale slurm {file} --shards 3 | sbatch --array=0,1,2");
    assert_eq!(shell(place.path(), &first, &[]).0, 0);
    let results = place.path().join("results/short");
    let mut rounds = Vec::new();
    loop {
        let (code, out, err) =
            shell(place.path(), &format!("{with_sbatch} rdt-lab status results/short"), &[]);
        rounds.push(status(&results)["round"].as_u64().expect("a round"));
        let Some((_, line)) = out.split_once("  $ ") else {
            assert_eq!(code, 0, "{out}{err}");
            break;
        };
        assert!(code == 3 && out.contains("claims are undecided: round"), "{out}{err}");
        assert!(line.contains("RESULTS=results sbatch --array="), "{line}");
        let (code, out, err) = shell(place.path(), &format!("{with_sbatch} {line}"), &[]);
        assert_eq!(code, 0, "{line}: {out}{err}");
        assert!(rounds.len() < 9, "{rounds:?}");
    }
    assert!(rounds.len() > 1 && rounds.is_sorted(), "{rounds:?}");
    assert_eq!(merged(&place, "results"), merged(&place, "whole"));
}

/// Without Slurm the line is a loop for a shell.
#[cfg(unix)]
#[test]
fn missing_shards_run_by_the_printed_line() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 2, 2);
    succeeds(&["run", &file, "-q", "--only-run", "-o", arg(&place.path().join("whole"))]);
    let results = place.path().join("results");
    succeeds(&["run", &file, "-q", "--only-run", "--shard", "1/4", "-o", arg(&results)]);
    let state = status(&results.join("short"));
    assert_eq!(state["missing_shards"], serde_json::json!([0, 2, 3]), "{state}");
    let line = state["resume"].as_str().expect("a line");
    if line.starts_with("for i in 0 2 3; do") {
        let (code, out, err) = shell(place.path(), line, &[]);
        assert_eq!(code, 0, "{out}{err}");
        assert_eq!(merged(&place, "results"), merged(&place, "whole"));
    } else {
        assert!(line.ends_with("sbatch --array=0,2,3"), "{line}");
    }
}

#[test]
fn status_of_a_changed_file_names_what_runs_again() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 2, 2);
    let results = place.path().join("results");
    succeeds(&["run", &file, "-q", "-o", arg(&results)]);
    let text = std::fs::read_to_string(&file).expect("the file");
    let state = |from: &str, to: &str| -> serde_json::Value {
        std::fs::write(&file, text.replace(from, to)).expect("a written file");
        let (code, out, err) = run(&["status", &file, "-o", arg(&results), "--json"]);
        let state: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(code, if state["missing"] == 0 { 0 } else { 3 }, "{out}{err}");
        state
    };
    let claim = "[[claim]]\nid = \"a\"\nsays = \"b\"\nthat = \"goodput > 1\"\n[measure]";
    let same = state("[measure]", claim);
    assert_eq!((&same["missing"], &same["dropped_cells"]), (&0.into(), &0.into()), "{same}");
    let level = state("\"cubic\"", "\"bbr\"");
    assert_eq!((&level["missing"], &level["dropped_cells"]), (&8.into(), &4.into()), "{level}");
    let cells = level["incomplete_cells"].as_array().expect("cells");
    assert!(cells.len() == 4 && cells.iter().all(|cell| cell["factors"]["cc"] == "bbr"), "{level}");
    let path = state("rtt = \"10ms\"", "rtt = \"11ms\"");
    assert_eq!((&path["missing"], &path["dropped_cells"]), (&16.into(), &8.into()), "{path}");
    let (_, out, _) = run(&["status", &file, "-o", arg(&results)]);
    assert!(out.contains("8 cells have no results") && out.contains("their results stay"), "{out}");
}

/// Each pod runs the command of the manifest, in which the index of its environment is inserted.
#[test]
fn pods_of_the_manifest_run_all_cells() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 2, 2);
    succeeds(&["run", &file, "-q", "--only-run", "-o", arg(&place.path().join("whole"))]);
    let manifest = succeeds(&["scale", "k8s", &file, "--shards", "4"]);
    let (_, rest) = manifest.split_once("args: ").expect("arguments");
    let (list, _) = rest.split_once("]\n").expect("a list");
    let list = format!("{list}]").replace("/lab/results", arg(&place.path().join("results")));
    let list = list.replace("/lab/short.toml", &file);
    assert!(manifest.contains("command: [\"rdt-lab\"]"), "{manifest}");
    for index in 0..4 {
        let list = list.replace("$(JOB_COMPLETION_INDEX)", &index.to_string());
        let args: Vec<String> = serde_json::from_str(&list).expect("a list of texts");
        succeeds(&args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    assert_eq!(merged(&place, "results"), merged(&place, "whole"));
}

#[cfg(unix)]
#[test]
fn gnu_parallel_runs_all_shards() {
    if Command::new("parallel").arg("--version").output().is_err() {
        rdt_testing::skipped("GNU parallel is not installed");
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 2, 2);
    let script = succeeds(&["scale", "parallel", &file, "--shards", "4"]);
    let (code, out, err) = shell(place.path(), &script, &[]);
    assert_eq!(code, 0, "{out}{err}");
    succeeds(&["status", arg(&place.path().join("results/short"))]);
}

#[test]
fn doctor_gives_a_remedy_for_all_that_is_missing() {
    let out = succeeds(&["doctor", "--json"]);
    let findings: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(findings.len() >= 7, "{out}");
    for it in &findings {
        let (found, remedy) = (it["found"].is_string(), it["remedy"].is_string());
        assert!(if it["ok"] == true { found && !remedy } else { remedy && !found }, "{it}");
    }
    assert!(succeeds(&["doctor"]).contains("needed for"));
}

#[cfg(unix)]
#[test]
fn doctor_notices_programs_that_do_not_work() {
    let place = tempfile::tempdir().expect("a folder");
    let script = "mkdir bin; for i in sbatch scontrol parallel; do printf '#!/bin/sh\nexit 1\n' > bin/$i; done; \
                  chmod +x bin/*; PATH=$PWD/bin:$PATH; rdt-lab doctor --json";
    let (code, out, err) = shell(place.path(), script, &[]);
    assert_eq!(code, 0, "{err}");
    for (name, remedy) in [("Slurm", "start slurmctld"), ("GNU parallel", "apt install parallel")] {
        let line = out.lines().find(|line| line.contains(&format!("\"{name}\""))).expect("a finding");
        assert!(line.contains("\"ok\":false") && line.contains(remedy), "{line}");
    }
}
