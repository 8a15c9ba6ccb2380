//! Reads and writes of connections that notice Ctrl-C, and the rate of data.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rdt_program::Failure;
use rdt_program::Stop;
use rdt_udp::clock;

use super::connection::Connection;
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
    Stopped(Failure),
    Read(io::Error),
    Write(io::Error),
}

/// True for errors after which a read or write can be repeated.
pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Sends `data` at the rate of `pace` until it ends, or `step` says so by time and progress.
pub(super) fn send(
    stream: &impl Connection,
    data: &mut dyn Source,
    mut pace: Pace,
    progress: &mut Progress,
    mut step: impl FnMut(Instant, &Progress) -> Result<bool, Failure>,
) -> Result<(), SendError> {
    let mut chunk = vec![0; CHUNK];
    let (mut from, mut to) = (0, 0);
    loop {
        let mut now = clock::now();
        if step(now, progress).map_err(SendError::Stopped)? {
            return Ok(());
        }
        let due = pace.due(now);
        if due < pace.quantum(to - from) {
            clock::sleep_until(now + RATE_INTERVAL);
            progress.pacing += clock::now().saturating_duration_since(now);
            continue;
        }
        if from == to {
            match data.read(&mut chunk).map_err(SendError::Read)? {
                Fill::Bytes(read) => (from, to) = (0, read),
                Fill::Pending => clock::sleep_until(now + INPUT_INTERVAL),
                Fill::End => return Ok(()),
            }
            let read_at = clock::now();
            progress.reading += read_at.saturating_duration_since(now);
            now = read_at;
            if from == to {
                continue;
            }
        }
        let length = usize::try_from(due).unwrap_or(CHUNK).min(to - from);
        match stream.write_some(&chunk[from..from + length]) {
            Ok(accepted) => {
                from += accepted;
                pace.take(accepted);
                progress.written += accepted as u64;
            }
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(SendError::Write(error)),
        }
        let wrote_at = clock::now();
        let took = wrote_at.saturating_duration_since(now);
        if took >= BLOCKED_MIN {
            progress.blocked += took;
        }
    }
}

/// Reads a message of the length of `out`. Fails after `until`, and with `Interrupted` at Ctrl-C.
pub(super) fn read_message(
    stream: &impl Connection,
    out: &mut [u8],
    until: Instant,
    stop: &Stop,
) -> io::Result<()> {
    repeat(out.len(), until, stop, |done| stream.read_some(&mut out[done..]))
}

/// Writes a message. Fails after `until`, and with `Interrupted` at Ctrl-C.
pub(super) fn write_message(
    stream: &impl Connection,
    message: &[u8],
    until: Instant,
    stop: &Stop,
) -> io::Result<()> {
    repeat(message.len(), until, stop, |done| stream.write_some(&message[done..]))
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
    fn credit_of_stall_is_dropped() {
        let now = clock::now();
        let mut pace = Pace::new(Some(1_000_000), (1, 1), now);
        assert_eq!(pace.due(now + Duration::from_secs(3)), 10_001);
    }
}
