//! Words of a `[[flow]]` table, and their conversion to a [`Flow`].

use std::time::Duration;

use rdt_crypto::Aead;
use rdt_emulator::{parse_bitrate, parse_bytes, parse_duration};

use super::error::suggest;
use crate::flow::{Flow, FlowKind, Reads, Spacing};

/// Kinds of flows that have a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    Udp,
    /// Flows with feedback.
    Transport,
    /// Flows with feedback, but for those of the classic format, which decides it.
    NotClassic,
}

/// Words of a flow that a factor may vary, each with the kinds of flows that have it. The last
/// column describes its values, as the end of an error sentence.
const WORDS: [(&str, Kinds, &str); 28] = [
    ("kind", Kinds::All, "rdt, classic, tcp or udp"),
    ("count", Kinds::All, "a number of equal flows, which are named NAME1, NAME2 and so on"),
    ("start", Kinds::All, "a time such as 10s, or two such as 0s..100ms between which each repetition draws"),
    ("stop", Kinds::All, "a time such as 60s"),
    ("bytes", Kinds::All, "a size such as 1mb, or unbounded"),
    ("rate", Kinds::All, "a rate of payload such as 10mbit"),
    ("on-off", Kinds::All, "the times to write and to pause, such as 1s/2s"),
    ("size", Kinds::Udp, "the payload of a datagram in bytes, such as 1470"),
    ("spacing", Kinds::Udp, "constant or poisson"),
    ("device-mtu", Kinds::Udp, "the MTU of the sender's device in bytes, such as 1500"),
    ("reverse", Kinds::All, "true or false"),
    (
        "answers",
        Kinds::NotClassic,
        "the name of the flow whose connection has this flow as its other direction, or none",
    ),
    ("cc", Kinds::Transport, "reno, cubic, bbr, fixed:N with N packets, or a name that the kernel knows"),
    ("recovery", Kinds::NotClassic, "rack, sack, newreno, reno, tahoe or base-only"),
    ("sack", Kinds::NotClassic, "on or off"),
    ("initial-window", Kinds::NotClassic, "a number of packets such as 4"),
    ("loss-window", Kinds::NotClassic, "1 or initial"),
    ("min-rto", Kinds::NotClassic, "a time such as 200ms"),
    ("max-rto", Kinds::NotClassic, "a time such as 60s"),
    ("pacing", Kinds::NotClassic, "on or off"),
    ("ecn", Kinds::NotClassic, "on or off"),
    ("cipher", Kinds::NotClassic, "none, aes-128-gcm, aes-256-gcm or chacha20-poly1305"),
    ("packet", Kinds::Transport, "the largest IP packet in bytes, such as 1500"),
    ("send-buffer", Kinds::All, "a size such as 64kib"),
    ("receiver.window", Kinds::NotClassic, "a size such as 16kib"),
    ("receiver.reads", Kinds::NotClassic, "a rate such as 1mbit"),
    ("receiver.ack", Kinds::NotClassic, "1, or packets and longest delay such as 2/25ms"),
    ("receiver.stall", Kinds::NotClassic, "a span in which nothing is read, such as 10s..11.2s"),
];

/// Rules of loss recovery that read selective ACKs, and those that do not.
const SACK_RECOVERIES: [&str; 2] = ["rack", "sack"];
const PLAIN_RECOVERIES: [&str; 4] = ["newreno", "reno", "tahoe", "base-only"];
/// Limit on `count`.
const MAX_FLOWS: u32 = 1_000;

/// Values of the words that several fields of [`Flow`] come from, and the flow so far.
#[derive(Debug, Clone)]
pub(super) struct FlowDraft {
    flow: Flow,
    sack: Option<bool>,
    count: Option<u32>,
}

/// Returns an error if there is no such word.
pub(super) fn check_word(word: &str) -> Result<(), String> {
    if WORDS.iter().any(|(known, ..)| *known == word) {
        return Ok(());
    }
    let synonym = match word {
        "congestion-control" | "congestion" | "algorithm" => Some("cc"),
        "window" | "rwnd" => Some("receiver.window"),
        "ack" | "reads" | "stall" => return Err(format!("there is no word '{word}'; write receiver.{word}")),
        "iw" | "initcwnd" => Some("initial-window"),
        "mss" | "mtu" => Some("packet"),
        "begin" => Some("start"),
        "end" => Some("stop"),
        _ => None,
    };
    let hint = match synonym {
        Some(known) => format!("did you mean '{known}'?"),
        None => suggest(word, WORDS.iter().map(|(known, ..)| *known)),
    };
    Err(format!("there is no word '{word}' of flows; {hint}"))
}

/// Returns an error if flows of this kind do not use the word.
pub(super) fn check_kind(word: &str, kind: FlowKind) -> Result<(), String> {
    let kinds = WORDS.iter().find(|(known, ..)| *known == word).map_or(Kinds::All, |(_, kinds, _)| *kinds);
    match (kinds, kind) {
        (Kinds::Transport | Kinds::NotClassic, FlowKind::Udp) => {
            Err(format!("a udp flow has no {word}: it sends datagrams without feedback"))
        }
        (Kinds::NotClassic, FlowKind::Classic) => {
            Err(format!("a classic flow has no {word}: its format decides that"))
        }
        (Kinds::Udp, FlowKind::Rdt | FlowKind::Classic | FlowKind::Tcp) => {
            Err(format!("only udp flows have {word}; this flow is {}", kind.word()))
        }
        _ => Ok(()),
    }
}

pub(super) fn parse_kind(value: &str) -> Result<FlowKind, String> {
    let kinds = [FlowKind::Rdt, FlowKind::Classic, FlowKind::Tcp, FlowKind::Udp];
    let found = kinds.into_iter().find(|kind| kind.word() == value);
    found.ok_or_else(|| format!("'{value}' is not rdt, classic, tcp or udp"))
}

impl FlowDraft {
    pub(super) fn new(name: &str) -> Self {
        Self { flow: Flow::new(name), sack: None, count: None }
    }

    /// Sets a word, which must exist. The error is a sentence about `value`.
    pub(super) fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        self.assign(word, value.trim()).map_err(|error| {
            let allowed =
                WORDS.iter().find(|(known, ..)| *known == word).map_or("", |(.., allowed)| *allowed);
            format!("{error} (it is {allowed})")
        })
    }

    fn assign(&mut self, word: &str, value: &str) -> Result<(), String> {
        let flow = &mut self.flow;
        match word {
            "kind" => flow.kind = parse_kind(value)?,
            "count" => {
                let count = number(value)?;
                if count > MAX_FLOWS {
                    return Err(format!("'{value}' is more than {MAX_FLOWS} flows"));
                }
                self.count = Some(count);
            }
            "start" => flow.start = span_or_time(value)?,
            "stop" => flow.stop = Some(time(value)?),
            "bytes" if value == "unbounded" => flow.bytes = None,
            "bytes" => flow.bytes = Some(positive(size(value)?, value)?),
            "rate" => flow.rate = Some(rate(value)?),
            "on-off" => flow.on_off = Some(on_off(value)?),
            "device-mtu" => flow.device_mtu = Some(positive(number(value)?, value)?),
            "size" => flow.size = Some(positive(number(value)?, value)?),
            "spacing" => {
                flow.spacing = match value {
                    "constant" => Spacing::Constant,
                    "poisson" => Spacing::Poisson,
                    _ => return Err(format!("'{value}' is no spacing")),
                }
            }
            "reverse" => flow.reverse = switch(value)?,
            "send-buffer" => flow.send_buffer = Some(positive(size(value)?, value)?),
            _ => return self.assign_transport(word, value),
        }
        Ok(())
    }

    fn assign_transport(&mut self, word: &str, value: &str) -> Result<(), String> {
        let flow = &mut self.flow;
        match word {
            "cc" if value.is_empty() => return Err("'' is no name".to_owned()),
            "cc" => flow.cc = Some(value.to_owned()),
            "answers" => flow.answers = (value != "none").then(|| value.to_owned()),
            "recovery" => {
                if !SACK_RECOVERIES.iter().chain(&PLAIN_RECOVERIES).any(|known| *known == value) {
                    return Err(format!("'{value}' is no rule of loss recovery"));
                }
                flow.recovery = Some(value.to_owned());
            }
            "sack" => self.sack = Some(switch(value)?),
            "initial-window" => flow.initial_window = Some(positive(number(value)?, value)?),
            "loss-window" => {
                flow.loss_window_initial = match value {
                    "1" => false,
                    "initial" => true,
                    _ => return Err(format!("'{value}' is no loss window")),
                }
            }
            "min-rto" => flow.min_rto = Some(time(value)?),
            "max-rto" => flow.max_rto = Some(time(value)?),
            "pacing" => flow.pacing = Some(switch(value)?),
            "ecn" => flow.ecn = Some(switch(value)?),
            "cipher" => {
                let known = Aead::ALL.into_iter().find(|aead| aead.name() == value);
                flow.cipher = known.ok_or_else(|| format!("'{value}' is no cipher"))?;
            }
            "packet" => flow.packet = Some(positive(number(value)?, value)?),
            "receiver.window" => flow.window = Some(positive(size(value)?, value)?),
            "receiver.reads" => flow.reads = Reads::Rate(rate(value)?),
            "receiver.ack" => flow.ack = Some(ack(value)?),
            "receiver.stall" => {
                let (from, to) = pair_with(value, "..")?;
                flow.reads = match to.checked_sub(from) {
                    Some(length) if !length.is_zero() => Reads::Stalled(from, length),
                    _ => return Err(format!("'{value}' ends before it begins")),
                };
            }
            _ => return Err(format!("there is no word '{word}'")),
        }
        Ok(())
    }

    /// Returns the flows that the words describe: one, or `count` with numbered names. The error is
    /// a sentence about the combination of words.
    pub(super) fn finish(mut self) -> Result<Vec<Flow>, String> {
        let recovery = self.flow.recovery.as_deref();
        match (self.sack, recovery) {
            (Some(false), Some(rule)) if SACK_RECOVERIES.contains(&rule) => {
                return Err(format!("sack = off excludes recovery = {rule}, which reads selective ACKs"));
            }
            (Some(true), Some(rule)) if PLAIN_RECOVERIES.contains(&rule) => {
                return Err(format!("sack = on excludes recovery = {rule}, which ignores selective ACKs"));
            }
            (Some(false), None) => self.flow.recovery = Some("newreno".to_owned()),
            _ => {}
        }
        if self.flow.kind == FlowKind::Udp && self.flow.rate.is_none() {
            return Err("a udp flow has a rate: write such as rate = \"10mbit\"".to_owned());
        }
        if let (Some(stop), (_, latest)) = (self.flow.stop, self.flow.start)
            && stop <= latest
        {
            return Err("the flow stops before it starts".to_owned());
        }
        let Some(count) = self.count else { return Ok(vec![self.flow]) };
        let numbered = |n| Flow { name: format!("{}{n}", self.flow.name), ..self.flow.clone() };
        Ok((1..=count).map(numbered).collect())
    }
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<u64, String> {
    let bps = parse_bitrate(text).map_err(|error| error.to_string())?.as_bps_f64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^64")]
    let bps = bps.round() as u64;
    positive(bps, text)
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number"))
}

fn positive<T: Default + PartialEq>(value: T, text: &str) -> Result<T, String> {
    if value == T::default() { Err(format!("'{text}' is less than 1")) } else { Ok(value) }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(format!("'{text}' is not on or off")),
    }
}

/// Parses `10s` as (10s, 10s) and `0s..100ms` as (0s, 100ms).
fn span_or_time(text: &str) -> Result<(Duration, Duration), String> {
    if !text.contains("..") {
        let at = time(text)?;
        return Ok((at, at));
    }
    let (from, to) = pair_with(text, "..")?;
    if to < from { Err(format!("'{text}' ends before it begins")) } else { Ok((from, to)) }
}

fn on_off(text: &str) -> Result<(Duration, Duration), String> {
    let (on, off) = pair_with(text, "/")?;
    if on.is_zero() {
        Err(format!("'{text}' never writes: the first time is above 0"))
    } else {
        Ok((on, off))
    }
}

fn pair_with(text: &str, separator: &str) -> Result<(Duration, Duration), String> {
    let (one, two) = text
        .split_once(separator)
        .ok_or_else(|| format!("'{text}' has no '{separator}' between two times"))?;
    Ok((time(one.trim())?, time(two.trim())?))
}

fn ack(text: &str) -> Result<(u32, Duration), String> {
    let (packets, delay) = match text.split_once('/') {
        Some((packets, delay)) => (number(packets.trim())?, time(delay.trim())?),
        None if text == "1" => (1, Duration::ZERO),
        None => return Err(format!("'{text}' has no longest delay: write {text}/25ms")),
    };
    Ok((positive(packets, text)?, delay))
}
