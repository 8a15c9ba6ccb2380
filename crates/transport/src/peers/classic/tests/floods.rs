//! Forged classic SYNs: half-open peers take no slot of a connected peer, and cause no event before
//! enough of their transfer arrived.

use std::net::Ipv4Addr;

use super::*;
use crate::WindowPolicy;

/// A set whose peers are numbers: forged addresses are many.
struct Flooded {
    set: ConnectionSet<u32>,
    now: Instant,
    batch: TransmitBuf,
    /// Events other than [`ReceiverEvent::Dropped`].
    events: Vec<(u32, ReceiverEvent)>,
}

impl Flooded {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = keeping();
        config.receiver.faithful = false;
        change(&mut config);
        Self { set: config.set(), now: rdt_testing::epoch(), batch: TransmitBuf::new(16), events: Vec::new() }
    }

    /// Delivers a datagram; returns the replies to `peer`, and drops all others.
    fn recv(&mut self, peer: u32, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.set.handle_timeout(self.now);
        self.set.handle_datagram(self.now, peer, Ecn::NotEct, &mut datagram.to_vec());
        let events = std::iter::from_fn(|| self.set.poll_classic_event());
        self.events.extend(events.filter(|(_, event)| *event != ReceiverEvent::Dropped));
        let mut replies = Vec::new();
        loop {
            self.batch.clear();
            let Some(to) = self.set.poll_transmit(self.now, &mut self.batch) else { break };
            if to == peer {
                replies.extend(self.batch.datagrams().map(<[u8]>::to_vec));
            }
        }
        replies
    }

    /// Counts peers by the thousands of their addresses.
    fn limit_sources(&mut self) {
        self.set.config.ip_of = Some(|peer| Ipv4Addr::from_bits(peer / 1000).into());
    }

    /// Sends `packets` packets of one byte after a SYN.
    fn classic(&mut self, peer: u32, packets: u32) {
        self.recv(peer, &syn(0, LINK));
        for seq in 0..packets {
            self.recv(peer, &packet(0, seq, b"x"));
        }
    }
}

const CONNECTED: ReceiverEvent = ReceiverEvent::Connected;
const STARTED: ReceiverEvent = ReceiverEvent::Started;

#[test]
fn classic_flood_takes_no_slot() {
    let mut flooded = Flooded::new(|_| {});
    let start = flooded.now;
    // 5000 SYNs a second for 20 s.
    for n in 0..100_000 {
        flooded.now = start + n * Duration::from_micros(200);
        flooded.recv(1_000_000 + n, &syn(0, LINK));
    }
    let stats = flooded.set.classic().stats();
    assert_eq!((stats.admitted, stats.refused, flooded.set.classic().active()), (0, 0, 0));
    assert_eq!(stats.half_open_dropped, 100_000 - MAX_HALF_OPEN_PEERS as u64);
    assert_eq!(
        (flooded.events.as_slice(), flooded.set.stats().max_memory),
        (&[][..], 0),
        "the flood causes no event"
    );
    assert_eq!(flooded.set.slots.taken, 0, "it costs the native connections no slot, either");
}

#[test]
fn full_half_open_table_drops_oldest() {
    let mut flooded = Flooded::new(|_| {});
    let full = u32::try_from(MAX_HALF_OPEN_PEERS).unwrap();
    for peer in 0..full {
        flooded.now += Duration::from_millis(1);
        flooded.recv(peer, &syn(0, LINK));
    }
    for peer in full..full + 3 {
        let oldest = peer - full;
        assert!(flooded.set.classic().is_half_open(oldest));
        flooded.now += Duration::from_millis(1);
        flooded.recv(peer, &syn(0, LINK));
        assert!(!flooded.set.classic.knows(oldest) && flooded.set.classic().is_half_open(oldest + 1));
    }
    assert_eq!(flooded.set.classic().stats().half_open_dropped, 3);
}

/// A sender with a round trip of 0.6 s in a flood of 1500 SYNs a second, which fills the table
/// twice in the time of its handshake. The entries of SYNs alone go first.
#[test]
fn sender_with_long_round_trip_connects_in_flood() {
    const HONEST: u32 = 1;
    let mut flooded = Flooded::new(|_| {});
    let start = flooded.now;
    let steps = [
        (0, syn(0, LINK).to_vec()),
        (600, packet(0, 0, b"x")),
        (1200, packet(0, 1, b"x")),
        (1800, packet(0, 2, b"x")),
    ];
    let mut steps = steps.iter().peekable();
    for n in 0..3000 {
        flooded.now = start + Duration::from_micros(667) * n;
        while let Some((_, datagram)) =
            steps.next_if(|(ms, _)| start + Duration::from_millis(*ms) <= flooded.now)
        {
            assert_eq!(flooded.recv(HONEST, datagram).len(), 1, "an answer");
        }
        flooded.recv(1000 + n, &syn(0, LINK));
    }
    assert_eq!(flooded.events[..2], [(HONEST, CONNECTED), (HONEST, STARTED)]);
    assert!(flooded.set.classic().stats().half_open_dropped > 1900);
}

#[test]
fn classic_peer_connects_at_third_packet() {
    let mut flooded = Flooded::new(|_| {});
    flooded.classic(1, 2);
    assert_eq!((flooded.events.as_slice(), flooded.set.classic().active()), (&[][..], 0));
    assert!(flooded.set.classic().is_half_open(1) && !flooded.set.classic().has_unfinished());
    flooded.recv(1, &packet(0, 2, b"x"));
    let expected = [(1, CONNECTED), (1, STARTED), (1, ReceiverEvent::Readable)];
    assert_eq!((flooded.events.as_slice(), flooded.set.classic().active()), (&expected[..], 1));
    assert_eq!(flooded.set.classic().data(1).unwrap(), b"xxx", "bytes of the first packets are kept");
}

#[test]
fn packets_beyond_hole_do_not_connect() {
    let mut flooded = Flooded::new(|config| config.receiver.window = WindowPolicy::Fixed(80_000));
    flooded.recv(1, &syn(0, LINK));
    for seq in 1..50 {
        flooded.recv(1, &packet(0, seq, b"x"));
    }
    assert_eq!(flooded.events, []);
    flooded.recv(1, &packet(0, 0, b"x"));
    assert_eq!((flooded.events.len(), flooded.set.classic().data(1).unwrap().len()), (3, 50));
}

#[test]
fn data_beyond_offered_window_is_dropped() {
    let mut flooded = Flooded::new(|_| {});
    flooded.classic(1, 3);
    // Packet 2 was answered with a window of 3.
    assert_eq!(flooded.recv(1, &packet(0, 6, b"x")).len(), 0, "no ACK");
    assert_eq!(flooded.recv(1, &packet(0, 5, b"x")).len(), 1);
    let receivers = flooded.set.classic().stats().receivers;
    assert_eq!((receivers.out_of_range, receivers.out_of_order), (1, 1));
}

#[test]
fn syn_does_not_restart_live_transfer() {
    let mut flooded = Flooded::new(|_| {});
    flooded.classic(1, 3);
    flooded.events.clear();
    for seq in [0, 3, 77] {
        assert_eq!(flooded.recv(1, &syn(seq, LINK)).len(), 0, "no answer");
    }
    // A keep-alive repeats the last packet.
    flooded.now += Duration::from_secs(10);
    flooded.recv(1, &packet(0, 2, b""));
    flooded.now += Duration::from_secs(10);
    flooded.recv(1, &syn(0, LINK));
    assert_eq!((flooded.events.as_slice(), flooded.set.classic().data(1).unwrap()), (&[][..], &b"xxx"[..]));
    flooded.now += Duration::from_secs(2);
    assert_eq!(flooded.recv(1, &syn(0, LINK)).len(), 1, "its sender began again after 12 s");
    assert_eq!(flooded.events, [(1, STARTED)]);
}

#[test]
fn empty_transfer_connects_at_repeated_fin() {
    let mut flooded = Flooded::new(|_| {});
    flooded.classic(1, 0);
    let fin = packet(0x80, 0, &[]);
    for _ in 0..2 {
        assert_eq!(flooded.recv(1, &fin).len(), 0, "a copy that arrives at once is no repetition");
    }
    assert_eq!((flooded.events.as_slice(), flooded.set.classic().active()), (&[][..], 0));
    flooded.now += Duration::from_millis(300);
    flooded.recv(1, &fin);
    assert_eq!(flooded.events[..2], [(1, CONNECTED), (1, STARTED)]);
    assert!(matches!(flooded.events[2..], [(1, ReceiverEvent::Finished { bytes: 0, .. })]));
    flooded.set.confirm_classic(1);
    flooded.now += Duration::from_millis(300);
    assert_eq!(flooded.recv(1, &fin).len(), 2, "the FIN-ACK, and once more");
}

#[test]
fn forged_empty_transfer_blocks_no_syn() {
    let mut flooded = Flooded::new(|_| {});
    flooded.classic(1, 0);
    flooded.recv(1, &packet(0x80, 0, &[]));
    assert_eq!(flooded.recv(1, &syn(5, LINK)).len(), 1);
    (5..8).for_each(|seq| drop(flooded.recv(1, &packet(0, seq, b"x"))));
    assert_eq!(flooded.events, [(1, CONNECTED), (1, STARTED), (1, STARTED), (1, ReceiverEvent::Readable)]);
}

#[test]
fn fin_of_short_transfer_connects() {
    for packets in 1..3 {
        let mut flooded = Flooded::new(|_| {});
        flooded.classic(1, packets);
        flooded.recv(1, &packet(0x80, packets, &[]));
        let (first, last) = (flooded.events.first().copied(), flooded.events.last().copied());
        let bytes = u64::from(packets);
        assert_eq!(first, Some((1, CONNECTED)), "{packets} packets");
        assert!(matches!(last, Some((1, ReceiverEvent::Finished { bytes: n, .. })) if n == bytes));
    }
}

#[test]
fn half_open_peer_expires_without_closed_event() {
    let mut flooded = Flooded::new(|_| {});
    flooded.classic(1, 2);
    flooded.now += Duration::from_secs(25);
    flooded.recv(2, b"");
    assert_eq!(flooded.events, []);
    assert!(!flooded.set.classic.knows(1) && flooded.set.poll_timeout().is_none());
    assert_eq!(flooded.set.memory(), 0);
}

#[test]
fn quarter_of_places_is_kept_for_native() {
    let mut flooded = Flooded::new(|config| config.max_peers = 4);
    (1..=5).for_each(|peer| flooded.classic(peer, 3));
    assert_eq!((flooded.set.classic().active(), flooded.set.classic().stats().refused), (3, 2));
    assert_eq!(flooded.set.slots.taken, 3, "the fourth is for a native connection");
}

#[test]
fn peer_without_place_is_dropped_at_third_packet() {
    let mut flooded = Flooded::new(|config| config.max_peers = 1);
    flooded.classic(1, 2);
    flooded.classic(2, 3);
    assert_eq!(flooded.recv(1, &packet(0, 2, b"x")).len(), 0, "no ACK");
    assert!(!flooded.set.classic.knows(1) && flooded.set.classic.knows(2));
}

#[test]
fn one_source_has_limited_half_open_peers() {
    let mut flooded = Flooded::new(|_| {});
    flooded.limit_sources();
    for peer in 0..1000 {
        flooded.recv(peer, &syn(0, LINK));
    }
    assert_eq!(flooded.set.classic().stats().refused, 1000 - 256);
    assert_eq!(flooded.recv(1000, &syn(0, LINK)).len(), 1, "another source");
    for seq in 0..3 {
        flooded.recv(0, &packet(0, seq, b"x"));
    }
    assert_eq!(flooded.recv(999, &syn(0, LINK)).len(), 1, "a connected peer leaves the table");
    flooded.now += Duration::from_secs(25);
    assert_eq!(flooded.recv(1, &syn(0, LINK)).len(), 1, "so do idle ones");
}

/// Sends SYNs and the first packets of `count` classic peers of each of `sources`.
fn connect_sources(flooded: &mut Flooded, sources: std::ops::Range<u32>, count: u32) {
    for source in sources {
        (0..count).for_each(|n| flooded.classic(1000 * source + n, 3));
    }
}

#[test]
fn one_source_has_limited_connected_peers() {
    let mut flooded = Flooded::new(|config| {
        config.max_peers = 40;
        config.max_peers_per_source = Some(5);
    });
    flooded.limit_sources();
    connect_sources(&mut flooded, 1..4, 9);
    assert_eq!((flooded.set.classic().active(), flooded.set.classic().stats().refused), (15, 12));
    assert_eq!(flooded.set.classic.sources.values().count(), 3);
    for n in 0..5 {
        flooded.set.close_classic(1000 + n);
    }
    assert_eq!(flooded.set.classic.sources.values().count(), 2);
    connect_sources(&mut flooded, 1..2, 1);
    assert_eq!(flooded.set.classic().active(), 11, "there is room again");
}

#[test]
fn greedy_sources_leave_places_for_others() {
    for sources in [2, 10] {
        let mut flooded = Flooded::new(|_| {});
        flooded.set.config.ip_of = Some(|peer| Ipv4Addr::from_bits(peer / 10_000).into());
        let connect = |flooded: &mut Flooded, peer| {
            let before = flooded.set.classic().active();
            flooded.classic(peer, 3);
            flooded.set.classic().active() > before
        };
        for source in 1..=sources {
            let greedy = (0..4096).take_while(|n| connect(&mut flooded, 10_000 * source + n)).count();
            assert_eq!(greedy, 3072 >> source, "source {source}");
        }
        assert!(connect(&mut flooded, 10_000 * (sources + 1)), "after {sources} sources");
    }
}

#[test]
fn data_of_half_open_peers_is_bounded() {
    let mut flooded = Flooded::new(|config| config.receiver.max_datagram = usize::MAX);
    let payload = vec![7; 60_000];
    for peer in 0..1000 {
        flooded.classic(peer, 0);
        flooded.recv(peer, &packet(0, 0, &payload));
        flooded.recv(peer, &packet(0, 2, &payload));
        assert!(flooded.set.memory() <= 5 << 20, "{}", flooded.set.memory());
    }
    assert!(flooded.set.classic().stats().half_open_dropped > 900);
}

#[test]
fn next_transfer_of_finished_peer_waits_for_packets() {
    let mut flooded = Flooded::new(|_| {});
    flooded.classic(1, 3);
    flooded.recv(1, &packet(0x80, 3, &[]));
    flooded.set.consume_classic(1, 3);
    flooded.set.confirm_classic(1);
    flooded.events.clear();
    flooded.classic(1, 2);
    assert_eq!((flooded.events.as_slice(), flooded.set.classic().has_unfinished()), (&[][..], false));
    flooded.recv(1, &packet(0, 2, b"x"));
    assert_eq!(flooded.events, [(1, STARTED), (1, ReceiverEvent::Readable)]);
    assert_eq!(flooded.set.classic().active(), 1);
}
