//! One plain ACK for all packets in order of a batch.

use super::*;
use crate::AckPolicy;

fn batching() -> Script {
    Script::open_at(ReceiverConfig { ack: AckPolicy::Batch, ..keeping() }, 0)
}

fn ack(ack: u64) -> FromReceiver<'static> {
    FromReceiver::Ack(Ack::plain(ack, ack.max(1)))
}

#[test]
fn batch_in_order_gets_one_ack() {
    let mut script = batching();
    for seq in 0..44 {
        script.data(seq, b"x");
    }
    assert_eq!(script.replies(), [ack(44)]);
    assert_eq!(script.data(44, b"x").replies(), [ack(45)], "the next batch gets the next one");
}

#[test]
fn hole_gets_duplicate_acks_in_batch_mode() {
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
fn duplicate_and_syn_get_their_own_replies() {
    let mut script = batching();
    script.data(0, b"x").data(0, b"x").data(1, b"x");
    assert_eq!(script.replies(), [ack(1), ack(2)]);
    script.data(2, b"x").syn(0).data(0, b"y");
    assert_eq!(script.replies(), [ack(3), FromReceiver::SynAck { ack: 0, window: 1 }, ack(1)]);
}
