//! Peers in the native format: delayed ACKs.

use super::*;
use crate::receiver::autotune::WindowConfig;
use crate::wire::native::{DATA_HEADER, FIRST_WINDOW, Params};
use crate::wire::{Codec, DataHead, Reply, Wire};

const PAYLOAD: usize = 100;

/// A peer `a` that is connected, and what writes its packets.
fn connected(keep_payload: bool) -> (Script, Codec) {
    connected_to(ReceiverConfig { keep_payload, ..ReceiverConfig::reference() })
}

fn connected_to(receiver: ReceiverConfig) -> (Script, Codec) {
    let config = ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(receiver) };
    let mut script = Script::new(config);
    let mut codec = Codec::new(Wire::Native { connection_id: 7 }, LINK, Params::default());
    for _ in 0..2 {
        let mut syn = vec![0; codec.syn_len()];
        codec.encode_syn(&mut syn);
        let replies = script.recv('a', &syn).datagrams();
        if let Ok(Reply::Retry { cookie }) = codec.decode(&replies[0], 0, 0) {
            codec.take_cookie(cookie);
        }
    }
    assert_eq!(script.listener.active(), 1);
    script.events();
    (script, codec)
}

fn data(codec: &Codec, n: u64) -> Vec<u8> {
    let mut datagram = vec![0; DATA_HEADER + PAYLOAD];
    let crc = crc32fast::hash(&datagram[DATA_HEADER..]);
    codec.encode_data(DataHead { seq: n * PAYLOAD as u64, tx: n, asks: false }, crc, &mut datagram);
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
fn data_that_comes_before_its_syn_is_dropped_without_a_word() {
    let config = ListenerConfig { secret: Some([1; 32]), ..ListenerConfig::new(ReceiverConfig::reference()) };
    let mut script = Script::new(config);
    let codec = Codec::new(Wire::Native { connection_id: 7 }, LINK, Params::default());
    script.recv('a', &data(&codec, 0)).recv('a', &data(&codec, 1));
    assert_eq!((script.datagrams().len(), script.listener.active()), (0, 0));
    assert_eq!((script.stats().no_connection, script.events()), (2, vec![]));
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
    script.listener.deliver_datagram(now, 'a', &data(&other, 1));
    script.recv('a', &data(&other, 1));
    assert_eq!((script.stats().receivers.bytes, script.stats().no_connection), (bytes, 2));
}

#[test]
fn the_first_window_is_taken_whatever_is_offered() {
    let stream_window = WindowConfig { initial: 100, max: 100, mss: 100 };
    let receiver = ReceiverConfig { stream_window, keep_payload: true, ..ReceiverConfig::reference() };
    let (mut script, codec) = connected_to(receiver);
    let packets = FIRST_WINDOW / PAYLOAD as u64;
    for n in 0..packets + 2 {
        script.recv('a', &data(&codec, n));
    }
    let last = script.datagrams().pop().unwrap();
    let Ok(Reply::Ack(ack)) = codec.decode(&last, 0, packets) else { panic!() };
    assert_eq!((ack.ack, ack.wnd), (FIRST_WINDOW, 0), "and not a byte more");
}
