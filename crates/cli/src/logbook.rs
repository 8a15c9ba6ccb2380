//! The log of a receiver: how it looks and where its lines go.

use serde_json::Value;

use crate::console::{Console, talk};

/// How the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    Quiet,
    Text,
    /// Text on the standard error, because the standard output carries data.
    Talk,
    /// One object a line; `quiet` leaves only the last.
    Json {
        quiet: bool,
    },
}

/// The log: where its lines go.
#[derive(Debug, Clone)]
pub(crate) struct Logbook {
    pub(crate) log: Log,
    pub(crate) console: Console,
}

impl Logbook {
    /// A log that nobody reads.
    pub(crate) fn quiet() -> Self {
        Self { log: Log::Quiet, console: Console::default() }
    }

    pub(crate) fn line(&self, line: &str) {
        match self.log {
            Log::Text => self.console.line(line),
            Log::Talk => talk(line),
            Log::Quiet | Log::Json { .. } => {}
        }
    }

    /// What is said beside the results.
    pub(crate) fn aside(&self, line: &str) {
        if matches!(self.log, Log::Text | Log::Talk) {
            talk(line);
        }
    }

    pub(crate) fn json(&self, value: &Value) {
        if self.log == (Log::Json { quiet: false }) {
            self.console.line(&value.to_string());
        }
    }

    /// The last object.
    pub(crate) fn summary(&self, value: &Value) {
        if let Log::Json { .. } = self.log {
            self.console.line(&value.to_string());
        }
    }
}
