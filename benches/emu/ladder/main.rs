//! Rate and RTT of emulated links compared with the requested ones, for a series of rates (rungs):
//! a load of 1400-byte datagrams at 3 % above the link's rate, and pings without load. Linux only.
//!
//! `cargo bench --bench ladder` (`-- proxy` or `-- namespace` for one of the two, `--wait sleep` as
//! for `rdt-emu`). `--check` fails if a rate is off by more than 1 % or a median RTT by more than
//! 100 us. The rate counts IP packets at the receiver. Pings are sent every 10 ms by a busy-polling
//! thread, so that the RTT includes no wake-up of a program.

#[cfg(target_os = "linux")]
mod rungs;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod traffic;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    table::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
