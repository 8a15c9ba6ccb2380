//! Operations of the sender's scoreboard: each byte is delivered once, whatever the order of ACKs,
//! SACK blocks and losses.

use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rdt_transport::parts::Scoreboard;
use rdt_transport::wire::Numbering;

#[derive(Debug, Arbitrary)]
enum Op {
    Push { len: u8, count: u8 },
    Ack { part: u8 },
    Sack { from: u8, to: u8 },
    Lose { at: u8 },
    Resend { at: u8 },
}

pub fn run(data: &[u8]) {
    let Ok(ops) = Vec::<Op>::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let mut now = Instant::now();
    let mut board = Scoreboard::new(Numbering::Bytes);
    // Offsets at which segments begin, the edges, and the bytes delivered so far.
    let (mut starts, mut una, mut next, mut packet_number, mut delivered) =
        (Vec::new(), 0_u64, 0_u64, 0_u64, 0_u64);
    for op in ops {
        now += Duration::from_millis(1);
        let at = |part: u8| una + (next - una) * u64::from(part) / 255;
        let start = |part: u8| starts.get(starts.len() * usize::from(part) / 256).copied();
        match op {
            Op::Push { len, count } => {
                let (len, count) = (u32::from(len) + 1, u64::from(count % 16) + 1);
                board.push_run(now, len, count, |n| packet_number + n);
                starts.extend((0..count).map(|n| next + n * u64::from(len)));
                next += count * u64::from(len);
                packet_number += count;
            }
            Op::Ack { part } => {
                let ack = at(part);
                delivered += board.acknowledge(ack, |_| false, |_| {}).bytes;
                una = ack;
                starts.retain(|start| *start >= una);
            }
            Op::Sack { from, to } => {
                let (from, to) = (at(from.min(to)).max(una + 1), at(from.max(to)));
                if from < to {
                    delivered += board.sack(&(from..to), |_| {});
                }
            }
            Op::Lose { at } => {
                if let Some(offset) = start(at) {
                    board.mark_lost(offset);
                }
            }
            Op::Resend { at } => {
                if let Some(offset) = start(at) {
                    board.resend(now, offset, packet_number);
                    packet_number += 1;
                }
            }
        }
        assert!(delivered <= next, "{delivered} bytes delivered of {next}");
    }
    delivered += board.acknowledge(next, |_| false, |_| {}).bytes;
    assert_eq!(delivered, next, "each byte is delivered once");
}
