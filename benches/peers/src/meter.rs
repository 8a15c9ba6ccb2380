//! Shared by the children: source and count of the bytes, and the lines for the parent.

use std::io::BufRead as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Size of the buffer that the sender sends in a cycle, bytes. It fits a cache, as a program's
/// buffer would.
pub(crate) const SOURCE: usize = 256 << 10;

pub(crate) fn source() -> Vec<u8> {
    (0..=u8::MAX).cycle().take(SOURCE).collect()
}

/// Returns the ranges in the source of the next blocks of `size` bytes, until `bytes` are sent.
pub(crate) fn blocks(bytes: u64, size: usize) -> impl Iterator<Item = Range<usize>> {
    let (mut left, mut at) = (bytes, 0);
    std::iter::from_fn(move || {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(size).min(SOURCE - at);
        let block = at..at + length;
        left -= length as u64;
        at = block.end % SOURCE;
        (length > 0).then_some(block)
    })
}

/// Byte count and start time of the receiver.
pub(crate) struct Meter {
    expected: u64,
    bytes: u64,
    first: Option<Instant>,
}

impl Meter {
    pub(crate) fn new(expected: u64) -> Self {
        Self { expected, bytes: 0, first: None }
    }

    /// Counts received bytes.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.first.get_or_insert_with(Instant::now);
        self.bytes += bytes as u64;
    }

    /// Returns true if all bytes have arrived.
    pub(crate) fn full(&self) -> bool {
        self.bytes >= self.expected
    }

    /// Returns the seconds since the first byte arrived.
    pub(crate) fn seconds(&self) -> f64 {
        self.first.map_or(0.0, |first| first.elapsed().as_secs_f64())
    }

    /// Reports the result to the parent, after the connection is closed.
    ///
    /// `crc` is the checksum of the bytes, if the peer computes one.
    pub(crate) fn print(&self, seconds: f64, crc: Option<u32>) -> Result<()> {
        ensure!(self.bytes == self.expected, "{} bytes of {} came", self.bytes, self.expected);
        let processor_ns = processor_ns()?;
        println!(
            "{}",
            json!({ "bytes": self.bytes, "seconds": seconds, "processor_ns": processor_ns, "crc": crc })
        );
        Ok(())
    }
}

/// Prints the sender's last line. The parent compares the checksum, if there is one.
pub(crate) fn print_sent(crc: Option<u32>) -> Result<()> {
    println!("{}", json!({ "processor_ns": processor_ns()?, "crc": crc }));
    Ok(())
}

/// Returns the processor time of this process so far, nanoseconds.
fn processor_ns() -> Result<u64> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(u64::try_from(time.tv_sec)? * 1_000_000_000 + u64::try_from(time.tv_nsec)?)
}

/// Prints the receiver's first line: address, and certificate if there is one.
pub(crate) fn print_hello(address: SocketAddr, certificate: Option<&str>) {
    println!("{}", json!({ "address": address, "certificate": certificate }));
}

/// First line of the receiver, which the parent passes to the sender.
pub(crate) struct Hello(Value);

impl Hello {
    pub(crate) fn read() -> Result<Self> {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        Ok(Self(serde_json::from_str(&line).context("the receiver's line on standard input")?))
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(self.0["address"].as_str().context("no address")?.parse()?)
    }

    #[cfg(any(feature = "tls", feature = "s2n", feature = "quiche", feature = "msquic"))]
    pub(crate) fn certificate(&self) -> Result<&str> {
        self.0["certificate"].as_str().context("no certificate")
    }
}

/// Returns a tokio runtime on the current thread, because more threads are of no use for one
/// stream.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_bytes_and_wrap() {
        let all: Vec<_> = blocks(SOURCE as u64 + 10, 100_000).collect();
        assert_eq!(all, [0..100_000, 100_000..200_000, 200_000..SOURCE, 0..10]);
        assert_eq!(blocks(0, 100).count(), 0);
    }
}
