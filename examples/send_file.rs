//! Sends a file to `rdt-recv --no-link` or to the example `receive`.
//!
//! `cargo run --example send_file -- 127.0.0.1:22345 backup.tar`

use std::env;
use std::error::Error;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};

use rdt::driver::send_file;
use rdt::transport::SenderConfig;

fn main() -> Result<(), Box<dyn Error>> {
    let [address, path] =
        env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage: ADDRESS:PORT FILE")?;
    // The connection id is any random number; no other setting is needed.
    let config = SenderConfig::native(RandomState::new().hash_one(&path));
    let (stats, crc) = send_file(address.parse()?, File::open(&path)?, config)?;
    let bits_per_us = u128::from(stats.bytes_acked) * 8 / stats.elapsed().as_micros().max(1);
    println!("sent {} bytes at {bits_per_us} Mbit/s, CRC-32 {crc:08X}", stats.bytes_acked);
    println!("{} packets retransmitted, {} timeouts", stats.retransmitted, stats.timeouts);
    Ok(())
}
