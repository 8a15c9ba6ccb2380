//! Peers whose address changes, and forged source addresses.

use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::network::Datagram;
use super::*;
use crate::congestion::Algorithm;

const BYTES: usize = 2_000_000;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Starts a transfer in this direction and runs a part of it. Returns the server's handle.
fn transfer(seed: u64, is_download: bool) -> (Network, ConnectionId) {
    let mut network = client_and_server(seed);
    let (upload, download) = if is_download { (0, BYTES) } else { (BYTES, 0) };
    network.hosts[SERVER].reply = Some(vec![3; download]);
    network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![4; upload]);
    let end = network.now + Duration::from_secs(10);
    let received = |network: &Network| {
        network
            .hosts
            .iter()
            .flat_map(|host| host.streams.values())
            .map(|stream| stream.incoming.len())
            .sum::<usize>()
    };
    assert!(network.run_until(end, |network| received(network) > 100_000));
    let id = *network.hosts[SERVER].streams.keys().next().unwrap();
    (network, id)
}

fn is_complete(network: &Network) -> bool {
    network
        .hosts
        .iter()
        .all(|host| host.streams.values().all(|stream| stream.closed == Some(Closed::Finished)))
}

#[test]
fn rebound_client_goes_on() {
    for is_download in [false, true] {
        for to in ["192.0.2.1:1001", "192.0.2.77:1000"] {
            let (mut network, id) = transfer(1, is_download);
            network.hosts[CLIENT].address = address(to);
            let end = network.now + Duration::from_secs(60);
            let is_moved = |network: &Network| network.hosts[SERVER].set.address(id) == Some(address(to));
            assert!(network.run_until(end, is_moved), "{to} download {is_download}");
            network.run(Duration::from_secs(60));
            assert!(is_complete(&network), "{to} download {is_download}");
            assert_eq!(network.hosts[SERVER].set.stats().moved, 1);
        }
    }
}

/// The client has ended its stream, and the server has nothing to send when the address changes.
#[test]
fn client_without_stream_is_followed_in_pause() {
    let mut network = client_and_server(8);
    network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"");
    network.run(Duration::from_secs(1));
    let id = *network.hosts[SERVER].streams.keys().next().unwrap();
    network.hosts[CLIENT].address = address("192.0.2.77:1000");
    network.run(Duration::from_secs(45));
    assert_eq!(network.hosts[SERVER].set.address(id), Some(address("192.0.2.77:1000")));
    let stream = network.hosts[SERVER].streams.get_mut(&id).unwrap();
    (stream.outgoing, stream.finish) = (vec![3; 1000], true);
    network.run(Duration::from_secs(10));
    assert!(is_complete(&network));
}

#[test]
fn lost_path_probes_are_repeated() {
    let (mut network, id) = transfer(2, true);
    let to = address("192.0.2.1:1001");
    network.hosts[CLIENT].address = to;
    let mut lost = 2;
    network.rule = Box::new(move |_, datagram| {
        if datagram.to == to && lost > 0 {
            lost -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    });
    network.run(Duration::from_secs(60));
    assert!(is_complete(&network));
    assert_eq!((network.hosts[SERVER].set.stats().moved, network.hosts[SERVER].set.address(id)), (1, None));
}

#[test]
fn moved_server_is_followed() {
    let (mut network, _) = transfer(3, true);
    network.hosts[SERVER].address = address("198.51.100.99:2000");
    network.run(Duration::from_secs(60));
    assert!(is_complete(&network));
    assert_eq!(network.hosts[CLIENT].set.stats().moved, 1);
}

/// A host on the path sends every packet of the client from another address, and drops the
/// original.
#[test]
fn forged_source_gets_three_times_its_bytes() {
    let (mut network, id) = transfer(4, true);
    let (client, server) = (network.hosts[CLIENT].address, network.hosts[SERVER].address);
    let victim = address("203.0.113.9:9");
    network.rule = Box::new(move |_, datagram| {
        if datagram.from == client && datagram.to == server {
            datagram.from = victim;
        }
        Fate::Deliver
    });
    network.log.clear();
    let start = network.now;
    let mut forged = 0;
    while network.now < start + Duration::from_secs(20) {
        let next = network.now + Duration::from_millis(1);
        network.run_until(next, |_| false);
        forged = network.log.iter().filter(|d| d.from == client).map(|d| d.bytes.len()).sum();
    }
    let (to_victim, _) = network.bytes_to_and_from(victim);
    assert!(to_victim > 0 && to_victim <= 3 * forged, "{to_victim} bytes for {forged}");
    // The transfer itself goes to the proved address alone.
    let packets = network.log.iter().filter(|datagram| datagram.to == victim);
    assert!(packets.clone().all(|datagram| datagram.bytes[1] == 12 && datagram.bytes.len() == 41));
    assert!(network.hosts[SERVER].set.address(id).is_none_or(|to| to == client));
    assert_eq!(network.hosts[SERVER].set.stats().moved, 0);
}

/// A single short packet comes from another address, and nothing else does.
#[test]
fn single_packet_limits_probes() {
    let (mut network, id) = transfer(7, true);
    network.hosts[SERVER].streams.get_mut(&id).unwrap().finish = false;
    let (client, victim) = (network.hosts[CLIENT].address, address("203.0.113.9:9"));
    let forged = Arc::new(std::sync::Mutex::new(None));
    let slot = Arc::clone(&forged);
    network.rule = Box::new(move |_, datagram| {
        let mut slot = slot.lock().unwrap();
        if datagram.from == client && slot.is_none() {
            datagram.from = victim;
            *slot = Some(datagram.bytes.len());
        }
        Fate::Deliver
    });
    network.log.clear();
    network.run(Duration::from_secs(30));
    let (len, (to_victim, _)) = (forged.lock().unwrap().unwrap(), network.bytes_to_and_from(victim));
    assert_eq!(to_victim, 3 * len / 41 * 41, "{len} bytes received");
    assert!(len < 4 * 41 / 3, "without the limit, there would be 4 probes");
}

/// The packet is a keep-alive: it allows two probes, and nothing else comes from its address.
#[test]
fn unanswered_address_gives_way_to_third() {
    let mut network = client_and_server(11);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(1));
    let (client, victim) = (network.hosts[CLIENT].address, address("203.0.113.9:9"));
    let mut is_forged = false;
    network.rule = Box::new(move |_, datagram| {
        if datagram.from == client && datagram.bytes.len() == 40 && !is_forged {
            (datagram.from, is_forged) = (victim, true);
        }
        Fate::Deliver
    });
    network.run(Duration::from_secs(30));
    assert_eq!(network.bytes_to_and_from(victim).0, 2 * 41);
    let to = address("192.0.2.1:1001");
    network.hosts[CLIENT].address = to;
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(b"more");
    network.run(Duration::from_secs(1));
    let theirs = *network.hosts[SERVER].streams.keys().next().unwrap();
    assert_eq!(network.hosts[SERVER].set.address(theirs), Some(to));
}

/// The answer to the probe comes from a third address.
#[test]
fn answer_from_other_address_does_not_move() {
    let (mut network, id) = transfer(5, true);
    let (client, server) = (network.hosts[CLIENT].address, network.hosts[SERVER].address);
    let [probed, other] = ["203.0.113.9:9", "203.0.113.10:9"].map(address);
    // The first packet comes from `probed`. Probes to there reach the client, and all that the
    // client sends then comes from `other`, which is never reached.
    let mut first = true;
    network.rule = Box::new(move |_, datagram| {
        if datagram.from == client && datagram.to == server {
            datagram.from = if std::mem::take(&mut first) { probed } else { other };
        }
        if datagram.to == probed {
            datagram.to = client;
        }
        Fate::Deliver
    });
    network.run(Duration::from_millis(500));
    assert!(network.hosts[SERVER].set.stats().path_probes > 0);
    assert_eq!(network.hosts[SERVER].set.stats().moved, 0);
    assert_eq!(network.hosts[SERVER].set.address(id), Some(client));
}

/// Packets with the ID of a connection that its peer did not seal.
#[test]
fn unauthentic_packets_from_elsewhere_cause_no_probe() {
    let (mut network, id) = transfer(6, true);
    let (client, server) = (network.hosts[CLIENT].address, network.hosts[SERVER].address);
    let mut last = network.log.iter().rev().find(|d| d.from == client).cloned().unwrap();
    let at = last.bytes.len() - 1;
    last.bytes[at] ^= 1;
    network.inject(Datagram { from: address("203.0.113.9:9"), to: server, bytes: last.bytes });
    network.run(Duration::from_millis(100));
    let stats = network.hosts[SERVER].set.stats();
    assert_eq!((stats.path_probes, stats.unauthentic), (0, 1));
    assert_eq!(network.hosts[SERVER].set.address(id), Some(client));
}

/// A NAT with two addresses sends the client's packets through both in turn.
#[test]
fn alternating_addresses_are_proved() {
    let (mut network, id) = transfer(9, true);
    let client = network.hosts[CLIENT].address;
    let outside = ["203.0.113.9:9", "203.0.113.10:9"].map(address);
    let mut sent = 0;
    network.rule = Box::new(move |_, datagram| {
        if datagram.from == client {
            sent += 1;
            datagram.from = outside[sent % 2];
        } else if datagram.to == client {
            return Fate::Drop;
        } else if outside.contains(&datagram.to) {
            datagram.to = client;
        }
        Fate::Deliver
    });
    let end = network.now + Duration::from_secs(20);
    let is_moved = |network: &Network| {
        network.hosts[SERVER].set.address(id).is_none_or(|address| outside.contains(&address))
    };
    assert!(network.run_until(end, is_moved));
}

/// It was sent before the address changed, and arrives late.
#[test]
fn late_packet_of_old_address_causes_no_probe() {
    let mut network = client_and_server(10);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    let stream = network.hosts[CLIENT].streams.get_mut(&id).unwrap();
    stream.finish = false;
    network.run(Duration::from_secs(1));
    let (old, new) = (network.hosts[CLIENT].address, address("192.0.2.1:1001"));
    let late = Fate::Delay(Duration::from_secs(3));
    network.rule = Box::new(move |_, datagram| if datagram.from == old { late } else { Fate::Deliver });
    let write = |network: &mut Network| {
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(&[7; 100]);
        network.run(Duration::from_millis(1));
    };
    write(&mut network);
    network.hosts[CLIENT].address = new;
    write(&mut network);
    network.run(Duration::from_secs(2));
    let stats = network.hosts[SERVER].set.stats();
    let theirs = *network.hosts[SERVER].streams.keys().next().unwrap();
    assert_eq!((stats.moved, network.hosts[SERVER].set.address(theirs)), (1, Some(new)));
    let late = network.hosts[SERVER].set.stats().unauthentic;
    network.run(Duration::from_secs(2));
    let after = network.hosts[SERVER].set.stats();
    assert_eq!((after.path_probes, after.unauthentic), (stats.path_probes, late));
}

/// Host, with the address to which its packets were sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    from: usize,
    to: u8,
}

impl PartialEq for Sent {
    fn eq(&self, other: &Self) -> bool {
        self.from == other.from
    }
}

impl Eq for Sent {}

impl PartialOrd for Sent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.from.cmp(&other.from)
    }
}

impl Hash for Sent {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.from.hash(state);
    }
}

/// Lets both sets send all that is due. Packets go to the address `to` of their receiver. Returns
/// the addresses to which the second set sent.
fn exchange(sets: &mut [ConnectionSet<Sent>; 2], now: Instant, to: u8) -> Vec<Sent> {
    let mut batch = TransmitBuf::new(16);
    let mut answered = Vec::new();
    let mut idle = 0;
    for from in [CLIENT, SERVER].into_iter().cycle() {
        batch.clear();
        match sets[from].poll_transmit(now, &mut batch) {
            Some(peer) if from == SERVER => answered.push(peer),
            Some(_) => idle = 0,
            None if idle == 1 => return answered,
            None => idle += 1,
        }
        for datagram in batch.datagrams() {
            idle = 0;
            let peer = Sent { from, to };
            sets[1 - from].handle_datagram(now, peer, Ecn::NotEct, &mut datagram.to_vec());
        }
    }
    answered
}

/// Returns a client that opens a connection, and a server.
fn sets(now: Instant, config: ConnectionConfig) -> ([ConnectionSet<Sent>; 2], ConnectionId) {
    let local_ip_of: fn(&Sent) -> Option<IpAddr> = |sent| Some([192, 0, 2, sent.to].into());
    let limits = ConnectionSetConfig { local_ip_of: Some(local_ip_of), ..ConnectionSetConfig::default() };
    let mut sets = [1, 2].map(|seed| ConnectionSet::new(limits, Entropy::from_seed([seed; 32])));
    sets[SERVER].listen(responder());
    let peer = Sent { from: SERVER, to: 0 };
    let id = sets[CLIENT].connect(now, peer, initiator(Pattern::Ik, false), config).unwrap();
    (sets, id)
}

/// The client's IP address changes while it uploads: packets of the server go to the new one.
#[test]
fn moved_sender_starts_anew() {
    let mut config = ConnectionConfig::default();
    config.sender.congestion = Algorithm::Cubic;
    for (to, is_moved) in [(7, false), (8, true)] {
        let mut now = rdt_testing::epoch();
        let (mut sets, id) = sets(now, config.clone());
        let write = |sets: &mut [ConnectionSet<Sent>; 2], now, len| {
            let write =
                |connection: &mut Connection| connection.write(&vec![7; len]).map(|_| connection.push());
            sets[CLIENT].with(now, id, write).unwrap().unwrap();
        };
        exchange(&mut sets, now, 7);
        for _ in 0..5 {
            write(&mut sets, now, 100_000);
            now += Duration::from_millis(20);
            for set in &mut sets {
                set.handle_timeout(now);
            }
            exchange(&mut sets, now, 7);
        }
        let cwnd = |sets: &[ConnectionSet<Sent>; 2]| sets[CLIENT].get(id).unwrap().stats().sender.cwnd;
        assert!(cwnd(&sets) > 20_000, "{}", cwnd(&sets));
        write(&mut sets, now, 5000);
        exchange(&mut sets, now, to);
        assert_eq!(cwnd(&sets) < 15_000, is_moved, "{}", cwnd(&sets));
    }
}

#[test]
fn replies_leave_from_newest_local_address() {
    let mut now = rdt_testing::epoch();
    let (mut sets, id) = sets(now, ConnectionConfig::default());
    for to in [7, 8] {
        let mut answered = exchange(&mut sets, now, to);
        // The last ACKs are delayed.
        now += Duration::from_millis(100);
        for set in &mut sets {
            set.handle_timeout(now);
        }
        answered.extend(exchange(&mut sets, now, to));
        assert!(!answered.is_empty() && answered.iter().all(|peer| peer.to == to), "{answered:?}");
        let write =
            |connection: &mut Connection| connection.write(&vec![7; 100_000]).map(|_| connection.push());
        sets[CLIENT].with(now, id, write).unwrap().unwrap();
    }
}
