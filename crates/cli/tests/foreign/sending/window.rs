//! Window limit: min(W, window of the receiver) packets from the base on.

use crate::peer::{BRIEFLY, Packet, Peer, SLOWLY};
use crate::wire::ack;

/// Options for 300 packets of 100 bytes.
const DATA: &str = "--bytes 30000 --packet-size 108";

#[test]
fn window_opens_shrinks_closes_and_reopens() {
    let mut peer = Peer::start(&format!("100 0.1 0 14 {DATA}"));
    peer.connect_after(SLOWLY, 4);
    peer.expect_data(0..4);
    peer.nothing_new(BRIEFLY);
    let mut next = 4;
    // Number of an ACK, its window, and the first packet beyond the window.
    for (number, window, edge) in [
        (1, 4, 5),
        (2, 8, 10),
        (10, 100, 110),
        (11, 5, 110),
        (105, 5, 110),
        (106, 5, 111),
        (108, 0, 111),
        (110, 1, 111),
        (111, 3, 114),
        // W is smaller than this window.
        (112, 80_000, 212),
        (113, u32::MAX, 213),
        (213, 1, 214),
    ] {
        peer.send(&ack(window, number));
        peer.expect_data(next..edge);
        next = edge;
        peer.nothing_new(BRIEFLY);
    }
    peer.complete().expect(0);
}

#[test]
fn zero_window_is_probed_with_one_packet() {
    let mut peer = Peer::start(&format!("100 0.1 0 14 {DATA}"));
    peer.connect_after(SLOWLY, 0);
    for seq in 0..3 {
        peer.expect(Packet::Data(seq));
        peer.nothing_new(BRIEFLY);
        peer.send(&ack(0, seq + 1));
    }
    peer.complete().expect(0);
}

#[test]
fn duplicate_ack_changes_window() {
    let mut peer = Peer::start(&format!("100 0.1 0 14 {DATA}"));
    peer.connect_after(SLOWLY, 2);
    peer.expect_data(0..2);
    peer.nothing_new(BRIEFLY);
    peer.send(&ack(5, 0));
    peer.expect_data(2..5);
    peer.nothing_new(BRIEFLY);
    peer.send(&ack(1, 0));
    peer.send(&ack(6, 1));
    peer.expect_data(5..7);
    peer.nothing_new(BRIEFLY);
    peer.complete().expect(0);
}

#[test]
fn reference_window_doubles_flight_up_to_w() {
    let mut peer = Peer::start(&format!("30 0.1 0 14 {DATA}"));
    peer.connect_after(SLOWLY, 1);
    // All packets of a flight arrive before their ACKs are sent one by one.
    let mut flights = Vec::new();
    let (mut first, mut edge) = (0, 1);
    while edge < 150 {
        peer.expect_data(first..edge);
        peer.nothing_new(BRIEFLY);
        flights.push(edge - first);
        let acked = first..edge;
        first = edge;
        for number in acked.map(|seq| seq + 1) {
            peer.send(&ack(number, number));
            edge = edge.max(number + number.min(30));
        }
    }
    assert_eq!(flights, [1, 1, 2, 4, 8, 16, 30, 30, 30]);
    peer.expect_data(first..edge);
    peer.complete().expect(0);
}
