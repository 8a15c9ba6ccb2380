//! Native peers: delayed ACKs, closing, priority of replies.

use super::budget::BUFFER;
use super::*;
use crate::WindowConfig;
use crate::wire::native::{self, Close, DATA_HEADER, FIN_LEN, MIN_EARLY_DATA_BYTES, Params, Versions};
use crate::wire::{Codec, Wire};

pub(super) const PAYLOAD: usize = 100;

/// Connects peer `a`; also returns its codec.
pub(super) fn connected(keep_payload: bool) -> (Script, Codec) {
    connected_to(ReceiverConfig { keep_payload, ..ReceiverConfig::reference() })
}

fn connected_to(receiver: ReceiverConfig) -> (Script, Codec) {
    let config = ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(receiver) };
    let (script, codec, _) = connected_with(config, Params::default());
    (script, codec)
}

/// Connects a sender with `params`; also returns the parameters of the receiver.
fn connected_with(config: ListenerConfig, params: Params) -> (Script, Codec, Params) {
    handshake(Script::new(config), params)
}

/// Opens another connection of peer `a`.
pub(super) fn reconnected(script: Script, connection_id: u64) -> (Script, Codec) {
    let (script, codec, _) = handshake_as(script, connection_id, Params::default());
    (script, codec)
}

/// Like [`connected_with`], with an existing listener.
fn handshake(script: Script, params: Params) -> (Script, Codec, Params) {
    handshake_as(script, 7, params)
}

fn handshake_as(mut script: Script, connection_id: u64, params: Params) -> (Script, Codec, Params) {
    let mut codec = Codec::new(Wire::Native { connection_id }, LINK, params);
    let mut announced = None;
    for _ in 0..2 {
        let mut syn = vec![0; codec.syn_len()];
        codec.encode_syn(&mut syn);
        let replies = script.recv('a', &syn).datagrams();
        match codec.decode(&replies[0], 0, 0) {
            Ok(FromReceiver::Retry(cookie)) => assert!(codec.take_cookie(cookie)),
            Ok(FromReceiver::SynAck { params, .. }) => announced = params,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(script.listener.active(), 1);
    script.events();
    (script, codec, announced.expect("a SYN-ACK"))
}

pub(super) fn data(codec: &Codec, n: u64) -> Vec<u8> {
    let mut datagram = vec![0; DATA_HEADER + PAYLOAD];
    let crc = crc32fast::hash(&datagram[DATA_HEADER..]);
    let header = DataHeader { seq: n * PAYLOAD as u64, packet_number: n, ack_now: false, ack_every: 0 };
    let &Codec::Native { connection_id, .. } = codec else { panic!("{codec:?}") };
    native::encode_data_header(connection_id, &header, crc, &mut datagram);
    datagram
}

#[test]
fn single_packet_is_acknowledged_after_delay() {
    for keep_payload in [true, false] {
        let (mut script, codec) = connected(keep_payload);
        script.recv('a', &data(&codec, 0)).recv('a', &data(&codec, 1));
        assert_eq!(script.datagrams().len(), 1, "every second packet");
        script.at(100).recv('a', &data(&codec, 2));
        assert_eq!(script.datagrams().len(), 0);
        script.at(124);
        assert_eq!(script.datagrams().len(), 0);
        script.at(125);
        let replies = script.datagrams();
        assert_eq!(replies.len(), 1, "keep_payload {keep_payload}");
        assert!(matches!(codec.decode(&replies[0], 0, 3), Ok(FromReceiver::Ack(ack)) if ack.ack == 300));
    }
}

#[test]
fn data_before_its_syn_is_dropped() {
    let (mut script, codec) = connected(true);
    script.recv('a', &data(&codec, 0));
    let wire = Wire::Native { connection_id: 8 };
    let other = Codec::new(wire, LINK, Params::default());
    let now = script.now;
    // The SYN of the new connection is on an emulated link, or arrived while the previous transfer
    // was being stored.
    script.listener.peers.get_mut(&'a').unwrap().wire = wire;
    let bytes = script.stats().receivers.bytes;
    script.listener.deliver_datagram(now, 'a', Ecn::NotEct, &data(&other, 1));
    script.recv('a', &data(&other, 1));
    assert_eq!((script.stats().receivers.bytes, script.stats().no_connection), (bytes, 2));
}

#[test]
fn first_window_is_accepted_beyond_offer() {
    let stream_window = WindowConfig { initial: 100, max: 100, mss: 100 };
    let receiver = ReceiverConfig { stream_window, keep_payload: true, ..ReceiverConfig::reference() };
    let (mut script, codec) = connected_to(receiver);
    let packets = MIN_EARLY_DATA_BYTES.div_ceil(PAYLOAD as u64);
    for n in 0..packets + 2 {
        script.recv('a', &data(&codec, n));
    }
    let last = script.datagrams().pop().unwrap();
    let Ok(FromReceiver::Ack(ack)) = codec.decode(&last, 0, packets) else { panic!() };
    assert_eq!((ack.ack, ack.window), (MIN_EARLY_DATA_BYTES, 0), "and no byte beyond it");
}

#[test]
fn repeated_syn_offers_same_window() {
    let stream_window = WindowConfig { initial: 250, max: 250, mss: 100 };
    let receiver = ReceiverConfig { stream_window, keep_payload: true, ..ReceiverConfig::reference() };
    let (mut script, codec) = connected_to(receiver);
    for n in 0..4 {
        script.recv('a', &data(&codec, n));
    }
    script.datagrams();
    let mut syn = vec![0; codec.syn_len()];
    codec.encode_syn(&mut syn);
    let answer = script.recv('a', &syn).datagrams().remove(0);
    let Ok(FromReceiver::SynAck { window, .. }) = codec.decode(&answer, 0, 0) else { panic!() };
    assert_eq!(window, 250, "counted from the first byte, although 400 were taken");
}

pub(super) fn fin(packets: u64, packet_number: u64) -> Vec<u8> {
    let length = packets * PAYLOAD as u64;
    let crc = crc32fast::hash(&vec![0; usize::try_from(length).unwrap()]);
    let mut datagram = vec![0; FIN_LEN];
    native::encode_fin(7, &native::Fin { packet_number, length, crc }, &mut datagram);
    datagram
}

/// Returns the length of the transfer of `a`, if it has finished.
fn finished(script: &mut Script) -> Option<u64> {
    let length = script.events().into_iter().find_map(|(_, event)| match event {
        ReceiverEvent::Finished { bytes, .. } => Some(bytes),
        _ => None,
    });
    script.datagrams();
    length
}

#[test]
fn reordered_fin_waits_for_data() {
    // Three packets and the FIN, in every order, each twice.
    let packets = |codec: &Codec| [data(codec, 0), data(codec, 1), data(codec, 2), fin(3, 3)];
    for order in 0..24 {
        let (mut script, codec) = connected(true);
        let mut rest: Vec<Vec<u8>> = packets(&codec).into();
        for (place, left) in [4, 3, 2, 1].into_iter().enumerate() {
            assert_eq!(finished(&mut script), None, "order {order}, {place} of 4 arrived");
            let next = rest.remove(order / [1, 1, 2, 6][left - 1] % left);
            script.recv('a', &next).recv('a', &next);
        }
        assert_eq!(finished(&mut script), Some(300), "order {order}");
    }
}

#[test]
fn early_fin_is_acknowledged_and_bounds_data() {
    let (mut script, codec) = connected(true);
    script.recv('a', &fin(3, 3));
    let replies = script.datagrams();
    let Ok(FromReceiver::Ack(ack)) = codec.decode(&replies[0], 0, 4) else { panic!("{replies:?}") };
    assert_eq!((ack.ack, ack.echo.unwrap().packet_number), (0, 3));
    script.recv('a', &data(&codec, 3));
    assert_eq!(script.stats().receivers.unexpected, 1, "no data after the end");
    for n in 0..3 {
        script.recv('a', &data(&codec, n));
    }
    assert_eq!(finished(&mut script), Some(300));
}

#[test]
fn contested_checksum_is_never_good() {
    let forged = |seq, crc| {
        let mut datagram = vec![0; FIN_LEN];
        native::encode_fin(7, &native::Fin { packet_number: 9, length: seq, crc }, &mut datagram);
        datagram
    };
    let genuine = fin(2, 2);
    for forged in [forged(200, 1), forged(100, 1), forged(300, 1)] {
        for order in [[&genuine, &forged], [&forged, &genuine]] {
            // Before the last data, and while the application stores.
            for complete in [false, true] {
                let (mut script, codec) = connected(true);
                script.recv('a', &data(&codec, 0));
                if complete {
                    script.recv('a', &data(&codec, 1));
                }
                script.recv('a', order[0]).recv('a', order[1]).recv('a', &data(&codec, 1));
                script.listener.confirm('a');
                let replies = script.datagrams();
                assert!(!script.listener.knows('a'), "{complete}");
                let close = codec.decode(&replies[0], 0, 9);
                assert!(
                    matches!(close, Ok(FromReceiver::Close(Close { reason: CloseReason::Checksum, .. }))),
                    "{close:?}"
                );
            }
        }
    }
}

#[test]
fn data_after_fin_is_answered_with_state() {
    let (mut script, codec) = connected(true);
    script.recv('a', &data(&codec, 0)).recv('a', &fin(1, 1));
    assert_eq!(finished(&mut script), Some(100));
    script.recv('a', &data(&codec, 0));
    let replies = script.datagrams();
    assert!(
        matches!(codec.decode(&replies[0], 0, 2), Ok(FromReceiver::Ack(ack)) if ack.ack == 100),
        "not stored yet"
    );
    script.listener.confirm('a');
    let replies = script.datagrams();
    assert!(matches!(codec.decode(&replies[0], 0, 2), Ok(FromReceiver::FinAck { ack: 100, .. })));
    script.recv('a', &data(&codec, 0)).recv('a', &data(&codec, 0));
    let replies = script.datagrams();
    assert_eq!(replies.len(), 1, "one answer for both");
    assert!(matches!(codec.decode(&replies[0], 0, 2), Ok(FromReceiver::FinAck { ack: 100, .. })));
}

/// Recomputes the checksum of a packet without payload.
fn seal(packet: &mut [u8]) {
    packet[4..8].fill(0);
    let check = crc32fast::hash(packet);
    packet[4..8].copy_from_slice(&check.to_le_bytes());
}

#[test]
fn unknown_version_gets_version_list() {
    let config = ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(ReceiverConfig::reference()) };
    let mut script = Script::new(config);
    let codec = Codec::new(Wire::Native { connection_id: 7 }, LINK, Params::default());
    let mut syn = vec![0; codec.syn_len()];
    codec.encode_syn(&mut syn);
    syn[0] = 0xD2;
    script.recv('a', &syn);
    seal(&mut syn);
    script.recv('a', &syn[..127]).recv('a', &[&[0xD2, 4], &syn[2..]].concat());
    assert_eq!(script.datagrams().len(), 0, "wrong checksum, too short, not a SYN");
    script.recv('a', &syn);
    let replies = script.datagrams();
    assert!(
        matches!(codec.decode(&replies[0], 0, 0), Ok(FromReceiver::Versions(Versions::OURS))),
        "{replies:?}"
    );
    assert!(replies[0].len() <= syn.len() && script.listener.active() == 0);
    for n in 0..1000_u64 {
        syn[8..16].copy_from_slice(&n.to_le_bytes());
        seal(&mut syn);
        script.recv('a', &syn);
    }
    assert_eq!(
        (script.stats().other_versions, script.stats().malformed),
        (257, 1004),
        "at most 256 are queued"
    );
}

#[test]
fn syn_ack_announces_idle_timeout() {
    let config = ListenerConfig {
        secret: Some([1; 32]),
        native_idle: Duration::from_secs(7),
        ..ListenerConfig::new(ReceiverConfig::reference())
    };
    let (.., announced) = connected_with(config, Params::default());
    assert_eq!(announced.idle_timeout_ms, 7000);
}

#[test]
fn ack_policy_obeys_both_limits() {
    for (every, delay_ms, in_force) in [(1, 1000, (1, 25)), (9, 5, (2, 5)), (9, 1000, (2, 25))] {
        let wanted = Params { ack_every: every, ack_delay_max_us: 1000 * delay_ms, ..Params::default() };
        let config =
            ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(ReceiverConfig::reference()) };
        let (mut script, codec, said) = connected_with(config, wanted);
        assert_eq!((said.ack_every, said.ack_delay_max_us), (in_force.0, 1000 * in_force.1), "{wanted:?}");
        for n in 1..in_force.0 {
            script.recv('a', &data(&codec, u64::from(n) - 1));
            assert_eq!(script.datagrams().len(), 0, "{wanted:?}");
        }
        script.recv('a', &data(&codec, u64::from(in_force.0) - 1));
        assert_eq!(script.datagrams().len(), 1, "{wanted:?}");
        if in_force.0 > 1 {
            script.at(100).recv('a', &data(&codec, 2));
            script.at(100 + u64::from(in_force.1) - 1);
            assert_eq!(script.datagrams().len(), 0, "{wanted:?}");
            script.at(100 + u64::from(in_force.1));
            assert_eq!(script.datagrams().len(), 1, "{wanted:?}");
        }
    }
}

#[test]
fn acks_fit_sender_datagram_limit() {
    // The longest ACK has 70 bytes and 20 for each block, and at most 548 bytes.
    for (max_datagram, most) in [(128, 2), (300, 11), (1472, 23)] {
        let config =
            ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(ReceiverConfig::reference()) };
        let (mut script, codec, _) = connected_with(config, Params { max_datagram, ..Params::default() });
        let mut replies = Vec::new();
        for n in 0..50 {
            // Every second packet is missing.
            script.recv('a', &data(&codec, 2 * n + 1));
            replies.extend(script.datagrams());
        }
        assert!(replies.iter().all(|reply| reply.len() <= usize::from(max_datagram)), "{max_datagram}");
        let blocks = replies.iter().map(|reply| match codec.decode(reply, 0, 100) {
            Ok(FromReceiver::Ack(ack)) => ack.sack.iter().len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(blocks.max(), Some(most), "{max_datagram}");
    }
}

#[test]
fn acks_report_socket_overflow_if_requested() {
    let reported = |socket_buffer, overflow| {
        let receiver = ReceiverConfig::reference();
        let config = ListenerConfig { secret: Some([1; 32]), socket_buffer, ..ListenerConfig::new(receiver) };
        let mut script = Script::new(config);
        script.listener.handle_overflow(u64::from(u32::MAX) - 1);
        let (mut script, codec, _) = handshake(script, Params { overflow, ..Params::default() });
        let mut counts = Vec::new();
        for (n, messages) in [(0, 0), (2, 3), (4, 0)] {
            script.listener.handle_overflow(messages);
            script.recv('a', &data(&codec, n)).recv('a', &data(&codec, n + 1));
            let replies = script.datagrams();
            match codec.decode(&replies[0], 0, 100) {
                Ok(FromReceiver::Ack(ack)) => counts.push(ack.overflow),
                other => panic!("{other:?}"),
            }
        }
        counts
    };
    assert_eq!(reported(Some(BUFFER), true), [Some(0), Some(3), Some(3)]);
    assert_eq!(reported(Some(BUFFER), false), [None; 3], "not requested");
    assert_eq!(reported(None, true), [None; 3], "the buffer limits no window");
}

#[test]
fn syn_flood_does_not_delay_peers() {
    let (mut script, codec) = connected(true);
    let all = |script: &mut Script| {
        let mut replies = Vec::new();
        while let Some((_, reply)) = script.listener.poll_reply(script.now) {
            replies.push(reply.to_vec());
        }
        replies
    };
    let flood = |script: &mut Script| (0..1000).for_each(|n| send_syn(script, 100 + n));
    flood(&mut script);
    script.recv('a', &data(&codec, 0)).recv('a', &data(&codec, 1));
    let replies = all(&mut script);
    assert_eq!(replies.len(), 1 + 32, "while data arrives, 10,000 a second in bursts of 32");
    assert!(matches!(codec.decode(&replies[0], 0, 2), Ok(FromReceiver::Ack(ack)) if ack.ack == 200));
    flood(&mut script);
    script.listener.refuse('a', CloseReason::Storage);
    let replies = all(&mut script);
    assert_eq!(replies.len(), 1);
    let close = codec.decode(&replies[0], 0, 2);
    assert!(
        matches!(close, Ok(FromReceiver::Close(Close { reason: CloseReason::Storage, .. }))),
        "{close:?}"
    );
    let wait = script.listener.poll_timeout().expect("replies wait") - script.now;
    assert!(wait <= Duration::from_micros(100), "{wait:?}");
    script.now += Duration::from_millis(1);
    assert_eq!(all(&mut script).len(), 10);
    script.now += Duration::from_millis(4999);
    assert_eq!(all(&mut script).len(), 246, "5 s after the newest data");
    let dropped = 2 * 1000 - 256 - 32;
    assert_eq!((script.stats().retries, script.stats().stateless_dropped), (1 + 256 + 32, dropped));
}

#[test]
fn full_socket_buffer_limits_stateless_replies() {
    let (mut script, _) = connected(true);
    script.now += Duration::from_secs(10);
    let answered = |script: &mut Script| {
        (0..100).for_each(|n| send_syn(script, 100 + n));
        std::iter::from_fn(|| script.listener.poll_reply(script.now).map(drop)).count()
    };
    assert_eq!(answered(&mut script), 100);
    script.listener.handle_overflow(1);
    assert_eq!(answered(&mut script), 32, "a burst");
    script.now += Duration::from_secs(5);
    assert_eq!(answered(&mut script), 68 + 100, "none was dropped for 5 s");
}

#[test]
fn dropped_closes_are_counted() {
    let config = ListenerConfig { max_peers: 0, secret: Some([1; 32]), ..reference() };
    let mut script = Script::new(config);
    script.listener.stateless.push_close('a', 7, CloseReason::Storage);
    assert_eq!((script.datagrams().len(), script.stats().closes_dropped), (0, 1));
}

/// Sends the first SYN of an unconnected address.
fn send_syn(script: &mut Script, connection_id: u64) {
    let codec = Codec::new(Wire::Native { connection_id }, LINK, Params::default());
    let mut syn = vec![0; codec.syn_len()];
    codec.encode_syn(&mut syn);
    script.recv('s', &syn);
}

#[test]
fn busy_peer_does_not_starve_new_peers() {
    let config = ListenerConfig { secret: Some([1; 32]), ..reference() };
    // First with single replies, then with full batches.
    let mut script = Script::connected(config, "a");
    script.data('a', 0, b"x");
    (0..3).for_each(|n| send_syn(&mut script, n));
    let order: String = (1..60)
        .map(|seq| {
            script.data('a', seq, b"x");
            script.listener.poll_reply(script.now).unwrap().0
        })
        .collect();
    assert_eq!(order.matches('s').count(), 3, "{order}");
    assert_eq!(order.find('s'), Some(15), "the answer to the SYN and {order}");
    let mut script = Script::connected(config, "a");
    (0..3).for_each(|n| send_syn(&mut script, n));
    let mut order = String::new();
    for turn in 0..6 {
        (0..70).for_each(|n| _ = script.data('a', 70 * turn + n, b"x"));
        script.batch.clear();
        order.extend(script.listener.poll_transmit(script.now, &mut script.batch));
    }
    assert_eq!(order, "asasas");
}

#[test]
fn finished_peer_makes_room_after_25_s() {
    let config = ListenerConfig {
        secret: Some([1; 32]),
        max_peers: 1,
        ..ListenerConfig::new(ReceiverConfig::reference())
    };
    for finished in [true, false] {
        let (mut script, codec, _) = connected_with(config, Params::default());
        if finished {
            let mut fin = vec![0; FIN_LEN];
            codec.encode_fin(
                DataHeader { seq: 0, packet_number: 0, ack_now: true, ack_every: 0 },
                0,
                &mut fin,
            );
            script.recv('a', &fin);
            script.listener.confirm('a');
            script.datagrams();
        }
        script.at(24 * SECOND).syn('b', 0);
        assert!(!script.listener.knows('b'), "finished: {finished}");
        script.at(26 * SECOND).syn('b', 0);
        assert_eq!((script.listener.knows('b'), script.listener.knows('a')), (finished, !finished));
    }
}

#[test]
fn native_peer_times_out_after_120_s() {
    let (mut script, ..) = connected(false);
    script.at(119 * SECOND);
    assert!(script.listener.knows('a'));
    script.at(121 * SECOND);
    assert!(!script.listener.knows('a'));
}
