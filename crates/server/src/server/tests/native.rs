//! Tests of native connections against a server, over a network with a delay and virtual time.

mod formats;
mod handshake;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rdt_crypto::StaticKey;
use rdt_emulator::Direction;
use rdt_transport::wire::native::LinkRequest;
use rdt_transport::{
    Closed, ConnectionConfig, ConnectionEvent, ConnectionSet, InitiatorConfig, LinkProperties,
    ReceiverConfig, RefuseReason, Sender, SenderConfig, SenderEvent,
};

use super::*;

/// Delay of the network beside the emulated links.
const DELAY: Duration = Duration::from_millis(1);
const SERVER: &str = "192.0.2.1:22345";
const CLIENT: &str = "192.0.2.2:4000";
/// Link that a classic client requests: 1 Gbit/s, 1 ms.
const FAST: LinkProperties =
    LinkProperties { rtt_s: 0.001, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1000 };
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
    Classic(Box<Sender>),
    Native(Box<ConnectionSet<SocketAddr>>, ConnectionId),
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
    fn new(is_native: bool, link: Option<LinkRequest>, bytes: usize) -> Self {
        Self::with(is_native, link, bytes, |_| {})
    }

    fn with(
        is_native: bool,
        link: Option<LinkRequest>,
        bytes: usize,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let now = rdt_testing::epoch();
        let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
        let mut config = ServerConfig::new(receiver, LinkMode::Emulated { seed: 7 });
        change(&mut config);
        let mut server = Server::new(config);
        let ip_of: fn(&SocketAddr) -> IpAddr = |address| address.ip();
        let base = ConnectionSetConfig { ip_of: Some(ip_of), ..ConnectionSetConfig::default() };
        server.listen(ResponderConfig::open(key(1)), base, Entropy::from_seed([3; 32]));
        let client = if is_native {
            let mut set = ConnectionSet::new(base, Entropy::from_seed([4; 32]));
            let initiator = InitiatorConfig {
                local: Some(key(2)),
                remote: Some(key(1).public()),
                ..InitiatorConfig::default()
            };
            let sender = SenderConfig { link_request: link, ..SenderConfig::native(5) };
            let config = ConnectionConfig { sender, one_way: true, ..ConnectionConfig::default() };
            let id = set.connect(now, address(SERVER), initiator, config).unwrap();
            Client::Native(Box::new(set), id)
        } else {
            let mut sender = Sender::new(SenderConfig::new(100, FAST)).unwrap();
            sender.open().unwrap();
            Client::Classic(Box::new(sender))
        };
        Self {
            now,
            server,
            client,
            at: address(CLIENT),
            in_flight: BTreeMap::new(),
            count: 0,
            events: Vec::new(),
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
    fn next_client(&mut self, is_native: bool) -> Self {
        let mut next = Self::new(is_native, None, 1000);
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
            Client::Classic(sender) => sender.poll_timeout(),
            Client::Native(set, _) => set.poll_timeout(),
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
                Client::Classic(sender) => sender.handle_datagram(now, (), ecn, &mut bytes),
                Client::Native(set, _) => set.handle_datagram(now, address(SERVER), ecn, &mut bytes),
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
                Client::Classic(sender) => sender.poll_transmit(now, &mut out).is_some(),
                Client::Native(set, _) => set.poll_transmit(now, &mut out).is_some(),
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
            Client::Classic(sender) => {
                sender.handle_timeout(now);
                while let Some(event) = sender.poll_event() {
                    self.is_delivered |= matches!(event, SenderEvent::Finished { .. });
                }
                written = sender.write(rest).unwrap_or(0);
                if written == rest.len() {
                    let _ = sender.finish();
                }
            }
            Client::Native(set, id) => {
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
fn fate_of_packet_depends_on_seed_and_number() {
    let mut world = World::new(true, Some(LOSSY), 300_000);
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
    assert!(world.is_delivered && !lost.is_empty());
    // A turn pushes several packets, so the count at a loss is an upper bound of its number.
    let fates = |sent| {
        let (_, config) = crate::path::native_path(&LOSSY, u64::MAX);
        let mut path = rdt_emulator::Path::new(config, 7);
        let now = rdt_testing::epoch();
        let is_lost =
            |_: &u64| path.push(Direction::Forward, now, rdt_emulator::Packet::from(vec![0])).is_err();
        (0..sent).filter(is_lost).count() as u64
    };
    for (sent, dropped) in lost {
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

/// The connection ends while its last answers are still inside the link, because it repeats them
/// for a shorter time than they need to cross it.
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
        config.native_idle = Duration::from_secs(60);
    });
    world.run_until(Duration::from_secs(5), |world| !world.server.links.paths.is_empty());
    world.run(Duration::from_millis(100));
    world.passing = 0;
    world.run(Duration::from_secs(200));
    assert_eq!((world.server.links.paths.len(), world.server.active()), (0, 0));
    assert_eq!(world.events.last(), Some(&ReceiverEvent::Closed { unfinished: true }));
}
