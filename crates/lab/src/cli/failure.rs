//! Errors of the program and their exit codes.

use std::io;
use std::path::PathBuf;

#[cfg(target_os = "linux")]
use rdt_program::exit::OS;
use rdt_program::exit::{CANNOT_CREATE, IO, NO_INPUT, UNAVAILABLE, USAGE};

use crate::engine::EngineError;
use crate::journal::StoreError;
#[cfg(target_os = "linux")]
use crate::load::LoadError;
use crate::run::{CampaignError, EXPERIMENT_FILE};

/// Exit code: a claim or an expected value fails, or results are worse than others.
pub(super) const CLAIM_FAILS: u8 = 1;
/// Exit code: repetitions failed.
pub(super) const REPETITIONS_FAILED: u8 = 2;
/// Exit code: repetitions are missing, or a claim or an expected value was not measured.
pub(super) const INCOMPLETE: u8 = 3;
/// Exit code: claims are undecided, with `--strict`.
pub(super) const UNDECIDED: u8 = 4;
/// Exit code: results that do not fit together (`EX_DATAERR`).
const DATA: u8 = 65;

/// Returns the exit code of a command that has two. Failed repetitions come first, because no
/// verdict can be relied on without them.
pub(super) fn gravest(one: u8, two: u8) -> u8 {
    let by_weight = [REPETITIONS_FAILED, CLAIM_FAILS, INCOMPLETE, UNDECIDED];
    by_weight.into_iter().find(|code| *code == one || *code == two).unwrap_or(0)
}

/// Error that ends a command, as a sentence.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Data(String),
    #[error("{0}")]
    Nothing(String),
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    #[error(
        "{} has no results: neither it nor a folder in it has a file {EXPERIMENT_FILE}; 'rdt-lab run ID -o DIR' makes some",
        .0.display()
    )]
    NoResults(PathBuf),
    #[error("cannot write {}: {}", .0.display(), .1)]
    Create(PathBuf, io::Error),
    #[error("cannot write results to {}: {}", .0.display(), .1)]
    Write(PathBuf, io::Error),
    #[error("cannot write the standard output: {0}")]
    Output(io::Error),
    #[error("{0}")]
    Unavailable(String),
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Failure {
    /// Returns the failure of a program that was built without a feature of its crate.
    #[cfg(any(test, not(all(feature = "png", feature = "parquet"))))]
    pub(super) fn without(format: &str, feature: &str) -> Self {
        Self::Unavailable(format!(
            "this rdt-lab was built without {format}: build one with it by \
             'cargo install --locked --path crates/lab --features {feature}'"
        ))
    }

    /// Returns the failure of a command whose experiments have none of the engines asked for.
    pub(super) fn no_engine() -> Self {
        let what = "none of these experiments has one of these engines";
        Self::Usage(format!("{what}; 'rdt-lab list' prints the engines of each"))
    }

    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Campaign(CampaignError::TooMany(_)) => USAGE,
            Self::Nothing(_) | Self::Read(..) | Self::NoResults(_) => NO_INPUT,
            Self::Campaign(CampaignError::Store(error)) | Self::Store(error) => match error {
                StoreError::Read(..) => NO_INPUT,
                StoreError::Foreign { .. } | StoreError::Differ(_) => DATA,
            },
            Self::Create(..) | Self::Campaign(CampaignError::Create(..)) => CANNOT_CREATE,
            Self::Output(_) | Self::Write(..) | Self::Campaign(CampaignError::Write(..)) => IO,
            Self::Unavailable(_) => UNAVAILABLE,
            Self::Data(_) | Self::Campaign(CampaignError::Seed { .. }) => DATA,
            Self::Campaign(CampaignError::Engine(error)) | Self::Engine(error) => match error {
                EngineError::Word(_) => USAGE,
                EngineError::Unavailable(_) | EngineError::Failed(_) => UNAVAILABLE,
            },
            #[cfg(target_os = "linux")]
            Self::Load(error) => match error {
                LoadError::System(..) => OS,
                LoadError::NotInside
                | LoadError::Request
                | LoadError::Word(_)
                | LoadError::Sysctl(..)
                | LoadError::Congestion(..) => USAGE,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_repetitions_outweigh_verdicts() {
        assert_eq!(gravest(CLAIM_FAILS, REPETITIONS_FAILED), REPETITIONS_FAILED);
        assert_eq!(gravest(INCOMPLETE, CLAIM_FAILS), CLAIM_FAILS);
        assert_eq!(gravest(UNDECIDED, INCOMPLETE), INCOMPLETE);
        assert_eq!((gravest(0, UNDECIDED), gravest(0, 0)), (UNDECIDED, 0));
    }

    #[test]
    fn missing_format_names_its_feature() {
        let failure = Failure::without("PNG", "png");
        assert_eq!(failure.code(), UNAVAILABLE);
        assert!(failure.to_string().contains("--features png"), "{failure}");
    }
}
