//! Whole transfers in virtual time: models, a recorded trace, random and impaired links, many
//! senders, shared wires.
//!
//! A failing test prints the scenario with its seed; `RDT_SEED=<seed> cargo test --test main
//! random` repeats it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "rates are compared to a per mille")]

mod determinism;
mod faults;
mod flows;
mod golden;
mod impaired;
mod many;
mod models;
mod native;
mod one_core;
mod random;
mod sharing;
mod socket_buffer;
mod unread;
mod windows;
