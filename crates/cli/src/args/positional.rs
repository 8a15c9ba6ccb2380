//! The positional arguments W RTT LOSS LINKMBPS: window and link, in the units of the classic
//! protocol.

use rdt_program::Failure;
use rdt_transport::LinkProperties;
use rdt_transport::wire::native::LinkRequest;

use super::values::{ppb, whole, whole_u32};
use super::{SendArgs, usage};
use crate::output::format::short;

/// Default of `--buffer` minus the window, packets: room for retransmissions.
const EXTRA_BUFFER: u32 = 50;
/// Largest buffer that a receiver accepts, packets.
const MAX_BUFFER: u32 = 1_000_000;

/// Second argument: the window W, or `-` as in `rdt-send HOST -`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowArg {
    Packets(u32),
    Stdin,
}

impl WindowArg {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "-" => Ok(Self::Stdin),
            _ => number(text, "W", WINDOW_FORM).map(Self::Packets),
        }
    }

    pub(super) fn packets(self) -> Result<u32, Failure> {
        match self {
            Self::Packets(packets) => Ok(packets),
            Self::Stdin => number("-", "W", WINDOW_FORM),
        }
    }
}

pub(super) fn stdin(text: &str) -> Result<String, Failure> {
    if text == "-" {
        return Ok(text.into());
    }
    Err(usage(format!(
        "'{text}' is one argument too many: after HOST W RTT LOSS LINKMBPS only - may follow, the standard input; \
         see --help"
    )))
}

const WINDOW_FORM: &str = "a whole number of packets, at least 1";

/// Window and requested link. Whether the link is in range is checked later.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Positional {
    pub(crate) window: u32,
    pub(crate) link: LinkProperties,
}

impl Positional {
    pub(super) fn new(args: &SendArgs, window: u32, rtt_s: f32, loss: (f32, f32), link_bps: f32) -> Self {
        let (loss_forward, loss_reverse) = loss;
        let buffer = args.buffer.unwrap_or_else(|| window.saturating_add(EXTRA_BUFFER).min(MAX_BUFFER));
        let link = LinkProperties { rtt_s, speed_bps: link_bps, loss_forward, loss_reverse, buffer };
        Self { window, link }
    }

    /// Converts the link to a link request of the native format, whose buffer is in bytes.
    pub(crate) fn link_request(&self, packet_size: usize) -> Result<LinkRequest, Failure> {
        let link = &self.link;
        link.validate().map_err(usage)?;
        Ok(LinkRequest {
            rtt_us: whole_u32(short(link.rtt_s) * 1e6),
            rate_bps: whole(short(link.speed_bps)),
            loss_forward_ppb: ppb(short(link.loss_forward)),
            loss_reverse_ppb: ppb(short(link.loss_reverse)),
            queue_bytes: u64::from(link.buffer) * packet_size as u64,
        })
    }
}

pub(super) fn rtt(text: &str) -> Result<f32, Failure> {
    number(text, "RTT", "a number of seconds from 0 to below 30")
}

/// Parses LOSS: loss probability from 0 to below 1, in forward and in reverse direction.
pub(super) fn loss(text: &str) -> Result<(f32, f32), Failure> {
    let (forward, reverse) = text.split_once('/').unwrap_or((text, "0"));
    let form = "a probability, or forward/reverse, each from 0 to below 1";
    Ok((number(forward, "LOSS", form)?, number(reverse, "LOSS", form)?))
}

/// Parses LINKMBPS (Mbit/s), and returns bits per second.
pub(super) fn link_bps(text: &str) -> Result<f32, Failure> {
    let mbps: f64 = number(text, "LINKMBPS", "a number of Mbps above 0")?;
    // Converted to `f32` only at the end, so that 0.0005 Mbps is exactly 500 bit/s.
    #[expect(clippy::cast_possible_truncation, reason = "the SYN carries an f32")]
    Ok((mbps * 1e6) as f32)
}

fn number<T: std::str::FromStr>(text: &str, name: &str, form: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|_| usage(format!("{name} must be {form}, not '{text}'")))
}
