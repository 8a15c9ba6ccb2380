//! Data that a native receiver acknowledged or reported in a SACK block is never discarded
//! (PROTOCOL.md, N3). Random packets: repeated, overlapping and out of order, with little memory, a
//! small window and random reads.

use std::ops::Range;

use super::*;
use crate::range_set::RangeSet;
use crate::wire::native;
use crate::wire::{Seal, Wire};
use rdt_testing::random;

const ID: u64 = 7;
/// Packets begin and end at multiples of this many bytes, so that the stream needs several chunks
/// of memory.
const UNIT: u64 = 4096;
/// Length of the stream in units: so few that all blocks fit into every ACK.
const UNITS: u64 = 60;
const LENGTH: u64 = UNITS * UNIT;

/// Passes a packet to the receiver, and records its ACKs in `reported`.
fn exchange(script: &mut Script, packet: &FromSender<'_>, reported: &mut RangeSet, seed: u64) {
    script.receiver.handle(script.now, packet, Ecn::NotEct, script.memory);
    let mut out = [0; MAX_REPLY];
    while let Some(len) = script.receiver.poll_reply(script.now, &mut out) {
        let Ok(FromReceiver::Ack(ack)) = native::decode_from_receiver(&out[..len], 0) else {
            continue;
        };
        let mut now = RangeSet::new(64);
        now.insert(0..ack.ack).unwrap();
        for block in ack.sack.iter() {
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
        let mut script = Script::new(keeping());
        let open = Open {
            wire: Wire::Native { connection_id: ID },
            seq: 0,
            cookie: None,
            link: None,
            params: None,
            name: None,
        };
        let mut reported = RangeSet::new(64);
        let mut read = Vec::new();
        exchange(&mut script, &FromSender::Syn(open), &mut reported, seed);
        for packet_number in 0..300 {
            // A random unit, or the first missing one.
            let missing = (script.receiver.rcv_nxt() / UNIT).min(UNITS - 1);
            let start = if random(20) == 0 { missing } else { random(UNITS) };
            let end = (start + 1 + random(4)).min(UNITS);
            let payload = part(start * UNIT..end * UNIT);
            script.memory = if random(3) == 0 { 1 << 20 } else { random(1 << 18) };
            script.now += Duration::from_millis(random(40));
            let crc = Some(crc32fast::hash(payload));
            let packet = match random(40) {
                0 => FromSender::Syn(open),
                1 => {
                    let seal = Some(Seal { crc: crc32fast::hash(&stream), packet_number });
                    FromSender::Fin { seq: LENGTH, seal, understands_ack: true }
                }
                _ => FromSender::Data(Piece {
                    seq: start * UNIT,
                    payload,
                    packet_number: Some(packet_number),
                    crc,
                    ack_now: true,
                    ack_every: 0,
                }),
            };
            exchange(&mut script, &packet, &mut reported, seed);
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
