//! Floods of SYNs without, with forged and with valid cookies.

use std::net::SocketAddr;
use std::time::Duration;

use rdt_testing::packets;

use super::network::{DELAY, Datagram};
use super::*;
use crate::ReceiverConfig;
use crate::peers::ClassicConfig;
use crate::wire::native::Versions;
use crate::wire::native::{Proof, SYN_MIN, Syn, encode_syn};

fn syn(id: u64, proof: Proof) -> Vec<u8> {
    let syn = Syn {
        proof,
        attempt: 1,
        pattern: Pattern::Xx.number(false),
        aeads: 0b111,
        versions: Versions::OURS,
        secret_id: 0,
        noise: &[9; 32],
    };
    let mut packet = vec![0; SYN_MIN];
    encode_syn(id, &syn, &mut packet);
    packet
}

/// Address number `n` of a flood, each in another network.
fn source(n: u64) -> SocketAddr {
    let bytes = u32::try_from(n).unwrap().to_be_bytes();
    ([10, bytes[1], bytes[2], bytes[3]], 4000).into()
}

/// Floods the server with 20,000 SYNs at once while a client connects.
fn flood(proof: impl Fn(u64) -> Proof) -> Network {
    let mut network = client_and_server(1);
    network.hosts[SERVER].reply = Some(Vec::new());
    let to = network.hosts[SERVER].address;
    for n in 0..20_000 {
        network.inject(Datagram { from: source(n), to, bytes: syn(n + 1, proof(n)) });
    }
    network.run(DELAY / 2);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.run(Duration::from_secs(60));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished));
    network
}

/// A quarter of the table is for peers that have not proved their addresses.
#[test]
fn forged_sources_take_quarter_of_table_for_10_s() {
    let proofs: [fn(u64) -> Proof; 3] = [
        |_| Proof::None,
        |n| Proof::Retry([n.to_le_bytes()[0]; 32]),
        |n| Proof::Resumption([n.to_le_bytes()[0]; 48]),
    ];
    for proof in proofs {
        let network = flood(proof);
        let set = &network.hosts[SERVER].set;
        let stats = set.stats();
        assert_eq!((set.half_open(), stats.accepted, stats.half_open_dropped), (0, 1, 0));
        assert_eq!((stats.half_open_expired, stats.retry_periods), (256, 1));
        assert!(set.stats().answers_dropped > 19_000, "the queue of answers is bounded");
        for n in 0..20_000 {
            let (to, _) = network.bytes_to_and_from(source(n));
            if n % 1000 == 0 {
                assert!(to <= SYN_MIN, "{to} bytes to source {n}");
            }
        }
    }
}

/// Returns a server with this limit of half-open connections, and an attacker that proves its
/// addresses and never completes a handshake.
fn half_open_flood(max_half_open: usize, has_ip: bool, connections: usize) -> Network {
    let mut network = Network::new(2);
    network.add_host("192.0.2.1:1000");
    let ip_of = has_ip.then_some(ip as fn(&SocketAddr) -> std::net::IpAddr);
    let config = ConnectionSetConfig { max_half_open, ip_of, ..set_config(network.now) };
    network.add_host_with("198.51.100.1:2000", config);
    network.add_host("203.0.113.1:666");
    network.hosts[SERVER].set.listen(responder());
    network.hosts[SERVER].reply = Some(Vec::new());
    let attacker = network.hosts[2].address;
    let completes = |kind: u8| (4..=12).contains(&kind);
    network.rule = Box::new(move |_, datagram| {
        if datagram.from == attacker && completes(datagram.bytes[1]) { Fate::Drop } else { Fate::Deliver }
    });
    for _ in 0..connections {
        network.connect(2, SERVER, initiator(Pattern::Xx, false), b"");
        network.run(Duration::from_millis(1));
    }
    network
}

#[test]
fn full_half_open_table_drops_oldest() {
    let mut network = half_open_flood(16, false, 100);
    network.run(Duration::from_millis(200));
    let stats = network.hosts[SERVER].set.stats();
    assert_eq!((network.hosts[SERVER].set.half_open(), stats.accepted), (16, 0));
    assert_eq!(stats.half_open_dropped, 84);
    // An honest client replaces the oldest, and completes before its turn to be dropped.
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Xx, false), b"request");
    network.run(Duration::from_secs(60));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished));
}

#[test]
fn host_takes_at_most_quarter_of_table() {
    let mut network = half_open_flood(16, true, 100);
    network.run(Duration::from_millis(200));
    let stats = network.hosts[SERVER].set.stats();
    // One more is half-open without a proof.
    assert_eq!((network.hosts[SERVER].set.half_open(), stats.half_open_dropped), (5, 0));
    assert!(stats.source_limited >= 96);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Xx, false), b"request");
    network.run(Duration::from_millis(200));
    assert!(network.hosts[CLIENT].streams[&id].is_connected);
}

/// Message 1 of IK costs the responder a Diffie-Hellman operation even if it is invalid.
#[test]
fn invalid_first_messages_count_for_their_host() {
    let mut network = half_open_flood(16, true, 0);
    for _ in 0..100 {
        let keys = InitiatorConfig { remote: Some(key(9).public()), ..initiator(Pattern::Ik, false) };
        network.connect(2, SERVER, keys, b"");
    }
    network.run(Duration::from_secs(5));
    let stats = network.hosts[SERVER].set.stats();
    assert_eq!((stats.unauthentic, network.hosts[SERVER].set.half_open()), (5, 5));
    assert!(network.log.iter().all(|datagram| datagram.bytes[1] != 3), "no SYN-ACK");
}

/// Hosts of many networks prove their addresses and take turns in the full table.
#[test]
fn full_table_limits_new_handshakes() {
    let mut network = half_open_flood(16, false, 0);
    for _ in 0..800 {
        network.connect(2, SERVER, initiator(Pattern::Xx, false), b"");
        network.run(Duration::from_micros(50));
    }
    network.run(Duration::from_millis(50));
    let stats = network.hosts[SERVER].set.stats();
    assert!((400..=650).contains(&stats.half_open_dropped), "{stats:?}");
    assert!(stats.source_limited > 50, "{stats:?}");
}

/// A cookie is valid for its address and connection alone.
#[test]
fn cookie_of_other_address_is_refused() {
    let mut network = client_and_server(3);
    network.require_proofs(SERVER);
    network.connect(CLIENT, SERVER, initiator(Pattern::Xx, false), b"request");
    network.run(Duration::from_millis(100));
    let with_cookie = network.log.iter().find(|d| d.bytes[1] == 1 && d.bytes[16] > 0).unwrap().clone();
    let other = "203.0.113.1:666".parse().unwrap();
    network.inject(Datagram { from: other, ..with_cookie.clone() });
    let mut changed = with_cookie;
    let id = u64::from_le_bytes(changed.bytes[8..16].try_into().unwrap());
    let cookie = changed.bytes[32..64].try_into().unwrap();
    changed.bytes = syn(id + 1, Proof::Retry(cookie));
    network.inject(changed);
    network.run(Duration::from_millis(100));
    let stats = network.hosts[SERVER].set.stats();
    assert_eq!((stats.retries, stats.accepted, network.hosts[SERVER].set.half_open()), (3, 1, 0));
}

/// The SYN-ACK of a proved address does not wait behind the RETRYs of a flood.
#[test]
fn proved_initiator_connects_beside_flood() {
    let mut network = client_and_server(5);
    network.require_proofs(SERVER);
    network.add_host("203.0.113.1:666");
    let busy = network.connect(2, SERVER, initiator(Pattern::Ik, false), b"");
    let stream = network.hosts[2].streams.get_mut(&busy).unwrap();
    (stream.outgoing, stream.finish) = (vec![1; 100 << 20], false);
    network.run(Duration::from_millis(200));
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    // The cookie is on its way to the client, and the flood begins.
    network.run(DELAY + DELAY / 4);
    let to = network.hosts[SERVER].address;
    let start = network.now;
    let mut sent = 0;
    while !network.hosts[CLIENT].streams[&id].is_connected && network.now < start + Duration::from_secs(1) {
        for _ in 0..100 {
            sent += 1;
            network.inject(Datagram { from: source(sent), to, bytes: syn(sent, Proof::None) });
        }
        network.run(Duration::from_millis(1));
    }
    let took = network.now - start;
    assert!(took <= 3 * DELAY, "{took:?} beside {sent} SYNs");
    assert!(network.hosts[SERVER].set.stats().answers_dropped > 0);
}

/// Returns the number of datagrams to the sources of a flood, for each second since `start`.
fn answers_by_second(network: &Network, start: Instant) -> Vec<usize> {
    let mut answers = Vec::new();
    for (datagram, at) in network.log.iter().zip(&network.sent_at) {
        if datagram.to.port() == 4000 && *at >= start {
            let second = usize::try_from((*at - start).as_secs()).unwrap();
            answers.resize(answers.len().max(second + 1), 0);
            answers[second] += 1;
        }
    }
    answers
}

/// While a connection sends data, 100,000 SYNs a second from other addresses get at most 10,000
/// answers a second and a burst of 32.
#[test]
fn busy_server_limits_answers_to_flood() {
    const SECONDS: u64 = 3;
    let mut network = client_and_server(4);
    network.hosts[SERVER].reply = Some(Vec::new());
    let to = network.hosts[SERVER].address;
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"");
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(1));
    assert!(network.hosts[CLIENT].streams[&id].is_connected);
    network.log.clear();
    network.sent_at.clear();
    let start = network.now;
    for n in 0..SECONDS * 1000 {
        let stream = network.hosts[CLIENT].streams.get_mut(&id).unwrap();
        stream.outgoing.extend_from_slice(&[1; 1000]);
        for syn_number in n * 100..(n + 1) * 100 {
            let bytes = syn(syn_number + 1, Proof::None);
            network.inject(Datagram { from: source(syn_number), to, bytes });
        }
        network.run(Duration::from_millis(1));
    }
    let answers = answers_by_second(&network, start);
    let limited = 1..usize::try_from(SECONDS).unwrap();
    let is_syn_ack = |d: &&Datagram| d.from == to && d.to.port() == 4000 && d.bytes[1] == 3;
    let syn_acks = network.log.iter().filter(is_syn_ack).count();
    assert!((1..=256).contains(&syn_acks), "{syn_acks} SYN-ACKs, all others are RETRYs");
    // The first data arrives one delay after the first SYNs, so the first second has more answers.
    for second in &answers[limited] {
        assert!((9_000..=10_032).contains(second), "{answers:?}");
    }
    let received: usize = network.hosts[SERVER].streams.values().map(|stream| stream.incoming.len()).sum();
    let expected = 1000 * usize::try_from(SECONDS * 1000).unwrap();
    assert!(received > expected * 9 / 10, "{received} of {expected} bytes: the flood delays the transfer");
}

/// The same limit holds for SYNs of one format while a peer of the other sends data.
#[test]
fn data_of_one_format_limits_answers_to_flood_of_other() {
    for is_native in [false, true] {
        let (mut network, id) = beside_data(is_native);
        let (to, classic_syn) = (network.hosts[SERVER].address, classic_syn());
        let start = network.now;
        for n in 0..3000_u32 {
            send_data(&mut network, id, n);
            for source_number in u64::from(n) * 100..u64::from(n + 1) * 100 {
                let syn = || syn(source_number + 1, Proof::None);
                let bytes = if is_native { classic_syn.clone() } else { syn() };
                network.inject(Datagram { from: source(source_number), to, bytes });
            }
            network.run(Duration::from_millis(1));
            while network.hosts[SERVER].set.poll_classic_event().is_some() {}
        }
        let answers = answers_by_second(&network, start);
        assert!(answers[1..3].iter().all(|second| (9_000..=10_032).contains(second)), "{answers:?}");
        let received: usize =
            network.hosts[SERVER].streams.values().map(|stream| stream.incoming.len()).sum();
        let classic = network.hosts[SERVER].set.classic().received_bytes(classic_peer());
        let received = received + usize::try_from(classic).unwrap();
        assert!(received > 2_700_000, "{received} of 3,000,000 bytes: the flood delays the transfer");
    }
}

fn classic_peer() -> SocketAddr {
    "192.0.2.9:9".parse().unwrap()
}

fn classic_syn() -> Vec<u8> {
    packets::classic_syn(0.1, 1e6, [0.0; 2], 10)
}

/// Returns a server of both formats, and the connection of a client; `None` for a classic peer.
fn beside_data(is_native: bool) -> (Network, Option<ConnectionId>) {
    let mut network = Network::new(4);
    network.add_host("192.0.2.1:1000");
    let classic = Some(ClassicConfig::new(ReceiverConfig::reference()));
    let config = ConnectionSetConfig { classic, ..set_config(network.now) };
    network.add_host_with("198.51.100.1:2000", config);
    network.hosts[SERVER].set.listen(responder());
    let to = network.hosts[SERVER].address;
    let id = is_native.then(|| network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b""));
    match id {
        Some(id) => network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false,
        None => network.inject(Datagram { from: classic_peer(), to, bytes: classic_syn() }),
    }
    network.run(Duration::from_secs(1));
    (network, id)
}

/// Sends 1000 bytes of the connection, or packet `n` of the classic peer.
fn send_data(network: &mut Network, id: Option<ConnectionId>, n: u32) {
    let (from, to) = (classic_peer(), network.hosts[SERVER].address);
    match id {
        Some(id) => {
            let stream = network.hosts[CLIENT].streams.get_mut(&id).unwrap();
            stream.outgoing.extend_from_slice(&[1; 1000]);
        }
        None => network.inject(Datagram { from, to, bytes: packets::classic(0, &[n], &[1; 1000]) }),
    }
}

/// SYNs of both formats beside the data of either share one limit, also if the same addresses
/// repeat them.
#[test]
fn floods_of_both_formats_share_one_limit() {
    for is_native in [false, true] {
        let (mut network, id) = beside_data(is_native);
        let (to, classic_syn) = (network.hosts[SERVER].address, classic_syn());
        let start = network.now;
        for n in 0..3000_u32 {
            send_data(&mut network, id, n);
            for syn_number in u64::from(n) * 50..u64::from(n + 1) * 50 {
                let from = source(syn_number % 500);
                network.inject(Datagram { from, to, bytes: classic_syn.clone() });
                let from = source(1000 + syn_number % 500);
                network.inject(Datagram { from, to, bytes: syn(syn_number + 1, Proof::None) });
            }
            network.run(Duration::from_millis(1));
            while network.hosts[SERVER].set.poll_classic_event().is_some() {}
        }
        let answers = answers_by_second(&network, start);
        assert!(answers[1..3].iter().all(|second| (9_000..=10_032).contains(second)), "{answers:?}");
        for format in [false, true] {
            let of_format = |d: &&Datagram| d.to.port() == 4000 && (d.bytes[0] & 0xF0 == 0xD0) == format;
            let count = network.log.iter().filter(of_format).count();
            assert!(count > 10_000, "{count} answers to one of two formats that take turns");
        }
    }
}
