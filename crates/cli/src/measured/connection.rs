//! Connections that carry a request, an answer, the data and a report: TCP of the kernel, and those
//! of rdt.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rdt_endpoint::blocking::Stream;
use rdt_udp::{TcpInfo, set_congestion};

use super::message::{CONGESTION, Report};

/// Timeout of a read or write, after which Ctrl-C and deadlines are looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a write while data is sent: status lines are so much late.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);
/// Code of CLOSE of a transfer that is given up.
const GIVEN_UP: u32 = 1;
/// Code of CLOSE to a peer beyond a limit.
pub(super) const TOO_MANY_PEERS: u32 = 2;

/// Pair of byte streams. Reads and writes fail with `WouldBlock` after a moment.
pub(super) trait Connection {
    fn set_timeouts(&self) -> io::Result<()>;
    fn io(&self) -> impl Read + Write;

    fn read_some(&self, out: &mut [u8]) -> io::Result<usize> {
        self.io().read(out)
    }

    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io().write(bytes)
    }

    /// Sets the congestion control. Returns false if there is none of this name.
    fn set_congestion(&self, name: &str) -> bool;
    fn finish(&self) -> io::Result<()>;
    /// Ends the connection so that the peer does not take what arrived for all.
    fn reset(&self);
    /// True if the peer has acknowledged all that was written.
    fn is_acknowledged(&self) -> bool;
    fn counters(&self) -> Report;
    /// Returns the name of the cipher, if the format has ciphers.
    fn cipher(&self) -> Option<&'static str> {
        None
    }
}

impl Connection for TcpStream {
    fn set_timeouts(&self) -> io::Result<()> {
        self.set_read_timeout(Some(LOOK_INTERVAL))?;
        self.set_write_timeout(Some(WRITE_TIMEOUT))
    }

    fn io(&self) -> impl Read + Write {
        self
    }

    fn set_congestion(&self, name: &str) -> bool {
        set_congestion(self, name).is_ok()
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn reset(&self) {
        // If it fails, the connection ends as usual.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }

    fn is_acknowledged(&self) -> bool {
        TcpInfo::of(self).is_ok_and(|info| info.unsent_bytes == 0 && info.unacknowledged == 0)
    }

    fn counters(&self) -> Report {
        let info = TcpInfo::of(self).unwrap_or_default();
        let congestion = congestion_of(self);
        let us = |us: u32| Duration::from_micros(if us == u32::MAX { 0 } else { us.into() });
        Report {
            retransmitted: info.retransmitted.into(),
            retransmitted_bytes: info.retransmitted_bytes,
            timeouts: info.timeouts.map(u64::from),
            srtt: us(info.srtt_us),
            min_rtt: us(info.min_rtt_us),
            cwnd: info.cwnd_bytes(),
            congestion: CONGESTION.into_iter().find(|name| Some(*name) == congestion.as_deref()),
            ..Report::default()
        }
    }
}

impl Connection for Stream {
    fn set_timeouts(&self) -> io::Result<()> {
        self.set_read_timeout(Some(LOOK_INTERVAL));
        self.set_write_timeout(Some(WRITE_TIMEOUT));
        Ok(())
    }

    fn io(&self) -> impl Read + Write {
        self
    }

    fn set_congestion(&self, _: &str) -> bool {
        // That of a connection is chosen when it opens.
        false
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn reset(&self) {
        self.close(GIVEN_UP, "the transfer was given up");
    }

    fn is_acknowledged(&self) -> bool {
        self.stats().is_none_or(|stats| stats.sender.bytes_acked >= stats.sender.bytes_written)
    }

    fn counters(&self) -> Report {
        let stats = self.stats().map(|stats| stats.sender).unwrap_or_default();
        Report {
            retransmitted: stats.retransmitted,
            retransmitted_bytes: stats.retransmitted_bytes,
            timeouts: Some(stats.timeouts),
            srtt: stats.srtt.unwrap_or_default(),
            min_rtt: stats.min_rtt.unwrap_or_default(),
            cwnd: stats.cwnd,
            // The default of rdt.
            congestion: Some("bbr"),
            ..Report::default()
        }
    }

    fn cipher(&self) -> Option<&'static str> {
        Some(self.stats()?.aead?.name())
    }
}

/// Returns the congestion control of a connection, as the kernel names it.
pub(super) fn congestion_of(stream: &TcpStream) -> Option<String> {
    let name = socket2::SockRef::from(stream).tcp_congestion().ok()?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    std::str::from_utf8(&name[..end]).ok().map(str::to_owned)
}
