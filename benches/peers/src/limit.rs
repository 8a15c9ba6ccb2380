//! Upper limits of the rate: datagrams as large as rdt's, with a limit on the bytes in flight and
//! without reliability. Both ends either take a CRC-32 of every byte, or seal and open every
//! datagram. Sockets and loop are those of the limit in `cargo bench --bench line_rate`, but in a
//! program of its own that runs between the peers.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use libdeflater::Crc;
use rdt_crypto::{Aead, PacketKey, Space};

use crate::meter::{self, Hello, Meter, SOURCE};
use crate::plain::{LARGEST, Plain};

pub(crate) const TUNED: &str = "1472-byte datagrams, GSO and GRO, 1 MiB in flight, no reliability; each side takes a CRC-32 \
    of every byte where it lies and makes no other copy; looks for 50 us before it sleeps; counts whole datagrams";

pub(crate) const TUNED_SEALED: &str = "the same without CRC-32: each side seals or opens every whole datagram where it \
    lies, with rdt's own AEAD";

pub(crate) const TUNED_PLAIN: &str =
    "the same without GSO and GRO: `sendmmsg` and `recvmmsg` of up to 64 datagrams";

/// Bytes per datagram, the same as rdt's.
const DATAGRAM: usize = 1472;
/// Bytes per send call: as many whole datagrams as fit.
const BATCH: usize = LARGEST / DATAGRAM * DATAGRAM;
/// Limit on the bytes in flight, and bytes between two acknowledgements.
const CREDIT: u64 = 1 << 20;
const ACK_EVERY: u64 = CREDIT / 4;

/// What both ends do with every byte.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Checksum,
    Seal(Aead),
}

/// Work of one end, and its state.
enum Worker {
    Checksum(Crc),
    /// Key of both ends, and number of the next datagram.
    Seal(Box<PacketKey>, u64),
}

impl Worker {
    fn new(work: Work) -> Self {
        match work {
            Work::Checksum => Self::Checksum(Crc::new()),
            Work::Seal(aead) => {
                let key = PacketKey::new(aead, &[7; 32][..aead.key_bytes()], [9; 12]);
                Self::Seal(Box::new(key), 0)
            }
        }
    }

    /// Prepares the datagrams of one send call. Only whole datagrams are sealed: the last one of a
    /// transfer may be too short for a tag.
    fn send(&mut self, datagrams: &mut [u8]) {
        match self {
            Self::Checksum(crc) => crc.update(datagrams),
            Self::Seal(key, number) => {
                for datagram in datagrams.chunks_exact_mut(DATAGRAM) {
                    key.seal(Space::Data, *number, datagram);
                    *number += 1;
                }
            }
        }
    }

    /// Checks the datagrams of one receive call, which are in order and without losses.
    fn receive(&mut self, datagrams: &mut [u8]) -> Result<()> {
        match self {
            Self::Checksum(crc) => crc.update(datagrams),
            Self::Seal(key, number) => {
                for datagram in datagrams.chunks_exact_mut(DATAGRAM) {
                    key.open(Space::Data, *number, datagram)
                        .with_context(|| format!("datagram {number} was lost or changed"))?;
                    *number += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns the CRC-32 of the transfer, if the work has one.
    fn crc(&self) -> Option<u32> {
        match self {
            Self::Checksum(crc) => Some(crc.sum()),
            Self::Seal(..) => None,
        }
    }
}

fn bind(offload: bool) -> Plain {
    Plain::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), DATAGRAM, offload)
}

pub(crate) fn receive(bytes: u64, work: Work, offload: bool) -> Result<()> {
    let mut socket = bind(offload);
    meter::print_hello(socket.local_addr(), None);
    let mut message = vec![0; LARGEST];
    let (mut got, mut told, mut worker) = (0, 0, Worker::new(work));
    let mut meter = Meter::new(bytes);
    socket.accept();
    while !meter.full() {
        let length = match whole(bytes - got) {
            // The last datagram is shorter, and arrives alone.
            0 => socket.receive(&mut message),
            _ if offload => socket.receive_many(&mut message),
            room => socket.receive_many(&mut message[..room]),
        };
        worker.receive(&mut message[..length])?;
        meter.count(length);
        got += length as u64;
        if got - told >= ACK_EVERY || meter.full() {
            socket.send(&got.to_le_bytes());
            told = got;
        }
    }
    meter.print(meter.seconds(), worker.crc())
}

pub(crate) fn send(bytes: u64, work: Work, offload: bool) -> Result<()> {
    let mut socket = bind(offload);
    socket.connect(Hello::read()?.address()?);
    // Longer than the cycle by a batch, because a batch may begin anywhere in the cycle.
    let mut source: Vec<u8> = (0..=u8::MAX).cycle().take(SOURCE + BATCH).collect();
    let (mut sent, mut acked, mut worker) = (0, 0, Worker::new(work));
    while acked < bytes {
        let batch = match whole(bytes - sent) {
            0 => usize::try_from(bytes - sent)?,
            batch => batch,
        };
        if batch == 0 || sent + batch as u64 - acked > CREDIT {
            acked = newest_count(&socket, acked);
            continue;
        }
        let at = usize::try_from(sent % SOURCE as u64)?;
        let block = &mut source[at..at + batch];
        worker.send(block);
        socket.send(block);
        sent += batch as u64;
    }
    meter::print_sent(worker.crc())
}

/// Returns the bytes of the whole datagrams among the next `bytes` that one call sends or receives.
fn whole(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(BATCH, |bytes| BATCH.min(bytes / DATAGRAM * DATAGRAM))
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
