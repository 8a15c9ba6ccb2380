//! Selective ACKs of each kind of packet: when they are sent, and what they count.

use super::*;
use crate::wire::Wire;
use crate::wire::native::{self, SackBlocks};

/// A native receiver that keeps its bytes and has answered its SYN.
fn open() -> Script {
    open_with(keeping())
}

fn open_with(config: ReceiverConfig) -> Script {
    let mut script = Script::new(config);
    let wire = Wire::Native { connection_id: 7 };
    let open = Open { wire, seq: 0, cookie: None, link: None, params: None, name: None };
    script.receiver.handle(script.now, &FromSender::Syn(open), Ecn::NotEct, script.memory);
    assert!(script.receiver.poll_reply(script.now, &mut [0; MAX_REPLY]).is_some());
    script
}

/// Handles packet `number` with ten bytes from `seq` on. Returns its ACK, if that is due at once.
fn ack_of(script: &mut Script, number: u64, seq: u64) -> Option<Ack<'static>> {
    ack_of_payload(script, number, seq, &[7; 10])
}

fn ack_of_payload(script: &mut Script, number: u64, seq: u64, payload: &[u8]) -> Option<Ack<'static>> {
    let crc = Some(crc32fast::hash(payload));
    let piece = Piece { seq, payload, packet_number: Some(number), crc, ack_now: false, ack_every: 0 };
    script.receiver.handle(script.now, &FromSender::Data(piece), Ecn::NotEct, script.memory);
    let mut out = [0; MAX_REPLY];
    let len = script.receiver.poll_reply(script.now, &mut out)?;
    match native::decode_from_receiver(&out[..len], number) {
        Ok(FromReceiver::Ack(ack)) => Some(Ack { sack: SackBlocks::default(), ..ack }),
        other => panic!("{other:?}"),
    }
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
    assert_eq!((ack.ack, ack.marks.unwrap().packets, ack.duplicates), (10, 2, Some(1)));
}

#[test]
fn refused_packet_is_no_duplicate() {
    let mut script = open();
    ack_of(&mut script, 0, 0);
    let ack = ack_of(&mut script, 1, 1 << 40).unwrap();
    assert_eq!((ack.ack, ack.marks.unwrap().packets, ack.duplicates), (10, 2, Some(0)), "beyond the window");
}

#[test]
fn newest_transmission_expands_later_numbers() {
    let mut script = open();
    ack_of(&mut script, 9, 0);
    ack_of(&mut script, 4, 10);
    assert_eq!(script.receiver.near().packet_number, 9);
}

/// Ten packets are accepted before a window is offered, although the window is smaller.
#[test]
fn early_data_beyond_small_window_closes_it() {
    let stream_window = WindowConfig { initial: 2000, max: 2000, mss: 1000 };
    let mut script = open_with(ReceiverConfig { stream_window, ..keeping() });
    assert_eq!(ack_of_payload(&mut script, 0, 0, &[7; 1400]), None);
    let ack = ack_of_payload(&mut script, 1, 1400, &[7; 1400]).unwrap();
    assert_eq!((ack.ack, ack.window), (2800, 0));
}
