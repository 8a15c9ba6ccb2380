//! Datagrams as fast as they can be sent, and reading them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rdt_driver::clock;

/// Where the receiver is at the far end of a run.
const PORT: u16 = 9;
/// Between two looks at the clock.
const BURST: usize = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct FloodArgs {
    /// Bytes of each datagram; none is to be the receiver.
    #[arg(long)]
    size: Option<u16>,
    #[arg(long, default_value_t = 0)]
    ms: u64,
}

/// The hidden command: one end of a flood inside a run. Errors end it, and show in what arrives.
pub(crate) fn command(args: &FloodArgs) -> io::Result<()> {
    let address = |name| {
        let address = std::env::var(name).ok().and_then(|text| text.parse().ok());
        address.map(|ip| SocketAddr::new(ip, PORT)).ok_or(io::ErrorKind::AddrNotAvailable)
    };
    match args.size {
        Some(size) => {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(address("RDT_PEER")?)?;
            send(&socket, size, Duration::from_millis(args.ms));
            Ok(())
        }
        None => receive(&UdpSocket::bind(address("RDT_LOCAL")?)?),
    }
}

/// Sends for so long.
pub(super) fn send(socket: &UdpSocket, size: u16, time: Duration) {
    let bytes = vec![0; size.into()];
    let end = clock::now() + time;
    while clock::now() < end {
        for _ in 0..BURST {
            // No room is what a flood is about.
            let _ = socket.send(&bytes);
        }
    }
}

/// Reads until an error, which a datagram of no bytes is too.
pub(super) fn receive(socket: &UdpSocket) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    while socket.recv(&mut bytes)? > 0 {}
    Ok(())
}
