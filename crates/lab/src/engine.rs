//! Engines: each runs one repetition of a cell and returns its metrics.
//!
//! | file | owns |
//! |---|---|
//! | `virtual_time.rs` | flows of rdt and sources of datagrams in virtual time |
//! | `kernel/` | rdt, TCP and UDP of the kernel over sockets, in namespaces (Linux) |
//! | `command.rs` | programs of the user (Linux) |
//! | `programs.rs` | programs behind an emulated path, or without one (Linux) |
//! | `both_ways.rs` | two flows that are the two directions of one connection |
//! | `placed.rs` | flows in a simulation: nodes, routes, observers |
//! | `words.rs` | from the words of a flow to the configuration of its two ends |
//! | `metrics.rs` | from the simulation's counters to metrics and series |
//! | `flow_metrics.rs` | definitions of metrics that all engines share |
//! | `error.rs` | errors |

mod both_ways;
#[cfg(target_os = "linux")]
mod command;
pub(crate) mod error;
pub(crate) mod flow_metrics;
#[cfg(target_os = "linux")]
mod kernel;
mod metrics;
mod placed;
#[cfg(target_os = "linux")]
mod programs;
mod virtual_time;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::path::Path;

use rdt_emulator::Bitrate;
use rdt_program::Stop;

use crate::cell::{Cell, EngineKind, Physics};
use crate::experiment::Measure;
use crate::record::Series;

pub use error::EngineError;
#[cfg(target_os = "linux")]
pub use programs::use_program;
pub use words::is_random;

/// Outcome of one repetition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// Metrics by name, as in [`Record::metrics`](crate::Record::metrics).
    pub metrics: BTreeMap<String, f64>,
    /// Values in bins, and times of events.
    pub series: Series,
    /// Hash of all events. `None` in real time.
    pub hash: Option<u64>,
    /// True if the host was too slow for the path, so that the metrics describe the host.
    pub is_host_limited: bool,
}

/// Runs repetitions.
pub trait Engine: Sync {
    /// Checks that this host can run the cell.
    ///
    /// # Errors
    /// The host lacks something; the text has the remedy.
    fn check(&self, _cell: &Cell) -> Result<(), EngineError> {
        Ok(())
    }

    /// Runs one repetition. In virtual time the result depends on the cell, the seed and `measure`
    /// alone. If `stop` is set, a repetition in real time ends early, as failed. `capture` is the
    /// file in which the packets are kept, if the engine captures them and `measure` asks for it.
    ///
    /// # Errors
    /// The cell cannot run, or its programs failed.
    fn run(
        &self,
        cell: &Cell,
        seed: u64,
        measure: &Measure,
        stop: &Stop,
        capture: Option<&Path>,
    ) -> Result<Run, EngineError>;
}

/// Returns the engine of this kind.
pub fn engine(kind: EngineKind) -> Result<&'static dyn Engine, EngineError> {
    match kind {
        EngineKind::Virtual | EngineKind::Packets => Ok(&virtual_time::VirtualTime),
        #[cfg(target_os = "linux")]
        EngineKind::Kernel | EngineKind::Real => Ok(&kernel::Sockets),
        #[cfg(target_os = "linux")]
        EngineKind::Command => Ok(&command::UserProgram),
        #[cfg(not(target_os = "linux"))]
        EngineKind::Kernel | EngineKind::Real | EngineKind::Command => {
            Err(EngineError::Unavailable(format!(
                "the engine '{kind}' needs network namespaces, which Linux alone has; choose '--engine virtual'"
            )))
        }
    }
}

/// Returns an error for the first word or value that the engine of a cell cannot apply, whatever
/// the host. Programs of the user decide themselves what they take.
///
/// # Errors
/// A sentence that names flow or link, and the value.
pub(crate) fn check_words(physics: &Physics) -> Result<(), EngineError> {
    match physics.engine {
        EngineKind::Virtual | EngineKind::Packets => virtual_time::check(physics),
        #[cfg(target_os = "linux")]
        EngineKind::Kernel | EngineKind::Real => kernel::check_words(physics),
        _ => Ok(()),
    }
}

/// Returns true if this host carries a rate behind an emulated path in real time, by a trial that
/// takes one to three seconds.
///
/// # Errors
/// This host or this program cannot emulate a path.
pub(crate) fn holds(rate: Bitrate) -> Result<bool, EngineError> {
    #[cfg(target_os = "linux")]
    return programs::holds(rate);
    #[cfg(not(target_os = "linux"))]
    Err(EngineError::Unavailable(format!(
        "no path of {} bit/s: Linux alone has namespaces",
        rate.as_bps_f64()
    )))
}
