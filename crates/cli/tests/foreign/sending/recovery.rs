//! Retransmission of the base (the oldest unacknowledged packet), after a timeout or on the third
//! duplicate ACK.

use std::collections::BTreeSet;
use std::time::Duration;

use rdt_udp::clock;

use crate::peer::{BRIEFLY, Packet, Peer, SLOWLY};
use crate::process::Outcome;
use crate::scan::{FAST, scan};
use crate::wire::ack;

/// Options for 41 packets of 100 bytes.
const DATA: &str = "--power 10 --packet-size 108";

#[test]
fn timeout_repeats_only_base() {
    let mut peer = Peer::start(&format!("10 0.1 0 14 {DATA}"));
    peer.connect_after(Duration::from_millis(100), 10);
    peer.expect_data(0..10);
    let start = clock::now();
    for _ in 0..2 {
        peer.expect(Packet::Data(0));
    }
    let time = clock::now() - start;
    assert!(time > Duration::from_millis(500), "two timeouts of 300 ms took {time:?}");
    // Half of the window arrives. No other packet is retransmitted before it is the base.
    peer.send(&ack(10, 4));
    peer.expect_data(10..14);
    let start = clock::now();
    for _ in 0..2 {
        peer.expect(Packet::Data(4));
    }
    // The ACK of a retransmitted packet is no RTT sample, so the timeout remains the same. It does
    // not back off either.
    let time = clock::now() - start;
    assert!(time > Duration::from_millis(500), "two timeouts of 300 ms took {time:?}");
    assert!(time < Duration::from_millis(2500), "two timeouts of 300 ms took {time:?}");
    peer.complete().expect(0);
}

#[test]
fn third_dup_ack_repeats_base_once() {
    let mut peer = Peer::start(&format!("10 0.1 0 14 --debug {DATA}"));
    peer.connect_after(SLOWLY, 10);
    peer.expect_data(0..10);
    for base in [0, 3] {
        for _ in 0..2 {
            peer.send(&ack(10, base));
        }
        peer.raw.quiet(BRIEFLY);
        peer.send(&ack(10, base));
        peer.expect(Packet::Data(base));
        for _ in 3..99 {
            peer.send(&ack(10, base));
        }
        peer.raw.quiet(BRIEFLY);
        // Each base is retransmitted once.
        peer.send(&ack(10, base + 3));
        peer.expect_data(base + 10..base + 13);
    }
    assert_eq!(fast(peer.complete().expect(0)), ["0", "3"]);
}

#[test]
fn ack_below_base_is_no_duplicate() {
    let mut peer = Peer::start(&format!("10 0.1 0 14 --debug {DATA}"));
    peer.connect_after(SLOWLY, 10);
    peer.expect_data(0..10);
    peer.send(&ack(10, 5));
    peer.expect_data(10..15);
    for number in [0, 1, 4, 4, 4, 4] {
        peer.send(&ack(100, number));
    }
    peer.raw.quiet(BRIEFLY);
    // The third duplicate ACK of the base still triggers a retransmission.
    for _ in 0..3 {
        peer.send(&ack(10, 5));
    }
    peer.expect(Packet::Data(5));
    peer.raw.quiet(BRIEFLY);
    assert_eq!(fast(peer.complete().expect(0)), ["5"]);
}

#[test]
fn dup_acks_fill_holes_in_turn() {
    let mut peer = Peer::start(&format!("20 0.1 0 14 --debug {DATA}"));
    peer.connect_after(SLOWLY, 20);
    peer.expect_data(0..20);
    // Packets 0, 5 and 6 are lost, the others arrived.
    for hole in [0, 5, 6] {
        // After the first hole, one ACK more is needed, because the first one advances the base.
        for _ in 0..3 + u32::from(hole > 0) {
            peer.send(&ack(1, hole));
        }
        peer.expect(Packet::Data(hole));
        peer.raw.quiet(BRIEFLY);
    }
    peer.send(&ack(20, 20));
    peer.expect_data(20..40);
    assert_eq!(fast(peer.complete().expect(0)), ["0", "5", "6"]);
}

/// Returns the printed lines about fast retransmissions.
fn fast(outcome: &Outcome) -> Vec<&str> {
    outcome.out.iter().filter_map(|line| scan(FAST, line)).map(|fields| fields[1]).collect()
}

#[test]
fn duplicated_reversed_acks_do_no_harm() {
    let mut peer = Peer::start("8 0.001 0 100 --power 15");
    peer.connect(8);
    let mut pending = Vec::new();
    while !matches!(peer.next(), Packet::Fin(_)) {
        pending.push(ack(8, peer.expected()));
        if pending.len() == 4 {
            for ack in pending.drain(..).rev() {
                peer.send(&ack);
                peer.send(&ack);
            }
        }
    }
    peer.complete().expect(0);
}

#[test]
fn ack_for_every_tenth_packet_suffices() {
    let mut peer = Peer::start("25 0.001 0 100 --power 15");
    peer.connect(25);
    let mut count = 0;
    while !matches!(peer.next(), Packet::Fin(_)) {
        count += 1;
        if count % 10 == 0 {
            peer.send(&ack(25, peer.expected()));
        }
    }
    peer.complete().expect(0);
}

#[test]
fn transfer_survives_loss_of_every_third_packet() {
    let mut peer = Peer::start("10 0.001 0 100 --power 14");
    peer.connect(10);
    let (mut lost, mut arrived, mut base) = (BTreeSet::new(), BTreeSet::new(), 0);
    while let Packet::Data(seq) = peer.next() {
        if seq % 3 == 0 && lost.insert(seq) {
            continue;
        }
        arrived.insert(seq);
        while arrived.contains(&base) {
            base += 1;
        }
        peer.send(&ack(10, base));
    }
    assert_eq!(base, 45);
    peer.complete().expect(0);
}
