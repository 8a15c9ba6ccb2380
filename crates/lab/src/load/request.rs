//! Request to the load program: flows, times and kernel settings, as JSON.

use std::time::Duration;

use rdt_crypto::Aead;
use serde_json::{Value, json};

use crate::cell::nanoseconds;
use crate::flow::{Flow, FlowKind, Reads, Spacing};

/// Flows of one repetition, and settings of the kernel for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Flows, each with a fixed start.
    pub flows: Vec<Flow>,
    /// True if the flows cross an emulated path, false if they use the loopback device.
    pub has_path: bool,
    /// True if the flows use IPv6.
    pub ipv6: bool,
    /// False if sockets of rdt use neither GSO, GRO nor zero-copy.
    pub offload: bool,
    /// Seed of the repetition, for sources with random gaps and senders with random decisions.
    pub seed: u64,
    /// Width of the bins of bytes received.
    pub bin: Duration,
    /// Time at which the run ends. `None`: when all flows have ended.
    pub duration: Option<Duration>,
    /// Time without a datagram after which none is in flight.
    pub quiet: Duration,
    /// Names and values of sysctls for both ends, such as `net.ipv4.tcp_sack`.
    pub sysctls: Vec<(String, String)>,
    /// Metrics of the routes from the near and from the far end (`RTAX_*` of linux/rtnetlink.h).
    pub metrics: [Vec<(u16, u32)>; 2],
}

impl Request {
    /// Returns the request as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "flows": self.flows.iter().map(Flow::to_json).collect::<Vec<_>>(),
            "has_path": self.has_path,
            "ipv6": self.ipv6,
            "offload": self.offload,
            "seed": self.seed,
            "bin_ns": nanoseconds(self.bin),
            "duration_ns": self.duration.map(nanoseconds),
            "quiet_ns": nanoseconds(self.quiet),
            "sysctls": self.sysctls.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
            "metrics": self.metrics,
        })
    }

    /// Parses a request. `None` if the text is no request of this version.
    pub fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let pair = |it: &Value| Some((it[0].as_str()?.to_owned(), it[1].as_str()?.to_owned()));
        let metric = |it: &Value| Some((number::<u16>(&it[0])?, number::<u32>(&it[1])?));
        let metrics =
            |end: usize| value["metrics"][end].as_array()?.iter().map(metric).collect::<Option<Vec<_>>>();
        Some(Self {
            flows: value["flows"].as_array()?.iter().map(flow).collect::<Option<_>>()?,
            has_path: value["has_path"].as_bool()?,
            ipv6: value["ipv6"].as_bool()?,
            offload: value["offload"].as_bool()?,
            seed: value["seed"].as_u64()?,
            bin: time(&value["bin_ns"])?,
            duration: time(&value["duration_ns"]),
            quiet: time(&value["quiet_ns"])?,
            sysctls: value["sysctls"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
            metrics: [metrics(0)?, metrics(1)?],
        })
    }
}

fn number<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    T::try_from(value.as_u64()?).ok()
}

/// Returns a time in nanoseconds.
pub(crate) fn time(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_nanos)
}

fn times(value: &Value) -> Option<(Duration, Duration)> {
    Some((time(&value[0])?, time(&value[1])?))
}

/// Parses the canonical form of a flow ([`Flow::to_json`]).
fn flow(value: &Value) -> Option<Flow> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let kinds = [FlowKind::Rdt, FlowKind::Tcp, FlowKind::Udp];
    let reads = &value["reads"];
    let cipher = value["cipher"].as_str().unwrap_or(Aead::None.name());
    Some(Flow {
        kind: kinds.into_iter().find(|kind| value["kind"] == kind.word())?,
        start: times(&value["start_ns"])?,
        stop: time(&value["stop_ns"]),
        bytes: value["bytes"].as_u64(),
        rate: value["rate_bps"].as_u64(),
        on_off: times(&value["on_off_ns"]),
        size: number(&value["size"]),
        spacing: if value["poisson"] == true { Spacing::Poisson } else { Spacing::Constant },
        reverse: value["reverse"] == true,
        cc: text("cc"),
        recovery: text("recovery"),
        initial_window: number(&value["initial_window"]),
        loss_window_initial: value["loss_window_initial"] == true,
        min_rto: time(&value["min_rto_ns"]),
        max_rto: time(&value["max_rto_ns"]),
        pacing: value["pacing"].as_bool(),
        ecn: value["ecn"].as_bool(),
        cipher: Aead::ALL.into_iter().find(|aead| aead.name() == cipher)?,
        packet: number(&value["packet"]),
        send_buffer: value["send_buffer"].as_u64(),
        window: value["window"].as_u64(),
        ack: number(&value["ack"][0]).zip(time(&value["ack"][1])),
        reads: match (reads["rate_bps"].as_u64(), time(&reads["from_ns"])) {
            (Some(bps), _) => Reads::Rate(bps),
            (None, Some(from)) => Reads::Stalled(from, time(&reads["length_ns"])?),
            (None, None) => Reads::AtOnce,
        },
        ..Flow::new(value["name"].as_str()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_json() {
        let second = Duration::from_secs(1);
        let every_word = Flow {
            kind: FlowKind::Tcp,
            start: (second, 2 * second),
            stop: Some(9 * second),
            bytes: Some(1 << 40),
            rate: Some(1_000_000),
            on_off: Some((second, 2 * second)),
            size: Some(1470),
            spacing: Spacing::Poisson,
            reverse: true,
            cc: Some("cubic".to_owned()),
            recovery: Some("rack".to_owned()),
            initial_window: Some(4),
            loss_window_initial: true,
            min_rto: Some(second),
            max_rto: Some(60 * second),
            pacing: Some(false),
            ecn: Some(true),
            cipher: Aead::Aes128Gcm,
            packet: Some(1480),
            send_buffer: Some(65_536),
            window: Some(5_000),
            ack: Some((2, Duration::from_millis(25))),
            reads: Reads::Stalled(second, second),
            ..Flow::new("a")
        };
        let slow = Flow { reads: Reads::Rate(1_000), ..Flow::new("b") };
        let request = Request {
            flows: vec![every_word, slow, Flow { kind: FlowKind::Udp, ..Flow::new("c") }],
            has_path: true,
            ipv6: true,
            offload: false,
            seed: u64::MAX,
            bin: Duration::from_millis(100),
            duration: Some(10 * second),
            quiet: second,
            sysctls: vec![("net.ipv4.tcp_sack".to_owned(), "0".to_owned())],
            metrics: [vec![(11, 4), (13, 200)], Vec::new()],
        };
        assert_eq!(Request::parse(&request.to_json().to_string()), Some(request));
        assert_eq!(Request::parse("{}"), None);
    }
}
