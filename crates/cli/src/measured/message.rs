//! Messages of measured transfers beside the data, over TCP, UDP and encrypted connections:
//! request, answer and report. Numbers are little endian.

use std::time::Duration;

use rdt_program::json::nanos;

/// First bytes of each message, with the version of the format.
const MAGIC: [u8; 8] = *b"rdt-msr1";
pub(super) const REQUEST_BYTES: usize = 64;
/// Length of an answer, bytes: shorter than a request.
pub(super) const ANSWER_BYTES: usize = 16;
pub(super) const REPORT_BYTES: usize = 120;
const NONE: u64 = u64::MAX;

/// Congestion controls that `--cc` names, by their numbers in messages less 1.
pub(super) const CONGESTION: [&str; 3] = ["reno", "cubic", "bbr"];

pub(super) const TOO_LARGE: &str =
    "the datagrams are larger than the path MTU, and are not fragmented: a smaller --packet-size is needed";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Request {
    pub(super) is_reverse: bool,
    /// Congestion control of a reverse transfer over TCP.
    pub(super) congestion: Option<&'static str>,
    /// Size of a datagram, bytes; 0 over TCP.
    pub(super) packet_size: u16,
    /// Size of a reverse transfer.
    pub(super) bytes: Option<u64>,
    /// Length of a reverse transfer without a size.
    pub(super) time: Duration,
    /// Part at the start that is not counted.
    pub(super) omit: Duration,
    /// Largest rate of a reverse transfer, bytes per second.
    pub(super) rate: Option<u64>,
}

impl Request {
    pub(super) fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut out = [0; REQUEST_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8] = u8::from(self.is_reverse);
        out[9] = number_of(self.congestion);
        out[10..12].copy_from_slice(&self.packet_size.to_le_bytes());
        let numbers =
            [self.bytes.unwrap_or(NONE), nanos(self.time), nanos(self.omit), self.rate.unwrap_or(NONE)];
        put(&mut out[16..], &numbers);
        out
    }

    /// Returns the request in `bytes`; `None` if it is none of this version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; REQUEST_BYTES] = bytes.first_chunk()?;
        if !bytes.starts_with(&MAGIC) || bytes[8] > 1 {
            return None;
        }
        let [size, time, omit, rate] = numbers(&bytes[16..]);
        Some(Self {
            is_reverse: bytes[8] == 1,
            congestion: match bytes[9] {
                0 => None,
                number => Some(congestion_of(number.into())?),
            },
            packet_size: u16::from_le_bytes([bytes[10], bytes[11]]),
            bytes: some(size),
            time: Duration::from_nanos(time),
            omit: Duration::from_nanos(omit),
            rate: some(rate),
        })
    }
}

/// Returns the least time of this number of bytes at a rate; zero without one. The first and the
/// last of n datagrams are n - 1 intervals apart, so that time alone would give too high a rate.
pub(super) fn least_time(rate: Option<u64>, bytes: u64) -> Duration {
    let ns = rate.map_or(0, |rate| u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1)));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Decision of a receiver about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    NoReverse,
    Busy,
    NoCongestionControl,
    /// The request has no size and no time, or is out of range.
    Invalid,
    TooLarge,
}

impl Verdict {
    const ALL: [Self; 6] = [
        Self::Accepted,
        Self::NoReverse,
        Self::Busy,
        Self::NoCongestionControl,
        Self::Invalid,
        Self::TooLarge,
    ];

    pub(super) fn encode(self) -> [u8; ANSWER_BYTES] {
        let mut out = [0; ANSWER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8] = Self::ALL.iter().position(|it| *it == self).and_then(|it| it.try_into().ok()).unwrap_or(0);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        Self::ALL.get(usize::from(*rest.first()?)).copied()
    }

    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Accepted => "the receiver takes the transfer",
            Self::NoReverse => "the receiver does not send: it was started with --no-reverse",
            Self::Busy => "the receiver has too many peers: try again later",
            Self::NoCongestionControl => {
                "the receiver's kernel does not have this --cc, or does not allow it there"
            }
            Self::Invalid => "the receiver does not understand the request: it may be of another version",
            Self::TooLarge => TOO_LARGE,
        }
    }
}

/// Counts of the other side of a transfer. Those that its side or wire does not have are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// Bytes that arrived, or were sent in a reverse transfer.
    pub(super) bytes: u64,
    /// From the first byte to the last.
    pub(super) elapsed: Duration,
    /// UDP: different datagrams that arrived.
    pub(super) datagrams: u64,
    /// UDP: of these, those with a lower number than an earlier one.
    pub(super) reordered: u64,
    /// UDP: second copies.
    pub(super) duplicates: u64,
    pub(super) jitter: Duration,
    /// TCP and encrypted connections, reverse: counters of the side that sent.
    pub(super) retransmitted: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) timeouts: Option<u64>,
    pub(super) srtt: Duration,
    pub(super) min_rtt: Duration,
    pub(super) cwnd: u64,
    /// `None` for one that `--cc` does not name.
    pub(super) congestion: Option<&'static str>,
}

impl Report {
    pub(super) fn encode(&self) -> [u8; REPORT_BYTES] {
        let mut out = [0; REPORT_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        let numbers = [
            self.bytes,
            nanos(self.elapsed),
            self.datagrams,
            self.reordered,
            self.duplicates,
            nanos(self.jitter),
            self.retransmitted,
            self.retransmitted_bytes,
            self.timeouts.unwrap_or(NONE),
            nanos(self.srtt),
            nanos(self.min_rtt),
            self.cwnd,
            number_of(self.congestion).into(),
        ];
        put(&mut out[8..], &numbers);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; REPORT_BYTES] = bytes.first_chunk()?;
        let rest = bytes.strip_prefix(&MAGIC)?;
        let [size, elapsed, datagrams, reordered, duplicates, jitter, retransmitted] = numbers(rest);
        let [retransmitted_bytes, timeouts, srtt, min_rtt, cwnd, congestion] = numbers(&rest[7 * 8..]);
        Some(Self {
            bytes: size,
            elapsed: Duration::from_nanos(elapsed),
            datagrams,
            reordered,
            duplicates,
            jitter: Duration::from_nanos(jitter),
            retransmitted,
            retransmitted_bytes,
            timeouts: some(timeouts),
            srtt: Duration::from_nanos(srtt),
            min_rtt: Duration::from_nanos(min_rtt),
            cwnd,
            congestion: congestion_of(congestion),
        })
    }
}

/// Returns the number of a congestion control in messages; 0 for none and for an unknown one.
fn number_of(congestion: Option<&str>) -> u8 {
    let number = CONGESTION.iter().position(|name| Some(*name) == congestion);
    number.and_then(|number| u8::try_from(number + 1).ok()).unwrap_or(0)
}

fn congestion_of(number: u64) -> Option<&'static str> {
    CONGESTION.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

fn some(number: u64) -> Option<u64> {
    (number != NONE).then_some(number)
}

/// Writes numbers to the start of `out`.
pub(super) fn put(out: &mut [u8], numbers: &[u64]) {
    for (place, number) in out.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// Reads the numbers at the start of `bytes`. Those beyond the end are 0.
pub(super) fn numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut numbers = [0; N];
    for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = place.try_into().map_or(0, u64::from_le_bytes);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let request = Request {
            is_reverse: true,
            congestion: Some("bbr"),
            packet_size: 1472,
            bytes: None,
            time: Duration::from_secs(3),
            omit: Duration::from_millis(5),
            rate: Some(7),
        };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        assert_eq!(Request::decode(&Request::default().encode()), Some(Request::default()));
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
        }
        let report = Report {
            bytes: 1,
            elapsed: Duration::from_nanos(2),
            datagrams: 3,
            reordered: 4,
            duplicates: 5,
            jitter: Duration::from_nanos(6),
            retransmitted: 7,
            retransmitted_bytes: 8,
            timeouts: None,
            srtt: Duration::from_nanos(10),
            min_rtt: Duration::from_nanos(11),
            cwnd: 12,
            congestion: Some("reno"),
        };
        assert_eq!(Report::decode(&report.encode()), Some(report));
    }

    #[test]
    fn foreign_bytes_are_no_messages() {
        let mut bytes = Request::default().encode();
        for (at, value) in [(0, b'x'), (8, 2), (9, 4)] {
            let before = std::mem::replace(&mut bytes[at], value);
            assert_eq!(Request::decode(&bytes), None, "{at}");
            bytes[at] = before;
        }
        assert_eq!(Request::decode(&bytes[..REQUEST_BYTES - 1]), None);
        assert_eq!((Verdict::decode(b"rdt-msr1"), Report::decode(&bytes)), (None, None));
    }
}
