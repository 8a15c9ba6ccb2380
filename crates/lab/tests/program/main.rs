//! Runs `rdt-lab` as a process.

mod commands;
mod compare;
mod foreign;
mod process;
mod report;
mod rows;
mod scale;
mod schema;
mod store;
mod sweep;
