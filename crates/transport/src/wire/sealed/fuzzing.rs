//! Properties of the decoders for arbitrary bytes, for the fuzz target `decode_sealed`.

use super::header::HEADER;
use super::{Body, Clear, Hello, Reply, TAG, connection_id, encode_syn, peek};

/// Decodes `datagram` in three ways: as an opened packet with its tag, as a packet that is not
/// sealed, and as a payload of the handshake. `near` is the packet's number.
///
/// # Panics
/// A decoder returns a value outside of its range, or a value whose encoding it does not decode.
pub fn check_sealed_decoders(near: u64, datagram: &[u8]) {
    check_body(near, datagram);
    check_clear(datagram);
    if let Ok(hello) = Hello::decode(datagram) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(reply) = Reply::decode(datagram) {
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }
}

fn check_body(near: u64, datagram: &[u8]) {
    let Some(header) = peek(datagram) else { return };
    let body = &datagram[HEADER..datagram.len() - TAG];
    let Ok(body) = Body::decode(&header, near, body, near) else { return };
    let ack = match body {
        Body::Data { piece, ack } => {
            assert!(piece.seq.checked_add(piece.payload.len() as u64).is_some(), "offsets are below 2^64");
            ack
        }
        Body::Fin { ack, .. } => ack,
        Body::Ack(ack) => Some(ack),
        Body::FinAck { .. } | Body::Close(_) | Body::Path(_) => None,
    };
    if let Some(ack) = ack {
        let mut edge = ack.ack;
        for block in ack.sack.iter() {
            assert!(edge < block.start && block.start < block.end, "blocks ascend beyond rcv_nxt");
            edge = block.end;
        }
    }
}

fn check_clear(datagram: &[u8]) {
    let _ = connection_id(datagram);
    if let Ok(Clear::Syn(syn)) = Clear::decode(datagram) {
        let mut again = vec![0; datagram.len()];
        encode_syn(1, &syn, &mut again);
        assert_eq!(Clear::decode(&again), Ok(Clear::Syn(syn)));
    }
}
