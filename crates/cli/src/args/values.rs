//! Parsers of single option values.

use std::error::Error;
use std::fmt::Display;
use std::ops::RangeBounds;
use std::time::Duration;

use rdt_emulator::{parse_bitrate, parse_bytes, parse_duration, parse_probability};
use rdt_program::Failure;
use rdt_transport::congestion::Algorithm;
use rdt_transport::{AckConfig, Attempts, LossDetection, LossWindow, StreamName};

use super::{WireArg, usage};

/// Largest K for which the length of 2^K 32-bit words, in bytes, fits a `u64`.
const MAX_POWER: u8 = 61;
/// Smallest `--rwnd`, bytes: the payload of a native packet of the default size.
const MIN_RWND: u64 = 1432;
/// Largest values of `--ack`; the delay is the format's limit (PROTOCOL.md, N4).
const MAX_ACK_COUNT: u32 = 256;
const MAX_ACK_DELAY: Duration = Duration::from_secs(1);
/// Smallest `--give-up`: the timeout of one SYN.
const MIN_GIVE_UP: Duration = Duration::from_secs(1);
/// Smallest `--min-rto`, `--max-rto` and `--interval`: the granularity of the timers.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MIN_RECV_MEMORY: u64 = 1 << 20;
const MAX_MEASURED_TIME: Duration = Duration::from_secs(86_400);
const MAX_THREADS: usize = 256;
const MAX_PARALLEL: usize = 128;
const SOCKET_BUFFER: std::ops::RangeInclusive<u64> = 4 << 10..=1 << 30;

pub(super) fn power(power: u8) -> Result<u8, Failure> {
    match power {
        0..=MAX_POWER => Ok(power),
        _ => Err(usage(format!("--power must be from 0 to {MAX_POWER}, not {power}"))),
    }
}

/// Parses the value of `option` with `parse`, and prefixes an error with the option's name.
pub(super) fn named<T, E: Display>(
    option: &str,
    parse: fn(&str) -> Result<T, E>,
    text: &str,
) -> Result<T, Failure> {
    parse(text).map_err(|error| usage(format!("{option}: {error}")))
}

/// Same as [`named`]. A value out of `range` has a sentence that ends with `rule`.
fn ranged<T: PartialOrd, E: Display>(
    option: &str,
    parse: fn(&str) -> Result<T, E>,
    range: impl RangeBounds<T>,
    rule: &str,
    text: &str,
) -> Result<T, Failure> {
    let value = named(option, parse, text)?;
    if range.contains(&value) { Ok(value) } else { Err(usage(format!("{option} must be {rule}"))) }
}

pub(super) fn recv_wire(text: &str) -> Result<WireArg, Failure> {
    match text {
        "native" => Ok(WireArg::Native),
        "tcp" => Ok(WireArg::Tcp),
        "udp" => Ok(WireArg::Udp),
        _ => Err(usage(
            "--wire of a receiver may be `native`, `tcp` or `udp`; --insecure allows the other formats of rdt",
        )),
    }
}

pub(super) fn bytes(option: &'static str) -> impl Fn(&str) -> Result<u64, Failure> + Clone {
    move |text| named(option, parse_bytes, text)
}

pub(super) fn recv_memory(text: &str) -> Result<u64, Failure> {
    ranged("--memory", parse_bytes, MIN_RECV_MEMORY.., "at least 1mib", text)
}

pub(super) fn name(text: &str) -> Result<StreamName, Failure> {
    StreamName::new(text)
        .ok_or_else(|| usage(format!("--name must have from 1 to {} bytes", StreamName::MAX_LEN)))
}

pub(super) fn max_rate(text: &str) -> Result<u64, Failure> {
    match named("--max-rate", parse_bitrate, text)?.as_bps_f64() / 8.0 {
        rate @ 1.0.. => Ok(whole(rate)),
        _ => Err(usage("--max-rate must be at least 8bit (per second)")),
    }
}

/// Parses `--attempts`. One number leaves the SYN's limit: a handshake should fail soon.
pub(super) fn attempts(text: &str) -> Result<Attempts, Failure> {
    let count = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    let counts: Option<Vec<_>> = text.split('/').map(count).collect();
    match counts.as_deref() {
        Some(&[syn, data, fin]) => Ok(Attempts { syn, data, fin }),
        Some(&[both]) => Ok(Attempts { data: both, fin: both, ..Attempts::default() }),
        _ => Err(usage(format!(
            "--attempts must be SYN/DATA/FIN or one number, each a whole number, at least 1, not '{text}'"
        ))),
    }
}

pub(super) fn congestion(text: &str) -> Result<Algorithm, Failure> {
    named("--cc", str::parse, text)
}

pub(super) fn recovery(text: &str) -> Result<LossDetection, Failure> {
    text.parse().map_err(|error| usage(format!("--recovery {error}, not '{text}'")))
}

pub(super) fn initial_window(text: &str) -> Result<u32, Failure> {
    text.trim().parse().ok().filter(|packets| *packets > 0).ok_or_else(|| {
        usage(format!("--initial-window must be a whole number of packets, at least 1, not '{text}'"))
    })
}

pub(super) fn loss_window(text: &str) -> Result<LossWindow, Failure> {
    text.parse().map_err(|error| usage(format!("--loss-window {error}, not '{text}'")))
}

pub(super) fn timeout(option: &'static str) -> impl Fn(&str) -> Result<Duration, Failure> + Clone {
    move |text| ranged(option, parse_duration, MIN_TIMEOUT.., "at least 1ms", text)
}

pub(super) fn parallel(text: &str) -> Number {
    match text.parse()? {
        transfers @ 1..=MAX_PARALLEL => Ok(transfers),
        _ => Err(usage(format!("--parallel must be from 1 to {MAX_PARALLEL}")).into()),
    }
}

pub(crate) fn share(text: &str) -> Result<f64, Failure> {
    Ok(named("--threshold", parse_probability, text)?.as_f64())
}

pub(super) fn measured_time(option: &'static str) -> impl Fn(&str) -> Result<Duration, Failure> + Clone {
    let range = MIN_TIMEOUT..=MAX_MEASURED_TIME;
    move |text| ranged(option, parse_duration, range.clone(), "from 1ms to a day (86400s)", text)
}

pub(super) fn rwnd(text: &str) -> Result<u64, Failure> {
    let rule = format!("at least {MIN_RWND}, the bytes of a packet");
    ranged("--rwnd", parse_bytes, MIN_RWND.., &rule, text)
}

/// Parses `--ack`: packets per ACK, and the delay after which fewer are acknowledged.
pub(super) fn ack(text: &str) -> Result<AckConfig, Failure> {
    let Some((count, delay)) = text.split_once('/') else {
        return Err(usage(format!("--ack must be COUNT/TIME, as in 2/25ms, not '{text}'")));
    };
    let delay = named("--ack", parse_duration, delay)?;
    match count.trim().parse() {
        Ok(every @ 1..=MAX_ACK_COUNT) if delay <= MAX_ACK_DELAY => Ok(AckConfig::exact(every, delay)),
        _ => Err(usage(format!(
            "--ack must be from 1 to {MAX_ACK_COUNT} packets and at most 1s, not '{text}'"
        ))),
    }
}

pub(super) fn give_up(option: &'static str) -> impl Fn(&str) -> Result<Duration, Failure> + Clone {
    move |text| ranged(option, parse_duration, MIN_GIVE_UP.., "at least 1s", text)
}

pub(super) fn socket_buffer(text: &str) -> Result<usize, Failure> {
    let bytes = ranged("--socket-buffer", parse_bytes, SOCKET_BUFFER, "from 4kib to 1gib", text)?;
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Value, or clap's error for text that is no number, or a [`Failure`] for one out of range.
type Number = Result<usize, Box<dyn Error + Send + Sync>>;

pub(super) fn threads(text: &str) -> Number {
    match text.parse()? {
        threads @ 1..=MAX_THREADS => Ok(threads),
        _ => Err(usage(format!("--threads must be from 1 to {MAX_THREADS}")).into()),
    }
}

pub(super) fn peers(option: &'static str) -> impl Fn(&str) -> Number + Clone {
    move |text| match text.parse()? {
        0 => Err(usage(format!("{option} must be at least 1")).into()),
        peers => Ok(peers),
    }
}

pub(crate) fn ppb(probability: f64) -> u32 {
    whole_u32(probability * 1e9)
}

/// Rounds to the nearest `u64`; `u64::MAX` from 2^64 on.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates as wanted")]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Rounds to the nearest `u32`; `u32::MAX` from 2^32 on.
pub(crate) fn whole_u32(value: f64) -> u32 {
    u32::try_from(whole(value)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_three_numbers_or_one() {
        let read = |text| attempts(text).ok();
        assert_eq!(read("30/50/50"), Some(Attempts::default()));
        assert_eq!(read("1/2/3"), Some(Attempts { syn: 1, data: 2, fin: 3 }));
        assert_eq!(read("500"), Some(Attempts { syn: 30, data: 500, fin: 500 }));
        for bad in ["", "0", "1/2", "1/2/3/4", "1/0/3", "1//3", "-1", "1.5", "4294967296", "x"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn socket_buffer_has_bounds() {
        assert_eq!(socket_buffer("212992").ok(), Some(212_992));
        for bad in ["", "4095", "2gib", "-1", "x"] {
            assert!(socket_buffer(bad).is_err(), "{bad}");
        }
    }
}
