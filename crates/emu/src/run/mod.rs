//! `rdt-emu run`: a command in a network of its own.

use crate::args::{InsideArgs, RunArgs};
use crate::failure::Failure;

/// Which part of the program inside the namespaces runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stage {
    /// Enters new namespaces and starts the other one.
    Enter,
    /// The first process of the namespaces.
    Init,
}

pub(crate) fn run(_args: &RunArgs) -> Result<u8, Failure> {
    Err(Failure::Usage("not yet".into()))
}

pub(crate) fn inside(_args: &InsideArgs) -> u8 {
    0
}
