//! Properties of private parts for arbitrary bytes, for fuzz targets. No part of the stable API.

use std::time::{Duration, Instant};

use crate::recovery::Scoreboard;
use crate::wire::native::{
    self, Body, Clear, Hello, Reply, SackBlocks, connection_id, encode_open, encode_syn, other_version, peek,
};
use crate::wire::{Ack, Answer, FromReceiver, FromSender, Numbering, classic};

/// Decodes `datagram` as a classic packet of a sender and of a receiver. Its number is near `near`.
///
/// # Panics
/// A decoder returns a value outside of its range, or a value whose encoding it does not decode.
pub fn check_classic(near: u64, datagram: &[u8]) {
    if let Ok(FromSender::Data(piece)) = FromSender::decode(datagram, near) {
        assert!(piece.payload.len() < datagram.len(), "the payload is part of the datagram");
    }
    let Ok(reply) = FromReceiver::decode(datagram, near) else { return };
    let answer = match reply {
        FromReceiver::SynAck { ack, window } => Answer::SynAck { ack, window },
        FromReceiver::Ack(Ack { ack, window, .. }) => Answer::Ack { ack, window },
        FromReceiver::FinAck { ack, crc } => Answer::FinAck { ack, crc },
    };
    let mut again = [0; classic::REPLY_LEN];
    classic::encode_answer(answer, &mut again);
    assert_eq!(again, datagram, "a reply has one encoding");
}

/// Decodes `datagram` as a native packet in three ways: as an opened one with its tag, as one that
/// is not sealed, and as a payload of the handshake. `near` is the packet's number.
///
/// # Panics
/// A decoder returns a value outside of its range, or a value whose encoding it does not decode.
pub fn check_native(near: u64, datagram: &[u8]) {
    let is_native = native::recognize(datagram);
    assert!(is_native || other_version(datagram).is_none(), "a SYN of any version is native");
    check_opened(near, datagram);
    check_clear(datagram);
    if let Ok(hello) = Hello::decode(datagram) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(reply) = Reply::decode(datagram) {
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }
}

/// Checks that the blocks ascend beyond `rcv_nxt`.
fn check_blocks(rcv_nxt: u64, blocks: SackBlocks<'_>) {
    let mut edge = rcv_nxt;
    for block in blocks.iter() {
        assert!(edge < block.start && block.start < block.end, "blocks ascend beyond rcv_nxt");
        edge = block.end;
    }
}

fn check_opened(near: u64, datagram: &[u8]) {
    let Some(header) = peek(datagram) else { return };
    let body = &datagram[native::HEADER..datagram.len() - native::TAG];
    let Ok(body) = Body::decode(&header, near, body, near) else { return };
    let ack = match body {
        Body::Data { piece, ack } => {
            assert!(piece.seq.checked_add(piece.payload.len() as u64).is_some(), "offsets are below 2^64");
            ack
        }
        Body::Fin { ack, .. } => ack,
        Body::Ack(ack) => Some(ack),
        Body::FinAck { .. } | Body::Close(_) | Body::Path(_) | Body::OpenAck(_) => None,
    };
    if let Some(ack) = ack {
        check_blocks(ack.ack, ack.sack);
    }
}

fn check_clear(datagram: &[u8]) {
    let _ = connection_id(datagram);
    match Clear::decode(datagram) {
        Ok(Clear::Syn(syn)) => {
            let mut again = vec![0; datagram.len()];
            encode_syn(1, &syn, &mut again);
            assert_eq!(Clear::decode(&again), Ok(Clear::Syn(syn)));
        }
        Ok(Clear::Open(open)) => {
            assert_eq!(Clear::decode(&encode_open(1, &open)), Ok(Clear::Open(open)));
        }
        _ => {}
    }
}

/// Performs an operation on the scoreboard of a sender for each three bytes of `ops`: new segments,
/// a cumulative ACK, a SACK block, a loss, or a retransmission, at `start` and each ms after it.
///
/// # Panics
/// A byte is delivered twice or never.
pub fn check_scoreboard(start: Instant, ops: &[u8]) {
    let mut now = start;
    let mut board = Scoreboard::new(Numbering::Bytes);
    // Offsets at which segments begin, and the bytes delivered so far.
    let (mut starts, mut packet_number, mut delivered) = (Vec::new(), 0_u64, 0_u64);
    for &[kind, a, b] in ops.as_chunks().0 {
        now += Duration::from_millis(1);
        let (una, next) = (board.una_offset(), board.next_offset());
        let at = |part: u8| una + (next - una) * u64::from(part) / 255;
        let segment = starts.get(starts.len() * usize::from(a) / 256).copied();
        match (kind % 5, segment) {
            (0, _) => {
                let (len, count) = (u32::from(a) + 1, u64::from(b % 16) + 1);
                board.push_run(now, len, count, |n| packet_number + n);
                starts.extend((0..count).map(|n| next + n * u64::from(len)));
                packet_number += count;
            }
            (1, _) => {
                let ack = at(a);
                delivered += board.acknowledge(ack, |_| false, |_| {}).bytes;
                starts.retain(|start| *start >= ack);
            }
            (2, _) => {
                let (from, to) = (at(a.min(b)).max(una + 1), at(a.max(b)));
                if from < to {
                    delivered += board.sack(&(from..to), |_| {});
                }
            }
            (3, Some(offset)) => {
                board.mark_lost(offset);
            }
            (4, Some(offset)) => {
                board.resend(now, offset, packet_number);
                packet_number += 1;
            }
            _ => {}
        }
        let sent = board.next_offset();
        assert!(delivered <= sent, "{delivered} bytes delivered of {sent}");
    }
    let sent = board.next_offset();
    delivered += board.acknowledge(sent, |_| false, |_| {}).bytes;
    assert_eq!(delivered, sent, "each byte is delivered once");
}
