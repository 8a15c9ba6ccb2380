//! Flows over sockets in real time: of rdt, and of the kernel's TCP and UDP, unmodified, in network
//! namespaces behind the path that `rdt-emu run` emulates (Linux).
//!
//! Each repetition starts this program again as `rdt-emu`, whose command is this program as
//! `rdt-lab load` ([`crate::load`]). Without a path, which the engine `real` allows, the load
//! program runs alone, over the loopback device.
//!
//! | file | owns |
//! |---|---|
//! | `kernel.rs` | processes of a repetition |
//! | `words.rs` | from the words of the flows to the request of the load program |
//! | `outcome.rs` | from the counts of the load program and of the path to metrics and series |

mod outcome;
mod words;

pub(super) use outcome::link as link_metrics;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rdt_program::Stop;

use super::programs::{Behind, Ended, cannot, check_namespaces, program, quoted, run_here};
use super::{Engine, EngineError, Run};
use crate::cell::{Cell, Physics};
use crate::experiment::Measure;
use crate::flow::FlowKind;
use crate::load::request::Request;
use crate::load::{Counts, FAR_FILE, FIRST_PORT};
use crate::trace::{self, Connection, analyse};

/// Engines `kernel` and `real`, which differ in the kinds of flows that they run.
pub(super) struct Sockets;

impl Engine for Sockets {
    fn check(&self, cell: &Cell) -> Result<(), EngineError> {
        program()?;
        if cell.physics.links.is_empty() { Ok(()) } else { check_namespaces() }
    }

    fn run(
        &self,
        cell: &Cell,
        seed: u64,
        measure: &Measure,
        stop: &Stop,
        capture: Option<&Path>,
    ) -> Result<Run, EngineError> {
        let physics = &cell.physics;
        let request = words::request(physics, seed, measure)?;
        let folder = tempfile::tempdir().map_err(|error| cannot("create a folder", &error))?;
        // The metrics of the capture are wanted even if its file is not.
        let unkept = folder.path().join("packets.pcapng");
        let capture = measure.capture.then_some(capture.unwrap_or(&unkept));
        let capture = capture.filter(|_| !physics.links.is_empty()).map(|file| (file, measure.snaplen));
        let ended = start(physics, &request, folder.path(), capture, stop)?;
        if let Some(error) = ended.own_error() {
            return Err(error);
        }
        let run = outcome(physics, &request, &ended, measure);
        let mut run = run.ok_or_else(|| {
            EngineError::Failed(format!("the load program printed no counts: {}", ended.sentence()))
        })?;
        if let Some((capture, _)) = capture {
            run.metrics.extend(captured(capture, physics)?);
        }
        Ok(run)
    }
}

/// Returns an error for the first word or value that the engine cannot apply on any host.
pub(super) fn check_words(physics: &Physics) -> Result<(), EngineError> {
    words::links(physics)?;
    physics.flows.iter().try_for_each(|flow| words::check(flow, physics))
}

/// Runs the load program with `folder` for its files, behind the path if there is one.
fn start(
    physics: &Physics,
    request: &Request,
    folder: &Path,
    capture: Option<(&Path, u32)>,
    stop: &Stop,
) -> Result<Ended, EngineError> {
    let load = folder.join("request");
    let bytes = postcard::to_allocvec(request).expect("a vector accepts all requests");
    fs::write(&load, bytes).map_err(|error| cannot("write a file", &error))?;
    let program = program()?;
    let command: [OsString; 3] = [program.into(), "load".into(), load.clone().into()];
    let links = words::links(physics)?;
    if links.is_empty() {
        let mut here = Command::new(program);
        here.args(&command[1..]);
        return run_here(here, None, stop);
    }
    let far = format!("exec {} load --far {}", quoted(program)?, quoted(&load)?);
    let process = load.with_file_name(FAR_FILE);
    let behind = Behind {
        links,
        seed: request.seed,
        device_mtus: &words::device_mtus(physics),
        ipv6: words::uses_ipv6(physics),
        server: Some(far.into()),
        far: Some(&*process),
        capture,
        report_interval: Some(report_interval(physics.duration)),
    };
    behind.run(&command, None, stop)
}

/// Returns the interval of the reports of the links: the error of their utilisation is at most one
/// interval's share of the repetition.
fn report_interval(duration: Option<Duration>) -> Duration {
    const NUMBER: u32 = 500;
    const LEAST: Duration = Duration::from_millis(10);
    const WITHOUT_DURATION: Duration = Duration::from_millis(100);
    duration.map_or(WITHOUT_DURATION, |duration| (duration / NUMBER).max(LEAST))
}

/// Returns the metrics of the TCP flows in a capture, such as `a.trace.unique-bytes`.
fn captured(capture: &Path, physics: &Physics) -> Result<Vec<(String, f64)>, EngineError> {
    let file = fs::File::open(capture).map_err(|error| cannot("read its capture", &error))?;
    let trace = analyse(file, None)
        .map_err(|error| EngineError::Failed(format!("the capture of the repetition: {error}")))?;
    let mut metrics = Vec::new();
    for (port, flow) in (FIRST_PORT..).zip(&physics.flows).filter(|(_, flow)| flow.kind == FlowKind::Tcp) {
        let is_mine = |it: &&Connection| it.ends.iter().any(|end| end.port() == port);
        let Some(connection) = trace.connections.iter().find(is_mine) else { continue };
        let named = |(name, value)| (format!("{}.trace.{name}", flow.name), value);
        metrics.extend(trace::metrics(connection).into_iter().map(named));
    }
    Ok(metrics)
}

/// Returns the outcome of a repetition. `None` if the load program or a link printed no counts.
fn outcome(physics: &Physics, request: &Request, ended: &Ended, measure: &Measure) -> Option<Run> {
    let counts: Counts = postcard::from_bytes(&ended.stdout).ok()?;
    let accounts = Some(&ended.accounts[..]).filter(|it| it.len() == physics.links.len())?;
    let mut run = outcome::of(physics, request, &counts, accounts, measure)?;
    run.is_host_limited = ended.is_host_limited();
    Some(run)
}
