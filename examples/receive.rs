//! Receives a file into a directory, from the example `send_file` or `rdt-send TICKET --file FILE`.
//!
//! `cargo run --example receive -- '[::]:22345' directory`

use std::env;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let [address, directory] =
        env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage: ADDRESS:PORT DIRECTORY")?;
    let receiver = rdt::FileReceiver::bind(&address)?;
    // A secret for the sender: who has it may send.
    println!("{}", receiver.ticket()?);
    let received = receiver.receive_into(&directory)?;
    println!("received {} bytes into {}", received.bytes, received.path.display());
    Ok(())
}
