//! Reads and writes of connections that notice Ctrl-C, and the rate of data.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};

use rdt_program::{Failure, Stop};
use rdt_transport::{Phase, SenderStats};
use rdt_udp::clock;

use super::message::{REPORT_BYTES, Report};
use super::transfer::{lost, one_way_stats};
use crate::source::{Fill, Source};

pub(super) const CHUNK: usize = 64 << 10;
/// Interval between two attempts to read from a source without data.
const INPUT_INTERVAL: Duration = Duration::from_millis(1);
/// Shortest write that waited for room: a copy of [`CHUNK`] bytes takes less.
const BLOCKED_MIN: Duration = Duration::from_micros(100);
/// Interval of the writes of data with a rate.
const RATE_INTERVAL: Duration = Duration::from_millis(1);
/// Largest credit, as time at the rate: it may leave at once after a late wake-up. The credit of a
/// longer stall is dropped, because it would leave at line rate.
const BURST_TIME: Duration = Duration::from_millis(10);
/// Credit of a byte: a nanosecond at a rate of 1 byte per second is 1.
const BYTE: u128 = 1_000_000_000;

/// Token bucket of data with a rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Bytes per second; `None` without a limit.
    rate: Option<u64>,
    /// Credit at the time `counted_at`, and its limit, in parts of [`BYTE`].
    credit: u128,
    max_credit: u128,
    counted_at: Instant,
}

impl Pace {
    /// Creates a bucket with the credit of `first` bytes. It can always hold that of `burst` bytes.
    pub(super) fn new(rate: Option<u64>, (first, burst): (usize, usize), now: Instant) -> Self {
        let max_credit = burst as u128 * BYTE + u128::from(rate.unwrap_or(0)) * BURST_TIME.as_nanos();
        Self { rate, credit: first as u128 * BYTE, max_credit, counted_at: now }
    }

    pub(super) fn due(&mut self, now: Instant) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let time = now.saturating_duration_since(self.counted_at);
        self.credit = self.max_credit.min(self.credit + u128::from(rate) * time.as_nanos());
        self.counted_at += time;
        u64::try_from(self.credit / BYTE).unwrap_or(u64::MAX)
    }

    /// Returns the least number of bytes that are worth a call: those of [`RATE_INTERVAL`], up to a
    /// chunk and to what is `waiting`, if that is known. One byte at a time would keep a processor
    /// busy at any rate.
    fn quantum(&self, waiting: usize) -> u64 {
        let bytes = u128::from(self.rate.unwrap_or(0)) * RATE_INTERVAL.as_nanos() / BYTE;
        let most = if waiting > 0 { waiting.min(CHUNK) } else { CHUNK };
        u64::try_from(bytes).unwrap_or(u64::MAX).clamp(1, most as u64)
    }

    /// Takes the credit of bytes that have left.
    pub(super) fn take(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes as u128 * BYTE);
    }

    pub(super) fn due_at(&self, bytes: usize) -> Instant {
        let missing = (bytes as u128 * BYTE).saturating_sub(self.credit);
        let ns = missing.div_ceil(u128::from(self.rate.unwrap_or(u64::MAX).max(1)));
        self.counted_at + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Progress of a transfer at the side that sends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// Bytes that the socket has accepted.
    pub(super) written: u64,
    /// Time that reads of the source took.
    pub(super) reading: Duration,
    /// Time in which the rate allowed no byte.
    pub(super) pacing: Duration,
    /// Time in which the socket accepted no byte.
    pub(super) blocked: Duration,
}

#[derive(Debug)]
pub(super) enum SendError {
    Read(io::Error),
    Write(io::Error),
}

/// True for errors after which a read or write can be repeated.
pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Data on its way from a source to a stream, at a rate.
#[derive(Debug)]
pub(super) struct Outflow {
    pace: Pace,
    chunk: Vec<u8>,
    /// Part of `chunk` that the stream has not taken yet.
    unsent: Range<usize>,
    pub(super) progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flowed {
    /// Bytes have gone into the stream.
    Went,
    /// The rate allows the next bytes then.
    Paced(Instant),
    /// The source has no bytes; they are asked for again then.
    Starved(Instant),
    Ended,
}

impl Outflow {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, chunk: vec![0; CHUNK], unsent: 0..0, progress: Progress::default() }
    }

    /// Writes the next bytes of `data` by `write`.
    pub(super) fn step(
        &mut self,
        now: Instant,
        data: &mut dyn Source,
        write: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> Result<Flowed, SendError> {
        let due = self.pace.due(now);
        if due < self.pace.quantum(self.unsent.len()) {
            return Ok(Flowed::Paced(now + RATE_INTERVAL));
        }
        let mut begun_at = clock::now();
        if self.unsent.is_empty() {
            match data.read(&mut self.chunk).map_err(SendError::Read)? {
                Fill::Bytes(read) => self.unsent = 0..read,
                Fill::Pending => return Ok(Flowed::Starved(now + INPUT_INTERVAL)),
                Fill::End => return Ok(Flowed::Ended),
            }
            let read_at = clock::now();
            self.progress.reading += read_at.saturating_duration_since(begun_at);
            begun_at = read_at;
        }
        let length = usize::try_from(due).unwrap_or(CHUNK).min(self.unsent.len());
        let written = write(&self.chunk[self.unsent.start..][..length]);
        let took = clock::now().saturating_duration_since(begun_at);
        if took >= BLOCKED_MIN {
            self.progress.blocked += took;
        }
        let taken = written.map_err(SendError::Write)?;
        self.unsent.start += taken;
        self.pace.take(taken);
        self.progress.written += taken as u64;
        Ok(Flowed::Went)
    }
}

/// Generated data that arrives, at whose end the sender's report is.
#[derive(Debug)]
pub(super) struct Incoming {
    begun_at: Instant,
    heard_at: Instant,
    bytes: u64,
    /// Last bytes, which are the report if no more follow.
    tail: Vec<u8>,
    /// Longest silence of the sender.
    give_up: Duration,
    /// Length of the transfer; `None` if it has a size.
    longest: Option<Duration>,
}

impl Incoming {
    pub(super) fn new(now: Instant, give_up: Duration, longest: Option<Duration>) -> Self {
        Self { begun_at: now, heard_at: now, bytes: 0, tail: Vec::new(), give_up, longest }
    }

    pub(super) fn take(&mut self, now: Instant, bytes: &[u8]) {
        self.heard_at = now;
        let data = (self.tail.len() + bytes.len()).saturating_sub(REPORT_BYTES);
        let of_tail = data.min(self.tail.len());
        self.tail.drain(..of_tail);
        self.tail.extend_from_slice(&bytes[data - of_tail..]);
        self.bytes += data as u64;
    }

    /// Returns the report, if the data before it is complete.
    pub(super) fn report(&self) -> Option<Report> {
        Report::decode(&self.tail).filter(|report| report.bytes == self.bytes)
    }

    /// Fails if the data ended before the report.
    pub(super) fn complete(&self) -> Result<(), Failure> {
        let cut = || lost(Phase::Send, "the receiver ended the connection before its data was complete");
        self.report().map(drop).ok_or_else(cut)
    }

    pub(super) fn give_up_at(&self) -> Instant {
        let late = self.longest.map(|longest| self.begun_at + longest + self.give_up);
        late.into_iter().fold(self.heard_at + self.give_up, Instant::min)
    }

    /// Returns the failure of data that did not arrive until [`Incoming::give_up_at`].
    pub(super) fn silence(&self) -> Failure {
        lost(Phase::Send, format!("nothing arrived for {} s", self.give_up.as_secs()))
    }

    pub(super) fn stats(&self, before: &SenderStats) -> SenderStats {
        one_way_stats(before, self.begun_at, (self.heard_at, self.bytes))
    }
}

/// Reads a message of the length of `out`. Fails after `until`, and with `Interrupted` at Ctrl-C.
pub(super) fn read_message(
    mut stream: &TcpStream,
    out: &mut [u8],
    until: Instant,
    stop: &Stop,
) -> io::Result<()> {
    repeat(out.len(), until, stop, |done| stream.read(&mut out[done..]))
}

/// Writes a message. Fails after `until`, and with `Interrupted` at Ctrl-C.
pub(super) fn write_message(
    mut stream: &TcpStream,
    message: &[u8],
    until: Instant,
    stop: &Stop,
) -> io::Result<()> {
    repeat(message.len(), until, stop, |done| stream.write(&message[done..]))
}

/// Calls `step` with the bytes so far until they are `length`.
fn repeat(
    length: usize,
    until: Instant,
    stop: &Stop,
    mut step: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        match step(done) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(error) if is_pause(&error) => look(until, stop)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fails if `until` is past, or the program is to end.
pub(super) fn look(until: Instant, stop: &Stop) -> io::Result<()> {
    if stop.is_set() {
        return Err(ErrorKind::Interrupted.into());
    }
    if clock::now() >= until {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_bytes_over_time() {
        let now = clock::now();
        let at = |ms| now + Duration::from_millis(ms);
        let mut pace = Pace::new(Some(1_000_000), (1, 1), now);
        assert_eq!((pace.due(now), pace.due(at(7)), pace.due(at(7))), (1, 7001, 7001));
        pace.take(7001);
        assert_eq!((pace.due(at(7)), pace.due_at(2000)), (0, at(9)));
        assert_eq!(Pace::new(None, (1, 1), now).due(now), u64::MAX);
        let quantum = |rate| Pace::new(rate, (1, 1), now).quantum(0);
        assert_eq!([None, Some(2), Some(1_000_000)].map(quantum), [1, 1, 1000]);
        assert_eq!(quantum(Some(u64::MAX)), CHUNK as u64);
        assert_eq!(Pace::new(Some(1_000_000), (1, 1), now).quantum(7), 7);
        // Less than a byte of credit in the time of a burst.
        let mut slow = Pace::new(Some(2), (1, 1), now);
        slow.take(1);
        assert_eq!((slow.due(at(499)), slow.due_at(1), slow.due(at(500))), (0, at(500), 1));
    }

    #[test]
    fn report_is_end_of_whatever_pieces() {
        let now = clock::now();
        let report = Report { bytes: 1000, ..Report::default() };
        let mut all = vec![7; 1000];
        all.extend_from_slice(&report.encode());
        for size in [1, 100, 119, 120, 121, 999, 1120] {
            let mut incoming = Incoming::new(now, Duration::from_secs(3), None);
            for piece in all.chunks(size) {
                assert_eq!(incoming.report(), None, "{size}");
                incoming.take(now, piece);
            }
            assert_eq!(incoming.report(), Some(report), "{size}");
            incoming.take(now, &[1]);
            assert_eq!(incoming.report(), None, "more follows");
        }
        let mut short = Incoming::new(now, Duration::from_secs(3), None);
        short.take(now, &all[1..]);
        assert_eq!(short.report(), None);
    }

    #[test]
    fn silent_or_late_sender_is_given_up() {
        let now = clock::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut incoming = Incoming::new(now, Duration::from_secs(3), Some(Duration::from_secs(4)));
        assert_eq!(incoming.give_up_at(), at(3));
        incoming.take(at(2), &[1]);
        assert_eq!(incoming.give_up_at(), at(5));
        incoming.take(at(6), &[1]);
        assert_eq!(incoming.give_up_at(), at(7));
    }

    #[test]
    fn credit_of_stall_is_dropped() {
        let now = clock::now();
        let mut pace = Pace::new(Some(1_000_000), (1, 1), now);
        assert_eq!(pace.due(now + Duration::from_secs(3)), 10_001);
    }
}
