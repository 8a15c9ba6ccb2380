//! Copies of files and directories over one connection: names, modes, times, links and holes, with
//! resume at verified data and a BLAKE3 proof of every file.
//!
//! One side is the source and the other one the destination. Which side connected does not matter:
//! [`push`] and [`pull`] are the side with the request, [`serve`] answers it.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | request, options | `options.rs` | what is copied, and how |
//! | events, report | `events.rs`, `report.rs` | what a program may show while it copies |
//! | summary | `summary.rs` | counts of a finished copy, failures by name |
//! | errors | `error.rs` | why a copy as a whole failed |
//! | session | `session.rs` | request and answer, end of the streams |
//! | protocol | `protocol.rs`, `frame.rs` | messages, limits, their bytes |
//! | source | `source/` | lists the tree, reads files |
//! | destination | `destination/` | decides what is needed, writes and verifies files |
//! | tree hash, journal | `tree_hash.rs`, `journal.rs` | where verified data ends |
//! | root, directory | `root.rs`, `directory.rs` | what a server offers; handles of directories |
//! | names | `name.rs` | names that a peer may use, names of files in progress |
//! | program | `program/` | `rdt-copy`: command line, connections, progress, reports |
#![forbid(unsafe_code)]

#[cfg(unix)]
mod destination;
#[cfg(unix)]
mod directory;
mod error;
mod events;
#[cfg(unix)]
mod frame;
#[cfg(unix)]
mod journal;
#[cfg(unix)]
mod name;
mod options;
mod program;
#[cfg(unix)]
mod protocol;
#[cfg(unix)]
mod report;
mod root;
#[cfg(unix)]
mod session;
#[cfg(not(unix))]
#[path = "unsupported.rs"]
mod session;
#[cfg(unix)]
mod source;
mod summary;
#[cfg(unix)]
mod threads;
#[cfg(unix)]
mod tree_hash;

#[cfg(test)]
#[cfg(unix)]
mod tests;

pub use error::CopyError;
pub use events::{Event, Kind, Observer, SkipReason};
pub use options::{DestinationOptions, Existing, Request, SourceOptions};
pub use program::{command_line, rdt_copy};
pub use root::{Permission, Root};
pub use session::{ByteStream, pull, push, serve};
pub use summary::{Failure, Summary};
