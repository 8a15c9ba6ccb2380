//! Runs `rdt-lab` as a process.

mod commands;
mod compare;
mod export;
mod foreign;
mod process;
mod report;
mod scale;
mod schema;
mod store;
mod sweep;
