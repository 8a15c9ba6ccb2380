//! Events and bytes for the application.

use super::*;

#[test]
fn events_follow_the_transfer() {
    let mut script = Script::new(keeping());
    script.syn(0).at(10).data(0, b"abc").at(25).data(1, b"de").at(40).data(1, b"de").at(50).fin(2).confirm();
    let elapsed = Duration::from_millis(15);
    let expected = [
        ReceiverEvent::Started,
        ReceiverEvent::Readable,
        ReceiverEvent::Finished { bytes: 5, crc: crc32fast::hash(b"abcde"), elapsed },
    ];
    assert_eq!(script.events(), expected);
    assert_eq!(script.read(), b"abcde", "still there after the FIN");
}

#[test]
fn elapsed_time_is_of_finished_transfer() {
    let mut script = Script::open_at(ReceiverConfig::reference(), 0);
    script.at(10).data(0, b"x").at(500).data(1, b"x").at(600).syn(0);
    script.at(700).data(0, b"x").at(730).data(1, b"x").fin(2).confirm();
    script.at(900).syn(0).fin(0);
    let elapsed = |event| match event {
        ReceiverEvent::Finished { elapsed, .. } => Some(elapsed.as_millis()),
        _ => None,
    };
    let elapsed: Vec<_> = script.events().into_iter().filter_map(elapsed).collect();
    assert_eq!(elapsed, [30, 0], "after a restart, and without data");
}

#[test]
fn readable_is_reported_once_until_read() {
    let mut script = Script::open();
    script.data(0, b"ab").data(1, b"cd");
    assert_eq!(script.events(), [ReceiverEvent::Readable]);
    script.data(2, b"ef");
    assert_eq!(script.events(), [], "the application knows");
    assert_eq!(script.read(), b"abcdef");
    script.data(4, b"beyond a hole").data(5, b"");
    assert_eq!(script.events(), []);
    script.data(3, b"");
    assert_eq!(script.events(), [ReceiverEvent::Readable]);
}

#[test]
fn bytes_are_readable_in_pieces() {
    let mut script = Script::open();
    script.data(0, b"abcdef");
    script.receiver.consume(2);
    assert_eq!(script.receiver.data(), b"cdef");
    script.data(1, b"gh");
    script.receiver.consume(3);
    assert_eq!(script.receiver.data(), b"fgh");
    script.receiver.consume(1000);
    assert_eq!((script.receiver.data(), script.receiver.memory()), (&b""[..], 0));
}

#[test]
fn without_payload_bytes_are_counted_and_checked() {
    let mut script = Script::open_at(ReceiverConfig::reference(), 0);
    script.data(0, b"abc").data(1, b"de").fin(2);
    let (bytes, crc) = (5, crc32fast::hash(b"abcde"));
    assert_eq!(script.events(), [ReceiverEvent::Finished { bytes, crc, elapsed: Duration::ZERO }]);
    assert_eq!((script.receiver.data(), script.receiver.memory()), (&b""[..], 0));
}

#[test]
fn restart_discards_unread_bytes() {
    let mut script = Script::open();
    script.data(0, b"old");
    script.syn(0).data(0, b"new");
    let mut transfers = Vec::new();
    // An application that reads everything at each event.
    while let Some(event) = script.receiver.poll_event() {
        if event == ReceiverEvent::Started {
            transfers.push(Vec::new());
        } else {
            let bytes = script.read();
            transfers.last_mut().expect("bytes of no transfer").extend(bytes);
        }
    }
    assert_eq!(transfers, [b"new"]);
}

#[test]
fn in_order_data_needs_no_memory_beyond_holes() {
    let mut script = Script::open();
    script.memory = 0;
    script.data(0, b"a").data(2, b"c").data(1, b"b").data(2, b"c");
    assert_eq!(script.replies(), [ack(1, 1), ack(2, 2), ack(3, 3)], "packet 2 was dropped without a word");
    let stats = script.receiver.stats();
    assert_eq!((stats.no_memory, stats.accepted, stats.duplicates), (1, 3, 0));
    assert_eq!(script.read(), b"abc");
}

#[test]
fn in_order_bytes_are_counted_as_they_come() {
    let mut script = Script::open();
    script.data(0, b"abc").data(2, b"f").data(0, b"abc");
    assert_eq!(script.receiver.stats().bytes, 3);
    script.data(1, b"de").fin(3).confirm();
    assert_eq!(script.receiver.stats().bytes, 6);
    script.syn(0).data(0, b"xyz");
    assert_eq!(script.receiver.stats().bytes, 9, "over all transfers");
}

#[test]
fn reply_queue_is_bounded_and_keeps_latest() {
    let mut script = Script::open();
    for seq in 0..20_000 {
        script.data(seq, b"");
    }
    let replies = script.replies();
    assert!((1..=4096).contains(&replies.len()), "{} replies", replies.len());
    assert_eq!(replies.last(), Some(&ack(20_000, 20_000)));
}
