//! One ACK for all packets in order that came together, where that is asked for.

use super::*;
use crate::AckPolicy;

fn batching() -> Script {
    Script::open_at(ReceiverConfig { ack: AckPolicy::Batch, ..keeping() }, 0)
}

fn ack(ack: u64) -> FromReceiver {
    FromReceiver::Ack { ack, wnd: u32::try_from(ack.max(1)).unwrap() }
}

#[test]
fn packets_in_order_that_come_together_get_one_ack() {
    let mut script = batching();
    for seq in 0..44 {
        script.data(seq, b"x");
    }
    assert_eq!(script.replies(), [ack(44)]);
    assert_eq!(script.data(44, b"x").replies(), [ack(45)], "the next batch gets the next one");
}

#[test]
fn a_hole_gets_its_duplicate_acks_all_the_same() {
    let mut script = batching();
    for seq in [0, 1, 3, 4, 5] {
        script.data(seq, b"x");
    }
    assert_eq!(
        script.replies(),
        [ack(2), ack(2), ack(2), ack(2)],
        "one that moves the base and three that do not"
    );
    script.data(2, b"x").data(6, b"x");
    assert_eq!(script.replies(), [ack(7)]);
}

#[test]
fn a_duplicate_packet_and_a_syn_are_answered_by_themselves() {
    let mut script = batching();
    script.data(0, b"x").data(0, b"x").data(1, b"x");
    assert_eq!(script.replies(), [ack(1), ack(2)]);
    script.data(2, b"x").syn(0).data(0, b"y");
    assert_eq!(script.replies(), [ack(3), FromReceiver::SynAck { ack: 0, wnd: 1 }, ack(1)]);
}
