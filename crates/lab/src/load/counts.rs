//! Counts of a flow: bytes received in bins, and samples of the sender's `TCP_INFO`.

use std::net::TcpStream;
use std::time::Duration;

use rdt_udp::TcpInfo;
use serde_json::{Value, json};

use crate::cell::nanoseconds;

/// What the receiver's application has read.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Bytes until the end of the run.
    pub(super) bytes: u64,
    /// The same bytes by the time at which they were read, in bins of equal width from 0 on.
    pub(super) bins: Vec<u64>,
    pub(super) first_byte: Option<Duration>,
    /// Time at which the end of the data was read.
    pub(super) completed: Option<Duration>,
    /// Datagrams until the end of the run.
    pub(super) packets: u64,
    /// Datagrams after the end of the run.
    pub(super) late_packets: u64,
    /// Datagrams with a smaller number than an earlier one.
    pub(super) reordered: u64,
    /// Jitter (RFC 3550, section 6.4.1), seconds.
    pub(super) jitter_s: f64,
    pub(super) delay_sum: Duration,
    pub(super) delay_max: Duration,
    pub(super) longest_gap: Duration,
    /// Time of the latest datagram.
    pub(super) latest: Option<Duration>,
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

    pub(super) fn to_json(&self) -> Value {
        json!({
            "bytes": self.bytes,
            "bins": self.bins,
            "first_byte_ns": self.first_byte.map(nanoseconds),
            "completed_ns": self.completed.map(nanoseconds),
            "packets": self.packets,
            "late_packets": self.late_packets,
            "reordered": self.reordered,
            "jitter_s": self.jitter_s,
            "delay_sum_ns": nanoseconds(self.delay_sum),
            "delay_max_ns": nanoseconds(self.delay_max),
            "longest_gap_ns": nanoseconds(self.longest_gap),
        })
    }
}

/// What the sender has done.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The connection, once the handshake has begun.
    pub(super) stream: Option<TcpStream>,
    /// Duration of the handshake.
    pub(super) handshake: Option<Duration>,
    /// Bytes that the socket accepted.
    pub(super) bytes: u64,
    /// Datagrams handed to the socket, and those that the host refused.
    pub(super) packets: u64,
    pub(super) refused: u64,
    /// Time in which the socket blocked the source.
    pub(super) blocked: Duration,
    /// Time at which the sender wrote its last byte.
    pub(super) ended: Option<Duration>,
    /// Why the flow ended early.
    pub(super) error: Option<String>,
}

/// Samples of `TCP_INFO` of a sender.
#[derive(Debug, Default)]
pub(super) struct Samples {
    rows: Vec<(Duration, TcpInfo)>,
}

impl Samples {
    pub(super) fn add(&mut self, at: Duration, info: TcpInfo) {
        self.rows.push((at, info));
    }

    /// Returns the samples in columns, and the last one whole.
    pub(super) fn to_json(&self) -> Value {
        let column = |value: &dyn Fn(&TcpInfo) -> u64| -> Vec<u64> {
            self.rows.iter().map(|(_, info)| value(info)).collect()
        };
        let segments = |info: &TcpInfo, count: u32| u64::from(info.mss) * u64::from(count);
        let times: Vec<u64> = self.rows.iter().map(|(at, _)| nanoseconds(*at)).collect();
        json!({
            "at_ns": times,
            "cwnd": column(&|it| segments(it, it.cwnd)),
            "ssthresh": column(&|it| if it.ssthresh >= i32::MAX as u32 { 0 } else { segments(it, it.ssthresh) }),
            "srtt_us": column(&|it| it.srtt_us.into()),
            "rto_us": column(&|it| it.rto_us.into()),
            "in_flight": column(&|it| segments(it, it.in_flight)),
            "peer_window": column(&|it| it.peer_window.into()),
            "ca_state": column(&|it| it.ca_state.into()),
            "retransmitted": column(&|it| it.retransmitted.into()),
            "timeouts": column(&|it| it.timeouts.unwrap_or(0).into()),
            "busy_us": column(&|it| it.busy_us),
            "window_limited_us": column(&|it| it.window_limited_us),
            "buffer_limited_us": column(&|it| it.buffer_limited_us),
            "last": self.rows.last().map(|(_, info)| last(info)),
        })
    }
}

fn last(info: &TcpInfo) -> Value {
    json!({
        "sack": info.options & 2 != 0,
        "timestamps": info.options & 1 != 0,
        "ecn": info.options & 8 != 0,
        "mss": info.mss,
        "retransmitted": info.retransmitted,
        "timeouts": info.timeouts,
        "duplicates": info.duplicates,
        "segments_sent": info.segments_sent,
        "data_segments_sent": info.data_segments_sent,
        "segments_received": info.segments_received,
        "acknowledged_bytes": info.acknowledged_bytes,
        "unsent_bytes": info.unsent_bytes,
        "min_rtt_us": info.min_rtt_us,
        "busy_us": info.busy_us,
        "window_limited_us": info.window_limited_us,
        "buffer_limited_us": info.buffer_limited_us,
    })
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
