//! Bounds of associations: of their age, of OPENs without an answer, and of data before an answer.

use std::net::{IpAddr, SocketAddr};

use super::*;
use crate::connection::KnownPath;
use crate::peers::native::known_paths::KnownPaths;

/// The request was delivered, the server has restarted, and the client's host was suspended since:
/// its clock does not show that the server was started after the request.
#[test]
fn suspended_client_delivers_nothing_twice() {
    for suspended in [false, true] {
        let mut network = associated(31, (Pattern::Ik, false));
        let since = network.now;
        network.run(Duration::from_secs(600));
        let id = deliver_unanswered(&mut network);
        network.restart(SERVER);
        // The restart was ten minutes ago, of which the client knows nothing.
        network.hosts[SERVER].set.acceptor.associations.set_start(since);
        network.hosts[SERVER].set.listen(responder());
        if suspended {
            network.hosts[CLIENT].set.on_suspended(Duration::from_secs(601));
        }
        network.rule = Box::new(|_, _| Fate::Deliver);
        network.run(Duration::from_secs(60));
        let requests = network.hosts[SERVER].streams.values().filter(|stream| stream.incoming == REQUEST);
        assert_eq!(requests.count(), usize::from(!suspended), "suspended: {suspended}");
        let closed = &network.hosts[CLIENT].streams[&id].closed;
        assert_eq!(*closed == Some(Closed::Reset), suspended, "{closed:?}");
    }
}

/// Without any further event, the secrets of both sides go in time.
#[test]
fn idle_sides_erase_secrets_by_timer() {
    let mut network = associated(32, (Pattern::Ik, false));
    let held = |network: &Network, host: usize| network.hosts[host].set.association_deadline().is_some();
    assert!(held(&network, CLIENT) && held(&network, SERVER));
    network.run(Duration::from_secs(3600));
    assert!(!held(&network, CLIENT) && held(&network, SERVER));
    network.run(Duration::from_secs(300));
    assert!(!held(&network, SERVER));
    for host in &network.hosts {
        assert_eq!(host.set.poll_timeout(), None);
    }
}

/// ICMP errors end an OPEN as they end a handshake: two are believed.
#[test]
fn closed_port_ends_open() {
    let mut network = associated(33, (Pattern::Ik, false));
    network.rule = Box::new(|_, _| Fate::Drop);
    let id = connect(&mut network, (Pattern::Ik, false));
    let server = network.hosts[SERVER].address;
    let mut closed = Vec::new();
    for _ in 0..2 {
        network.run(Duration::from_secs(2));
        let now = network.now;
        network.hosts[CLIENT].set.handle_refused(now, server, 1);
        network.run(Duration::from_millis(1));
        closed.push(network.hosts[CLIENT].streams[&id].closed.clone());
    }
    assert_eq!(closed, [None, Some(Closed::Unreachable)]);
}

/// A connection that was in use ends as an idle one, though its OPEN-ACK was lost.
#[test]
fn silence_after_lost_open_ack_is_idleness() {
    let (mut network, id) = open_without_ack(35);
    network.run(Duration::from_secs(60));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, None);
    network.rule = Box::new(|_, _| Fate::Drop);
    network.run(Duration::from_secs(60));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Idle));
}

/// A connection that cannot begin takes no share of the association's window.
#[test]
fn invalid_connect_takes_no_share() {
    let mut network = associated(36, (Pattern::Ik, false));
    let (now, server) = (network.now, network.hosts[SERVER].address);
    let association = network.hosts[SERVER].set.acceptor.associations.ids().next().unwrap();
    let Host { set, config, .. } = &mut network.hosts[CLIENT];
    for _ in 0..3 {
        let config = ConnectionConfig { idle_timeout: Duration::ZERO, ..config.clone() };
        assert!(set.connect(now, server, initiator(Pattern::Ik, false), config).is_err());
    }
    let within = set.native.held.next(association, None).unwrap();
    assert_eq!(within.window, within.association.window);
}

/// A cookie waits for the first SYN, which an OPEN may precede.
#[test]
fn refused_open_leaves_cookie_for_handshake() {
    let mut network = client_and_server(38);
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    let first = connect(&mut network, (Pattern::Ik, false));
    network.run(Duration::from_secs(60));
    let resumption = network.hosts[CLIENT].streams[&first].resumption;
    clear(&mut network);
    network.hosts[SERVER].set.acceptor.associations.clear();
    network.require_proofs(SERVER);
    let keys = InitiatorConfig { resumption, ..initiator(Pattern::Ik, false) };
    let id = network.connect(CLIENT, SERVER, keys, REQUEST);
    network.run(Duration::from_secs(60));
    check_exchange(&network, id, "after a refused OPEN");
    let stats = network.hosts[SERVER].set.stats();
    assert_eq!((stats.opens_refused, stats.resumed, stats.retries), (1, 1, 0));
}

/// What is known of a host is used whatever the number of connections to others.
#[test]
fn paths_are_known_among_connections_to_other_hosts() {
    let mut network = associated(37, (Pattern::Ik, false));
    let (now, server) = (network.now, network.hosts[SERVER].address);
    let Host { set, config, .. } = &mut network.hosts[CLIENT];
    let window = |set: &mut ConnectionSet<SocketAddr>| set.path_of_new(now, &server).unwrap().window;
    let known = set.path_of_new(now, &server).unwrap();
    for (hosts, is_used) in [(100, true), (64, true), (65, false)] {
        let ids: Vec<_> = (0..hosts)
            .map(|n| {
                let ip = if hosts == 100 { IpAddr::from([10, 1, 1, n]) } else { server.ip() };
                let initiator = initiator(Pattern::Ik, false);
                set.connect(now, SocketAddr::new(ip, 9), initiator, config.clone()).unwrap()
            })
            .collect();
        assert_eq!(set.native.by_host.len(), usize::from(hosts));
        set.native.known_paths = KnownPaths::default();
        set.native.known_paths.insert(now, now, server.ip(), KnownPath { window: 100_000, ..known });
        assert_eq!(window(set) > 0, is_used, "{hosts}");
        for id in ids {
            set.remove(id.0);
        }
        assert_eq!(set.native.by_host.len(), 0);
    }
}

/// Returns the bytes that `from` sends within one round trip of a further connection, of whose
/// packets the server gets the first ones alone. Before it, the hosts exchanged 8 MiB each way, and
/// nothing for `pause`.
fn early_bytes(from: usize, pause: Duration) -> usize {
    let large = vec![1; 8 << 20];
    let mut network = client_and_server(34);
    network.hosts[SERVER].reply = Some(large.clone());
    let connect =
        |network: &mut Network| network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &large);
    let first = connect(&mut network);
    network.run(Duration::from_secs(30));
    assert_eq!(network.hosts[CLIENT].streams[&first].closed, Some(Closed::Finished));
    network.run(pause);
    clear(&mut network);
    // The server answers at once, and all of its packets are lost.
    let (server, client) = (network.hosts[SERVER].address, network.hosts[CLIENT].address);
    network.rule =
        Box::new(move |_, datagram| if datagram.from == server { Fate::Drop } else { Fate::Deliver });
    if from == SERVER {
        network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), REQUEST);
    } else {
        connect(&mut network);
    }
    network.run(4 * DELAY);
    assert_eq!(count(&network, SYN), 0);
    let sender = if from == SERVER { server } else { client };
    network.log.iter().filter(|datagram| datagram.from == sender).map(|datagram| datagram.bytes.len()).sum()
}

/// A host that may have left its address gets at most an initial window before it has answered, and
/// one that was heard a moment ago at most 128 KiB.
#[test]
fn data_before_any_answer_is_bounded() {
    for from in [CLIENT, SERVER] {
        let recent = early_bytes(from, Duration::from_secs(1));
        assert!((64 << 10..140 << 10).contains(&recent), "{from}: {recent}");
        let later = early_bytes(from, Duration::from_secs(61));
        assert!((10_000..20_000).contains(&later), "{from}: {later}");
    }
}
