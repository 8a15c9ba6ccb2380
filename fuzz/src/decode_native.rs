//! Decoders of the native format over arbitrary bytes: unchanged, and with a valid header and
//! check.

use rdt_transport::wire::{FromReceiver, FromSender, Near, native};

use crate::bytes::seal;

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let packet_number = u64::from_le_bytes(*near);
    let mut sealed = datagram.to_vec();
    if let [mark, kind, ..] = &mut sealed[..] {
        *kind = *kind % 10 + 1;
        *mark = if *kind == 10 { 0xD0 } else { 0xD1 };
    }
    seal(&mut sealed);
    for datagram in [datagram, &sealed] {
        if let Ok(FromSender::Data(piece)) = native::decode_from_sender(datagram, packet_number) {
            assert!(piece.payload.len() < datagram.len(), "the payload is part of the datagram");
            assert!(piece.seq.checked_add(piece.payload.len() as u64).is_some(), "offsets are below 2^64");
        }
        let _ = FromSender::decode(datagram, Near { seq: 0, packet_number });
        if let Ok(FromReceiver::Ack(ack)) = native::decode_from_receiver(datagram, packet_number) {
            let mut edge = ack.ack;
            for block in ack.sack.iter() {
                assert!(edge < block.start && block.start < block.end, "blocks ascend beyond rcv_nxt");
                edge = block.end;
            }
        }
        let _ = (native::connection_id(datagram), native::other_version(native::Versions::BOTH, datagram));
    }
}
