//! From the last ACK to the FIN-ACK.

use super::*;

/// A sender that has sent its FIN, number 3, at 200 ms with an RTO of 250 ms.
fn closing() -> Script {
    let mut script = Script::flowing(4, 3);
    script.finish().sent();
    script.at(200).recv(&ack(3, 4));
    assert_eq!((script.sent(), script.rto()), (vec![Sent::Fin(3)], ms(250)));
    script
}

#[test]
fn fin_follows_ack_of_all_data() {
    let mut script = Script::flowing(2, 3);
    script.finish();
    assert_eq!(script.data(), [0, 1]);
    script.recv(&ack(2, 2));
    assert_eq!(script.data(), [2]);
    assert_eq!(script.sent(), [], "packet 2 is in flight");
    script.recv(&ack(3, 2));
    assert_eq!(script.sent(), [Sent::Fin(3)]);
    assert_eq!(script.sent(), []);
}

#[test]
fn fin_is_exactly_8_bytes() {
    let mut script = Script::flowing(4, 3);
    script.finish().sent();
    script.recv(&ack(3, 4));
    assert_eq!(script.datagrams(), [[0x80, 0xaa, 0x11, 0x83, 3, 0, 0, 0]]);
}

#[test]
fn repeated_fin_says_that_acks_are_heeded() {
    let mut script = Script::flowing(4, 3);
    script.finish().sent();
    script.recv(&ack(3, 4));
    script.datagrams();
    for _ in 0..3 {
        script.expire();
        let fins = script.datagrams();
        assert_eq!(fins, [[0x80, 0xaa, 0x11, 0x83, 3, 0, 0, 0, 0x40, 0xaa, 0x11, 0x83]]);
        // The receiver is still storing, so attempts count from now.
        script.recv(&ack(3, 0));
    }
}

#[test]
fn empty_transfer_is_syn_and_fin() {
    for finish_early in [true, false] {
        let mut script = Script::new(config(4));
        if finish_early {
            script.finish();
        }
        assert_eq!(script.sent(), [Sent::Syn]);
        script.at(100).recv(&syn_ack(1));
        if !finish_early {
            assert_eq!(script.sent(), []);
            script.finish();
        }
        assert_eq!(script.sent(), [Sent::Fin(0)]);
        assert_eq!(script.timer(), Some(ms(400)), "the FIN has the timeout of data");
        script.at(200).recv(&fin_ack(0, 0));
        let connected = SenderEvent::Connected { rtt: ms(100) };
        assert_eq!(script.events(), [connected, SenderEvent::Finished { crc: 0 }]);
        assert_eq!(script.stats().elapsed(), ms(0));
    }
}

#[test]
fn fin_ack_ends_transfer_with_checksum() {
    let mut script = closing();
    script.at(300).recv(&fin_ack(3, 0xFC19_A074));
    assert_eq!(script.events(), [SenderEvent::Finished { crc: 0xFC19_A074 }]);
    assert_eq!((script.timer(), script.sent()), (None, vec![]));
    script.recv(&fin_ack(3, 1)).recv(&ack(3, 4)).recv(&syn_ack(1));
    assert_eq!((script.events(), script.stats().stale), (vec![], 3), "it happens once");
}

#[test]
fn a_fin_ack_with_another_number_is_ignored() {
    let mut script = closing();
    for number in [0, 2, 4] {
        script.recv(&fin_ack(number, 0));
    }
    assert_eq!((script.events(), script.stats().stale, script.timer()), (vec![], 3, Some(ms(450))));
    script.expire();
    assert_eq!(script.sent(), [Sent::Fin(3)]);
}

#[test]
fn a_fin_ack_before_the_fin_is_ignored() {
    let mut script = Script::flowing(4, 3);
    script.finish().sent();
    script.recv(&fin_ack(3, 0)).recv(&fin_ack(0, 0));
    script.recv(&ack(3, 4)).recv(&fin_ack(3, 0));
    assert_eq!((script.events(), script.stats().stale), (vec![], 3));
    assert_eq!(script.sent(), [Sent::Fin(3)]);
}

#[test]
fn fin_times_out_after_fifty_attempts() {
    let mut script = closing();
    let mut count = 1;
    loop {
        assert_eq!(script.expire(), ms(200 + 250 * count));
        match script.sent()[..] {
            [Sent::Fin(3)] => count += 1,
            [] => break,
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!(count, 50);
    assert_eq!(script.events(), [timeout(Phase::Close, 3, 50)]);
    assert_eq!(script.timer(), None);
}

#[test]
fn the_number_of_fin_attempts_is_configured() {
    for fin in [1, 5] {
        let attempts = Attempts { fin, ..Attempts::default() };
        let mut script = Script::connected(SenderConfig { attempts, ..config(4) }, 100, 1);
        script.finish();
        let mut count = 0;
        while script.sent() == [Sent::Fin(0)] {
            count += 1;
            script.expire();
        }
        assert_eq!(count, fin);
        assert_eq!(script.events(), [timeout(Phase::Close, 0, fin)]);
    }
}

#[test]
fn acks_that_arrive_while_closing_change_nothing() {
    let mut script = closing();
    let rto = script.rto();
    script.at(260).recv(&ack(3, 4)).recv(&ack(3, 4)).recv(&ack(3, 4)).recv(&ack(2, 4));
    assert_eq!((script.sent(), script.rto(), script.timer()), (vec![], rto, Some(ms(450))));
    assert_eq!((script.stats().fast_retransmits, script.stats().dup_acks), (0, 0));
}

#[test]
fn slow_storage_does_not_end_close() {
    let mut script = closing();
    for _ in 0..200 {
        script.expire();
        assert_eq!(script.sent(), [Sent::Fin(3)]);
        script.recv(&ack(3, 0));
    }
    for _ in 0..50 {
        script.expire();
        assert_eq!(script.sent(), [Sent::Fin(3)], "attempts are counted from the last answer");
    }
    script.expire();
    assert_eq!(script.events(), [timeout(Phase::Close, 3, 50)]);
}

#[test]
fn finish_may_come_after_everything_was_acknowledged() {
    let mut script = Script::flowing(4, 2);
    script.sent();
    script.at(200).recv(&ack(2, 4));
    assert_eq!((script.sent(), script.timer()), (vec![], None));
    script.at(9000).finish();
    assert_eq!(script.sent(), [Sent::Fin(2)]);
    assert_eq!(script.timer(), Some(ms(9000) + script.rto()));
}

#[test]
fn classic_abort_sends_nothing() {
    let mut script = Script::flowing(4, 2);
    script.sent();
    script.sender.abort();
    assert_eq!((script.datagrams(), script.timer()), (vec![], None));
}

#[test]
fn stats_have_crc_of_written_bytes() {
    let script = Script::flowing(4, 2);
    assert_eq!(script.stats().crc, crc32fast::hash(&pattern(0, 2 * PAYLOAD)));
}

#[test]
#[should_panic(expected = "the stream is finished")]
fn bytes_after_finish_are_refused() {
    let mut script = Script::flowing(4, 3);
    script.finish();
    assert!(script.sender.spare().unwrap().is_empty());
    script.sender.advance(1);
}
