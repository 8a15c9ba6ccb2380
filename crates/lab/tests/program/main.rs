//! Runs `rdt-lab` as a process.

mod commands;
mod compare;
mod directions;
mod export;
mod foreign;
mod merge;
mod process;
#[cfg(target_os = "linux")]
mod report;
mod scale;
mod schema;
mod stopping;
mod store;
mod sweep;
mod trace;
