//! Admission, events, removal and idle timeouts of peers.

use super::*;
use crate::cookie::Cookie;
use crate::wire::native;

#[test]
fn transfers_of_two_peers_are_independent() {
    let mut script = Script::new(keeping());
    script.syn('a', 0).syn('b', 7).data('a', 0, b"a0").data('b', 7, b"b7").data('b', 9, b"b9");
    script.syn('b', 0).data('a', 1, b"a1").data('b', 0, b"b0").fin('a', 2).fin('b', 1);
    assert_eq!(
        (script.listener.data('a').unwrap(), script.listener.data('b').unwrap()),
        (&b"a0a1"[..], &b"b0"[..])
    );
    script.listener.confirm('b');
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
    assert!(script.listener.has_unfinished(), "a is not confirmed");
    script.listener.confirm('a');
    assert_eq!(script.replies(), [('a', fin_ack(2, crc32fast::hash(b"a0a1")))]);
    assert!(!script.listener.has_unfinished());
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
    assert_eq!(script.listener.data('a').unwrap(), b"abcde");
    script.listener.consume('a', 5);
    script.listener.confirm('a');
    script.listener.close('a');
    assert_eq!(script.events(), [('a', closed(false))]);
}

#[test]
fn syn_of_known_peer_restarts_transfer() {
    let mut script = Script::connected(keeping(), "a");
    script.syn('a', 0);
    assert_eq!(script.events(), [], "no transfer had begun");
    script.data('a', 0, b"abc").syn('a', 0);
    assert_eq!(script.events().last(), Some(&('a', ReceiverEvent::Started)));
    assert_eq!((script.stats().admitted, script.listener.active()), (1, 1));
}

#[test]
fn restart_discards_unread_bytes() {
    let mut script = Script::connected(keeping(), "ab");
    script.data('a', 0, b"old").data('b', 0, b"other").syn('a', 0).data('a', 0, b"new");
    let mut transfers = Vec::new();
    // The application reads all available bytes at every event.
    while let Some((peer, event)) = script.listener.poll_event() {
        if event == ReceiverEvent::Started {
            transfers.push(Vec::new());
        } else if peer == 'a' {
            let bytes = script.listener.data('a').unwrap().to_vec();
            script.listener.consume('a', bytes.len());
            transfers.last_mut().expect("bytes of the new transfer before its start").extend(bytes);
        }
    }
    assert_eq!(transfers, [b"new"]);
    assert_eq!(script.listener.data('b').unwrap(), b"other");
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
    let mut script = Script::connected(ListenerConfig { max_peers: 2, ..reference() }, "ab");
    assert!(script.is_dropped('c', &syn(0, LINK)));
    assert_eq!((script.stats().refused, script.stats().max_active), (1, 2));
    script.syn('a', 0);
    assert_eq!(script.replies(), [('a', syn_ack(0, 1))], "known peers are served");
    script.listener.close('b');
    script.events();
    script.syn('c', 0);
    assert_eq!(script.replies(), [('c', syn_ack(0, 1))], "there is room again");
    assert_eq!((script.stats().admitted, script.stats().refused), (3, 1));
}

#[test]
fn admit_returns_new_known_or_refused() {
    let mut script = Script::new(ListenerConfig { max_peers: 1, ..reference() });
    let FromSender::Syn(open) = FromSender::Syn(Open::classic(7, LINK)) else { panic!() };
    let admissions = ['a', 'a', 'b'].map(|peer| script.listener.admit(script.now, peer, &open));
    assert_eq!(admissions, [Admission::New, Admission::Known, Admission::Refused]);
    assert_eq!(script.events(), [('a', ReceiverEvent::Connected)], "before the SYN is delivered");
    let datagram = syn(7, LINK);
    assert_eq!(script.listener.inspect(script.now, 'a', &datagram), Some(FromSender::Syn(open)));
    assert!(script.events().is_empty(), "inspect has no effect");
    script.listener.deliver_datagram(script.now, 'a', Ecn::NotEct, &datagram);
    assert_eq!(script.replies(), [('a', syn_ack(7, 7))]);
    script.listener.deliver_datagram(script.now, 'b', Ecn::NotEct, &datagram);
    assert_eq!(script.replies(), []);
}

#[test]
fn close_removes_all_state_of_peer() {
    let mut script = Script::connected(keeping(), "ab");
    script.data('a', 0, b"abc").data('a', 5, b"held").data('b', 0, b"xyz");
    assert!(script.listener.memory() > 3);
    script.listener.close('a');
    assert_eq!(script.listener.memory(), 3, "the memory of b");
    assert_eq!(script.replies(), [('b', ack(1, 1))]);
    assert_eq!(script.events(), [('b', ReceiverEvent::Readable), ('a', closed(true))]);
    assert!(script.is_dropped('a', &packet(0, 1, b"x")));
    assert_eq!(script.listener.data('a').unwrap(), b"");
    script.listener.confirm('a');
    script.listener.consume('a', 3);
    script.listener.touch(script.now, 'a');
    script.listener.close('a');
    assert_eq!((script.events(), script.replies()), (vec![], vec![]), "no such peer");
    script.syn('a', 0);
    assert_eq!(script.events(), [('a', ReceiverEvent::Connected), ('a', ReceiverEvent::Started)]);
}

#[test]
fn stats_include_removed_peers() {
    let mut script = Script::connected(reference(), "ab");
    script.data('a', 0, b"abc").data('a', 0, b"abc").data('b', 0, b"de").data('b', 90_000, b"f");
    script.listener.close('a');
    let sums = script.stats().receivers;
    assert_eq!((sums.data, sums.accepted, sums.duplicates, sums.out_of_range), (4, 2, 1, 1));
    assert_eq!((sums.replies, sums.bytes), (2 + 3, 5));
}

#[test]
fn classic_peer_times_out_after_25_s() {
    let mut script = Script::connected(reference(), "a");
    assert_eq!(script.listener.poll_timeout(), Some(script.epoch + Duration::from_secs(25)));
    script.at(10 * SECOND).data('a', 0, b"x");
    script.at(20 * SECOND).data('a', 0, b"x");
    script.at(45 * SECOND - 1);
    assert!(script.listener.knows('a') && script.events().is_empty(), "24.999 s after the last packet");
    script.at(45 * SECOND);
    assert_eq!(script.events(), [('a', closed(true))]);
    assert_eq!((script.listener.active(), script.listener.poll_timeout()), (0, None));
    assert!(script.is_dropped('a', &packet(0, 1, b"x")));
    assert!(script.is_dropped('a', &packet(0x80, 1, b"")));
}

#[test]
fn finished_peer_times_out_too() {
    let mut script = Script::connected(reference(), "a");
    script.data('a', 0, b"x").at(SECOND).fin('a', 1);
    script.listener.confirm('a');
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

#[test]
fn touch_restarts_idle_timeout() {
    let mut script = Script::connected(reference(), "a");
    for n in 1..=5 {
        script.at(n * 20 * SECOND);
        script.listener.touch(script.now, 'a');
    }
    script.at(125 * SECOND - 1);
    assert!(script.listener.knows('a'));
    script.at(125 * SECOND);
    assert!(!script.listener.knows('a'));
}

#[test]
fn readmitted_peer_has_new_idle_timeout() {
    let mut script = Script::connected(reference(), "a");
    script.at(20 * SECOND).listener.close('a');
    assert_eq!(script.listener.poll_timeout(), None, "no peers");
    script.syn('a', 0);
    script.at(45 * SECOND - 1);
    assert!(script.listener.knows('a'), "counted from 20 s");
    script.at(45 * SECOND);
    assert!(!script.listener.knows('a'));
}

/// A native SYN with or without a cookie.
fn native_syn(connection_id: u64, cookie: Option<Cookie>) -> Vec<u8> {
    let syn = native::Syn { cookie, params: native::Params::default(), name: None };
    let mut datagram = vec![0; native::syn_len(&syn)];
    native::encode_syn(connection_id, &syn, &mut datagram);
    datagram
}

fn native_reply(script: &mut Script) -> Option<Vec<u8>> {
    let mut replies = script.datagrams();
    assert!(replies.len() <= 1, "{replies:?}");
    replies.pop()
}

/// Opens a native transfer and drops the SYN-ACK.
fn open_native(script: &mut Script, peer: char, connection_id: u64) {
    let active = script.listener.active();
    script.recv(peer, &native_syn(connection_id, None));
    let retry = native_reply(script).unwrap();
    let Ok(FromReceiver::Retry(cookie)) = native::decode_from_receiver(&retry, 0) else {
        panic!("{retry:?}")
    };
    assert!(retry.len() <= native_syn(connection_id, None).len(), "no amplification");
    assert_eq!(script.listener.active(), active, "no state is kept");
    script.recv(peer, &native_syn(connection_id, Some(cookie)));
    let syn_ack = native_reply(script).unwrap();
    assert!(matches!(native::decode_from_receiver(&syn_ack, 0), Ok(FromReceiver::SynAck { .. })));
}

#[test]
fn native_syn_without_cookie_keeps_no_state() {
    let mut script = Script::new(ListenerConfig { secret: Some([7; 32]), ..reference() });
    script.recv('a', &native_syn(1, Some([9; 32])));
    assert!(native_reply(&mut script).is_some(), "a wrong cookie is answered with a right one");
    assert_eq!((script.listener.active(), script.stats().retries), (0, 1));
    open_native(&mut script, 'a', 1);
    assert_eq!((script.listener.active(), script.stats().admitted), (1, 1));
    let mut silent = Script::new(reference());
    silent.recv('a', &native_syn(1, None));
    assert_eq!(
        (native_reply(&mut silent), silent.stats().refused),
        (None, 1),
        "without a secret, native SYNs are ignored"
    );
}

#[test]
fn refused_native_peer_gets_close() {
    let mut script = Script::new(ListenerConfig { secret: Some([7; 32]), max_peers: 1, ..reference() });
    open_native(&mut script, 'a', 5);
    script.recv('b', &native_syn(6, None));
    let retry = native_reply(&mut script).unwrap();
    let Ok(FromReceiver::Retry(cookie)) = native::decode_from_receiver(&retry, 0) else { panic!() };
    script.recv('b', &native_syn(6, Some(cookie)));
    let close = |reply: &[u8]| match native::decode_from_receiver(reply, 0) {
        Ok(FromReceiver::Close(close)) => (native::connection_id(reply), close.reason),
        other => panic!("{other:?}"),
    };
    let refused = native_reply(&mut script).unwrap();
    assert_eq!(close(&refused), (Some(6), CloseReason::Refused));
    script.listener.refuse('a', CloseReason::Storage);
    let stopped = native_reply(&mut script).unwrap();
    assert_eq!(close(&stopped), (Some(5), CloseReason::Storage));
    assert_eq!(script.listener.active(), 0);
}

#[test]
fn shutdown_sends_one_close_to_unfinished_native_peers() {
    let mut script = Script::new(ListenerConfig { secret: Some([7; 32]), ..reference() });
    for (connection_id, peer) in (1..).zip("abc".chars()) {
        open_native(&mut script, peer, connection_id);
    }
    // Peer b has finished, d is classic, and the SYN of e is still on an emulated link.
    let fin = native::Fin { packet_number: 0, length: 0, crc: 0 };
    let mut datagram = vec![0; native::FIN_LEN];
    native::encode_fin(2, &fin, &mut datagram);
    script.recv('b', &datagram);
    script.listener.confirm('b');
    script.syn('d', 0);
    script.recv('e', &native_syn(5, None));
    while let Some((peer, reply)) = script.listener.poll_reply(script.now) {
        if let Ok(FromReceiver::Retry(cookie)) = native::decode_from_receiver(reply, 0) {
            let syn = native_syn(5, Some(cookie));
            let Some(FromSender::Syn(open)) = script.listener.inspect(script.now, peer, &syn) else {
                panic!()
            };
            script.listener.admit(script.now, peer, &open);
        }
    }
    script.events();
    script.listener.refuse_unfinished(CloseReason::Aborted);
    script.listener.refuse_unfinished(CloseReason::Aborted);
    let mut closes = Vec::new();
    while let Some((peer, reply)) = script.listener.poll_reply(script.now) {
        let Ok(FromReceiver::Close(close)) = native::decode_from_receiver(reply, 0) else { panic!() };
        closes.push((peer, native::connection_id(reply), close.reason));
    }
    let aborted = |peer, connection_id| (peer, Some(connection_id), CloseReason::Aborted);
    assert_eq!(closes, [aborted('a', 1), aborted('c', 3), aborted('e', 5)]);
    assert_eq!(script.events(), [('a', closed(true)), ('c', closed(true)), ('e', closed(false))]);
    assert!(script.listener.knows('b') && script.listener.knows('d') && script.listener.active() == 2);
}

#[test]
fn close_removes_peer_only_from_its_address() {
    let mut script = Script::new(ListenerConfig { secret: Some([7; 32]), ..reference() });
    open_native(&mut script, 'a', 5);
    let close = |connection_id| {
        let close = native::Close::new(CloseReason::Aborted, "");
        let mut datagram = vec![0; native::close_len(&close)];
        native::encode_close(connection_id, &close, &mut datagram);
        datagram
    };
    script.recv('a', &close(6)).recv('b', &close(5));
    assert_eq!((script.listener.active(), script.stats().no_connection), (1, 2));
    script.events();
    script.recv('a', &close(5));
    assert_eq!((script.listener.active(), script.events()), (0, vec![('a', closed(true))]));
}

#[test]
fn classic_syn_does_not_end_native_transfer() {
    let mut script = Script::new(ListenerConfig { secret: Some([7; 32]), ..reference() });
    open_native(&mut script, 'a', 5);
    script.events();
    assert!(script.is_dropped('a', &syn(0, LINK)));
    assert_eq!(script.listener.wire('a'), Some(Wire::Native { connection_id: 5 }));
}

#[test]
fn wrong_stream_checksum_closes_connection() {
    let mut script = Script::new(ListenerConfig { secret: Some([7; 32]), ..reference() });
    let packets = |connection_id, wrong_bits| {
        let mut data = vec![7; native::DATA_HEADER + 9];
        let header = DataHeader { packet_number: 0, seq: 0, ack_now: false, ack_every: 0 };
        let crc = crc32fast::hash(&data[native::DATA_HEADER..]);
        native::encode_data_header(connection_id, &header, crc, &mut data);
        let mut fin = vec![0; native::FIN_LEN];
        let end = native::Fin { packet_number: 1, length: 9, crc: crc ^ wrong_bits };
        native::encode_fin(connection_id, &end, &mut fin);
        [data, fin]
    };
    open_native(&mut script, 'a', 5);
    for packet in packets(5, 1) {
        script.recv('a', &packet);
    }
    assert_eq!(script.listener.active(), 0, "the corrupt stream is not finished");
    let finished = |(_, event): &(char, ReceiverEvent)| matches!(event, ReceiverEvent::Finished { .. });
    assert!(!script.events().iter().any(finished));
    let reply = native_reply(&mut script).unwrap();
    let Ok(FromReceiver::Close(close)) = native::decode_from_receiver(&reply, 0) else { panic!() };
    assert_eq!(close.reason, CloseReason::Checksum);
    open_native(&mut script, 'a', 6);
    for packet in packets(6, 0) {
        script.recv('a', &packet);
    }
    assert!(script.events().iter().any(finished));
}

#[test]
fn endless_idle_timeout_keeps_peers() {
    let config =
        ListenerConfig { max_peers: 1, idle: Duration::MAX, native_idle: Duration::MAX, ..reference() };
    let mut script = Script::connected(config, "a");
    script.at(1_000_000 * SECOND).syn('b', 0);
    assert_eq!((script.listener.active(), script.stats().refused), (1, 1));
}
