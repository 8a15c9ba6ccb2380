//! Reads and writes of connections that notice Ctrl-C, and the rate of data.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rdt_program::Stop;
use rdt_udp::clock;

use super::connection::Connection;
use crate::Failure;

/// Bytes of one read or write.
pub(super) const CHUNK: usize = 64 << 10;
/// Timeout of a read or write, after which Ctrl-C and deadlines are looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a write while data is sent: status lines are so much late.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_millis(20);
/// Shortest write that waited for room: a copy of [`CHUNK`] bytes takes less.
const BLOCKED_MIN: Duration = Duration::from_micros(100);
/// Interval of the writes of data with a rate.
const RATE_INTERVAL: Duration = Duration::from_millis(1);

/// Rate of data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Bytes per second; `None` without a limit.
    pub(super) rate: Option<u64>,
    pub(super) begun_at: Instant,
}

impl Pace {
    /// Returns the number of bytes that are due.
    pub(super) fn due(&self, now: Instant) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let life = now.saturating_duration_since(self.begun_at);
        u64::try_from(u128::from(rate) * life.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
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

/// Why no more data is sent.
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

/// Sends what `data` has at the rate of `pace`, until it ends or `step` says so. `step` gets the
/// time and the progress, which is returned in the end.
pub(super) fn send(
    stream: &impl Connection,
    data: &mut dyn Read,
    pace: Pace,
    mut step: impl FnMut(Instant, &Progress) -> Result<bool, Failure>,
) -> Result<Progress, SendError> {
    let mut chunk = vec![0; CHUNK];
    let (mut from, mut to) = (0, 0);
    let mut progress = Progress::default();
    loop {
        let mut now = clock::now();
        if step(now, &progress).map_err(SendError::Stopped)? {
            return Ok(progress);
        }
        let due = pace.due(now).saturating_sub(progress.written);
        if due == 0 {
            clock::sleep_until(now + RATE_INTERVAL);
            progress.pacing += clock::now().saturating_duration_since(now);
            continue;
        }
        if from == to {
            (from, to) = (0, data.read(&mut chunk).map_err(SendError::Read)?);
            if to == 0 {
                return Ok(progress);
            }
            let read_at = clock::now();
            progress.reading += read_at.saturating_duration_since(now);
            now = read_at;
        }
        let length = usize::try_from(due).unwrap_or(CHUNK).min(to - from);
        match stream.write_some(&chunk[from..from + length]) {
            Ok(accepted) => {
                from += accepted;
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
    mut out: &mut [u8],
    until: Instant,
    stop: &Stop,
) -> io::Result<()> {
    while !out.is_empty() {
        match stream.read_some(out) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => out = &mut out[n..],
            Err(error) if is_pause(&error) => look(until, stop)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a message. Fails after `until`, and with `Interrupted` at Ctrl-C.
pub(super) fn write_message(
    stream: &impl Connection,
    mut message: &[u8],
    until: Instant,
    stop: &Stop,
) -> io::Result<()> {
    while !message.is_empty() {
        match stream.write_some(message) {
            Ok(n) => message = &message[n..],
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

/// Returns the congestion control of a connection, as the kernel names it.
pub(super) fn congestion_of(stream: &TcpStream) -> Option<String> {
    let name = socket2::SockRef::from(stream).tcp_congestion().ok()?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    std::str::from_utf8(&name[..end]).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_bytes_over_time() {
        let now = clock::now();
        let pace = Pace { rate: Some(1000), begun_at: now };
        assert_eq!((pace.due(now), pace.due(now + Duration::from_millis(2500))), (0, 2500));
        assert_eq!(Pace { rate: None, begun_at: now }.due(now), u64::MAX);
    }
}
