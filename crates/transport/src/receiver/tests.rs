//! One receiver alone, driven by a script of packets.

use std::collections::BTreeMap;

use super::*;
use crate::wire::{LinkProperties, Syn};

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.1, speed_bps: 14e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 13 };
/// One past the largest number of the wire.
const WRAP: u64 = 1 << 32;

/// A receiver, its clock, and the memory that it may use beyond holes.
struct Script {
    receiver: Receiver,
    epoch: Instant,
    now: Instant,
    memory: u64,
}

impl Script {
    /// No SYN yet.
    fn new(config: ReceiverConfig) -> Self {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let epoch = Instant::now();
        Self { receiver: Receiver::new(config), epoch, now: epoch, memory: 128 << 20 }
    }

    /// A transfer whose first packet is `seq`; the SYN-ACK and the event are taken out.
    fn open_at(config: ReceiverConfig, seq: u32) -> Self {
        let mut script = Self::new(config);
        script.syn(seq);
        assert_eq!(script.replies().len(), 1);
        assert_eq!(script.events(), [ReceiverEvent::Started]);
        script
    }

    /// A transfer from 0 whose bytes can be read.
    fn open() -> Self {
        Self::open_at(keeping(), 0)
    }

    fn at(&mut self, time: u64) -> &mut Self {
        self.now = self.epoch + Duration::from_millis(time);
        self
    }

    fn syn(&mut self, seq: u32) -> &mut Self {
        self.packet(&FromSender::Syn(Syn { seq, link: LINK }))
    }

    fn data(&mut self, seq: u64, payload: &[u8]) -> &mut Self {
        self.packet(&FromSender::Data { seq, payload })
    }

    fn fin(&mut self, seq: u64) -> &mut Self {
        self.packet(&FromSender::Fin { seq })
    }

    fn packet(&mut self, packet: &FromSender<'_>) -> &mut Self {
        self.receiver.handle(self.now, packet, self.memory);
        self
    }

    fn confirm(&mut self) -> &mut Self {
        self.receiver.confirm();
        self
    }

    fn replies(&mut self) -> Vec<FromReceiver> {
        std::iter::from_fn(|| self.receiver.poll_reply()).collect()
    }

    fn events(&mut self) -> Vec<ReceiverEvent> {
        std::iter::from_fn(|| self.receiver.poll_event()).collect()
    }

    fn read(&mut self) -> Vec<u8> {
        let bytes = self.receiver.data().to_vec();
        self.receiver.consume(bytes.len());
        bytes
    }
}

/// The reference receiver, but for the bytes, which can be read.
fn keeping() -> ReceiverConfig {
    ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() }
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

// SYN

#[test]
fn syn_is_answered_with_its_own_number_and_the_window_that_follows_from_it() {
    for (seq, wnd) in [
        (0, 1),
        (1, 1),
        (2, 2),
        (7, 7),
        (79_999, 79_999),
        (80_000, 80_000),
        (80_001, 80_000),
        (100_000, 80_000),
        (u32::MAX, 80_000),
    ] {
        let mut script = Script::new(ReceiverConfig::reference());
        script.syn(seq);
        assert_eq!(script.replies(), [syn_ack(u64::from(seq), wnd)]);
        assert_eq!(script.events(), [ReceiverEvent::Started]);
    }
}

#[test]
fn before_the_syn_there_is_silence() {
    let mut script = Script::new(ReceiverConfig::reference());
    script.data(0, b"x").fin(0).confirm();
    assert_eq!((script.replies(), script.events()), (vec![], vec![]));
    assert!(!script.receiver.is_unfinished());
}

#[test]
fn a_repeated_syn_before_any_data_is_answered_again() {
    let mut script = Script::open();
    script.syn(0).syn(0);
    assert_eq!(script.replies(), [syn_ack(0, 1), syn_ack(0, 1)]);
    assert_eq!(script.events(), [], "nothing began again");
    script.data(0, b"x");
    assert_eq!(script.replies(), [ack(1, 1)]);
}

#[test]
fn a_syn_in_mid_transfer_starts_it_again_from_the_syns_number() {
    for seq in [0_u32, 1, 2, 7, 100_000] {
        let first = u64::from(seq);
        let mut script = Script::open();
        script.data(0, b"old").data(1, b"old").data(5, b"held").data(8, b"held");
        script.replies();
        script.syn(seq);
        let wnd = seq.clamp(1, 80_000);
        assert_eq!(script.replies(), [syn_ack(first, wnd)]);
        assert_eq!(script.receiver.memory(), 0, "what was held is forgotten");
        for (n, byte) in b"abcdefghij".iter().enumerate() {
            script.data(first + n as u64, &[*byte]);
            let next = first + n as u64 + 1;
            assert_eq!(script.replies(), [ack(next, u32::try_from(next).unwrap().min(80_000))]);
        }
        script.fin(first + 10).confirm();
        assert_eq!(script.replies(), [fin_ack(first + 10, crc32fast::hash(b"abcdefghij"))]);
    }
}

#[test]
fn a_syn_after_the_fin_starts_a_new_transfer() {
    let mut script = Script::open();
    script.data(0, b"first").fin(1).confirm();
    script.replies();
    script.events();
    script.syn(0);
    assert_eq!(script.replies(), [syn_ack(0, 1)]);
    assert_eq!(script.events(), [ReceiverEvent::Started]);
    script.data(0, b"second").fin(1).confirm();
    assert_eq!(script.replies(), [ack(1, 1), fin_ack(1, crc32fast::hash(b"second"))]);
}

// Window

#[test]
fn window_is_the_number_of_packets_in_order_but_at_least_1() {
    let mut script = Script::open();
    let mut windows = Vec::new();
    for seq in 0..8 {
        script.data(seq, b"x");
        let [FromReceiver::Ack { ack, wnd }] = script.replies()[..] else { panic!("one ACK each") };
        assert_eq!(ack, seq + 1);
        windows.push(wnd);
    }
    assert_eq!(windows, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn window_ends_at_80000() {
    let mut script = Script::open_at(keeping(), 79_998);
    script.data(79_998, b"x").data(79_999, b"x").data(80_000, b"x").data(80_001, b"x");
    assert_eq!(
        script.replies(),
        [ack(79_999, 79_999), ack(80_000, 80_000), ack(80_001, 80_000), ack(80_002, 80_000)]
    );
}

#[test]
fn window_neither_shrinks_nor_grows_while_a_packet_is_missing() {
    let mut script = Script::open();
    for seq in 0..5 {
        script.data(seq, b"x");
    }
    script.replies();
    script.data(6, b"x").data(7, b"x").data(6, b"x").data(0, b"x");
    assert_eq!(script.replies(), [ack(5, 5); 4]);
}

#[test]
fn dummy_offers_80000_from_the_syn_ack_on_and_has_no_checksum() {
    let mut script = Script::open_at(ReceiverConfig::dummy(), 0);
    script.syn(0).data(0, b"abc").data(2, b"x").data(1, b"d").fin(3).confirm();
    let expected =
        [syn_ack(0, 80_000), ack(1, 80_000), ack(1, 80_000), ack(3, 80_000), fin_ack(3, 0)];
    assert_eq!(script.replies(), expected);
    let finished = ReceiverEvent::Finished { bytes: 5, crc: 0, elapsed: Duration::ZERO };
    assert_eq!(script.events(), [finished]);
}

// Data

#[test]
fn every_accepted_or_duplicate_packet_gets_one_ack_at_once() {
    let mut script = Script::open();
    for (seq, expected) in [(0, 1), (0, 1), (1, 2), (3, 2), (3, 2), (0, 2), (2, 4), (1, 4), (4, 5)] {
        script.data(seq, b"x");
        assert_eq!(script.replies(), [ack(expected, u32::try_from(expected).unwrap())], "packet {seq}");
    }
    let stats = script.receiver.stats();
    assert_eq!((stats.data, stats.accepted, stats.out_of_order, stats.duplicates), (9, 5, 1, 4));
}

#[test]
fn filling_a_hole_acknowledges_everything_behind_it() {
    let mut script = Script::open();
    for seq in [5, 3, 1, 2, 6] {
        script.data(seq, &[u8::try_from(seq).unwrap()]);
    }
    assert_eq!(script.replies(), [ack(0, 1); 5]);
    script.data(0, &[0]);
    assert_eq!(script.replies(), [ack(4, 4)]);
    script.data(4, &[4]);
    assert_eq!(script.replies(), [ack(7, 7)]);
    assert_eq!(script.read(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn packets_are_accepted_up_to_80000_ahead_whatever_window_was_offered() {
    let mut script = Script::open();
    script.data(80_000, b"too far");
    assert_eq!(script.replies(), []);
    script.data(79_999, b"far").data(1, b"b").data(79_999, b"far");
    assert_eq!(script.replies(), [ack(0, 1); 3], "offered: 1");
    script.data(0, b"a");
    assert_eq!(script.replies(), [ack(2, 2)]);
    script.data(80_001, b"now in range").data(80_002, b"not yet");
    assert_eq!(script.replies(), [ack(2, 2)]);
    assert_eq!(script.receiver.stats().out_of_range, 2);
}

#[test]
fn old_packets_are_answered_down_to_80000_below_the_expected_one() {
    let mut script = Script::open_at(keeping(), 100_000);
    for (seq, answered) in [(99_999, true), (20_001, true), (20_000, true), (19_999, false), (0, false)] {
        script.data(seq, b"old");
        let expected = if answered { vec![ack(100_000, 80_000)] } else { vec![] };
        assert_eq!(script.replies(), expected, "packet {seq}");
    }
    assert_eq!(script.read(), [], "none of it is data");
}

#[test]
fn empty_and_short_packets_may_occur_anywhere() {
    let mut script = Script::open();
    script.data(0, b"ab").data(1, b"").data(3, b"").data(2, b"c").data(4, b"defg").fin(5).confirm();
    let crc = crc32fast::hash(b"abcdefg");
    assert_eq!(
        script.replies(),
        [ack(1, 1), ack(2, 2), ack(2, 2), ack(4, 4), ack(5, 5), fin_ack(5, crc)]
    );
    assert_eq!(script.read(), b"abcdefg");
}

#[test]
fn a_duplicate_does_not_replace_what_is_held() {
    let mut script = Script::open();
    script.data(1, b"first").data(1, b"second").data(0, b"-").data(0, b"again");
    assert_eq!(script.read(), b"-first");
}

#[test]
fn numbers_go_on_beyond_32_bits() {
    let mut script = Script::open_at(keeping(), u32::MAX - 1);
    for seq in [WRAP - 2, WRAP, WRAP - 1, WRAP + 1, WRAP + 2 + 80_000, WRAP - 1] {
        script.data(seq, &seq.to_le_bytes()[..1]);
    }
    let wnd = 80_000;
    let expected =
        [ack(WRAP - 1, wnd), ack(WRAP - 1, wnd), ack(WRAP + 1, wnd), ack(WRAP + 2, wnd), ack(WRAP + 2, wnd)];
    assert_eq!(script.replies(), expected);
    script.fin(WRAP + 2).confirm();
    assert_eq!(script.replies(), [fin_ack(WRAP + 2, crc32fast::hash(&[254, 255, 0, 1]))]);
}

// FIN

#[test]
fn fin_is_accepted_only_with_the_expected_number_and_nothing_held() {
    let mut script = Script::open();
    script.data(0, b"a").data(1, b"b").data(3, b"d");
    script.replies();
    script.events();
    for seq in [0, 1, 2, 3, 4, 5] {
        script.fin(seq).confirm();
        assert_eq!((script.replies(), script.events()), (vec![], vec![]), "FIN {seq} with 3 held");
    }
    script.data(2, b"c");
    assert_eq!(script.replies(), [ack(4, 4)]);
    for seq in [0, 3, 5] {
        script.fin(seq).confirm();
        assert_eq!((script.replies(), script.events()), (vec![], vec![]), "FIN {seq}, expected 4");
    }
    script.fin(4).confirm();
    assert_eq!(script.replies(), [fin_ack(4, crc32fast::hash(b"abcd"))]);
}

#[test]
fn fin_is_answered_only_after_the_application_confirmed() {
    let mut script = Script::open();
    script.data(0, b"abc");
    script.replies();
    script.events();
    script.fin(1).fin(1);
    let finished = ReceiverEvent::Finished { bytes: 3, crc: crc32fast::hash(b"abc"), elapsed: Duration::ZERO };
    assert_eq!(script.events(), [finished], "told once");
    assert_eq!(script.replies(), []);
    assert!(script.receiver.is_unfinished());
    script.confirm().confirm();
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc"))]);
    assert!(!script.receiver.is_unfinished());
}

#[test]
fn a_syn_while_the_application_stores_the_transfer_waits_for_its_repetition() {
    let mut script = Script::open();
    script.data(0, b"abc").fin(1);
    script.replies();
    script.syn(0);
    assert_eq!(script.replies(), []);
    assert_eq!(script.read(), b"abc", "what is being stored stays");
    script.confirm().syn(0);
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc")), syn_ack(0, 1)]);
}

#[test]
fn a_repeated_fin_gets_the_same_answer() {
    let mut script = Script::open();
    script.data(0, b"abc").fin(1).confirm();
    script.replies();
    script.events();
    script.fin(1).fin(1).fin(0).fin(2);
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc")); 2]);
    assert_eq!(script.events(), []);
}

#[test]
fn data_after_the_fin_meets_silence() {
    let mut script = Script::open();
    script.data(0, b"abc").fin(1);
    script.replies();
    script.data(0, b"abc").data(1, b"more");
    assert_eq!(script.replies(), [], "before the FIN-ACK");
    script.confirm().data(0, b"abc").data(1, b"more").data(2, b"more");
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc"))]);
    assert_eq!(script.read(), b"abc");
}

#[test]
fn fin_at_once_after_the_syn_has_checksum_0() {
    for seq in [0_u32, 7] {
        let mut script = Script::open_at(keeping(), seq);
        script.fin(u64::from(seq)).confirm();
        assert_eq!(script.replies(), [fin_ack(u64::from(seq), 0)]);
        let finished = ReceiverEvent::Finished { bytes: 0, crc: 0, elapsed: Duration::ZERO };
        assert_eq!(script.events(), [finished]);
    }
}

// The application's side

#[test]
fn events_come_in_the_order_of_a_transfer() {
    let mut script = Script::new(keeping());
    script.syn(0).at(10).data(0, b"abc").at(25).data(1, b"de").at(40).data(1, b"de").at(50).fin(2).confirm();
    let elapsed = Duration::from_millis(15);
    let expected = [
        ReceiverEvent::Started,
        ReceiverEvent::Readable,
        ReceiverEvent::Finished { bytes: 5, crc: crc32fast::hash(b"abcde"), elapsed },
    ];
    assert_eq!(script.events(), expected);
    assert_eq!(script.read(), b"abcde", "still there after the FIN");
}

#[test]
fn readable_is_told_once_until_everything_was_read() {
    let mut script = Script::open();
    script.data(0, b"ab").data(1, b"cd");
    assert_eq!(script.events(), [ReceiverEvent::Readable]);
    script.data(2, b"ef");
    assert_eq!(script.events(), [], "the application knows");
    assert_eq!(script.read(), b"abcdef");
    script.data(4, b"beyond a hole").data(5, b"");
    assert_eq!(script.events(), []);
    script.data(3, b"");
    assert_eq!(script.events(), [ReceiverEvent::Readable]);
}

#[test]
fn bytes_may_be_read_in_pieces() {
    let mut script = Script::open();
    script.data(0, b"abcdef");
    script.receiver.consume(2);
    assert_eq!(script.receiver.data(), b"cdef");
    script.data(1, b"gh");
    script.receiver.consume(3);
    assert_eq!(script.receiver.data(), b"fgh");
    script.receiver.consume(1000);
    assert_eq!((script.receiver.data(), script.receiver.memory()), (&b""[..], 0));
}

#[test]
fn without_keeping_bytes_are_counted_and_checked_only() {
    let mut script = Script::open_at(ReceiverConfig::reference(), 0);
    script.data(0, b"abc").data(1, b"de").fin(2);
    let (bytes, crc) = (5, crc32fast::hash(b"abcde"));
    assert_eq!(script.events(), [ReceiverEvent::Finished { bytes, crc, elapsed: Duration::ZERO }]);
    assert_eq!((script.receiver.data(), script.receiver.memory()), (&b""[..], 0));
}

#[test]
fn starting_again_voids_what_was_not_read() {
    let mut script = Script::open();
    script.data(0, b"old");
    script.syn(0).data(0, b"new");
    let mut transfers = Vec::new();
    // An application that reads whatever is there whenever it is told something.
    while let Some(event) = script.receiver.poll_event() {
        if event == ReceiverEvent::Started {
            transfers.push(Vec::new());
        } else {
            let bytes = script.read();
            transfers.last_mut().expect("bytes of no transfer").extend(bytes);
        }
    }
    assert_eq!(transfers, [b"new"]);
}

#[test]
fn in_order_data_needs_no_memory_beyond_holes() {
    let mut script = Script::open();
    script.memory = 0;
    script.data(0, b"a").data(2, b"c").data(1, b"b").data(2, b"c");
    assert_eq!(script.replies(), [ack(1, 1), ack(2, 2), ack(3, 3)], "packet 2 was dropped without a word");
    let stats = script.receiver.stats();
    assert_eq!((stats.no_memory, stats.accepted, stats.duplicates), (1, 3, 0));
    assert_eq!(script.read(), b"abc");
}

#[test]
fn in_order_bytes_are_counted_as_they_come() {
    let mut script = Script::open();
    script.data(0, b"abc").data(2, b"f").data(0, b"abc");
    assert_eq!(script.receiver.stats().bytes, 3);
    script.data(1, b"de").fin(3).confirm();
    assert_eq!(script.receiver.stats().bytes, 6);
    script.syn(0).data(0, b"xyz");
    assert_eq!(script.receiver.stats().bytes, 9, "over all transfers");
}

#[test]
fn replies_that_nobody_takes_are_bounded_and_the_latest_stay() {
    let mut script = Script::open();
    for seq in 0..20_000 {
        script.data(seq, b"");
    }
    let replies = script.replies();
    assert!((1..=4096).contains(&replies.len()), "{} replies", replies.len());
    assert_eq!(replies.last(), Some(&ack(20_000, 20_000)));
}

/// What the protocol says, in the plainest form.
#[derive(Default)]
struct Model {
    expected: u64,
    held: BTreeMap<u64, Vec<u8>>,
    delivered: Vec<u8>,
    open: bool,
    fin: Option<FromReceiver>,
}

impl Model {
    fn reply(&mut self, packet: &FromSender<'_>) -> Option<FromReceiver> {
        match *packet {
            FromSender::Syn(syn) => {
                *self = Self { expected: u64::from(syn.seq), open: true, ..Self::default() };
                Some(syn_ack(self.expected, self.window()))
            }
            FromSender::Data { seq, payload } => {
                let ahead = seq < self.expected + 80_000 && seq + 80_000 >= self.expected;
                if !self.open || self.fin.is_some() || !ahead {
                    return None;
                }
                if seq >= self.expected {
                    self.held.entry(seq).or_insert_with(|| payload.to_vec());
                }
                while let Some(payload) = self.held.remove(&self.expected) {
                    self.delivered.extend(payload);
                    self.expected += 1;
                }
                Some(ack(self.expected, self.window()))
            }
            FromSender::Fin { seq } => {
                if self.open && seq == self.expected && self.held.is_empty() {
                    self.fin = Some(fin_ack(seq, crc32fast::hash(&self.delivered)));
                }
                self.fin.filter(|_| seq == self.expected)
            }
        }
    }

    fn window(&self) -> u32 {
        u32::try_from(self.expected.clamp(1, 80_000)).unwrap()
    }
}

#[test]
fn replies_to_any_sequence_of_packets_are_those_of_a_plain_model() {
    for seed in 1..=300_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = move |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % end
        };
        let (mut script, mut model) = (Script::new(keeping()), Model::default());
        for step in 0..400 {
            let near = model.expected + random(6);
            let seq = match random(30) {
                0 => near + 79_990 + random(20),
                1 => near.saturating_sub(79_990 + random(20)),
                2 | 3 => near.saturating_sub(random(6)),
                _ => near,
            };
            let payload = vec![random(256).to_le_bytes()[0]; usize::try_from(random(4)).unwrap()];
            let packet = match random(40) {
                0 => FromSender::Syn(Syn { seq: u32::try_from(random(200_000)).unwrap(), link: LINK }),
                1 | 2 => FromSender::Fin { seq },
                _ => FromSender::Data { seq, payload: &payload },
            };
            let expected = model.reply(&packet);
            script.packet(&packet).confirm();
            assert_eq!(script.replies(), Vec::from_iter(expected), "seed {seed} step {step}: {packet:?}");
            assert_eq!(script.receiver.data(), model.delivered, "seed {seed} step {step}: {packet:?}");
        }
    }
}
