//! Upper limit of the rate: datagrams as large as rdt's, with a limit on the bytes in flight,
//! without reliability, and with a CRC-32 of every byte at both ends. Sockets and loop are those of
//! the limit in `cargo bench --bench line_rate`, but in a program of its own that runs between the
//! peers.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use libdeflater::Crc;

use crate::meter::{self, Hello, Meter, SOURCE};
use crate::plain::{LARGEST, Plain};

pub(crate) const TUNED: &str = "1472-byte datagrams, GSO and GRO, 1 MiB in flight, no reliability; each side takes a CRC-32 \
    of every byte where it lies and makes no other copy; looks for 50 us before it sleeps; counts whole datagrams";

/// Bytes per datagram, the same as rdt's.
const DATAGRAM: usize = 1472;
/// Bytes per send call: as many whole datagrams as fit.
const BATCH: usize = LARGEST / DATAGRAM * DATAGRAM;
/// Limit on the bytes in flight, and bytes between two acknowledgements.
const CREDIT: u64 = 1 << 20;
const ACK_EVERY: u64 = CREDIT / 4;

fn bind() -> Plain {
    Plain::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), DATAGRAM, true)
}

pub(crate) fn receive(bytes: u64) -> Result<()> {
    let mut socket = bind();
    meter::print_hello(socket.local_addr(), None);
    let mut message = vec![0; LARGEST];
    let (mut got, mut told, mut crc) = (0, 0, Crc::new());
    let mut meter = Meter::new(bytes);
    socket.accept();
    while !meter.full() {
        let length = socket.receive(&mut message);
        crc.update(&message[..length]);
        meter.count(length);
        got += length as u64;
        if got - told >= ACK_EVERY || meter.full() {
            socket.send(&got.to_le_bytes());
            told = got;
        }
    }
    meter.print(meter.seconds(), Some(crc.sum()))
}

pub(crate) fn send(bytes: u64) -> Result<()> {
    let mut socket = bind();
    socket.connect(Hello::read()?.address()?);
    // Longer than the cycle by a batch, because a batch may begin anywhere in the cycle.
    let source: Vec<u8> = (0..=u8::MAX).cycle().take(SOURCE + BATCH).collect();
    let (mut sent, mut acked, mut crc) = (0, 0, Crc::new());
    while acked < bytes {
        let batch = BATCH.min(usize::try_from(bytes - sent).unwrap_or(BATCH));
        if batch == 0 || sent + batch as u64 - acked > CREDIT {
            acked = newest_count(&socket, acked);
            continue;
        }
        let at = usize::try_from(sent % SOURCE as u64)?;
        let block = &source[at..at + batch];
        crc.update(block);
        socket.send(block);
        sent += batch as u64;
    }
    meter::print_sent(Some(crc.sum()))
}

/// Waits for a byte count from the receiver, and returns the newest that has arrived.
fn newest_count(socket: &Plain, before: u64) -> u64 {
    let mut count = [0; 8];
    socket.receive(&mut count);
    let mut newest = before.max(u64::from_le_bytes(count));
    while socket.try_receive(&mut count).is_some() {
        newest = newest.max(u64::from_le_bytes(count));
    }
    newest
}
