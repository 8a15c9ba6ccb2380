//! Unit tests of a server that is called at given times, in ns since the start.

use rdt_emulator::{self as emulator, Direction, Path};
use rdt_testing::packets::{self, classic};
use rdt_transport::wire::native::SackBlocks;
use rdt_transport::wire::{Ack, FromReceiver};
use rdt_transport::{
    Ecn, LinkProperties, MAX_HALF_OPEN_PEERS, PayloadDiscarded, ReceiverConfig, TransmitBuf,
};

use super::*;
use crate::link_memory::LinkMemory;
use crate::links::{Datagram, MAX_HALF_OPEN_LINK_MEMORY};
use crate::path::{PeerPath, classic_path};

/// At 1 Mbit/s, 12 bytes take 96 us, 28 bytes 224 us and 1008 bytes 8064 us.
const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.1, speed_bps: 1e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 10 };
/// Time from a SYN to its SYN-ACK, ns: two delays and two serialisation times. The SYN's RTT, a
/// 32-bit float, is 1 ns more than 100 ms.
const SYN_ANSWERED: u64 = 50_000_000 + 224_000 + 50_000_001 + 96_000;

fn plain(ack: u64, window: u64) -> FromReceiver<'static> {
    let sack = SackBlocks::default();
    let (echo, sent_us, duplicates, marks, overflow) = (None, None, None, None, None);
    FromReceiver::Ack(Ack { ack, window, sack, echo, sent_us, duplicates, marks, overflow })
}

struct Script {
    server: Server<u8>,
    epoch: Instant,
    batch: TransmitBuf,
}

impl Script {
    fn new(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let epoch = rdt_testing::epoch();
        let receiver = ReceiverConfig { keep_payload: true, faithful: true, ..ReceiverConfig::reference() };
        let mut config = ServerConfig::new(receiver, LinkMode::Emulated { seed: 1 });
        change(&mut config);
        Self { server: Server::new(config), epoch, batch: TransmitBuf::new(64) }
    }

    fn at(&self, ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(ns)
    }

    fn syn(&mut self, ns: u64, peer: u8, link: LinkProperties) {
        let mut bytes = packets::classic_syn(
            link.rtt_s,
            link.speed_bps,
            [link.loss_forward, link.loss_reverse],
            link.buffer,
        );
        self.server.handle_datagram(self.at(ns), peer, Ecn::NotEct, &mut bytes);
    }

    fn data(&mut self, ns: u64, peer: u8, seq: u64, len: usize) {
        let mut bytes = classic(0, &[u32::try_from(seq).unwrap()], &vec![7; len]);
        self.server.handle_datagram(self.at(ns), peer, Ecn::NotEct, &mut bytes);
    }

    fn fin(&mut self, ns: u64, peer: u8, seq: u32) {
        let mut bytes = classic(packets::FIN, &[seq], &[]);
        self.server.handle_datagram(self.at(ns), peer, Ecn::NotEct, &mut bytes);
    }

    /// Calls the server at `ns` and returns the replies that it sends.
    fn run(&mut self, ns: u64) -> Vec<(u8, FromReceiver<'static>)> {
        self.server.handle_timeout(self.at(ns));
        let mut replies = Vec::new();
        loop {
            self.batch.clear();
            let Some(peer) = self.server.poll_transmit(self.at(ns), &mut self.batch) else { return replies };
            let decode = |d| match FromReceiver::decode(d, 0).unwrap() {
                FromReceiver::SynAck { ack, window } => FromReceiver::SynAck { ack, window },
                FromReceiver::Ack(Ack { ack, window, .. }) => plain(ack, window),
                FromReceiver::FinAck { ack, crc } => FromReceiver::FinAck { ack, crc },
            };
            replies.extend(self.batch.datagrams().map(|d| (peer, decode(d))));
        }
    }

    /// Calls the server at each of its timeouts up to `ns`; returns the replies and their times.
    fn run_to(&mut self, ns: u64) -> Vec<(u64, FromReceiver<'static>)> {
        let mut left = Vec::new();
        while let Some(next) = self.server.poll_timeout().filter(|next| *next <= self.at(ns)) {
            let now = u64::try_from((next - self.epoch).as_nanos()).unwrap();
            left.extend(self.run(now).into_iter().map(|(_, reply)| (now, reply)));
        }
        left
    }

    fn events(&mut self) -> Vec<ReceiverEvent> {
        std::iter::from_fn(|| self.server.poll_event()).map(|(_, event)| event).collect()
    }
}

const SYN_ACK: FromReceiver<'static> = FromReceiver::SynAck { ack: 0, window: 1 };

#[test]
fn discarding_server_has_no_data_to_read() {
    for (keeps, expected) in [(true, Ok(&[7, 7][..])), (false, Err(PayloadDiscarded))] {
        let mut script = Script::new(|config| {
            config.link = LinkMode::None;
            config.receiver.keep_payload = keeps;
        });
        script.syn(0, 1, LINK);
        script.data(1, 1, 0, 2);
        assert_eq!(script.server.data(1), expected);
        assert_eq!(script.server.classic().received_bytes(1), 2);
    }
}

#[test]
fn syn_and_syn_ack_cross_links() {
    let mut script = Script::new(|_| {});
    script.syn(0, 1, LINK);
    assert_eq!(script.events(), [ReceiverEvent::Connected], "reported before the delay");
    assert_eq!(script.run_to(1_000_000_000), [(SYN_ANSWERED, SYN_ACK)]);
    assert_eq!(script.events(), [ReceiverEvent::Started]);
}

#[test]
fn late_call_is_recorded_as_lateness() {
    let mut script = Script::new(|_| {});
    script.syn(0, 1, LINK);
    // A late call after the SYN left its link does not change the due time of the answer.
    assert_eq!(script.run(SYN_ANSWERED - 1), []);
    assert_eq!(script.run(SYN_ANSWERED + 5_000_000), [(1, SYN_ACK)]);
    let late = script.server.stats().lateness;
    assert_eq!(late.count(), 1);
    assert!((4_900..=5_100).contains(&late.max().as_micros()), "{late:?}");
}

#[test]
fn later_syn_keeps_path() {
    let mut script = Script::new(|_| {});
    script.syn(0, 1, LINK);
    script.run_to(200_000_000);
    script.syn(200_000_000, 1, LinkProperties { rtt_s: 5.0, ..LINK });
    assert_eq!(script.run_to(1_000_000_000), [(200_000_000 + SYN_ANSWERED, SYN_ACK)]);
}

#[test]
fn each_peer_has_own_path_and_seed() {
    let mut script = Script::new(|_| {});
    let lossy = LinkProperties { loss_forward: 0.5, buffer: 1000, ..LINK };
    for peer in [1, 2] {
        script.syn(0, peer, lossy);
        for seq in 0..200 {
            script.data(1_000_000, peer, seq, 1);
        }
    }
    let lost = |script: &Script, peer| script.server.path_ledgers(peer).unwrap().0.dropped_loss;
    let (one, two) = (lost(&script, 1), lost(&script, 2));
    for lost in [one, two] {
        assert!((65..=136).contains(&lost), "{lost} of 201 at 50 %, 5 sigma");
    }
    let mut again = Script::new(|_| {});
    again.syn(0, 2, lossy);
    for seq in 0..200 {
        again.data(1_000_000, 2, seq, 1);
    }
    assert_eq!(lost(&again, 2), one, "the first connection uses the seed, whichever peer it is");
}

#[test]
fn first_peer_matches_link_with_seed() {
    const PACKETS: u64 = 300;
    let lossy = LinkProperties { loss_forward: 0.3, buffer: 1000, speed_bps: 1e9, ..LINK };
    let mut script = Script::new(|_| {});
    let mut alone = Path::new(classic_path(&lossy, u64::MAX).1, 1);
    let lost = |script: &Script| script.server.path_ledgers(1).unwrap().0.dropped_loss;
    let mut fates = Vec::new();
    // The SYN is packet 0 of the forward link.
    script.syn(0, 1, lossy);
    fates.push(lost(&script) > 0);
    for seq in 0..PACKETS {
        let before = lost(&script);
        script.data(1_000_000, 1, seq, 1);
        fates.push(lost(&script) > before);
    }
    let same: Vec<bool> = (0..=PACKETS)
        .map(|_| {
            let packet = emulator::Packet::from(vec![0; 9]);
            alone.push(Direction::Forward, script.at(1_000_000), packet).is_err()
        })
        .collect();
    assert_eq!(fates, same);
    assert!(fates.iter().filter(|lost| **lost).count() > 50);
}

#[test]
fn queue_holds_one_packet_above_buffer() {
    let mut script = Script::new(|_| {});
    script.syn(0, 1, LINK);
    script.run_to(200_000_000);
    for seq in 0..100 {
        script.data(200_000_000, 1, seq, 1000);
    }
    let forward = *script.server.path_ledgers(1).unwrap().0;
    assert_eq!((forward.in_flight, forward.dropped_queue), (11, 89));
    assert_eq!(script.run_to(2_000_000_000).last().unwrap().1, plain(11, 11));
}

#[test]
fn link_memory_is_shared_and_bounded() {
    let mut script = Script::new(|config| {
        config.link_memory_limit = 3000;
        config.peer_link_memory_limit = 2000;
    });
    for peer in [1, 2] {
        script.syn(0, peer, LINK);
        for seq in 0..3 {
            script.data(1, peer, seq, 1000);
        }
    }
    assert!(script.server.memory() <= 3000);
    let stats = script.server.stats();
    assert_eq!(
        stats.forward.dropped_memory, 4,
        "of six packets of 1008 bytes two fit: 1 a peer, by its own limit"
    );
    assert!(stats.forward.balances());
    script.run_to(1_000_000_000);
    assert!(stats.max_link_memory <= 3000);
}

#[test]
fn packets_of_closed_peer_are_discarded() {
    let mut script = Script::new(|_| {});
    script.syn(0, 1, LINK);
    script.run_to(200_000_000);
    for seq in 0..5 {
        script.data(200_000_000, 1, seq, 1000);
    }
    script.server.refuse(script.at(200_000_000), 1, CloseReason::Storage);
    let stats = script.server.stats();
    assert_eq!((stats.forward.discarded, stats.forward.sent), (5, 6));
    assert!(stats.forward.balances());
    assert_eq!((script.server.memory(), script.run(10_000_000_000)), (0, vec![]));
    assert_eq!(script.events().last(), Some(&ReceiverEvent::Closed { unfinished: true }));
}

#[test]
fn fin_ack_enters_link_on_confirm() {
    let mut script = Script::new(|_| {});
    script.syn(0, 1, LINK);
    script.run_to(200_000_000);
    script.fin(200_000_000, 1, 0);
    assert_eq!(script.run_to(500_000_000), []);
    assert!(matches!(script.events().last(), Some(ReceiverEvent::Finished { bytes: 0, crc: 0, .. })));
    let now = script.at(500_000_000);
    script.server.confirm(now, 1);
    let answered = 500_000_000 + 96_000 + 50_000_001;
    assert_eq!(script.run_to(1_000_000_000), [(answered, FromReceiver::FinAck { ack: 0, crc: 0 })]);
}

#[test]
fn restart_withdraws_stale_events() {
    let mut script = Script::new(|_| {});
    script.syn(0, 1, LINK);
    script.data(1_000_000, 1, 0, 10);
    script.syn(2_000_000, 1, LINK);
    script.data(3_000_000, 1, 0, 5);
    script.run_to(1_000_000_000);
    let started = ReceiverEvent::Started;
    assert_eq!(script.events(), [ReceiverEvent::Connected, started, started, ReceiverEvent::Readable]);
    assert_eq!(script.server.data(1).unwrap().len(), 5);
}

#[test]
fn replies_skip_missing_links() {
    let mut script = Script::new(|config| config.link = LinkMode::None);
    script.syn(0, 1, LINK);
    script.data(0, 1, 0, 1);
    assert_eq!(script.run(0), [(1, SYN_ACK), (1, plain(1, 1))]);
    assert_eq!(script.server.stats().lateness.count(), 0);
}

#[test]
fn ecn_passes_link_one_codepoint_per_batch() {
    for link in [LinkMode::None, LinkMode::Emulated { seed: 1 }] {
        let mut script = Script::new(|config| config.link = link);
        script.syn(0, 1, LINK);
        script.run_to(SYN_ANSWERED);
        for (seq, ecn) in (0..).zip([Ecn::Ect0, Ecn::Ce, Ecn::NotEct, Ecn::Ce]) {
            let mut bytes = classic(0, &[seq], &[7; 20]);
            script.server.handle_datagram(script.at(SYN_ANSWERED), 1, ecn, &mut bytes);
        }
        script.run_to(3 * SYN_ANSWERED);
        let receivers = script.server.stats().classic.receivers;
        assert_eq!((receivers.data, receivers.ce), (4, 2), "{link:?}");
    }
    let mut script = Script::new(|_| ());
    for ecn in [Ecn::Ce, Ecn::Ce, Ecn::NotEct] {
        let Server { outgoing, links, .. } = &mut script.server;
        outgoing.push(Datagram { peer: 1, ecn, bytes: vec![1] }, links);
    }
    for expected in [(2, Ecn::Ce), (1, Ecn::NotEct)] {
        script.batch.clear();
        assert_eq!(script.server.poll_transmit(script.epoch, &mut script.batch), Some(1));
        assert_eq!((script.batch.segments(), script.batch.ecn()), expected);
    }
}

#[test]
fn window_update_takes_reverse_link() {
    let mut script = Script::new(|config| config.peer_memory_limit = 1 << 20);
    let link = LinkProperties { rtt_s: 0.01, speed_bps: 1e9, buffer: 2000, ..LINK };
    script.syn(0, 1, link);
    script.run_to(20_000_000);
    for seq in 0..1200 {
        script.data(20_000_000, 1, seq, 1000);
    }
    let acks = script.run_to(100_000_000);
    let Some((_, FromReceiver::Ack(Ack { ack: full, window: 0, .. }))) = acks.last().copied() else {
        panic!("{acks:?}")
    };
    assert!((1040..1060).contains(&full), "{full} packets of 1000 bytes in 1 MiB");
    let unread = usize::try_from(script.server.classic().unread(1)).unwrap();
    script.server.consume(script.at(100_000_000), 1, unread);
    assert_eq!(script.run(200_000_000), [], "5 ms on the link");
    // The window leaves room for unread bytes of an application that reads without delay.
    let update = plain(full, (1 << 19) / 1000);
    let left = script.run_to(210_000_000);
    assert!(matches!(left[..], [(at, reply)] if at > 205_000_000 && reply == update), "{left:?}");
}

#[test]
fn pairs_of_spoofed_packets_cause_no_event() {
    let mut script = Script::new(|config| config.receiver.faithful = false);
    for peer in 0..200 {
        script.syn(0, peer, LINK);
        script.data(0, peer, 0, 1000);
    }
    script.run_to(24_000_000_000);
    assert_eq!((script.server.links.paths.len(), script.server.classic().active()), (200, 0));
    script.run_to(60_000_000_000);
    assert_eq!(script.events(), []);
    assert_eq!((script.server.links.paths.len(), script.server.memory()), (0, 0), "their links are gone");
}

#[test]
fn half_open_peer_keeps_its_link_when_it_connects() {
    let mut script = Script::new(|config| config.receiver.faithful = false);
    script.syn(0, 1, LINK);
    assert_eq!(script.run_to(SYN_ANSWERED), [(SYN_ANSWERED, SYN_ACK)], "the link delays the handshake");
    for seq in 0..3 {
        script.data(SYN_ANSWERED, 1, seq, 100);
    }
    script.run_to(1_000_000_000);
    let connected = [ReceiverEvent::Connected, ReceiverEvent::Started, ReceiverEvent::Readable];
    assert_eq!(script.events(), connected);
    assert_eq!(script.server.path_ledgers(1).unwrap().0.delivered, 4);
}

#[test]
fn full_links_leave_floor_to_others() {
    let mut script = Script::new(|config| {
        config.max_peers = 4;
        config.link_memory_limit = 100_000;
        config.peer_link_memory_limit = 100_000;
    });
    let wide = LinkProperties { buffer: 1000, ..LINK };
    script.syn(0, 1, wide);
    (0..200).for_each(|seq| script.data(0, 1, seq, 1000));
    let full = script.server.memory();
    assert!((75_000..=81_250).contains(&full), "{full} bytes: its floor and all that is shared");
    script.syn(0, 2, wide);
    (0..6).for_each(|seq| script.data(0, 2, seq, 1000));
    let ledger = *script.server.path_ledgers(2).unwrap().0;
    assert_eq!((ledger.in_flight, ledger.dropped_memory), (7, 0), "6.1 of 6.25 kB");
    script.run_to(60_000_000_000);
    assert_eq!(script.server.memory(), 0);
    assert_eq!(script.server.links.connected.limit_of(0), 6250 + 75_000, "all is free again");
}

#[test]
fn departures_keep_silent_peer_for_120_s() {
    let mut script = Script::new(|config| config.receiver.faithful = false);
    // 8 s for a packet, and room for 100.
    script.syn(0, 1, LinkProperties { speed_bps: 1000.0, buffer: 100, ..LINK });
    (0..50).for_each(|seq| script.data(1, 1, seq, 1000));
    script.run_to(120_000_000_000);
    assert_eq!((script.server.links.paths.len(), script.server.classic().active()), (1, 1));
    script.run_to(130_000_000_000);
    assert_eq!((script.server.links.paths.len(), script.server.memory()), (0, 0));
    assert_eq!(script.events().last(), Some(&ReceiverEvent::Closed { unfinished: true }));
}

#[test]
fn links_of_half_open_peers_have_limit_of_their_own() {
    let mut script = Script::new(|config| {
        config.receiver.faithful = false;
        config.link_memory_limit = 1 << 20;
    });
    for peer in 0..100 {
        script.syn(0, peer, LinkProperties { buffer: 1000, ..LINK });
        (0..50).for_each(|seq| script.data(0, peer, seq, 1000));
    }
    assert!(script.server.links.memory <= 256 << 10, "{}", script.server.links.memory);
    script.run_to(10_000_000_000);
    assert_eq!(script.server.links.memory, 0);
    let (half_open, connected) = (&script.server.links.half_open, &script.server.links.connected);
    assert_eq!(half_open.limit_of(0), LinkMemory::new(256 << 10, MAX_HALF_OPEN_PEERS).limit_of(0));
    assert_eq!(connected.limit_of(0), LinkMemory::new(1 << 20, 4096).limit_of(0), "as before");
}

/// Each forged SYN requests a link that is slow and holds much.
#[test]
fn forged_syns_hold_bounded_links() {
    let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
    let mut server = Server::new(ServerConfig::new(receiver, LinkMode::Emulated { seed: 1 }));
    let now = rdt_testing::epoch();
    for peer in 0..2 * MAX_HALF_OPEN_PEERS {
        for _ in 0..100 {
            let mut syn = packets::classic_syn(29.0, 1000.0, [0.0; 2], 1_000_000);
            server.handle_datagram(now, peer, Ecn::NotEct, &mut syn);
        }
    }
    assert_eq!((server.links.paths.len(), server.active()), (MAX_HALF_OPEN_PEERS, 0));
    let (memory, limit) = (server.links.max_memory, MAX_HALF_OPEN_LINK_MEMORY);
    assert!((limit / 2..=limit).contains(&memory), "{memory} bytes");
    let path = size_of::<PeerPath<std::net::SocketAddr>>();
    assert!(path <= 1600, "a half-open peer costs a path of {path} bytes");
}
