//! Connections without a handshake, within an association.

mod bounds;

use std::time::Duration;

use super::network::{DELAY, Datagram, Fate, Host};
use super::*;
use crate::wire::native::{REFUSE_LEN, connection_id, encode_refuse};

const REQUEST: &[u8] = b"request";
const REPLY: &[u8] = b"reply";
/// Types of packets.
const SYN: u8 = 1;
const OPEN_ACK: u8 = 5;
const REFUSE: u8 = 14;
const OPEN: u8 = 15;

/// Returns a network whose client and server have an association, and no connection.
fn associated(seed: u64, (pattern, has_secret): (Pattern, bool)) -> Network {
    let mut network = client_and_server(seed);
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    let id = connect(&mut network, (pattern, has_secret));
    network.run(Duration::from_secs(60));
    check_exchange(&network, id, "first");
    assert_eq!(network.hosts[CLIENT].set.stats().initiated_open, 0);
    clear(&mut network);
    network
}

fn clear(network: &mut Network) {
    network.hosts[SERVER].streams.clear();
    network.log.clear();
    network.sent_at.clear();
}

fn connect(network: &mut Network, (pattern, has_secret): (Pattern, bool)) -> ConnectionId {
    network.connect(CLIENT, SERVER, initiator(pattern, has_secret), REQUEST)
}

/// Checks that one request arrived once, and its reply.
fn check_exchange(network: &Network, id: ConnectionId, case: &str) {
    let ours = &network.hosts[CLIENT].streams[&id];
    assert_eq!((&*ours.incoming, &ours.closed), (REPLY, &Some(Closed::Finished)), "{case}");
    assert_eq!(ours.peer, Some(key(SERVER_KEY).public()), "{case}");
    let theirs: Vec<_> = network.hosts[SERVER].streams.values().collect();
    assert_eq!(theirs.len(), 1, "{case}");
    assert_eq!((&*theirs[0].incoming, &theirs[0].closed), (REQUEST, &Some(Closed::Finished)), "{case}");
    for host in &network.hosts {
        assert!(host.set.is_empty() && host.set.half_open() == 0, "{case}: {:?}", host.set);
    }
}

fn count(network: &Network, kind: u8) -> usize {
    network.log.iter().filter(|datagram| datagram.bytes[1] == kind).count()
}

/// Runs until the client has the reply. Returns the time that it took.
fn time_to_reply(network: &mut Network, id: ConnectionId) -> Duration {
    let start = network.now;
    let end = start + Duration::from_secs(60);
    assert!(network.run_until(end, |network| network.hosts[CLIENT].streams[&id].incoming == REPLY));
    network.now - start
}

#[test]
fn reply_comes_after_one_round_trip() {
    for handshake in HANDSHAKES {
        let mut network = associated(1, handshake);
        let id = connect(&mut network, handshake);
        assert_eq!(time_to_reply(&mut network, id), 2 * DELAY, "{handshake:?}");
        network.run(Duration::from_secs(60));
        check_exchange(&network, id, "second");
        assert_eq!([SYN, OPEN, OPEN_ACK].map(|kind| count(&network, kind)), [0, 1, 1], "{handshake:?}");
        let (ours, theirs) = (network.hosts[CLIENT].set.stats(), network.hosts[SERVER].set.stats());
        assert_eq!((ours.initiated, ours.initiated_open), (2, 1));
        assert_eq!((theirs.accepted, theirs.opens, theirs.opened, theirs.opens_refused), (2, 1, 1, 0));
        assert_eq!((theirs.unknown, theirs.unauthentic, theirs.malformed), (0, 0, 0));
    }
}

#[test]
fn single_lost_or_copied_or_late_packet_only_delays() {
    let fates = [Fate::Drop, Fate::Duplicate, Fate::Delay(DELAY / 2), Fate::Delay(Duration::from_secs(3))];
    for fate in fates {
        for position in 0..10 {
            let mut network = associated(2, (Pattern::Ik, false));
            network.rule = Box::new(move |index, _| if index == position { fate } else { Fate::Deliver });
            let id = connect(&mut network, (Pattern::Ik, false));
            let time = time_to_reply(&mut network, id);
            assert!(time <= 8 * DELAY + Duration::from_millis(25), "{position} {fate:?}: {time:?}");
            network.run(Duration::from_secs(60));
            check_exchange(&network, id, &format!("{position} {fate:?}"));
            assert_eq!(network.hosts[SERVER].set.stats().accepted, 2, "{position} {fate:?}");
        }
    }
}

#[test]
fn lossy_network_opens_all() {
    for seed in 0..200 {
        let mut network = associated(seed, (Pattern::Ik, false));
        network.rule = Box::new(move |index, _| {
            let mut numbers = rdt_testing::Numbers::new(seed * 1000 + index as u64);
            match numbers.below(10) {
                0 | 1 => Fate::Drop,
                2 | 3 => Fate::Duplicate,
                4 | 5 => Fate::Delay(Duration::from_millis(numbers.below(300))),
                _ => Fate::Deliver,
            }
        });
        let id = connect(&mut network, (Pattern::Ik, false));
        network.run(Duration::from_secs(120));
        check_exchange(&network, id, &format!("seed {seed}"));
    }
}

/// A copy of everything that the client sent opens no further connection, whenever it arrives.
#[test]
fn replayed_open_opens_nothing() {
    for secs in [0, 1, 60, 4000] {
        let mut network = associated(3, (Pattern::Ik, false));
        let id = connect(&mut network, (Pattern::Ik, false));
        network.run(Duration::from_secs(60));
        check_exchange(&network, id, "genuine");
        network.run(Duration::from_secs(secs));
        let client = network.hosts[CLIENT].address;
        let copies: Vec<Datagram> =
            network.log.iter().filter(|datagram| datagram.from == client).cloned().collect();
        let sent = network.log.len();
        for copy in copies {
            network.inject(copy);
        }
        network.run(Duration::from_secs(60));
        check_exchange(&network, id, "after replay");
        assert!(network.log[sent..].iter().all(|answer| answer.bytes.len() <= 48), "{secs} s");
    }
}

/// The server restarts, and the copies come before and after the client's next handshake.
#[test]
fn replay_after_restart_opens_nothing() {
    let mut network = associated(4, (Pattern::Ik, false));
    let id = connect(&mut network, (Pattern::Ik, false));
    network.run(Duration::from_secs(60));
    check_exchange(&network, id, "genuine");
    let opens: Vec<Datagram> =
        network.log.iter().filter(|datagram| datagram.bytes[1] == OPEN).cloned().collect();
    network.restart(SERVER);
    network.hosts[SERVER].set.listen(responder());
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    for round in 0..2 {
        network.inject(opens[0].clone());
        network.run(Duration::from_secs(10));
        assert!(network.hosts[SERVER].streams.is_empty(), "{round}");
        let id = connect(&mut network, (Pattern::Ik, false));
        network.run(Duration::from_secs(60));
        check_exchange(&network, id, "after restart");
        clear(&mut network);
    }
    let stats = network.hosts[SERVER].set.stats();
    assert_eq!((stats.opened, stats.opens_refused, stats.accepted), (1, 3, 2));
}

/// The connection opens by a handshake when the responder does not know the association.
#[test]
fn restarted_responder_gets_handshake() {
    for handshake in HANDSHAKES {
        let mut network = associated(5, handshake);
        network.restart(SERVER);
        network.hosts[SERVER].set.listen(responder());
        network.hosts[SERVER].reply = Some(REPLY.to_vec());
        network.run(Duration::from_secs(2));
        let id = connect(&mut network, handshake);
        assert_eq!(time_to_reply(&mut network, id), 6 * DELAY, "{handshake:?}");
        network.run(Duration::from_secs(60));
        check_exchange(&network, id, "by handshake");
        clear(&mut network);
        let id = connect(&mut network, handshake);
        assert_eq!(time_to_reply(&mut network, id), 2 * DELAY, "{handshake:?}");
    }
}

/// Delivers a request within an association, and of what the server sends only REFUSE and SYN-ACK
/// arrive from then on.
fn deliver_unanswered(network: &mut Network) -> ConnectionId {
    let server = network.hosts[SERVER].address;
    network.rule = Box::new(move |_, datagram| {
        let is_lost = datagram.from == server && !matches!(datagram.bytes[1], REFUSE | 3);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
    let id = connect(network, (Pattern::Ik, false));
    let end = network.now + Duration::from_secs(5);
    let is_delivered =
        |network: &Network| network.hosts[SERVER].streams.values().any(|s| s.incoming == REQUEST);
    assert!(network.run_until(end, is_delivered));
    id
}

/// The request was delivered before the restart. It must not be delivered again.
#[test]
fn delivered_request_is_not_sent_again() {
    let mut network = associated(6, (Pattern::Ik, false));
    let id = deliver_unanswered(&mut network);
    network.restart(SERVER);
    network.hosts[SERVER].set.listen(responder());
    network.run(Duration::from_secs(60));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Reset));
    assert!(network.hosts[SERVER].streams.is_empty());
}

/// A host on the path forges a REFUSE, while the genuine packets pass.
#[test]
fn forged_refusal_delivers_nothing_twice() {
    for before_answer in [false, true] {
        let mut network = associated(7, (Pattern::Ik, false));
        let id = connect(&mut network, (Pattern::Ik, false));
        let end = network.now + Duration::from_secs(1);
        network.run_until(end, |network| count(network, OPEN) > 0);
        let open = network.log.iter().find(|datagram| datagram.bytes[1] == OPEN).unwrap().clone();
        let mut bytes = vec![0; REFUSE_LEN];
        encode_refuse(connection_id(&open.bytes).unwrap(), 15, &mut bytes);
        if !before_answer {
            network.run(3 * DELAY);
        }
        network.inject(Datagram { from: open.to, to: open.from, bytes });
        network.run(Duration::from_secs(60));
        check_exchange(&network, id, &format!("before the answer {before_answer}"));
        assert_eq!(network.hosts[SERVER].set.stats().opened, 1);
    }
}

/// The OPEN is delayed beyond the handshake that replaces it.
#[test]
fn late_open_opens_nothing() {
    let mut network = associated(8, (Pattern::Ik, false));
    let id = connect(&mut network, (Pattern::Ik, false));
    network.rule = Box::new(|_, datagram| match datagram.bytes[1] {
        OPEN => Fate::Delay(Duration::from_secs(2)),
        _ => Fate::Deliver,
    });
    let end = network.now + Duration::from_secs(1);
    network.run_until(end, |network| count(network, OPEN) > 0);
    let open = network.log.iter().find(|datagram| datagram.bytes[1] == OPEN).unwrap().clone();
    let mut bytes = vec![0; REFUSE_LEN];
    encode_refuse(connection_id(&open.bytes).unwrap(), 15, &mut bytes);
    network.inject(Datagram { from: open.to, to: open.from, bytes });
    network.run(Duration::from_secs(60));
    check_exchange(&network, id, "replaced");
    assert_eq!(network.hosts[SERVER].set.stats().opened, 0);
}

/// Numbers and identifiers belong together: no spliced OPEN opens a connection or gets an answer.
#[test]
fn spliced_open_is_not_authentic() {
    let mut network = associated(9, (Pattern::Ik, false));
    network.rule = Box::new(|_, datagram| match datagram.bytes[1] {
        OPEN => Fate::Drop,
        _ => Fate::Deliver,
    });
    for _ in 0..2 {
        connect(&mut network, (Pattern::Ik, false));
    }
    network.run(DELAY);
    let opens: Vec<Datagram> =
        network.log.iter().filter(|datagram| datagram.bytes[1] == OPEN).cloned().collect();
    let before = network.hosts[SERVER].set.stats();
    let mut spliced = Vec::new();
    for range in [8..16, 24..32, 32..60] {
        let mut bytes = opens[0].bytes.clone();
        bytes[range.clone()].copy_from_slice(&opens[1].bytes[range]);
        spliced.push(bytes);
    }
    for at in 32..opens[0].bytes.len() {
        let mut bytes = opens[0].bytes.clone();
        bytes[at] ^= 1;
        spliced.push(bytes);
    }
    let (now, from) = (network.now, network.hosts[CLIENT].address);
    let server = &mut network.hosts[SERVER].set;
    for mut bytes in spliced.clone() {
        bytes[4..8].fill(0);
        let check = rdt_crypto::crc32(&bytes);
        bytes[4..8].copy_from_slice(&check.to_le_bytes());
        server.handle_datagram(now, from, Ecn::NotEct, &mut bytes);
    }
    let after = server.stats();
    assert_eq!(after.unauthentic - before.unauthentic, spliced.len() as u64);
    assert_eq!((after.opened, after.opens_refused), (before.opened, before.opens_refused));
}

/// The initiator has another address than in its handshake: it must prove it first.
#[test]
fn other_host_gets_handshake() {
    let mut network = associated(10, (Pattern::Ik, false));
    network.hosts[CLIENT].address = "192.0.2.9:1000".parse().unwrap();
    let id = connect(&mut network, (Pattern::Ik, false));
    assert_eq!(time_to_reply(&mut network, id), 6 * DELAY);
    network.run(Duration::from_secs(60));
    check_exchange(&network, id, "moved");
    let new = network.hosts[CLIENT].address;
    let refusals = network.log.iter().filter(|datagram| datagram.to == new && datagram.bytes[1] == REFUSE);
    assert_eq!(refusals.count(), 1);
}

/// A host that moved while it had a connection keeps its association.
#[test]
fn moved_connection_takes_association_along() {
    let mut network = client_and_server(11);
    let id = connect(&mut network, (Pattern::Ik, false));
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(1));
    network.hosts[CLIENT].address = "192.0.2.9:1000".parse().unwrap();
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(b"more");
    network.run(Duration::from_secs(2));
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    let id = connect(&mut network, (Pattern::Ik, false));
    assert_eq!(time_to_reply(&mut network, id), 2 * DELAY);
}

/// An initiator whose key, or whose secret, is admitted no more opens no connection.
#[test]
fn revoked_initiator_opens_nothing() {
    let is_admitted = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let admitted = is_admitted.clone();
    let mut network = client_and_server(12);
    let admit: crate::peers::Admit = Arc::new(move |_| {
        let is_admitted = admitted.load(std::sync::atomic::Ordering::Relaxed);
        if is_admitted { Ok(()) } else { Err(RefuseReason::NotAdmitted) }
    });
    network.hosts[SERVER].set.listen(ResponderConfig { admit, ..responder() });
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    for (round, expected) in [(0, None), (1, None), (2, Some(Closed::Refused(RefuseReason::NotAdmitted)))] {
        is_admitted.store(round < 2, std::sync::atomic::Ordering::Relaxed);
        network.hosts[SERVER].streams.clear();
        let id = connect(&mut network, (Pattern::Ik, false));
        network.run(Duration::from_secs(20));
        match expected {
            None => check_exchange(&network, id, "admitted"),
            Some(closed) => {
                assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(closed));
                assert!(network.hosts[SERVER].streams.is_empty());
            }
        }
    }
}

/// Other keys, other rules of trust and other configurations do not share an association.
#[test]
fn other_keys_get_handshake() {
    let open = |initiator: InitiatorConfig, config: ConnectionConfig| {
        let mut network = associated(13, (Pattern::Ik, false));
        let (now, peer) = (network.now, network.hosts[SERVER].address);
        network.hosts[CLIENT].set.connect(now, peer, initiator, config).unwrap();
        network.run(Duration::from_secs(1));
        network.hosts[CLIENT].set.stats().initiated_open == 1
    };
    let (known, config) = (initiator(Pattern::Ik, false), ConnectionConfig::default());
    let trust = |answer: bool| -> Option<Trust> { Some(Arc::new(move |_| answer)) };
    assert!(open(known.clone(), config.clone()));
    assert!(open(InitiatorConfig { remote: None, trust: trust(true), ..known.clone() }, config.clone()));
    assert!(!open(InitiatorConfig { remote: None, trust: trust(false), ..known.clone() }, config.clone()));
    assert!(!open(InitiatorConfig { remote: Some(key(9).public()), ..known.clone() }, config.clone()));
    assert!(!open(InitiatorConfig { local: Some(key(9)), ..known.clone() }, config.clone()));
    assert!(!open(InitiatorConfig { local: None, ..known.clone() }, config.clone()));
    assert!(!open(initiator(Pattern::Ik, true), config.clone()));
    assert!(!open(known, connections(true)));
}

/// Associations end after an hour.
#[test]
fn old_association_is_renewed_by_handshake() {
    let mut network = associated(14, (Pattern::Ik, false));
    for (secs, syns) in [(1800, 0), (1800, 1), (1000, 0)] {
        network.run(Duration::from_secs(secs));
        clear(&mut network);
        let id = connect(&mut network, (Pattern::Ik, false));
        network.run(Duration::from_secs(30));
        check_exchange(&network, id, &format!("{secs}"));
        assert_eq!(count(&network, SYN), syns, "{secs}");
    }
}

/// The responder's RESETs are known by the OPEN-ACK.
#[test]
fn connection_within_association_is_reset() {
    let mut network = associated(15, (Pattern::Ik, false));
    network.hosts[SERVER].reply = None;
    let id = connect(&mut network, (Pattern::Ik, false));
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(2));
    network.restart(SERVER);
    network.hosts[SERVER].set.listen(responder());
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(b"more");
    network.run(Duration::from_secs(2));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Reset));
}

/// Many at once, of which the first packets are lost, arrive in any order.
#[test]
fn many_open_at_once() {
    let mut network = associated(16, (Pattern::Ik, false));
    network.rule = Box::new(|index, _| match index % 5 {
        0 => Fate::Drop,
        1 => Fate::Delay(Duration::from_millis(37)),
        _ => Fate::Deliver,
    });
    let ids: Vec<_> = (0..200).map(|_| connect(&mut network, (Pattern::Ik, false))).collect();
    network.run(Duration::from_secs(120));
    for id in ids {
        assert_eq!(network.hosts[CLIENT].streams[&id].incoming, REPLY);
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished));
    }
    let stats = network.hosts[SERVER].set.stats();
    assert_eq!((stats.opened, stats.opens_refused, network.hosts[SERVER].streams.len()), (200, 0, 200));
}

/// After the peer was silent, a handshake shows whether it is there.
#[test]
fn silent_peer_ends_association() {
    let mut network = associated(17, (Pattern::Ik, false));
    network.rule = Box::new(|_, _| Fate::Drop);
    let id = connect(&mut network, (Pattern::Ik, false));
    network.run(Duration::from_secs(200));
    let closed = Some(Closed::TimedOut(crate::Phase::Connect));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, closed);
    clear(&mut network);
    connect(&mut network, (Pattern::Ik, false));
    network.run(Duration::from_secs(1));
    assert!(count(&network, SYN) > 0 && count(&network, OPEN) == 0);
}

/// Before the responder has opened its side, it does not know the association, and what it refuses
/// then it must not take later.
#[test]
fn association_begins_with_first_answer() {
    let mut network = client_and_server(18);
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    let client = network.hosts[CLIENT].address;
    // The first sealed packets of the client are late.
    network.rule = Box::new(move |_, datagram| {
        let is_late = datagram.from == client && !matches!(datagram.bytes[1], SYN | OPEN);
        if is_late { Fate::Delay(Duration::from_secs(1)) } else { Fate::Deliver }
    });
    let first = connect(&mut network, (Pattern::Ik, false));
    network.run(3 * DELAY);
    assert!(network.hosts[CLIENT].streams[&first].is_connected);
    connect(&mut network, (Pattern::Ik, false));
    network.run(DELAY / 2);
    assert_eq!(count(&network, OPEN), 0);
    network.run(Duration::from_secs(30));
    connect(&mut network, (Pattern::Ik, false));
    network.run(DELAY / 2);
    assert_eq!(count(&network, OPEN), 1);
}

/// Other associations that the responder forgets do not count as those that may have opened
/// something.
#[test]
fn forgotten_association_is_replaced_by_handshake() {
    let mut network = associated(19, (Pattern::Ik, false));
    network.run(Duration::from_secs(10));
    network.hosts[SERVER].set.acceptor.associations.clear();
    let id = connect(&mut network, (Pattern::Ik, false));
    assert_eq!(time_to_reply(&mut network, id), 6 * DELAY);
    network.run(Duration::from_secs(60));
    check_exchange(&network, id, "forgotten");
}

/// A request that opened a connection, of an association that was forgotten since, is not taken
/// again.
#[test]
fn forgotten_use_is_no_new_request() {
    let mut network = associated(20, (Pattern::Ik, false));
    let id = deliver_unanswered(&mut network);
    network.hosts[SERVER].set.acceptor.associations.clear();
    network.run(Duration::from_secs(60));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Reset));
    assert_eq!(network.hosts[SERVER].streams.len(), 1);
}

/// Another socket of the same identity cannot know what this one has delivered.
#[test]
fn handshake_at_other_socket_is_refused() {
    let mut network = associated(21, (Pattern::Ik, false));
    let config = ConnectionSetConfig { reset_scope: 7, ..set_config(network.now) };
    network.run(Duration::from_secs(10));
    network.hosts[SERVER].set = ConnectionSet::new(config, Entropy::from_seed([9; 32]));
    network.hosts[SERVER].set.listen(responder());
    let id = connect(&mut network, (Pattern::Ik, false));
    network.run(Duration::from_secs(10));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Reset));
    assert!(network.hosts[SERVER].streams.is_empty());
}

/// Without the secret of an association, a handshake gives up none of its numbers.
#[test]
fn only_its_initiator_gives_up_numbers() {
    let mut network = associated(22, (Pattern::Ik, false));
    let now = network.now;
    let id = network.hosts[CLIENT].set.native.held.next(0, None).map(|within| within.number);
    assert_eq!(id, None);
    let server = &mut network.hosts[SERVER].set;
    let scope = server.association_scope();
    let association = server.acceptor.associations.ids().next().unwrap();
    let instead = crate::wire::native::Instead { association, number: u64::MAX, age_ms: 0, scope, proof: 1 };
    assert!(!server.acceptor.associations.give_up(now, scope, &instead));
    let id = connect(&mut network, (Pattern::Ik, false));
    assert_eq!(time_to_reply(&mut network, id), 2 * DELAY);
}

#[test]
fn open_connections_divide_first_window() {
    let mut network = associated(25, (Pattern::Ik, false));
    let association = network.hosts[SERVER].set.acceptor.associations.ids().next().unwrap();
    let next_share = |network: &mut Network| {
        let within = network.hosts[CLIENT].set.native.held.next(association, None).unwrap();
        within.association.window / within.window
    };
    assert_eq!(network.hosts[CLIENT].set.len(), 0);
    for _ in 0..6 {
        connect(&mut network, (Pattern::Ik, false));
    }
    assert_eq!(next_share(&mut network), 2 * 7);
    network.run(Duration::from_secs(1));
    assert_eq!(next_share(&mut network), 2 * 2, "six have ended, though they repeat their last answers");
}

/// Returns a network that loses each OPEN-ACK, and a connection whose stream goes on.
fn open_without_ack(seed: u64) -> (Network, ConnectionId) {
    let mut network = associated(seed, (Pattern::Ik, false));
    network.hosts[SERVER].reply = None;
    network.rule = Box::new(|_, datagram| match datagram.bytes[1] {
        OPEN_ACK => Fate::Drop,
        _ => Fate::Deliver,
    });
    let id = connect(&mut network, (Pattern::Ik, false));
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    (network, id)
}

/// Without a listener, a lost OPEN-ACK is not repeated, and the connection goes on.
#[test]
fn connection_survives_without_open_ack() {
    let (mut network, id) = open_without_ack(23);
    network.run(Duration::from_secs(1));
    network.hosts[SERVER].set.stop_listening();
    network.run(Duration::from_secs(600));
    let stream = network.hosts[CLIENT].streams.get_mut(&id).unwrap();
    assert_eq!(stream.closed, None);
    (stream.outgoing, stream.finish) = ([REQUEST, b"more"].concat(), true);
    network.run(Duration::from_secs(5));
    let arrived = network.hosts[SERVER].streams.values().any(|s| s.incoming == [REQUEST, b"more"].concat());
    assert!(arrived);
}

/// A RESET that answered data before its OPEN has told the token to everyone.
#[test]
fn told_token_resets_nothing() {
    let mut network = associated(24, (Pattern::Ik, false));
    network.hosts[SERVER].reply = None;
    network.rule = Box::new(|_, datagram| match datagram.bytes[1] {
        OPEN => Fate::Delay(DELAY),
        _ => Fate::Deliver,
    });
    let id = connect(&mut network, (Pattern::Ik, false));
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(5));
    let reset = network.log.iter().find(|datagram| datagram.bytes[1] == 13).unwrap().clone();
    network.inject(reset);
    network.run(Duration::from_secs(1));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, None);
}
