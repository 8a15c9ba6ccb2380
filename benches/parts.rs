//! The parts that work once per packet, each alone: `cargo bench --bench parts`.

mod lossy_window;

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rdt::emulator::{Bitrate, Direction, Link, LinkConfig, Loss, Probability};
use rdt::transport::cookie::CookieJar;
use rdt::transport::parts::stream::{Keep, Limits, MAX_RANGES, Segment, Stream};
use rdt::transport::wire::{self, FromReceiver, FromSender, Packet, Syn, native};
use rdt::transport::{
    Ecn, Endpoint, LinkProperties, Listener, ListenerConfig, Receiver, ReceiverConfig, Sender, SenderConfig,
    TransmitBuf, dword_array,
};

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.0, speed_bps: 1e10, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1_000_000 };

#[expect(clippy::disallowed_methods, reason = "an epoch for made-up times")]
fn epoch() -> Instant {
    Instant::now()
}

fn codec(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec");
    let mut data = [0; 1472];
    wire::encode_data_header(70_000, &mut data);
    group.bench_function("decode data", |b| b.iter(|| wire::decode_from_sender(black_box(&data), 69_990)));
    let mut ack = [0; wire::REPLY_LEN];
    wire::encode_reply(&FromReceiver::Ack { ack: 70_000, wnd: 70_000 }, &mut ack);
    group.bench_function("decode ACK", |b| b.iter(|| wire::decode_from_receiver(black_box(&ack), 69_990)));
    group.bench_function("encode ACK", |b| {
        b.iter(|| wire::encode_reply(black_box(&FromReceiver::Ack { ack: 70_000, wnd: 70_000 }), &mut ack));
    });
    group.finish();
}

fn native_codec(c: &mut Criterion) {
    let mut group = c.benchmark_group("native codec");
    let mut data = [7; 1472];
    let header = native::DataHeader { tx: 70_000, offset: 1 << 33, ack_now: false };
    let payload_crc = crc32fast::hash(&data[native::DATA_HEADER..]);
    group.bench_function("encode DATA header", |b| {
        b.iter(|| native::encode_data_header(1, black_box(&header), payload_crc, &mut data));
    });
    group.bench_function("decode DATA of 1472 bytes", |b| {
        b.iter(|| native::decode_from_sender(black_box(&data), 69_990).is_ok());
    });
    let ack = native::Ack {
        echo_tx: 70_000,
        echo_delay_us: 20,
        ack: 1 << 33,
        window: 1 << 24,
        packets: 70_000,
        duplicates: 0,
        ce: 0,
        ect: 70_000,
    };
    let block = native::SackBlock { start: (1 << 33) + 1444, end: (1 << 33) + 14_440 };
    for blocks in [0, 4, 32] {
        let blocks = vec![block; blocks];
        let mut out = vec![0; native::ack_len(blocks.len())];
        group.bench_function(format!("encode ACK of {} blocks", blocks.len()), |b| {
            b.iter(|| native::encode_ack(1, black_box(&ack), &blocks, &mut out));
        });
        group.bench_function(format!("decode ACK of {} blocks", blocks.len()), |b| {
            b.iter(|| native::decode_from_receiver(black_box(&out), 69_990).is_ok());
        });
    }
    let jar = CookieJar::new([7; 32]);
    let cookie = jar.mint(1000, b"192.0.2.1:5000", 1);
    group.bench_function("check a cookie of the slot before", |b| {
        b.iter(|| jar.check(black_box(&cookie), 1015, b"192.0.2.1:5000", 1));
    });
    group.finish();
}

fn checksum(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc32");
    for size in [1464_usize, 65_536] {
        let mut bytes = vec![0; size];
        dword_array::fill(0, &mut bytes);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} bytes"), |b| b.iter(|| crc32fast::hash(black_box(&bytes))));
    }
    group.finish();
}

/// A window of packets out and all their ACKs in: what the sender's scoreboard, buffer and timer cost.
fn sender(c: &mut Criterion) {
    let mut group = c.benchmark_group("sender");
    for window in [64_u32, 8192, 80_000] {
        group.throughput(Throughput::Elements(u64::from(window)));
        group.bench_function(format!("a window of {window} packets and its ACKs"), |b| {
            let now = epoch();
            let config = SenderConfig { memory_limit: 1 << 40, ..SenderConfig::new(window, LINK) };
            let mut sender = Sender::new(config).expect("the configuration is valid");
            let mut out = TransmitBuf::new(64);
            sender.open().expect("a new sender opens");
            sender.poll_transmit(now, &mut out);
            let mut reply = [0; wire::REPLY_LEN];
            wire::encode_reply(&FromReceiver::SynAck { ack: 0, wnd: window }, &mut reply);
            sender.handle_datagram(now, (), Ecn::NotEct, &reply);
            let mut acked = 0;
            b.iter(|| {
                loop {
                    while let Ok(spare @ [_, ..]) = sender.spare() {
                        let n = spare.len();
                        sender.advance(n);
                    }
                    out.clear();
                    if sender.poll_transmit(now, &mut out).is_none() {
                        break;
                    }
                }
                for _ in 0..window {
                    acked += 1;
                    wire::encode_reply(&FromReceiver::Ack { ack: acked, wnd: window }, &mut reply);
                    sender.handle_datagram(now, (), Ecn::NotEct, &reply);
                }
            });
        });
    }
    group.finish();
}

/// Packets of one transfer in the receiver's bench.
const PACKETS: u64 = 8192;

/// Packets in, in order and with every hundredth one late.
fn receiver(c: &mut Criterion) {
    let mut group = c.benchmark_group("receiver");
    let payload = [7; 1464];
    let mut reply = [0; wire::MAX_REPLY];
    for (name, late) in [("in order", u64::MAX), ("every 100th late", 100)] {
        group.throughput(Throughput::Elements(PACKETS));
        group.bench_function(name, |b| {
            let now = epoch();
            b.iter(|| {
                let mut receiver = Receiver::new(ReceiverConfig::reference());
                receiver.handle(
                    now,
                    &Packet::from(&FromSender::Syn(Syn { seq: 0, link: LINK })),
                    Ecn::NotEct,
                    0,
                );
                for seq in 0..PACKETS {
                    let seq = match seq % late {
                        0 if seq > 0 => continue,
                        1 if seq > late => {
                            receiver.handle(
                                now,
                                &Packet::from(&FromSender::Data { seq: seq - 1, payload: &payload }),
                                Ecn::NotEct,
                                1 << 30,
                            );
                            seq
                        }
                        _ => seq,
                    };
                    let data = FromSender::Data { seq, payload: &payload };
                    receiver.handle(now, &Packet::from(&data), Ecn::NotEct, 1 << 30);
                    while receiver.poll_reply(now, &mut reply).is_some() {}
                }
                black_box(receiver.rcv_nxt())
            });
        });
    }
    group.finish();
}

/// A stream by offsets, read as it comes, with the CRC of each packet known and not: in order, and with every
/// hundredth packet held back for a thousand.
fn stream(c: &mut Criterion) {
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
            let mut stream = Stream::new(0, MAX_RANGES, Keep { payload: true, checksum });
            let mut next = 0;
            b.iter(|| {
                for _ in 0..BATCH {
                    let is_late = |packet: u64| late.is_some_and(|late| packet.is_multiple_of(late));
                    let mut insert = |packet: u64| {
                        stream.insert(
                            Segment { offset: packet * payload.len() as u64, payload: &payload, crc },
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

/// Datagrams of many peers, a run of each in turn: what finding a datagram's receiver costs.
fn listener(c: &mut Criterion) {
    let mut group = c.benchmark_group("listener");
    let mut out = TransmitBuf::new(64);
    for (peers, run) in [(1_u16, 32), (512, 32), (512, 1)] {
        group.throughput(Throughput::Elements(u64::from(peers) * run));
        group.bench_function(format!("{peers} peers, runs of {run}"), |b| {
            let now = epoch();
            let addresses: Vec<SocketAddr> =
                (0..peers).map(|i| ([127, 0, 0, 1], 20_000 + i).into()).collect();
            let mut listener = Listener::new(ListenerConfig::new(ReceiverConfig::reference()));
            let mut syn = [0; wire::SYN_LEN];
            wire::encode_syn(&Syn { seq: 0, link: LINK }, &mut syn);
            for peer in &addresses {
                listener.handle_datagram(now, *peer, Ecn::NotEct, &syn);
            }
            let (mut datagram, mut seq) = ([0; 16], 0);
            b.iter(|| {
                for peer in &addresses {
                    for i in 0..run {
                        wire::encode_data_header(seq + i, &mut datagram);
                        listener.handle_datagram(now, *peer, Ecn::NotEct, &datagram);
                    }
                }
                seq += run;
                loop {
                    out.clear();
                    if listener.poll_transmit(now, &mut out).is_none() {
                        break;
                    }
                }
                while listener.poll_event().is_some() {}
            });
        });
    }
    group.finish();
}

fn link(c: &mut Criterion) {
    let mut group = c.benchmark_group("link");
    group.throughput(Throughput::Elements(1));
    let lossy = LinkConfig {
        loss: Loss::Bernoulli(Probability::new(0.01).expect("a probability")),
        rate: Some(Bitrate::from_bps(10_000_000_000)),
        delay: Duration::from_millis(1),
        ..LinkConfig::default()
    };
    for (name, config) in [("perfect wire", LinkConfig::default()), ("10 Gbit/s, 1 ms, 1 %", lossy)] {
        group.bench_function(name, |b| {
            let mut link = Link::new(config.clone(), 1, Direction::Forward);
            let mut now = epoch();
            let mut pool: Vec<Vec<u8>> = vec![vec![0; 1472]; 2000];
            b.iter(|| {
                now += Duration::from_nanos(1200);
                if let Err(dropped) = link.push(now, pool.pop().unwrap_or_else(|| vec![0; 1472])) {
                    pool.push(dropped.packet);
                }
                while let Some(delivery) = link.pop(now) {
                    pool.push(delivery.packet);
                }
            });
        });
    }
    group.finish();
}

fn payload(c: &mut Criterion) {
    let mut group = c.benchmark_group("payload");
    group.throughput(Throughput::Bytes(65_536));
    let mut out = vec![0; 65_536];
    group.bench_function("DWORD array", |b| b.iter(|| dword_array::fill(black_box(12), &mut out)));
    group.finish();
}

criterion_group!(
    benches,
    codec,
    native_codec,
    checksum,
    sender,
    lossy_window::bench,
    receiver,
    stream,
    listener,
    link,
    payload
);
criterion_main!(benches);
