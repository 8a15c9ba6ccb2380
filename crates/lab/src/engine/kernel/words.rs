//! From the words of flows to the request to the load program. Words that the kernel cannot apply
//! are errors.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use rdt_emulator::LinkConfig;
use rdt_emulator::spec::PathSpec;

use super::super::EngineError;
use super::super::words::{check_source, flow_error, sender, shares_air, start};
use crate::cell::{EngineKind, IPV6, Physics, path_config};
use crate::experiment::Measure;
use crate::flow::{DEFAULT_PACKET, Flow, FlowKind, UDP_HEADERS, UDP_HEADERS_IPV6};
use crate::load::request::Request;

/// Metrics of routes (linux/rtnetlink.h): initial congestion window in packets, lower limit of the
/// retransmission timeout in milliseconds, and no delayed ACKs.
const RTAX_INITCWND: u16 = 11;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_QUICKACK: u16 = 15;
/// Delayed ACKs of the kernel: one for two packets, or after at least this time (`TCP_DELACK_MIN`).
/// With the sender's pauses the time rises to 200 ms.
const KERNEL_ACK: (u32, Duration) = (2, Duration::from_millis(40));
/// Limit on links in series: runs of `rdt-emu` are nested at most six deep.
const MAX_LINKS: usize = 6;
/// Smallest and largest MTU of a device, bytes.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65_535;
/// Linux version from which selective ACKs always use RACK: RFC 6675 was removed.
const RACK_ALONE: (u32, u32) = (6, 17);
/// Longest pause of the host in which a datagram is in flight and does not move.
const MAX_HOST_PAUSE: Duration = Duration::from_millis(300);
/// Limit on the wait for datagrams on slow paths.
const MAX_QUIET: Duration = Duration::from_secs(30);
/// Smallest MTU of a link with IPv6, bytes (RFC 8200, section 5).
const LEAST_MTU_IPV6: u32 = 1280;
/// Range of `net.ipv4.tcp_rto_max_ms`.
const MAX_RTO_RANGE_MS: std::ops::RangeInclusive<u128> = 1_000..=120_000;

/// Returns the links in series. The engine `real` runs flows without one over the loopback device.
pub(super) fn links(physics: &Physics) -> Result<&[PathSpec], EngineError> {
    match (physics.links.as_slice(), physics.engine) {
        ([], EngineKind::Real) => Ok(&[]),
        ([], engine) => Err(EngineError::Word(format!("the engine '{engine}' needs a path"))),
        (links, engine) if links.len() > 1 && links.iter().any(shares_air) => {
            Err(EngineError::Word(format!(
                "the engine '{engine}' runs each link by itself, so links cannot share their air: use the \
                 engine 'virtual'"
            )))
        }
        (links, _) if links.len() <= MAX_LINKS => Ok(links),
        (links, engine) => Err(EngineError::Word(format!(
            "the engine '{engine}' runs up to {MAX_LINKS} links, and this cell has {}: use the engine 'virtual'",
            links.len()
        ))),
    }
}

/// True if the flows of the engine `kernel` use IPv6.
pub(super) fn uses_ipv6(physics: &Physics) -> bool {
    physics.engine == EngineKind::Kernel && physics.engine_words.contains(&(IPV6.to_owned(), "on".to_owned()))
}

/// Returns the MTU of the devices at both ends of each link: the largest `packet` of a flow, at
/// least 1500, and room for datagrams that fit the link's MTU. On a link that fragments, at most
/// the link's MTU, so that the host makes the fragments. A flow may set that of the first devices.
pub(super) fn device_mtus(physics: &Physics) -> Vec<u32> {
    let headers = if uses_ipv6(physics) { UDP_HEADERS_IPV6 } else { UDP_HEADERS };
    let device_mtu = |path: &PathSpec| {
        let link = path_config(path).map(|path| path.forward).unwrap_or_default();
        // Headers that the path counts, but packets of the device do not have.
        let unseen = link.overhead.saturating_sub(headers);
        let room = link.mtu.limit(Duration::ZERO).map(|limit| limit.saturating_sub(unseen));
        let packets = physics.flows.iter().filter_map(|flow| flow.packet);
        let datagrams = physics.flows.iter().filter(|flow| flow.kind == FlowKind::Udp);
        let datagrams = datagrams.filter_map(|flow| flow.size).map(|size| size + headers);
        let whole = datagrams.filter(|size| room.is_some_and(|room| *size <= room));
        let wanted = packets.chain(whole).fold(DEFAULT_PACKET, u32::max);
        room.filter(|_| link.mtu.is_fragmenting()).map_or(wanted, |room| wanted.min(room))
    };
    let mut mtus: Vec<u32> = physics.links.iter().map(device_mtu).collect();
    let own = physics.flows.iter().filter_map(|flow| flow.device_mtu).min();
    if let (Some(first), Some(own)) = (mtus.first_mut(), own) {
        *first = own;
    }
    mtus
}

pub(super) fn request(physics: &Physics, seed: u64, measure: &Measure) -> Result<Request, EngineError> {
    let has_path = !links(physics)?.is_empty();
    for flow in &physics.flows {
        check(flow, physics)?;
    }
    let flows = (0..).zip(&physics.flows).map(|(index, flow)| {
        let at = start(flow, seed, index);
        Flow { start: (at, at), packet: packet(flow, physics), ..flow.clone() }
    });
    Ok(Request {
        flows: flows.collect(),
        has_path,
        ipv6: uses_ipv6(physics),
        offload: !physics.engine_words.contains(&("offload".to_owned(), "off".to_owned())),
        seed,
        bin: measure.series,
        duration: physics.duration,
        quiet: quiet(physics),
        sysctls: sysctls(physics)?,
        metrics: [route_metrics(physics, false)?, route_metrics(physics, true)?],
    })
}

/// Returns the time without a datagram after which none is in flight: a pause of the host, the
/// delay of the links, and the time of a datagram on each.
fn quiet(physics: &Physics) -> Duration {
    let largest = physics.flows.iter().filter_map(|flow| flow.size).fold(DEFAULT_PACKET, u32::max);
    let serialisation = |link: &LinkConfig| {
        let seconds = link.highest_rate().map_or(0.0, |rate| f64::from(largest) * 8.0 / rate.as_bps_f64());
        Duration::from_secs_f64(seconds)
    };
    let delays =
        physics.paths().map(|path| path.rtt() + serialisation(&path.forward) + serialisation(&path.reverse));
    (MAX_HOST_PAUSE + delays.sum::<Duration>()).min(MAX_QUIET)
}

/// Returns a flow's largest packet, from which the load program subtracts IPv4 headers.
fn packet(flow: &Flow, physics: &Physics) -> Option<u32> {
    let device_mtu = device_mtus(physics).first().copied().unwrap_or(DEFAULT_PACKET);
    match flow.kind {
        // TCP takes the size of full packets from the device.
        FlowKind::Tcp => flow.packet.filter(|packet| *packet < device_mtu),
        _ if uses_ipv6(physics) => {
            let packet = flow.packet.unwrap_or(DEFAULT_PACKET.min(device_mtu));
            Some(packet.saturating_sub(UDP_HEADERS_IPV6 - UDP_HEADERS))
        }
        _ => flow.packet,
    }
}

fn tcp_flows(physics: &Physics) -> impl Iterator<Item = &Flow> {
    physics.flows.iter().filter(|flow| flow.kind == FlowKind::Tcp)
}

/// Returns names and values of the sysctls for all flows.
fn sysctls(physics: &Physics) -> Result<Vec<(String, String)>, EngineError> {
    let flows: Vec<&Flow> = tcp_flows(physics).collect();
    let mut sysctls = recovery(&flows)?;
    if let Some(ecn) = common(&flows, "ecn", |flow| flow.ecn)? {
        sysctls.push(("net.ipv4.tcp_ecn".to_owned(), u8::from(ecn).to_string()));
    }
    if let Some(time) = common(&flows, "max-rto", |flow| flow.max_rto)? {
        if !MAX_RTO_RANGE_MS.contains(&time.as_millis()) {
            return Err(flow_error(flows[0], "the kernel's max-rto is 1s to 120s"));
        }
        if !Path::new("/proc/sys/net/ipv4/tcp_rto_max_ms").exists() {
            return Err(flow_error(flows[0], "this kernel cannot limit max-rto, which needs Linux 6.15"));
        }
        sysctls.push(("net.ipv4.tcp_rto_max_ms".to_owned(), time.as_millis().to_string()));
    }
    if physics.engine == EngineKind::Kernel {
        for (name, value) in physics.engine_words.iter().filter(|(name, _)| name != IPV6) {
            sysctls.push((sysctl(name)?, value.clone()));
        }
    }
    Ok(sysctls)
}

/// Returns the metrics of the route from the near end, or from the far end if `reverse`.
fn route_metrics(physics: &Physics, reverse: bool) -> Result<Vec<(u16, u32)>, EngineError> {
    let (senders, receivers): (Vec<&Flow>, Vec<&Flow>) =
        tcp_flows(physics).partition(|flow| flow.reverse == reverse);
    let mut metrics = Vec::new();
    if let Some(packets) = common(&senders, "initial-window", |flow| flow.initial_window)? {
        metrics.push((RTAX_INITCWND, packets));
    }
    if let Some(time) = common(&senders, "min-rto", |flow| flow.min_rto)? {
        let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        metrics.push((RTAX_RTO_MIN, millis));
    }
    if common(&receivers, "receiver.ack", |flow| flow.ack)?.is_some_and(|(packets, _)| packets == 1) {
        metrics.push((RTAX_QUICKACK, 1));
    }
    Ok(metrics)
}

/// Checks the words of a flow by themselves.
pub(super) fn check(flow: &Flow, physics: &Physics) -> Result<(), EngineError> {
    let refuse = |text: &dyn Display| Err(flow_error(flow, text));
    let has_end = flow.bytes.is_some() || flow.stop.is_some() || physics.duration.is_some();
    if !has_end {
        return refuse(&"it never ends: write for, stop or bytes");
    }
    if flow.answers.is_some() {
        return refuse(&"connections with data both ways run in virtual time: use the engine 'virtual'");
    }
    match flow.kind {
        FlowKind::Udp if flow.device_mtu.is_some() && !uses_ipv6(physics) => {
            refuse(&"device-mtu makes fragments of IPv6: write ipv6 = \"on\" in [kernel]")
        }
        FlowKind::Udp if flow.device_mtu.is_some_and(|mtu| mtu < LEAST_MTU_IPV6) => {
            refuse(&format!("a device-mtu below {LEAST_MTU_IPV6} carries no IPv6"))
        }
        FlowKind::Udp => check_source(flow),
        FlowKind::Rdt => sender(flow, 0)?.validate().map_err(|error| flow_error(flow, error)),
        FlowKind::Classic => refuse(&"the classic format runs in virtual time: use the engine 'virtual'"),
        FlowKind::Tcp if physics.engine == EngineKind::Real => {
            refuse(&"the engine 'real' runs rdt and udp: write kind = \"rdt\", or use the engine 'kernel'")
        }
        FlowKind::Tcp => check_tcp(flow),
    }
}

/// Checks the words of a flow of the kernel's TCP by themselves.
fn check_tcp(flow: &Flow) -> Result<(), EngineError> {
    let refuse = |text: &dyn Display| Err(flow_error(flow, text));
    if let Some(name) = flow.cc.as_deref().filter(|name| name.contains(':')) {
        return refuse(&format!("the kernel has no congestion control '{name}'"));
    }
    if flow.cipher.is_encrypted() {
        return refuse(&"TCP of the kernel encrypts nothing: leave cipher out, or write kind = \"rdt\"");
    }
    if flow.loss_window_initial {
        return refuse(&"the kernel's congestion window after a timeout is 1 packet: write loss-window = 1");
    }
    match flow.pacing {
        Some(true) if flow.cc.as_deref() != Some("bbr") => {
            return refuse(
                &"of the kernel's congestion controls bbr alone paces here: write pacing = \"off\"",
            );
        }
        Some(false) if flow.cc.as_deref() == Some("bbr") => {
            return refuse(&"the kernel's bbr always paces: leave pacing out");
        }
        _ => {}
    }
    if let Some((packets, _)) = flow.ack.filter(|ack| ack.0 != 1 && *ack != KERNEL_ACK) {
        return refuse(&format!(
            "the kernel cannot be told to acknowledge every {packets} packets: write receiver.ack = \"1\", or \
             \"2/40ms\" for the kernel's rule, an ACK for two packets or after 40 ms to 200 ms"
        ));
    }
    if let Some(packet) = flow.packet.filter(|packet| !MTU_RANGE.contains(packet)) {
        return refuse(&format!("a packet of {packet} bytes is outside 68 to 65535"));
    }
    Ok(())
}

/// Returns the sysctls for the loss recovery of all flows.
fn recovery(flows: &[&Flow]) -> Result<Vec<(String, String)>, EngineError> {
    let Some(rule) = common(flows, "recovery", |flow| flow.recovery.clone())? else { return Ok(Vec::new()) };
    let (sack, rack) = match rule.as_str() {
        "rack" => (1, 1),
        "newreno" => (0, 1),
        "sack" if kernel_version().is_some_and(|version| version >= RACK_ALONE) => {
            return Err(flow_error(
                flows[0],
                "with selective ACKs this kernel always uses RACK (RFC 6675 was removed in Linux 6.17): write \
                 recovery = \"rack\"",
            ));
        }
        "sack" => (1, 0),
        other => {
            return Err(flow_error(
                flows[0],
                format!("the kernel has no recovery = \"{other}\": it has rack and newreno"),
            ));
        }
    };
    let set = [("tcp_sack", sack), ("tcp_recovery", rack)];
    Ok(set.map(|(name, value)| (format!("net.ipv4.{name}"), value.to_string())).to_vec())
}

/// Returns the sysctl that a word of `[kernel]` names.
fn sysctl(name: &str) -> Result<String, EngineError> {
    match name {
        _ if name.starts_with("net.") => Ok(name.to_owned()),
        _ if name.starts_with("tcp_") => Ok(format!("net.ipv4.{name}")),
        _ => Err(EngineError::Word(format!(
            "the engine 'kernel' has no sysctl '{name}': write one of net. or tcp_"
        ))),
    }
}

/// Returns the value that these flows share: the kernel has one for each host, or route. `None` if
/// there are no flows, or they do not set it.
fn common<T: PartialEq>(
    flows: &[&Flow],
    name: &str,
    value: impl Fn(&Flow) -> Option<T>,
) -> Result<Option<T>, EngineError> {
    let Some((first, others)) = flows.split_first() else { return Ok(None) };
    let shared = value(first);
    match others.iter().find(|flow| value(flow) != shared) {
        Some(other) => Err(flow_error(
            other,
            format!(
                "its {name} differs from that of flow {}, and the kernel has one for each host",
                first.name
            ),
        )),
        None => Ok(shared),
    }
}

/// Returns the first two numbers of the kernel's version.
fn kernel_version() -> Option<(u32, u32)> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use rdt_crypto::Aead;

    use super::*;

    fn physics(flows: Vec<Flow>) -> Physics {
        Physics {
            engine: EngineKind::Kernel,
            duration: Some(Duration::from_secs(1)),
            links: vec![PathSpec::from_toml("rate = '8mbit'").expect("a path")],
            flows,
            engine_words: Vec::new(),
        }
    }

    fn tcp(name: &str) -> Flow {
        Flow { kind: FlowKind::Tcp, ..Flow::new(name) }
    }

    fn asked(flows: Vec<Flow>) -> Result<Request, String> {
        request(&physics(flows), 1, &Measure::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn words_become_sysctls_and_metrics() {
        let second = Duration::from_secs(1);
        let forward = Flow {
            recovery: Some("newreno".to_owned()),
            initial_window: Some(4),
            min_rto: Some(second),
            ..tcp("a")
        };
        let reverse = Flow {
            reverse: true,
            ack: Some((1, Duration::ZERO)),
            recovery: Some("newreno".to_owned()),
            ..tcp("b")
        };
        let request = asked(vec![forward, reverse]).expect("words that the kernel has");
        assert_eq!(request.metrics[0], [(RTAX_INITCWND, 4), (RTAX_RTO_MIN, 1_000), (RTAX_QUICKACK, 1)]);
        assert_eq!(request.metrics[1], []);
        let sysctls: Vec<(&str, &str)> =
            request.sysctls.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(sysctls, [("net.ipv4.tcp_sack", "0"), ("net.ipv4.tcp_recovery", "1")]);
    }

    #[test]
    fn devices_take_what_the_path_takes_whole() {
        let with = |path: &str, size| {
            let flow = Flow { kind: FlowKind::Udp, size: Some(size), ..Flow::new("a") };
            let links = vec![PathSpec::from_toml(path).expect("a path")];
            device_mtus(&Physics { links, ..physics(vec![flow]) })[0]
        };
        assert_eq!(with("headers = 48\nmtu = 2274", 2226), 2254);
        assert_eq!(with("headers = 48\nmtu = '1500 fragment'", 1710), 1480, "1480 and 20 more of IPv6");
        assert_eq!(with("headers = 48\nmtu = 1500", 1710), 1500, "a path that drops long packets");
        assert_eq!(with("mtu = 2274", 8192), 1500);
        assert_eq!(with("rate = '1mbit'", 8192), 1500, "no MTU is asked for, so fragments are the kernel's");
    }

    #[test]
    fn ipv6_has_longer_headers_and_devices_of_its_own() {
        let links = ["headers = 48\nmtu = 2274", "headers = 48\nmtu = 1500"];
        let links = links.map(|link| PathSpec::from_toml(link).expect("a path")).to_vec();
        let udp = Flow { kind: FlowKind::Udp, size: Some(1710), rate: Some(1), ..Flow::new("u") };
        let mut physics = Physics { links, ..physics(vec![udp.clone(), Flow::new("r"), tcp("t")]) };
        physics.engine_words.push((IPV6.to_owned(), "on".to_owned()));
        assert_eq!(device_mtus(&physics), [1758, 1500], "the second link takes the datagrams in fragments");
        let request = request(&physics, 1, &Measure::default()).expect("words that the kernel has");
        let packets: Vec<Option<u32>> = request.flows.iter().map(|flow| flow.packet).collect();
        assert_eq!((request.ipv6, packets), (true, vec![Some(1480), Some(1480), None]));
        physics.flows[0].device_mtu = Some(1400);
        assert_eq!(device_mtus(&physics), [1400, 1500]);
        assert_eq!(request.sysctls, []);
        let refused = asked(vec![Flow { device_mtu: Some(1400), ..udp }]).expect_err("IPv4");
        assert!(refused.contains("ipv6"), "{refused}");
    }

    #[test]
    fn rule_of_the_kernel_for_acks_needs_no_setting() {
        let request = asked(vec![Flow { ack: Some(KERNEL_ACK), ..tcp("a") }]).expect("the kernel's rule");
        assert_eq!(request.metrics, [vec![], vec![]]);
    }

    #[test]
    fn words_that_kernels_lack_are_errors() {
        let refused: [(Flow, &str); 9] = [
            (Flow { recovery: Some("tahoe".to_owned()), ..tcp("a") }, "tahoe"),
            (Flow { loss_window_initial: true, ..tcp("a") }, "loss-window"),
            (Flow { cc: Some("fixed:10".to_owned()), ..tcp("a") }, "fixed:10"),
            (Flow { ack: Some((4, Duration::ZERO)), ..tcp("a") }, "receiver.ack"),
            (Flow { pacing: Some(true), ..tcp("a") }, "pacing"),
            (Flow { cipher: Aead::Aes128Gcm, ..tcp("a") }, "cipher"),
            (Flow { packet: Some(70_000), ..tcp("a") }, "70000"),
            (Flow { cc: Some("vegas".to_owned()), ..Flow::new("a") }, "vegas"),
            (Flow { kind: FlowKind::Udp, ..Flow::new("a") }, "rate"),
        ];
        for (flow, part) in refused {
            let error = asked(vec![flow]).expect_err("a word that the kernel lacks");
            assert!(error.starts_with("flow a: ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn hosts_have_one_value_for_all_flows() {
        let other = Flow { initial_window: Some(4), ..tcp("b") };
        let error = asked(vec![tcp("a"), other.clone()]).expect_err("two initial windows");
        assert!(error.contains("flow b") && error.contains("flow a"), "{error}");
        // Flows in opposite directions have different senders.
        assert!(asked(vec![tcp("a"), Flow { reverse: true, ..other }]).is_ok());
    }

    #[test]
    fn flows_without_end_are_errors() {
        let physics = Physics { duration: None, ..physics(vec![tcp("a")]) };
        let error = request(&physics, 1, &Measure::default()).expect_err("no end").to_string();
        assert!(error.contains("never ends"), "{error}");
    }
}
