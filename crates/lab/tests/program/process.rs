//! Starts the program, and reads what it prints.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Variable that names the folder of the lock between runs. Tests have their own, so that they do
/// not wait for a run of the user in real time.
pub(crate) const LOCK_FOLDER: (&str, &str) = ("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));

/// Returns the program with arguments, with both outputs captured.
pub(crate) fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdt-lab"));
    command.env(LOCK_FOLDER.0, LOCK_FOLDER.1);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program, and returns its exit code, standard output and standard error.
pub(crate) fn run(args: &[&str]) -> (i32, String, String) {
    texts(&lab(args).output().expect("the program starts"))
}

pub(crate) fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Runs the program, which must succeed, and returns its standard output.
pub(crate) fn succeeds(args: &[&str]) -> String {
    let (code, out, err) = run(args);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

/// Returns a path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

/// Writes an experiment of short transfers into a folder, and returns its file. It has
/// `sizes x 4` cells with `repeats` repetitions each.
pub(crate) fn experiment(folder: &Path, sizes: usize, repeats: u32) -> String {
    let sizes: Vec<String> = (1..=sizes).map(|size| format!("\"{}kb\"", 40 + size)).collect();
    let text = format!(
        r#"schema = 1
name = "short"
title = "Short transfers"
engine = "virtual"

[path]
rtt = "10ms"
rate = "8mbit"
loss = "2%"
queue = "50p"

[[flow]]
name = "a"
kind = "tcp"

[factors]
flow.a.bytes = [{}]
flow.a.cc = ["reno", "cubic"]
flow.a.initial-window = [1, 4]

[repeats]
least = {repeats}
most = {repeats}
until = "least"

[measure]
series = "100ms"
keep-series = "first"
"#,
        sizes.join(", ")
    );
    let path = folder.join("short.toml");
    std::fs::write(&path, text).expect("a written file");
    arg(&path).to_owned()
}
