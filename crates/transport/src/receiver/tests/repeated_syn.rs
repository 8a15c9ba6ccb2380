//! Answers to a SYN that repeats its connection ID after data arrived.

use super::*;
use crate::wire::native;
use crate::wire::{Seal, Wire};

/// The SYN of a native transfer.
fn syn(script: &mut Script) {
    let wire = Wire::Native { connection_id: 7 };
    let open = Open { wire, seq: 0, cookie: None, link: None, params: None, name: None };
    script.receiver.handle(script.now, &FromSender::Syn(open), Ecn::NotEct, script.memory);
}

/// Kinds and cumulative numbers of the replies.
fn told(script: &mut Script) -> Vec<(&'static str, u64)> {
    let mut out = [0; MAX_REPLY];
    let mut told = Vec::new();
    while let Some(len) = script.receiver.poll_reply(script.now, &mut out) {
        told.push(match native::decode_from_receiver(&out[..len], 0).unwrap() {
            FromReceiver::SynAck { .. } => ("SYN-ACK", 0),
            FromReceiver::Ack(ack) => ("ACK", ack.ack),
            FromReceiver::FinAck { ack, .. } => ("FIN-ACK", ack),
            other => panic!("{other:?}"),
        });
    }
    told
}

#[test]
fn repeated_syn_repeats_newest_answer() {
    let mut script = Script::new(keeping());
    syn(&mut script);
    syn(&mut script);
    assert_eq!(told(&mut script), [("SYN-ACK", 0), ("SYN-ACK", 0)], "no data arrived");
    for (packet_number, payload) in [(0, b"ab"), (1, b"cd")] {
        let crc = Some(crc32fast::hash(payload));
        let piece = Piece {
            seq: 2 * packet_number,
            payload,
            packet_number: Some(packet_number),
            crc,
            ack_now: false,
            ack_every: 0,
        };
        script.receiver.handle(script.now, &FromSender::Data(piece), Ecn::NotEct, script.memory);
    }
    assert_eq!(told(&mut script), [("ACK", 4)]);
    script.at(1000);
    syn(&mut script);
    assert_eq!(told(&mut script), [("SYN-ACK", 0), ("ACK", 4)]);
    let seal = Some(Seal { crc: crc32fast::hash(b"abcd"), packet_number: 2 });
    let fin = FromSender::Fin { seq: 4, seal, understands_ack: true };
    script.receiver.handle(script.now, &fin, Ecn::NotEct, script.memory);
    script.confirm();
    assert_eq!(told(&mut script).last(), Some(&("FIN-ACK", 4)));
    syn(&mut script);
    assert_eq!(told(&mut script), [("SYN-ACK", 0), ("FIN-ACK", 4)]);
}
