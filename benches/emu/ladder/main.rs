//! Rate and RTT of emulated links against the requested ones, rung by rung: a load of 1400-byte
//! datagrams at 3 % above the link's rate, and pings without load. Linux.
//!
//! `cargo bench --bench ladder` (`-- proxy` or `-- namespace` for one of the two,
//! `--wait sleep` as for `rdt-emu`). `--check` fails if a rate is off by more than 1 % or a median
//! RTT by more than 100 us. The rate counts IP packets at the receiver. Pings leave every 10 ms
//! from a busy-polling thread, so the result is that of the link and the host's network code.

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
