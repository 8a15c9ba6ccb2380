//! Internal part of rdt: the program `rdt-lab`, which runs experiments with networks.
//!
//! A file describes a path, flows, factors and claims. The lab runs every combination of levels as
//! often as the claims need, and reports whether they hold.
//!
//! ```text
//! experiment.toml -> plan -> engines -> journal -> statistics -> claims, figures -> report
//! ```
//!
//! A *cell* is one combination of levels of all factors with one engine. A *repetition* is one run
//! of a cell with one seed. In virtual time a repetition is a pure function of cell and seed.
//!
//! | noun | folder | owns |
//! |---|---|---|
//! | experiment | `experiment/` | the file as it was written, with places for error messages |
//! | flow | `flow.rs` | the vocabulary of flows, the same for all engines |
//! | cell | `cell.rs` | levels, physics, and the identity that follows from them |
//! | plan | `plan/` | cells of an experiment, seeds, shards |
//! | engine | `engine/` | how one repetition is run |
//! | load | `load/` | program inside the namespaces of the engine `kernel` (Linux) |
//! | record | `record.rs` | metrics and series of one repetition |
//! | journal | `journal/` | results on disk: one line for each repetition |
//! | results | `results.rs` | results in memory, and the selection of cells |
//! | statistics | `statistics/` | intervals, tests, contrasts: pure functions |
//! | agreement | `agreement.rs` | ratios of virtual time to the kernel, with intervals |
//! | theory | `theory/` | models to draw beside measurements, with their ranges of validity |
//! | claim | `claim/` | predicates about results, and their verdicts |
//! | campaign | `run/` | repetitions that a folder of results lacks |
//! | foreign results | `foreign.rs` | tables of others, analysed as factorial designs |
//! | capture | `trace/` | TCP connections of pcap files |
//! | report | `report/` | figures, the HTML page, text for a terminal |
//! | command | `cli/` | the program |
#![forbid(unsafe_code)]

pub mod agreement;
pub mod cell;
pub mod claim;
pub mod cli;
pub mod engine;
pub mod experiment;
pub mod flow;
pub mod foreign;
pub mod journal;
#[cfg(target_os = "linux")]
pub mod load;
pub mod plan;
pub mod record;
pub mod report;
pub mod results;
pub mod run;
pub mod statistics;
pub mod theory;
pub mod trace;

pub use cell::{Cell, CellId, EngineKind, Physics};
pub use flow::{Flow, FlowKind};
pub use record::{Record, Series, Status};
pub use results::{Results, Selection};
