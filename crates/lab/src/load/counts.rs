//! Counts of a flow: bytes received in bins, and samples of the sender's state.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use rdt_udp::{Jitter, TcpInfo};
use serde_json::{Map, Value, json};

use crate::cell::nanoseconds;

/// States of the congestion control as `TCP_INFO` numbers them (`TCP_CA_` of linux/tcp.h): reduced
/// by ECN or the host's queue, fast recovery, recovery after a timeout.
pub(crate) const CA_CWR: u64 = 2;
pub(crate) const CA_RECOVERY: u64 = 3;
pub(crate) const CA_LOSS: u64 = 4;

/// Counts of the receiver.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Bytes that the application read until the end of the run.
    pub(super) bytes: u64,
    /// Bytes received, by the time of the read, in bins of equal width from 0 on.
    pub(super) bins: Vec<u64>,
    pub(super) first_byte: Option<Duration>,
    /// Time at which the application read the end of the stream.
    pub(super) completed: Option<Duration>,
    /// Datagrams until the end of the run.
    pub(super) packets: u64,
    /// Datagrams after the end of the run.
    pub(super) late_packets: u64,
    /// Datagrams with a smaller number than an earlier one.
    pub(super) reordered: u64,
    pub(super) jitter: Jitter,
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
            "bins": list(self.bins.iter().copied()),
            "first_byte_ns": self.first_byte.map(nanoseconds),
            "completed_ns": self.completed.map(nanoseconds),
            "packets": self.packets,
            "late_packets": self.late_packets,
            "reordered": self.reordered,
            "jitter_s": self.jitter.seconds(),
            "delay_sum_ns": nanoseconds(self.delay_sum),
            "delay_max_ns": nanoseconds(self.delay_max),
            "longest_gap_ns": nanoseconds(self.longest_gap),
        })
    }
}

/// Counts of the sender.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The connection, from the start of the handshake on.
    pub(super) stream: Option<TcpStream>,
    /// Duration of the handshake.
    pub(super) handshake: Option<Duration>,
    /// Bytes that the socket accepted.
    pub(super) bytes: u64,
    /// Datagrams that were due, and those of them that the host refused to send.
    pub(super) packets: u64,
    pub(super) refused: u64,
    /// Time in which the socket blocked the source.
    pub(super) blocked: Duration,
    /// Time at which the sender wrote its last byte.
    pub(super) ended: Option<Duration>,
    /// Why the flow ended early.
    pub(super) error: Option<String>,
}

/// State of a sender at one time: sizes in bytes, times in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    /// State of the congestion control, such as [`CA_RECOVERY`].
    pub(super) ca_state: u64,
    pub(super) mss: u64,
    pub(super) cwnd: u64,
    /// Zero before the first reduction.
    pub(super) ssthresh: u64,
    pub(super) in_flight: u64,
    pub(super) peer_window: u64,
    pub(super) srtt_us: u64,
    pub(super) min_rtt_us: u64,
    pub(super) rto_us: u64,
    pub(super) retransmitted: u64,
    /// Timeouts. `None` where the kernel does not count them.
    pub(super) timeouts: Option<u64>,
    /// Packets declared lost, and those of them that the receiver's socket dropped. `None` for TCP.
    pub(super) lost: Option<u64>,
    pub(super) lost_to_socket: Option<u64>,
    /// Recovery episodes that ACKs began. `None` for TCP.
    pub(super) recoveries: Option<u64>,
    /// Spurious retransmissions.
    pub(super) duplicates: u64,
    pub(super) segments_sent: u64,
    pub(super) segments_received: u64,
    /// Time with data to send or in flight, and its parts that the peer's window and the send
    /// buffer limited.
    pub(super) busy_us: u64,
    pub(super) window_limited_us: u64,
    pub(super) buffer_limited_us: u64,
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
            lost: None,
            lost_to_socket: None,
            recoveries: None,
            duplicates: info.duplicates.into(),
            segments_sent: info.segments_sent.into(),
            segments_received: info.segments_received.into(),
            busy_us: info.busy_us,
            window_limited_us: info.window_limited_us,
            buffer_limited_us: info.buffer_limited_us,
        }
    }
}

type ValueOf = fn(&Sample) -> u64;

/// Columns of the samples, by their names in JSON.
const COLUMNS: [(&str, ValueOf); 10] = [
    ("cwnd", |it| it.cwnd),
    ("ssthresh", |it| it.ssthresh),
    ("srtt_us", |it| it.srtt_us),
    ("rto_us", |it| it.rto_us),
    ("in_flight", |it| it.in_flight),
    ("peer_window", |it| it.peer_window),
    ("ca_state", |it| it.ca_state),
    ("busy_us", |it| it.busy_us),
    ("window_limited_us", |it| it.window_limited_us),
    ("buffer_limited_us", |it| it.buffer_limited_us),
];

/// Samples of a sender.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Time in nanoseconds, and the values of all columns.
    rows: Vec<(u64, [u64; COLUMNS.len()])>,
    last: Option<Sample>,
}

impl Samples {
    pub(super) fn add(&mut self, at: Duration, sample: Sample) {
        self.rows.push((nanoseconds(at), COLUMNS.map(|(_, value)| value(&sample))));
        self.last = Some(sample);
    }

    /// Returns the samples in columns, and the counters of the last one.
    pub(super) fn to_json(&self) -> Value {
        let column = |(index, (name, _)): (usize, &(&str, ValueOf))| {
            ((*name).to_owned(), list(self.rows.iter().map(|(_, values)| values[index])).into())
        };
        let mut object: Map<String, Value> = COLUMNS.iter().enumerate().map(column).collect();
        object.insert("at_ns".to_owned(), list(self.rows.iter().map(|(at, _)| *at)).into());
        object.insert("last".to_owned(), self.last.as_ref().map(last).into());
        object.into()
    }
}

/// Returns numbers as one text, with spaces: as an array of JSON they take 32 bytes each in memory.
fn list(numbers: impl Iterator<Item = u64>) -> String {
    let mut text = String::new();
    for number in numbers {
        // Writing to a string cannot fail.
        let _ = write!(text, "{number} ");
    }
    text
}

/// Returns the numbers of a text that the load program printed.
pub(crate) fn numbers(list: &Value) -> impl Iterator<Item = u64> + '_ {
    list.as_str().unwrap_or_default().split_whitespace().map(|number| number.parse().unwrap_or(0))
}

fn last(sample: &Sample) -> Value {
    json!({
        "mss": sample.mss,
        "retransmitted": sample.retransmitted,
        "timeouts": sample.timeouts,
        "lost": sample.lost,
        "lost_to_socket": sample.lost_to_socket,
        "recoveries": sample.recoveries,
        "duplicates": sample.duplicates,
        "segments_sent": sample.segments_sent,
        "segments_received": sample.segments_received,
        "min_rtt_us": sample.min_rtt_us,
        "window_limited_us": sample.window_limited_us,
        "buffer_limited_us": sample.buffer_limited_us,
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
        assert!(numbers(&received.to_json()["bins"]).eq([3, 4, 0, 8]));
    }

    #[test]
    fn samples_become_columns() {
        let mut samples = Samples::default();
        for (millis, cwnd) in [(10, 3), (20, 7)] {
            samples.add(Duration::from_millis(millis), Sample { cwnd, mss: 2, ..Sample::default() });
        }
        let object = samples.to_json();
        assert!(numbers(&object["at_ns"]).eq([10_000_000, 20_000_000]));
        assert!(numbers(&object["cwnd"]).eq([3, 7]) && numbers(&object["ca_state"]).eq([0, 0]));
        assert_eq!(object["last"]["mss"], 2);
    }
}
