//! Windows, ACKs, and the order of packets.

use super::*;

#[test]
fn window_counts_packets_in_order_at_least_one() {
    let mut script = Script::open();
    let mut windows = Vec::new();
    for seq in 0..8 {
        script.data(seq, b"x");
        let [FromReceiver::Ack(Ack { ack, window, .. })] = script.replies()[..] else {
            panic!("one ACK each")
        };
        assert_eq!(ack, seq + 1);
        windows.push(window);
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
fn window_is_constant_while_a_packet_is_missing() {
    let mut script = Script::open();
    for seq in 0..5 {
        script.data(seq, b"x");
    }
    script.replies();
    script.data(6, b"x").data(7, b"x").data(6, b"x").data(0, b"x");
    assert_eq!(script.replies(), [ack(5, 5); 4]);
}

#[test]
fn dummy_offers_80000_and_has_no_checksum() {
    let mut script = Script::open_at(ReceiverConfig::dummy(), 0);
    script.syn(0).data(0, b"abc").data(2, b"x").data(1, b"d").fin(3).confirm();
    let expected = [syn_ack(0, 80_000), ack(1, 80_000), ack(1, 80_000), ack(3, 80_000), fin_ack(3, 0)];
    assert_eq!(script.replies(), expected);
    let finished = ReceiverEvent::Finished { bytes: 5, crc: 0, elapsed: Duration::ZERO };
    assert_eq!(script.events(), [finished]);
}

#[test]
fn accepted_or_duplicate_packet_gets_one_ack() {
    let mut script = Script::open();
    for (seq, expected) in [(0, 1), (0, 1), (1, 2), (3, 2), (3, 2), (0, 2), (2, 4), (1, 4), (4, 5)] {
        script.data(seq, b"x");
        assert_eq!(script.replies(), [ack(expected, u32::try_from(expected).unwrap())], "packet {seq}");
    }
    let stats = script.receiver.stats();
    assert_eq!((stats.data, stats.accepted, stats.out_of_order, stats.duplicates), (9, 5, 1, 4));
}

#[test]
fn filled_hole_acknowledges_everything_behind_it() {
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
fn packets_below_80000_ahead_are_accepted() {
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
fn packets_80000_behind_are_answered() {
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
    assert_eq!(script.replies(), [ack(1, 1), ack(2, 2), ack(2, 2), ack(4, 4), ack(5, 5), fin_ack(5, crc)]);
    assert_eq!(script.read(), b"abcdefg");
}

#[test]
fn duplicate_does_not_replace_held_packet() {
    let mut script = Script::open();
    script.data(1, b"first").data(1, b"second").data(0, b"-").data(0, b"again");
    assert_eq!(script.read(), b"-first");
}

#[test]
fn numbers_continue_beyond_32_bits() {
    let mut script = Script::open_at(keeping(), u32::MAX - 1);
    for seq in [WRAP - 2, WRAP, WRAP - 1, WRAP + 1, WRAP + 2 + 80_000, WRAP - 1] {
        script.data(seq, &seq.to_le_bytes()[..1]);
    }
    let window = 80_000;
    let expected = [
        ack(WRAP - 1, window),
        ack(WRAP - 1, window),
        ack(WRAP + 1, window),
        ack(WRAP + 2, window),
        ack(WRAP + 2, window),
    ];
    assert_eq!(script.replies(), expected);
    script.fin(WRAP + 2).confirm();
    assert_eq!(script.replies(), [fin_ack(WRAP + 2, crc32fast::hash(&[254, 255, 0, 1]))]);
}
