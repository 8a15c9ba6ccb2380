//! A sender whose application pauses: its receiver must not time out.

use super::*;

/// Handshake at 100 ms, and whatever was written is acknowledged.
fn pausing(packets: usize) -> Script {
    let mut script = Script::flowing(4, packets);
    script.sent();
    if packets > 0 {
        let acked = u64::try_from(packets).unwrap();
        script.at(200).recv(&ack(acked, 4));
    }
    script
}

#[test]
fn keep_alive_leaves_every_ten_seconds() {
    let mut script = pausing(2);
    assert_eq!(script.at(10_199).sent(), []);
    for at in [10_200, 20_200, 30_200] {
        let datagrams = script.at(at).datagrams();
        let [reminder] = datagrams.as_slice() else { panic!("{} datagrams at {at}", datagrams.len()) };
        assert_eq!(decode_from_sender(reminder, 2), Ok(FromSender::Data(Piece::classic(1, &[]))));
        script.recv(&ack(2, 4));
    }
    let stats = script.stats();
    assert_eq!((stats.keep_alives, stats.timeouts, stats.fast_retransmits), (3, 0, 0));
    assert_eq!((stats.snd_una, stats.snd_nxt), (2, 2), "it takes no number");
}

#[test]
fn before_the_first_packet_it_is_the_syn() {
    let mut script = pausing(0);
    assert_eq!(script.at(10_100).sent(), [Sent::Syn]);
    script.recv(&FromReceiver::SynAck { ack: 0, window: 1 });
    script.at(10_300).write(PAYLOAD);
    assert_eq!(script.data(), [0]);
}

#[test]
fn fin_replaces_keep_alive_due_at_once() {
    let mut script = pausing(1);
    script.expire_keep_alive();
    script.finish();
    assert_eq!(script.sent(), [Sent::Fin(1)]);
    assert_eq!((script.stats().keep_alives, &script.sender.keep_alive), (0, &KeepAlive::default()));
}

#[test]
fn data_in_flight_and_closing_need_no_reminder() {
    let mut script = pausing(1);
    script.at(9000).write(PAYLOAD).sent();
    assert_eq!(script.sender.keep_alive, KeepAlive::default());
    script.at(9100).recv(&ack(2, 4)).finish();
    script.sent();
    assert_eq!(script.sender.keep_alive, KeepAlive::default());
}
