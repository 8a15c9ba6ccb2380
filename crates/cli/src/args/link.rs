//! Options that describe the emulated link with units: `--rtt`, `--rate`, `--loss`, `--queue`.

use std::time::Duration;

use clap::Args;
use rdt_emulator::{
    Bitrate, QueueLimit, QueueSize, parse_bitrate, parse_duration, parse_probability, parse_queue_size,
};
use rdt_program::Failure;
use rdt_transport::wire::native::LinkRequest;

use super::values::{named, ppb, whole};
use super::{Given, given, usage};

pub(super) const HEADING: &str =
    "Link to emulate (HOST local, or a receiver that emulates; for the native format)";

/// Link rate without `--rate`, bits per second: the largest that a SYN can request.
const DEFAULT_RATE_BPS: u64 = 1_000_000_000_000;
const MIN_DEFAULT_QUEUE: u64 = 64 << 10;
/// Largest queue that a SYN can request, bytes.
const MAX_QUEUE: u64 = 1_000_000_000_000;
/// Loss probability 1, in billionths.
const CERTAIN_PPB: u32 = 1_000_000_000;

#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// Round-trip time: 20ms, 1.5s [default: 0s]
    #[arg(long, help_heading = HEADING, value_name = "TIME", value_parser = given(|text| named("--rtt", parse_duration, text)))]
    pub(crate) rtt: Option<Given<Duration>>,
    /// Rate of each direction: 500kbit, 100mbit, 1gbit [default: 1000gbit]
    #[arg(long, help_heading = HEADING, value_name = "RATE", value_parser = given(|text| named("--rate", parse_bitrate, text)))]
    pub(crate) rate: Option<Given<Bitrate>>,
    /// Loss: forward, or forward/reverse: 1%, 0.01, 1%/0 [default: 0]
    #[arg(long, help_heading = HEADING, value_name = "P", value_parser = given(loss))]
    pub(crate) loss: Option<Given<(f64, f64)>>,
    /// Router buffer: 1bdp (of rate x RTT), 64kb, 100p (packets) [default: 1bdp, at least 64kib]
    #[arg(long, help_heading = HEADING, value_name = "SIZE", value_parser = given(queue))]
    pub(crate) queue: Option<Given<QueueSize>>,
}

impl LinkArgs {
    /// Returns the link that the options request; `None` without any of these options.
    pub(crate) fn request(&self, packet_size: usize) -> Result<Option<LinkRequest>, Failure> {
        let Self { rtt, rate, loss, queue } = self;
        if rtt.is_none() && rate.is_none() && loss.is_none() && queue.is_none() {
            return Ok(None);
        }
        let rtt = rtt.as_ref().map_or(Duration::ZERO, |rtt| rtt.value);
        let (forward, reverse) = loss.as_ref().map_or((0.0, 0.0), |loss| loss.value);
        let mut link = LinkRequest {
            rtt_us: u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX),
            rate_bps: rate.as_ref().map_or(DEFAULT_RATE_BPS, |rate| whole(rate.value.as_bps_f64())),
            loss_forward_ppb: ppb(forward),
            loss_reverse_ppb: ppb(reverse),
            queue_bytes: 1,
        };
        link.queue_bytes = match self.queue_bytes(&link, packet_size) {
            Some(bytes) => bytes,
            None => bdp_bytes(ONE_BDP, &link, packet_size).clamp(MIN_DEFAULT_QUEUE, MAX_QUEUE),
        };
        link.validate().map_err(usage)?;
        Ok(Some(link))
    }

    /// Returns `--queue` in bytes. A value in BDP results in one packet at least.
    pub(crate) fn queue_bytes(&self, link: &LinkRequest, packet_size: usize) -> Option<u64> {
        Some(match self.queue.as_ref()?.value {
            QueueSize::Packets(packets) => u64::from(packets) * packet_size as u64,
            QueueSize::Bytes(bytes) => bytes,
            size @ QueueSize::BdpMillionths(_) => bdp_bytes(size, link, packet_size),
        })
    }
}

const ONE_BDP: QueueSize = QueueSize::BdpMillionths(1_000_000);

fn bdp_bytes(size: QueueSize, link: &LinkRequest, packet_size: usize) -> u64 {
    let rtt = Duration::from_micros(u64::from(link.rtt_us));
    let limit = QueueLimit::of_size(size, Some(Bitrate::from_bps(link.rate_bps)), rtt);
    let packet = packet_size as u64;
    limit.and_then(|limit| limit.bytes).map_or(packet, |bytes| bytes.max(packet))
}

/// Parses `--loss`: loss probability in forward and in reverse direction.
fn loss(text: &str) -> Result<(f64, f64), Failure> {
    let (forward, reverse) = text.split_once('/').unwrap_or((text, "0"));
    let read = |text| {
        let loss = named("--loss", parse_probability, text)?.as_f64();
        match ppb(loss) {
            0..CERTAIN_PPB => Ok(loss),
            CERTAIN_PPB.. => Err(usage("--loss must be below 100 %")),
        }
    };
    Ok((read(forward)?, read(reverse)?))
}

fn queue(text: &str) -> Result<QueueSize, Failure> {
    match named("--queue", parse_queue_size, text)? {
        QueueSize::Packets(0) | QueueSize::Bytes(0) | QueueSize::BdpMillionths(0) => {
            Err(usage(format!("--queue must be more than 0, not {text}")))
        }
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_takes_packets_bytes_or_bdp() {
        // The bandwidth-delay product of 100 Mbit/s and 100 ms is 1.25 MB.
        let link = LinkRequest {
            rtt_us: 100_000,
            rate_bps: 100_000_000,
            loss_forward_ppb: 0,
            loss_reverse_ppb: 0,
            queue_bytes: 1,
        };
        let read = |text| {
            let queue = Some(given(queue)(text).ok()?);
            LinkArgs { rtt: None, rate: None, loss: None, queue }.queue_bytes(&link, 1500)
        };
        for (text, bytes) in [
            ("1bdp", 1_250_000),
            ("0.5 BDP", 625_000),
            ("0.0001bdp", 1500),
            ("64kb", 64_000),
            ("100p", 150_000),
        ] {
            assert_eq!(read(text), Some(bytes), "{text}");
        }
        for bad in ["", "9000", "bdp", "1.5p", "-1p", "1x", "0p", "0kb", "0bdp"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn certain_loss_is_refused() {
        assert_eq!(loss("1%/0.5").ok(), Some((0.01, 0.5)));
        assert_eq!(loss("99.9999999%").map(|(forward, _)| ppb(forward)).ok(), Some(999_999_999));
        for all in ["100%", "1", "0/100%", "99.99999999%"] {
            assert_eq!(loss(all).unwrap_err().to_string(), "--loss must be below 100 %", "{all}");
        }
    }
}
