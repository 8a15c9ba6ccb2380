//! Runs of data packets have the effect of their packets one by one.

use rdt_testing::random;

use super::*;
use crate::wire::DataHeader;
use crate::wire::native::{DataRun, RunFields, TAG, encode_data_header, peek};

/// Largest payload of a packet, bytes.
const PAYLOAD: usize = 100;
const STRIDE: usize = native::DATA_HEADER + PAYLOAD + TAG;

fn receiver() -> Receiver {
    let mss = PAYLOAD as u64;
    let config = ReceiverConfig {
        keep_payload: true,
        checksum: false,
        stream_window: WindowConfig::fixed(100 * mss, mss),
        ..ReceiverConfig::reference()
    };
    Receiver::established(config, &Params::default(), None, rdt_testing::epoch())
}

/// Appends an opened packet of `len` bytes of payload from offset `seq` on.
fn put(message: &mut Vec<u8>, head: DataHeader, len: usize) {
    let mut packet = vec![0; native::DATA_HEADER + len + TAG];
    encode_data_header(7, 0, &head, false, &mut packet);
    for (at, byte) in (head.seq..).zip(&mut packet[native::DATA_HEADER..][..len]) {
        *byte = at.to_le_bytes()[0];
    }
    message.extend_from_slice(&packet);
}

/// Returns the run of all packets of a message.
fn run_of(message: &[u8], first: u64) -> DataRun<'_> {
    let fields = (first..).zip(message.chunks(STRIDE)).map(|(number, packet)| {
        let body = &packet[16..packet.len() - TAG];
        RunFields::of(&peek(packet).unwrap(), number, body).unwrap()
    });
    let fields = fields.reduce(|mut run, next| {
        assert!(run.append(&next));
        run
    });
    DataRun { fields: fields.unwrap(), packets: message, stride: STRIDE }
}

#[test]
fn run_equals_its_packets() {
    let mut appended = 0;
    for seed in 1..=300 {
        let mut random = random(seed);
        let (mut runs, mut single) = (receiver(), receiver());
        let (mut now, mut next, mut number) = (rdt_testing::epoch(), 0_u64, 0);
        for step in 0..60 {
            now += Duration::from_micros(random(3000));
            let mut seq = match random(8) {
                0 => next.saturating_sub(random(400)),
                1 => next + random(400),
                _ => runs.rcv_nxt(),
            };
            number += random(20) / 19;
            let (first, count, every) = (number, 1 + random(12), [0, 4][usize::from(random(2) == 1)]);
            let mut message = Vec::new();
            for n in 0..count {
                let len = if n + 1 < count {
                    PAYLOAD
                } else {
                    1 + usize::try_from(random(PAYLOAD as u64)).unwrap()
                };
                let ack_now = random(30) == 0;
                put(&mut message, DataHeader { seq, packet_number: number, ack_now, ack_every: every }, len);
                seq += len as u64;
                number += 1;
            }
            next = next.max(seq);
            let ecn = if random(10) == 0 { Ecn::Ce } else { Ecn::Ect0 };
            let run = run_of(&message, first);
            appended += u64::from(run.range().start == runs.rcv_nxt() && run.fields.count > 1);
            runs.handle_run(now, run, ecn, 1 << 20);
            run.pieces().for_each(|piece| single.handle_data(now, &piece, ecn, 1 << 20));
            assert_eq!(runs.stats(), single.stats(), "seed {seed} step {step}");
            assert_eq!(runs.deadline(), single.deadline(), "seed {seed} step {step}");
            assert_eq!(runs.take_ack(now), single.take_ack(now), "seed {seed} step {step}");
            if random(3) == 0 {
                for end in [&mut runs, &mut single] {
                    while let n @ 1.. = end.data().len() {
                        let start = end.stream.buffer.read_offset();
                        assert!((start..).zip(end.data()).all(|(at, byte)| at.to_le_bytes()[0] == *byte));
                        end.consume(n);
                    }
                }
            }
        }
    }
    assert!(appended > 5000, "{appended} runs in order");
}
