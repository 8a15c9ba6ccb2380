//! Recorded traces: times (opportunities) at each of which a fixed number of bytes can be sent.
//!
//! File format and behaviour are those of mahimahi (R. Netravali et al., "Mahimahi: Accurate
//! Record-and-Replay for HTTP", USENIX ATC 2015; mm-link(1)), so that its traces can be used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bitrate::Bitrate;
use crate::packet::Service;
use crate::time::{nanos_since, saturating_add};
use crate::units::NotationError;

/// Bytes that can be sent at one opportunity: a full packet and the TUN header that mahimahi adds
/// to each packet (`PACKET_SIZE` in its `link_queue.hh`).
pub const TRACE_OPPORTUNITY_BYTES: u64 = FULL_PACKET_BYTES + TUN_HEADER_BYTES;
/// Bytes of a packet that uses one whole opportunity: the payload of an Ethernet frame.
const FULL_PACKET_BYTES: u64 = 1_500;
/// Bytes that mahimahi's TUN device puts before each packet: flags and protocol (`struct tun_pi`).
/// Its links count these bytes, so that 34 packets of 40 bytes use up an opportunity, not 37.
const TUN_HEADER_BYTES: u64 = 4;

const NS_PER_MS: u64 = 1_000_000;

/// Times at each of which [`TRACE_OPPORTUNITY_BYTES`] can be sent. The trace repeats, with its last
/// time as the period.
///
/// A packet uses its own bytes and 4 more. Several small packets can share an opportunity, and a
/// large packet uses several and departs at the last. Bytes of an opportunity that no waiting
/// packet uses are lost.
///
/// A packet uses only opportunities *after* its arrival. Every packet therefore waits and counts
/// towards the queue's limit, even on an idle link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Times of the opportunities in nanoseconds, ascending. The last is the period and not zero.
    opportunities: Arc<[u64]>,
}

impl Trace {
    /// Parses a trace: each line is the time of one opportunity in whole milliseconds, in ascending
    /// order. Equal times are allowed. Blank lines and a byte-order mark are ignored.
    pub fn parse(text: &str) -> Result<Self, NotationError> {
        let mut times: Vec<u64> = Vec::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (n, text) in text.lines().map(str::trim).enumerate().filter(|(_, text)| !text.is_empty()) {
            let line = n + 1;
            let time = text.parse::<u64>().ok().and_then(|millis| millis.checked_mul(NS_PER_MS));
            let time = time.ok_or_else(|| {
                NotationError(format!(
                    "line {line} of the trace is '{text}', not a whole number of milliseconds"
                ))
            })?;
            if times.last().is_some_and(|&last| last > time) {
                return Err(NotationError(format!("line {line} of the trace goes back in time")));
            }
            times.push(time);
        }
        match times.last() {
            None | Some(0) => Err(NotationError(
                "the trace has no opportunity after 0 ms: its last time is the period with which it repeats"
                    .to_owned(),
            )),
            Some(_) => Ok(Self { opportunities: times.into() }),
        }
    }

    /// Returns the mean rate that the trace gives packets of 1500 bytes.
    pub fn mean_rate(&self) -> Bitrate {
        // Fits in 128 bits: below 2^61 opportunities fit in memory, times less than 2^14 and 2^30.
        let work = self.opportunities.len() as u128 * u128::from(FULL_PACKET_BYTES) * 8 * 1_000_000_000;
        Bitrate::from_bps(u64::try_from(work / u128::from(self.period())).unwrap_or(u64::MAX))
    }

    /// Returns the highest rate over one second, but at least the mean rate.
    pub(crate) fn highest_rate(&self) -> Bitrate {
        const SECOND: u64 = 1_000 * NS_PER_MS;
        let count = self.opportunities.len() as u64;
        let within =
            |first| self.first_after(self.time(first).saturating_add(SECOND - 1)).saturating_sub(first);
        let most = (0..count).map(within);
        let most = most.max().unwrap_or_default();
        Bitrate::from_bps(most.saturating_mul(FULL_PACKET_BYTES * 8)).max(self.mean_rate())
    }

    /// Returns the time after which the trace repeats, in nanoseconds. It is not zero.
    fn period(&self) -> u64 {
        self.opportunities.last().copied().unwrap_or(1)
    }

    /// Returns the time of opportunity `n` (0-based) in nanoseconds since the start, saturating.
    fn time(&self, n: u64) -> u64 {
        let count = self.opportunities.len() as u64;
        let in_period = usize::try_from(n % count).map_or(0, |place| self.opportunities[place]);
        (n / count).saturating_mul(self.period()).saturating_add(in_period)
    }

    /// Returns the number of the first opportunity later than `elapsed` nanoseconds.
    fn first_after(&self, elapsed: u64) -> u64 {
        // `phase` is below the time of the last opportunity, so the result is in this period.
        let (period, phase) = (elapsed / self.period(), elapsed % self.period());
        let passed = self.opportunities.partition_point(|&time| time <= phase) as u64;
        period.saturating_mul(self.opportunities.len() as u64).saturating_add(passed)
    }
}

/// Serialiser of a link whose rate is a trace: the trace and the position in it.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    trace: Trace,
    origin: Option<Instant>,
    /// Number of the next unused byte, counted over the bytes of all opportunities since the start.
    used: u64,
}

impl Reader {
    pub(super) const fn new(trace: Trace) -> Self {
        Self { trace, origin: None, used: 0 }
    }

    pub(super) const fn start(&mut self, at: Instant) {
        self.origin = Some(at);
    }

    /// Uses no opportunity before this time.
    pub(super) fn begin_at(&mut self, at: Instant) {
        let origin = *self.origin.get_or_insert(at);
        self.used = self.first_byte(nanos_since(origin, at));
    }

    /// Returns when the first byte of a packet that enters at `now` would be sent.
    pub(super) fn next_start(&self, now: Instant) -> Instant {
        let origin = self.origin.unwrap_or(now);
        self.instant(origin, self.first_byte(nanos_since(origin, now)))
    }

    pub(super) fn serve(&mut self, now: Instant, bytes: usize) -> Service {
        let origin = *self.origin.get_or_insert(now);
        let first = self.first_byte(nanos_since(origin, now));
        self.used = first.saturating_add(bytes as u64).saturating_add(TUN_HEADER_BYTES);
        let last = self.used.saturating_sub(1).max(first);
        let (start, end) = (self.instant(origin, first), self.instant(origin, last));
        // An opportunity is an instant, so serialisation takes no time.
        Service { start, end, busy: Duration::ZERO }
    }

    /// Returns the number of the first byte that a packet can use if it arrives at `elapsed` ns.
    fn first_byte(&self, elapsed: u64) -> u64 {
        if self.trace.time(self.used / TRACE_OPPORTUNITY_BYTES) > elapsed {
            return self.used;
        }
        self.trace.first_after(elapsed).saturating_mul(TRACE_OPPORTUNITY_BYTES)
    }

    fn instant(&self, origin: Instant, byte: u64) -> Instant {
        saturating_add(origin, Duration::from_nanos(self.trace.time(byte / TRACE_OPPORTUNITY_BYTES)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{Numbers, epoch, just_before, ms, ns};

    fn reader(text: &str, start: Instant) -> Reader {
        let mut reader = Reader::new(Trace::parse(text).unwrap());
        reader.start(start);
        reader
    }

    #[test]
    fn parse_reads_one_millisecond_per_line() {
        let trace = Trace::parse("1\n 1 \n\n3\r\n").unwrap();
        assert_eq!(*trace.opportunities, [1_000_000, 1_000_000, 3_000_000]);
        // Three packets of 1500 bytes in 3 ms.
        assert_eq!(trace.mean_rate(), Bitrate::from_bps(12_000_000));
        assert_eq!(Trace::parse("\u{feff}1\n1\n3"), Ok(trace));
    }

    #[test]
    fn highest_rate_is_that_of_fullest_second() {
        let highest = |text| Trace::parse(text).unwrap().highest_rate();
        assert_eq!(highest("1"), Bitrate::from_bps(12_000_000));
        assert_eq!(highest("1\n1\n1\n1001\n3000"), Bitrate::from_bps(4 * 12_000));
        assert_eq!(highest("0\n500\n1000\n1999\n9000"), Bitrate::from_bps(3 * 12_000));
    }

    #[test]
    fn malformed_trace_is_refused_with_line() {
        for (text, message) in [
            ("1\nx\n", "line 2 of the trace is 'x', not a whole number of milliseconds"),
            ("1.5", "line 1 of the trace is '1.5', not a whole number of milliseconds"),
            ("-1", "line 1 of the trace is '-1', not a whole number of milliseconds"),
            ("5\n\n4", "line 3 of the trace goes back in time"),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err().to_string(), message);
        }
        for text in ["", "\n", "0\n0\n"] {
            let message = Trace::parse(text).unwrap_err().to_string();
            assert!(message.starts_with("the trace has no opportunity after 0 ms: "), "{text:?}: {message}");
        }
        assert!(Trace::parse(&u64::MAX.to_string()).is_err());
    }

    #[test]
    fn packet_departs_at_next_opportunity() {
        let start = epoch();
        for (at, goes) in
            [(ms(0), 2), (just_before(ms(2)), 2), (ms(2), 5), (ms(4), 5), (ms(5), 7), (ms(1_000), 1_002)]
        {
            let service = reader("2\n5\n", start).serve(start + at, 1_500);
            let expected = start + ms(goes);
            assert_eq!((service.start, service.end), (expected, expected), "at {at:?}");
        }
    }

    #[test]
    fn trace_repeats_with_last_time_as_period() {
        let start = epoch();
        let mut reader = reader("0\n1\n1\n4\n", start);
        let ends = [0; 10].map(|_| (reader.serve(start, 1_500).end - start).as_millis());
        // The packets enter at 0, and the opportunity at that time is not after their arrival.
        assert_eq!(ends, [1, 1, 4, 4, 5, 5, 8, 8, 9, 9]);
    }

    #[test]
    fn packets_share_opportunities_byte_by_byte() {
        let start = epoch();
        let mut reader = reader("1\n2\n10\n", start);
        let ends =
            [496, 1_000, 0, 1_500, 1_496].map(|bytes| (reader.serve(start, bytes).end - start).as_millis());
        assert_eq!(ends, [1, 1, 2, 10, 10]);
    }

    #[test]
    fn short_packets_share_opportunity_like_mahimahi() {
        let start = epoch();
        let mut reader = reader("1\n2\n", start);
        let first = (0..100).take_while(|_| reader.serve(start, 40).end == start + ms(1)).count();
        assert_eq!(first, 1_504 / (40 + 4));
    }

    #[test]
    fn service_spans_first_to_last_byte() {
        let start = epoch();
        let mut reader = reader("1\n2\n10\n", start);
        reader.serve(start, 1_000);
        assert_eq!(reader.next_start(start), start + ms(1));
        let service = reader.serve(start, 501);
        assert_eq!((service.start, service.end), (start + ms(1), start + ms(2)));
        // 1499 bytes of the opportunity at 2 ms are unused. Five whole ones follow, the last at 21
        // ms.
        assert_eq!(reader.serve(start, 1_499 + 5 * 1_504 - 4).end, start + ms(21));
        assert_eq!(reader.serve(start, 1).end, start + ms(22));
    }

    #[test]
    fn unused_bytes_of_opportunity_are_lost() {
        let start = epoch();
        let mut reader = reader("1\n2\n3\n", start);
        assert_eq!(reader.serve(start, 100).end, start + ms(1));
        assert_eq!(reader.serve(start + ms(1), 1_500).end, start + ms(2));
        assert_eq!(reader.serve(start + ms(1), 1).end, start + ms(3));
    }

    #[test]
    fn empty_packet_waits_and_uses_header() {
        let start = epoch();
        let mut reader = reader("1\n2\n", start);
        assert_eq!(reader.serve(start, 0).end, start + ms(1));
        assert_eq!(reader.serve(start, 1_496).end, start + ms(1));
        assert_eq!(reader.serve(start, 0).end, start + ms(2));
    }

    #[test]
    fn reader_agrees_with_sequential_walk() {
        for seed in 0..10 {
            let mut numbers = Numbers::new(seed);
            let mut millis = 0;
            let times: Vec<_> = (0..=numbers.below(20))
                .map(|_| {
                    millis += numbers.below(4);
                    millis
                })
                .chain([60])
                .collect();
            let lines: Vec<_> = times.iter().map(ToString::to_string).collect();
            let start = epoch();
            let mut reader = reader(&lines.join("\n"), start);
            let forever = (0..).step_by(60).flat_map(|base| times.iter().map(move |time| base + time));
            let mut walk = forever.map(|millis| (millis * NS_PER_MS, TRACE_OPPORTUNITY_BYTES)).peekable();
            let mut now = 0;
            for n in 0..2_000 {
                now += numbers.below(3_000_000);
                let mut bytes = numbers.below(4_000);
                let actual = reader.serve(start + ns(now), usize::try_from(bytes).unwrap()).end - start;
                bytes += 4;
                while walk.next_if(|(time, _)| *time <= now).is_some() {}
                while walk.peek().unwrap().1 < bytes {
                    bytes -= walk.next().unwrap().1;
                }
                let opportunity = walk.peek_mut().unwrap();
                opportunity.1 -= bytes;
                let expected = ns(opportunity.0);
                if opportunity.1 == 0 {
                    walk.next();
                }
                assert_eq!(actual, expected, "seed {seed}, packet {n}");
            }
        }
    }

    #[test]
    fn times_saturate_at_countable_end() {
        let start = epoch();
        let mut reader = reader("1\n", start);
        for _ in 0..3 {
            let service = reader.serve(start, usize::MAX);
            assert!(service.end >= service.start && service.start > start);
        }
    }
}
