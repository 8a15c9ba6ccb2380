//! Kernel TCP over paths of `rdt-emu run`: what it gets of a link, how two flows share it, and what
//! a window allows. Linux.
//!
//! `cargo bench -p rdt-emu --bench tcp` (`-- link`, `-- shares`, `-- windows`, `-- beside` or `--
//! rules` for one of the tables). Both ends are this program; rates are those of payload where it
//! arrives, the start included.

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
