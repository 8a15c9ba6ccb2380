//! Record: the result of one repetition.

use std::collections::BTreeMap;

use crate::cell::{CellId, EngineKind};

/// Metric of a flow whose throughput is not stationary by the rule MSER-5. Other flows lack it.
pub(crate) const NOT_STATIONARY: &str = "not-stationary";

/// Status of a repetition. Only [`Ok`](Self::Ok) counts in means and claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// The metrics are valid.
    Ok,
    /// The host was too slow for the path, so the metrics describe the host.
    HostLimited,
    /// The repetition failed, for this reason.
    Failed(String),
}

impl Status {
    /// Returns the word for this status in journals and rows, and the reason of a failure.
    pub fn words(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Ok => ("ok", None),
            Self::HostLimited => ("host-limited", None),
            Self::Failed(reason) => ("failed", Some(reason)),
        }
    }
}

/// Time series of one repetition: values in bins of equal width from time 0 on. All columns have
/// the same length. Names and units are those of metrics: `a.goodput`, `a.cwnd`, `link.queue`.
/// `None`: no value in this bin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// Columns by name.
    pub columns: BTreeMap<String, Vec<Option<f64>>>,
    /// Times of events in seconds, by name: `a.timeout`, `a.fast-retransmit`.
    pub events: BTreeMap<String, Vec<f64>>,
}

/// Result of one repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The cell.
    pub cell: CellId,
    /// Number of the repetition in its cell, from 0.
    pub rep: u32,
    /// Seed of the repetition.
    pub seed: u64,
    /// The engine.
    pub engine: EngineKind,
    /// [`PHYSICS_VERSION`](crate::cell::PHYSICS_VERSION) of the program that ran the repetition.
    pub physics: u32,
    /// Name of the experiment for which the repetition was run.
    pub experiment: String,
    /// Levels of the factors, as in [`Cell::factors`](crate::Cell::factors).
    pub factors: Vec<(String, String)>,
    /// Metrics by name: that of a flow begins with the flow's name (`a.goodput`), that of a link
    /// with `link` or `linkN` (`link.forward.dropped-loss`), that of the run has one word (`jain`).
    /// Rates are bits per second, times are seconds, sizes are bytes. Always finite.
    pub metrics: BTreeMap<String, f64>,
    /// Hash of all events of the repetition. `None` in real time.
    pub hash: Option<u64>,
    /// Status of the repetition.
    pub status: Status,
    /// Block in which the repetition ran, in real time: a block contains every cell once, in a
    /// drawn order. `None` in virtual time.
    pub block: Option<u32>,
    /// Real time that the repetition took, milliseconds. Not compared when results are merged.
    pub wall_ms: u64,
    /// Version of the program, [`rdt_program::VERSION`]. Not compared when results are merged.
    pub tool: String,
    /// Name of the host. Not compared when results are merged.
    pub host: String,
}

#[cfg(test)]
impl Record {
    /// Returns the record of a repetition that has one metric and its own number as the seed.
    pub(crate) fn of(cell: &crate::Cell, rep: u32, metric: &str, value: f64) -> Self {
        Self {
            cell: cell.id,
            rep,
            seed: rep.into(),
            engine: cell.physics.engine,
            physics: 1,
            experiment: String::new(),
            factors: cell.factors.clone(),
            metrics: [(metric.to_owned(), value)].into(),
            hash: None,
            status: Status::Ok,
            block: None,
            wall_ms: 0,
            tool: String::new(),
            host: String::new(),
        }
    }
}
