//! Either side is killed at random points. The same command goes on, and nothing wrong ever has its
//! final name. `RDT_COPY_KILLS=200` sets the number of kills.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rdt_program_testing::programs::{Program, pause};
use rdt_testing::random;

use super::home::{Home, args, noise};
use super::tree::assert_same;

const FILE_BYTES: usize = 100_000_000;
const SMALL_FILES: usize = 40;
/// Limit on written bytes that are sent again after either side was killed: the rest of a group,
/// and what had begun to arrive.
const MAX_RESENT_BYTES: u64 = 1_000_000;

/// Returns the number of kills. 6 take 10 s.
fn kills() -> u64 {
    std::env::var("RDT_COPY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

fn make(home: &Home) {
    home.write("tree/large", noise(1, FILE_BYTES));
    for index in 0..SMALL_FILES {
        home.write(&format!("tree/small/{index}"), noise(index as u64, 1000 * index));
    }
}

/// Returns how much of the largest unfinished file is written. Its length is that of the source
/// from the start.
pub(crate) fn partial_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let partial = |entry: fs::DirEntry| {
        let is_part = entry.file_name().to_string_lossy().ends_with(".part");
        entry.metadata().ok().filter(|_| is_part).map(|meta| meta.blocks() * 512)
    };
    entries.filter_map(|entry| partial(entry.ok()?)).max().unwrap_or(0)
}

/// Asserts that each file with its final name has its content.
fn assert_nothing_wrong(copy: &Path, tree: &Path) {
    for folder in ["", "small"] {
        let Ok(entries) = fs::read_dir(copy.join(folder)) else { continue };
        for entry in entries.map(|entry| entry.unwrap()) {
            let name = entry.file_name();
            if entry.metadata().unwrap().is_file() && !name.to_string_lossy().starts_with(".rdt-copy-") {
                let source = tree.join(folder).join(&name);
                assert!(fs::read(entry.path()).unwrap() == fs::read(source).unwrap(), "{}", name.display());
            }
        }
    }
}

/// Waits until the copy has gone on by `bytes`, or has ended.
fn wait_for_bytes(program: &mut Program, folder: &Path, bytes: u64) {
    let begin = partial_bytes(folder);
    while partial_bytes(folder) < begin + bytes && !program.has_ended() {
        pause();
    }
}

/// Returns where the large file goes on, if it does: 0 for one that was not begun.
fn resumed_at(program: &Program, left: u64, bound: u64) -> u64 {
    if left <= bound { left } else { program.event("resumed")["offset_bytes"].as_u64().unwrap() }
}

/// Kills copies by ssh until the number of kills is reached. A finished copy is removed, so that
/// the next one has work.
fn kill_and_resume(direction: [&str; 2], kills_far_side: impl Fn(u64) -> bool) {
    let home = Home::new();
    make(&home);
    let copy = home.path("copy");
    let by_ssh = home.by_ssh();
    let options = [&args(&by_ssh)[..], &direction, &["--json"]].concat();
    let mut random = random(7);
    for count in 0..=kills() {
        let left = partial_bytes(&copy);
        let rate: &[&str] = if count < kills() { &["--max-rate", "800mbit"] } else { &[] };
        let mut program = home.start("anna", &[&options[..], rate].concat());
        program.event("connected");
        let resumed = resumed_at(&program, left, MAX_RESENT_BYTES);
        assert!(
            resumed + MAX_RESENT_BYTES >= left,
            "kill {count}: {left} bytes were there, {resumed} not sent again"
        );
        if count == kills() {
            assert_eq!(program.ended().code, Some(0));
            break;
        }
        wait_for_bytes(&mut program, &copy, random(FILE_BYTES as u64 / 3));
        if kills_far_side(count) {
            home.kill_far_side();
            let ended = program.ended();
            assert!(matches!(ended.code, Some(0 | 5 | 69)), "{ended:?}");
        } else {
            program.kill();
            program.ended();
        }
        assert_nothing_wrong(&copy, &home.path("tree"));
        if copy.join("large").exists() {
            fs::remove_dir_all(&copy).unwrap();
        }
    }
    assert_same(&home.path("tree"), &copy);
}

#[test]
fn killed_pushes_resume() {
    kill_and_resume(["tree", "host:copy"], |count| count % 2 == 0);
}

#[test]
fn killed_pulls_resume() {
    kill_and_resume(["host:tree", "copy"], |count| count % 2 == 1);
}

/// Returns true if a journal in the folder has a checkpoint, which begins after 4096 bytes.
fn has_checkpoint(folder: &Path) -> bool {
    let is_written = |entry: fs::DirEntry| {
        entry.file_name().to_string_lossy().ends_with(".journal")
            && entry.metadata().is_ok_and(|meta| meta.len() > 4096)
    };
    fs::read_dir(folder).unwrap().any(|entry| entry.is_ok_and(is_written))
}

/// The file is smaller than the distance of checkpoints of a fast copy, 32 MiB.
#[test]
fn slow_copy_resumes_at_its_last_group() {
    let home = Home::new();
    home.write("large", noise(1, 24_000_000));
    let copy = home.path("copy");
    fs::create_dir(&copy).unwrap();
    let by_ssh = home.by_ssh();
    let options = [&args(&by_ssh)[..], &["large", "host:copy/"]].concat();
    let mut program = home.start("anna", &[&options[..], &["--json", "--max-rate", "50mbit"]].concat());
    while !has_checkpoint(&copy) {
        assert!(!program.has_ended(), "the copy ended without a checkpoint");
        pause();
    }
    home.kill_far_side();
    program.ended();
    let summary = home.copy(&options);
    assert!(summary["resumed_bytes"].as_u64().unwrap() >= 512 << 10, "{summary}");
    assert!(fs::read(copy.join("large")).unwrap() == fs::read(home.path("large")).unwrap());
}
