//! `rdt-tunnel` as users run it: processes, real sockets, and other programs through the tunnel.
//! Tests that need a program which is not installed print that they are skipped.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "programs/emulated.rs"]
#[cfg(target_os = "linux")]
mod emulated;
#[path = "programs/exit_codes.rs"]
mod exit_codes;
#[path = "programs/foreign.rs"]
mod foreign;
#[path = "programs/process.rs"]
mod process;
#[path = "programs/tcp.rs"]
mod tcp;
