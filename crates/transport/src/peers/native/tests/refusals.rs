//! Initiators that are refused, and how they learn it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use rdt_crypto::{Psk, PublicKey, SecretId};

use super::*;
use crate::connection::RefuseReason;

/// Returns how a connection to this responder ended at the initiator.
fn end_at_initiator(config: ResponderConfig, keys: InitiatorConfig) -> (Option<Closed>, Network) {
    let mut network = client_and_server(1);
    network.hosts[SERVER].set.listen(config);
    let id = network.connect(CLIENT, SERVER, keys, b"request");
    // A refusal without a proof is believed at the second SYN, after 1 s.
    network.run(Duration::from_secs(2));
    (network.hosts[CLIENT].streams[&id].closed.clone(), network)
}

fn refusing(reason: RefuseReason) -> ResponderConfig {
    ResponderConfig { admit: Arc::new(move |_| Err(reason)), ..responder() }
}

#[test]
fn known_initiator_is_refused_in_message_2() {
    for handshake in HANDSHAKES.into_iter().filter(|handshake| handshake.0 != Pattern::Xx) {
        let keys = initiator(handshake.0, handshake.1);
        let (closed, network) = end_at_initiator(refusing(RefuseReason::NotAdmitted), keys);
        assert_eq!(closed, Some(Closed::Refused(RefuseReason::NotAdmitted)), "{handshake:?}");
        assert_eq!((network.hosts[SERVER].set.stats().refused, network.hosts[SERVER].set.len()), (1, 0));
        assert!(network.hosts[SERVER].streams.is_empty());
    }
}

#[test]
fn initiator_of_xx_is_refused_after_auth() {
    for has_secret in [false, true] {
        for lost in 0..8 {
            let mut network = client_and_server(2);
            network.hosts[SERVER].set.listen(refusing(RefuseReason::NotAdmitted));
            let loses = move |index: usize| if index == lost { Fate::Drop } else { Fate::Deliver };
            network.rule = Box::new(move |index, _| loses(index));
            let id = network.connect(CLIENT, SERVER, initiator(Pattern::Xx, has_secret), b"request");
            network.run(Duration::from_secs(20));
            let closed = network.hosts[CLIENT].streams[&id].closed.clone();
            assert_eq!(closed, Some(Closed::Refused(RefuseReason::NotAdmitted)), "packet {lost} lost");
            assert_eq!(network.hosts[SERVER].set.stats().refused, 1, "packet {lost} lost");
            assert!(network.hosts[SERVER].streams.is_empty());
        }
    }
}

/// Both sides' keys and secrets are right, so nothing else could be the reason.
#[test]
fn other_service_is_refused_before_any_byte() {
    let [files, chat] = [Service::new("rdt-file"), Service::new("chat/1")].map(Option::unwrap);
    for (pattern, has_secret) in HANDSHAKES {
        for (ours, theirs) in [(files, chat), (files, Service::NONE), (Service::NONE, chat)] {
            let responder = ResponderConfig { service: theirs, ..responder() };
            let trusted = Arc::new(Mutex::new(false));
            let asked = Arc::clone(&trusted);
            let trust: Trust = Arc::new(move |_| {
                *asked.lock().unwrap() = true;
                true
            });
            let keys =
                InitiatorConfig { service: ours, trust: Some(trust), ..initiator(pattern, has_secret) };
            let (closed, network) = end_at_initiator(responder, keys);
            let case = format!("{pattern:?} {has_secret} {ours:?} {theirs:?}");
            let refused = Closed::Refused(RefuseReason::OtherService(theirs));
            assert_eq!(closed, Some(refused), "{case}");
            assert!(network.hosts[SERVER].streams.is_empty() && !*trusted.lock().unwrap(), "{case}");
            assert!(network.log.iter().all(|datagram| [1, 3].contains(&datagram.bytes[1])), "{case}");
        }
    }
}

#[test]
fn same_service_connects() {
    let service = Service::new(&"s".repeat(Service::MAX_LEN)).unwrap();
    for (pattern, has_secret) in HANDSHAKES {
        let keys = InitiatorConfig { service, ..initiator(pattern, has_secret) };
        let (_, network) = end_at_initiator(ResponderConfig { service, ..responder() }, keys);
        assert_eq!(network.hosts[SERVER].streams.len(), 1, "{pattern:?}");
        let longest = network.log.iter().map(|datagram| datagram.bytes.len()).max();
        assert!(longest.unwrap() <= 1472, "{pattern:?}");
    }
}

/// The user who knows another key of the responder hears of it, instead of waiting for minutes.
#[test]
fn other_key_of_responder_is_named() {
    for pattern in [Pattern::Nk, Pattern::Ik] {
        let keys = InitiatorConfig { remote: Some(key(99).public()), ..initiator(pattern, false) };
        let mut network = client_and_server(1);
        network.hosts[SERVER].set.listen(responder());
        let id = network.connect(CLIENT, SERVER, keys, b"request");
        network.run(Duration::from_secs(5));
        let closed = network.hosts[CLIENT].streams[&id].closed.clone();
        assert_eq!(closed, Some(Closed::Refused(RefuseReason::WrongKey)), "{pattern:?}");
    }
}

#[test]
fn admission_sees_key_and_secret() {
    for (pattern, has_secret) in HANDSHAKES {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let admit = {
            let seen = Arc::clone(&seen);
            Arc::new(move |admittee| {
                seen.lock().unwrap().push(admittee);
                Ok(())
            })
        };
        end_at_initiator(ResponderConfig { admit, ..responder() }, initiator(pattern, has_secret));
        let peer = (pattern != Pattern::Nk).then(|| key(CLIENT_KEY).public());
        let secret = has_secret.then(|| secret().id());
        let seen = seen.lock().unwrap();
        assert_eq!((seen[0].peer, seen[0].secret, seen.len()), (peer, secret, 1), "{pattern:?}");
    }
}

#[test]
fn unknown_secret_is_refused() {
    for pattern in [Pattern::Xx, Pattern::Nk, Pattern::Ik] {
        let config = ResponderConfig { secrets: Arc::new(Vec::new()), ..responder() };
        let (closed, network) = end_at_initiator(config, initiator(pattern, true));
        assert_eq!(closed, Some(Closed::Refused(RefuseReason::Secret)), "{pattern:?}");
        assert!(!network.hosts[CLIENT].streams.values().any(|stream| stream.is_connected), "{pattern:?}");
        assert_eq!(network.hosts[SERVER].set.half_open(), 0);
    }
}

/// A secret with the same identifier and another key, which an attacker could claim.
#[test]
fn wrong_key_of_secret_connects_nothing() {
    struct Wrong;
    impl Secrets for Wrong {
        fn psk(&self, _: SecretId) -> Option<Psk> {
            Some(SharedSecret::from_array(&[8; 32]).psk())
        }
    }
    for pattern in [Pattern::Xx, Pattern::Nk, Pattern::Ik] {
        let config = ResponderConfig { secrets: Arc::new(Wrong), ..responder() };
        let (closed, mut network) = end_at_initiator(config, initiator(pattern, true));
        assert_eq!(closed, None, "{pattern:?}");
        network.run(Duration::from_secs(200));
        assert!(network.hosts[SERVER].streams.is_empty(), "{pattern:?}");
        // In XX, message 2 is authentic without the secret. The responder cannot read message 3.
        let stream = network.hosts[CLIENT].streams.values().next().unwrap();
        assert!(!stream.is_connected, "{pattern:?}");
        assert_eq!(stream.closed, Some(Closed::TimedOut(crate::Phase::Connect)), "{pattern:?}");
    }
}

#[test]
fn one_time_secret_opens_one_connection() {
    struct Once(Mutex<BTreeSet<SecretId>>, Pattern);
    impl Secrets for Once {
        fn psk(&self, id: SecretId) -> Option<Psk> {
            (secret().id() == id && !self.0.lock().unwrap().contains(&id)).then(|| secret().psk())
        }
        fn complete(&self, id: SecretId, peer: Option<PublicKey>) -> bool {
            assert_eq!(peer.is_some(), self.1 != Pattern::Nk);
            self.0.lock().unwrap().insert(id)
        }
    }
    for pattern in [Pattern::Xx, Pattern::Nk, Pattern::Ik] {
        let mut network = client_and_server(3);
        network.hosts[SERVER]
            .set
            .listen(ResponderConfig { secrets: Arc::new(Once(Mutex::default(), pattern)), ..responder() });
        // Two at once, of which one is half-open when the other completes, and one later.
        for _ in 0..2 {
            network.connect(CLIENT, SERVER, initiator(pattern, true), b"request");
        }
        network.run(Duration::from_secs(2));
        network.connect(CLIENT, SERVER, initiator(pattern, true), b"request");
        network.run(Duration::from_secs(2));
        let stats = network.hosts[SERVER].set.stats();
        // The later one is refused at each of its SYNs.
        assert_eq!(stats.accepted, 1, "{pattern:?}");
        assert!(stats.refused >= 3, "{pattern:?}: {}", stats.refused);
        let ended = network.hosts[CLIENT].streams.values().filter(|stream| stream.closed.is_some());
        assert_eq!(ended.count(), 2, "{pattern:?}");
    }
}

#[test]
fn full_set_refuses_until_place_is_free() {
    for (pattern, has_secret) in HANDSHAKES {
        let mut network = Network::new(4);
        network.add_host("192.0.2.1:1000");
        let config = ConnectionSetConfig {
            max_connections: 2,
            max_connections_per_source: Some(2),
            ..set_config(network.now)
        };
        network.add_host_with("198.51.100.1:2000", config);
        network.hosts[SERVER].set.listen(responder());
        let connect = |network: &mut Network| {
            let id = network.connect(CLIENT, SERVER, initiator(pattern, has_secret), b"request");
            network.run(Duration::from_secs(2));
            network.hosts[CLIENT].streams[&id].closed.clone()
        };
        assert_eq!([connect(&mut network), connect(&mut network)], [None, None], "{pattern:?}");
        assert_eq!(connect(&mut network), Some(Closed::Refused(RefuseReason::Busy)), "{pattern:?}");
        let (id, now) = (*network.hosts[SERVER].streams.keys().next().unwrap(), network.now);
        network.hosts[SERVER].set.with(now, id, |connection| connection.close(now, 7, "bye"));
        network.run(Duration::from_secs(10));
        assert_eq!(connect(&mut network), None, "{pattern:?}");
        assert_eq!(network.hosts[SERVER].set.stats().max_connections, 2);
    }
}

#[test]
fn silent_peer_loses_its_place_in_full_set() {
    let mut network = Network::new(4);
    let hosts: Vec<_> = (1..=4).map(|n| network.add_host(&format!("192.0.2.{n}:1000"))).collect();
    let config = ConnectionSetConfig { max_connections: 2, ..set_config(network.now) };
    let server = network.add_host_with("198.51.100.1:2000", config);
    network.hosts[server].set.listen(responder());
    let connect = |network: &mut Network, from: usize| {
        let id = network.connect(from, server, initiator(Pattern::Xx, false), b"request");
        network.run(Duration::from_secs(2));
        network.hosts[from].streams[&id].closed.clone()
    };
    assert_eq!([connect(&mut network, hosts[0]), connect(&mut network, hosts[1])], [None, None]);
    let killed = network.hosts[hosts[0]].address;
    network.rule =
        Box::new(move |_, datagram| if datagram.from == killed { Fate::Drop } else { Fate::Deliver });
    network.run(Duration::from_secs(13));
    let busy = Some(Closed::Refused(RefuseReason::Busy));
    assert_eq!(connect(&mut network, hosts[2]), busy, "perhaps its path comes back");
    network.run(Duration::from_secs(4));
    assert_eq!([connect(&mut network, hosts[2]), connect(&mut network, hosts[3])], [None, busy]);
    let ended = network.hosts[server].streams.values().filter_map(|stream| stream.closed.clone());
    assert_eq!(ended.collect::<Vec<_>>(), [Closed::Idle]);
    let heard = network.hosts[hosts[1]].streams.values().next().unwrap();
    assert_eq!(heard.closed, None);
}

/// Connections that only repeat their last answers need no slot.
#[test]
fn ended_connections_leave_their_places() {
    let mut network = Network::new(5);
    network.add_host("192.0.2.1:1000");
    let config = ConnectionSetConfig { max_connections: 4, ..set_config(network.now) };
    network.add_host_with("198.51.100.1:2000", config);
    network.hosts[SERVER].set.listen(responder());
    network.hosts[SERVER].reply = Some(Vec::new());
    for n in 0..20 {
        let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
        network.run(Duration::from_millis(300));
        let closed = &network.hosts[CLIENT].streams[&id].closed;
        assert_eq!(*closed, Some(Closed::Finished), "connection {n}");
    }
}

#[test]
fn host_takes_half_of_all_places() {
    let mut network = Network::new(6);
    network.add_host("192.0.2.1:1000");
    let config = ConnectionSetConfig {
        max_connections: 16,
        max_connections_per_source: Some(8),
        ..set_config(network.now)
    };
    network.add_host_with("198.51.100.1:2000", config);
    network.add_host("203.0.113.1:666");
    network.hosts[SERVER].set.listen(responder());
    let connect = |network: &mut Network, from: usize| {
        let id = network.connect(from, SERVER, initiator(Pattern::Xx, false), b"request");
        network.run(Duration::from_secs(2));
        network.hosts[from].streams[&id].closed.clone()
    };
    let greedy: Vec<_> = (0..20).map(|_| connect(&mut network, 2)).collect();
    assert_eq!(greedy.iter().filter(|closed| closed.is_none()).count(), 8, "{greedy:?}");
    assert_eq!(greedy.last(), Some(&Some(Closed::Refused(RefuseReason::Busy))));
    assert_eq!(connect(&mut network, CLIENT), None);
}

/// Two hosts that open until they are refused leave places for others, and the freed places of one
/// of them, too.
#[test]
fn greedy_hosts_leave_places_for_others() {
    let mut network = Network::new(7);
    network.add_host("192.0.2.1:1000");
    let config = ConnectionSetConfig { max_connections: 16, ..set_config(network.now) };
    network.add_host_with("198.51.100.1:2000", config);
    network.add_host("203.0.113.1:666");
    network.add_host("[2001:db8:0:1::1]:666");
    // Of the same /56 network.
    network.add_host("[2001:db8:0:2::1]:666");
    network.hosts[SERVER].set.listen(responder());
    let connect = |network: &mut Network, from: usize| {
        let id = network.connect(from, SERVER, initiator(Pattern::Xx, false), b"request");
        network.run(Duration::from_secs(2));
        (network.hosts[from].streams[&id].closed.is_none()).then_some(id)
    };
    let greedy = [2, 3, 4].map(|from| (0..10).filter_map(|_| connect(&mut network, from)).count());
    assert_eq!(greedy, [8, 4, 0]);
    assert!(connect(&mut network, CLIENT).is_some() && connect(&mut network, CLIENT).is_some());
    assert!(connect(&mut network, CLIENT).is_none(), "two of four");
}

#[test]
fn other_identity_gets_no_connection() {
    for pattern in [Pattern::Nk, Pattern::Ik] {
        let config = ResponderConfig { identity: key(9), ..responder() };
        let (closed, network) = end_at_initiator(config, initiator(pattern, false));
        assert_eq!(closed, Some(Closed::Refused(RefuseReason::WrongKey)), "{pattern:?}");
        assert!(network.hosts[SERVER].streams.is_empty());
    }
}

/// Reports ICMP "port unreachable" for `address` to the client, and lets a SYN be repeated.
fn report_unreachable(network: &mut Network, address: &str, reports: u64) {
    let now = network.now;
    network.hosts[CLIENT].set.handle_refused(now, address.parse().unwrap(), reports);
    network.run(Duration::from_secs(3));
}

/// One report may be forged, so a second SYN must have the same answer.
#[test]
fn closed_port_ends_connect_at_second_syn() {
    let server = "198.51.100.1:2000";
    let mut network = client_and_server(1);
    network.rule = Box::new(|_, _| Fate::Drop);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.run(Duration::from_millis(10));
    report_unreachable(&mut network, "198.51.100.1:2001", 10);
    report_unreachable(&mut network, "198.51.100.1:2001", 10);
    report_unreachable(&mut network, server, 10);
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, None);
    report_unreachable(&mut network, server, 1);
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Unreachable));
    assert!(network.hosts[CLIENT].set.is_empty());
}

#[test]
fn retry_outweighs_earlier_port_unreachable() {
    let server = "198.51.100.1:2000";
    let mut network = client_and_server(1);
    network.require_proofs(SERVER);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.hosts[SERVER].reply = Some(Vec::new());
    network.rule = Box::new(|_, _| Fate::Drop);
    network.run(Duration::from_millis(10));
    report_unreachable(&mut network, server, 1);
    // The RETRY arrives, and the SYN-ACK is lost.
    let mut answers = 0;
    network.rule = Box::new(move |_, datagram| {
        answers += usize::from(datagram.from.port() == 2000);
        if answers < 2 { Fate::Deliver } else { Fate::Drop }
    });
    network.run(Duration::from_secs(4));
    report_unreachable(&mut network, server, 1);
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, None);
    network.rule = Box::new(|_, _| Fate::Deliver);
    network.run(Duration::from_secs(20));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished));
}
