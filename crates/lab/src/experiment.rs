//! Experiment files: TOML with a path, flows, factors, claims and figures.
//!
//! The name of a setting (a key of the file, such as `rate`) is called a word. Unknown words are
//! errors with line, column and the nearest word. A factor may vary any word of the path, of a
//! link, of a flow, of an engine, or the duration. A level may also be a table with a name that
//! sets several words at once.
//!
//! | file | owns |
//! |---|---|
//! | `builtin.rs` | the experiments that are part of the program |
//! | `claims.rs` | claims, expected values, statements of the source |
//! | `design.rs` | combinations, seeds, repetitions, what is measured |
//! | `document.rs` | access to TOML tables with places |
//! | `engines.rs` | the engines that a table names |
//! | `error.rs` | errors with places, nearest words |
//! | `factor.rs` | factors and levels |
//! | `figure.rs` | figures |
//! | `flow_words.rs` | the words of a flow |
//! | `metric_names.rs` | metrics that results can have |
//! | `physics.rs` | from settings to the physics of a cell |
//! | `placeholders.rs` | values in command lines |
//! | `read.rs` | the order of the file's tables |
//! | `setting.rs` | one word with its value |

mod builtin;
mod claims;
mod design;
mod document;
mod engines;
mod error;
mod factor;
mod figure;
mod flow_words;
mod metric_names;
mod physics;
pub(crate) mod placeholders;
mod read;
mod setting;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::cell::EngineKind;

pub use builtin::{Builtin, builtin, find_builtin};
pub use claims::{
    Claim, Compare, Expect, ExpectedValue, Otherwise, Statement, StatementKind, Step, Tolerance,
};
pub use design::{Design, DesignKind, KeepSeries, Measure, Repeats, Seeds, Until, WarmUp};
pub use error::{ExperimentError, Place};
pub use factor::{Factor, Level};
pub use figure::{Figure, FigureKind, LogAxes};
pub use setting::{Setting, Target};

pub(crate) use error::suggest;

/// A program that the engine `command` runs. In both command lines `{WORD}` stands for the value
/// of the word `command.WORD`, or for one of [`Command::PLACEHOLDERS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Command line, for a shell.
    pub program: String,
    /// Command line of a server that is started first and ended after the program.
    pub server: Option<String>,
    /// Time after which a repetition is ended as failed.
    pub time_limit: Duration,
    /// Names of metrics, each with the JSON pointer (RFC 6901) of its value in the output.
    pub metrics: Vec<(String, String)>,
}

impl Command {
    /// Words of the table `[command]` that have no placeholder.
    pub const WORDS: [&'static str; 4] = ["program", "server", "time-limit", "metrics"];
    /// Placeholders that are no settings of the file: the server's address and port, the seed of
    /// the repetition, the duration in seconds, and the program that `--client` names.
    pub const PLACEHOLDERS: [&'static str; 5] = ["host", "port", "seed", "for", "client"];
    /// Setting with the hash of the client's files, so that a changed client gives another cell.
    pub const CLIENT_HASH: &'static str = "client-sha256";
    /// Time limit unless the file gives one.
    pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);
}

/// A `[[flow]]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowTable {
    /// Name of the flow.
    pub name: String,
    /// Settings of the flow, in the order of the file.
    pub settings: Vec<Setting>,
    /// Place of the table.
    pub place: Place,
}

/// An experiment as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Text of the file.
    pub text: String,
    /// Name, which commands and directories use.
    pub name: String,
    /// Title for readers.
    pub title: String,
    /// Origin of the experiment, such as `report 000, table 1`.
    pub source: Option<String>,
    /// Prose for the report: what was done, what was published, what theory says of it.
    pub about: Option<String>,
    /// Engines, in the order of the file.
    pub engines: Vec<EngineKind>,
    /// The setting `for`, and those of engines.
    pub settings: Vec<Setting>,
    /// Settings of each link, in series.
    pub links: Vec<Vec<Setting>>,
    /// Flows.
    pub flows: Vec<FlowTable>,
    /// Program of the engine `command`.
    pub command: Option<Command>,
    /// Factors in the order of the file.
    pub factors: Vec<Factor>,
    /// Combinations and seeds.
    pub design: Design,
    /// Number of repetitions.
    pub repeats: Repeats,
    /// Data to record.
    pub measure: Measure,
    /// Claims.
    pub claims: Vec<Claim>,
    /// Expected values.
    pub expects: Vec<Expect>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Statements of the source that do not hold.
    pub statements: Vec<Statement>,
}

impl Experiment {
    /// Parses the text of an experiment file.
    ///
    /// # Errors
    /// The first wrong word or value, with its place and the remedy.
    pub fn from_toml(text: &str) -> Result<Self, ExperimentError> {
        read::experiment(text)
    }
}
