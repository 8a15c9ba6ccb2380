//! Whole transfers in virtual time: models, a recorded trace, random links, many senders.
//!
//! A failing test prints the scenario, its seed included; run it again with
//! `RDT_SEED=<seed> cargo test --test main random`.

mod determinism;
mod golden;
mod many;
mod models;
mod random;
