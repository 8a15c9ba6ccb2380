use std::hint::black_box;

use criterion::Criterion;
use rdt::transport::wire::{FromReceiver, FromSender, Near};
use rdt_testing::packets::{self, varint};

/// Types of native packets.
const DATA: u8 = 4;
const ACK: u8 = 6;

/// Decodes packets of the classic format. The benches of the machines contain the encoders.
pub(crate) fn classic(c: &mut Criterion) {
    let near = Near { seq: 69_990, packet_number: 0 };
    let mut group = c.benchmark_group("codec");
    let data = packets::classic(0, &[70_000], &[0; 1464]);
    group.bench_function("decode data", |b| b.iter(|| FromSender::decode(black_box(&data), near).is_ok()));
    let ack = packets::classic(packets::ACK, &[70_000, 70_000], &[]);
    group.bench_function("decode ACK", |b| b.iter(|| FromReceiver::decode(black_box(&ack), near).is_ok()));
    group.finish();
}

/// Decodes packets of the native format, including their checksums.
pub(crate) fn native(c: &mut Criterion) {
    let near = Near { seq: 0, packet_number: 69_990 };
    let mut group = c.benchmark_group("native codec");
    let offset = 1_u64 << 33;
    let mut body = 70_000_u32.to_le_bytes().to_vec();
    body.extend(offset.to_le_bytes());
    body.resize(1472 - packets::HEADER, 7);
    let data = packets::native(DATA, 0, 1, &body);
    assert!(FromSender::decode(&data, near).is_ok(), "the packet is valid");
    group.bench_function("decode DATA of 1472 bytes", |b| {
        b.iter(|| FromSender::decode(black_box(&data), near).is_ok());
    });
    for blocks in [0_u16, 4, 32] {
        let mut body = 70_000_u32.to_le_bytes().to_vec();
        // Delay in microseconds, cumulative ACK, window, missing and duplicate packets.
        let fields = [20, offset, 1 << 24, 1, 0].into_iter();
        // Each block lies 14,440 bytes behind the one before and is as long.
        let steps = std::iter::repeat_n(14_440, 2 * usize::from(blocks));
        fields.chain(steps).for_each(|value| varint(value, &mut body));
        let ack = packets::native(ACK, blocks, 1, &body);
        assert!(FromReceiver::decode(&ack, near).is_ok(), "the packet is valid");
        group.bench_function(format!("decode ACK of {blocks} blocks"), |b| {
            b.iter(|| FromReceiver::decode(black_box(&ack), near).is_ok());
        });
    }
    group.finish();
}
