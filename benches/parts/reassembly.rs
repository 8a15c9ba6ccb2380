//! Receivers: reassembly of packets (classic) and of bytes (native).

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use rdt::server::{LinkMode, Server, ServerConfig};
use rdt::transport::congestion::Algorithm;
use rdt::transport::{Ecn, Endpoint, ReceiverConfig, SenderConfig, TransmitBuf, WindowConfig};
use rdt_testing::packets;

use super::{epoch, pair};

const PACKETS: u32 = 8192;

/// A server with one classic sender.
struct Classic {
    server: Server<u8>,
    now: Instant,
    out: TransmitBuf,
    data: Vec<u8>,
}

impl Classic {
    fn new() -> Self {
        let config = ServerConfig::new(ReceiverConfig::reference(), LinkMode::None);
        let (mut server, now) = (Server::new(config), epoch());
        let mut syn = packets::classic_syn(0.0, 1e10, [0.0; 2], 1_000_000);
        server.handle_datagram(now, 0, Ecn::NotEct, &mut syn);
        let data = packets::classic(0, &[0], &[7; 1464]);
        Self { server, now, out: TransmitBuf::new(64), data }
    }

    fn deliver(&mut self, seq: u32) {
        self.data[4..8].copy_from_slice(&seq.to_le_bytes());
        self.server.handle_datagram(self.now, 0, Ecn::NotEct, &mut self.data);
    }

    fn transmit(&mut self) {
        loop {
            self.out.clear();
            if self.server.poll_transmit(self.now, &mut self.out).is_none() {
                return;
            }
        }
    }
}

/// Measures classic packets in order, and with every hundredth one late.
pub(crate) fn receiver(c: &mut Criterion) {
    let mut group = c.benchmark_group("receiver");
    for (name, late) in [("in order", u32::MAX), ("every 100th late", 100)] {
        group.throughput(Throughput::Elements(u64::from(PACKETS)));
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut receiver = Classic::new();
                for seq in 0..PACKETS {
                    match seq % late {
                        0 if seq > 0 => continue,
                        1 if seq > late => receiver.deliver(seq - 1),
                        _ => {}
                    }
                    receiver.deliver(seq);
                    receiver.transmit();
                }
                black_box(receiver.server.received_bytes(0))
            });
        });
    }
    group.finish();
}

/// Packets of a native stream that are on their way together.
const BATCH: u32 = 1000;
const PAYLOAD: usize = 1432;
/// Packets between two reads.
const RUN: usize = 32;

/// Measures the receiving end of a native stream without a cipher that is read as it arrives: in
/// order, and with every hundredth packet of a thousand behind all others.
pub(crate) fn stream(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    group.throughput(Throughput::Elements(u64::from(BATCH)));
    for (name, late) in [("in order", None), ("1 % held back", Some(100))] {
        group.bench_function(name, |b| {
            let mut stream = Stream::new();
            b.iter_custom(|steps| (0..steps).map(|_| stream.step(late)).sum());
        });
    }
    group.finish();
}

/// A native stream.
struct Stream {
    sender: pair::End,
    receiver: pair::End,
    now: Instant,
    /// Number of packets in the latest batch.
    sent: usize,
}

impl Stream {
    fn new() -> Self {
        let sender = SenderConfig {
            congestion: Algorithm::Fixed(2 * BATCH),
            pacing: false,
            ..SenderConfig::native(1)
        };
        let receiver = ReceiverConfig {
            keep_payload: true,
            stream_window: WindowConfig::fixed(64 << 20, PAYLOAD as u64),
            ..ReceiverConfig::reference()
        };
        let now = epoch();
        let (sender, receiver) = pair::connect(sender, receiver, now);
        let mut stream = Self { sender, receiver, now, sent: 0 };
        // Until the sender has found the path MTU.
        for _ in 0..100 {
            stream.step(None);
        }
        assert_eq!(stream.sent, BATCH as usize, "packets are full, and the window has room for all");
        stream
    }

    /// Sends a batch, and returns the time that the receiver needs for it.
    fn step(&mut self, late: Option<usize>) -> Duration {
        self.now += Duration::from_millis(1);
        let mut datagrams = Vec::new();
        self.sender.send(self.now, BATCH as usize * PAYLOAD, |datagram| datagrams.push(datagram.to_vec()));
        self.sent = datagrams.len();
        let is_late = |place: usize| late.is_some_and(|late| place.is_multiple_of(late));
        let (behind, mut arriving): (Vec<_>, Vec<_>) =
            datagrams.into_iter().enumerate().partition(|(place, _)| is_late(*place));
        arriving.extend(behind);
        let mut ack = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "this is a measurement")]
        let start = Instant::now();
        for run in arriving.chunks_mut(RUN) {
            for (_, datagram) in run {
                self.receiver.deliver(self.now, datagram);
            }
            self.receiver.with(self.now, |connection| {
                while let n @ 1.. = black_box(connection.data()).len() {
                    connection.consume(n);
                }
            });
            self.receiver.transmit_each(self.now, |datagram| {
                ack.clear();
                ack.extend_from_slice(datagram);
            });
        }
        let taken = start.elapsed();
        // The last ACK has no hole: nothing is sent again.
        self.sender.deliver(self.now, &mut ack);
        taken
    }
}
