//! Sender and receiver of test load: datagrams at a given rate, or as fast as possible.
//!
//! Sender and receiver process batches, which leaves most of the CPU to the relay under test.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rdt_udp::{DatagramIo, SocketError, UdpIo, UdpOptions, clock};

use crate::Failure;

/// UDP port of the receiver inside a run: discard (RFC 863).
const PORT: u16 = 9;
/// Sleep of a sender that is ahead of its rate.
const SENDER_SLEEP: Duration = Duration::from_micros(500);
/// Sleep of a receiver whose socket is empty. Datagrams that overflow the socket during the sleep
/// still count as delivered, because the link delivered them.
const RECEIVER_SLEEP: Duration = Duration::from_millis(1);

/// Load: datagram size, rate and duration.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Flood {
    /// Bytes of each datagram; 0 makes this process the receiver.
    #[arg(long, default_value_t = 0)]
    pub(super) size: u16,
    /// Datagrams per second; unlimited by default.
    #[arg(long)]
    pub(super) pps: Option<u64>,
    /// Duration, ms.
    #[arg(long, default_value_t = 0)]
    pub(super) ms: u64,
}

pub(crate) fn command(flood: Flood) -> Result<(), Failure> {
    let address = |name| {
        let address = std::env::var(name).ok().and_then(|text| text.parse().ok());
        let missing = || Failure::usage(format!("${name} is no address: `calibrate` starts this"));
        address.map(|ip| SocketAddr::new(ip, PORT)).ok_or_else(missing)
    };
    if flood.size > 0 {
        return flood.send(address("RDT_PEER")?).map_err(Failure::unavailable);
    }
    let socket = UdpIo::bind(address("RDT_LOCAL")?, UdpOptions::default()).map_err(Failure::unavailable)?;
    receive(socket, || false).map_err(Failure::unavailable)
}

impl Flood {
    /// Sends datagrams to an IPv4 address for the configured time.
    pub(super) fn send(self, to: SocketAddr) -> Result<(), SocketError> {
        let mut io = UdpIo::bind(SocketAddr::from(([0, 0, 0, 0], 0)), UdpOptions::default())?;
        let (begin, time) = (clock::now(), Duration::from_millis(self.ms));
        let mut sent = 0;
        loop {
            let elapsed = clock::now().saturating_duration_since(begin);
            if elapsed >= time {
                return Ok(());
            }
            let due = self.due(elapsed);
            if sent >= due {
                sleep(SENDER_SLEEP);
                continue;
            }
            let Some(batch) = io.transmit_buf() else {
                thread::yield_now();
                continue;
            };
            while sent < due && batch.slot(self.size.into()).is_some() {
                sent += 1;
            }
            io.flush(to.into());
        }
    }

    fn due(self, elapsed: Duration) -> u64 {
        let Some(pps) = self.pps else { return u64::MAX };
        let due = u128::from(pps).saturating_mul(elapsed.as_micros()) / 1_000_000;
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

/// Reads datagrams until `stop` returns true. Checks `stop` only when the socket is empty.
pub(super) fn receive(mut io: UdpIo, stop: impl Fn() -> bool) -> Result<(), SocketError> {
    loop {
        while io.recv().is_some() {}
        if let Some(error) = io.take_error() {
            return Err(error);
        }
        if stop() {
            return Ok(());
        }
        sleep(RECEIVER_SLEEP);
    }
}

#[expect(clippy::disallowed_methods, reason = "neither end replies, so no thread waits for it")]
fn sleep(time: Duration) {
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_datagrams_follow_the_rate() {
        let flood = |pps| Flood { size: 100, pps, ms: 1 };
        assert_eq!(flood(Some(1500)).due(Duration::from_millis(2)), 3);
        assert_eq!(flood(Some(u64::MAX)).due(Duration::MAX), u64::MAX);
        assert_eq!(flood(None).due(Duration::ZERO), u64::MAX);
    }
}
