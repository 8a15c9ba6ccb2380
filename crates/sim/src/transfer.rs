//! Reading side of a stream: a receiving application that compares every byte with the array of
//! [`payload`](crate::payload).

use std::time::{Duration, Instant};

use crate::payload;
use rdt_server::{SenderId, Server};
use rdt_transport::Connection;

use crate::bins::Bins;
use crate::node_id::NodeId;
use crate::read_policy::Reader;

/// Latest transfer of one peer, as its receiver saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Number of bytes that the application has read.
    pub bytes: u64,
    /// True while every byte read has its expected value.
    pub intact: bool,
    /// CRC-32 of the stream (classic). `None` until all bytes are read.
    pub crc: Option<u32>,
    /// Number of times that the peer started a transfer, including this one.
    pub starts: u32,
    /// Time from the first to the last data packet. `None` until all bytes are read.
    pub elapsed: Option<Duration>,
    /// `None` until the peer is gone; then true if the transfer was unfinished.
    pub closed: Option<bool>,
    /// Virtual time at which the application read the first byte. `None` before.
    pub first_byte_at: Option<Duration>,
    /// Virtual time at which the application confirmed the transfer, with all bytes read. `None`
    /// before.
    pub completed_at: Option<Duration>,
    /// Bytes by the time at which the application read them. `None` without
    /// [`Simulation::record_goodput`](crate::Simulation::record_goodput).
    pub goodput: Option<Bins>,
    /// Results of a transfer whose last bytes the application has not read yet.
    pub(crate) finish: Option<Finish>,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            bytes: 0,
            intact: true,
            crc: None,
            starts: 0,
            elapsed: None,
            closed: None,
            first_byte_at: None,
            completed_at: None,
            goodput: None,
            finish: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) bytes: u64,
    pub(crate) crc: Option<u32>,
    pub(crate) elapsed: Duration,
}

pub(crate) trait Incoming {
    /// Returns contiguous unread bytes; empty if there are none.
    fn data(&self) -> &[u8];
    fn consume(&mut self, n: usize);
}

impl Incoming for Connection {
    fn data(&self) -> &[u8] {
        self.data()
    }

    fn consume(&mut self, n: usize) {
        self.consume(n);
    }
}

/// Stream of one sender of a server.
pub(crate) struct ServerStream<'a> {
    pub(crate) server: &'a mut Server<NodeId>,
    pub(crate) sender: SenderId<NodeId>,
    pub(crate) now: Instant,
}

impl Incoming for ServerStream<'_> {
    fn data(&self) -> &[u8] {
        self.server.data(self.sender).unwrap_or_default()
    }

    fn consume(&mut self, n: usize) {
        self.server.consume(self.now, self.sender, n);
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Read {
    /// True if it read anything, or completed the transfer.
    pub(crate) is_some: bool,
    /// True if it has now read all of the transfer, which is to be confirmed.
    pub(crate) is_complete: bool,
    /// Virtual time of the next read, if a policy delays it.
    pub(crate) next: Option<Duration>,
}

impl Transfer {
    /// Counts bytes that the application got at `now`, in a bin of width `bin`.
    pub(crate) fn count(&mut self, now: Duration, bytes: u64, bin: Option<Duration>) {
        self.bytes += bytes;
        self.first_byte_at.get_or_insert(now);
        if let Some(bin) = bin {
            self.goodput.get_or_insert_with(|| Bins::new(bin)).add(now, bytes);
        }
    }

    /// Reads the bytes that the policy of `reader` allows at virtual time `now`.
    pub(crate) fn read(
        &mut self,
        now: Duration,
        mut reader: Option<&mut Reader>,
        bin: Option<Duration>,
        stream: &mut impl Incoming,
    ) -> Read {
        let before = self.bytes;
        // `data` returns contiguous bytes, so unread data may need several calls.
        loop {
            let data = stream.data();
            if data.is_empty() {
                break;
            }
            let budget = reader.as_mut().map_or(u64::MAX, |reader| reader.budget(now));
            let n = data.len().min(usize::try_from(budget).unwrap_or(usize::MAX));
            if n == 0 {
                let next = reader.map(|reader| reader.next(now));
                return Read { is_some: self.bytes > before, is_complete: false, next };
            }
            self.intact &= payload::matches(self.bytes, &data[..n]);
            self.count(now, n as u64, bin);
            stream.consume(n);
            if let Some(reader) = &mut reader {
                reader.read(n as u64);
            }
        }
        let is_complete = self.complete(now);
        Read { is_some: is_complete || self.bytes > before, is_complete, next: None }
    }

    /// Completes a transfer whose bytes are all read. Returns false if there are more to come.
    fn complete(&mut self, now: Duration) -> bool {
        let Some(Finish { bytes, crc, elapsed }) = self.finish.take() else { return false };
        (self.bytes, self.crc, self.elapsed) = (bytes, crc, Some(elapsed));
        self.completed_at = Some(now);
        true
    }
}
