//! Errors of the program and their exit codes.

use std::io;
use std::path::PathBuf;

#[cfg(unix)]
use rdt_program::exit::NO_INPUT;
#[cfg(target_os = "linux")]
use rdt_program::exit::{self, NOT_FOUND, NOT_RUN};
use rdt_program::exit::{CANNOT_CREATE, CONFIG, IO, OS, UNAVAILABLE, USAGE};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    /// Permission denied; the text has the step that failed, and the remedy.
    #[error("{0}")]
    Forbidden(String),
    /// Rate above what this host sustains; the text has the rate, the measurement and the remedy.
    #[error("{0}")]
    Beyond(String),
    #[error("cannot create {}: {}", .0.display(), .1)]
    Create(PathBuf, io::Error),
    #[cfg(unix)]
    #[error("no rdt-emu listens at {}: {}; start run or proxy with --control", .0.display(), .1)]
    NoControl(PathBuf, io::Error),
    #[error("cannot write {0}: {1}")]
    Write(String, io::Error),
    #[error("{step}: {error}")]
    System { step: &'static str, error: io::Error },
    #[cfg(target_os = "linux")]
    #[error("cannot run {name}: {error}")]
    NotRun { name: String, error: io::Error },
    /// Failure of the process inside the namespace: exit code and message.
    #[cfg(target_os = "linux")]
    #[error("{1}")]
    Inside(u8, String),
}

impl Failure {
    /// Returns a function for `map_err` that adds the step that failed.
    pub(crate) fn system(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { step, error }
    }

    /// End of a run by a signal that arrived before there was a path.
    #[cfg(target_os = "linux")]
    pub(crate) fn before_start(signal: u8) -> Self {
        Self::Inside(exit::SIGNAL + signal, format!("signal {signal} came before CMD was started"))
    }

    /// Converts the result of writing text. A closed pipe (the reader ended) is no error, as it is
    /// for JSON.
    pub(crate) fn writing(to: &str, result: io::Result<()>) -> Result<(), Self> {
        match result {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Self::Write(to.to_owned(), error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Forbidden(_) => UNAVAILABLE,
            Self::Beyond(_) => CONFIG,
            Self::Create(..) => CANNOT_CREATE,
            #[cfg(unix)]
            Self::NoControl(..) => NO_INPUT,
            Self::Write(..) => IO,
            Self::System { .. } => OS,
            #[cfg(target_os = "linux")]
            Self::NotRun { error, .. } if matches!(error.kind(), io::ErrorKind::NotFound) => NOT_FOUND,
            #[cfg(target_os = "linux")]
            Self::NotRun { .. } => NOT_RUN,
            #[cfg(target_os = "linux")]
            Self::Inside(code, _) => *code,
        }
    }
}
