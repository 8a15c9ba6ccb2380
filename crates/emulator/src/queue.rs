//! The queue in front of the serialiser.
//!
//! | file | discipline | decides |
//! |------|------------|---------|
//! | `drop_tail` | drop-tail: the queue's limit, which all disciplines keep | on arrival |
//! | `red` | Random Early Detection | on arrival |
//! | `pie` | PIE, RFC 8033 | on arrival |
//! | `codel` | CoDel, RFC 8289 | on departure |
//! | `discipline` | the choice among them, and drop-head | on departure |
//!
//! A place in the queue is freed by model time: a packet stops counting at the instant at which it
//! leaves, whenever the link is called next. Where that instant is not known on arrival, packets wait in a [`Fifo`].

mod backlog;
mod codel;
mod discipline;
mod drop_tail;
mod fifo;
mod limit;
mod marking;
mod pie;
mod red;

pub(crate) use backlog::Backlog;
pub use codel::CoDelConfig;
pub(crate) use codel::Departure;
pub use discipline::{Discipline, DisciplineError};
pub(crate) use discipline::{Early, Manager, Rule};
pub(crate) use drop_tail::{DropTail, QUEUE_ENTRY_BYTES};
pub(crate) use fifo::{Fifo, QueuedPacket};
pub use limit::{Occupancy, QueueLimit, QueueSize};
pub(crate) use marking::Signal;
pub use marking::{Incapable, Marking};
pub use pie::PieConfig;
pub use red::RedConfig;
