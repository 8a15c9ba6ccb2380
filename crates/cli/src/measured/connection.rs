//! TCP connections of the kernel.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rdt_udp::{TcpInfo, set_congestion};

use super::message::{CONGESTION, Report};
use super::session::Pipe;

/// Timeout of a read or write, after which Ctrl-C and deadlines are looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a write while data is sent: status lines are so much late.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);

/// Lets reads and writes fail with `WouldBlock` after a moment.
pub(super) fn set_timeouts(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK_INTERVAL))?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))
}

/// Ends the connection so that the peer does not take what arrived for all.
pub(super) fn reset(stream: &TcpStream) {
    // If it fails, the connection ends as usual.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

impl Pipe for &TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        io::Read::read(self, out)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(self, bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn set_congestion(&mut self, name: &str) -> bool {
        set_congestion(*self, name).is_ok()
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

/// Returns the congestion control of a connection, as the kernel names it.
pub(super) fn congestion_of(stream: &TcpStream) -> Option<String> {
    let name = socket2::SockRef::from(stream).tcp_congestion().ok()?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    std::str::from_utf8(&name[..end]).ok().map(str::to_owned)
}
