//! Decoders of the classic format over arbitrary bytes, near arbitrary numbers.

use rdt_transport::wire::{self, Near, Packet};

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let seq = u64::from_le_bytes(*near);
    let mut framed = datagram.to_vec();
    for datagram in [datagram, with_magic(&mut framed)] {
        if let Ok(wire::FromSender::Data { payload, .. }) = wire::decode_from_sender(datagram, seq) {
            assert!(payload.len() < datagram.len(), "the payload is part of the datagram");
        }
        let _ = Packet::decode(datagram, Near { seq, packet_number: 0 });
        if let Ok(reply) = wire::decode_from_receiver(datagram, seq) {
            let mut again = [0; wire::REPLY_LEN];
            wire::encode_reply(&reply, &mut again);
            assert_eq!(again, datagram, "a reply has one encoding");
        }
    }
}

/// The datagram with the magic number, which random bytes seldom have.
fn with_magic(datagram: &mut [u8]) -> &[u8] {
    if let Some(magic) = datagram.get_mut(1..4) {
        magic.copy_from_slice(&[0xAA, 0x11, 0x83]);
    }
    datagram
}
