//! The controller as a whole: alone with made-up ACKs (`parts.rs`), and closed around a model of a
//! bottleneck (`path.rs`, `whole.rs`).

mod parts;
mod path;
mod rival;
mod whole;

pub(super) use crate::testing::epoch as origin;
