//! The positional arguments W RTT LOSS LINKMBPS: window and link of the classic protocol.

use rdt_transport::LinkProperties;

use super::form::Positional;
use crate::{Failure, SendArgs};

/// Packets of router buffer beyond the window, unless told otherwise: room for retransmissions.
const EXTRA_BUFFER: u32 = 50;
/// Largest buffer that a receiver accepts, packets.
const MAX_BUFFER: u32 = 1_000_000;

/// W.
pub(crate) fn positional_window(course: &Positional<'_>) -> Result<u32, Failure> {
    number(course.window, "W", "a whole number of packets, at least 1")
}

/// The link of the course's arguments; its values may be out of range.
pub(crate) fn positional_link(
    args: &SendArgs,
    course: &Positional<'_>,
    window: u32,
) -> Result<LinkProperties, Failure> {
    let (forward, reverse) = course.loss.split_once('/').unwrap_or((course.loss, "0"));
    let loss = "a probability, or forward/reverse, each from 0 to below 1";
    let mbps: f64 = number(course.link_mbps, "LINKMBPS", "a number of Mbps above 0")?;
    Ok(LinkProperties {
        rtt_s: number(course.rtt_s, "RTT", "a number of seconds from 0 to below 30")?,
        // Rounded once, so that 0.0005 Mbps is 500 bit/s.
        #[expect(clippy::cast_possible_truncation, reason = "the SYN carries an f32")]
        speed_bps: (mbps * 1e6) as f32,
        loss_forward: number(forward, "LOSS", loss)?,
        loss_reverse: number(reverse, "LOSS", loss)?,
        buffer: args.buffer.unwrap_or_else(|| window.saturating_add(EXTRA_BUFFER).min(MAX_BUFFER)),
    })
}

fn number<T: std::str::FromStr>(text: &str, name: &str, form: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|_| Failure::Usage(format!("{name} must be {form}, not '{text}'")))
}
