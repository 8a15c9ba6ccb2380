//! Limits of memory, and handles.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::congestion::Algorithm;
use crate::wire::native::CloseReason;
use crate::{SenderConfig, SocketBuffer};

type Config = ConnectionSetConfig<std::net::SocketAddr>;

/// Returns a client and a server with other limits.
fn network_of(config: impl FnOnce(Config) -> Config) -> Network {
    let mut network = Network::new(1);
    network.add_host("192.0.2.1:1000");
    let config = config(set_config(network.now));
    network.add_host_with("198.51.100.1:2000", config);
    network.hosts[SERVER].set.listen(responder());
    network
}

#[test]
fn unread_data_of_all_stays_below_limit() {
    const LIMIT: u64 = 8 << 20;
    let mut network = network_of(|config| ConnectionSetConfig { memory_limit: LIMIT, ..config });
    network.hosts[SERVER].is_reading = false;
    for _ in 0..8 {
        network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![1; 4 << 20]);
    }
    network.run(Duration::from_secs(20));
    let most = network.hosts[SERVER].set.stats().max_memory;
    assert!(most > LIMIT / 4 && most <= LIMIT, "{most}");
    network.hosts[SERVER].is_reading = true;
    network.run(Duration::from_secs(100));
    assert!(network.hosts[SERVER].streams.values().all(|stream| stream.incoming.len() == 4 << 20));
}

/// Returns a client and a server with a receive buffer of 1 MiB.
fn network_with_buffer() -> Network {
    let buffer = SocketBuffer {
        capacity: 1 << 20,
        charge: |bytes| bytes + 1000,
        useful_bytes: 1 << 20,
        useful_peer_bytes: 1 << 18,
        min_drain_rate: 1 << 30,
        min_host_delay: Duration::from_micros(100),
    };
    network_of(|config| ConnectionSetConfig { socket_buffer: Some(buffer), ..config })
}

#[test]
fn transfers_share_socket_buffer() {
    let mut network = network_with_buffer();
    network.hosts[SERVER].reply = Some(Vec::new());
    for _ in 0..8 {
        network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![1; 1 << 20]);
    }
    network.run(Duration::from_secs(100));
    assert!(network.hosts[CLIENT].streams.values().all(|stream| stream.closed == Some(Closed::Finished)));
    assert!(network.hosts[SERVER].set.is_empty());
    let share = network.hosts[SERVER].set.memory.budget.share_of_new().unwrap();
    assert_eq!(share.bytes, 1 << 20, "no claim is left");
}

#[test]
fn aborted_connection_claims_no_socket_buffer() {
    let mut network = network_with_buffer();
    let empty = network.hosts[SERVER].set.memory.budget.share_of_new().unwrap();
    for _ in 0..8 {
        let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    }
    network.run(Duration::from_secs(1));
    let now = network.now;
    let host = &mut network.hosts[SERVER];
    let set = &mut host.set;
    assert!(set.memory.budget.share_of_new().unwrap().bytes < empty.bytes, "each has a claim");
    for id in host.streams.keys() {
        set.with(now, *id, |connection| connection.close(now, 1, "")).unwrap();
        set.release(now, *id);
    }
    // The CLOSEs leave, and are repeated for two seconds at least.
    network.run(Duration::from_secs(1));
    let set = &network.hosts[SERVER].set;
    assert_eq!((set.len(), set.memory.budget.share_of_new().unwrap().bytes), (8, empty.bytes));
}

#[test]
fn drops_of_peers_socket_are_no_congestion() {
    let mut network = network_with_buffer();
    network.hosts[CLIENT].releases = false;
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![1; 1 << 20]);
    let end = network.now + Duration::from_secs(10);
    let received =
        |network: &Network| network.hosts[SERVER].streams.values().map(|s| s.incoming.len()).sum::<usize>();
    assert!(network.run_until(end, |network| received(network) > 200_000));
    let left = Rc::new(Cell::new(5));
    let (client, drops) = (network.hosts[CLIENT].address, Rc::clone(&left));
    network.rule = Box::new(move |_, datagram| {
        if datagram.from != client || datagram.bytes.len() < 1000 || drops.get() == 0 {
            return Fate::Deliver;
        }
        drops.set(drops.get() - 1);
        Fate::Drop
    });
    assert!(network.run_until(end, |_| left.get() == 0));
    network.hosts[SERVER].set.handle_overflow(1);
    network.run(Duration::from_secs(10));
    let stats = network.hosts[CLIENT].set.get(id).unwrap().stats().sender;
    assert_eq!((received(&network), stats.lost), (1 << 20, 5));
    assert_eq!((stats.lost_to_socket, stats.recoveries), (5, 0));
}

#[test]
fn released_connection_delivers_what_was_written() {
    let mut network = client_and_server(2);
    network.hosts[SERVER].reply = Some(Vec::new());
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![7; 50_000]);
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    let end = network.now + Duration::from_secs(10);
    assert!(network.run_until(end, |network| network.hosts[CLIENT].streams[&id].is_written()));
    let now = network.now;
    network.hosts[CLIENT].set.release(now, id);
    assert!(network.hosts[CLIENT].set.get(id).is_none());
    assert!(network.hosts[CLIENT].set.with(now, id, |_| ()).is_none());
    network.run(Duration::from_secs(30));
    let theirs = network.hosts[SERVER].streams.values().next().unwrap();
    assert_eq!((theirs.incoming.len(), &theirs.closed), (50_000, &Some(Closed::Finished)));
    assert!(network.hosts.iter().all(|host| host.set.is_empty()));
}

#[test]
fn unreleased_connection_stays_without_timer() {
    let mut network = client_and_server(3);
    network.hosts.iter_mut().for_each(|host| host.releases = false);
    network.hosts[SERVER].reply = Some(b"reply".to_vec());
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.run(Duration::from_secs(60));
    for host in &network.hosts {
        assert_eq!((host.set.len(), host.set.poll_timeout()), (1, host.set.association_deadline()));
    }
    assert_eq!(network.hosts[CLIENT].set.get(id).unwrap().closed(), Some(&Closed::Finished));
}

#[test]
fn silent_peer_ends_by_idle_timeout() {
    let mut network = client_and_server(4);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.run(Duration::from_secs(100));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, None, "keep-alives hold the connection");
    network.rule = Box::new(|_, _| Fate::Drop);
    network.run(Duration::from_secs(100));
    for host in &network.hosts {
        let closed = host.streams.values().next().unwrap().closed.clone();
        assert_eq!(closed, Some(Closed::Idle));
        assert!(host.set.is_empty());
    }
}

#[test]
fn aborted_connection_holds_no_memory() {
    let mut network = client_and_server(5);
    network.hosts[SERVER].is_reading = false;
    network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![1; 1 << 20]);
    network.run(Duration::from_secs(5));
    let (id, now) = (*network.hosts[SERVER].streams.keys().next().unwrap(), network.now);
    let set = &mut network.hosts[SERVER].set;
    assert!(set.memory() > 100_000, "{}", set.memory());
    set.with(now, id, |connection| connection.abort(now, CloseReason::Protocol));
    set.release(now, id);
    assert_eq!((set.len(), set.memory()), (1, 0), "it repeats its CLOSE");
}

/// Both sides send, so each has timers of its own stream between arrivals.
#[test]
fn duplex_transfer_keeps_replay_window() {
    let mut network = client_and_server(6);
    network.hosts.iter_mut().for_each(|host| host.releases = false);
    network.hosts[SERVER].reply = Some(vec![1; 20 << 20]);
    network.rule = Box::new(|index, datagram| {
        // Later than many of its successors, but not later than the window allows.
        let is_late = datagram.bytes.len() > 1000 && index > 8000 && index % 5000 < 4;
        if is_late { Fate::Delay(Duration::from_millis(10)) } else { Fate::Deliver }
    });
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![2; 20 << 20]);
    let end = network.now + Duration::from_secs(100);
    assert!(network.run_until(end, |network| network.hosts[CLIENT].streams[&id].incoming.len() == 20 << 20));
    for host in &network.hosts {
        let streams = host.streams.keys().filter_map(|id| host.set.get(*id));
        let stats: Vec<_> = streams.map(Connection::stats).collect();
        assert!(stats.iter().all(|stats| stats.replayed == 0), "{stats:?}");
    }
}

#[test]
fn further_connections_send_no_more_than_offered() {
    const BYTES: usize = 500_000;
    let mut network = network_with_buffer();
    let congestion = Algorithm::Fixed(8192);
    network.hosts[CLIENT].config.sender =
        SenderConfig { congestion, window: 8192, pacing: false, ..SenderConfig::native(0) };
    network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"first");
    network.run(Duration::from_secs(30));
    network.log.clear();
    for _ in 0..16 {
        network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![1; BYTES]);
    }
    network.run(Duration::from_secs(30));
    assert_eq!(network.hosts[CLIENT].set.stats().initiated_open, 16);
    let from = network.hosts[CLIENT].address;
    let sent: usize =
        network.log.iter().filter(|packet| packet.from == from).map(|packet| packet.bytes.len()).sum();
    assert!(sent < 16 * BYTES * 105 / 100, "{sent} bytes: what the responder drops is sent again");
}

#[test]
fn only_connection_with_data_takes_turns() {
    let mut network = network_of(|config| config);
    let ids: Vec<_> = (0..64)
        .map(|_| {
            let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"");
            network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
            network.run(Duration::from_millis(100));
            id
        })
        .collect();
    network.run(Duration::from_secs(1));
    let (now, set) = (network.now, &mut network.hosts[CLIENT].set);
    assert_eq!((set.len(), set.ready.len()), (64, 0));
    set.with(now, ids[7], |connection| connection.write(&[7; 5000])).unwrap().unwrap();
    assert_eq!(set.ready, [Key::Native(ids[7].0)]);
}
