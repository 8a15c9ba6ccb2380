//! The report as a process: its size and time for many repetitions, and its bytes elsewhere.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rdt_lab::experiment::Experiment;
use rdt_lab::journal::{Durability, JournalWriter, Store};
use rdt_lab::plan::Plan;
use rdt_testing::{Numbers, ms};
use tempfile::tempdir;

use crate::process::{LOCK_FOLDER, arg, experiment, lab, succeeds, texts};

/// Writes a journal of `repeats` repetitions of each cell: those of one run with metrics that are
/// up to 10 % larger.
fn multiply(folder: &Path, file: &str, repeats: u32) {
    succeeds(&["run", file, "-q", "-o", arg(folder)]);
    let folder = folder.join("short");
    let text = fs::read_to_string(file).expect("the experiment");
    let plan = Plan::new(&Experiment::from_toml(&text).expect("valid"), &[]).expect("a plan");
    let store = Store::read(std::slice::from_ref(&folder)).expect("a store");
    let mut writer = JournalWriter::create(&folder, "many", Durability::Batched).expect("a journal");
    let mut random = Numbers::new(1);
    for cell in plan.distinct() {
        let first = store.of_cell(cell.id).next().expect("a repetition").clone();
        for rep in store.of_cell(cell.id).count()..repeats as usize {
            let rep = u32::try_from(rep).expect("small");
            let mut record = first.clone();
            (record.rep, record.seed) = (rep, plan.seed(cell, rep));
            for value in record.metrics.values_mut() {
                *value *= 1.0 + f64::from(u32::try_from(random.below(1000)).expect("small")) / 1e4;
            }
            writer.append(&record).expect("a line");
        }
    }
    writer.sync().expect("a journal");
}

/// End of an experiment of short transfers.
const FIGURES_AND_CLAIM: &str = r#"
[[claim]]
id = "reno"
says = "Reno has at least half of the throughput of CUBIC"
that = "goodput[cc=reno] > 0.5 * goodput[cc=cubic]"

[[figure]]
kind = "means"
x = "cc"
by = "initial-window"

[[figure]]
kind = "box"
x = "cc"

[[figure]]
kind = "cdf"
by = "cc"
"#;

/// Runs the program, which must succeed, and returns its largest memory in bytes and its processor
/// time. The kernel drops the memory of an ended process, so it is read while the process runs.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "samples a process that runs in real time")]
fn used(args: &[&str]) -> (u64, Duration) {
    let mut child = lab(args).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().expect("starts");
    let proc = Path::new("/proc").join(child.id().to_string());
    let (mut most, mut ticks) = (0, 0);
    loop {
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|it| it.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) * 1024);
        // Fields 14 and 15 of the line: user and system time in ticks of 10 ms.
        let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
        let times = stat.rsplit(')').next().unwrap_or("").split(' ').skip(12).take(2);
        ticks = ticks.max(times.filter_map(|it| it.parse::<u64>().ok()).sum());
        if let Some(status) = child.try_wait().expect("a child") {
            assert!(status.success(), "{args:?}: {status}");
            return (most, ms(ticks * 10));
        }
        sleep(ms(10));
    }
}

/// A report on 100,000 repetitions takes less than 10 s of processor time and less than 1 GiB.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "writes a journal of some 100 MB and needs the release build"]
fn hundred_thousand_repetitions_are_reported() {
    for (cells, repeats) in [(25, 1_000), (1, 25_000)] {
        let place = tempdir().expect("a folder");
        let file = experiment(place.path(), cells, 1);
        let text = fs::read_to_string(&file).expect("the experiment") + FIGURES_AND_CLAIM;
        fs::write(&file, text).expect("a written file");
        let results = place.path().join("results");
        multiply(&results, &file, repeats);
        let page = place.path().join("report.html");
        let (memory, time) = used(&["report", arg(&results), "-o", arg(&page)]);
        let bytes = fs::metadata(&page).expect("a page").len();
        println!("{} cells: {} MiB, {time:?}, page of {bytes} bytes", cells * 4, memory >> 20);
        assert!(memory < 1 << 30 && time < ms(10_000), "{memory} bytes, {time:?}");
    }
}

/// Returns the bytes of the report on an experiment that runs below `folder`, after these commands
/// of a shell.
#[cfg(unix)]
fn report_elsewhere(folder: &Path, before: &str) -> Vec<u8> {
    let results = folder.join("some results");
    fs::create_dir_all(&results).expect("a folder");
    let file = experiment(folder, 1, 6);
    let text = fs::read_to_string(&file).expect("the experiment") + FIGURES_AND_CLAIM;
    fs::write(&file, text).expect("a written file");
    let script = format!("{before}; exec \"$0\" run \"$1\" -q -o \"$2\"");
    let program = env!("CARGO_BIN_EXE_rdt-lab");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, program, &file, arg(&results)]).env(LOCK_FOLDER.0, LOCK_FOLDER.1);
    let (code, out, err) = texts(&shell.output().expect("a shell"));
    assert_eq!(code, 0, "{before}: {out}{err}");
    fs::read(results.join("report.html")).expect("a report")
}

#[cfg(unix)]
#[test]
fn reports_have_the_same_bytes_everywhere() {
    let (one, two) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let first = report_elsewhere(one.path(), "umask 022; export LC_ALL=C TZ=UTC");
    let deep = two.path().join("a").join("b");
    let second = report_elsewhere(&deep, "umask 077; export LC_ALL=de_DE.UTF-8 LANG=tr_TR TZ=Asia/Kathmandu");
    assert!(first == second, "{} and {} bytes", first.len(), second.len());
    let text = String::from_utf8(first).expect("UTF-8");
    assert!(!text.contains(arg(one.path())), "the page names no folder");
}
