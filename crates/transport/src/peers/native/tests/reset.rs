//! Stateless resets.

use std::time::Duration;

use super::network::{DELAY, Datagram, Fate};
use super::*;
use crate::wire::native::CloseReason;
use crate::wire::native::{FIN_LEN, RESET_LEN, encode_reset};

const FIN: u8 = 7;
const FIN_ACK: u8 = 8;
/// Type of a RESET.
const RESET: u8 = 13;

/// Returns a network with an open connection, and the client's handle.
fn connected(seed: u64, (pattern, has_secret): (Pattern, bool)) -> (Network, ConnectionId) {
    let mut network = client_and_server(seed);
    let id = network.connect(CLIENT, SERVER, initiator(pattern, has_secret), b"request");
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(2));
    assert_eq!(network.hosts[SERVER].set.len(), 1);
    (network, id)
}

#[test]
fn restarted_responder_resets_connection() {
    for handshake in HANDSHAKES {
        let (mut network, id) = connected(1, handshake);
        network.restart(SERVER);
        network.hosts[SERVER].set.listen(responder());
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(b"more");
        let start = network.now;
        let end = start + Duration::from_secs(5);
        network.run_until(end, |network| network.hosts[CLIENT].streams[&id].closed.is_some());
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Reset), "{handshake:?}");
        assert!(network.now - start <= 3 * DELAY, "{:?}", network.now - start);
        let stats = (network.hosts[SERVER].set.stats(), network.hosts[CLIENT].set.stats());
        assert_eq!((stats.0.resets_sent, stats.1.resets_received), (1, 1));
    }
}

/// The path fails with the last FIN-ACK, for longer than the responder keeps the connection.
#[test]
fn outage_at_end_fails_no_confirmed_stream() {
    for secs in [3, 8, 20] {
        let (mut network, id) = connected(9, (Pattern::Ik, false));
        let theirs = *network.hosts[SERVER].streams.keys().next().unwrap();
        network.hosts[SERVER].streams.get_mut(&theirs).unwrap().finish = true;
        network.run(Duration::from_secs(1));
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = true;
        let mut is_down = false;
        network.rule = Box::new(move |_, datagram| {
            is_down |= datagram.bytes[1] == FIN_ACK;
            if is_down { Fate::Drop } else { Fate::Deliver }
        });
        network.run(Duration::from_secs(secs));
        let closed = |network: &Network| {
            [(CLIENT, id), (SERVER, theirs)].map(|(host, id)| network.hosts[host].streams[&id].closed.clone())
        };
        assert_eq!(closed(&network), [None, Some(Closed::Finished)], "{secs} s");
        assert!(network.hosts[SERVER].set.is_empty(), "{secs} s");
        check_lengths_of_late_answers(&mut network, theirs);
        network.rule = Box::new(|_, _| Fate::Deliver);
        network.run(Duration::from_secs(60));
        assert_eq!(closed(&network), [const { Some(Closed::Finished) }; 2], "{secs} s");
        for host in &network.hosts {
            assert_eq!(host.set.poll_timeout(), host.set.association_deadline(), "{secs} s");
        }
    }
}

/// Packets shorter than a FIN get no FIN-ACK from a host that has removed the connection.
fn check_lengths_of_late_answers(network: &mut Network, id: ConnectionId) {
    let (now, from) = (network.now, network.hosts[CLIENT].address);
    let server = &mut network.hosts[SERVER].set;
    for len in 0..=FIN_LEN {
        let mut packet = [0; FIN_LEN];
        packet[..2].copy_from_slice(&[0xd2, FIN]);
        packet[8..16].copy_from_slice(&id.0.to_le_bytes());
        server.handle_datagram(now, from, Ecn::NotEct, &mut packet[..len]);
        let answer = server.poll_transmit(now, &mut TransmitBuf::new(1));
        assert_eq!(answer.is_some(), len == FIN_LEN, "{len} bytes");
    }
}

#[test]
fn restarted_listening_initiator_resets_connection() {
    let mut network = client_and_server(2);
    let own = ResponderConfig { identity: key(CLIENT_KEY), ..responder() };
    network.hosts[CLIENT].set.listen(own.clone());
    network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.run(Duration::from_secs(2));
    network.restart(CLIENT);
    network.hosts[CLIENT].set.listen(own);
    let stream = network.hosts[SERVER].streams.values_mut().next().unwrap();
    stream.outgoing = b"reply".to_vec();
    network.run(Duration::from_secs(1));
    let stream = network.hosts[SERVER].streams.values().next().unwrap();
    assert_eq!(stream.closed, Some(Closed::Reset));
}

#[test]
fn connection_opened_before_listening_is_reset() {
    let (mut network, id) = connected(8, (Pattern::Ik, false));
    let own = ResponderConfig { identity: key(CLIENT_KEY), ..responder() };
    network.hosts[CLIENT].set.listen(own);
    // The client aborts and forgets the connection; the server hears nothing of it.
    let server = network.hosts[SERVER].address;
    let lost = move |datagram: &mut Datagram| if datagram.to == server { Fate::Drop } else { Fate::Deliver };
    network.rule = Box::new(move |_, datagram| lost(datagram));
    let now = network.now;
    network.hosts[CLIENT].set.with(now, id, |connection| connection.abort(now, CloseReason::Aborted));
    network.run(Duration::from_secs(20));
    assert!(network.hosts[CLIENT].set.is_empty());
    network.rule = Box::new(|_, _| Fate::Deliver);
    let stream = network.hosts[SERVER].streams.values_mut().next().unwrap();
    stream.outgoing = b"reply".to_vec();
    network.run(Duration::from_secs(1));
    let stream = network.hosts[SERVER].streams.values().next().unwrap();
    assert_eq!(stream.closed, Some(Closed::Reset));
}

#[test]
fn other_key_and_other_token_reset_nothing() {
    let (mut network, id) = connected(3, (Pattern::Xx, false));
    network.restart(SERVER);
    // Without the identity, the tokens are others.
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(b"more");
    network.run(Duration::from_secs(3));
    assert!(network.log.iter().any(|datagram| datagram.bytes[1] == RESET));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, None);
    assert!(network.hosts[CLIENT].set.stats().unauthentic > 0);
}

/// A socket tells the tokens of its own scope to everyone. Both are bound to the wildcard address.
#[test]
fn other_host_of_identity_resets_nothing() {
    type Config = ConnectionSetConfig<std::net::SocketAddr>;
    let scope = |host| ResetKey::scope(host, "[::]:2000".parse().unwrap(), 0);
    let mut network = Network::new(7);
    network.add_host("192.0.2.1:1000");
    let config = Config { reset_scope: scope("first"), ..set_config(network.now) };
    network.add_host_with("198.51.100.1:2000", config);
    network.hosts[SERVER].set.listen(responder());
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(2));
    let config = Config { reset_scope: scope("second"), ..set_config(network.now) };
    let other = network.add_host_with("198.51.100.2:2000", config);
    network.hosts[other].set.listen(responder());
    let attacker = network.add_host("203.0.113.1:666");
    let sealed = network.log.iter().rev().find(|sent| sent.to.port() == 2000).unwrap().bytes.clone();
    let (from, to) = (network.hosts[attacker].address, network.hosts[other].address);
    network.inject(Datagram { from, to, bytes: sealed });
    network.run(Duration::from_secs(1));
    let reset = network.log.iter().rev().find(|sent| sent.bytes[1] == RESET).unwrap().clone();
    network.inject(Datagram { to: network.hosts[CLIENT].address, ..reset });
    network.run(Duration::from_secs(1));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, None);
    assert_eq!(network.hosts[CLIENT].set.stats().unauthentic, 1);
}

#[test]
fn reset_is_shorter_than_packet() {
    let mut network = client_and_server(4);
    let (from, to) = (network.hosts[CLIENT].address, network.hosts[SERVER].address);
    for len in 0..100 {
        let mut bytes = vec![0; len];
        bytes.iter_mut().zip([0xd2, 6]).for_each(|(byte, value)| *byte = value);
        network.log.clear();
        network.inject(Datagram { from, to, bytes });
        network.run(Duration::from_secs(1));
        let answers: Vec<_> = network.log.iter().map(|answer| answer.bytes.len()).collect();
        let expected = if len < 38 { vec![] } else { vec![RESET_LEN] };
        assert_eq!(answers, expected, "{len} bytes");
    }
}

#[test]
fn resets_are_limited_and_not_answered() {
    let mut network = client_and_server(5);
    let (now, from) = (network.now, network.hosts[CLIENT].address);
    let server = &mut network.hosts[SERVER].set;
    let mut packet = [0; 64];
    let mut sent = 0;
    for n in 0..100_000_u64 {
        packet[..2].copy_from_slice(&[0xd2, 6]);
        packet[8..16].copy_from_slice(&n.to_le_bytes());
        server.handle_datagram(now, from, Ecn::NotEct, &mut packet);
        let mut batch = TransmitBuf::new(1);
        sent += u32::from(server.poll_transmit(now, &mut batch).is_some());
    }
    assert_eq!(sent, 1000, "a burst of a second");
    let before = server.stats();
    assert_eq!((before.resets_sent, before.unknown), (1000, 100_000));
    let mut reset = [0; RESET_LEN];
    encode_reset(7, &rdt_crypto::ResetToken::from_wire([0; 16]), &mut reset);
    server.handle_datagram(now + Duration::from_secs(9), from, Ecn::NotEct, &mut reset);
    assert_eq!(server.stats().resets_sent, before.resets_sent);
    assert!(server.poll_transmit(now, &mut TransmitBuf::new(1)).is_none());
}

/// Packets of a coalesced message get one RESET.
#[test]
fn run_of_unknown_packets_gets_one_reset() {
    let mut network = client_and_server(6);
    let (now, from) = (network.now, network.hosts[CLIENT].address);
    let server = &mut network.hosts[SERVER].set;
    let mut packet = [1; 64];
    packet[..2].copy_from_slice(&[0xd2, 6]);
    let mut run = packet.repeat(20);
    assert_eq!(server.handle_datagrams(now, from, Ecn::NotEct, &mut run, packet.len()), 20);
    assert_eq!((server.stats().resets_sent, server.stats().unknown, server.stats().received), (1, 20, 20));
}
