//! Cost of the scoreboard alone. Segments are sent in batches (runs), cross a path of one window
//! and are acknowledged. Classic: one ACK per segment, or one per batch. Native: one ACK per batch;
//! with losses, one per second segment. A segment is declared lost by the third segment after it,
//! and retransmissions are never lost.

use std::collections::VecDeque;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use rdt::transport::parts::Scoreboard;
use rdt::transport::wire::Numbering;

/// Number of segments in a batch: datagrams of 1472 bytes in a GSO message.
const RUN: u64 = 44;
/// Number of batches in one timed step.
const RUNS: u64 = 25;
const LEN: u32 = 1444;
/// With losses, one of this many segments is lost.
const LOST: u64 = 100;
/// Number of segments after a hole until it is declared lost.
const REORDERING: u64 = 3;

/// Format, and ACKs for the arrival of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// No SACK marks; one ACK per segment.
    ClassicEach,
    /// No SACK marks; one ACK per batch.
    ClassicBatch,
    /// Segments may be marked by SACK; one ACK per batch.
    Native,
    /// Segments may be marked by SACK; some are lost.
    NativeLossy,
}

const WAYS: [(&str, Way); 4] = [
    ("classic, an ACK for each", Way::ClassicEach),
    ("classic, an ACK for a run", Way::ClassicBatch),
    ("native, an ACK for a run", Way::Native),
    ("native, 1 % lost", Way::NativeLossy),
];

/// Measures the cost per segment: its transmission, its share of an ACK, and its retransmission.
pub(crate) fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("scoreboard");
    group.throughput(Throughput::Elements(RUN * RUNS));
    for window in [64, 8192, 100_000] {
        for (name, way) in WAYS {
            group.bench_function(format!("{window} segments, {name}"), |b| {
                let mut flow = Flow::new(window, way);
                b.iter(|| (0..RUNS).for_each(|_| flow.step()));
            });
        }
    }
    group.finish();
}

struct Flow {
    board: Scoreboard,
    /// Smallest number of segments on the path.
    window: u64,
    way: Way,
    /// Constant time: the cost does not depend on it.
    now: Instant,
    /// Number of new segments sent, of segments that arrived or were lost, and of all
    /// transmissions.
    sent: u64,
    arrived: u64,
    transmissions: u64,
    /// Numbers of the lost segments whose retransmissions have not arrived.
    holes: VecDeque<u64>,
}

impl Flow {
    /// Creates a flow with a full path, and with holes of the largest age.
    fn new(window: u64, way: Way) -> Self {
        let classic = matches!(way, Way::ClassicEach | Way::ClassicBatch);
        let numbering = if classic { Numbering::Packets } else { Numbering::Bytes };
        let mut flow = Self {
            board: Scoreboard::new(numbering),
            window,
            way,
            now: super::epoch(),
            sent: 0,
            arrived: 0,
            transmissions: 0,
            holes: VecDeque::new(),
        };
        while flow.sent < window {
            flow.push();
        }
        for _ in 0..3 * window / RUN {
            flow.step();
        }
        flow
    }

    /// Sends a batch and delivers another.
    fn step(&mut self) {
        self.push();
        let first = self.arrived;
        self.arrived += RUN;
        match self.way {
            Way::ClassicEach => {
                for segment in first..self.arrived {
                    self.acknowledge_edge(segment + 1);
                }
            }
            Way::ClassicBatch => {
                self.acknowledge_edge(self.arrived);
            }
            Way::Native => self.acknowledge(self.arrived),
            Way::NativeLossy => (first..self.arrived).for_each(|segment| self.arrive(segment)),
        }
    }

    /// Sends a batch. In classic all transmissions have the same number.
    fn push(&mut self) {
        let packet_number = self.transmissions;
        match self.way {
            Way::ClassicEach | Way::ClassicBatch => {
                self.board.push_run(self.now, LEN, RUN, |_| packet_number);
            }
            Way::Native | Way::NativeLossy => {
                self.board.push_run(self.now, LEN, RUN, |n| packet_number + n);
                self.transmissions += RUN;
            }
        }
        self.sent += RUN;
    }

    fn arrive(&mut self, segment: u64) {
        match segment % LOST {
            0 => self.holes.push_back(segment),
            REORDERING => {
                let hole = offset(segment - REORDERING);
                self.board.mark_lost(hole);
                self.board.resend(self.now, hole, self.transmissions);
                self.transmissions += 1;
            }
            _ => {}
        }
        if self.holes.front().is_some_and(|hole| hole + REORDERING + self.window == segment) {
            self.holes.pop_front();
        }
        if segment % 2 == 1 {
            self.acknowledge(segment + 1);
        }
    }

    /// Processes an ACK of all segments before `end`, with the SACK block that grew.
    fn acknowledge(&mut self, end: u64) {
        let edge = offset(self.holes.front().copied().unwrap_or(end));
        self.acknowledge_edge(edge);
        if let Some(hole) = self.holes.back() {
            self.board.sack(&(offset(hole + 1)..offset(end)), |_| {});
        }
    }

    fn acknowledge_edge(&mut self, edge: u64) {
        self.board.acknowledge(edge, |_| true, |_| {});
    }
}

fn offset(segment: u64) -> u64 {
    segment * u64::from(LEN)
}
