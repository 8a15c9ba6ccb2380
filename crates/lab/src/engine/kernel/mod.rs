//! TCP and UDP of the kernel, unmodified, in network namespaces behind the path that `rdt-emu run`
//! emulates (Linux).
//!
//! Each repetition starts this program again as `rdt-emu`, whose command is this program as
//! `rdt-lab load` ([`crate::load`]).
//!
//! | file | owns |
//! |---|---|
//! | `mod.rs` | processes of a repetition |
//! | `words.rs` | from the words of the flows to the request of the load program |
//! | `outcome.rs` | from the counts of the load program and of the path to metrics and series |

mod outcome;
mod words;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use rdt_program::exit::{CONFIG, UNAVAILABLE, USAGE};
use serde_json::Value;

use super::{Engine, EngineError, Run};
use crate::cell::Cell;
use crate::experiment::Measure;

/// The program `rdt-lab`, which is also the load program and `rdt-emu`.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program `rdt-lab`, which the engine starts for each repetition. The program itself
/// calls this; tests and other programs that use this library must do so.
pub fn use_program(program: PathBuf) {
    PROGRAM.get_or_init(|| program);
}

/// Engine of the kernel's TCP and UDP.
pub(super) struct Kernel;

impl Kernel {
    /// Returns the engine if this host lets it create namespaces, which is tried once.
    pub(super) fn available() -> Result<&'static Self, EngineError> {
        static TRIED: OnceLock<Result<(), EngineError>> = OnceLock::new();
        TRIED.get_or_init(try_namespaces).clone().map(|()| &Self)
    }
}

fn program() -> Result<&'static Path, EngineError> {
    PROGRAM.get().map(PathBuf::as_path).ok_or_else(|| {
        EngineError::Unavailable("the engine 'kernel' runs in the program rdt-lab only".to_owned())
    })
}

/// Runs a command that does nothing behind a path.
fn try_namespaces() -> Result<(), EngineError> {
    let program = program()?;
    let output = emulator(&["--quiet".into(), "--".into(), program.into(), "load".into(), "--try".into()]);
    let output = output.map_err(|error| cannot("start this program again", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let sentence = sentence(&output);
    // The remedy of `rdt-emu` for programs that can use a proxy.
    let sentence = sentence.trim_end_matches(". `rdt-emu proxy` needs none of this");
    Err(EngineError::Unavailable(format!(
        "the engine 'kernel' cannot run here: {sentence}; '--engine virtual' needs no rights"
    )))
}

/// Starts this program as `rdt-emu run` and waits for its end.
fn emulator(arguments: &[OsString]) -> io::Result<Output> {
    // The path of the running program is valid even if its file was replaced.
    Command::new(program().map_err(io::Error::other)?)
        .arg0("rdt-emu")
        .arg("run")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
}

fn cannot(step: &str, error: &io::Error) -> EngineError {
    EngineError::Unavailable(format!("the engine 'kernel' cannot {step}: {error}"))
}

/// Returns the last sentence on the standard error, without the name of the program.
fn sentence(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match last.split_once(": ") {
        Some(("rdt-lab" | "rdt-emu", sentence)) => sentence.to_owned(),
        _ if last.is_empty() => format!("it ended with {}", output.status),
        _ => last.to_owned(),
    }
}

impl Engine for Kernel {
    fn run(&self, cell: &Cell, seed: u64, measure: &Measure) -> Result<Run, EngineError> {
        let physics = &cell.physics;
        let request = words::request(physics, seed, measure)?;
        let folder = tempfile::tempdir().map_err(|error| cannot("create a folder", &error))?;
        let file = |name: &str| folder.path().join(name);
        let (path, load, ledger) = (file("path.toml"), file("load.json"), file("ledger.json"));
        let written = fs::write(&path, words::link(physics)?.to_toml())
            .and_then(|()| fs::write(&load, request.to_json().to_string()));
        written.map_err(|error| cannot("write a file", &error))?;
        let program = program()?;
        let far = format!("exec {} load --far {}", quoted(program)?, quoted(&load)?);
        let arguments: Vec<OsString> = vec![
            "--quiet".into(),
            "--path".into(),
            path.into(),
            format!("--seed={seed}").into(),
            "--json-to".into(),
            ledger.clone().into(),
            format!("--device-mtu={}", words::device_mtu(physics)).into(),
            "--server".into(),
            far.into(),
            "--".into(),
            program.into(),
            "load".into(),
            load.into(),
        ];
        let output = emulator(&arguments).map_err(|error| cannot("start this program again", &error))?;
        match output.status.code() {
            Some(0) => {}
            Some(code) if code == i32::from(USAGE) => return Err(EngineError::Word(sentence(&output))),
            Some(code) if [CONFIG, UNAVAILABLE].map(i32::from).contains(&code) => {
                return Err(EngineError::Unavailable(sentence(&output)));
            }
            _ => {
                return Err(EngineError::Unavailable(format!(
                    "the load program failed: {}",
                    sentence(&output)
                )));
            }
        }
        let counts: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let ledger = fs::read_to_string(&ledger).ok();
        let ledger: Option<Value> = ledger.and_then(|text| serde_json::from_str(text.lines().last()?).ok());
        let run = counts.zip(ledger).and_then(|(counts, ledger)| {
            let mut run = outcome::of(physics, &request, &counts, &ledger, measure)?;
            run.host_limit = host_limit(&output);
            Some(run)
        });
        run.ok_or_else(|| {
            EngineError::Unavailable(format!("the load program printed no counts: {}", sentence(&output)))
        })
    }
}

/// Returns the verdict of `rdt-emu run` at its end that the host was too slow for the path.
fn host_limit(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let verdict = format!("{}, was", rdt_emu::HOST_BLAME);
    text.lines().find(|line| line.contains(&verdict)).map(str::to_owned)
}

/// Returns a path in quotes for a shell.
fn quoted(path: &Path) -> Result<String, EngineError> {
    let text = path.to_str().filter(|text| !text.contains('\''));
    text.map(|text| format!("'{text}'")).ok_or_else(|| {
        EngineError::Unavailable(format!(
            "the engine 'kernel' cannot start {}: the path is not text or has a quote; move the program",
            path.display()
        ))
    })
}
