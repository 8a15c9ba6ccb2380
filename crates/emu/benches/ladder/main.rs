//! Whether links have the rate and the round trip that they are asked for, rung by rung: a flood of datagrams of 1400
//! bytes that offers 3 % more than the link's rate, and pings over the same link without it. Linux.
//!
//! `cargo bench -p rdt-emu --bench ladder` (`-- proxy` or `-- namespace` for one of the two, `--wait sleep` as for
//! `rdt-emu`, `--check` to fail where a rung is off by more than 1 % or its median round trip by more than 100 us). The flood's rate is counted where it arrives, as IP packets; pings leave each 10 ms and whoever sends them
//! spins, so that what is left is the link and the host's network code.

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
