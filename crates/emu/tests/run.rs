//! Behaviour of `rdt-emu run` for users. On a host that forbids namespaces, each test prints that
//! it is skipped; with `RDT_NAMESPACES=1` it fails instead.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "run/account.rs"]
mod account;
#[path = "run/agreement.rs"]
mod agreement;
#[path = "run/command.rs"]
mod command;
#[path = "run/destinations.rs"]
mod destinations;
#[path = "run/enclosing.rs"]
mod enclosing;
#[path = "run/ends.rs"]
mod ends;
#[path = "../../../benches/emu/tcp/flow.rs"]
mod flow;
#[path = "run/helpers.rs"]
mod helpers;
#[path = "run/internet.rs"]
mod internet;
#[path = "run/nested.rs"]
mod nested;
#[path = "../../../benches/emu/ladder/rungs.rs"]
mod rungs;
#[path = "run/running.rs"]
mod running;
#[path = "run/sentences.rs"]
mod sentences;
#[path = "run/tcp.rs"]
mod tcp;
#[path = "run/terminal.rs"]
mod terminal;
#[path = "../../../benches/emu/ladder/traffic.rs"]
mod traffic;
#[path = "run/truth.rs"]
mod truth;
