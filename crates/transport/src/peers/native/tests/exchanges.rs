//! Requests and answers, one after the other, on one connection.

use std::time::Duration;

use super::network::DELAY;
use super::*;

/// Round trip of the network.
const RTT: Duration = Duration::from_millis(40);
const _: () = assert!(RTT.as_nanos() == 2 * DELAY.as_nanos());
/// Length of a request and of an answer.
const BYTES: usize = 100;
/// Exchanges before the ones that count.
const WARM_UP: usize = 20;

/// Connection over which requests and answers go.
struct Exchanges {
    network: Network,
    ours: ConnectionId,
    theirs: ConnectionId,
    count: usize,
    /// Time that the application takes for an answer.
    think: Duration,
}

impl Exchanges {
    fn open(think: Duration) -> Self {
        let mut network = client_and_server(31);
        let ours = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"");
        network.hosts[CLIENT].streams.get_mut(&ours).unwrap().finish = false;
        network.run(Duration::from_secs(1));
        let theirs = *network.hosts[SERVER].streams.keys().next().unwrap();
        let mut exchanges = Self { network, ours, theirs, count: 0, think };
        for _ in 0..WARM_UP {
            exchanges.next();
        }
        exchanges.network.log.clear();
        exchanges
    }

    fn write(&mut self, host: usize, id: ConnectionId) {
        self.network.hosts[host].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(&[7; BYTES]);
        self.network.run(Duration::ZERO);
    }

    fn has(&self, host: usize, id: ConnectionId) -> bool {
        self.network.hosts[host].streams[&id].incoming.len() == self.count * BYTES
    }

    /// Sends a request and waits for the answer. Returns the time from one to the other.
    fn next(&mut self) -> Duration {
        let (start, ours, theirs) = (self.network.now, self.ours, self.theirs);
        let end = start + Duration::from_secs(10);
        self.count += 1;
        self.write(CLIENT, ours);
        while !self.has(SERVER, theirs) && self.network.now < end {
            self.network.run(Duration::from_millis(1));
        }
        self.network.run(self.think);
        self.write(SERVER, theirs);
        while !self.has(CLIENT, ours) && self.network.now < end {
            self.network.run(Duration::from_millis(1));
        }
        self.network.now - start
    }

    /// Returns the numbers of datagrams from the client and from the server.
    fn datagrams(&self) -> [usize; 2] {
        [CLIENT, SERVER].map(|host| {
            let from = self.network.hosts[host].address;
            self.network.log.iter().filter(|datagram| datagram.from == from).count()
        })
    }
}

/// The ACK of a request rides on its answer, and that of an answer on the next request.
#[test]
fn exchange_takes_one_packet_each_way() {
    for think in [0, 20] {
        let mut exchanges = Exchanges::open(Duration::from_millis(think));
        for _ in 0..100 {
            let took = exchanges.next();
            assert!(took <= RTT + exchanges.think + Duration::from_millis(2), "{took:?}");
        }
        assert_eq!(exchanges.datagrams(), [100, 100], "{think} ms");
    }
}

/// After the ACK delay, the ACK leaves alone. The answer behind it repeats it.
#[test]
fn lost_ack_before_answer_delays_nothing() {
    let mut exchanges = Exchanges::open(Duration::from_millis(26));
    let server = exchanges.network.hosts[SERVER].address;
    exchanges.network.rule = Box::new(move |_, datagram| {
        let is_ack = datagram.from == server && datagram.bytes[1] == 6;
        if is_ack { Fate::Drop } else { Fate::Deliver }
    });
    for _ in 0..20 {
        let took = exchanges.next();
        assert!(took <= RTT + exchanges.think + Duration::from_millis(2), "{took:?}");
    }
    assert_eq!(exchanges.datagrams(), [20, 40], "an ACK and an answer for each request");
}

/// Any one packet is lost: the exchange takes a round trip and the ACK delay longer.
#[test]
fn lost_packet_costs_one_round_trip() {
    for lost in 0..12 {
        let mut exchanges = Exchanges::open(Duration::from_millis(0));
        let mut index = 0;
        exchanges.network.rule = Box::new(move |_, _| {
            index += 1;
            if index == lost + 1 { Fate::Drop } else { Fate::Deliver }
        });
        for n in 0..10 {
            let (took, limit) =
                (exchanges.next(), if n == lost / 2 { 2 * RTT + 35 * MS } else { RTT + 2 * MS });
            assert!(took <= limit, "packet {lost} lost, exchange {n}: {took:?}");
        }
    }
}

const MS: Duration = Duration::from_millis(1);

/// A small write waits for the ACK of the one before, unless that was alone and requested none, or
/// the application asked for no delay.
#[test]
fn nodelay_sends_small_writes_at_once() {
    for nodelay in [false, true] {
        let mut exchanges = Exchanges::open(Duration::from_millis(0));
        let (now, id) = (exchanges.network.now, exchanges.ours);
        exchanges.network.hosts[CLIENT].set.with(now, id, |connection| connection.set_nodelay(nodelay));
        for _ in 0..3 {
            exchanges.write(CLIENT, id);
            exchanges.network.run(MS);
        }
        assert_eq!(exchanges.datagrams()[CLIENT], if nodelay { 3 } else { 2 }, "{nodelay}");
    }
}

/// On a new connection the first answer arrives after two round trips, as with QUIC. With XX and a
/// secret the responder proves itself first.
#[test]
fn first_answer_arrives_after_two_round_trips() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server(32);
        let start = network.now;
        let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), &[7; BYTES]);
        let end = start + Duration::from_secs(5);
        let request = |network: &Network| {
            let mut streams = network.hosts[SERVER].streams.iter();
            streams.find(|(_, stream)| stream.incoming.len() == BYTES).map(|(id, _)| *id)
        };
        assert!(network.run_until(end, |network| request(network).is_some()));
        let theirs = request(&network).unwrap();
        network.hosts[SERVER].streams.get_mut(&theirs).unwrap().outgoing.extend_from_slice(&[7; BYTES]);
        assert!(network.run_until(end, |network| network.hosts[CLIENT].streams[&id].incoming.len() == BYTES));
        let rtts = if handshake == (Pattern::Xx, true) { 3 } else { 2 };
        assert_eq!(network.now - start, rtts * RTT, "{handshake:?}");
    }
}
