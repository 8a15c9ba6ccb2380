//! Rate and RTT of emulated links compared with those requested, rung by rung: load of 1400-byte
//! datagrams at 3 % above the link's rate, and pings over the same link without load. Linux.
//!
//! `cargo bench -p rdt-emu --bench ladder` (`-- proxy` or `-- namespace` for one of the two,
//! `--wait sleep` as for `rdt-emu`, `--check` to fail where a rung is off by more than 1 % or its
//! median round trip by more than 100 us). The flood's rate is counted where it arrives, as IP
//! packets; pings are sent every 10 ms by a spinning thread, so that the result is
//! the link and the host's network code.

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
