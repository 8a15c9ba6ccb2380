//! Recorded connections that a third party sends again, and own packets that come back.

use std::time::Duration;

use super::network::Datagram;
use super::*;

/// Runs one connection and returns the network with its packets in the log.
fn recorded(seed: u64, (pattern, has_secret): (Pattern, bool)) -> Network {
    let mut network = client_and_server(seed);
    network.hosts[SERVER].reply = Some(Vec::new());
    network.connect(CLIENT, SERVER, initiator(pattern, has_secret), b"request");
    network.run(Duration::from_millis(1));
    let end = network.now + Duration::from_secs(30);
    network.run_until(end, |network| network.hosts[SERVER].streams.values().any(|s| s.closed.is_some()));
    network
}

#[test]
fn replayed_connection_opens_nothing() {
    for handshake in HANDSHAKES {
        for after_s in [1, 26, 3600] {
            let mut network = recorded(1, handshake);
            let sent = std::mem::take(&mut network.log);
            network.run(Duration::from_secs(after_s));
            let (server, client) = (network.hosts[SERVER].address, network.hosts[CLIENT].address);
            // The answers must not reach the client, which would end the attack.
            network.rule =
                Box::new(move |_, datagram| if datagram.to == client { Fate::Drop } else { Fate::Deliver });
            for datagram in sent.iter().filter(|datagram| datagram.to == server) {
                network.inject(datagram.clone());
                network.run(Duration::from_millis(5));
            }
            network.run(Duration::from_secs(1));
            let set = &network.hosts[SERVER].set;
            let case = format!("{handshake:?} after {after_s} s");
            assert_eq!((set.stats().accepted, network.hosts[SERVER].streams.len()), (1, 1), "{case}");
            // The SYN is remembered for 30 s. After that its answer opens nothing, as the packets
            // that follow it belong to another one.
            assert_eq!(set.half_open(), usize::from(after_s > 30), "{case}");
            // Every packet is answered by at most as many bytes.
            let (answered, _) = network.bytes_to_and_from(client);
            let replayed: usize = sent.iter().filter(|d| d.to == server).map(|d| d.bytes.len()).sum();
            assert!(answered <= replayed, "{case}: {answered} of {replayed}");
        }
    }
}

#[test]
fn replay_from_other_address_opens_nothing() {
    for handshake in HANDSHAKES {
        let mut network = recorded(2, handshake);
        let sent = std::mem::take(&mut network.log);
        let server = network.hosts[SERVER].address;
        let from = "203.0.113.1:7".parse().unwrap();
        for datagram in sent.iter().filter(|datagram| datagram.to == server) {
            network.inject(Datagram { from, ..datagram.clone() });
        }
        network.run(Duration::from_secs(1));
        let stats = network.hosts[SERVER].set.stats();
        assert_eq!((stats.accepted, network.hosts[SERVER].set.half_open()), (1, 1), "{handshake:?}");
    }
}

/// All packets of an open connection arrive a second time, in the middle of it.
#[test]
fn replay_into_open_connection_changes_nothing() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server(3);
        let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), b"request");
        network.run(Duration::from_secs(2));
        let sent = network.log.clone();
        for datagram in sent {
            network.inject(datagram);
        }
        network.run(Duration::from_secs(2));
        assert_eq!(network.hosts[SERVER].set.stats().accepted, 1);
        let theirs = network.hosts[SERVER].streams.values().next().unwrap();
        assert_eq!((&*theirs.incoming, &theirs.closed), (&b"request"[..], &None));
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, None, "{handshake:?}");
    }
}

/// A host on the path sends every packet back to its sender, which listens, too.
#[test]
fn reflected_packets_connect_nothing() {
    for handshake in HANDSHAKES {
        for is_cut in [false, true] {
            let mut network = client_and_server(4);
            let own = ResponderConfig { identity: key(CLIENT_KEY), ..responder() };
            network.hosts[CLIENT].set.listen(own);
            network.hosts[SERVER].reply = Some(Vec::new());
            network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), b"request");
            let (client, server) = (network.hosts[CLIENT].address, network.hosts[SERVER].address);
            let end = network.now + Duration::from_secs(40);
            let mut reflected = 0;
            // With `is_cut`, the client hears itself only.
            network.rule = Box::new(move |_, _| if is_cut { Fate::Drop } else { Fate::Deliver });
            while network.now < end {
                let next = network.now + Duration::from_millis(10);
                network.run_until(next, |_| false);
                let sent = network.log[reflected..].to_vec();
                reflected = network.log.len();
                for datagram in sent.into_iter().filter(|datagram| datagram.from == client) {
                    network.inject(Datagram { from: server, to: client, ..datagram });
                }
            }
            assert_eq!(network.hosts[CLIENT].set.stats().accepted, 0, "{handshake:?}");
            let ours = network.hosts[CLIENT].streams.values().next();
            let closed = ours.and_then(|stream| stream.closed.clone());
            assert_eq!(closed == Some(Closed::Finished), !is_cut, "{handshake:?}: {closed:?}");
        }
    }
}
