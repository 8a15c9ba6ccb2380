//! Peers in the native format: delayed ACKs.

use super::*;
use crate::wire::native::{DATA_HEADER, Params};
use crate::wire::{Codec, DataHead, Reply, Wire};

const PAYLOAD: usize = 100;

/// A peer `a` that is connected, and what writes its packets.
fn connected(keep_payload: bool) -> (Script, Codec) {
    let receiver = ReceiverConfig { keep_payload, ..ReceiverConfig::reference() };
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
