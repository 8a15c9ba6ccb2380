//! Kernel TCP with segments of loopback and of Ethernet, with and without a CRC-32 of every byte,
//! which rdt's rate includes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};

use anyhow::Result;
use libdeflater::Crc;
use socket2::{Domain, Socket, Type};

use crate::meter::{self, Hello, Meter};

/// Limit on the bytes of one read or write.
const CALL: usize = 128 << 10;

/// MSS of a link with 1500-byte packets, bytes. 12 bytes of each segment are timestamps, so its
/// payload is 1448 bytes.
const MSS: u32 = 1460;

pub(crate) const TUNED: &str = "CUBIC, 128 KiB a call, the 64 KiB segments that loopback allows";
pub(crate) const TUNED_CRC: &str =
    "as TCP; each side takes a CRC-32 (libdeflate) of every block that it writes or reads";
pub(crate) const TUNED_MSS: &str =
    "CUBIC, 128 KiB a call, segments of 1448 bytes (`TCP_MAXSEG` 1460 less timestamps)";
pub(crate) const TUNED_MSS_CRC: &str = "as TCP with 1448-byte segments; each side takes a CRC-32 (libdeflate) of every block that it writes or reads";

/// Options of a TCP peer.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    /// True for the segment size of an Ethernet link.
    pub(crate) small: bool,
    /// True for a CRC-32 at both ends.
    pub(crate) checked: bool,
}

impl Variant {
    /// Returns a socket before connect or listen, because `TCP_MAXSEG` must be set before.
    fn socket(self) -> Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_tcp_congestion(b"cubic")?;
        if self.small {
            socket.set_tcp_mss(MSS)?;
        }
        Ok(socket)
    }

    fn hasher(self) -> Option<Crc> {
        self.checked.then(Crc::new)
    }
}

pub(crate) fn receive(bytes: u64, variant: Variant) -> Result<()> {
    let listener = variant.socket()?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(1)?;
    let listener = std::net::TcpListener::from(listener);
    meter::print_hello(listener.local_addr()?, None);
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; CALL];
    let mut meter = Meter::new(bytes);
    let mut crc = variant.hasher();
    while !meter.full() {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        meter.count(length);
        if let Some(crc) = &mut crc {
            crc.update(&buffer[..length]);
        }
    }
    meter.print(meter.seconds(), crc.map(|crc| crc.sum()))
}

pub(crate) fn send(bytes: u64, variant: Variant) -> Result<()> {
    let socket = variant.socket()?;
    socket.connect(&Hello::read()?.address()?.into())?;
    let mut stream = std::net::TcpStream::from(socket);
    let source = meter::source();
    let mut crc = variant.hasher();
    for block in meter::blocks(bytes, CALL) {
        let block = &source[block];
        if let Some(crc) = &mut crc {
            crc.update(block);
        }
        stream.write_all(block)?;
    }
    stream.shutdown(Shutdown::Write)?;
    // The receiver closes the connection after the last byte.
    let rest = stream.read(&mut [0])?;
    anyhow::ensure!(rest == 0, "the receiver sent something");
    meter::print_sent(crc.map(|crc| crc.sum()))
}
