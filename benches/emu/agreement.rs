//! Arrival times of packets compared with the model: `cargo bench --bench agreement`, about 10 s.
//!
//! 10,000 numbered packets in bursts cross the same path through the proxy and through a namespace,
//! and the kernel timestamps each arrival. `rdt-emu sim` computes the model from the same packets,
//! path and seed. The table shows whether losses, duplicates and bit errors agree, and how late
//! packets arrived. The times at which packets enter are those of the capture (`--pcapng`): kernel
//! timestamps in the proxy, read times in a namespace.

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
