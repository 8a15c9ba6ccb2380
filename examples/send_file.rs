//! Sends a file to the example `receive`, or to `rdt-recv --ticket --output DIRECTORY`.
//!
//! `cargo run --example send_file -- TICKET backup.tar`

use std::env;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let [ticket, path] =
        env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage: TICKET FILE")?;
    let sent = rdt::send_file(&ticket.parse()?, &path)?;
    println!("sent {} bytes at {:.0} Mbit/s, and they are stored", sent.bytes, sent.bits_per_s() / 1e6);
    Ok(())
}
