//! Selective ACKs to a sender that accepts only short datagrams.

use super::*;
use crate::wire::Wire;
use crate::wire::native::{self, Params, SackBlock};

/// Blocks of the longest ACK that fits.
const FIT: usize = 4;

/// Passes packet `packet_number` with the segment at `seq` to the receiver. Returns the blocks of
/// the ACK.
fn blocks_after(script: &mut Script, packet_number: u64, seq: u64) -> Vec<SackBlock> {
    let crc = Some(crc32fast::hash(b"x"));
    let piece =
        Piece { seq, payload: b"x", packet_number: Some(packet_number), crc, ack_now: true, ack_every: 0 };
    script.receiver.handle(script.now, &FromSender::Data(piece), Ecn::NotEct, script.memory);
    let mut out = [0; MAX_REPLY];
    let len = script.receiver.poll_reply(script.now, &mut out).unwrap();
    match native::decode_from_receiver(&out[..len], 0) {
        Ok(FromReceiver::Ack(ack)) => ack.sack.iter().collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn short_acks_report_many_blocks_in_turn() {
    let mut script = Script::new(keeping());
    let params = Params {
        max_datagram: u16::try_from(native::ack_len(FIT)).unwrap(),
        ack_delay_max_us: 0,
        ack_every: 1,
        ..Params::default()
    };
    let wire = Wire::Native { connection_id: 7 };
    let open = Open { wire, seq: 0, cookie: None, link: None, params: Some(params), name: None };
    script.receiver.handle(script.now, &FromSender::Syn(open), Ecn::NotEct, script.memory);
    assert!(script.receiver.poll_reply(script.now, &mut [0; MAX_REPLY]).is_some());
    let mut missing: Vec<u64> = (0..40).map(|number| 2 * number + 1).collect();
    for (packet_number, seq) in (0..).zip(missing.clone()) {
        blocks_after(&mut script, packet_number, seq);
    }
    // New data extends one block. Three places have the most recent blocks, the fourth rotates.
    for report in 0..41 {
        let blocks = blocks_after(&mut script, 40 + report, 1001 + report);
        assert_eq!((blocks.len(), blocks[FIT - 1].start), (FIT, 1001));
        missing.retain(|start| blocks.iter().all(|block| block.start != *start));
    }
    assert_eq!(missing, []);
}
