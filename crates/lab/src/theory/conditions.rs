//! Conditions of a flow, from the description of its cell.

use std::time::Duration;

use rdt_emulator::{Direction, LinkConfig, Loss, Mtu, VaryingRate, WifiConfig};
use rdt_transport::SenderConfig;

use crate::cell::Physics;
use crate::flow::{DEFAULT_PACKET, Flow, FlowKind, UDP_HEADERS};

/// Bytes of IPv4 and TCP headers with timestamps.
const TCP_HEADERS: u32 = 52;
/// Bytes of the header of a data packet in the classic format.
const CLASSIC_HEADER: u32 = 8;

/// Latest start of a flow that counts as sending for the whole run.
const LATE_START: Duration = Duration::from_secs(1);

/// Properties of a flow and its path that the models use.
#[derive(Debug, Clone, PartialEq, Default)]
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
    /// Congestion window that does not change, packets. `None`: it does.
    pub fixed_window: Option<f64>,
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
    /// Lengths of the frames of a full packet with all headers, bytes: several if it is fragmented.
    pub frames: Vec<f64>,
    /// True if the flow sends datagrams without feedback.
    pub is_udp: bool,
    /// Number of other flows, in both directions.
    pub others: usize,
    /// Rate at which the application writes, bits per second of payload. `None`: as fast as it can.
    pub offered_bps: Option<f64>,
    /// Rate on the slowest link of the datagrams of other flows in this direction, bits per second.
    pub datagrams_bps: f64,
    /// Number of flows with feedback in this direction, this one included.
    pub sharers: f64,
    /// True if all flows send for the whole run, as fast as transport and rate allow.
    pub steady: bool,
}

/// Properties of all links of a path together, in one direction.
struct Links {
    slowest: Option<LinkConfig>,
    rate_bps: Option<f64>,
    rtt_s: f64,
    /// Long-term share of packets that no link loses by chance.
    arrives: f64,
    wifi: Option<WifiConfig>,
    mtus: Vec<Mtu>,
}

impl Links {
    /// Returns the properties towards the receiver. `None` as [`Conditions::of`].
    fn of(physics: &Physics, towards: Direction) -> Option<Self> {
        let (slowest, rate_bps, wifi, mtus) = (None, None, None, Vec::new());
        let mut all = Self { slowest, rate_bps, rtt_s: 0.0, arrives: 1.0, wifi, mtus };
        for path in &physics.links {
            let path = path.to_path_config(|_| Err("a trace".to_owned())).ok()?;
            all.rtt_s += path.rtt().as_secs_f64();
            let link = match towards {
                Direction::Forward => path.forward,
                Direction::Reverse => path.reverse,
            };
            all.arrives *= 1.0 - mean_loss(&link.loss)?;
            all.mtus.push(link.mtu.clone());
            if let Some(VaryingRate::Wifi(cells)) = &link.varying {
                let cell = cells.at(Duration::ZERO);
                if !cells.is_constant() || cell.shared && physics.links.len() > 1 {
                    return None;
                }
                all.wifi = Some(cell);
            }
            let bps = link.rate.map(rdt_emulator::Bitrate::as_bps_f64);
            if bps.is_some_and(|bps| all.rate_bps.is_none_or(|slowest| bps < slowest)) {
                all.rate_bps = bps;
                all.slowest = Some(link);
            }
        }
        Some(all)
    }
}

impl Conditions {
    /// Returns the conditions of a flow. `None` if a link reads its rate from a trace, if its loss
    /// or the bit rate of its 802.11 cell changes with time, if links share the air of a cell, or
    /// if a packet has no room for its headers.
    pub fn of(physics: &Physics, flow: &Flow) -> Option<Self> {
        let towards = if flow.reverse { Direction::Reverse } else { Direction::Forward };
        let Links { slowest, rate_bps, rtt_s, arrives, wifi, mtus } = Links::of(physics, towards)?;
        let added = |flow: &Flow| slowest.as_ref().map_or(0, |link| added_bytes(link, flow));
        let (payload, packet) = packet(physics, flow)?;
        let on_link = packet.checked_add(added(flow))?;
        let limits = mtus.iter().filter(|mtu| mtu.is_fragmenting());
        let limits = limits.filter_map(|mtu| mtu.limit(Duration::ZERO)).chain(flow.device_mtu);
        let limit = limits.min().filter(|limit| *limit < on_link);
        let frames = limit.map_or_else(|| vec![on_link], |limit| fragments(on_link, limit));
        let others = || physics.flows.iter().filter(|it| it.reverse == flow.reverse && it.name != flow.name);
        let datagrams = others().filter(|it| it.kind == FlowKind::Udp).filter_map(|it| {
            let (payload, packet) = self::packet(physics, it)?;
            Some(number(it.rate?) * f64::from(packet + added(it)) / f64::from(payload))
        });
        let has_feedback = |it: &&Flow| it.kind != FlowKind::Udp;
        let sharers = others().filter(has_feedback).count() as u64 + 1;
        let length = usize::try_from(on_link).ok()?;
        Some(Self {
            rate_bps,
            rtt_s,
            loss: 1.0 - arrives,
            payload: payload.into(),
            on_link: f64::from(on_link),
            window: flow.window.map(number),
            fixed_window: fixed_window(flow),
            ack_every: flow.ack.map_or(2.0, |(packets, _)| f64::from(packets.max(1))),
            initial_window: flow.initial_window.unwrap_or(10).into(),
            min_rto_s: flow.min_rto.map_or(0.2, |time| time.as_secs_f64()),
            bytes: flow.bytes.map(number),
            wifi,
            whole: mtus
                .iter()
                .all(|mtu| mtu.frames(Duration::ZERO, length).is_some_and(|it| it.count() == 1)),
            frames: frames.into_iter().map(f64::from).collect(),
            is_udp: flow.kind == FlowKind::Udp,
            others: physics.flows.len().saturating_sub(1),
            offered_bps: flow.rate.map(number),
            datagrams_bps: datagrams.sum(),
            sharers: number(sharers),
            steady: physics.flows.iter().all(is_steady),
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

/// Returns whether a flow sends for the whole run, as fast as transport and rate allow.
fn is_steady(flow: &Flow) -> bool {
    let is_greedy = flow.kind == FlowKind::Udp || flow.rate.is_none() && flow.bytes.is_none();
    let is_whole = flow.start.1 <= LATE_START && flow.stop.is_none() && flow.on_off.is_none();
    is_greedy && is_whole && flow.send_buffer.is_none()
}

#[allow(clippy::cast_precision_loss, reason = "rates, windows and transfers are far below 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

/// Returns the payload of a full packet of a flow, and its IP packet, bytes. `None` if it has no
/// room for its headers.
fn packet(physics: &Physics, flow: &Flow) -> Option<(u32, u32)> {
    let packet = flow.packet.unwrap_or(DEFAULT_PACKET);
    Some(match flow.kind {
        FlowKind::Udp => match flow.size {
            Some(size) => (size, size.checked_add(UDP_HEADERS)?),
            None => (packet.checked_sub(UDP_HEADERS)?, packet),
        },
        FlowKind::Classic => (packet.checked_sub(UDP_HEADERS + CLASSIC_HEADER)?, packet),
        _ if is_connection(physics, flow) => (native_payload(packet)?, packet),
        FlowKind::Rdt | FlowKind::Tcp => (packet.checked_sub(TCP_HEADERS)?, packet),
    })
}

/// True if a flow is a connection of rdt in the native format.
fn is_connection(physics: &Physics, flow: &Flow) -> bool {
    match flow.kind {
        FlowKind::Rdt => true,
        FlowKind::Tcp => physics.engine.is_virtual(),
        FlowKind::Classic | FlowKind::Udp => false,
    }
}

/// Bytes of an IPv6 header, and of the header of a fragment (RFC 8200, section 4.5).
const IPV6_HEADER: u32 = 40;
const FRAGMENT_HEADER: u32 = 8;

/// Returns the lengths of the IPv6 packets into which one of `packet` bytes is fragmented for links
/// with this MTU. All but the last carry a multiple of eight bytes. Empty if they have no room.
fn fragments(packet: u32, mtu: u32) -> Vec<u32> {
    let headers = IPV6_HEADER + FRAGMENT_HEADER;
    let bytes = packet.saturating_sub(IPV6_HEADER);
    let room = mtu.saturating_sub(headers) / 8 * 8;
    let Some(whole) = bytes.saturating_sub(1).checked_div(room) else { return Vec::new() };
    let full = std::iter::repeat_n(room + headers, usize::try_from(whole).unwrap_or(0));
    full.chain([bytes - whole * room + headers]).collect()
}

/// Returns N for a flow with the congestion control `fixed:N`.
fn fixed_window(flow: &Flow) -> Option<f64> {
    flow.cc.as_deref()?.strip_prefix("fixed:")?.parse().ok()
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

/// Returns the long-term loss rate of a model, 0 to 1. That of a script counts as 0. `None` if it
/// changes with time: the models are of constant conditions.
fn mean_loss(loss: &Loss) -> Option<f64> {
    Some(match loss {
        Loss::Steps(_) => return None,
        Loss::None | Loss::Script(_) => 0.0,
        Loss::Bernoulli(p) => p.as_f64(),
        Loss::Bounded { probability, max_run } => {
            let p = probability.as_f64();
            let run = p.powf(f64::from(max_run.get()) + 1.0);
            if run < 1.0 { (p - run) / (1.0 - run) } else { 1.0 }
        }
        Loss::GilbertElliott(channel) => channel.mean_loss(),
        Loss::EveryNth(n) => 1.0 / number(n.get()),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cell::EngineKind;
    use rdt_emulator::spec::PathSpec;

    /// Returns the conditions of the first of some flows.
    pub(in crate::theory) fn all(path: &str, engine: EngineKind, flows: Vec<Flow>) -> Conditions {
        let links = vec![PathSpec::from_toml(path).expect("a path")];
        let physics = Physics { engine, duration: None, links, flows, engine_words: Vec::new() };
        Conditions::of(&physics, &physics.flows[0]).expect("no trace")
    }

    pub(in crate::theory) fn conditions(path: &str, change: impl Fn(&mut Flow)) -> Conditions {
        let mut flow = Flow::new("a");
        change(&mut flow);
        all(path, EngineKind::Virtual, vec![flow])
    }

    /// Datagrams of 1,710 to 2,226 bytes with 48 bytes of headers behind an MTU of 1,500.
    #[test]
    fn fragments_have_the_lengths_of_the_wire() {
        assert_eq!(fragments(1758, 1500), [1496, 318]);
        assert_eq!(fragments(2016, 1500), [1496, 576]);
        assert_eq!(fragments(2274, 1500), [1496, 834]);
        assert!(fragments(1758, 50).is_empty(), "no room for eight bytes");
    }

    #[test]
    fn headers_and_loss_come_from_the_path() {
        let path = "rtt = '10ms'\nrate = '8mbit'\nloss = '2.5%/0'\nheaders = 28\nframing = 38";
        let it = conditions(path, |_| ());
        assert_eq!((it.payload, it.on_link), (1432.0, 1538.0));
        assert!((it.loss - 0.025).abs() < 1e-12 && (it.idle_rtt_s() - 0.011_538).abs() < 1e-9, "{it:?}");
        let reversed = conditions(path, |flow| flow.reverse = true);
        assert!(reversed.loss < 1e-12, "{reversed:?}");
    }

    #[test]
    fn changing_loss_or_cell_has_no_conditions() {
        let known = |path: &str, reverse| {
            let links = vec![PathSpec::from_toml(path).expect("a path")];
            let flows = vec![Flow { reverse, ..Flow::new("a") }];
            let engine = EngineKind::Virtual;
            let physics = Physics { engine, duration: None, links, flows, engine_words: Vec::new() };
            Conditions::of(&physics, &physics.flows[0]).is_some()
        };
        let path = "loss = '0s:0%, 5s:1%/0'";
        assert_eq!([known(path, false), known(path, true)], [false, true]);
        assert!(known("rate = 'wifi-a'", false) && !known("rate = 'wifi-a:rate=54mbit+5s:6mbit'", false));
    }
}
