//! The vocabulary of flows, the same for flows in virtual time, for rdt over sockets and for TCP of
//! the kernel. Each engine refuses the words that it cannot apply.

use std::time::Duration;

use rdt_crypto::Aead;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bytes of IPv4 and UDP headers.
pub(crate) const UDP_HEADERS: u32 = 28;
/// Bytes of the headers of IPv6 and UDP.
pub(crate) const UDP_HEADERS_IPV6: u32 = 48;
/// Largest IP packet of a flow that does not set `packet`, bytes.
pub(crate) const DEFAULT_PACKET: u32 = 1500;

/// Returns a time in nanoseconds, at most 584 years.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Kind of sender of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowKind {
    /// A transfer of rdt in the native format.
    Rdt,
    /// A transfer of rdt in the classic format. Its window is fixed, and the receiver offers one
    /// packet more with each packet.
    Classic,
    /// TCP: with the engine `kernel` that of the kernel, in virtual time an rdt transfer with the
    /// rules of TCP (an ACK for two packets; pacing and ECN only if the flow sets them).
    Tcp,
    /// UDP datagrams at a rate, without feedback.
    Udp,
}

impl FlowKind {
    /// Returns the word in experiment files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rdt => "rdt",
            Self::Classic => "classic",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Rule by which the receiver's application reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reads {
    /// The application reads at once.
    AtOnce,
    /// The application reads at most this many bits per second.
    Rate(u64),
    /// The application reads nothing from the first time on, for as long as the second says.
    Stalled(Duration, Duration),
}

/// Spacing of the datagrams of a UDP flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spacing {
    /// Equal gaps.
    Constant,
    /// Exponential gaps: a Poisson process with the rate of the flow.
    Poisson,
}

/// A flow. `None` means the default of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Name, with which factors, metrics and claims refer to the flow.
    pub name: String,
    /// Kind of sender.
    pub kind: FlowKind,
    /// Earliest and latest start. Each repetition draws its start uniformly between them.
    pub start: (Duration, Duration),
    /// Time at which the application stops writing. `None`: at the end of its data.
    pub stop: Option<Duration>,
    /// Bytes that the application writes. `None`: without end.
    pub bytes: Option<u64>,
    /// Payload rate of the application, bits per second. `None`: as fast as the transport accepts.
    pub rate: Option<u64>,
    /// Times for which the application writes and pauses, in turn. `None`: it does not pause.
    pub on_off: Option<(Duration, Duration)>,
    /// Payload of a datagram of a UDP flow, bytes.
    pub size: Option<u32>,
    /// Spacing of the datagrams of a UDP flow.
    pub spacing: Spacing,
    /// MTU of the sender's device, bytes: longer datagrams of a UDP flow leave as IPv6 fragments,
    /// each a packet of its own. `None`: they leave whole.
    pub device_mtu: Option<u32>,
    /// True if data flows from the second host to the first.
    pub reverse: bool,
    /// Name of the flow of whose connection this is the other direction. `None`: it has its own.
    pub answers: Option<String>,
    /// Congestion control: `reno`, `cubic`, `bbr`, `fixed:N`, or a name that the kernel knows.
    pub cc: Option<String>,
    /// Loss recovery: `rack`, `sack`, `newreno`, `reno`, `tahoe`, `base-only`.
    pub recovery: Option<String>,
    /// Initial congestion window, packets.
    pub initial_window: Option<u32>,
    /// True if the congestion window after a timeout is the initial window instead of one packet.
    pub loss_window_initial: bool,
    /// Lower limit of the retransmission timeout.
    pub min_rto: Option<Duration>,
    /// Upper limit of the retransmission timeout after back-off.
    pub max_rto: Option<Duration>,
    /// True to pace packets.
    pub pacing: Option<bool>,
    /// True to use ECN.
    pub ecn: Option<bool>,
    /// Cipher of the packets. It changes no length, so a run is the same without it, and faster.
    #[serde(with = "cipher")]
    pub cipher: Aead,
    /// Largest IP packet of the flow, bytes.
    pub packet: Option<u32>,
    /// Limit on the send buffer, bytes.
    pub send_buffer: Option<u64>,
    /// Fixed receive window, bytes. `None`: it grows.
    pub window: Option<u64>,
    /// Number of packets per ACK, and the longest time that an ACK is delayed.
    pub ack: Option<(u32, Duration)>,
    /// Rule of the receiving application.
    pub reads: Reads,
}

/// Reads and writes a cipher as its number.
mod cipher {
    use rdt_crypto::Aead;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(cipher: &Aead, to: S) -> Result<S::Ok, S::Error> {
        (*cipher as u8).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Aead, D::Error> {
        Aead::from_number(u8::deserialize(from)?).ok_or_else(|| D::Error::custom("no number of a cipher"))
    }
}

impl Flow {
    /// Returns an rdt flow without end that starts at 0, with all defaults.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: FlowKind::Rdt,
            start: (Duration::ZERO, Duration::ZERO),
            stop: None,
            bytes: None,
            rate: None,
            on_off: None,
            size: None,
            spacing: Spacing::Constant,
            device_mtu: None,
            reverse: false,
            answers: None,
            cc: None,
            recovery: None,
            initial_window: None,
            loss_window_initial: false,
            min_rto: None,
            max_rto: None,
            pacing: None,
            ecn: None,
            cipher: Aead::None,
            packet: None,
            send_buffer: None,
            window: None,
            ack: None,
            reads: Reads::AtOnce,
        }
    }

    /// Returns the canonical form, which is part of the identity of a cell. Values that are not set
    /// are left out, so that a new word does not change the identity of cells without it.
    pub fn to_json(&self) -> Value {
        let time = |time: Duration| Value::from(nanoseconds(time));
        let reads = match self.reads {
            Reads::AtOnce => None,
            Reads::Rate(bps) => Some(json!({ "rate_bps": bps })),
            Reads::Stalled(from, length) => Some(json!({ "from_ns": time(from), "length_ns": time(length) })),
        };
        let set = [
            ("name", Some(Value::from(self.name.as_str()))),
            ("kind", Some(Value::from(self.kind.word()))),
            ("start_ns", Some(json!([time(self.start.0), time(self.start.1)]))),
            ("stop_ns", self.stop.map(time)),
            ("bytes", self.bytes.map(Value::from)),
            ("rate_bps", self.rate.map(Value::from)),
            ("on_off_ns", self.on_off.map(|(on, off)| json!([time(on), time(off)]))),
            ("size", self.size.map(Value::from)),
            ("poisson", (self.spacing == Spacing::Poisson).then_some(Value::Bool(true))),
            ("device_mtu", self.device_mtu.map(Value::from)),
            ("reverse", self.reverse.then_some(Value::Bool(true))),
            ("answers", self.answers.as_deref().map(Value::from)),
            ("cc", self.cc.as_deref().map(Value::from)),
            ("recovery", self.recovery.as_deref().map(Value::from)),
            ("initial_window", self.initial_window.map(Value::from)),
            ("loss_window_initial", self.loss_window_initial.then_some(Value::Bool(true))),
            ("min_rto_ns", self.min_rto.map(time)),
            ("max_rto_ns", self.max_rto.map(time)),
            ("pacing", self.pacing.map(Value::from)),
            ("ecn", self.ecn.map(Value::from)),
            ("cipher", self.cipher.is_encrypted().then(|| Value::from(self.cipher.name()))),
            ("packet", self.packet.map(Value::from)),
            ("send_buffer", self.send_buffer.map(Value::from)),
            ("window", self.window.map(Value::from)),
            ("ack", self.ack.map(|(packets, delay)| json!([packets, time(delay)]))),
            ("reads", reads),
        ];
        Value::Object(set.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
    }
}
