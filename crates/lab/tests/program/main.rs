//! Runs `rdt-lab` as a process.

mod commands;
mod compare;
mod export;
mod foreign;
mod process;
#[cfg(target_os = "linux")]
mod report;
mod scale;
mod schema;
mod store;
mod sweep;
