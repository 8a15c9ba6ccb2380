//! Errors of engines.

/// Why a repetition cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine does not understand a word, or not this value.
    #[error("{0}")]
    Word(String),
    /// This host or this program cannot run the engine; the text has the remedy.
    #[error("{0}")]
    Unavailable(String),
    /// The programs of the repetition failed.
    #[error("{0}")]
    Failed(String),
}
