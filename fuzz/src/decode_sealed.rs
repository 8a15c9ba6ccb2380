//! Decoders of version 2 over arbitrary bytes: as a packet that was opened, as one that is not
//! sealed, unchanged and with a valid header and check, and as a payload of the handshake.

use rdt_transport::wire::sealed::{self, Body, Clear, Hello, Reply};

use crate::bytes::seal;

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let near = u64::from_le_bytes(*near);
    let mut valid = datagram.to_vec();
    if let [mark, kind, ..] = &mut valid[..] {
        (*mark, *kind) = (0xD2, *kind % 14 + 1);
    }
    open(datagram, near);
    open(&valid, near);
    clear(datagram);
    seal(&mut valid);
    clear(&valid);
    if let Ok(hello) = Hello::decode(datagram) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(reply) = Reply::decode(datagram) {
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }
}

fn open(datagram: &[u8], near: u64) {
    let Some(header) = sealed::peek(datagram) else { return };
    let body = &datagram[16..datagram.len() - sealed::TAG];
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

fn clear(datagram: &[u8]) {
    let _ = sealed::connection_id(datagram);
    if let Ok(Clear::Syn(syn)) = Clear::decode(datagram) {
        let mut again = vec![0; datagram.len()];
        sealed::encode_syn(1, &syn, &mut again);
        assert_eq!(Clear::decode(&again), Ok(Clear::Syn(syn)));
    }
}
