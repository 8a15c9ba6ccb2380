//! Data that a native receiver acknowledged or reported in a SACK block is never discarded
//! (PROTOCOL.md, N3). Random packets: repeated, overlapping and out of order, with little memory, a
//! small window and random reads.

use std::ops::Range;

use super::*;
use crate::range_set::RangeSet;
use rdt_testing::random;

/// Packets begin and end at multiples of this many bytes, so that the stream needs several chunks
/// of memory.
const UNIT: u64 = 4096;
/// Length of the stream in units: so few that all blocks fit into every ACK.
const UNITS: u64 = 60;
const LENGTH: u64 = UNITS * UNIT;

/// Records the ACKs of the receiver in `reported`.
fn record(script: &mut Script, reported: &mut RangeSet, seed: u64) {
    for (ack, blocks) in script.native_acks() {
        let mut now = RangeSet::new(64);
        now.insert(0..ack.ack).unwrap();
        for block in blocks {
            now.insert(block.start..block.end).unwrap();
        }
        for before in reported.iter() {
            assert_eq!(
                now.gaps(before.clone()).count(),
                0,
                "seed {seed}: {before:?} was taken back: {now:?}"
            );
        }
        *reported = now;
    }
}

#[test]
fn reported_data_is_never_discarded() {
    let stream: Vec<u8> = (0..LENGTH).map(|offset| (offset % 251).to_le_bytes()[0]).collect();
    let part = |range: Range<u64>| &stream[range.start.try_into().unwrap()..range.end.try_into().unwrap()];
    let (mut refused, mut out_of_order) = (0, 0);
    for seed in 0..100 {
        let mut random = random(seed);
        let mut script = Script::native(keeping());
        let mut reported = RangeSet::new(64);
        let mut read = Vec::new();
        for packet_number in 0..300 {
            // A random unit, or the first missing one.
            let missing = (script.receiver.rcv_nxt() / UNIT).min(UNITS - 1);
            let start = if random(20) == 0 { missing } else { random(UNITS) };
            let end = (start + 1 + random(4)).min(UNITS);
            let payload = part(start * UNIT..end * UNIT);
            script.memory = if random(3) == 0 { 1 << 20 } else { random(1 << 18) };
            script.now += Duration::from_millis(random(40));
            if random(40) == 0 {
                let packet_number = Some(packet_number);
                script.packet(&FromSender::Fin { seq: LENGTH, packet_number, understands_ack: true });
            } else {
                script.native_data(packet_number, start * UNIT, payload, true);
            }
            record(&mut script, &mut reported, seed);
            if random(10) == 0 {
                read.extend(script.read());
            }
        }
        while !script.receiver.data().is_empty() {
            read.extend(script.read());
        }
        assert_eq!(script.receiver.rcv_nxt(), read.len() as u64, "seed {seed}");
        assert!(read == part(0..read.len() as u64), "seed {seed}");
        refused += script.receiver.stats().no_memory;
        out_of_order += script.receiver.stats().out_of_order;
    }
    assert!(refused > 300 && out_of_order > 300, "{refused} refused, {out_of_order} out of order");
}
