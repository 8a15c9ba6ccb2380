//! Receives one transfer into a file; `rdt-send HOST` or the example `send_file` is the other end.
//!
//! `cargo run --example receive -- 0.0.0.0:22345 backup.tar`

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use rdt::driver::{UdpIo, UdpOptions, receive_one};

fn main() -> Result<(), Box<dyn Error>> {
    let [address, path] =
        env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage: ADDRESS:PORT FILE")?;
    let socket = UdpIo::bind(address.parse()?, UdpOptions::default())?;
    println!("listening on {}", socket.local_addr()?);
    // `receive_one` flushes the file before it confirms the transfer.
    let bytes = receive_one(socket, &mut BufWriter::new(File::create(&path)?))?;
    println!("received {bytes} bytes into {path}");
    Ok(())
}
