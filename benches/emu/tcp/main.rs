//! Kernel TCP over paths of `rdt-emu run`: use of a link, sharing of it, and effect of the window.
//! Linux.
//!
//! `cargo bench --bench tcp` (`-- link`, `-- shares`, `-- windows`, `-- beside` or `-- rules` for
//! one table). Both ends are this program; rates are payload rates at the receiver, the start
//! included.

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
