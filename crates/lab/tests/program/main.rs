//! Runs `rdt-lab` as a process.

mod foreign;
mod process;
mod store;
