//! Tests of encrypted connections against a server, over a network with a delay and virtual time.

mod handshake;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rdt_crypto::StaticKey;
use rdt_emulator::Direction;
use rdt_transport::wire::native::LinkRequest;
use rdt_transport::wire::sealed;
use rdt_transport::{
    Closed, ConnectionConfig, ConnectionEvent, ConnectionSet, InitiatorConfig, RefuseReason,
};
use rdt_transport::{ReceiverConfig, Sender, SenderConfig, SenderEvent, TransferError};

use super::*;

/// Delay of the network beside the emulated links.
const DELAY: Duration = Duration::from_millis(1);
const SERVER: &str = "192.0.2.1:22345";
const CLIENT: &str = "192.0.2.2:4000";
/// 10 Mbit/s, 40 ms, 2 % loss.
const LOSSY: LinkRequest = LinkRequest {
    rtt_us: 40_000,
    rate_bps: 10_000_000,
    loss_forward_ppb: 20_000_000,
    loss_reverse_ppb: 0,
    queue_bytes: 1_000_000,
};

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn key(seed: u8) -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([seed; 32])))
}

/// Sender of one transfer, in either format.
enum Client {
    Version1(Box<Sender>),
    Version2(Box<ConnectionSet<SocketAddr>>, ConnectionId),
}

/// Client's address, whether the datagram goes to the server, and the datagram.
type Flying = (SocketAddr, bool, Ecn, Vec<u8>);

/// A server and one client, and the datagrams between them.
struct World {
    now: Instant,
    server: Server<SocketAddr>,
    client: Client,
    /// Address of the client; may change.
    at: SocketAddr,
    in_flight: BTreeMap<(Instant, u64), Flying>,
    count: u64,
    events: Vec<ReceiverEvent>,
    /// Why the client of version 1 failed.
    failure: Option<TransferError>,
    client_events: Vec<ConnectionEvent>,
    /// Bytes that the application stored.
    stored: Vec<u8>,
    to_send: VecDeque<u8>,
    /// True if the application reads and confirms.
    is_storing: bool,
    sender: Option<SenderId<SocketAddr>>,
    is_delivered: bool,
    /// Datagrams of the client that still reach the server.
    passing: u64,
}

impl World {
    fn new(is_encrypted: bool, link: Option<LinkRequest>, bytes: usize) -> Self {
        Self::with(is_encrypted, link, bytes, |_| {})
    }

    fn with(
        is_encrypted: bool,
        link: Option<LinkRequest>,
        bytes: usize,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let now = rdt_testing::epoch();
        let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
        let mut config = ServerConfig::new(receiver, LinkMode::Emulated { seed: 7 });
        config.listener.secret = Some([7; 32]);
        change(&mut config);
        let mut server = Server::new(config);
        let ip_of: fn(&SocketAddr) -> IpAddr = |address| address.ip();
        let base = ConnectionSetConfig { ip_of: Some(ip_of), ..ConnectionSetConfig::default() };
        server.listen(ResponderConfig::open(key(1)), base, Entropy::from_seed([3; 32]));
        let sender_config = SenderConfig { link_request: link, ..SenderConfig::native(5) };
        let client = if is_encrypted {
            let mut set = ConnectionSet::new(base, Entropy::from_seed([4; 32]));
            let initiator = InitiatorConfig {
                local: Some(key(2)),
                remote: Some(key(1).public()),
                ..InitiatorConfig::default()
            };
            let config =
                ConnectionConfig { sender: sender_config, one_way: true, ..ConnectionConfig::default() };
            let id = set.connect(now, address(SERVER), initiator, config).unwrap();
            Client::Version2(Box::new(set), id)
        } else {
            let mut sender = Sender::new(sender_config).unwrap();
            sender.open().unwrap();
            Client::Version1(Box::new(sender))
        };
        Self {
            now,
            server,
            client,
            at: address(CLIENT),
            in_flight: BTreeMap::new(),
            count: 0,
            events: Vec::new(),
            failure: None,
            client_events: Vec::new(),
            stored: Vec::new(),
            to_send: pattern(bytes).into(),
            is_storing: true,
            sender: None,
            is_delivered: false,
            passing: u64::MAX,
        }
    }

    /// Returns another client on the same host, which takes the server over.
    fn next_client(&mut self, is_encrypted: bool) -> Self {
        let mut next = Self::new(is_encrypted, None, 1000);
        std::mem::swap(&mut self.server, &mut next.server);
        (next.now, next.is_storing) = (self.now, self.is_storing);
        next.at.set_port(self.at.port() + 1);
        next
    }

    fn put(&mut self, from: SocketAddr, is_to_server: bool, out: &TransmitBuf) {
        for datagram in out.datagrams() {
            if is_to_server && self.passing == 0 {
                continue;
            }
            self.passing -= u64::from(is_to_server);
            self.count += 1;
            let flight = (from, is_to_server, out.ecn(), datagram.to_vec());
            self.in_flight.insert((self.now + DELAY, self.count), flight);
        }
    }

    fn client_endpoint_timeout(&self) -> Option<Instant> {
        match &self.client {
            Client::Version1(sender) => sender.poll_timeout(),
            Client::Version2(set, _) => set.poll_timeout(),
        }
    }

    fn run(&mut self, limit: Duration) {
        self.run_until(limit, |_| false);
    }

    /// Runs until `is_done`, at most for `limit`. Returns true if it is done.
    fn run_until(&mut self, limit: Duration, mut is_done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit;
        for _ in 0..1_000_000 {
            self.turn();
            if is_done(self) {
                return true;
            }
            let next = self.in_flight.keys().next().map(|(at, _)| *at);
            let timers = [next, self.client_endpoint_timeout(), self.server.poll_timeout()];
            match timers.into_iter().flatten().min() {
                Some(next) if next <= end => self.now = self.now.max(next),
                _ => {
                    self.now = end;
                    return false;
                }
            }
        }
        panic!("virtual time stands still");
    }

    fn turn(&mut self) {
        let now = self.now;
        while let Some((&key, _)) = self.in_flight.first_key_value()
            && key.0 <= now
        {
            let Some((from, is_to_server, ecn, mut bytes)) = self.in_flight.remove(&key) else { return };
            if is_to_server {
                self.server.handle_datagram(now, from, ecn, &mut bytes);
                continue;
            }
            match &mut self.client {
                Client::Version1(sender) => sender.handle_datagram(now, (), ecn, &mut bytes),
                Client::Version2(set, _) => set.handle_datagram(now, address(SERVER), ecn, &mut bytes),
            }
        }
        self.server.handle_timeout(now);
        self.store();
        self.write();
        let mut out = TransmitBuf::new(16);
        while self.server.poll_transmit(now, &mut out).is_some() {
            self.put(address(SERVER), false, &out);
            out.clear();
        }
        loop {
            let sent = match &mut self.client {
                Client::Version1(sender) => sender.poll_transmit(now, &mut out).is_some(),
                Client::Version2(set, _) => set.poll_transmit(now, &mut out).is_some(),
            };
            if !sent {
                break;
            }
            self.put(self.at, true, &out);
            out.clear();
            self.write();
        }
    }

    /// The server's application.
    fn store(&mut self) {
        let now = self.now;
        while let Some((sender, event)) = self.server.poll_event() {
            self.sender = Some(sender);
            self.events.push(event);
        }
        let Some(sender) = self.sender.filter(|_| self.is_storing) else { return };
        while let data = self.server.data(sender).unwrap().to_vec()
            && !data.is_empty()
        {
            self.server.consume(now, sender, data.len());
            self.stored.extend(data);
        }
        if matches!(self.events.last(), Some(ReceiverEvent::Finished { .. })) {
            self.server.confirm(now, sender);
        }
    }

    /// The client's application.
    fn write(&mut self) {
        let now = self.now;
        let rest = self.to_send.make_contiguous();
        let mut written = 0;
        match &mut self.client {
            Client::Version1(sender) => {
                sender.handle_timeout(now);
                while let Some(event) = sender.poll_event() {
                    self.is_delivered |= matches!(event, SenderEvent::Finished { .. });
                    if let SenderEvent::Failed { error, .. } = event {
                        self.failure = Some(error);
                    }
                }
                written = sender.write(rest).unwrap_or(0);
                if written == rest.len() {
                    let _ = sender.finish();
                }
            }
            Client::Version2(set, id) => {
                set.handle_timeout(now);
                while let Some((_, event)) = set.poll_event() {
                    self.is_delivered |= matches!(event, ConnectionEvent::Delivered { .. });
                    self.client_events.push(event);
                }
                let is_open =
                    self.client_events.iter().any(|e| matches!(e, ConnectionEvent::Connected { .. }));
                set.with(now, *id, |connection| {
                    if is_open && connection.closed().is_none() {
                        written = connection.write(rest).unwrap_or(0);
                        if written == rest.len() {
                            connection.finish();
                        }
                    }
                });
            }
        }
        self.to_send.drain(..written);
    }

    fn closed(&self) -> Option<Closed> {
        match self.client_events.last() {
            Some(ConnectionEvent::Closed(closed)) => Some(closed.clone()),
            _ => None,
        }
    }

    fn forward(&self) -> Ledger {
        self.server.stats().forward
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..=250).cycle().take(bytes).collect()
}

#[test]
fn transfer_crosses_requested_link() {
    let mut world = World::new(true, Some(LOSSY), 300_000);
    assert!(world.run_until(Duration::from_secs(20), |world| world.is_delivered));
    assert_eq!(world.stored, pattern(300_000));
    let forward = world.forward();
    assert!(forward.dropped_loss > 0 && forward.balances(), "{forward:?}");
    let events = [ReceiverEvent::Connected, ReceiverEvent::Started, ReceiverEvent::Readable];
    assert_eq!(world.events[..3], events);
    assert_eq!(world.events.last(), Some(&ReceiverEvent::Closed { unfinished: false }));
    assert_eq!((world.server.active(), world.server.has_unfinished()), (0, false));
    world.run(Duration::from_secs(60));
    assert_eq!((world.server.links.paths.len(), world.server.memory()), (0, 0), "the path is gone");
    assert_eq!(world.closed(), Some(Closed::Finished));
}

#[test]
fn link_loses_same_packets_as_version_1() {
    // The fate of packet n of a link depends on the seed and on n alone, so of the same number of
    // packets the same number is lost.
    let lost = |is_encrypted| {
        let mut world = World::new(is_encrypted, Some(LOSSY), 150_000);
        let mut lost = Vec::new();
        let mut before = 0;
        world.run_until(Duration::from_secs(20), |world| {
            let now = world.forward();
            if now.dropped_loss > before {
                before = now.dropped_loss;
                lost.push((now.sent, now.dropped_loss));
            }
            world.is_delivered
        });
        assert!(world.is_delivered);
        lost
    };
    let (one, two) = (lost(false), lost(true));
    // A turn pushes several packets, so the count at a loss is an upper bound of its number.
    let fates = |sent| {
        let (_, config) = crate::path::native_path(&LOSSY, u64::MAX);
        let mut path = rdt_emulator::Path::new(config, 7);
        let now = rdt_testing::epoch();
        let is_lost =
            |_: &u64| path.push(Direction::Forward, now, rdt_emulator::Packet::from(vec![0])).is_err();
        (0..sent).filter(is_lost).count() as u64
    };
    for (sent, dropped) in one.into_iter().chain(two) {
        assert_eq!(fates(sent), dropped, "of {sent}");
    }
}

#[test]
fn link_delays_data_and_answers() {
    let link = LinkRequest { loss_forward_ppb: 0, ..LOSSY };
    let rtt = |link| {
        let mut world = World::new(true, link, 1000);
        let start = world.now;
        world.run_until(Duration::from_secs(20), |world| world.is_delivered);
        assert!(world.is_delivered);
        world.now - start
    };
    let (direct, delayed) = (rtt(None), rtt(Some(link)));
    assert!(direct < Duration::from_millis(20), "{direct:?}");
    assert!(delayed >= direct + Duration::from_millis(40), "{delayed:?}");
}

/// The connection repeats its answers for less time than they are inside the link.
#[test]
fn answers_inside_slow_link_outlive_connection() {
    let slow = LinkRequest { rtt_us: 10_000_000, loss_forward_ppb: 0, ..LOSSY };
    let mut world = World::new(true, Some(slow), 1000);
    let start = world.now;
    assert!(world.run_until(Duration::from_secs(30), |world| world.is_delivered));
    let took = world.now - start;
    assert!(took < Duration::from_secs(11), "{took:?}: data and FIN took more than one round trip");
    world.run(Duration::from_secs(60));
    assert_eq!((world.server.links.paths.len(), world.server.memory()), (0, 0));
}

#[test]
fn refused_transfer_is_closed_with_reason() {
    for reason in [CloseReason::Refused, CloseReason::Storage] {
        let mut world = World::new(true, Some(LOSSY), 100_000);
        world.is_storing = false;
        assert!(world.run_until(Duration::from_secs(5), |world| world.events.len() >= 3));
        let sender = world.sender.unwrap();
        world.server.refuse(world.now, sender, reason);
        assert!(world.run_until(Duration::from_secs(5), |world| world.closed().is_some()));
        let closed = Closed::Peer { reason, code: 0, text: String::new() };
        assert_eq!(world.closed(), Some(closed));
        assert_eq!(world.events.last(), Some(&ReceiverEvent::Closed { unfinished: true }));
        assert!(world.server.links.paths.is_empty() && world.server.data(sender).unwrap().is_empty());
    }
}

#[test]
fn shutdown_aborts_unfinished_connections() {
    let mut world = World::new(true, Some(LOSSY), 100_000);
    world.is_storing = false;
    world.run_until(Duration::from_secs(5), |world| world.events.len() >= 3);
    world.server.abort_unfinished(world.now);
    // The CLOSE bypasses the link.
    assert!(world.run_until(3 * DELAY, |world| world.closed().is_some()));
    assert!(matches!(world.closed(), Some(Closed::Peer { reason: CloseReason::Aborted, .. })));
}

#[test]
fn server_that_ends_refuses_new_connections() {
    let mut world = World::new(true, None, 1000);
    world.server.refuse_new();
    world.run_until(Duration::from_secs(5), |world| world.closed().is_some());
    assert_eq!(world.closed(), Some(Closed::Refused(RefuseReason::Busy)));
    assert!(world.events.is_empty());
}

#[test]
fn unconfirmed_transfer_is_not_delivered() {
    let mut world = World::new(true, None, 1000);
    world.is_storing = false;
    world.run(Duration::from_secs(30));
    assert!(!world.is_delivered && world.closed().is_none() && world.server.has_unfinished());
    assert!(matches!(world.events.last(), Some(ReceiverEvent::Finished { bytes: 1000, .. })));
    world.is_storing = true;
    assert!(world.run_until(Duration::from_secs(2), |world| world.is_delivered));
}

#[test]
fn transfer_continues_from_new_address() {
    for link in [None, Some(LOSSY)] {
        let mut world = World::new(true, link, 2_000_000);
        world.run_until(Duration::from_secs(5), |world| world.stored.len() > 200_000);
        world.at = address("198.51.100.9:5000");
        assert!(world.run_until(Duration::from_secs(30), |world| world.is_delivered), "{link:?}");
        assert_eq!(world.stored, pattern(2_000_000));
        assert_eq!(world.server.stats().connections.moved, 1);
    }
}

#[test]
fn silent_connection_leaves_its_link() {
    // A packet takes 12 s.
    let slow = LinkRequest { rate_bps: 1000, loss_forward_ppb: 0, ..LOSSY };
    let mut world = World::with(true, Some(slow), 100_000, |config| {
        config.listener.native_idle = Duration::from_secs(60);
    });
    world.run_until(Duration::from_secs(5), |world| !world.server.links.paths.is_empty());
    world.run(Duration::from_millis(100));
    world.at = address("203.0.113.1:1");
    world.client = Client::Version1(Box::new(Sender::new(SenderConfig::native(9)).unwrap()));
    world.run(Duration::from_secs(200));
    assert_eq!((world.server.links.paths.len(), world.server.active()), (0, 0));
    assert_eq!(world.events.last(), Some(&ReceiverEvent::Closed { unfinished: true }));
}

#[test]
fn both_formats_count_towards_one_limit() {
    let mut world = World::with(true, None, 1000, |config| config.listener.max_peers = 1);
    world.is_storing = false;
    assert!(world.run_until(Duration::from_secs(5), |world| world.server.active() == 1));
    let mut second = World::new(false, None, 1000);
    second.server = world.server;
    second.run(Duration::from_secs(5));
    assert_eq!((second.server.active(), second.server.stats().listener.refused), (1, 1));
}

#[test]
fn host_has_its_share_over_both_formats() {
    for is_encrypted in [false, true] {
        let mut world = World::with(is_encrypted, None, 1000, |config| {
            (config.listener.max_peers, config.listener.max_peers_per_source) = (8, 4);
        });
        world.server.limit_sources(|address| rdt_transport::source_number(address.ip()));
        world.is_storing = false;
        for open in 1..=4 {
            if open > 1 {
                world = world.next_client(is_encrypted);
            }
            assert!(world.run_until(Duration::from_secs(5), |world| world.server.active() == open));
        }
        let mut other = world.next_client(!is_encrypted);
        other.run(Duration::from_secs(5));
        assert_eq!(other.server.active(), 4);
        let refused = Some(TransferError::Closed(CloseReason::Refused));
        let is_refused = other.closed() == Some(Closed::Refused(RefuseReason::Busy));
        assert!(is_refused || other.failure == refused, "{:?} {:?}", other.closed(), other.failure);
    }
}

#[test]
fn finished_version_1_sender_leaves_its_place() {
    let mut world = World::with(false, None, 1000, |config| config.listener.max_peers = 1);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_delivered));
    let mut next = world.next_client(true);
    assert!(next.run_until(Duration::from_secs(5), |world| world.is_delivered), "{:?}", next.closed());
    assert_eq!(next.server.listener().active(), 1, "the finished one repeats its FIN-ACK");
}

#[test]
fn server_with_one_place_repeats_lost_fin_ack() {
    let mut first = World::with(true, None, 1000, |config| config.listener.max_peers = 1);
    let is_stored = |world: &World| matches!(world.events.last(), Some(ReceiverEvent::Finished { .. }));
    assert!(first.run_until(Duration::from_secs(5), is_stored));
    // The FIN-ACK is lost.
    first.in_flight.clear();
    let mut second = first.next_client(true);
    assert!(second.run_until(Duration::from_millis(100), |world| world.is_delivered));
    second.run(Duration::from_millis(10));
    std::mem::swap(&mut first.server, &mut second.server);
    first.now = second.now;
    assert!(first.run_until(Duration::from_secs(20), |world| world.is_delivered), "{:?}", first.closed());
}

#[test]
fn version_1_is_told_of_version_2() {
    let mut world = World::with(false, None, 1000, |config| config.unauthenticated = false);
    world.run_until(Duration::from_secs(5), |world| world.failure.is_some());
    assert_eq!(world.failure, Some(TransferError::Version(Versions::ONLY_SEALED)));
    assert!(world.events.is_empty());
}

#[test]
fn classic_is_ignored_without_permission() {
    let mut world = World::with(true, None, 10, |config| config.unauthenticated = false);
    let mut syn = rdt_testing::packets::classic_syn(0.1, 1e6, [0.0; 2], 10);
    world.server.handle_datagram(world.now, address("192.0.2.9:9"), Ecn::NotEct, &mut syn);
    let mut out = TransmitBuf::new(1);
    assert_eq!(world.server.poll_transmit(world.now, &mut out), None);
    assert_eq!(world.server.stats().listener.unencrypted, 1);
}

#[test]
fn coalesced_datagrams_of_both_formats_are_told_apart() {
    let mut world = World::with(true, None, 3000, |config| config.link = LinkMode::None);
    world.is_storing = false;
    world.run_until(Duration::from_secs(5), |world| world.server.active() == 1);
    // Of one address, and of one length: an unknown sealed packet and one of version 1.
    let mut bytes = [0; 128];
    (bytes[0], bytes[1]) = (sealed::FIRST_BYTE, 4);
    (bytes[64], bytes[65]) = (0xD1, 4);
    world.server.handle_datagrams(world.now, address(CLIENT), Ecn::NotEct, &mut bytes, 64);
    let stats = world.server.stats();
    assert_eq!((stats.connections.unknown, stats.listener.malformed), (1, 1));
}
