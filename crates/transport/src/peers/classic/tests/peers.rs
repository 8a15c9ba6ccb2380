//! Admission, events, removal and idle timeouts of peers.

use super::*;

#[test]
fn transfers_of_two_peers_are_independent() {
    let mut script = Script::new(keeping());
    script.syn('a', 0).syn('b', 7).data('a', 0, b"a0").data('b', 7, b"b7").data('b', 9, b"b9");
    script.syn('b', 0).data('a', 1, b"a1").data('b', 0, b"b0").fin('a', 2).fin('b', 1);
    assert_eq!(
        (script.set.classic().data('a').unwrap(), script.set.classic().data('b').unwrap()),
        (&b"a0a1"[..], &b"b0"[..])
    );
    script.set.confirm_classic('b');
    assert_eq!(
        script.batches(),
        [
            ('a', vec![syn_ack(0, 1), ack(1, 1), ack(2, 2)]),
            (
                'b',
                vec![
                    syn_ack(7, 7),
                    ack(8, 8),
                    ack(8, 8),
                    syn_ack(0, 1),
                    ack(1, 1),
                    fin_ack(1, crc32fast::hash(b"b0"))
                ]
            ),
        ]
    );
    assert!(script.set.classic().has_unfinished(), "a is not confirmed");
    script.set.confirm_classic('a');
    assert_eq!(script.replies(), [('a', fin_ack(2, crc32fast::hash(b"a0a1")))]);
    assert!(!script.set.classic().has_unfinished());
}

#[test]
fn events_follow_life_of_transfer() {
    let mut script = Script::new(keeping());
    script.syn('a', 0).at(10).data('a', 0, b"abc").at(30).data('a', 1, b"de").fin('a', 2);
    let (crc, elapsed) = (crc32fast::hash(b"abcde"), Duration::from_millis(20));
    assert_eq!(
        script.events(),
        [
            ('a', ReceiverEvent::Connected),
            ('a', ReceiverEvent::Started),
            ('a', ReceiverEvent::Readable),
            ('a', ReceiverEvent::Finished { bytes: 5, crc, elapsed }),
        ]
    );
    assert_eq!(script.set.classic().data('a').unwrap(), b"abcde");
    script.set.consume_classic('a', 5);
    script.set.confirm_classic('a');
    script.set.close_classic('a');
    assert_eq!(script.events(), [('a', closed(false))]);
}

#[test]
fn syn_of_known_peer_restarts_transfer() {
    let mut script = Script::connected(keeping(), "a");
    script.syn('a', 0);
    assert_eq!(script.events(), [], "no transfer had begun");
    script.data('a', 0, b"abc").syn('a', 0);
    assert_eq!(script.events().last(), Some(&('a', ReceiverEvent::Started)));
    assert_eq!((script.stats().admitted, script.set.classic().active()), (1, 1));
}

#[test]
fn restart_discards_unread_bytes() {
    let mut script = Script::connected(keeping(), "ab");
    script.data('a', 0, b"old").data('b', 0, b"other").syn('a', 0).data('a', 0, b"new");
    let mut transfers = Vec::new();
    // The application reads all available bytes at every event.
    while let Some((peer, event)) = script.set.poll_classic_event() {
        if event == ReceiverEvent::Started {
            transfers.push(Vec::new());
        } else if peer == 'a' {
            let bytes = script.set.classic().data('a').unwrap().to_vec();
            script.set.consume_classic('a', bytes.len());
            transfers.last_mut().expect("bytes of the new transfer before its start").extend(bytes);
        }
    }
    assert_eq!(transfers, [b"new"]);
    assert_eq!(script.set.classic().data('b').unwrap(), b"other");
}

#[test]
fn readable_event_is_queued_once() {
    let mut script = Script::connected(keeping(), "ab");
    for seq in 0..1000 {
        script.data('a', seq, b"x").data('b', seq, b"y");
    }
    let events = script.events();
    assert_eq!(events.len(), 2, "the first is {:?}", events[0]);
    assert_eq!(events, [('a', ReceiverEvent::Readable), ('b', ReceiverEvent::Readable)]);
}

#[test]
fn syn_above_peer_limit_is_dropped() {
    let mut script = Script::connected(Config { max_peers: 2, ..reference() }, "ab");
    assert!(script.is_dropped('c', &syn(0, LINK)));
    assert_eq!((script.stats().refused, script.stats().max_active), (1, 2));
    script.syn('a', 0);
    assert_eq!(script.replies(), [('a', syn_ack(0, 1))], "known peers are served");
    script.set.close_classic('b');
    script.events();
    script.syn('c', 0);
    assert_eq!(script.replies(), [('c', syn_ack(0, 1))], "there is room again");
    assert_eq!((script.stats().admitted, script.stats().refused), (3, 1));
}

#[test]
fn admit_returns_new_known_or_refused() {
    let mut script = Script::new(Config { max_peers: 1, ..reference() });
    let open = Open { seq: 7, link: LINK };
    let admissions = ['a', 'a', 'b'].map(|peer| script.set.admit_classic(script.now, peer));
    assert_eq!(admissions, [Admission::New, Admission::Known, Admission::Refused]);
    assert_eq!(script.events(), [('a', ReceiverEvent::Connected)], "before the SYN is delivered");
    let datagram = syn(7, LINK);
    assert_eq!(script.set.inspect_classic('a', &datagram), Some(FromSender::Syn(open)));
    assert!(script.events().is_empty(), "inspect has no effect");
    script.set.deliver_classic_datagram(script.now, 'a', Ecn::NotEct, &datagram);
    assert_eq!(script.replies(), [('a', syn_ack(7, 7))]);
    script.set.deliver_classic_datagram(script.now, 'b', Ecn::NotEct, &datagram);
    assert_eq!(script.replies(), []);
}

#[test]
fn close_removes_all_state_of_peer() {
    let mut script = Script::connected(keeping(), "ab");
    script.data('a', 0, b"abc").data('a', 5, b"held").data('b', 0, b"xyz");
    assert!(script.set.memory() > 3);
    script.set.close_classic('a');
    assert_eq!(script.set.memory(), 3, "the memory of b");
    assert_eq!(script.replies(), [('b', ack(1, 1))]);
    assert_eq!(script.events(), [('b', ReceiverEvent::Readable), ('a', closed(true))]);
    assert!(script.is_dropped('a', &packet(0, 1, b"x")));
    assert_eq!(script.set.classic().data('a').unwrap(), b"");
    script.set.confirm_classic('a');
    script.set.consume_classic('a', 3);
    script.set.touch_classic(script.now, 'a');
    script.set.close_classic('a');
    assert_eq!((script.events(), script.replies()), (vec![], vec![]), "no such peer");
    script.syn('a', 0);
    assert_eq!(script.events(), [('a', ReceiverEvent::Connected), ('a', ReceiverEvent::Started)]);
}

#[test]
fn stats_include_removed_peers() {
    let mut script = Script::connected(reference(), "ab");
    script.data('a', 0, b"abc").data('a', 0, b"abc").data('b', 0, b"de").data('b', 90_000, b"f");
    script.set.close_classic('a');
    let sums = script.stats().receivers;
    assert_eq!((sums.data, sums.accepted, sums.duplicates, sums.out_of_range), (4, 2, 1, 1));
    assert_eq!((sums.replies, sums.bytes), (2 + 3, 5));
}

#[test]
fn classic_peer_times_out_after_25_s() {
    let mut script = Script::connected(reference(), "a");
    assert_eq!(script.set.poll_timeout(), Some(script.epoch + Duration::from_secs(25)));
    script.at(10 * SECOND).data('a', 0, b"x");
    script.at(20 * SECOND).data('a', 0, b"x");
    script.at(45 * SECOND - 1);
    assert!(script.set.classic.knows('a') && script.events().is_empty(), "24.999 s after the last packet");
    script.at(45 * SECOND);
    assert_eq!(script.events(), [('a', closed(true))]);
    assert_eq!((script.set.classic().active(), script.set.poll_timeout()), (0, None));
    assert!(script.is_dropped('a', &packet(0, 1, b"x")));
    assert!(script.is_dropped('a', &packet(0x80, 1, b"")));
}

#[test]
fn finished_peer_times_out_too() {
    let mut script = Script::connected(reference(), "a");
    script.data('a', 0, b"x").at(SECOND).fin('a', 1);
    script.set.confirm_classic('a');
    script.replies();
    script.events();
    script.at(20 * SECOND).fin('a', 1);
    assert_eq!(script.replies().len(), 1, "the FIN-ACK is repeated");
    script.at(45 * SECOND - 1);
    assert_eq!(script.events(), []);
    script.at(45 * SECOND);
    assert_eq!(script.events(), [('a', closed(false))]);
    assert!(script.is_dropped('a', &packet(0x80, 1, b"")));
}

#[test]
fn idle_timeouts_are_per_peer() {
    let mut script = Script::connected(reference(), "abc");
    script.at(5 * SECOND).data('b', 0, b"x");
    script.at(9 * SECOND).data('a', 0, b"x");
    script.at(25 * SECOND);
    assert_eq!(script.events(), [('c', closed(true))]);
    script.at(33 * SECOND);
    assert_eq!(script.events(), [('b', closed(true))]);
    script.at(100 * SECOND);
    assert_eq!(script.events(), [('a', closed(true))]);
}

/// The reader is slow: what was acknowledged and ended by a FIN waits for it beyond the timeout.
#[test]
fn complete_transfer_waits_for_its_reader() {
    let mut script = Script::new(keeping());
    script.syn('a', 0).data('a', 0, b"abc").fin('a', 1).at(100 * SECOND);
    assert_eq!(script.set.classic().data('a').unwrap(), b"abc");
    script.set.consume_classic('a', 3);
    script.set.confirm_classic('a');
    let replies = script.replies();
    assert_eq!(replies.last(), Some(&('a', fin_ack(1, crc32fast::hash(b"abc")))), "{replies:?}");
    assert!(!script.events().contains(&('a', closed(true))));
    script.at(130 * SECOND);
    assert_eq!(script.set.classic().active(), 0, "a confirmed one is removed when it is idle");
}

#[test]
fn touch_restarts_idle_timeout() {
    let mut script = Script::connected(reference(), "a");
    for n in 1..=5 {
        script.at(n * 20 * SECOND);
        script.set.touch_classic(script.now, 'a');
    }
    script.at(125 * SECOND - 1);
    assert!(script.set.classic.knows('a'));
    script.at(125 * SECOND);
    assert!(!script.set.classic.knows('a'));
}

#[test]
fn readmitted_peer_has_new_idle_timeout() {
    let mut script = Script::connected(reference(), "a");
    script.at(20 * SECOND).set.close_classic('a');
    assert_eq!(script.set.poll_timeout(), None, "no peers");
    script.syn('a', 0);
    script.at(45 * SECOND - 1);
    assert!(script.set.classic.knows('a'), "counted from 20 s");
    script.at(45 * SECOND);
    assert!(!script.set.classic.knows('a'));
}

#[test]
fn endless_idle_timeout_keeps_peers() {
    let config = Config { max_peers: 1, idle: Duration::MAX, ..reference() };
    let mut script = Script::connected(config, "a");
    script.at(1_000_000 * SECOND).syn('b', 0);
    assert_eq!((script.set.classic().active(), script.stats().refused), (1, 1));
}
