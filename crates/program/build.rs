//! Sets `RDT_COMMIT` to `+` and the commit of the source, for the version that programs print. It
//! is empty where the commit is not known, and in debug builds, which would compile every program
//! again after each commit.

use std::fs;
use std::path::{Path, PathBuf};

/// Digits of the commit that are printed.
const DIGITS: usize = 8;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = packaged().or_else(checked_out).unwrap_or_default();
    println!("cargo::rustc-env=RDT_COMMIT={commit}");
}

/// Returns the commit that `cargo package` wrote down.
fn packaged() -> Option<String> {
    let info = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    short(info.split_once("\"sha1\"")?.1.split('"').nth(1)?)
}

/// Returns the commit of the clone, which needs no git program: every commit and checkout appends
/// a line with the old and the new commit to this log.
fn checked_out() -> Option<String> {
    // A copy of this package elsewhere, such as among vendored packages, is not in rdt's clone.
    let is_clone = Path::new("../../crates/program/build.rs").is_file();
    if !is_clone || std::env::var("PROFILE").as_deref() != Ok("release") {
        return None;
    }
    let log = git_folder(Path::new("../../.git"))?.join("logs/HEAD");
    let lines = fs::read_to_string(&log).ok()?;
    // Only an existing file is named: cargo runs the script in every build if one is missing.
    println!("cargo::rerun-if-changed={}", log.display());
    short(lines.lines().next_back()?.split(' ').nth(1)?)
}

/// Returns the folder of git: `path`, or what this file names in a worktree.
fn git_folder(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let named = fs::read_to_string(path).ok()?;
    Some(path.parent()?.join(named.strip_prefix("gitdir:")?.trim()))
}

fn short(commit: &str) -> Option<String> {
    let is_commit = commit.len() > DIGITS && commit.bytes().all(|letter| letter.is_ascii_hexdigit());
    is_commit.then(|| format!("+{}", &commit[..DIGITS]))
}
