//! Copies of files and directories over one connection: names, modes, times, links and holes, with
//! resume at verified data and a BLAKE3 proof of every file.
//!
//! One side is the source and the other one the destination. Which side connected does not matter:
//! [`push`] and [`pull`] are the side with the request, [`serve`] answers it.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | request, options | `options.rs` | what is copied, and how |
//! | events | `events.rs` | what a program may show while it copies |
//! | summary | `summary.rs` | counts of a finished copy, failures by name |
//! | errors | `error.rs` | why a copy as a whole failed |
//! | root | `root.rs` | the part of the file system that a server offers |
#![forbid(unsafe_code)]

mod error;
mod events;
mod options;
mod root;
mod session;
mod summary;

pub use error::CopyError;
pub use events::{Event, Kind, Observer, SkipReason};
pub use options::{DestinationOptions, Existing, Request, SourceOptions};
pub use root::{Permission, Root};
pub use session::{ByteStream, pull, push, serve};
pub use summary::{Failure, Summary};
