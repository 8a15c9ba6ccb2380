//! Selective ACKs of each kind of packet: when they are sent, and what they count.

use super::*;

/// A native receiver that keeps its bytes.
fn open() -> Script {
    Script::native(keeping())
}

/// Handles packet `number` with ten bytes from `seq` on. Returns its ACK, if that is due at once.
fn ack_of(script: &mut Script, number: u64, seq: u64) -> Option<native::Ack> {
    script.native_data(number, seq, &[7; 10], false);
    script.native_acks().pop().map(|(ack, _)| ack)
}

#[test]
fn every_second_packet_in_order_is_acknowledged() {
    let mut script = open();
    let acks: Vec<_> = (0..6).map(|n| ack_of(&mut script, n, 10 * n).is_some()).collect();
    assert_eq!(acks, [false, true, false, true, false, true]);
}

#[test]
fn hole_and_its_repair_are_acknowledged_at_once() {
    let mut script = open();
    assert_eq!(ack_of(&mut script, 0, 0), None);
    assert!(ack_of(&mut script, 1, 10).is_some());
    assert_eq!(ack_of(&mut script, 2, 30).map(|ack| ack.ack), Some(20), "beyond a hole");
    assert_eq!(ack_of(&mut script, 3, 20).map(|ack| ack.ack), Some(40), "the hole is filled");
    assert_eq!(ack_of(&mut script, 4, 40), None, "in order again");
}

#[test]
fn repeated_packet_counts_as_duplicate() {
    let mut script = open();
    ack_of(&mut script, 0, 0);
    let ack = ack_of(&mut script, 1, 0).unwrap();
    assert_eq!((ack.ack, ack.packets, ack.duplicates), (10, 2, 1));
}

#[test]
fn refused_packet_is_no_duplicate() {
    let mut script = open();
    ack_of(&mut script, 0, 0);
    let ack = ack_of(&mut script, 1, 1 << 40).unwrap();
    assert_eq!((ack.ack, ack.packets, ack.duplicates), (10, 2, 0), "beyond the window");
}
