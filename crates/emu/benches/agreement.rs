//! Arrival times of packets compared with the model: `cargo bench -p rdt-emu --bench agreement`,
//! about 10 s.
//!
//! 10,000 numbered packets in bursts cross one path through the proxy and through a namespace. The
//! kernel stamps each where it is received. What `rdt-emu sim` says of the same packets, path and
//! seed is told beside it: whether each was lost, copied and changed as it should be, and how much
//! later it arrived than at its due time. When a packet came into the path is told by the relay
//! (`--pcapng`): the kernel's stamp in the proxy, the time of the read in a namespace.

#![allow(clippy::unwrap_used, reason = "a bench that cannot measure has nothing to say")]

#[cfg(target_os = "linux")]
#[path = "agreement/ends.rs"]
mod ends;
#[cfg(target_os = "linux")]
#[path = "agreement/model.rs"]
mod model;
#[cfg(target_os = "linux")]
#[path = "agreement/modes.rs"]
mod modes;

fn main() {
    #[cfg(target_os = "linux")]
    modes::main();
    #[cfg(not(target_os = "linux"))]
    eprintln!("the stamps of the kernel are those of Linux");
}
