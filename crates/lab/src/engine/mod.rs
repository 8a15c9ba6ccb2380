//! Engines: each runs one repetition of a cell and returns its metrics.
//!
//! | file | runs |
//! |---|---|
//! | `virtual_time.rs` | flows of rdt and sources of datagrams in virtual time |
//! | `words.rs` | from the words of a flow to the configuration of its two ends |
//! | `metrics.rs` | from the simulation's counters to metrics and series |

mod metrics;
mod virtual_time;
mod words;

use std::collections::BTreeMap;

use crate::cell::{Cell, EngineKind};
use crate::experiment::Measure;
use crate::record::Series;

pub use words::check;

/// Outcome of one repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Metrics by name, as in [`Record::metrics`](crate::Record::metrics).
    pub metrics: BTreeMap<String, f64>,
    /// Values in bins, and times of events.
    pub series: Series,
    /// Hash of all events, in virtual time.
    pub hash: Option<u64>,
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
        EngineKind::Kernel | EngineKind::Real | EngineKind::Command => Err(EngineError::Unavailable(
            format!("this version cannot run the engine '{kind}'; choose '--engine virtual' or 'packets'"),
        )),
    }
}
