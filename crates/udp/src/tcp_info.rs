//! `TCP_INFO` of a connection of the kernel (linux/tcp.h): congestion control, counters, and what
//! limited the sender. `TCP_CONGESTION`: the choice of the congestion control.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use socket2::SockRef;

/// Length of `struct tcp_info` in Linux 6.7, bytes. Earlier kernels fill less of it.
const LEN: usize = 248;

/// State of a TCP connection. Fields that the kernel does not report are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_state`: 1 established, 2 SYN sent; see `tcp_states.h`.
    pub state: u8,
    /// `tcpi_ca_state`: 0 open, 1 disorder, 2 window reduced by ECN, 3 recovery, 4 loss (timeout).
    pub ca_state: u8,
    /// Probes of a closed window without an answer.
    pub probes: u8,
    /// Retransmission timeout, microseconds.
    pub rto_us: u32,
    /// Segment size of the sender, bytes.
    pub mss: u32,
    /// Segments in flight: sent and neither acknowledged nor lost, retransmissions included.
    pub in_flight: u32,
    /// Segments sent and not acknowledged.
    pub unacknowledged: u32,
    /// Time since the last ACK arrived, milliseconds.
    pub last_ack_ms: u32,
    /// Smoothed round-trip time, microseconds.
    pub srtt_us: u32,
    /// Smallest round-trip time, microseconds.
    pub min_rtt_us: u32,
    /// Slow start threshold, segments; at least 2^31 - 1 before the first reduction.
    pub ssthresh: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Payload of the retransmitted segments, bytes.
    pub retransmitted_bytes: u64,
    /// Segments sent, without data too.
    pub segments_sent: u32,
    /// Segments sent that had data, retransmissions included.
    pub data_segments_sent: u32,
    /// Segments received.
    pub segments_received: u32,
    /// Bytes written and not sent yet.
    pub unsent_bytes: u32,
    /// Bytes that the peer acknowledged, and 1 for the SYN.
    pub acknowledged_bytes: u64,
    /// Time with data to send or in flight, microseconds.
    pub busy_us: u64,
    /// Part of `busy_us` in which the peer's window was the limit, microseconds.
    pub window_limited_us: u64,
    /// Part of `busy_us` in which the send buffer was the limit, microseconds.
    pub buffer_limited_us: u64,
    /// Retransmissions that were not necessary, according to duplicate selective ACKs.
    pub duplicates: u32,
    /// Window that the peer offers, bytes.
    pub peer_window: u32,
    /// Retransmission timeouts. `None` before Linux 6.7.
    pub timeouts: Option<u16>,
}

impl TcpInfo {
    /// True once the handshake has ended. Before, the windows are not those of the connection.
    pub fn is_connected(&self) -> bool {
        /// `TCP_SYN_SENT`, `TCP_SYN_RECV`, `TCP_CLOSE` and `TCP_LISTEN`.
        const UNCONNECTED: [u8; 4] = [2, 3, 7, 10];
        !UNCONNECTED.contains(&self.state)
    }

    /// Returns the congestion window, bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        u64::from(self.mss) * u64::from(self.cwnd)
    }

    /// Returns the slow start threshold, bytes; `None` before the first reduction.
    pub fn ssthresh_bytes(&self) -> Option<u64> {
        (self.ssthresh < i32::MAX as u32).then(|| u64::from(self.mss) * u64::from(self.ssthresh))
    }

    /// Reads the state of a connected TCP socket.
    ///
    /// # Errors
    /// The descriptor is not a TCP socket.
    #[expect(unsafe_code, reason = "TCP_INFO has no safe wrapper")]
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0_u8; LEN];
        let mut length = libc::socklen_t::try_from(LEN).unwrap_or_default();
        // SAFETY: the descriptor is open as long as `socket` is borrowed. The kernel writes at most
        // `length` bytes to `bytes`, and the number written to `length`; both outlive the call.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let length = usize::try_from(length).unwrap_or_default();
        Ok(Self::parse(bytes.get(..length).unwrap_or(&bytes)))
    }

    /// Parses `struct tcp_info`, of which the end may be missing.
    fn parse(bytes: &[u8]) -> Self {
        let word =
            |at: usize| bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let long =
            |at: usize| bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let (unacked, sacked, lost, retransmitted_now) = (word(24), word(28), word(32), word(36));
        Self {
            state: bytes.first().copied().unwrap_or(0),
            ca_state: bytes.get(1).copied().unwrap_or(0),
            probes: bytes.get(3).copied().unwrap_or(0),
            rto_us: word(8),
            mss: word(16),
            in_flight: (unacked + retransmitted_now).saturating_sub(sacked + lost),
            unacknowledged: unacked,
            last_ack_ms: word(56),
            srtt_us: word(68),
            ssthresh: word(76),
            cwnd: word(80),
            retransmitted: word(100),
            retransmitted_bytes: long(208),
            acknowledged_bytes: long(120),
            segments_sent: word(136),
            segments_received: word(140),
            unsent_bytes: word(144),
            min_rtt_us: word(148),
            data_segments_sent: word(156),
            busy_us: long(168),
            window_limited_us: long(176),
            buffer_limited_us: long(184),
            duplicates: word(216),
            peer_window: word(228),
            timeouts: bytes.get(240..242).and_then(|it| it.try_into().ok()).map(u16::from_ne_bytes),
        }
    }
}

/// Why a socket did not get the congestion control that was asked for.
#[derive(Debug, thiserror::Error)]
#[error(
    "this kernel has no congestion control '{name}' ({error}): choose one of /proc/sys/net/ipv4/tcp_available_congestion_control"
)]
pub struct NoCongestionControl {
    name: String,
    error: io::Error,
}

/// Sets the congestion control of a TCP socket (`TCP_CONGESTION`), such as `cubic`.
///
/// # Errors
/// The kernel does not have it, or does not allow it to this user.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> Result<(), NoCongestionControl> {
    SockRef::from(socket)
        .set_tcp_congestion(name.as_bytes())
        .map_err(|error| NoCongestionControl { name: name.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn connection_reports_bytes_and_window() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        sender.write_all(&[7; 5000]).unwrap();
        receiver.read_exact(&mut [0; 5000]).unwrap();
        let info = TcpInfo::of(&sender).unwrap();
        assert_eq!((info.retransmitted, info.unsent_bytes), (0, 0));
        // The ACK of the data may be delayed.
        assert!((1..=5001).contains(&info.acknowledged_bytes), "{info:?}");
        assert!(
            info.is_connected() && info.cwnd > 0 && info.mss > 0 && info.srtt_us > 0 && info.peer_window > 0,
            "{info:?}"
        );
    }

    #[test]
    fn shorter_structs_have_zeros() {
        let mut bytes = [0; 104];
        bytes[80] = 10;
        let info = TcpInfo::parse(&bytes);
        assert_eq!((info.cwnd, info.busy_us, info.timeouts), (10, 0, None));
    }

    #[test]
    fn missing_congestion_control_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(set_congestion(&listener, "reno").is_ok());
        let error = set_congestion(&listener, "nosuch").unwrap_err().to_string();
        assert!(error.starts_with("this kernel has no congestion control 'nosuch' ("), "{error}");
    }

    #[test]
    fn other_sockets_are_refused() {
        assert!(TcpInfo::of(&UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
