//! Decoders of the classic format over arbitrary bytes, near arbitrary numbers.

use rdt_transport::wire::{self, FromReceiver, FromSender, Near, PacketKind};

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let seq = u64::from_le_bytes(*near);
    let mut framed = datagram.to_vec();
    for datagram in [datagram, with_magic(&mut framed)] {
        if let Ok(FromSender::Data(piece)) = wire::decode_from_sender(datagram, seq) {
            assert!(piece.payload.len() < datagram.len(), "the payload is part of the datagram");
        }
        let _ = FromSender::decode(datagram, Near { seq, packet_number: 0 });
        if let Ok(reply) = wire::decode_from_receiver(datagram, seq) {
            let mut again = [0; wire::REPLY_LEN];
            let (kind, ack, value) = match reply {
                FromReceiver::SynAck { ack, window, .. } => (PacketKind::SynAck, ack, window),
                FromReceiver::Ack(ack) => (PacketKind::Ack, ack.ack, ack.window),
                FromReceiver::FinAck { ack, crc } => (PacketKind::FinAck, ack, u64::from(crc)),
                other => panic!("{other:?} is not classic"),
            };
            wire::encode_reply(kind, ack, u32::try_from(value).unwrap(), &mut again);
            assert_eq!(again, datagram, "a reply has one encoding");
        }
    }
}

/// Returns the datagram with the magic number, which random bytes seldom have.
fn with_magic(datagram: &mut [u8]) -> &[u8] {
    if let Some(magic) = datagram.get_mut(1..4) {
        magic.copy_from_slice(&[0xAA, 0x11, 0x83]);
    }
    datagram
}
