//! Cost of processing ACKs for the sender of a native connection without a cipher, whose window has
//! holes. Datagrams cross a lossy path, the receiver acknowledges every second one with its SACK
//! blocks, and the processing of these ACKs is timed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use rdt::transport::congestion::Algorithm;
use rdt::transport::{AckConfig, Endpoint, LossDetection, ReceiverConfig, SenderConfig, WindowConfig};

use super::pair;

const RTT: Duration = Duration::from_millis(100);
/// Bytes of a datagram: small, so that the cost of the scoreboard dominates that of the payload.
const DATAGRAM: usize = 128;
/// Number of packets that cross the path in one timed step.
const STEP: u32 = 32;
/// Number of round trips before the measurement, until holes have reached their largest age.
const WARM_UP: u32 = 6;

/// Measures windows with holes, for each recovery algorithm that uses SACK.
pub(crate) fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("lossy window");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(STEP)));
    for rule in [LossDetection::Rack, LossDetection::Sack] {
        for window in [8192, 100_000] {
            for percent in [0, 1, 10] {
                group.bench_function(format!("{rule}, {window} packets, {percent} % missing"), |b| {
                    let mut path = Path::new(rule, window, percent);
                    for _ in 0..WARM_UP * window / STEP {
                        path.step();
                    }
                    b.iter_custom(|steps| (0..steps).map(|_| path.step()).sum());
                });
            }
        }
    }
    group.finish();
}

/// A sender, a path of constant rate, and a receiver that acknowledges every second packet.
struct Path {
    sender: pair::End,
    receiver: pair::End,
    now: Instant,
    /// Time between two packets.
    interval: Duration,
    percent: u64,
    flying: VecDeque<Vec<u8>>,
    crossed: u64,
    acks: Vec<(Instant, Vec<u8>)>,
}

impl Path {
    fn new(rule: LossDetection, window: u32, percent: u64) -> Self {
        let config = SenderConfig {
            congestion: Algorithm::Fixed(window),
            recovery: rule,
            pacing: false,
            packet_size: DATAGRAM,
            memory_limit: 1 << 40,
            ..SenderConfig::native(1)
        };
        let receiver = ReceiverConfig {
            acks: AckConfig::exact(2, Duration::from_millis(25)),
            stream_window: WindowConfig::fixed(256 << 20, DATAGRAM as u64),
            ..ReceiverConfig::reference()
        };
        let now = super::epoch();
        let (sender, receiver) = pair::connect(config, receiver, now);
        let mut path = Self {
            sender,
            receiver,
            now,
            interval: RTT / window,
            percent,
            flying: VecDeque::new(),
            crossed: 0,
            acks: Vec::new(),
        };
        path.now += RTT;
        path.transmit();
        path
    }

    /// Delivers the next packets, and returns the time that the sender needed for their ACKs.
    fn step(&mut self) -> Duration {
        for _ in 0..STEP {
            self.now += self.interval;
            let Some(mut packet) = self.flying.pop_front() else { continue };
            self.crossed += 1;
            if draw(self.crossed) % 100 >= self.percent {
                self.receiver.deliver(self.now, &mut packet);
                self.receiver.transmit_each(self.now, |ack| self.acks.push((self.now, ack.to_vec())));
            }
        }
        #[expect(clippy::disallowed_methods, reason = "this is a measurement")]
        let start = Instant::now();
        for (now, reply) in &mut self.acks {
            self.sender.deliver(*now, reply);
        }
        if self.sender.set.poll_timeout().is_some_and(|at| at <= self.now) {
            self.sender.set.handle_timeout(self.now);
        }
        let taken = start.elapsed();
        self.acks.clear();
        self.transmit();
        taken
    }

    /// Sends everything that the sender may send now.
    fn transmit(&mut self) {
        loop {
            let before = self.flying.len();
            self.sender.write(self.now, usize::MAX);
            self.sender.transmit_each(self.now, |datagram| self.flying.push_back(datagram.to_vec()));
            if self.flying.len() == before {
                return;
            }
        }
    }
}

/// Returns a hash of a packet number (finalizer of `SplitMix64`), so that runs are identical.
fn draw(packet_number: u64) -> u64 {
    let mixed = (packet_number ^ packet_number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}
