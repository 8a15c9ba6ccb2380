//! Copies of files and directories over one connection: names, modes, times, links and holes, with
//! resume at verified data and a BLAKE3 proof of every file.
//!
//! One side is the source and the other one the destination. Which side connected does not matter:
//! [`push`] and [`pull`] are the side with the request, [`serve`] answers it.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | request, root | `options.rs` | what is copied, and how; what a server offers |
//! | events, report | `events.rs`, `report.rs` | what a program may show while it copies |
//! | summary, error | `summary.rs` | counts, failures by name; why a copy as a whole failed |
//! | session | `session.rs` | request and answer, end of the streams |
//! | superseded session | `superseded_sessions.rs` | end of the session that a killed client left |
//! | protocol | `protocol.rs`, `frame.rs` | messages, limits, their bytes |
//! | compression | `compression.rs` | when and how batches of frames are compressed |
//! | source | `source/` | lists the tree, reads files |
//! | destination | `destination/` | decides what is needed, writes and verifies files |
//! | tree hash, journal | `tree_hash.rs`, `journal.rs` | where verified data ends |
//! | directory | `directory.rs` | handles of directories |
//! | names | `name.rs` | names that a peer may use, names of files in progress |
//! | program | `program/` | `rdt-copy`: command line, connections, progress, reports |
#![forbid(unsafe_code)]

#[cfg(unix)]
mod compression;
#[cfg(unix)]
mod destination;
#[cfg(unix)]
mod directory;
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
#[cfg(unix)]
mod session;
#[cfg(not(unix))]
#[path = "unsupported.rs"]
mod session;
#[cfg(unix)]
mod source;
mod summary;
#[cfg(unix)]
mod superseded_sessions;
#[cfg(unix)]
mod threads;
#[cfg(unix)]
mod tree_hash;

#[cfg(test)]
#[cfg(unix)]
mod tests;

pub use events::{Event, Kind, Observer, SkipReason};
pub use options::{Compression, DestinationOptions, Existing, Permission, Request, Root, SourceOptions};
pub use program::{command_line, rdt_copy};
pub use session::{ByteStream, pull, push, serve};
pub use summary::{CopyError, Failure, Summary};
