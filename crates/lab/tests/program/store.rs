//! Results on disk: crashes, shards, full disks, several processes, merging.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;
use std::thread::sleep;

use rdt_lab::cell::PHYSICS_VERSION;
use rdt_testing::{Numbers, ms};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

#[cfg(unix)]
use crate::process::{LOCK_FOLDER, texts};
use crate::process::{arg, experiment, lab, run, succeeds};

fn folder() -> TempDir {
    tempdir().expect("a temporary folder")
}

/// Merges folders without times and hosts, and returns the bytes of all files and the JSON that the
/// program prints.
fn merged(folders: &[&Path]) -> (BTreeMap<PathBuf, Vec<u8>>, Value) {
    let target = folder();
    let mut args = vec!["merge", "--canonical", "--json", "-o", arg(target.path())];
    args.extend(folders.iter().map(|it| arg(it)));
    let printed = succeeds(&args);
    let mut files = BTreeMap::new();
    read_all(target.path(), target.path(), &mut files);
    (files, serde_json::from_str(&printed).expect("one object"))
}

fn read_all(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_all(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("a path below the root").to_owned();
            files.insert(name, fs::read(&path).expect("a file"));
        }
    }
}

/// Runs an experiment to its end, and returns its merged bytes.
fn undisturbed(file: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let results = folder();
    succeeds(&["run", file, "-q", "-o", arg(results.path())]);
    let (files, summary) = merged(&[results.path()]);
    assert!(summary["repetitions"].as_u64() > Some(0), "{summary}");
    files
}

/// Kills a run at random times, goes on to the end, and compares the merged bytes.
#[expect(clippy::disallowed_methods, reason = "the time of the kill must not depend on the run")]
fn survives_kills(sizes: usize, repeats: u32, kills: u64, longest_ms: u64) {
    let place = folder();
    let file = experiment(place.path(), sizes, repeats);
    let expected = undisturbed(&file);
    let results = folder();
    let mut random = Numbers::new(7);
    let args = ["run", &file, "-q", "-j", "2", "-o", arg(results.path())];
    let mut ended = 0;
    for _ in 0..kills {
        let mut child = lab(&args).spawn().expect("the program starts");
        sleep(ms(1 + random.below(longest_ms)));
        ended += u64::from(child.try_wait().expect("a child").is_some());
        child.kill().expect("a kill");
        child.wait().expect("a killed child");
    }
    assert!(ended < kills, "no run was killed before its end");
    succeeds(&args);
    let (files, summary) = merged(&[results.path()]);
    assert_eq!(files, expected);
    // What a journal has is never computed again.
    assert_eq!(summary["duplicates"], 0, "{summary}");
    assert!(summary["torn"].as_array().is_some_and(|torn| torn.len() as u64 <= kills), "{summary}");
}

#[test]
fn killed_runs_end_with_equal_bytes() {
    survives_kills(60, 3, 20, 120);
}

/// `cargo test --release -p rdt-lab --test program -- --ignored killed` takes about a minute.
#[test]
#[ignore = "a hundred kills of a run of 2,000 cells"]
fn killed_runs_of_2000_cells_end_with_equal_bytes() {
    survives_kills(500, 3, 100, 400);
}

#[test]
fn threads_and_shards_do_not_change_bytes() {
    let place = folder();
    let file = experiment(place.path(), 8, 3);
    let expected = undisturbed(&file);
    for jobs in ["1", "2"] {
        let results = folder();
        succeeds(&["run", &file, "-q", "-j", jobs, "-o", arg(results.path())]);
        assert_eq!(merged(&[results.path()]).0, expected, "-j {jobs}");
    }
    let (one, two) = (folder(), folder());
    for shard in (0..7).rev() {
        let results = if shard % 2 == 0 { one.path() } else { two.path() };
        let part = format!("{shard}/7");
        succeeds(&["run", &file, "-q", "--only-run", "--shard", &part, "-o", arg(results)]);
    }
    assert_eq!(merged(&[one.path(), two.path()]).0, expected, "7 shards in two folders");
    let (files, summary) = merged(&[two.path(), one.path()]);
    assert_eq!(files, expected, "the folders in reversed order");
    assert_eq!(summary["duplicates"], 0);
}

#[test]
fn another_number_of_shards_is_refused() {
    let place = folder();
    let file = experiment(place.path(), 1, 1);
    let results = place.path().join("results");
    let shard = |part: &str| run(&["run", &file, "-q", "--only-run", "--shard", part, "-o", arg(&results)]);
    assert_eq!(shard("0/4").0, 0);
    let (code, _, err) = shard("0/1");
    assert_eq!(code, 65, "{err}");
    assert!(err.contains("results of 4 shards") && err.contains("this run has 1"), "{err}");
    let (code, out, _) = run(&["status", arg(&results.join("short"))]);
    assert_eq!(code, 3);
    assert!(out.contains("missing shards of 4: 1,2,3"), "{out}");
    for part in ["1/4", "2/4", "3/4"] {
        assert_eq!(shard(part).0, 0);
    }
    assert_eq!(run(&["status", arg(&results.join("short"))]).0, 0);
}

#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing() {
    let place = folder();
    let file = experiment(place.path(), 8, 3);
    let expected = undisturbed(&file);
    let results = folder();
    let args = ["run", &file, "-q", "-o", arg(results.path())];
    // The limit holds for each file: the journal of 96 lines does not fit in 32 KiB.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_rdt-lab")]).args(args);
    shell.env(LOCK_FOLDER.0, LOCK_FOLDER.1);
    let (code, _, err) = texts(&shell.output().expect("a shell"));
    assert_eq!(code, 74, "{err}");
    assert!(err.contains("is kept"), "{err}");
    let (_, before) = merged(&[results.path()]);
    assert!(before["repetitions"].as_u64() > Some(5), "{before}");
    succeeds(&args);
    let (files, summary) = merged(&[results.path()]);
    assert_eq!((files, &summary["duplicates"]), (expected, &Value::from(0)));
}

/// A file system of its own that is full after some repetitions, and then grows.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_loses_nothing() {
    let place = folder();
    let file = experiment(place.path(), 8, 3);
    let expected = undisturbed(&file);
    let (full, target) = (folder(), folder());
    let script = r#"
        mount -t tmpfs -o size=160k tmpfs "$PLACE" || exit 99
        "$LAB" run "$FILE" -q --only-run -o "$PLACE"; echo "code $?"
        "$LAB" status "$PLACE/short"
        mount -o remount,size=64m "$PLACE"
        "$LAB" run "$FILE" -q --only-run -o "$PLACE"; echo "code $?"
        "$LAB" merge --canonical --json "$PLACE" -o "$TARGET""#;
    let mut shell = Command::new("unshare");
    shell.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    shell.env("LAB", env!("CARGO_BIN_EXE_rdt-lab")).env("FILE", &file);
    shell.env(LOCK_FOLDER.0, LOCK_FOLDER.1).env("PLACE", full.path()).env("TARGET", target.path());
    let Some(output) = shell.output().ok().filter(|it| !matches!(it.status.code(), Some(1 | 99))) else {
        assert!(std::env::var_os("RDT_NAMESPACES").is_none(), "namespaces are required");
        rdt_testing::skipped("this host allows no mount namespaces");
        return;
    };
    let (code, out, err) = texts(&output);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("code 74") && out.contains("code 0") && err.contains("is kept"), "{out}{err}");
    let done = out.lines().find_map(|line| line.split_once(" repetitions done")).expect("a status").0;
    let done: u32 = done.rsplit(' ').next().and_then(|it| it.parse().ok()).expect("a number");
    assert!((6..96).contains(&done), "{out}");
    assert!(out.contains("\"duplicates\":0") && out.contains("\"torn\":[]"), "{out}");
    let mut files = BTreeMap::new();
    read_all(target.path(), target.path(), &mut files);
    assert_eq!(files, expected);
}

/// Sends a signal by the name of its number.
#[cfg(unix)]
fn send(signal: &str, child: &std::process::Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.is_ok_and(|it| it.success()), "kill {signal}");
}

/// Waits until a run has results.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "waits for another process")]
fn await_results(folder: &Path) {
    let has_results = |entry: fs::DirEntry| entry.metadata().is_ok_and(|it| it.len() > 0);
    for _ in 0..1_000 {
        if fs::read_dir(folder.join("journal")).is_ok_and(|it| it.flatten().any(has_results)) {
            return;
        }
        sleep(ms(10));
    }
    panic!("no results in {}", folder.display());
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_results_and_tells_how_to_go_on() {
    let place = folder();
    let file = experiment(place.path(), 60, 3);
    let expected = undisturbed(&file);
    for signal in ["-INT", "-TERM"] {
        let results = folder();
        let args = ["run", &file, "-q", "-j", "1", "-o", arg(results.path())];
        let child = lab(&args).spawn().expect("the program starts");
        await_results(&results.path().join("short"));
        send(signal, &child);
        let (code, _, err) = texts(&child.wait_with_output().expect("the program ends"));
        assert_eq!(code, 130, "{err}");
        assert!(err.contains("what is done is kept, and the same command goes on"), "{err}");
        succeeds(&args);
        let (files, summary) = merged(&[results.path()]);
        assert_eq!((files, &summary["duplicates"]), (expected.clone(), &Value::from(0)));
        assert_eq!(summary["torn"], serde_json::json!([]));
    }
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "the second signal must be one of its own")]
fn a_second_interrupt_ends_at_once() {
    let place = folder();
    // A repetition takes minutes.
    let args = ["sweep", "path.rate=10gbit,20gbit", "--for", "10min", "-q", "-o", arg(place.path())];
    let mut child = lab(&args).spawn().expect("the program starts");
    sleep(ms(1_000));
    send("-INT", &child);
    sleep(ms(200));
    if child.try_wait().expect("a child").is_none() {
        send("-INT", &child);
    }
    let ended = (0..500).any(|_| {
        sleep(ms(10));
        child.try_wait().expect("a child").is_some()
    });
    if !ended {
        child.kill().expect("a kill");
    }
    assert!(ended, "the program goes on");
    assert_eq!(child.wait().expect("a child").code(), Some(130));
}

#[test]
fn two_processes_share_a_folder() {
    let place = folder();
    let file = experiment(place.path(), 20, 3);
    let expected = undisturbed(&file);
    let results = folder();
    let args = ["run", &file, "-q", "-o", arg(results.path())];
    let mut other = lab(&args).spawn().expect("the program starts");
    succeeds(&args);
    assert!(other.wait().expect("a child").success());
    assert_eq!(merged(&[results.path()]).0, expected);
}

/// Runs an experiment and a changed copy with another name into one folder, and returns what the
/// run of the copy printed.
fn run_beside(results: &Path, change: impl Fn(&str) -> String) -> (i32, String, String) {
    let file = experiment(results, 2, 3);
    succeeds(&["run", &file, "-q", "-o", arg(results)]);
    let text = fs::read_to_string(&file).expect("the file");
    let other = results.join("other.toml");
    let text = change(&text.replace("name = \"short\"", "name = \"other\""));
    fs::write(&other, text).expect("a written file");
    run(&["run", arg(&other), "-q", "--verbose", "-o", arg(results)])
}

#[test]
fn experiments_in_one_folder_share_equal_cells() {
    let results = folder();
    let (code, out, err) = run_beside(results.path(), |text| text.replace("\"42kb\"", "\"50kb\""));
    assert_eq!(code, 0, "{err}");
    // Half of the eight cells are those of the first experiment.
    assert!(out.contains("24 repetitions (12 run") && out.contains("12 were there"), "{out}");
    let other = results.path().join("other");
    let rows = succeeds(&["export", "--rows", "ndjson", arg(&other)]);
    assert_eq!(rows.matches("\"experiment\":\"other\"").count(), 24, "{rows}");
    let series = fs::read_dir(other.join("series")).expect("series").count();
    assert_eq!(series, 8, "shared repetitions have their series");
    // The folder is complete without its sibling.
    fs::remove_dir_all(results.path().join("short")).expect("a removed folder");
    succeeds(&["status", arg(&other)]);
}

#[test]
fn cells_with_other_seeds_or_measures_are_not_shared() {
    for change in ["[design]\nseed = 2\n\n[measure]", "[measure]\nwarm-up = \"10ms\""] {
        let results = folder();
        let (code, out, err) = run_beside(results.path(), |text| text.replace("[measure]", change));
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("24 repetitions (24 run"), "{change}: {out}");
    }
}

#[test]
fn experiments_that_share_cells_merge() {
    let (results, all) = (folder(), folder());
    let (code, _, err) = run_beside(results.path(), str::to_owned);
    assert_eq!(code, 0, "{err}");
    let folders = ["short", "other"].map(|name| results.path().join(name));
    succeeds(&["merge", arg(&folders[0]), arg(&folders[1]), "-o", arg(all.path())]);
    succeeds(&["status", arg(all.path())]);
}

/// Runs a changed copy of the experiment, and returns code and error of a merge with the original.
fn merge_with(change: impl Fn(&str) -> String) -> (i32, String, String) {
    let place = folder();
    let file = experiment(place.path(), 1, 2);
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    succeeds(&["run", &file, "-q", "-o", arg(&one)]);
    let text = fs::read_to_string(&file).expect("the file");
    fs::write(&file, change(&text)).expect("a written file");
    succeeds(&["run", &file, "-q", "-o", arg(&two)]);
    run(&["merge", arg(&one), arg(&two), "-o", arg(&place.path().join("all"))])
}

#[test]
fn other_cells_and_seeds_are_refused() {
    let (code, _, err) = merge_with(|text| text.replace("rtt = \"10ms\"", "rtt = \"11ms\""));
    assert_eq!(code, 65, "{err}");
    assert!(err.contains("one/short") && err.contains("two/short") && err.contains("cells"), "{err}");
    let (code, _, err) = merge_with(|text| text.replace("[repeats]", "[design]\nseed = 2\n\n[repeats]"));
    assert_eq!(code, 65, "{err}");
    assert!(err.contains("one/short") && err.contains("two/short") && err.contains("seeds"), "{err}");
    let (code, _, err) = merge_with(|text| text.replace("Short transfers", "Another title"));
    assert_eq!(code, 0, "{err}");
}

/// Rewrites the lines of the only journal of a folder, with correct checks.
pub(crate) fn rewrite(results: &Path, change: impl Fn(&mut rdt_lab::Record)) {
    let journal = fs::read_dir(results.join("journal")).expect("journals").next().expect("a journal");
    let path = journal.expect("an entry").path();
    let text = fs::read_to_string(&path).expect("a journal");
    let lines = text.lines().map(|line| {
        let mut record = rdt_lab::journal::decode(line).expect("a record");
        change(&mut record);
        rdt_lab::journal::encode(&record)
    });
    fs::write(&path, lines.collect::<String>()).expect("a written journal");
}

#[test]
fn other_physics_and_differing_results_are_refused() {
    let place = folder();
    let file = experiment(place.path(), 1, 2);
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    for results in [&one, &two] {
        succeeds(&["run", &file, "-q", "-o", arg(results)]);
    }
    let merge = || run(&["merge", arg(&one), arg(&two), "-o", arg(&place.path().join("all"))]);
    assert_eq!(merge().0, 0, "equal results are one");
    rewrite(&two.join("short"), |record| *record.metrics.entry("a.goodput".into()).or_default() += 1.0);
    let (code, _, err) = merge();
    assert_eq!(code, 65, "{err}");
    assert!(err.contains("one/short") && err.contains("two/short"), "{err}");
    rewrite(&two.join("short"), |record| record.physics += 1);
    let (code, _, err) = merge();
    assert_eq!(code, 65, "{err}");
    let [old, new] = [PHYSICS_VERSION, PHYSICS_VERSION + 1].map(|number| format!("physics {number}"));
    assert!(err.contains(&old) && err.contains(&new), "{err}");
}

#[test]
fn a_merged_folder_is_a_folder_of_results() {
    let place = folder();
    let file = experiment(place.path(), 1, 2);
    let (results, all) = (place.path().join("results"), place.path().join("all"));
    succeeds(&["run", &file, "-q", "-o", arg(&results)]);
    for _ in 0..2 {
        succeeds(&["merge", arg(&results), "-o", arg(&all)]);
    }
    succeeds(&["status", arg(&all.join("short"))]);
    let (code, _, err) = run(&["merge", arg(&all), "-o", arg(&results)]);
    assert_eq!(code, 65, "{err}");
    assert!(err.contains("new folder"), "{err}");
}
