//! Engines: each runs one repetition of a cell and returns its metrics.
//!
//! | file | runs |
//! |---|---|
//! | `virtual_time.rs` | flows of rdt and sources of datagrams in virtual time |
//! | `kernel/` | TCP and UDP of the kernel in namespaces (Linux) |
//! | `words.rs` | from the words of a flow to the configuration of its two ends |
//! | `metrics.rs` | from the simulation's counters to metrics and series |

#[cfg(target_os = "linux")]
mod kernel;
mod metrics;
mod virtual_time;
mod words;

use std::collections::BTreeMap;

use crate::cell::{Cell, EngineKind};
use crate::experiment::Measure;
use crate::record::Series;

#[cfg(target_os = "linux")]
pub use kernel::use_program;
pub use words::{check, is_random};

/// Outcome of one repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Metrics by name, as in [`Record::metrics`](crate::Record::metrics).
    pub metrics: BTreeMap<String, f64>,
    /// Values in bins, and times of events.
    pub series: Series,
    /// Hash of all events, in virtual time.
    pub hash: Option<u64>,
    /// Sentence that the host was too slow for the path, so that the metrics describe the host.
    pub host_limit: Option<String>,
}

/// Why a repetition cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine does not understand a word, or not this value.
    #[error("{0}")]
    Word(String),
    /// This host or this program cannot run the engine; the text has the remedy.
    #[error("{0}")]
    Unavailable(String),
}

/// Runs repetitions.
pub trait Engine: Sync {
    /// Runs one repetition. In virtual time the result depends on the arguments alone.
    ///
    /// # Errors
    /// The cell cannot run, whatever the seed.
    fn run(&self, cell: &Cell, seed: u64, measure: &Measure) -> Result<Run, EngineError>;
}

/// Returns the engine of this kind.
///
/// # Errors
/// This program cannot run the engine.
pub fn engine(kind: EngineKind) -> Result<&'static dyn Engine, EngineError> {
    match kind {
        EngineKind::Virtual | EngineKind::Packets => Ok(&virtual_time::VirtualTime),
        #[cfg(target_os = "linux")]
        EngineKind::Kernel => Ok(kernel::Kernel::available()?),
        #[cfg(not(target_os = "linux"))]
        EngineKind::Kernel => Err(EngineError::Unavailable(
            "the engine 'kernel' needs network namespaces, which Linux alone has; choose '--engine virtual'"
                .to_owned(),
        )),
        EngineKind::Real | EngineKind::Command => Err(EngineError::Unavailable(format!(
            "this version cannot run the engine '{kind}'; choose '--engine virtual' or 'packets'"
        ))),
    }
}

/// Returns the source of a flow of datagrams, with the gaps that it has in virtual time.
#[cfg(target_os = "linux")]
pub(crate) fn udp_source(
    flow: &crate::flow::Flow,
    start: std::time::Duration,
    seed: u64,
    index: u64,
) -> Result<rdt_sim::Source, EngineError> {
    words::source(flow, start, rdt_emulator::child_seed(seed, index))
}
