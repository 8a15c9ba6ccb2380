//! Runs `rdt-lab` as a process.

mod process;
mod store;
