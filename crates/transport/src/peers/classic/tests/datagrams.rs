//! Validation of datagrams.

use super::*;

#[test]
fn captured_exchange_matches_byte_for_byte() {
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
    script.set.confirm_classic('a');
    // A FIN-ACK carries the CRC-32 in the window field: DD9EB80C.
    assert_eq!(script.datagrams(), [[0xc0, 0xaa, 0x11, 0x83, 0x0c, 0xb8, 0x9e, 0xdd, 2, 0, 0, 0]]);
}

#[test]
fn classic_syn_must_be_28_bytes() {
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
fn syn_with_invalid_link_is_dropped() {
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
fn wrong_magic_or_flags_are_dropped() {
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
    assert_eq!(script.replies(), [('a', ack(1, 1))], "the connection still works");
}

#[test]
fn fin_may_have_trailing_bytes() {
    for trailing in [0, 1, 20, 1464] {
        let mut script = Script::connected(reference(), "a");
        script.data('a', 0, b"abc").recv('a', &packet(0x80, 1, &vec![0x55; trailing]));
        script.set.confirm_classic('a');
        let crc = crc32fast::hash(b"abc");
        assert_eq!(script.replies(), [('a', ack(1, 1)), ('a', fin_ack(1, crc))], "{trailing} bytes more");
    }
}

#[test]
fn datagram_over_1472_bytes_is_dropped() {
    let mut script = Script::connected(reference(), "a");
    assert!(script.is_dropped('a', &packet(0, 0, &[1; 1465])));
    assert!(script.is_dropped('a', &packet(0, 0, &vec![1; 65_499])));
    assert!(script.is_dropped('a', &packet(0x80, 0, &[0; 1465])), "also a FIN");
    assert_eq!(script.stats().too_long, 3);
    script.data('a', 0, &[1; 1464]);
    assert_eq!(script.replies(), [('a', ack(1, 1))]);
}

#[test]
fn dummy_accepts_any_datagram_size() {
    let mut script = Script::new(Config::new(ReceiverConfig::dummy()));
    script.syn('a', 0).data('a', 0, &[1; 8972 - 8]).data('a', 1, &vec![1; 65_507 - 8]).fin('a', 2);
    script.set.confirm_classic('a');
    let expected = [syn_ack(0, 80_000), ack(1, 80_000), ack(2, 80_000), fin_ack(2, 0)];
    assert_eq!(script.batches(), [('a', expected.to_vec())]);
}

#[test]
fn dummy_checks_syn_like_reference() {
    let mut script = Script::new(Config::new(ReceiverConfig::dummy()));
    assert!(script.is_dropped('a', &syn(0, LinkProperties { buffer: 0, ..LINK })));
    assert!(script.is_dropped('a', &[&syn(0, LINK)[..], &[0]].concat()));
}

#[test]
fn classic_packets_without_connection_are_dropped() {
    let mut script = Script::connected(reference(), "a");
    assert!(script.is_dropped('b', &packet(0, 0, b"x")));
    assert!(script.is_dropped('b', &packet(0x80, 0, b"")));
    assert_eq!((script.stats().no_connection, script.set.classic().active()), (2, 1));
    assert!(script.set.classic.knows('a') && !script.set.classic.knows('b'));
}

#[test]
fn classic_numbers_wrap_at_32_bits() {
    let mut script = Script::new(keeping());
    script.syn('a', u32::MAX - 1);
    for seq in [u32::MAX - 1, 0, u32::MAX, 1, u32::MAX - 1] {
        script.data('a', seq, &seq.to_le_bytes()[..1]);
    }
    script.fin('a', 2);
    script.set.confirm_classic('a');
    let sent = script.datagrams();
    let numbers: Vec<_> = sent.iter().map(|d| u32::from_le_bytes(d[8..12].try_into().unwrap())).collect();
    assert_eq!(numbers, [u32::MAX - 1, u32::MAX, u32::MAX, 1, 2, 2, 2]);
    assert_eq!(script.set.classic().data('a').unwrap(), [254, 255, 0, 1]);
}
