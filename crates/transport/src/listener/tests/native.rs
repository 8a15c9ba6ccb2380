//! Peers in the native format: delayed ACKs, the end, answers to strangers.

use super::budget::BUFFER;
use super::*;
use crate::receiver::window::WindowConfig;
use crate::wire::native::{self, DATA_HEADER, FIN_LEN, LEAST_FIRST_WINDOW, Params, Versions};
use crate::wire::{Codec, DataHead, Reply, Wire};

pub(super) const PAYLOAD: usize = 100;

/// A peer `a` that is connected, and what writes its packets.
pub(super) fn connected(keep_payload: bool) -> (Script, Codec) {
    connected_to(ReceiverConfig { keep_payload, ..ReceiverConfig::reference() })
}

fn connected_to(receiver: ReceiverConfig) -> (Script, Codec) {
    let config = ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(receiver) };
    let (script, codec, _) = met(config, Params::default());
    (script, codec)
}

/// The same for a sender that says `params` of itself, and what the receiver said.
fn met(config: ListenerConfig, params: Params) -> (Script, Codec, Params) {
    introduced(Script::new(config), params)
}

/// The same for a listener that is there already.
fn introduced(mut script: Script, params: Params) -> (Script, Codec, Params) {
    let mut codec = Codec::new(Wire::Native { connection_id: 7 }, LINK, params);
    let mut said = None;
    for _ in 0..2 {
        let mut syn = vec![0; codec.syn_len()];
        codec.encode_syn(&mut syn);
        let replies = script.recv('a', &syn).datagrams();
        match codec.decode(&replies[0], 0, 0) {
            Ok(Reply::Retry { cookie }) => assert!(codec.take_cookie(cookie)),
            Ok(Reply::SynAck { params, .. }) => said = params,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(script.listener.active(), 1);
    script.events();
    (script, codec, said.expect("a SYN-ACK"))
}

pub(super) fn data(codec: &Codec, n: u64) -> Vec<u8> {
    let mut datagram = vec![0; DATA_HEADER + PAYLOAD];
    let crc = crc32fast::hash(&datagram[DATA_HEADER..]);
    codec.encode_data(
        DataHead { seq: n * PAYLOAD as u64, tx: n, asks: false, ack_every: 0 },
        crc,
        &mut datagram,
    );
    datagram
}

#[test]
fn a_single_packet_is_acknowledged_after_the_delay_whether_or_not_its_bytes_are_kept() {
    for keep_payload in [true, false] {
        let (mut script, codec) = connected(keep_payload);
        script.recv('a', &data(&codec, 0)).recv('a', &data(&codec, 1));
        assert_eq!(script.datagrams().len(), 1, "every second one");
        script.at(100).recv('a', &data(&codec, 2));
        assert_eq!(script.datagrams().len(), 0);
        script.at(124);
        assert_eq!(script.datagrams().len(), 0);
        script.at(125);
        let replies = script.datagrams();
        assert_eq!(replies.len(), 1, "keep_payload {keep_payload}");
        assert!(matches!(codec.decode(&replies[0], 0, 3), Ok(Reply::Ack(ack)) if ack.ack == 300));
    }
}

#[test]
fn data_of_a_transfer_whose_syn_has_not_arrived_does_not_get_into_the_one_before() {
    let (mut script, codec) = connected(true);
    script.recv('a', &data(&codec, 0));
    let wire = Wire::Native { connection_id: 8 };
    let other = Codec::new(wire, LINK, Params::default());
    let now = script.now;
    // Its SYN is on an emulated link, or the application was storing the transfer before when it came.
    script.listener.peers.get_mut(&'a').unwrap().wire = wire;
    let bytes = script.stats().receivers.bytes;
    script.listener.deliver_datagram(now, 'a', Ecn::NotEct, &data(&other, 1));
    script.recv('a', &data(&other, 1));
    assert_eq!((script.stats().receivers.bytes, script.stats().no_connection), (bytes, 2));
}

#[test]
fn the_first_window_is_taken_whatever_is_offered() {
    let stream_window = WindowConfig { initial: 100, max: 100, mss: 100 };
    let receiver = ReceiverConfig { stream_window, keep_payload: true, ..ReceiverConfig::reference() };
    let (mut script, codec) = connected_to(receiver);
    let packets = LEAST_FIRST_WINDOW.div_ceil(PAYLOAD as u64);
    for n in 0..packets + 2 {
        script.recv('a', &data(&codec, n));
    }
    let last = script.datagrams().pop().unwrap();
    let Ok(Reply::Ack(ack)) = codec.decode(&last, 0, packets) else { panic!() };
    assert_eq!((ack.ack, ack.wnd), (LEAST_FIRST_WINDOW, 0), "and not a byte more");
}

#[test]
fn repeated_syn_after_early_data_is_offered_the_same_window() {
    let stream_window = WindowConfig { initial: 250, max: 250, mss: 100 };
    let receiver = ReceiverConfig { stream_window, keep_payload: true, ..ReceiverConfig::reference() };
    let (mut script, codec) = connected_to(receiver);
    for n in 0..4 {
        script.recv('a', &data(&codec, n));
    }
    script.datagrams();
    let mut syn = vec![0; codec.syn_len()];
    codec.encode_syn(&mut syn);
    let answer = script.recv('a', &syn).datagrams().pop().unwrap();
    let Ok(Reply::SynAck { wnd, .. }) = codec.decode(&answer, 0, 0) else { panic!() };
    assert_eq!(wnd, 250, "counted from the first byte, although 400 were taken");
}

fn fin(packets: u64, tx: u64) -> Vec<u8> {
    let length = packets * PAYLOAD as u64;
    let crc = crc32fast::hash(&vec![0; usize::try_from(length).unwrap()]);
    let mut datagram = vec![0; FIN_LEN];
    native::encode_fin(7, &native::Fin { tx, length, crc }, &mut datagram);
    datagram
}

/// How the transfer of `a` ended, as its application was told.
fn finished(script: &mut Script) -> Option<u64> {
    let told = script.events().into_iter().find_map(|(_, event)| match event {
        ReceiverEvent::Finished { bytes, .. } => Some(bytes),
        _ => None,
    });
    script.datagrams();
    told
}

#[test]
fn a_fin_waits_for_the_data_that_it_overtook() {
    // Of three packets and the FIN, in every order and each of them twice.
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
fn a_fin_that_comes_early_is_acknowledged_at_once_and_what_lies_behind_it_is_refused() {
    let (mut script, codec) = connected(true);
    script.recv('a', &fin(3, 3));
    let replies = script.datagrams();
    let Ok(Reply::Ack(ack)) = codec.decode(&replies[0], 0, 4) else { panic!("{replies:?}") };
    assert_eq!((ack.ack, ack.echo.unwrap().tx), (0, 3));
    script.recv('a', &data(&codec, 3)).recv('a', &fin(2, 4));
    assert_eq!(script.stats().receivers.unexpected, 2, "nothing is beyond the end, and there is one end");
    for n in 0..3 {
        script.recv('a', &data(&codec, n));
    }
    assert_eq!(finished(&mut script), Some(300));
}

#[test]
fn data_that_is_sent_again_after_the_end_hears_how_far_the_receiver_is() {
    let (mut script, codec) = connected(true);
    script.recv('a', &data(&codec, 0)).recv('a', &fin(1, 1));
    assert_eq!(finished(&mut script), Some(100));
    script.recv('a', &data(&codec, 0));
    let replies = script.datagrams();
    assert!(
        matches!(codec.decode(&replies[0], 0, 2), Ok(Reply::Ack(ack)) if ack.ack == 100),
        "not stored yet"
    );
    script.listener.confirm('a');
    let replies = script.datagrams();
    assert!(matches!(codec.decode(&replies[0], 0, 2), Ok(Reply::FinAck { ack: 100, .. })));
    script.recv('a', &data(&codec, 0)).recv('a', &data(&codec, 0));
    let replies = script.datagrams();
    assert_eq!(replies.len(), 1, "one answer for both");
    assert!(matches!(codec.decode(&replies[0], 0, 2), Ok(Reply::FinAck { ack: 100, .. })));
}

/// Puts the check of a packet without payload right.
fn seal(packet: &mut [u8]) {
    packet[4..8].fill(0);
    let check = crc32fast::hash(packet);
    packet[4..8].copy_from_slice(&check.to_le_bytes());
}

#[test]
fn a_syn_of_another_version_is_told_which_ones_are_spoken() {
    let config = ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(ReceiverConfig::reference()) };
    let mut script = Script::new(config);
    let codec = Codec::new(Wire::Native { connection_id: 7 }, LINK, Params::default());
    let mut syn = vec![0; codec.syn_len()];
    codec.encode_syn(&mut syn);
    syn[0] = 0xD2;
    script.recv('a', &syn);
    seal(&mut syn);
    script.recv('a', &syn[..127]).recv('a', &[&[0xD2, 4], &syn[2..]].concat());
    assert_eq!(script.datagrams().len(), 0, "its check wrong, too short, and no SYN");
    script.recv('a', &syn);
    let replies = script.datagrams();
    assert!(matches!(codec.decode(&replies[0], 0, 0), Ok(Reply::Versions(Versions::OURS))), "{replies:?}");
    assert!(replies[0].len() <= syn.len() && script.listener.active() == 0);
    for n in 0..1000_u64 {
        syn[8..16].copy_from_slice(&n.to_le_bytes());
        seal(&mut syn);
        script.recv('a', &syn);
    }
    assert_eq!((script.stats().other_versions, script.stats().malformed), (257, 1004), "256 wait at most");
}

#[test]
fn the_idle_time_that_is_announced_is_that_of_the_listener() {
    let config = ListenerConfig {
        secret: Some([1; 32]),
        native_idle: Duration::from_secs(7),
        ..ListenerConfig::new(ReceiverConfig::reference())
    };
    let (.., said) = met(config, Params::default());
    assert_eq!(said.idle_timeout_ms, 7000);
}

#[test]
fn a_receiver_acknowledges_no_rarer_and_no_later_than_its_sender_wants() {
    for (every, delay_ms, in_force) in [(1, 1000, (1, 25)), (9, 5, (2, 5)), (9, 1000, (2, 25))] {
        let wanted = Params { ack_every: every, ack_delay_max_us: 1000 * delay_ms, ..Params::default() };
        let config =
            ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(ReceiverConfig::reference()) };
        let (mut script, codec, said) = met(config, wanted);
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
fn no_ack_is_longer_than_its_sender_takes() {
    // 70 bytes and 20 for each block are the longest, in 548 bytes at most.
    for (max_datagram, most) in [(128, 2), (300, 11), (1472, 23)] {
        let config =
            ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(ReceiverConfig::reference()) };
        let (mut script, codec, _) = met(config, Params { max_datagram, ..Params::default() });
        let mut replies = Vec::new();
        for n in 0..50 {
            // Every second one is missing.
            script.recv('a', &data(&codec, 2 * n + 1));
            replies.extend(script.datagrams());
        }
        assert!(replies.iter().all(|reply| reply.len() <= usize::from(max_datagram)), "{max_datagram}");
        let blocks = replies.iter().map(|reply| match codec.decode(reply, 0, 100) {
            Ok(Reply::Ack(ack)) => ack.sack.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(blocks.max(), Some(most), "{max_datagram}");
    }
}

#[test]
fn acks_tell_a_sender_that_asks_what_the_socket_had_no_room_for_since_its_syn() {
    let told = |socket_buffer, overflow| {
        let receiver = ReceiverConfig::reference();
        let config = ListenerConfig { secret: Some([1; 32]), socket_buffer, ..ListenerConfig::new(receiver) };
        let mut script = Script::new(config);
        script.listener.handle_overflow(u64::from(u32::MAX) - 1);
        let (mut script, codec, _) = introduced(script, Params { overflow, ..Params::default() });
        let mut told = Vec::new();
        for (n, messages) in [(0, 0), (2, 3), (4, 0)] {
            script.listener.handle_overflow(messages);
            script.recv('a', &data(&codec, n)).recv('a', &data(&codec, n + 1));
            let replies = script.datagrams();
            match codec.decode(&replies[0], 0, 100) {
                Ok(Reply::Ack(ack)) => told.push(ack.overflow),
                other => panic!("{other:?}"),
            }
        }
        told
    };
    assert_eq!(told(Some(BUFFER), true), [Some(0), Some(3), Some(3)]);
    assert_eq!(told(Some(BUFFER), false), [None; 3], "who did not ask could not read it");
    assert_eq!(told(None, true), [None; 3], "where windows do not follow the buffer");
}

#[test]
fn however_many_strangers_ask_peers_get_their_answers_and_last_words_first() {
    let (mut script, codec) = connected(true);
    let all = |script: &mut Script| {
        let mut replies = Vec::new();
        while let Some((_, reply)) = script.listener.poll_reply(script.now) {
            replies.push(reply.to_vec());
        }
        replies
    };
    let flood = |script: &mut Script| (0..1000).for_each(|n| knock(script, 100 + n));
    flood(&mut script);
    script.recv('a', &data(&codec, 0)).recv('a', &data(&codec, 1));
    let replies = all(&mut script);
    assert_eq!(replies.len(), 1 + 256, "so many strangers wait at most");
    assert!(matches!(codec.decode(&replies[0], 0, 2), Ok(Reply::Ack(ack)) if ack.ack == 200));
    flood(&mut script);
    script.listener.refuse('a', CloseReason::Storage);
    let replies = all(&mut script);
    assert_eq!(replies.len(), 1 + 256);
    let told = codec.decode(&replies[0], 0, 2);
    assert!(matches!(told, Ok(Reply::Close { reason: CloseReason::Storage, .. })), "{told:?}");
    assert_eq!((script.stats().retries, script.stats().unanswered), (1 + 2 * 256, 2 * (1000 - 256)));
}

#[test]
fn last_words_that_have_no_room_are_counted() {
    let config = ListenerConfig { max_peers: 0, secret: Some([1; 32]), ..reference() };
    let mut script = Script::new(config);
    script.listener.notices.say_last('a', 7, CloseReason::Storage);
    assert_eq!((script.datagrams().len(), script.stats().unsaid), (0, 1));
}

/// A stranger's first SYN.
fn knock(script: &mut Script, connection_id: u64) {
    let stranger = Codec::new(Wire::Native { connection_id }, LINK, Params::default());
    let mut syn = vec![0; stranger.syn_len()];
    stranger.encode_syn(&mut syn);
    script.recv('s', &syn);
}

#[test]
fn a_peer_that_always_has_something_to_say_keeps_no_stranger_out() {
    let config = ListenerConfig { secret: Some([1; 32]), ..reference() };
    // One by one, and in full batches.
    let mut script = Script::connected(config, "a");
    script.data('a', 0, b"x");
    (0..3).for_each(|n| knock(&mut script, n));
    let order: String = (1..60)
        .map(|seq| {
            script.data('a', seq, b"x");
            script.listener.poll_reply(script.now).unwrap().0
        })
        .collect();
    assert_eq!(order.matches('s').count(), 3, "{order}");
    assert_eq!(order.find('s'), Some(15), "the answer to the SYN and {order}");
    let mut script = Script::connected(config, "a");
    (0..3).for_each(|n| knock(&mut script, n));
    let mut order = String::new();
    for turn in 0..6 {
        (0..70).for_each(|n| _ = script.data('a', 70 * turn + n, b"x"));
        script.batch.clear();
        order.extend(script.listener.poll_transmit(script.now, &mut script.batch));
    }
    assert_eq!(order, "asasas");
}

#[test]
fn finished_peer_makes_room_after_25_seconds() {
    let config = ListenerConfig {
        secret: Some([1; 32]),
        max_peers: 1,
        ..ListenerConfig::new(ReceiverConfig::reference())
    };
    for finished in [true, false] {
        let (mut script, codec, _) = met(config, Params::default());
        if finished {
            let mut fin = vec![0; FIN_LEN];
            codec.encode_fin(DataHead { seq: 0, tx: 0, asks: true, ack_every: 0 }, 0, &mut fin);
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
fn native_peer_is_remembered_for_120_seconds() {
    let (mut script, ..) = connected(false);
    script.at(119 * SECOND);
    assert!(script.listener.knows('a'));
    script.at(121 * SECOND);
    assert!(!script.listener.knows('a'));
}
