//! Counts of flows: bytes received in bins, and samples of the senders' state. Times are since time
//! 0 of the flows.

use std::net::TcpStream;
use std::time::Duration;

use rdt_sim::Arrived;
use rdt_udp::TcpInfo;
use serde::{Deserialize, Serialize};

use crate::engine::flow_metrics::Datagrams;

/// States of the congestion control as `TCP_INFO` numbers them (`TCP_CA_` of linux/tcp.h): reduced
/// by ECN or the host's queue, fast recovery, recovery after a timeout.
pub(crate) const CA_CWR: u64 = 2;
pub(crate) const CA_RECOVERY: u64 = 3;
pub(crate) const CA_LOSS: u64 = 4;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Counts of each flow, in the order of the request.
    pub(crate) flows: Vec<FlowCounts>,
    /// Processor time of the load program, user and system.
    pub(crate) processor: Duration,
    /// Time 0 of the flows on the system's monotonic clock, which the path reports by.
    pub(crate) zero_monotonic: Duration,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FlowCounts {
    pub(crate) sent: Sent,
    pub(crate) received: Received,
    /// Samples of the sender, by their times.
    pub(crate) samples: Vec<(Duration, Sample)>,
}

/// Counts of the receiver.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Received {
    /// Bytes that the application read until the end of the run.
    pub(crate) bytes: u64,
    /// Bytes received, by the time of the read, in bins of equal width from 0 on.
    pub(crate) bins: Vec<u64>,
    pub(crate) first_byte: Option<Duration>,
    /// Time at which the application read the end of the stream.
    pub(crate) completed: Option<Duration>,
    /// Datagrams until the end of the run.
    #[serde(skip)]
    pub(super) arrived: Arrived,
    /// Counts of `arrived`.
    pub(crate) datagrams: Datagrams,
    /// Datagrams after the end of the run.
    pub(crate) late_packets: u64,
    /// Time of the latest datagram.
    pub(crate) latest: Option<Duration>,
}

impl Received {
    /// Counts bytes that were read at `at`.
    pub(super) fn add(&mut self, at: Duration, bytes: usize, bin: Duration) {
        let bytes = bytes as u64;
        self.bytes += bytes;
        self.first_byte.get_or_insert(at);
        let index = usize::try_from(at.as_nanos() / bin.as_nanos().max(1)).unwrap_or(usize::MAX);
        if self.bins.len() <= index {
            self.bins.resize(index + 1, 0);
        }
        self.bins[index] += bytes;
    }
}

/// Counts of the sender.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// The connection, from the start of the handshake on.
    #[serde(skip)]
    pub(super) stream: Option<TcpStream>,
    pub(crate) handshake: Option<Duration>,
    /// Bytes that the socket accepted.
    pub(crate) bytes: u64,
    /// Datagrams that were due, and those of them that the host refused to send.
    pub(crate) packets: u64,
    pub(crate) refused: u64,
    /// Time in which the socket blocked the source.
    pub(crate) blocked: Duration,
    /// Time at which the sender wrote its last byte.
    pub(crate) ended: Option<Duration>,
    /// Why the flow ended early.
    pub(crate) error: Option<String>,
}

/// State of a sender at one time: sizes in bytes, times in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// State of the congestion control, such as [`CA_RECOVERY`].
    pub(crate) ca_state: u64,
    pub(crate) mss: u64,
    pub(crate) cwnd: u64,
    /// Zero before the first reduction.
    pub(crate) ssthresh: u64,
    pub(crate) in_flight: u64,
    pub(crate) peer_window: u64,
    pub(crate) srtt_us: u64,
    pub(crate) min_rtt_us: u64,
    pub(crate) rto_us: u64,
    pub(crate) retransmitted: u64,
    /// Timeouts. `None` where the kernel does not count them.
    pub(crate) timeouts: Option<u64>,
    /// Counters that the kernel does not have for TCP. `None` for TCP.
    pub(crate) rdt: Option<RdtCounters>,
    /// Segments that the receiver reported to have twice, by DSACK. `None` except for TCP.
    pub(crate) duplicated: Option<u64>,
    pub(crate) segments_sent: u64,
    pub(crate) segments_received: u64,
    /// Time with data to send or in flight, and its parts limited by peer's window and send buffer.
    pub(crate) busy_us: u64,
    pub(crate) window_limited_us: u64,
    pub(crate) buffer_limited_us: u64,
}

/// Packets and events of a sender of rdt.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct RdtCounters {
    /// Packets declared lost, and those of them that the receiver's socket dropped.
    pub(crate) lost: u64,
    pub(crate) lost_to_socket: u64,
    /// Recovery episodes that ACKs began.
    pub(crate) recoveries: u64,
    /// Recovery episodes and timeouts in which nothing was lost.
    pub(crate) spurious: u64,
}

impl From<TcpInfo> for Sample {
    fn from(info: TcpInfo) -> Self {
        let mss = u64::from(info.mss);
        Self {
            ca_state: info.ca_state.into(),
            mss,
            cwnd: info.cwnd_bytes(),
            ssthresh: info.ssthresh_bytes().unwrap_or(0),
            in_flight: mss * u64::from(info.in_flight),
            peer_window: info.peer_window.into(),
            srtt_us: info.srtt_us.into(),
            min_rtt_us: info.min_rtt_us.into(),
            rto_us: info.rto_us.into(),
            retransmitted: info.retransmitted.into(),
            timeouts: info.timeouts.map(u64::from),
            rdt: None,
            duplicated: Some(info.duplicates.into()),
            segments_sent: info.segments_sent.into(),
            segments_received: info.segments_received.into(),
            busy_us: info.busy_us,
            window_limited_us: info.window_limited_us,
            buffer_limited_us: info.buffer_limited_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_arrival_times() {
        let mut received = Received::default();
        let bin = Duration::from_millis(100);
        for (at, bytes) in [(0, 1), (99, 2), (100, 4), (350, 8)] {
            received.add(Duration::from_millis(at), bytes, bin);
        }
        assert_eq!(received.bins, [3, 4, 0, 8]);
        assert_eq!((received.bytes, received.first_byte), (15, Some(Duration::ZERO)));
    }
}
