//! The configuration of a native sender, from options or from the course's five arguments.

use std::str::FromStr;
use std::time::Duration;

use rdt_emulator::{parse_bytes, parse_duration};
use rdt_transport::congestion::Algorithm;
use rdt_transport::wire::native::LinkRequest;
use rdt_transport::{ConfigError, LossDetection, MAX_DATAGRAM, SenderConfig};

use super::link;
use super::positional::{positional_link, positional_window};
use crate::args::Switch;
use crate::args::form::{Mode, Positional};
use crate::output::format::short;
use crate::{Failure, SendArgs};

/// A SYN must fit a datagram.
const MIN_DATAGRAM: usize = 128;
/// Smallest largest window of a receiver, bytes: every datagram fits.
const MIN_RWND: u64 = 64 << 10;
/// Shortest time after which a receiver is given up: that of one SYN.
const MIN_GIVE_UP: Duration = Duration::from_secs(1);

/// The configuration that the arguments ask for.
pub(crate) fn configure(args: &SendArgs, mode: &Mode<'_>) -> Result<SenderConfig, Failure> {
    let (link_request, window) = match &mode.course {
        Some(course) => positional_link_request(args, course)?,
        None => (link::link_request(args)?, None),
    };
    let mut config = SenderConfig { link_request, ..SenderConfig::native(rand::random()) };
    if !(MIN_DATAGRAM..=MAX_DATAGRAM).contains(&args.packet_size) {
        return Err(usage(format!(
            "the packet size must be from {MIN_DATAGRAM} to {MAX_DATAGRAM} bytes in the native format, not {}",
            args.packet_size
        )));
    }
    config.packet_size = args.packet_size;
    config.memory_limit = parse_bytes(&args.memory).map_err(|e| usage(format!("--memory: {e}")))?;
    config.congestion = match &args.cc {
        Some(name) => name.parse().map_err(|e| usage(format!("--cc: {e}")))?,
        None => window.map_or_else(Algorithm::default, Algorithm::Fixed),
    };
    config.recovery = recovery(args)?;
    config.pacing = args.pacing != Some(Switch::Off);
    config.ecn = ecn(args.ecn, config.congestion)?;
    if let Some(text) = &args.initial_window {
        config.initial_window = initial_window(text, config.congestion)?;
    }
    let give_up = args.give_up.as_deref().map(|text| parse_give_up("--give-up", text)).transpose()?;
    let connect = args.connect_give_up.as_deref();
    let connect = connect.map(|text| parse_give_up("--connect-give-up", text)).transpose()?;
    config.handshake_give_up = connect.or(give_up).unwrap_or(config.handshake_give_up);
    config.give_up = give_up.unwrap_or(config.give_up);
    config.window = match config.congestion {
        Algorithm::Fixed(packets) => packets,
        _ => config.largest_window(),
    };
    match config.validate() {
        Ok(()) => Ok(config),
        Err(ConfigError::ZeroWindow) if !matches!(config.congestion, Algorithm::Fixed(_)) => {
            Err(usage("--memory must hold a packet at least"))
        }
        Err(error @ ConfigError::WindowTooLarge { .. }) => {
            Err(usage(format!("{error}; a smaller window or a larger --memory helps")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads `--rwnd`.
pub(crate) fn parse_rwnd(text: &str) -> Result<u64, Failure> {
    match parse_bytes(text) {
        Ok(bytes) if bytes >= MIN_RWND => Ok(bytes),
        Ok(_) => Err(usage("--rwnd must be at least 64kib, so that every datagram fits")),
        Err(error) => Err(usage(format!("--rwnd: {error}"))),
    }
}

/// The link and the window of the course's arguments. Its buffer counts what waits, and is in bytes.
fn positional_link_request(
    args: &SendArgs,
    course: &Positional<'_>,
) -> Result<(Option<LinkRequest>, Option<u32>), Failure> {
    let window = positional_window(course)?;
    let link = positional_link(args, course, window)?;
    link.validate()?;
    let mut request = LinkRequest {
        rtt_us: link::whole_u32(short(link.rtt_s) * 1e6),
        rate_bps: link::whole(short(link.speed_bps)),
        loss_forward_ppb: link::ppb(short(link.loss_forward)),
        loss_reverse_ppb: link::ppb(short(link.loss_reverse)),
        queue_bytes: u64::from(link.buffer) * args.packet_size as u64,
    };
    if let Some(text) = &args.queue {
        request.queue_bytes = link::queue(text, &request, args.packet_size)?;
    }
    request.validate().map_err(usage)?;
    Ok((Some(request), Some(window)))
}

fn recovery(args: &SendArgs) -> Result<LossDetection, Failure> {
    let asked = match &args.recovery {
        Some(name) => {
            Some(LossDetection::from_str(name).map_err(|e| usage(format!("--recovery {e}, not '{name}'")))?)
        }
        None => None,
    };
    let needs_sack = asked.is_none_or(|rule| matches!(rule, LossDetection::Rack | LossDetection::Sack));
    let rule = match (args.sack, asked) {
        (Some(Switch::Off), Some(rule)) if needs_sack => {
            return Err(usage(format!(
                "--recovery {rule} goes by selective ACKs, which --sack off leaves unread"
            )));
        }
        (Some(Switch::On), Some(rule)) if !needs_sack => {
            return Err(usage(format!("--recovery {rule} reads no selective ACKs: leave --sack on away")));
        }
        (Some(Switch::Off), None) => LossDetection::NewReno,
        (_, asked) => asked.unwrap_or(LossDetection::Rack),
    };
    Ok(rule)
}

/// A fixed window answers no marks, so it must not ask for them.
fn ecn(asked: Option<Switch>, congestion: Algorithm) -> Result<bool, Failure> {
    match (asked, congestion) {
        (Some(Switch::On), Algorithm::Fixed(_)) => Err(usage(format!(
            "--ecn on needs congestion control that slows down for marks: it does not go with --cc {congestion}"
        ))),
        _ => Ok(asked != Some(Switch::Off)),
    }
}

fn initial_window(text: &str, congestion: Algorithm) -> Result<u32, Failure> {
    if let Algorithm::Fixed(_) = congestion {
        return Err(usage(format!(
            "--initial-window says nothing with --cc {congestion}, whose window is fixed"
        )));
    }
    text.trim().parse().ok().filter(|packets| *packets > 0).ok_or_else(|| {
        usage(format!("--initial-window must be a whole number of packets, at least 1, not '{text}'"))
    })
}

fn parse_give_up(option: &str, text: &str) -> Result<Duration, Failure> {
    match parse_duration(text) {
        Ok(time) if time >= MIN_GIVE_UP => Ok(time),
        Ok(_) => Err(usage(format!("{option} must be at least 1s"))),
        Err(error) => Err(usage(format!("{option}: {error}"))),
    }
}

fn usage(sentence: impl Into<String>) -> Failure {
    Failure::Usage(sentence.into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn handshake_is_given_up_as_data_unless_named() {
        let seconds = |options: &str| {
            let line = format!("rdt-send local {options}");
            let args = SendArgs::try_parse_from(line.split_whitespace()).unwrap();
            let config = configure(&args, &Mode::parse(&args).unwrap()).unwrap();
            (config.give_up.as_secs(), config.handshake_give_up.as_secs())
        };
        assert_eq!(seconds(""), (100, 180));
        assert_eq!(seconds("--give-up 5s"), (5, 5));
        assert_eq!(seconds("--connect-give-up 7s"), (100, 7));
        assert_eq!(seconds("--give-up 5s --connect-give-up 7s"), (5, 7));
    }
}
