//! How the program ends when it is not CMD that decides: a sentence for the user and a number for the shell.

use std::io;

/// Wrong arguments.
pub(crate) const USAGE: u8 = 64;
/// The host forbids what is needed.
const UNAVAILABLE: u8 = 69;
/// The system refused something in the middle.
const OS: u8 = 71;

/// Why the program ends with a number of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    /// What failed, and what to do about it.
    #[error("{0}")]
    Forbidden(String),
    #[error("{step}: {error}")]
    System { step: &'static str, error: io::Error },
    #[cfg(not(target_os = "linux"))]
    #[error("network namespaces exist on Linux only: use `rdt-emu proxy` here")]
    NoNamespaces,
}

impl Failure {
    /// For `map_err`: what was tried.
    pub(crate) fn system(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { step, error }
    }

    /// The exit code.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Forbidden(_) => UNAVAILABLE,
            Self::System { .. } => OS,
            #[cfg(not(target_os = "linux"))]
            Self::NoNamespaces => UNAVAILABLE,
        }
    }
}
