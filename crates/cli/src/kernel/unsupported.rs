//! Refusal of `--wire tcp` and `--wire udp` on systems other than Linux.

use super::Wire;
use crate::Failure;

pub(crate) mod send {
    use super::{Failure, Wire, refuse};
    use crate::args::SendArgs;

    pub(crate) fn command(_: &SendArgs, wire: Wire) -> Result<(), Failure> {
        refuse(wire)
    }
}

pub(crate) mod recv {
    use super::{Failure, Wire, refuse};
    use crate::args::RecvArgs;

    pub(crate) fn command(_: &RecvArgs, wire: Wire) -> Result<(), Failure> {
        refuse(wire)
    }
}

fn refuse(wire: Wire) -> Result<(), Failure> {
    Err(Failure::Usage(format!(
        "--wire {} needs Linux, whose kernel tells what limits a connection",
        wire.name()
    )))
}
