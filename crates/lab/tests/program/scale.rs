//! `scale`, `doctor`, and the scripts that are shipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{LOCK_FOLDER, arg, experiment, run, succeeds, texts};

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
    let merged = |folder: &str| {
        let target = place.path().join(format!("{folder}-merged"));
        succeeds(&["merge", "--canonical", arg(&place.path().join(folder)), "-o", arg(&target)]);
        std::fs::read(target.join("short/journal/merged.ndjson")).expect("a journal")
    };
    assert_eq!(merged("results"), merged("whole"));
}

#[cfg(unix)]
#[test]
fn gnu_parallel_runs_all_shards() {
    if Command::new("parallel").arg("--version").output().is_err() {
        eprintln!("skipped: GNU parallel is not installed");
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
