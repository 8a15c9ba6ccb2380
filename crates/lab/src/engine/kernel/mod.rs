//! Flows over sockets in real time: of rdt, and of the kernel's TCP and UDP, unmodified, in network
//! namespaces behind the path that `rdt-emu run` emulates (Linux).
//!
//! Each repetition starts this program again as `rdt-emu`, whose command is this program as
//! `rdt-lab load` ([`crate::load`]). Without a path, which the engine `real` allows, the load
//! program runs alone, over the loopback device.
//!
//! | file | owns |
//! |---|---|
//! | `mod.rs` | processes of a repetition |
//! | `words.rs` | from the words of the flows to the request of the load program |
//! | `outcome.rs` | from the counts of the load program and of the path to metrics and series |

mod outcome;
mod words;

pub(super) use outcome::link as link_metrics;

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use rdt_program::Stop;
use serde_json::Value;

use super::programs::{Behind, Ended, cannot, check_namespaces, program, quoted, run_here};
use super::{Engine, EngineError, Run};
use crate::cell::Cell;
use crate::experiment::Measure;
use crate::load::FAR_FILE;

/// Engines `kernel` and `real`, which differ in the kinds of flows that they run.
pub(super) struct Sockets;

impl Engine for Sockets {
    fn check(&self, cell: &Cell) -> Result<(), EngineError> {
        program()?;
        if cell.physics.links.is_empty() { Ok(()) } else { check_namespaces() }
    }

    fn run(&self, cell: &Cell, seed: u64, measure: &Measure, stop: &Stop) -> Result<Run, EngineError> {
        let physics = &cell.physics;
        let request = words::request(physics, seed, measure)?;
        let folder = tempfile::tempdir().map_err(|error| cannot("create a folder", &error))?;
        let load = folder.path().join("load.json");
        fs::write(&load, request.to_json().to_string()).map_err(|error| cannot("write a file", &error))?;
        let program = program()?;
        let command: [OsString; 3] = [program.into(), "load".into(), load.clone().into()];
        let links = words::links(physics)?;
        let ended = if links.is_empty() {
            let mut here = Command::new(program);
            here.args(&command[1..]);
            run_here(here, None, stop)?
        } else {
            let far = format!("exec {} load --far {}", quoted(program)?, quoted(&load)?);
            let device_mtu = words::device_mtu(physics);
            let process = load.with_file_name(FAR_FILE);
            let behind = Behind { links, seed, device_mtu, server: Some(far.into()), far: Some(&process) };
            behind.run(&command, None, stop)?
        };
        if let Some(error) = ended.own_error() {
            return Err(error);
        }
        outcome(cell, &request, &ended, measure).ok_or_else(|| {
            EngineError::Failed(format!("the load program printed no counts: {}", ended.sentence()))
        })
    }
}

fn outcome(
    cell: &Cell,
    request: &crate::load::request::Request,
    ended: &Ended,
    measure: &Measure,
) -> Option<Run> {
    let counts: Value = serde_json::from_slice(&ended.stdout).ok()?;
    let accounts = Some(&ended.accounts[..]).filter(|it| it.len() == cell.physics.links.len())?;
    let mut run = outcome::of(&cell.physics, request, &counts, accounts, measure)?;
    run.host_limit = ended.host_limit();
    Some(run)
}
