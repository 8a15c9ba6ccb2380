use std::hint::black_box;

use criterion::Criterion;
use rdt::transport::parts::CookieJar;
use rdt::transport::wire::{self, PacketKind, native};

pub(crate) fn classic(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec");
    let mut data = [0; 1472];
    wire::encode_data_header(70_000, &mut data);
    group.bench_function("decode data", |b| b.iter(|| wire::decode_from_sender(black_box(&data), 69_990)));
    let mut ack = [0; wire::REPLY_LEN];
    wire::encode_reply(PacketKind::Ack, 70_000, 70_000, &mut ack);
    group.bench_function("decode ACK", |b| b.iter(|| wire::decode_from_receiver(black_box(&ack), 69_990)));
    group.bench_function("encode ACK", |b| {
        b.iter(|| {
            wire::encode_reply(PacketKind::Ack, black_box(70_000), 70_000, &mut ack);
        });
    });
    group.finish();
}

/// Encodes and decodes packets of the native format, including their checksums.
pub(crate) fn native(c: &mut Criterion) {
    let mut group = c.benchmark_group("native codec");
    let mut data = [7; 1472];
    let header = wire::DataHeader { packet_number: 70_000, seq: 1 << 33, ack_now: false, ack_every: 0 };
    let payload_crc = crc32fast::hash(&data[native::DATA_HEADER..]);
    group.bench_function("encode DATA header", |b| {
        b.iter(|| native::encode_data_header(1, black_box(&header), payload_crc, &mut data));
    });
    group.bench_function("decode DATA of 1472 bytes", |b| {
        b.iter(|| native::decode_from_sender(black_box(&data), 69_990).is_ok());
    });
    let ack = native::Ack {
        largest_received: 70_000,
        echo_delay_us: 20,
        ack: 1 << 33,
        window: 1 << 24,
        packets: 70_000,
        duplicates: 0,
        ce: 0,
        ect: 70_000,
        overflow: None,
    };
    let block = |start| native::SackBlock { start, end: start + 14_440 };
    for blocks in [0, 4, 32] {
        let starts = (1..=blocks).map(|n| (1 << 33) + n * 28_880);
        let blocks: Vec<_> = starts.map(block).collect();
        let mut out = vec![0; native::ack_len(blocks.len())];
        group.bench_function(format!("encode ACK of {} blocks", blocks.len()), |b| {
            b.iter(|| native::encode_ack(1, black_box(&ack), &blocks, &mut out));
        });
        let len = native::encode_ack(1, &ack, &blocks, &mut out);
        group.bench_function(format!("decode ACK of {} blocks", blocks.len()), |b| {
            b.iter(|| native::decode_from_receiver(black_box(&out[..len]), 69_990).is_ok());
        });
    }
    let jar = CookieJar::new([7; 32]);
    let cookie = jar.mint(1000, b"192.0.2.1:5000", 1);
    group.bench_function("check a cookie of the slot before", |b| {
        b.iter(|| jar.check(black_box(&cookie), 1015, b"192.0.2.1:5000", 1));
    });
    group.finish();
}
