//! Cost of processing ACKs for a sender whose window has holes. Datagrams cross a lossy path, a
//! receiver acknowledges every second one with its SACK blocks, and the processing of these ACKs is
//! timed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use rdt::transport::congestion::Algorithm;
use rdt::transport::parts::{MAX_BLOCKS, RangeSet, SackList};
use rdt::transport::wire::FromSender;
use rdt::transport::wire::native;
use rdt::transport::{Ecn, Endpoint, LossDetection, Sender, SenderConfig, TransmitBuf};

const ID: u64 = 1;
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

struct Flight {
    packet_number: u64,
    bytes: std::ops::Range<u64>,
}

/// A sender, a path of constant rate with a queue, and the byte ranges that the receiver has.
struct Path {
    sender: Sender,
    out: TransmitBuf,
    now: Instant,
    /// Time between two packets.
    interval: Duration,
    percent: u64,
    flying: VecDeque<Flight>,
    rcv_nxt: u64,
    held: RangeSet,
    list: SackList,
    largest_received: u64,
    received: u32,
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
            ..SenderConfig::native(ID)
        };
        let mut sender = Sender::new(config).expect("the configuration is valid");
        sender.open().expect("a new sender opens");
        let mut path = Self {
            sender,
            out: TransmitBuf::new(64),
            now: super::epoch(),
            interval: RTT / window,
            percent,
            flying: VecDeque::new(),
            rcv_nxt: 0,
            held: RangeSet::new(1 << 20),
            list: SackList::new(),
            largest_received: 0,
            received: 0,
            acks: Vec::new(),
        };
        path.transmit();
        path.now += RTT;
        let answer = native::SynAck { window: 1 << 40, params: native::Params::default() };
        let mut reply = vec![0; native::syn_ack_len(&answer)];
        native::encode_syn_ack(ID, &answer, &mut reply);
        path.sender.handle_datagram(path.now, (), Ecn::NotEct, &mut reply);
        path.transmit();
        path
    }

    /// Delivers the next packets, and returns the time that the sender needed for their ACKs.
    fn step(&mut self) -> Duration {
        for _ in 0..STEP {
            self.now += self.interval;
            let Some(flight) = self.flying.pop_front() else { continue };
            if draw(flight.packet_number) % 100 < self.percent {
                continue;
            }
            self.arrive(&flight);
        }
        #[expect(clippy::disallowed_methods, reason = "this is a measurement")]
        let start = Instant::now();
        for (now, reply) in &mut self.acks {
            self.sender.handle_datagram(*now, (), Ecn::NotEct, reply);
        }
        if self.sender.poll_timeout().is_some_and(|at| at <= self.now) {
            self.sender.handle_timeout(self.now);
        }
        let taken = start.elapsed();
        self.acks.clear();
        self.transmit();
        taken
    }

    fn arrive(&mut self, flight: &Flight) {
        self.largest_received = self.largest_received.max(flight.packet_number);
        let new = flight.bytes.start.max(self.rcv_nxt)..flight.bytes.end;
        if !new.is_empty() && self.held.insert(new.clone()).is_ok() {
            self.rcv_nxt = self.held.first_missing(self.rcv_nxt);
            self.held.remove_below(self.rcv_nxt);
            if let Some(block) = self.held.range_of(new.start) {
                self.list.on_arrival(&block);
            }
        }
        self.received += 1;
        if self.received.is_multiple_of(2) {
            let reply = self.ack();
            self.acks.push((self.now, reply));
        }
    }

    fn ack(&mut self) -> Vec<u8> {
        let ack = native::Ack {
            largest_received: self.largest_received,
            echo_delay_us: 0,
            ack: self.rcv_nxt,
            window: 1 << 40,
            packets: self.received,
            duplicates: 0,
            ce: 0,
            ect: 0,
            overflow: None,
        };
        let blocks = self.list.report(&self.held, MAX_BLOCKS).iter();
        let mut blocks: Vec<_> = blocks.map(|b| native::SackBlock { start: b.start, end: b.end }).collect();
        blocks.sort_unstable_by_key(|block| block.start);
        let mut reply = vec![0; native::ack_len(blocks.len())];
        let len = native::encode_ack(ID, &ack, &blocks, &mut reply);
        reply.truncate(len);
        reply
    }

    /// Sends everything that the sender may send now.
    fn transmit(&mut self) {
        loop {
            while let Ok(n @ 1..) = self.sender.spare().map(|spare| spare.len()) {
                self.sender.advance(n);
            }
            self.out.clear();
            if self.sender.poll_transmit(self.now, &mut self.out).is_none() {
                return;
            }
            for datagram in self.out.datagrams() {
                if let Ok(FromSender::Data(data)) =
                    native::decode_from_sender(datagram, self.largest_received)
                {
                    let start = data.seq;
                    let bytes = start..start + data.payload.len() as u64;
                    self.flying.push_back(Flight {
                        packet_number: data.packet_number.expect("native data is numbered"),
                        bytes,
                    });
                }
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
