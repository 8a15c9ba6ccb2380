//! The SYN: bytes, retransmission, and the state after the SYN-ACK.

use std::time::Duration;

use rdt_udp::clock;

use crate::array::{PUBLISHED, array};
use crate::peer::{Packet, Peer, SLOWLY};
use crate::wire::{CAPTURED_SYN, Link};

#[test]
fn syn_matches_captured_bytes() {
    let mut peer = Peer::start("10 0.1 0 14 --buffer 13 --power 0");
    peer.expect(Packet::Syn);
    assert_eq!(peer.syn(), CAPTURED_SYN);
}

#[test]
fn syn_carries_arguments() {
    for (line, link) in [
        ("300 0.2 0/0.1 10", Link { rtt: 0.2, speed: 1e7, loss: [0.0, 0.1], buffer: 350 }),
        ("1 0 0.00001/0.9999 10000", Link { rtt: 0.0, speed: 1e10, loss: [0.00001, 0.9999], buffer: 51 }),
        (
            "5 29.5 0.3 0.0005 --buffer 1000000",
            Link { rtt: 29.5, speed: 500.0, loss: [0.3, 0.0], buffer: 1_000_000 },
        ),
    ] {
        let mut peer = Peer::start(line);
        peer.expect(Packet::Syn);
        assert_eq!(peer.syn(), link.syn(0), "{line}");
    }
}

#[test]
fn syn_repeats_every_second_then_status_5() {
    let mut peer = Peer::start("10 0.1 0 14 --power 0 --attempts 3/50/50");
    peer.expect(Packet::Syn);
    for _ in 0..2 {
        let start = clock::now();
        peer.expect(Packet::Syn);
        let gap = clock::now() - start;
        assert!(gap > Duration::from_millis(800), "the SYN is repeated after {gap:?}");
    }
    assert_eq!(peer.listen(), []);
    peer.finish().expect(5).printed("Main:\tconnect failed with status 5");
}

#[test]
fn syn_timeout_is_two_rtts_above_1s() {
    let mut peer = Peer::start("10 0.75 0 14 --power 0");
    peer.expect(Packet::Syn);
    let start = clock::now();
    peer.expect(Packet::Syn);
    let gap = clock::now() - start;
    assert!(gap > Duration::from_millis(1300), "the SYN is repeated after {gap:?}");
}

#[test]
fn handshake_rtt_counts_from_last_syn() {
    let mut peer = Peer::start("10 0.1 0 14 --power 0");
    peer.expect(Packet::Syn);
    peer.connect(1);
    peer.expect(Packet::Data(0));
    let start = clock::now();
    peer.expect(Packet::Data(0));
    let gap = clock::now() - start;
    // If measured from the first SYN, the timeout would be 3 s.
    assert!(gap < Duration::from_secs(2), "the first timeout is {gap:?}");
    peer.complete().expect(0);
}

#[test]
fn first_timeout_is_three_handshake_rtts() {
    let mut peer = Peer::start("10 0.1 0 14 --power 0");
    peer.connect_after(SLOWLY, 1);
    peer.expect(Packet::Data(0));
    let start = clock::now();
    peer.expect(Packet::Data(0));
    let gap = clock::now() - start;
    assert!(gap > 2 * SLOWLY, "the retransmission came after {gap:?}");
    peer.complete().expect(0);
}

#[test]
fn array_is_sent_in_1464_byte_pieces() {
    for (power, checksum, packets, last) in PUBLISHED {
        let mut peer = Peer::start(&format!("20 0.1 0 14 --power {power}"));
        peer.connect(1);
        let fin = peer.serve();
        assert_eq!((fin, peer.expected()), (packets, packets), "2^{power} words");
        for seq in 0..packets {
            let wanted = if seq + 1 == packets { last } else { 1464 };
            assert_eq!(peer.piece(seq).len(), wanted, "2^{power} words, packet {seq}");
        }
        assert_eq!(peer.payload(), array(power), "2^{power} words");
        peer.close(checksum).expect(0);
    }
}

#[test]
fn packet_size_sets_payload_length() {
    for (size, pieces) in [(9, vec![1; 10]), (11, vec![3, 3, 3, 1]), (8972, vec![10])] {
        let mut peer = Peer::start(&format!("20 0.1 0 14 --bytes 10 --packet-size {size}"));
        peer.connect(100);
        let fin = peer.serve();
        let found: Vec<_> = (0..fin).map(|seq| peer.piece(seq).len()).collect();
        assert_eq!(found, pieces, "packet size {size}");
        peer.complete().expect(0);
    }
}

#[test]
fn empty_transfer_is_syn_and_fin_0() {
    let mut peer = Peer::start("20 0.1 0 14 --bytes 0");
    peer.connect(1);
    peer.expect(Packet::Fin(0));
    peer.close(0).expect(0);
}
