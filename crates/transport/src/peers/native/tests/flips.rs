//! Single bits flipped in flight, in every byte of every type of packet.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use super::half_open::Stage;
use super::network::Datagram;
use super::*;
use crate::connection::RefuseReason;
use crate::wire::native::peek;
use crate::wire::native::{VERSIONS_LEN, Versions, encode_versions};

/// Names of the packet types, with a SYN without a cookie and one with a cookie apart.
const TYPES: [&str; 14] = [
    "SYN", "SYN+", "RETRY", "SYN-ACK", "DATA", "ACK", "FIN", "FIN-ACK", "CLOSE", "VERSIONS", "AUTH", "PATH",
    "RESET", "REFUSE",
];
/// Types with a check or a token, which a host on the path can make right.
const CLEAR: [&str; 6] = ["SYN", "SYN+", "RETRY", "SYN-ACK", "AUTH", "REFUSE"];

const REQUEST: &[u8] = b"request";
const REPLY: &[u8] = b"reply";

fn name(bytes: &[u8]) -> &'static str {
    match bytes[1] {
        1 if bytes[16] > 0 => "SYN+",
        1 => "SYN",
        2 => "RETRY",
        3 => "SYN-ACK",
        4 => "DATA",
        6 => "ACK",
        7 => "FIN",
        8 => "FIN-ACK",
        9 => "CLOSE",
        10 => "VERSIONS",
        11 => "AUTH",
        12 => "PATH",
        13 => "RESET",
        14 => "REFUSE",
        other => panic!("type {other}"),
    }
}

/// Flips of each type that were delivered.
type Counts = BTreeMap<&'static str, usize>;

/// Everything that an accepted packet would change in a set.
fn state(set: &ConnectionSet<std::net::SocketAddr>) -> String {
    let connections = set.native.connections.iter().map(|(id, entry)| {
        let connection = &entry.connection;
        let mut stats = connection.stats();
        (stats.unauthentic, stats.replayed) = (0, 0);
        (*id, entry.peer, stats, connection.closed().cloned(), connection.data().len())
    });
    let stats = ConnectionSetStats {
        received: 0,
        malformed: 0,
        unknown: 0,
        unauthentic: 0,
        resets_sent: 0,
        answers_dropped: 0,
        ..set.stats()
    };
    format!("{:?} {stats:?} {}", connections.collect::<Vec<_>>(), set.half_open())
}

fn dropped(set: &ConnectionSet<std::net::SocketAddr>) -> u64 {
    let stats = set.stats();
    stats.malformed + stats.unknown + stats.unauthentic
}

/// Delivers copies of a packet, each with one bit flipped. All of them are dropped and counted.
fn deliver_flips(network: &mut Network, packet: &Datagram, counts: &mut Counts) {
    let name = name(&packet.bytes);
    let now = network.now;
    let host = network.hosts.iter_mut().find(|host| host.address == packet.to).unwrap();
    let before = state(&host.set);
    for bit in 0..packet.bytes.len() * 8 {
        let mut copy = packet.bytes.clone();
        copy[bit / 8] ^= 1 << (bit % 8);
        // A sealed packet that overtakes the AUTH is dropped without a count.
        let half_open =
            peek(&copy).and_then(|header| host.set.acceptor.half_open.get_mut(header.connection_id));
        let is_counted = !matches!(half_open.map(|entry| &entry.stage), Some(Stage::Auth(_)));
        let drops = dropped(&host.set);
        host.set.handle_datagram(now, packet.from, Ecn::NotEct, &mut copy);
        assert_eq!(dropped(&host.set), drops + u64::from(is_counted), "{name}, bit {bit}");
        assert_eq!(state(&host.set), before, "{name}, bit {bit}");
        *counts.entry(name).or_default() += 1;
    }
}

/// Runs a network. The first packet of each type in `types` and of each direction is kept back: its
/// flips arrive in its place. It follows, unless `is_lost`.
fn run_with_flips(network: &mut Network, types: &[&'static str], is_lost: bool, counts: &mut Counts) {
    let held = Rc::new(RefCell::new(Vec::new()));
    let (types, keeps) = (types.to_vec(), Rc::clone(&held));
    let mut seen = BTreeSet::new();
    network.rule = Box::new(move |_, datagram| {
        let name = name(&datagram.bytes);
        if types.contains(&name) && seen.insert((name, datagram.to)) {
            keeps.borrow_mut().push(datagram.clone());
            return Fate::Drop;
        }
        Fate::Deliver
    });
    let end = network.now + Duration::from_secs(60);
    while network.now < end {
        let wakes = Rc::clone(&held);
        network.run_until(end, move |_| !wakes.borrow().is_empty());
        for packet in held.take() {
            deliver_flips(network, &packet, counts);
            if !is_lost {
                network.inject(packet);
            }
        }
    }
}

/// A connection with data in both directions.
fn complete(handshake: (Pattern, bool), unencrypted: bool, is_lost: bool, counts: &mut Counts) {
    let mut network = client_and_server_unencrypted(21, [unencrypted; 2]);
    network.require_proofs(SERVER);
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
    run_with_flips(&mut network, &TYPES, is_lost, counts);
    let case = format!("{handshake:?}, unencrypted: {unencrypted}, lost: {is_lost}");
    let ours = &network.hosts[CLIENT].streams[&id];
    assert_eq!((&*ours.incoming, &ours.closed), (REPLY, &Some(Closed::Finished)), "{case}");
    let theirs: Vec<_> = network.hosts[SERVER].streams.values().collect();
    assert_eq!(theirs.len(), 1, "{case}");
    assert_eq!((&*theirs[0].incoming, &theirs[0].closed), (REQUEST, &Some(Closed::Finished)), "{case}");
}

/// An open connection whose server side closes it, or was restarted and resets it.
fn end_abruptly(handshake: (Pattern, bool), is_reset: bool, is_lost: bool, counts: &mut Counts) {
    let mut network = client_and_server(22);
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(2));
    if is_reset {
        network.restart(SERVER);
        network.hosts[SERVER].set.listen(responder());
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(b"more");
    } else {
        let (theirs, now) = (*network.hosts[SERVER].streams.keys().next().unwrap(), network.now);
        network.hosts[SERVER].set.with(now, theirs, |connection| connection.close(now, 7, "bye"));
        // A packet that makes the server repeat its CLOSE.
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(b"more");
    }
    run_with_flips(&mut network, &["CLOSE", "RESET"], is_lost, counts);
    let closed = network.hosts[CLIENT].streams[&id].closed.clone().unwrap();
    let is_right =
        matches!((&closed, is_reset), (Closed::Reset, true) | (Closed::Peer { code: 7, .. }, false));
    assert!(is_right, "{handshake:?}, lost: {is_lost}: {closed:?}");
}

fn refused(handshake: (Pattern, bool), is_lost: bool, counts: &mut Counts) {
    let mut network = Network::new(23);
    network.add_host("192.0.2.1:1000");
    let config = ConnectionSetConfig { max_connections: 0, ..set_config(network.now) };
    network.add_host_with("198.51.100.1:2000", config);
    network.hosts[SERVER].set.listen(responder());
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
    run_with_flips(&mut network, &["REFUSE"], is_lost, counts);
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Refused(RefuseReason::Busy)));
}

/// A responder that speaks another version alone.
fn other_version(handshake: (Pattern, bool), counts: &mut Counts) {
    let mut network = client_and_server(24);
    network.hosts[SERVER].set.stop_listening();
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
    network.run(Duration::from_millis(30));
    let syn = network.log[0].clone();
    let mut bytes = vec![0; VERSIONS_LEN];
    let versions = Versions::from_bits(1 << 3).unwrap();
    encode_versions(u64::from_le_bytes(syn.bytes[8..16].try_into().unwrap()), versions, &mut bytes);
    let answer = Datagram { from: syn.to, to: syn.from, bytes };
    deliver_flips(&mut network, &answer, counts);
    network.inject(answer.clone());
    network.run(Duration::from_secs(2));
    network.inject(answer);
    network.run(Duration::from_secs(1));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Version(versions)));
}

#[test]
fn flipped_bit_of_any_packet_is_dropped() {
    let mut counts = Counts::new();
    for handshake in HANDSHAKES {
        for is_lost in [false, true] {
            complete(handshake, false, is_lost, &mut counts);
            complete(handshake, true, is_lost, &mut counts);
            end_abruptly(handshake, false, is_lost, &mut counts);
            end_abruptly(handshake, true, is_lost, &mut counts);
            refused(handshake, is_lost, &mut counts);
        }
        other_version(handshake, &mut counts);
    }
    for name in TYPES {
        // The smallest packet, in six handshakes.
        let flips = counts.get(name).copied().unwrap_or(0);
        assert!(flips >= 6 * 16 * 8, "{name}: {flips} flips");
    }
    println!("{counts:?}");
}

/// A host on the path flips a bit of each byte of one packet and makes its check right. The
/// connection completes by a repetition, or ends with an error that names the reason.
#[test]
fn flip_with_right_check_is_survived() {
    let mut counts = Counts::new();
    for target in CLEAR {
        for at in 0.. {
            // XX has AUTH and the largest SYN-ACK, IK the largest SYN.
            let handshake = if target == "SYN+" { HANDSHAKES[5] } else { HANDSHAKES[1] };
            let Some(closed) = run_with_right_check(target, at, handshake) else { break };
            match closed {
                Closed::Finished => assert_ne!(target, "REFUSE", "byte {at}"),
                Closed::Refused(_) => assert_eq!(target, "REFUSE", "byte {at}"),
                other => panic!("{target}, byte {at}: {other}"),
            }
            *counts.entry(target).or_default() += 1;
        }
    }
    let least = [320, 320, 48, 150, 100, 16];
    for (name, least) in CLEAR.into_iter().zip(least) {
        assert!(counts[name] >= least, "{name}: {} bytes", counts[name]);
    }
}

/// Changes byte `at` of the first packet with this name and returns how the initiator's connection
/// ended; `None` if the packet has no such byte.
fn run_with_right_check(target: &'static str, at: usize, handshake: (Pattern, bool)) -> Option<Closed> {
    let mut network = Network::new(25);
    network.add_host("192.0.2.1:1000");
    let max_connections = if target == "REFUSE" { 0 } else { 10 };
    let config = ConnectionSetConfig { max_connections, ..set_config(network.now) };
    network.add_host_with("198.51.100.1:2000", config);
    network.hosts[SERVER].set.listen(responder());
    if target != "SYN" {
        network.require_proofs(SERVER);
    }
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    let length = Rc::new(RefCell::new(None));
    let found = Rc::clone(&length);
    network.rule = Box::new(move |_, datagram| {
        let bytes = &mut datagram.bytes;
        if found.borrow().is_none() && name(bytes) == target {
            found.replace(Some(bytes.len()));
            if at < bytes.len() {
                bytes[at] ^= 1 << (at % 8);
                // Bytes 4 to 7 are the check itself.
                if !(4..8).contains(&at) {
                    bytes[4..8].fill(0);
                    let check = crc32fast::hash(bytes).to_le_bytes();
                    bytes[4..8].copy_from_slice(&check);
                }
            }
        }
        Fate::Deliver
    });
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
    let end = network.now + Duration::from_secs(60);
    network.run_until(end, |network| {
        let ends = network.hosts[CLIENT].streams[&id].closed.is_some();
        ends && network.hosts[SERVER].streams.values().all(|stream| stream.closed.is_some())
    });
    if at >= length.take().expect("the packet was sent") {
        return None;
    }
    let ours = &network.hosts[CLIENT].streams[&id];
    if ours.closed == Some(Closed::Finished) {
        assert_eq!(ours.incoming, REPLY, "{target}, byte {at}");
        let theirs: Vec<_> = network.hosts[SERVER].streams.values().collect();
        assert_eq!(theirs.len(), 1, "{target}, byte {at}");
        assert_eq!(theirs[0].incoming, REQUEST, "{target}, byte {at}");
    } else {
        assert!(network.hosts[SERVER].streams.is_empty(), "{target}, byte {at}");
    }
    Some(ours.closed.clone().unwrap_or_else(|| panic!("{target}, byte {at}: no end")))
}
