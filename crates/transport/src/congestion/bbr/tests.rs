//! Tests of the whole controller: with scripted ACKs (`parts.rs`), and in closed loop with a
//! bottleneck model (`path.rs`, `whole.rs`).

mod parts;
mod path;
mod rival;
mod whole;

pub(super) use rdt_testing::epoch as origin;
