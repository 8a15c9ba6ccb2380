//! Cost of each part that works once per packet, measured alone: `cargo bench --bench parts` (`--
//! reassembly` selects by name). Prints a table of all medians at the end.

mod codec;
mod lossy_window;
mod medians;
mod pair;
mod reassembly;

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use criterion::{Criterion, Throughput, criterion_group};
use rdt::emulator::{Bitrate, Direction, Link, LinkConfig, Loss, Probability};
use rdt::server::{LinkMode, Server, ServerConfig};
use rdt::sim::payload;
use rdt::transport::{Ecn, Endpoint, LinkProperties, ReceiverConfig, Sender, SenderConfig, TransmitBuf};
use rdt_testing::{epoch, packets};

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.0, speed_bps: 1e10, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1_000_000 };

fn checksum(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc32");
    for size in [1464_usize, 65_536] {
        let mut bytes = vec![0; size];
        payload::fill(0, &mut bytes);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} bytes"), |b| b.iter(|| crc32fast::hash(black_box(&bytes))));
    }
    group.finish();
}

/// Measures scoreboard, send buffer and timer: a window of packets is sent, then all its ACKs are
/// processed, one for each packet or one for a batch of 64.
fn sender(c: &mut Criterion) {
    let mut group = c.benchmark_group("sender");
    for (window, batch) in [(64_u32, 1_u32), (8192, 1), (8192, 64), (80_000, 1)] {
        group.throughput(Throughput::Elements(u64::from(window)));
        let acks = if batch == 1 { "its ACKs".into() } else { format!("an ACK for {batch}") };
        group.bench_function(format!("a window of {window} packets and {acks}"), |b| {
            let now = epoch();
            let config = SenderConfig { memory_limit: 1 << 40, ..SenderConfig::new(window, LINK) };
            let mut sender = Sender::new(config).expect("the configuration is valid");
            let mut out = TransmitBuf::new(64);
            sender.open().expect("a new sender opens");
            sender.poll_transmit(now, &mut out);
            let mut syn_ack = packets::classic(packets::SYN | packets::ACK, &[window, 0], &[]);
            sender.handle_datagram(now, (), Ecn::NotEct, &mut syn_ack);
            let mut ack = packets::classic(packets::ACK, &[window, 0], &[]);
            let mut acked = 0_u32;
            b.iter(|| {
                loop {
                    while let Ok(n @ 1..) = sender.spare().map(|spare| spare.len()) {
                        sender.advance(n);
                    }
                    out.clear();
                    if sender.poll_transmit(now, &mut out).is_none() {
                        break;
                    }
                }
                for _ in 0..window / batch {
                    acked = acked.wrapping_add(batch);
                    ack[8..].copy_from_slice(&acked.to_le_bytes());
                    sender.handle_datagram(now, (), Ecn::NotEct, &mut ack);
                }
            });
        });
    }
    group.finish();
}

/// Measures the lookup of a datagram's receiver: batches of many peers, one after another.
fn server(c: &mut Criterion) {
    const DATAGRAM: usize = 16;
    let mut group = c.benchmark_group("server");
    let mut out = TransmitBuf::new(64);
    for (peers, run) in [(1_u16, 32), (512, 32), (512, 1)] {
        group.throughput(Throughput::Elements(u64::from(peers) * run as u64));
        group.bench_function(format!("{peers} peers, runs of {run}"), |b| {
            let now = epoch();
            let addresses: Vec<SocketAddr> =
                (0..peers).map(|i| ([127, 0, 0, 1], 20_000 + i).into()).collect();
            let config = ServerConfig::new(ReceiverConfig::reference(), LinkMode::None);
            let mut server = Server::new(config);
            let mut syn = packets::classic_syn(LINK.rtt_s, LINK.speed_bps, [0.0; 2], LINK.buffer);
            for peer in &addresses {
                server.handle_datagram(now, *peer, Ecn::NotEct, &mut syn);
            }
            // Coalesced datagrams, as by GRO.
            let mut joined = packets::classic(0, &[0], &[0; DATAGRAM - 8]).repeat(run);
            let mut seq = 0_u32;
            b.iter(|| {
                for (i, datagram) in (0..).zip(joined.chunks_exact_mut(DATAGRAM)) {
                    datagram[4..8].copy_from_slice(&seq.wrapping_add(i).to_le_bytes());
                }
                for peer in &addresses {
                    server.handle_datagrams(now, *peer, Ecn::NotEct, &mut joined, DATAGRAM);
                }
                seq = seq.wrapping_add(u32::try_from(run).expect("a short run"));
                loop {
                    out.clear();
                    if server.poll_transmit(now, &mut out).is_none() {
                        break;
                    }
                }
                while server.poll_event().is_some() {}
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
    group.bench_function("DWORD array", |b| b.iter(|| payload::fill(black_box(12), &mut out)));
    group.finish();
}

criterion_group!(
    benches,
    codec::classic,
    codec::native,
    checksum,
    sender,
    lossy_window::bench,
    reassembly::receiver,
    reassembly::stream,
    server,
    link,
    payload
);

#[expect(clippy::disallowed_methods, reason = "files have times of this clock")]
fn main() {
    let begin = SystemTime::now();
    benches();
    Criterion::default().configure_from_args().final_summary();
    medians::print(begin);
}
