//! A listener alone, driven by a script of datagrams from peers that are named by a letter.

use super::*;
use crate::wire::{LinkProperties, REPLY_LEN, SYN_LEN, Syn, decode_from_receiver};

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.1, speed_bps: 14e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 13 };
const MAGIC: [u8; 3] = [0xaa, 0x11, 0x83];
const SECOND: u64 = 1000;

/// A listener and its clock.
struct Script {
    listener: Listener<char>,
    epoch: Instant,
    now: Instant,
    batch: TransmitBuf,
}

impl Script {
    fn new(config: ListenerConfig) -> Self {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let epoch = Instant::now();
        Self { listener: Listener::new(config), epoch, now: epoch, batch: TransmitBuf::new(64) }
    }

    /// The given peers are connected; replies and events of that are taken out.
    fn connected(config: ListenerConfig, peers: &str) -> Self {
        let mut script = Self::new(config);
        for peer in peers.chars() {
            script.syn(peer, 0);
            assert_eq!(script.events(), [(peer, ReceiverEvent::Connected), (peer, ReceiverEvent::Started)]);
        }
        assert_eq!(script.replies().len(), peers.len());
        script
    }

    /// Moves the clock to `time` ms, firing the timer whenever it is due on the way.
    fn at(&mut self, time: u64) -> &mut Self {
        let end = self.epoch + Duration::from_millis(time);
        assert!(end >= self.now, "the script goes back to {time} ms");
        while let Some(due) = self.listener.poll_timeout().filter(|due| *due <= end) {
            assert!(due >= self.now, "a timer in the past");
            self.now = due;
            self.listener.handle_timeout(due);
        }
        self.now = end;
        self
    }

    fn recv(&mut self, peer: char, datagram: &[u8]) -> &mut Self {
        self.listener.handle_datagram(self.now, peer, datagram);
        self
    }

    fn syn(&mut self, peer: char, seq: u32) -> &mut Self {
        self.recv(peer, &syn(seq, LINK))
    }

    fn data(&mut self, peer: char, seq: u32, payload: &[u8]) -> &mut Self {
        self.recv(peer, &packet(0, seq, payload))
    }

    fn fin(&mut self, peer: char, seq: u32) -> &mut Self {
        self.recv(peer, &packet(0x80, seq, &[]))
    }

    /// Batches as they leave: whose, and how many replies.
    fn batches(&mut self) -> Vec<(char, Vec<FromReceiver>)> {
        let mut batches = Vec::new();
        loop {
            self.batch.clear();
            let Some(peer) = self.listener.poll_transmit(self.now, &mut self.batch) else { break };
            let near = self.listener.peers[&peer].receiver.rcv_nxt();
            let decode = |datagram: &[u8]| decode_from_receiver(datagram, near).unwrap();
            batches.push((peer, self.batch.datagrams().map(decode).collect()));
        }
        assert!(self.batch.is_empty());
        batches
    }

    fn replies(&mut self) -> Vec<(char, FromReceiver)> {
        let flat = |(peer, replies): (char, Vec<_>)| replies.into_iter().map(move |reply| (peer, reply));
        self.batches().into_iter().flat_map(flat).collect()
    }

    /// The replies as bytes.
    fn datagrams(&mut self) -> Vec<Vec<u8>> {
        self.batch.clear();
        self.listener.poll_transmit(self.now, &mut self.batch);
        self.batch.datagrams().map(<[u8]>::to_vec).collect()
    }

    fn events(&mut self) -> Vec<(char, ReceiverEvent)> {
        std::iter::from_fn(|| self.listener.poll_event()).collect()
    }

    /// True if the datagram changes nothing and nothing comes of it.
    fn is_dropped(&mut self, peer: char, datagram: &[u8]) -> bool {
        let before = self.listener.active();
        self.recv(peer, datagram);
        self.replies().is_empty() && self.events().is_empty() && self.listener.active() == before
    }

    fn stats(&self) -> ListenerStats {
        self.listener.stats()
    }
}

fn reference() -> ListenerConfig {
    ListenerConfig::new(ReceiverConfig::reference())
}

fn keeping() -> ListenerConfig {
    ListenerConfig::new(ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() })
}

fn syn(seq: u32, link: LinkProperties) -> [u8; SYN_LEN] {
    let mut datagram = [0; SYN_LEN];
    wire::encode_syn(&Syn { seq, link }, &mut datagram);
    datagram
}

/// A data packet or a FIN, by hand.
fn packet(flags: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
    [&[flags], &MAGIC[..], &seq.to_le_bytes(), payload].concat()
}

fn syn_ack(ack: u64, wnd: u32) -> FromReceiver {
    FromReceiver::SynAck { ack, wnd }
}

fn ack(ack: u64, wnd: u32) -> FromReceiver {
    FromReceiver::Ack { ack, wnd }
}

fn fin_ack(ack: u64, crc: u32) -> FromReceiver {
    FromReceiver::FinAck { ack, crc }
}

fn closed(unfinished: bool) -> ReceiverEvent {
    ReceiverEvent::Closed { unfinished }
}

// Datagrams

#[test]
fn exchange_of_two_packets_has_the_bytes_of_the_protocol() {
    let mut script = Script::new(reference());
    let captured = [
        0x20, 0xaa, 0x11, 0x83, 0, 0, 0, 0, 0xcd, 0xcc, 0xcc, 0x3d, 0x80, 0x9f, 0x55, 0x4b, 0, 0, 0, 0, 0, 0,
        0, 0, 0x0d, 0, 0, 0,
    ];
    script.recv('a', &captured);
    assert_eq!(script.datagrams(), [[0x60, 0xaa, 0x11, 0x83, 1, 0, 0, 0, 0, 0, 0, 0]]);
    script.recv('a', &[0, 0xaa, 0x11, 0x83, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(script.datagrams(), [[0x40, 0xaa, 0x11, 0x83, 1, 0, 0, 0, 1, 0, 0, 0]]);
    script.recv('a', &[0, 0xaa, 0x11, 0x83, 1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(script.datagrams(), [[0x40, 0xaa, 0x11, 0x83, 2, 0, 0, 0, 2, 0, 0, 0]]);
    script.recv('a', &[0x80, 0xaa, 0x11, 0x83, 2, 0, 0, 0]);
    script.listener.confirm('a');
    // The window's place holds the CRC-32 of two words, DD9EB80C.
    assert_eq!(script.datagrams(), [[0xc0, 0xaa, 0x11, 0x83, 0x0c, 0xb8, 0x9e, 0xdd, 2, 0, 0, 0]]);
}

#[test]
fn syn_is_28_bytes_and_no_other_length() {
    let long = [&syn(0, LINK)[..], &[0; 20]].concat();
    for len in [0, 7, 8, 12, 27, 29, 36, 48] {
        let mut script = Script::new(reference());
        assert!(script.is_dropped('a', &long[..len]), "{len} bytes");
    }
    let mut script = Script::new(reference());
    script.recv('a', &long[..28]);
    assert_eq!(script.replies(), [('a', syn_ack(0, 1))]);
}

#[test]
fn syn_with_a_link_out_of_range_meets_silence() {
    type Change = fn(&mut LinkProperties);
    let good: [(&str, Change); 7] = [
        ("speed 1e10", |l| l.speed_bps = 1e10),
        ("speed 0.5", |l| l.speed_bps = 0.5),
        ("RTT 0", |l| l.rtt_s = 0.0),
        ("RTT 29.9", |l| l.rtt_s = 29.9),
        ("losses .9999", |l| (l.loss_forward, l.loss_reverse) = (0.9999, 0.9999)),
        ("buffer 1", |l| l.buffer = 1),
        ("buffer 1e6", |l| l.buffer = 1_000_000),
    ];
    let bad: [(&str, Change); 15] = [
        ("speed 0", |l| l.speed_bps = 0.0),
        ("speed -1", |l| l.speed_bps = -1.0),
        ("speed 1.1e10", |l| l.speed_bps = 1.1e10),
        ("speed NaN", |l| l.speed_bps = f32::NAN),
        ("RTT -1", |l| l.rtt_s = -1.0),
        ("RTT 30", |l| l.rtt_s = 30.0),
        ("RTT NaN", |l| l.rtt_s = f32::NAN),
        ("forward loss -.1", |l| l.loss_forward = -0.1),
        ("forward loss 1", |l| l.loss_forward = 1.0),
        ("forward loss NaN", |l| l.loss_forward = f32::NAN),
        ("reverse loss -.1", |l| l.loss_reverse = -0.1),
        ("reverse loss 1", |l| l.loss_reverse = 1.0),
        ("reverse loss NaN", |l| l.loss_reverse = f32::NAN),
        ("buffer 0", |l| l.buffer = 0),
        ("buffer 1000001", |l| l.buffer = 1_000_001),
    ];
    let answers = |change: Change| {
        let mut link = LINK;
        change(&mut link);
        !Script::new(reference()).is_dropped('a', &syn(0, link))
    };
    for (name, change) in good {
        assert!(answers(change), "{name}");
    }
    for (name, change) in bad {
        assert!(!answers(change), "{name}");
    }
}

#[test]
fn wrong_magic_reserved_bits_and_other_flags_meet_silence() {
    let mut script = Script::connected(reference(), "a");
    let good = packet(0, 0, b"payload of any length");
    let mut count = 0;
    for flags in 1..=u8::MAX {
        let mut datagram = good.clone();
        datagram[0] = flags;
        // The FIN is well-formed, but there is data to come with its number: it ends the transfer.
        if flags != 0x80 {
            assert!(script.is_dropped('a', &datagram), "flags {flags:#04x}");
            let mut datagram = syn(0, LINK);
            datagram[0] = flags;
            assert!(flags == 0x20 || script.is_dropped('b', &datagram), "flags {flags:#04x} on a SYN");
            count += if flags == 0x20 { 1 } else { 2 };
        }
    }
    for byte in 1..4 {
        let mut datagram = good.clone();
        datagram[byte] ^= 0x10;
        assert!(script.is_dropped('a', &datagram), "magic byte {byte}");
        count += 1;
    }
    for len in 0..8 {
        assert!(script.is_dropped('a', &good[..len]), "{len} bytes");
        count += 1;
    }
    assert_eq!(script.stats().malformed, count);
    script.recv('a', &good);
    assert_eq!(script.replies(), [('a', ack(1, 1))], "the connection is usable");
}

#[test]
fn fin_with_trailing_bytes_is_a_fin() {
    for trailing in [0, 1, 20, 1464] {
        let mut script = Script::connected(reference(), "a");
        script.data('a', 0, b"abc").recv('a', &packet(0x80, 1, &vec![0x55; trailing]));
        script.listener.confirm('a');
        let crc = crc32fast::hash(b"abc");
        assert_eq!(script.replies(), [('a', ack(1, 1)), ('a', fin_ack(1, crc))], "{trailing} bytes more");
    }
}

#[test]
fn a_datagram_longer_than_1472_bytes_is_dropped_and_the_connection_stays_usable() {
    let mut script = Script::connected(reference(), "a");
    assert!(script.is_dropped('a', &packet(0, 0, &[1; 1465])));
    assert!(script.is_dropped('a', &packet(0, 0, &[1; 65_499])));
    assert!(script.is_dropped('a', &packet(0x80, 0, &[0; 1465])), "a FIN too");
    assert_eq!(script.stats().too_long, 3);
    script.data('a', 0, &[1; 1464]);
    assert_eq!(script.replies(), [('a', ack(1, 1))]);
}

#[test]
fn dummy_takes_datagrams_of_any_size() {
    let mut script = Script::new(ListenerConfig::new(ReceiverConfig::dummy()));
    script.syn('a', 0).data('a', 0, &[1; 8972 - 8]).data('a', 1, &[1; 65_507 - 8]).fin('a', 2);
    script.listener.confirm('a');
    let expected = [syn_ack(0, 80_000), ack(1, 80_000), ack(2, 80_000), fin_ack(2, 0)];
    assert_eq!(script.batches(), [('a', expected.to_vec())]);
}

#[test]
fn dummy_checks_a_syn_like_the_reference() {
    let mut script = Script::new(ListenerConfig::new(ReceiverConfig::dummy()));
    assert!(script.is_dropped('a', &syn(0, LinkProperties { buffer: 0, ..LINK })));
    assert!(script.is_dropped('a', &[&syn(0, LINK)[..], &[0]].concat()));
}

#[test]
fn data_or_fin_without_a_connection_meets_silence() {
    let mut script = Script::connected(reference(), "a");
    assert!(script.is_dropped('b', &packet(0, 0, b"x")));
    assert!(script.is_dropped('b', &packet(0x80, 0, b"")));
    assert_eq!((script.stats().no_connection, script.listener.active()), (2, 1));
    assert!(script.listener.knows('a') && !script.listener.knows('b'));
}

#[test]
fn numbers_wrap_on_the_wire() {
    let mut script = Script::new(keeping());
    script.syn('a', u32::MAX - 1);
    for seq in [u32::MAX - 1, 0, u32::MAX, 1, u32::MAX - 1] {
        script.data('a', seq, &seq.to_le_bytes()[..1]);
    }
    script.fin('a', 2);
    script.listener.confirm('a');
    let sent = script.datagrams();
    let numbers: Vec<_> = sent.iter().map(|d| u32::from_le_bytes(d[8..12].try_into().unwrap())).collect();
    assert_eq!(numbers, [u32::MAX - 1, u32::MAX, u32::MAX, 1, 2, 2, 2]);
    assert_eq!(script.listener.data('a'), [254, 255, 0, 1]);
}

// Peers

#[test]
fn transfers_of_two_peers_are_independent() {
    let mut script = Script::new(keeping());
    script.syn('a', 0).syn('b', 7).data('a', 0, b"a0").data('b', 7, b"b7").data('b', 9, b"b9");
    script.syn('b', 0).data('a', 1, b"a1").data('b', 0, b"b0").fin('a', 2).fin('b', 1);
    assert_eq!((script.listener.data('a'), script.listener.data('b')), (&b"a0a1"[..], &b"b0"[..]));
    script.listener.confirm('b');
    assert_eq!(
        script.batches(),
        [
            ('a', vec![syn_ack(0, 1), ack(1, 1), ack(2, 2)]),
            (
                'b',
                vec![
                    syn_ack(7, 7),
                    ack(8, 8),
                    ack(8, 8),
                    syn_ack(0, 1),
                    ack(1, 1),
                    fin_ack(1, crc32fast::hash(b"b0"))
                ]
            ),
        ]
    );
    assert!(script.listener.has_unfinished(), "a waits for its confirmation");
    script.listener.confirm('a');
    assert_eq!(script.replies(), [('a', fin_ack(2, crc32fast::hash(b"a0a1")))]);
    assert!(!script.listener.has_unfinished());
}

#[test]
fn events_of_a_peer_come_in_the_order_of_its_life() {
    let mut script = Script::new(keeping());
    script.syn('a', 0).at(10).data('a', 0, b"abc").at(30).data('a', 1, b"de").fin('a', 2);
    let (crc, elapsed) = (crc32fast::hash(b"abcde"), Duration::from_millis(20));
    assert_eq!(
        script.events(),
        [
            ('a', ReceiverEvent::Connected),
            ('a', ReceiverEvent::Started),
            ('a', ReceiverEvent::Readable),
            ('a', ReceiverEvent::Finished { bytes: 5, crc, elapsed }),
        ]
    );
    assert_eq!(script.listener.data('a'), b"abcde");
    script.listener.consume('a', 5);
    script.listener.confirm('a');
    script.listener.close('a');
    assert_eq!(script.events(), [('a', closed(false))]);
}

#[test]
fn a_syn_of_a_known_peer_is_a_new_transfer_but_no_new_peer() {
    let mut script = Script::connected(keeping(), "a");
    script.syn('a', 0);
    assert_eq!(script.events(), [], "nothing had begun");
    script.data('a', 0, b"abc").syn('a', 0);
    assert_eq!(script.events().last(), Some(&('a', ReceiverEvent::Started)));
    assert_eq!((script.stats().admitted, script.listener.active()), (1, 1));
}

#[test]
fn starting_again_voids_what_was_not_read() {
    let mut script = Script::connected(keeping(), "ab");
    script.data('a', 0, b"old").data('b', 0, b"other").syn('a', 0).data('a', 0, b"new");
    let mut transfers = Vec::new();
    // An application that reads whatever is there whenever it is told something.
    while let Some((peer, event)) = script.listener.poll_event() {
        if event == ReceiverEvent::Started {
            transfers.push(Vec::new());
        } else if peer == 'a' {
            let bytes = script.listener.data('a').to_vec();
            script.listener.consume('a', bytes.len());
            transfers.last_mut().expect("bytes of the new transfer before its start").extend(bytes);
        }
    }
    assert_eq!(transfers, [b"new"]);
    assert_eq!(script.listener.data('b'), b"other");
}

#[test]
fn events_do_not_pile_up_while_the_application_is_busy() {
    let mut script = Script::connected(keeping(), "ab");
    for seq in 0..1000 {
        script.data('a', seq, b"x").data('b', seq, b"y");
    }
    let mut events = script.events();
    events.sort_by_key(|(peer, _)| *peer);
    assert_eq!(events, [('a', ReceiverEvent::Readable), ('b', ReceiverEvent::Readable)]);
}

#[test]
fn more_peers_than_allowed_are_left_unanswered() {
    let mut script = Script::connected(ListenerConfig { max_peers: 2, ..reference() }, "ab");
    assert!(script.is_dropped('c', &syn(0, LINK)));
    assert_eq!((script.stats().refused, script.stats().max_active), (1, 2));
    script.syn('a', 0);
    assert_eq!(script.replies(), [('a', syn_ack(0, 1))], "a known peer may go on");
    script.listener.close('b');
    script.events();
    script.syn('c', 0);
    assert_eq!(script.replies(), [('c', syn_ack(0, 1))], "there is room again");
    assert_eq!((script.stats().admitted, script.stats().refused), (3, 1));
}

#[test]
fn admission_by_hand_tells_new_known_and_refused_apart() {
    let mut script = Script::new(ListenerConfig { max_peers: 1, ..reference() });
    let admissions = ['a', 'a', 'b'].map(|peer| script.listener.admit(script.now, peer));
    assert_eq!(admissions, [Admission::New, Admission::Known, Admission::Refused]);
    assert_eq!(script.events(), [('a', ReceiverEvent::Connected)], "before its SYN arrives");
    let datagram = syn(7, LINK);
    assert_eq!(script.listener.inspect('a', &datagram), Some(FromSender::Syn(Syn { seq: 7, link: LINK })));
    assert!(script.events().is_empty(), "inspecting does nothing");
    script.listener.deliver_datagram(script.now, 'a', &datagram);
    assert_eq!(script.replies(), [('a', syn_ack(7, 7))]);
    script.listener.deliver_datagram(script.now, 'b', &datagram);
    assert_eq!(script.replies(), []);
}

#[test]
fn a_closed_peer_is_forgotten_with_everything_it_had() {
    let mut script = Script::connected(keeping(), "ab");
    script.data('a', 0, b"abc").data('a', 5, b"held").data('b', 0, b"xyz");
    assert!(script.listener.memory() > 3);
    script.listener.close('a');
    assert_eq!(script.listener.memory(), 3, "that of b");
    assert_eq!(script.replies(), [('b', ack(1, 1))]);
    assert_eq!(script.events(), [('b', ReceiverEvent::Readable), ('a', closed(true))]);
    assert!(script.is_dropped('a', &packet(0, 1, b"x")));
    assert_eq!(script.listener.data('a'), b"");
    script.listener.confirm('a');
    script.listener.consume('a', 3);
    script.listener.touch(script.now, 'a');
    script.listener.close('a');
    assert_eq!((script.events(), script.replies()), (vec![], vec![]), "nobody is there");
    script.syn('a', 0);
    assert_eq!(script.events(), [('a', ReceiverEvent::Connected), ('a', ReceiverEvent::Started)]);
}

#[test]
fn counters_of_peers_that_are_gone_stay() {
    let mut script = Script::connected(reference(), "ab");
    script.data('a', 0, b"abc").data('a', 0, b"abc").data('b', 0, b"de").data('b', 90_000, b"f");
    script.listener.close('a');
    let sums = script.stats().receivers;
    assert_eq!((sums.data, sums.accepted, sums.duplicates, sums.out_of_range), (4, 2, 1, 1));
    assert_eq!((sums.replies, sums.bytes), (2 + 3, 5));
}

// Silence

#[test]
fn a_peer_is_forgotten_25_seconds_after_its_last_packet() {
    let mut script = Script::connected(reference(), "a");
    assert_eq!(script.listener.poll_timeout(), Some(script.epoch + Duration::from_secs(25)));
    script.at(10 * SECOND).data('a', 0, b"x");
    script.at(20 * SECOND).data('a', 0, b"x");
    script.at(45 * SECOND - 1);
    assert!(script.listener.knows('a') && script.events().is_empty(), "24.999 s after the last");
    script.at(45 * SECOND);
    assert_eq!(script.events(), [('a', closed(true))]);
    assert_eq!((script.listener.active(), script.listener.poll_timeout()), (0, None));
    assert!(script.is_dropped('a', &packet(0, 1, b"x")));
    assert!(script.is_dropped('a', &packet(0x80, 1, b"")));
}

#[test]
fn a_finished_peer_is_forgotten_too() {
    let mut script = Script::connected(reference(), "a");
    script.data('a', 0, b"x").at(SECOND).fin('a', 1);
    script.listener.confirm('a');
    script.replies();
    script.events();
    script.at(20 * SECOND).fin('a', 1);
    assert_eq!(script.replies().len(), 1, "the FIN-ACK is repeated");
    script.at(45 * SECOND - 1);
    assert_eq!(script.events(), []);
    script.at(45 * SECOND);
    assert_eq!(script.events(), [('a', closed(false))]);
    assert!(script.is_dropped('a', &packet(0x80, 1, b"")));
}

#[test]
fn each_peer_has_its_own_silence() {
    let mut script = Script::connected(reference(), "abc");
    script.at(5 * SECOND).data('b', 0, b"x");
    script.at(9 * SECOND).data('a', 0, b"x");
    script.at(25 * SECOND);
    assert_eq!(script.events(), [('c', closed(true))]);
    script.at(33 * SECOND);
    assert_eq!(script.events(), [('b', closed(true))]);
    script.at(100 * SECOND);
    assert_eq!(script.events(), [('a', closed(true))]);
}

#[test]
fn a_touched_peer_is_not_silent() {
    let mut script = Script::connected(reference(), "a");
    for n in 1..=5 {
        script.at(n * 20 * SECOND);
        script.listener.touch(script.now, 'a');
    }
    script.at(125 * SECOND - 1);
    assert!(script.listener.knows('a'));
    script.at(125 * SECOND);
    assert!(!script.listener.knows('a'));
}

#[test]
fn a_peer_that_comes_back_has_a_new_silence() {
    let mut script = Script::connected(reference(), "a");
    script.at(20 * SECOND).listener.close('a');
    script.syn('a', 0);
    script.at(45 * SECOND - 1);
    assert!(script.listener.knows('a'), "counted from 20 s");
    script.at(45 * SECOND);
    assert!(!script.listener.knows('a'));
}

// Memory

#[test]
fn one_peer_cannot_hold_more_than_its_limit() {
    let mut script = Script::connected(ListenerConfig { peer_memory_limit: 10_000, ..keeping() }, "ab");
    for seq in 1..50 {
        script.data('a', seq, &[7; 1000]);
    }
    let held = script.listener.memory();
    assert!((5_000..=10_000).contains(&held), "{held} bytes");
    let stats = script.stats().receivers;
    assert_eq!(stats.accepted + stats.no_memory, 49);
    assert!(stats.no_memory >= 39);
    assert_eq!(script.replies().len() as u64, stats.accepted, "what is dropped is not answered");
    script.data('b', 1, &[7; 1000]);
    assert_eq!(script.replies(), [('b', ack(0, 1))], "others have their own");
}

#[test]
fn all_peers_together_cannot_hold_more_than_the_limit() {
    let mut script = Script::connected(ListenerConfig { memory_limit: 10_000, ..keeping() }, "abcd");
    for seq in 1..10 {
        for peer in "abcd".chars() {
            script.data(peer, seq, &[7; 1000]);
            assert!(script.listener.memory() <= 10_000);
        }
    }
    let stats = script.stats();
    assert!(stats.receivers.no_memory >= 36 - 10 && stats.receivers.accepted >= 5, "{stats:?}");
    assert_eq!(stats.max_memory, script.listener.memory());
    script.listener.close('a');
    let before = script.replies().len();
    script.data('b', 20, &[7; 1000]);
    assert_eq!((before > 0, script.replies()), (true, vec![('b', ack(0, 1))]), "there is room again");
}

#[test]
fn data_in_order_flows_when_memory_is_full() {
    let mut script = Script::connected(ListenerConfig { memory_limit: 3_000, ..reference() }, "ab");
    script.data('a', 2, &[7; 1000]).data('a', 3, &[7; 1000]).data('a', 4, &[7; 1000]).data('b', 2, &[7; 1000]);
    assert_eq!(script.replies(), [('a', ack(0, 1)); 2], "two fit");
    script.data('b', 0, &[7; 1000]).data('b', 1, &[7; 1000]).data('b', 2, &[7; 1000]);
    assert_eq!(script.replies(), [('b', ack(1, 1)), ('b', ack(2, 2)), ('b', ack(3, 3))]);
    script.data('a', 0, &[7; 1000]).data('a', 1, &[7; 1000]);
    assert_eq!(script.replies(), [('a', ack(1, 1)), ('a', ack(4, 4))]);
    assert_eq!(script.listener.memory(), 0);
    assert_eq!(script.stats().receivers.no_memory, 2);
}

// Replies

#[test]
fn replies_of_one_peer_leave_in_one_batch() {
    let mut script = Script::connected(reference(), "abc");
    for seq in 0..10 {
        script.data('c', seq, b"x").data('a', seq, b"y");
    }
    let batches: Vec<_> = script.batches().into_iter().map(|(peer, replies)| (peer, replies.len())).collect();
    assert_eq!(batches, [('c', 10), ('a', 10)]);
}

#[test]
fn a_full_batch_leaves_the_rest_for_the_next() {
    let mut script = Script::connected(reference(), "a");
    script.batch.set_max_segments(4);
    for seq in 0..10 {
        script.data('a', seq, b"x");
    }
    let sizes: Vec<_> = script.batches().into_iter().map(|(_, replies)| replies.len()).collect();
    assert_eq!(sizes, [4, 4, 2]);
}

#[test]
fn a_batch_without_room_loses_no_reply() {
    let mut script = Script::connected(reference(), "a");
    script.data('a', 0, b"x");
    script.batch.clear();
    script.batch.set_max_segments(1);
    script.batch.slot(REPLY_LEN).unwrap();
    assert_eq!(script.listener.poll_transmit(script.now, &mut script.batch), None);
    assert_eq!(script.batch.segments(), 1);
    assert_eq!(script.replies(), [('a', ack(1, 1))]);
}

#[test]
fn a_peer_with_many_replies_does_not_keep_the_others_waiting() {
    let mut script = Script::connected(reference(), "abc");
    script.batch.set_max_segments(2);
    for seq in 0..6 {
        script.data('a', seq, b"x");
    }
    script.data('b', 0, b"x").data('c', 0, b"x");
    let order: String = script.batches().iter().map(|(peer, _)| *peer).collect();
    assert_eq!(order, "abcaa");
}

#[test]
fn replies_taken_one_by_one_go_round_the_peers() {
    let mut script = Script::connected(reference(), "abc");
    for seq in 0..3 {
        script.data('a', seq, b"x");
    }
    script.data('b', 0, b"x").data('b', 1, b"x").data('c', 0, b"x");
    let order: String = std::iter::from_fn(|| script.listener.poll_reply()).map(|(peer, _)| peer).collect();
    assert_eq!(order, "abcaba");
    assert_eq!(script.listener.poll_reply(), None);
    script.data('c', 1, b"x");
    assert_eq!(script.listener.poll_reply(), Some(('c', ack(2, 2))), "and again after a pause");
}

// Anything

/// One random datagram, mostly valid.
fn random_datagram(random: &mut impl FnMut(u64) -> u64, near: u64) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation, reason = "numbers of the wire are 32 bits")]
    let seq = match random(10) {
        0 => random(1 << 32),
        1 => near + 79_000 + random(2000),
        2 => near.saturating_sub(random(10)),
        _ => near + random(8),
    } as u32;
    let payload = vec![0x5a; usize::try_from(random(60)).unwrap()];
    let mut datagram = match random(12) {
        0 => syn(seq, LINK).to_vec(),
        1 => syn(0, LINK).to_vec(),
        2 => packet(0x80, seq, &[]),
        3 => packet(0x80, seq, &payload),
        4 => (0..random(64)).map(|_| random(256).to_le_bytes()[0]).collect(),
        5 => packet(0, seq, &[1; 1465]),
        _ => packet(0, seq, &payload),
    };
    if random(15) == 0 && !datagram.is_empty() {
        let at = usize::try_from(random(datagram.len() as u64)).unwrap();
        datagram[at] ^= 1 << random(8);
    }
    datagram
}

fn run(seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = move |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % end
    };
    let config = ListenerConfig {
        max_peers: 4,
        memory_limit: 3_000_000,
        peer_memory_limit: 2_000_000,
        ..if seed % 2 == 0 { keeping() } else { reference() }
    };
    let mut script = Script::new(config);
    let mut time = 0;
    for step in 0..3000 {
        let peer = ['a', 'b', 'c', 'd', 'e', 'f'][usize::try_from(random(6)).unwrap()];
        match random(20) {
            0 => script.listener.confirm(peer),
            1 => {
                let len = usize::try_from(random(200)).unwrap();
                script.listener.consume(peer, len);
            }
            2 if random(10) == 0 => script.listener.close(peer),
            3 => {
                time += random(2000);
                script.at(time);
            }
            4 => assert!(script.replies().len() < 10_000),
            5 => {
                script.events();
            }
            _ => {
                let near = script.listener.peers.get(&peer).map_or(0, |entry| entry.receiver.rcv_nxt());
                script.recv(peer, &random_datagram(&mut random, near));
            }
        }
        let listener = &script.listener;
        let sum: u64 = listener.peers.values().map(|entry| entry.receiver.memory()).sum();
        assert_eq!(listener.memory(), sum, "seed {seed} step {step}");
        assert!(listener.active() <= 4, "seed {seed} step {step}");
        let stats = listener.stats();
        assert!(stats.max_memory >= sum, "seed {seed} step {step}");
        // All that may exceed the limit is in order and waits to be read.
        let unread: u64 = listener.peers.values().map(|entry| entry.receiver.data().len() as u64).sum();
        assert!(seed % 2 == 0 || sum <= 3_000_000 + unread, "seed {seed} step {step}: {sum} bytes");
    }
    script.at(time + 25 * SECOND);
    assert_eq!((script.listener.active(), script.listener.memory()), (0, 0), "seed {seed}");
    assert_eq!((script.replies(), script.listener.poll_timeout()), (vec![], None), "seed {seed}");
    let stats = script.stats();
    assert!(stats.receivers.accepted > 100 && stats.malformed > 0 && stats.too_long > 0, "seed {seed}: {stats:?}");
}

#[test]
fn no_datagrams_break_the_listener_and_its_memory_returns_to_zero() {
    for seed in 1..=100 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "the failing seed is {seed}");
    }
}
