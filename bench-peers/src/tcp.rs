//! The kernel's TCP, with loopback's own segments and with those of an Ethernet link.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};

use anyhow::Result;
use socket2::{Domain, Socket, Type};

use crate::meter::{self, Hello, Meter};

/// What one call writes or reads at most.
const CALL: usize = 128 << 10;

/// What a link with 1500-byte packets announces: less the timestamps of 12 bytes, 1448 bytes of payload a segment.
pub(crate) const MSS: u32 = 1460;

pub(crate) const TUNED: &str = "CUBIC, 128 KiB a call, the 64 KiB segments that loopback allows";
pub(crate) const TUNED_MSS: &str =
    "CUBIC, 128 KiB a call, segments of 1448 bytes (`TCP_MAXSEG` 1460 less timestamps)";

/// A socket that is neither connected nor listening, as `TCP_MAXSEG` has to be set before.
fn socket(mss: Option<u32>) -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(b"cubic")?;
    if let Some(mss) = mss {
        socket.set_tcp_mss(mss)?;
    }
    Ok(socket)
}

pub(crate) fn receive(bytes: u64, mss: Option<u32>) -> Result<()> {
    let listener = socket(mss)?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(1)?;
    let listener = std::net::TcpListener::from(listener);
    meter::print_hello(listener.local_addr()?, None);
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; CALL];
    let mut meter = Meter::new(bytes);
    while !meter.full() {
        match stream.read(&mut buffer)? {
            0 => break,
            length => meter.count(length),
        }
    }
    meter.print(meter.seconds())
}

pub(crate) fn send(bytes: u64, mss: Option<u32>) -> Result<()> {
    let socket = socket(mss)?;
    socket.connect(&Hello::read()?.address()?.into())?;
    let mut stream = std::net::TcpStream::from(socket);
    let source = meter::source();
    for block in meter::blocks(bytes, CALL) {
        stream.write_all(&source[block])?;
    }
    stream.shutdown(Shutdown::Write)?;
    // The receiver closes when it has everything.
    let rest = stream.read(&mut [0])?;
    anyhow::ensure!(rest == 0, "the receiver sent something");
    meter::print_sent()
}
