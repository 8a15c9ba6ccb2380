//! From the words of a flow to the configuration of its two ends: of rdt, and of a source of
//! datagrams.

use std::sync::Arc;
use std::time::Duration;

use rdt_crypto::{Entropy, StaticKey};
use rdt_emulator::spec::PathSpec;
use rdt_emulator::{BackOff, Discipline, LinkConfig, Loss, VaryingRate, WifiConfig, child_seed};
use rdt_server::{LinkMode, ServerConfig};
use rdt_sim::{Application, Arrivals, ReadPolicy, Source};
use rdt_transport::congestion::{Algorithm, AlgorithmError};
use rdt_transport::{
    AckConfig, ConnectionConfig, InitiatorConfig, LossDetection, LossWindow, ReceiverConfig, ResponderConfig,
    RtoPolicy, SenderConfig, WindowConfig,
};

use super::EngineError;
use crate::cell::{Physics, path_config};
use crate::experiment::suggest;
use crate::flow::{DEFAULT_PACKET, Flow, FlowKind, Reads, Spacing, UDP_HEADERS};

/// Payload of a datagram of a flow that sets neither `size` nor `packet`, bytes.
const DEFAULT_SIZE: u32 = DEFAULT_PACKET - UDP_HEADERS;
/// Lower limit of the retransmission timeout of TCP, as in Linux.
const TCP_MIN_RTO: Duration = Duration::from_millis(200);
/// Upper limit of the retransmission timeout of TCP (RFC 6298, section 2.5).
const TCP_MAX_RTO: Duration = Duration::from_secs(60);
/// Bytes of the headers of IPv6, of UDP and of a fragment (RFC 8200, section 4.5).
const IPV6_HEADER: u32 = 40;
const UDP_HEADER: u32 = 8;
const FRAGMENT_HEADER: u32 = 8;
/// Smallest fragment in the simulator, which writes number and time into each, bytes.
const MIN_PIECE: u32 = 12;
/// Least silence of the receiver after which a connection ends, as in `rdt-send`.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Child number of a repetition's seed for the starts of flows. Links have the numbers from 1 on.
const START_CHILD: u64 = 1 << 32;

pub(super) fn flow_error(flow: &Flow, message: impl std::fmt::Display) -> EngineError {
    EngineError::Word(format!("flow {}: {message}", flow.name))
}

/// True if the air of a link is that of other links too.
pub(super) fn shares_air(link: &PathSpec) -> bool {
    let Some(path) = path_config(link) else { return false };
    let is_shared = |link: &LinkConfig| matches!(&link.varying, Some(VaryingRate::Wifi(cells)) if cells.values().any(|cell| cell.shared));
    is_shared(&path.forward) || is_shared(&path.reverse)
}

pub(super) fn check_source(flow: &Flow) -> Result<(), EngineError> {
    source(flow, Duration::ZERO, 0).map(drop)
}

/// True if repetitions of this physics may differ in virtual time. If nothing in them is drawn, as
/// losses and delays are, all repetitions are one run.
pub fn is_random(physics: &Physics) -> bool {
    let is_drawn = |cell: WifiConfig| cell.back_off == BackOff::Drawn;
    let draws = |link: &LinkConfig| {
        let loss = match &link.loss {
            Loss::None | Loss::EveryNth(_) | Loss::Script(_) => false,
            Loss::Bernoulli(probability) => probability.as_f64() > 0.0,
            Loss::Steps(schedule) => schedule.values().any(|probability| probability.as_f64() > 0.0),
            Loss::Bounded { .. } | Loss::GilbertElliott(_) => true,
        };
        let drops =
            !matches!(link.discipline, Discipline::DropTail | Discipline::DropHead | Discipline::CoDel(_));
        let back_off =
            matches!(&link.varying, Some(VaryingRate::Wifi(cells)) if cells.values().any(is_drawn));
        let rare = [link.duplicate, link.corrupt].iter().any(|it| it.as_f64() > 0.0);
        loss || drops || back_off || rare || link.jitter.is_some() || link.reorder.is_some()
    };
    // BBR draws the times of its probes.
    let flow = |flow: &Flow| {
        let is_bbr =
            flow.kind != FlowKind::Udp && sender(flow, 0).is_ok_and(|it| it.congestion == Algorithm::Bbr);
        is_bbr || flow.start.0 != flow.start.1 || flow.spacing == Spacing::Poisson
    };
    physics.paths().any(|path| draws(&path.forward) || draws(&path.reverse)) || physics.flows.iter().any(flow)
}

/// Returns the start of a flow in a repetition: drawn between its two bounds.
pub(super) fn start(flow: &Flow, seed: u64, index: u64) -> Duration {
    let (from, to) = flow.start;
    let draw = child_seed(child_seed(seed, START_CHILD), index);
    let span = u128::from(u64::try_from(to.saturating_sub(from).as_nanos()).unwrap_or(u64::MAX));
    let offset = (u128::from(draw) * span) >> 64;
    from + Duration::from_nanos(u64::try_from(offset).unwrap_or(u64::MAX))
}

/// Returns the seed of a flow's keys and of its sender's random decisions.
pub(crate) fn connection_seed(seed: u64, index: u64) -> u64 {
    child_seed(seed, (1 << 33) + index)
}

pub(super) fn sender(flow: &Flow, seed: u64) -> Result<SenderConfig, EngineError> {
    let mut config = SenderConfig::native(seed);
    if flow.kind == FlowKind::Classic {
        let cc = flow.cc.as_deref().map(str::parse);
        let Some(Ok(Algorithm::Fixed(window))) = cc else {
            return Err(flow_error(
                flow,
                "a classic flow has a fixed window: write cc = \"fixed:10\" or another",
            ));
        };
        config = SenderConfig::new(window, config.link);
    }
    let packet = flow.packet.unwrap_or(DEFAULT_PACKET);
    config.packet_size = packet.saturating_sub(UDP_HEADERS) as usize;
    config.memory_limit = flow.send_buffer.unwrap_or(config.memory_limit);
    if flow.kind == FlowKind::Classic {
        return Ok(config);
    }
    if flow.kind == FlowKind::Tcp {
        config.congestion = Algorithm::Cubic;
        (config.pacing, config.ecn) = (false, false);
        config.rto = RtoPolicy::Rfc6298 { min: TCP_MIN_RTO, backoff_max: TCP_MAX_RTO };
    }
    if let Some(name) = &flow.cc {
        config.congestion = congestion(flow, name)?;
    }
    if let Some(rule) = &flow.recovery {
        config.recovery = rule.parse::<LossDetection>().map_err(|error| flow_error(flow, error))?;
    }
    config.initial_window = flow.initial_window.unwrap_or(config.initial_window);
    if flow.loss_window_initial {
        config.loss_window = LossWindow::Initial;
    }
    if let RtoPolicy::Rfc6298 { min, backoff_max } = config.rto {
        let min = flow.min_rto.unwrap_or(min);
        // The default of the upper limit may be below `min-rto`.
        let backoff_max =
            flow.max_rto.unwrap_or(if flow.min_rto.is_some() { TCP_MAX_RTO } else { backoff_max });
        config.rto = RtoPolicy::Rfc6298 { min, backoff_max };
    }
    config.pacing = flow.pacing.unwrap_or(config.pacing);
    config.ecn = flow.ecn.unwrap_or(config.ecn);
    config.window = match config.congestion {
        Algorithm::Fixed(packets) => packets,
        _ => config.largest_window(),
    };
    Ok(config)
}

fn congestion(flow: &Flow, name: &str) -> Result<Algorithm, EngineError> {
    name.parse().map_err(|error| {
        let fixed = format!("fixed:{}", name.split_once(':').map_or("N", |(_, packets)| packets));
        let hint = match error {
            AlgorithmError::Unknown(_) => suggest(name, ["reno", "cubic", "bbr", &fixed]),
            error => error.to_string(),
        };
        flow_error(flow, format!("there is no congestion control '{name}'; {hint}"))
    })
}

/// Returns the configuration of a receiver for the packets of `sender`.
pub(super) fn server(flow: &Flow, sender: &SenderConfig) -> ServerConfig {
    let mut receiver = ReceiverConfig {
        // Data that is read at once never takes space in the window.
        keep_payload: flow.reads != Reads::AtOnce,
        max_datagram: sender.packet_size.max(ReceiverConfig::REFERENCE_DATAGRAM),
        // Classic flows are those of the reference, from the first byte on.
        faithful: true,
        ..ReceiverConfig::reference()
    };
    receiver.stream_window.mss = sender.payload_size() as u64;
    if let Some(bytes) = flow.window {
        receiver.stream_window = WindowConfig::fixed(bytes, receiver.stream_window.mss);
    }
    if let Some((packets, delay)) = flow.ack {
        receiver.acks = AckConfig::exact(packets, delay);
    }
    ServerConfig::new(receiver, LinkMode::None)
}

/// Initiator of a flow's connection, as `rdt-send` is one.
pub(crate) struct Initiating {
    pub(crate) config: ConnectionConfig,
    pub(crate) initiator: InitiatorConfig,
    pub(crate) entropy: Entropy,
}

/// Responder of a flow's connection, as `rdt-recv` is one.
pub(crate) struct Responding {
    pub(crate) server: ServerConfig,
    pub(crate) responder: ResponderConfig,
    pub(crate) entropy: Entropy,
}

/// Returns both ends of a flow's connection. Their keys follow from `seed`.
pub(crate) fn ends(flow: &Flow, seed: u64) -> Result<(Initiating, Responding), EngineError> {
    let config = connection(flow, sender(flow, seed)?);
    let server = server(flow, &config.sender);
    let [entropy, mut theirs] = [1, 2].map(|side| {
        let mut bytes = [side; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Entropy::from_seed(bytes)
    });
    let identity = Arc::new(StaticKey::generate(&mut theirs));
    let initiator = InitiatorConfig { remote: Some(identity.public()), ..InitiatorConfig::default() };
    let mut responder = ResponderConfig::open(identity);
    responder.config.dangerously_unencrypted = config.dangerously_unencrypted;
    Ok((Initiating { config, initiator, entropy }, Responding { server, responder, entropy: theirs }))
}

pub(super) fn connection(flow: &Flow, sender: SenderConfig) -> ConnectionConfig {
    ConnectionConfig {
        idle_timeout: sender.give_up.max(MIN_IDLE_TIMEOUT),
        sender,
        one_way: true,
        aead: Some(flow.cipher),
        dangerously_unencrypted: !flow.cipher.is_encrypted(),
        ..ConnectionConfig::default()
    }
}

pub(super) fn application(flow: &Flow, start: Duration) -> Application {
    Application { start, bytes: flow.bytes, stop: flow.stop, rate: flow.rate, on_off: flow.on_off }
}

pub(super) fn read_policy(flow: &Flow) -> Option<ReadPolicy> {
    match flow.reads {
        Reads::AtOnce => None,
        Reads::Rate(bps) => Some(ReadPolicy::AtRate(bps / 8)),
        Reads::Stalled(from, length) => Some(ReadPolicy::Stalled { from, length }),
    }
}

pub(crate) fn source(flow: &Flow, start: Duration, seed: u64) -> Result<Source, EngineError> {
    let bps = flow
        .rate
        .filter(|bps| *bps > 0)
        .ok_or_else(|| flow_error(flow, "a udp flow needs a rate above zero"))?;
    let size = flow
        .size
        .unwrap_or_else(|| flow.packet.map_or(DEFAULT_SIZE, |packet| packet.saturating_sub(UDP_HEADERS)));
    let arrivals = match (flow.spacing, flow.on_off) {
        (Spacing::Constant, None) => Arrivals::Constant { bps },
        (Spacing::Constant, Some((on, off))) => Arrivals::OnOff { bps, on, off },
        (Spacing::Poisson, None) => Arrivals::Poisson { bps, seed },
        (Spacing::Poisson, Some(_)) => return Err(flow_error(flow, "poisson and on-off exclude each other")),
    };
    if !(12..=65_507).contains(&size) {
        return Err(flow_error(flow, "a datagram has 12 to 65507 bytes of payload"));
    }
    // The headers that a path counts for each packet are IPv6 and UDP of a whole datagram, or IPv6
    // and fragment, which are as long. The UDP header of fragments is then payload of the first.
    let piece = match flow.device_mtu.filter(|mtu| size + UDP_HEADER + IPV6_HEADER > *mtu) {
        None => None,
        Some(mtu) => Some(piece(size, mtu).ok_or_else(|| {
            flow_error(
                flow,
                format!(
                    "with device-mtu = {mtu} datagrams of {size} bytes have a fragment of less than {MIN_PIECE} \
                     bytes: change one of them"
                ),
            )
        })?),
    };
    Ok(Source {
        start,
        stop: flow.stop,
        packets: flow.bytes.map(|bytes| bytes.div_ceil(size.into())),
        payload: size as usize,
        header: if piece.is_some() { UDP_HEADER as usize } else { 0 },
        piece: piece.map(|it| it as usize),
        arrivals,
        send_buffer: flow.send_buffer.map(|bytes| (bytes / u64::from(size)).max(1)),
    })
}

/// Returns the bytes of a datagram, with its UDP header, in each fragment but the last: a multiple
/// of eight. `None` if a fragment would be too small for the simulator.
fn piece(size: u32, mtu: u32) -> Option<u32> {
    let room = mtu.checked_sub(IPV6_HEADER + FRAGMENT_HEADER)? / 8 * 8;
    let last = (size + UDP_HEADER).checked_rem(room)?;
    (room >= MIN_PIECE && (last == 0 || last >= MIN_PIECE)).then_some(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::EngineKind;

    fn is_random_path(path: &str, cc: &str) -> bool {
        let links = vec![PathSpec::from_toml(path).expect("a path")];
        let flows = vec![Flow { kind: FlowKind::Tcp, cc: Some(cc.to_owned()), ..Flow::new("a") }];
        is_random(&Physics {
            engine: EngineKind::Virtual,
            duration: None,
            links,
            flows,
            engine_words: Vec::new(),
        })
    }

    #[test]
    fn fragments_carry_multiples_of_eight() {
        assert_eq!((piece(1710, 1500), piece(2226, 1500)), (Some(1448), Some(1448)));
        assert_eq!((piece(1710, 40), piece(1444, 1500)), (None, None));
        let flow = |size| Flow {
            kind: FlowKind::Udp,
            rate: Some(1),
            size: Some(size),
            device_mtu: Some(1500),
            ..Flow::new("a")
        };
        let whole = source(&flow(1452), Duration::ZERO, 0).expect("a source");
        assert_eq!((whole.piece, whole.header), (None, 0));
        let fragments = source(&flow(1710), Duration::ZERO, 0).expect("a source");
        assert_eq!((fragments.piece, fragments.header), (Some(1448), 8));
    }

    #[test]
    fn randomness_comes_from_draws_of_path_or_flow() {
        let quiet = "rtt = '10ms'\nrate = '8mbit'\nqueue = '50p'";
        assert!(!is_random_path(quiet, "cubic"));
        assert!(!is_random_path(&format!("{quiet}\ndiscipline = 'codel'"), "reno"));
        assert!(!is_random_path(&format!("{quiet}\nloss = '0'"), "cubic"));
        for random in ["loss = '1%'", "[reverse]\nloss = '1%'", "jitter = '1ms'", "discipline = 'red'"] {
            assert!(is_random_path(&format!("{quiet}\n{random}"), "cubic"), "{random}");
        }
        assert!(is_random_path(quiet, "bbr"));
    }
}
