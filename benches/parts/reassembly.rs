//! Receivers behind a listener: reassembly of packets (classic) and of bytes (native).

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use rdt::transport::wire::{FromSender, Piece};
use rdt::transport::{
    Ecn, Endpoint, Listener, ListenerConfig, ReceiverConfig, Sender, SenderConfig, TransmitBuf, WindowConfig,
};
use rdt_testing::packets;

use super::epoch;

const PACKETS: u64 = 8192;

fn piece(seq: u64, payload: &[u8]) -> Piece<'_> {
    Piece { seq, payload, packet_number: None, crc: None, ack_now: false, ack_every: 0 }
}

/// A listener with one peer.
struct Receiver {
    listener: Listener<u8>,
    now: Instant,
    out: TransmitBuf,
}

impl Receiver {
    fn new(receiver: ReceiverConfig) -> Self {
        let config = ListenerConfig { secret: Some([7; 32]), ..ListenerConfig::new(receiver) };
        Self { listener: Listener::new(config), now: epoch(), out: TransmitBuf::new(64) }
    }

    fn classic() -> Self {
        let mut receiver = Self::new(ReceiverConfig::reference());
        let mut syn = packets::classic_syn(0.0, 1e10, [0.0; 2], 1_000_000);
        receiver.listener.handle_datagram(receiver.now, 0, Ecn::NotEct, &mut syn);
        receiver
    }

    fn native(config: ReceiverConfig) -> Self {
        let mut receiver = Self::new(config);
        let mut sender = Sender::new(SenderConfig::native(1)).expect("the configuration is valid");
        sender.open().expect("a new sender opens");
        super::connect(&mut sender, &mut receiver.listener, receiver.now);
        receiver
    }

    fn deliver(&mut self, packet: &FromSender<'_>) {
        self.listener.deliver(self.now, 0, Ecn::NotEct, packet);
    }

    fn transmit(&mut self) {
        loop {
            self.out.clear();
            if self.listener.poll_transmit(self.now, &mut self.out).is_none() {
                return;
            }
        }
    }
}

/// Measures classic packets in order, and with every hundredth one late.
pub(crate) fn receiver(c: &mut Criterion) {
    let mut group = c.benchmark_group("receiver");
    let payload = [7; 1464];
    for (name, late) in [("in order", u64::MAX), ("every 100th late", 100)] {
        group.throughput(Throughput::Elements(PACKETS));
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut receiver = Receiver::classic();
                for seq in 0..PACKETS {
                    match seq % late {
                        0 if seq > 0 => continue,
                        1 if seq > late => receiver.deliver(&FromSender::Data(piece(seq - 1, &payload))),
                        _ => {}
                    }
                    receiver.deliver(&FromSender::Data(piece(seq, &payload)));
                    receiver.transmit();
                }
                black_box(receiver.listener.received_bytes(0))
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
    for (name, late, crc, checksum) in [
        ("in order", None, known, true),
        ("in order, CRC not known", None, None, true),
        ("in order, no checksum", None, None, false),
        ("1 % held back", Some(100), known, true),
        ("1 % held back, CRC not known", Some(100), None, true),
        ("1 % held back, no checksum", Some(100), None, false),
    ] {
        group.bench_function(name, |b| {
            let mut receiver = Receiver::native(ReceiverConfig {
                keep_payload: true,
                checksum,
                stream_window: WindowConfig::fixed(64 << 20, 1444),
                ..ReceiverConfig::reference()
            });
            let (mut next, mut sent) = (0, 0);
            b.iter(|| {
                for _ in 0..BATCH {
                    let is_late = |packet: u64| late.is_some_and(|late| packet.is_multiple_of(late));
                    let mut deliver = |packet: u64| {
                        let piece = piece(packet * payload.len() as u64, &payload);
                        let piece = Piece { crc, packet_number: Some(sent), ..piece };
                        receiver.deliver(&FromSender::Data(piece));
                        sent += 1;
                    };
                    if !is_late(next) {
                        deliver(next);
                    }
                    if let Some(packet) = next.checked_sub(BATCH).filter(|packet| is_late(*packet)) {
                        deliver(packet);
                    }
                    next += 1;
                    if next.is_multiple_of(32) {
                        while let Ok(n @ 1..) = black_box(receiver.listener.data(0)).map(<[u8]>::len) {
                            receiver.listener.consume(0, n);
                        }
                        receiver.transmit();
                    }
                }
            });
            let stats = receiver.listener.stats().receivers;
            assert_eq!((stats.out_of_range, stats.no_memory), (0, 0), "all data is accepted");
        });
    }
    group.finish();
}
