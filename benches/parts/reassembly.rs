//! Receive buffers: reassembly of packets (classic) and of bytes (native).

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use rdt::transport::parts::{Keep, Limits, MAX_RANGES, ReceiveBuffer, Receiver, Segment};
use rdt::transport::wire::{self, FromSender, Open, Piece};
use rdt::transport::{Ecn, ReceiverConfig};

use super::{LINK, epoch};

const PACKETS: u64 = 8192;

/// Measures classic packets in order, and with every hundredth one late.
pub(crate) fn receiver(c: &mut Criterion) {
    let mut group = c.benchmark_group("receiver");
    let payload = [7; 1464];
    let mut reply = [0; wire::MAX_REPLY];
    for (name, late) in [("in order", u64::MAX), ("every 100th late", 100)] {
        group.throughput(Throughput::Elements(PACKETS));
        group.bench_function(name, |b| {
            let now = epoch();
            b.iter(|| {
                let mut receiver = Receiver::new(ReceiverConfig::reference());
                receiver.handle(now, &FromSender::Syn(Open::classic(0, LINK)), Ecn::NotEct, 0);
                for seq in 0..PACKETS {
                    let seq = match seq % late {
                        0 if seq > 0 => continue,
                        1 if seq > late => {
                            receiver.handle(
                                now,
                                &FromSender::Data(Piece::classic(seq - 1, &payload)),
                                Ecn::NotEct,
                                1 << 30,
                            );
                            seq
                        }
                        _ => seq,
                    };
                    let data = FromSender::Data(Piece::classic(seq, &payload));
                    receiver.handle(now, &data, Ecn::NotEct, 1 << 30);
                    while receiver.poll_reply(now, &mut reply).is_some() {}
                }
                black_box(receiver.rcv_nxt())
            });
        });
    }
    group.finish();
}

/// Measures a native stream that is read as it arrives, with and without a known CRC-32 of each
/// packet: in order, and with every hundredth packet late by a thousand packets.
pub(crate) fn stream(c: &mut Criterion) {
    const BATCH: u64 = 1000;
    let mut group = c.benchmark_group("stream");
    group.throughput(Throughput::Elements(BATCH));
    let payload = [7; 1444];
    let known = Some(crc32fast::hash(&payload));
    let limits = Limits { right_edge: u64::MAX, memory: 1 << 30, unread: 1 << 20 };
    for (name, late, crc, checksum) in [
        ("in order", None, known, true),
        ("in order, CRC not known", None, None, true),
        ("in order, no checksum", None, None, false),
        ("1 % held back", Some(100), known, true),
        ("1 % held back, CRC not known", Some(100), None, true),
        ("1 % held back, no checksum", Some(100), None, false),
    ] {
        group.bench_function(name, |b| {
            let mut stream = ReceiveBuffer::of_bytes(0, MAX_RANGES, Keep { payload: true, checksum });
            let mut next = 0;
            b.iter(|| {
                for _ in 0..BATCH {
                    let is_late = |packet: u64| late.is_some_and(|late| packet.is_multiple_of(late));
                    let mut insert = |packet: u64| {
                        stream.insert(
                            Segment { seq: packet * payload.len() as u64, payload: &payload, crc },
                            limits,
                        )
                    };
                    if !is_late(next) {
                        insert(next);
                    }
                    if let Some(packet) = next.checked_sub(BATCH).filter(|packet| is_late(*packet)) {
                        insert(packet);
                    }
                    next += 1;
                    if next.is_multiple_of(32) {
                        while let n @ 1.. = black_box(stream.data()).len() {
                            stream.consume(n as u64);
                        }
                    }
                }
                stream.rcv_nxt()
            });
        });
    }
    group.finish();
}
