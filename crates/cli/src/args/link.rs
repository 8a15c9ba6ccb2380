//! The link that options with units describe: `--rtt`, `--rate`, `--loss`, `--queue`.

use std::fmt::Display;
use std::time::Duration;

use rdt_emulator::{
    Bitrate, Probability, QueueLimit, QueueSize, UnitError, parse_bitrate, parse_duration, parse_probability,
    parse_queue_size,
};
use rdt_transport::wire::native::LinkRequest;

use crate::{Failure, SendArgs};

/// The rate of a link that has none: the largest that can be asked for, bits per second.
const NO_LIMIT: u64 = 1_000_000_000_000;
/// The smallest buffer that nobody asked for, bytes.
const MIN_QUEUE: u64 = 64 << 10;
/// The largest that can be asked for, bytes.
const MAX_QUEUE: u64 = 1_000_000_000_000;
/// All packets, in billionths.
const ALL_PPB: u32 = 1_000_000_000;

/// The link that the options ask for; `None` if there are none.
pub(crate) fn link_request(args: &SendArgs) -> Result<Option<LinkRequest>, Failure> {
    if args.rtt.is_none() && args.rate.is_none() && args.loss.is_none() && args.queue.is_none() {
        return Ok(None);
    }
    let rtt = read("--rtt", args.rtt.as_deref(), parse_duration)?.unwrap_or_default();
    let rate = read("--rate", args.rate.as_deref(), parse_bitrate)?;
    let (forward, reverse) = args.loss.as_deref().map_or(Ok((0.0, 0.0)), losses)?;
    let mut link = LinkRequest {
        rtt_us: u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX),
        rate_bps: rate.map_or(NO_LIMIT, |rate| whole(rate.as_bps_f64())),
        loss_forward_ppb: ppb(forward),
        loss_reverse_ppb: ppb(reverse),
        queue_bytes: 1,
    };
    link.queue_bytes = match &args.queue {
        Some(text) => queue(text, &link, args.packet_size)?,
        None => queue("1bdp", &link, args.packet_size)?.clamp(MIN_QUEUE, MAX_QUEUE),
    };
    link.validate().map_err(|sentence| Failure::Usage(sentence.into()))?;
    Ok(Some(link))
}

/// Reads `--queue` for a link of this rate and round-trip time: bytes. Bandwidth-delay products are of one
/// packet at least.
pub(crate) fn queue(text: &str, link: &LinkRequest, packet_size: usize) -> Result<u64, Failure> {
    let packet = packet_size as u64;
    match parse_queue_size(text).map_err(|error| bad("--queue", error))? {
        QueueSize::Packets(0) | QueueSize::Bytes(0) | QueueSize::BdpMillionths(0) => {
            Err(Failure::Usage(format!("--queue must be more than 0, not {text}")))
        }
        QueueSize::Packets(packets) => Ok(u64::from(packets) * packet),
        QueueSize::Bytes(bytes) => Ok(bytes),
        size @ QueueSize::BdpMillionths(_) => {
            let rtt = Duration::from_micros(u64::from(link.rtt_us));
            let limit = QueueLimit::of_size(size, Some(Bitrate::from_bps(link.rate_bps)), rtt);
            Ok(limit.and_then(|limit| limit.bytes).map_or(packet, |bytes| bytes.max(packet)))
        }
    }
}

/// Forward and reverse.
fn losses(text: &str) -> Result<(f64, f64), Failure> {
    let (forward, reverse) = text.split_once('/').unwrap_or((text, "0"));
    let read = |text| {
        let loss = parse_probability(text).map(Probability::as_f64).map_err(|e| bad("--loss", e))?;
        match ppb(loss) {
            0..ALL_PPB => Ok(loss),
            ALL_PPB.. => Err(Failure::Usage("--loss must be below 100 %".into())),
        }
    };
    Ok((read(forward)?, read(reverse)?))
}

fn read<T>(
    name: &str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, UnitError>,
) -> Result<Option<T>, Failure> {
    text.map(|text| parse(text).map_err(|error| bad(name, error))).transpose()
}

fn bad(name: &str, error: impl Display) -> Failure {
    Failure::Usage(format!("{name}: {error}"))
}

/// A probability in billionths.
pub(crate) fn ppb(probability: f64) -> u32 {
    whole_u32(probability * 1e9)
}

/// The nearest whole number; from 2^64 on the largest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates as wanted")]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// The same, from 2^32 on the largest.
pub(crate) fn whole_u32(value: f64) -> u32 {
    u32::try_from(whole(value)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_in_each_of_its_units() {
        // 100 Mbit/s over 100 ms: 1.25 MB.
        let link = LinkRequest {
            rtt_us: 100_000,
            rate_bps: 100_000_000,
            loss_forward_ppb: 0,
            loss_reverse_ppb: 0,
            queue_bytes: 1,
        };
        for (text, bytes) in [
            ("1bdp", 1_250_000),
            ("0.5 BDP", 625_000),
            ("0.0001bdp", 1500),
            ("64kb", 64_000),
            ("100p", 150_000),
        ] {
            assert_eq!(queue(text, &link, 1500).ok(), Some(bytes), "{text}");
        }
        for bad in ["", "9000", "bdp", "1.5p", "-1p", "1x", "0p", "0kb", "0bdp"] {
            assert!(queue(bad, &link, 1500).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_loss_that_lets_nothing_through_is_refused_in_the_users_words() {
        assert_eq!(losses("1%/0.5").ok(), Some((0.01, 0.5)));
        assert_eq!(losses("99.9999999%").map(|(forward, _)| ppb(forward)).ok(), Some(999_999_999));
        for all in ["100%", "1", "0/100%", "99.99999999%"] {
            assert_eq!(losses(all).unwrap_err().to_string(), "--loss must be below 100 %", "{all}");
        }
    }
}
