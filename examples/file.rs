//! File transfer over an encrypted stream with threads: the receiver confirms after it has stored.
//!
//! `cargo run --example file -- receive 127.0.0.1:7300 backup.tar` prints the key for
//! `cargo run --example file -- send 127.0.0.1:7300 KEY backup.tar`.

use std::error::Error;
use std::fs::File;
use std::io;
use std::net::Shutdown;

use rdt::blocking::{Endpoint, connect};
use rdt::{Confirm, Connect, ConnectionConfig, EndpointConfig, Listen, generate_key};

fn receive(address: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let identity = generate_key()?;
    let endpoint = Endpoint::bind(address, EndpointConfig::default())?;
    println!("{} {}", endpoint.local_addr(), identity.public());
    let listen = Listen::new(identity).config(ConnectionConfig::default().confirm(Confirm::ByApplication));
    let mut stream = endpoint.listen(listen)?.accept()?;
    let mut file = File::create(path)?;
    let bytes = io::copy(&mut stream, &mut file)?;
    file.sync_all()?;
    stream.confirm();
    drop(stream);
    // The confirmation may get lost, and is repeated as long as the endpoint exists.
    endpoint.wait_idle(None);
    println!("received {bytes} bytes into {path}");
    Ok(())
}

fn send(address: &str, key: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut stream = connect(address, Connect::to(key.parse()?))?;
    io::copy(&mut file, &mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    println!("{} bytes are stored at {:?}", stream.delivered()?, stream.peer_addr());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, path] => receive(address, path),
        ["send", address, key, path] => send(address, key, path),
        _ => Err("usage: receive ADDRESS FILE | send ADDRESS KEY FILE".into()),
    }
}
