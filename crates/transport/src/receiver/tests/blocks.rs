//! Selective ACKs of a stream with more holes than fit.

use super::*;
use crate::wire::native::FITTING_BLOCKS;

/// Passes packet `packet_number` with the segment at `seq` to the receiver. Returns the blocks of
/// the ACK.
fn blocks_after(script: &mut Script, packet_number: u64, seq: u64) -> Vec<SackBlock> {
    script.native_data(packet_number, seq, b"x", true);
    script.native_acks().pop().expect("an ACK").1
}

#[test]
fn full_acks_report_many_blocks_in_turn() {
    let mut script = Script::native(keeping());
    let mut missing: Vec<u64> = (0..200).map(|number| 2 * number + 1).collect();
    for (packet_number, seq) in (0..).zip(missing.clone()) {
        blocks_after(&mut script, packet_number, seq);
    }
    // New data extends one block. Three quarters of the places have the most recent blocks, the
    // others rotate.
    for report in 0..41 {
        let blocks = blocks_after(&mut script, 200 + report, 1001 + report);
        assert_eq!((blocks.len(), blocks[FITTING_BLOCKS - 1].start), (FITTING_BLOCKS, 1001));
        missing.retain(|start| blocks.iter().all(|block| block.start != *start));
    }
    assert_eq!(missing, []);
}
