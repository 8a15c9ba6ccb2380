//! Kernel TCP over the path of `rdt-emu run`: use of a link, shares of flows, and effect of the
//! window. Linux only.
//!
//! `cargo bench --bench tcp` (`-- link`, `-- shares`, `-- windows`, `-- beside` or `-- rules` for
//! one table). This program is at both ends. Rates are payload rates at the receiver, including the
//! start.

#[cfg(target_os = "linux")]
mod flow;
#[cfg(target_os = "linux")]
mod native;
#[cfg(target_os = "linux")]
mod tables;

#[cfg(target_os = "linux")]
fn main() {
    tables::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}
