//! Conditions of a flow, from the description of its cell.

use std::time::Duration;

use rdt_emulator::{Direction, LinkConfig, Loss, VaryingRate, WifiConfig};
use rdt_transport::SenderConfig;

use crate::cell::Physics;
use crate::flow::{DEFAULT_PACKET, Flow, FlowKind, UDP_HEADERS};

/// Bytes of IPv4 and TCP headers with timestamps.
const TCP_HEADERS: u32 = 52;

/// Properties of a flow and its path that the models use.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// Rate of the slowest link towards the receiver, bits per second on the link. `None`: no
    /// limit.
    pub rate_bps: Option<f64>,
    /// Round-trip propagation delay, seconds.
    pub rtt_s: f64,
    /// Long-term share of packets that the path loses towards the receiver by chance, 0 to 1.
    pub loss: f64,
    /// Payload of a full packet, bytes.
    pub payload: f64,
    /// Length of a full packet on the slowest link with all headers, bytes.
    pub on_link: f64,
    /// Receiver's window, bytes. `None`: it does not limit.
    pub window: Option<f64>,
    /// Number of packets that an ACK covers.
    pub ack_every: f64,
    /// Initial congestion window, packets.
    pub initial_window: f64,
    /// Lower limit of the retransmission timeout, seconds.
    pub min_rto_s: f64,
    /// Bytes that the application writes. `None`: without end.
    pub bytes: Option<f64>,
    /// The 802.11 cell, if the link is one.
    pub wifi: Option<WifiConfig>,
    /// True if the links pass a full packet without fragments.
    pub whole: bool,
}

impl Conditions {
    /// Returns the conditions of a flow. `None` if a link reads its rate from a trace, or a packet
    /// has no room for its headers.
    pub fn of(physics: &Physics, flow: &Flow) -> Option<Self> {
        let towards = if flow.reverse { Direction::Reverse } else { Direction::Forward };
        let (mut rate, mut rtt_s, mut arrives, mut wifi) = (None, 0.0, 1.0, None);
        let (mut added, mut mtus) = (0, Vec::new());
        for path in &physics.links {
            let path = path.to_path_config(|_| Err("a trace".to_owned())).ok()?;
            let link = match towards {
                Direction::Forward => &path.forward,
                Direction::Reverse => &path.reverse,
            };
            rtt_s += path.rtt().as_secs_f64();
            arrives *= 1.0 - mean_loss(&link.loss);
            mtus.push(link.mtu.clone());
            if let Some(VaryingRate::Wifi(cell)) = link.varying {
                wifi = Some(cell);
            }
            let bps = link.rate.map(rdt_emulator::Bitrate::as_bps_f64);
            if bps.is_some_and(|bps| rate.is_none_or(|slowest| bps < slowest)) {
                rate = bps;
                added = added_bytes(link, flow);
            }
        }
        let packet = flow.packet.unwrap_or(DEFAULT_PACKET);
        let (payload, packet) = match flow.kind {
            FlowKind::Udp => match flow.size {
                Some(size) => (size, size.checked_add(UDP_HEADERS)?),
                None => (packet.checked_sub(UDP_HEADERS)?, packet),
            },
            FlowKind::Tcp if !physics.engine.is_virtual() => (packet.checked_sub(TCP_HEADERS)?, packet),
            FlowKind::Rdt | FlowKind::Tcp => (native_payload(packet)?, packet),
        };
        let on_link = packet.checked_add(added)?;
        let length = usize::try_from(on_link).ok()?;
        Some(Self {
            rate_bps: rate,
            rtt_s,
            loss: 1.0 - arrives,
            payload: payload.into(),
            on_link: f64::from(on_link),
            #[allow(clippy::cast_precision_loss, reason = "a window is far below 2^53 bytes")]
            window: flow.window.map(|bytes| bytes as f64),
            ack_every: flow.ack.map_or(2.0, |(packets, _)| f64::from(packets.max(1))),
            initial_window: flow.initial_window.unwrap_or(10).into(),
            min_rto_s: flow.min_rto.map_or(0.2, |time| time.as_secs_f64()),
            #[allow(clippy::cast_precision_loss, reason = "a transfer is far below 2^53 bytes")]
            bytes: flow.bytes.map(|bytes| bytes as f64),
            wifi,
            whole: mtus
                .iter()
                .all(|mtu| mtu.frames(Duration::ZERO, length).is_some_and(|it| it.count() == 1)),
        })
    }

    /// Returns the goodput of a full link, bits per second. `None` if no link limits.
    pub fn link_goodput_bps(&self) -> Option<f64> {
        Some(self.rate_bps? * self.payload / self.on_link)
    }

    /// Returns the round trip of a packet on an idle path: propagation and serialisation, seconds.
    pub fn idle_rtt_s(&self) -> f64 {
        self.rtt_s + self.rate_bps.map_or(0.0, |bps| self.on_link * 8.0 / bps)
    }
}

/// Returns the payload of a full packet of the native format, bytes.
fn native_payload(packet: u32) -> Option<u32> {
    let packet_size = usize::try_from(packet.checked_sub(UDP_HEADERS)?).ok()?;
    let config = SenderConfig { packet_size, ..SenderConfig::native(0) };
    u32::try_from(config.payload_size()).ok().filter(|bytes| *bytes > 0)
}

/// Returns the bytes that a link adds to a packet. Engines send IP packets, so of the headers that
/// a path counts only those beyond IP and UDP are added.
fn added_bytes(link: &LinkConfig, flow: &Flow) -> u32 {
    let ip = if flow.kind == FlowKind::Tcp { 0 } else { UDP_HEADERS };
    link.framing + link.overhead.saturating_sub(ip)
}

/// Returns the long-term loss rate of a model, 0 to 1. That of a script counts as 0.
fn mean_loss(loss: &Loss) -> f64 {
    match loss {
        Loss::None | Loss::Script(_) => 0.0,
        Loss::Bernoulli(p) => p.as_f64(),
        Loss::Bounded { probability, max_run } => {
            let p = probability.as_f64();
            let run = p.powf(f64::from(max_run.get()) + 1.0);
            if run < 1.0 { (p - run) / (1.0 - run) } else { 1.0 }
        }
        Loss::GilbertElliott(channel) => channel.mean_loss(),
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53 packets")]
        Loss::EveryNth(n) => 1.0 / n.get() as f64,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cell::EngineKind;
    use rdt_emulator::spec::PathSpec;

    pub(in crate::theory) fn conditions(path: &str, change: impl Fn(&mut Flow)) -> Conditions {
        let mut flow = Flow::new("a");
        change(&mut flow);
        let physics = Physics {
            engine: EngineKind::Virtual,
            duration: None,
            links: vec![PathSpec::from_toml(path).expect("a path")],
            flows: vec![flow.clone()],
            engine_words: Vec::new(),
        };
        Conditions::of(&physics, &flow).expect("no trace")
    }

    #[test]
    fn headers_and_loss_come_from_the_path() {
        let path = "rtt = '10ms'\nrate = '8mbit'\nloss = '2.5%/0'\nheaders = 28\nframing = 38";
        let it = conditions(path, |_| ());
        assert_eq!((it.payload, it.on_link), (1444.0, 1538.0));
        assert!((it.loss - 0.025).abs() < 1e-12 && (it.idle_rtt_s() - 0.011_538).abs() < 1e-9, "{it:?}");
        let reversed = conditions(path, |flow| flow.reverse = true);
        assert!(reversed.loss < 1e-12, "{reversed:?}");
    }
}
