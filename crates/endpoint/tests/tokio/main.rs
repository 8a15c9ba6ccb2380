//! Streams over emulated networks, in paused time: seconds of the network take milliseconds. One
//! thread, seeded paths and seeded keys make each run the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod addresses;
mod cancellation;
mod endpoints;
mod ends;
mod extensions;
mod programs;
mod streams;
mod support;
