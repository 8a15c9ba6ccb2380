//! The scoreboard alone: segments leave in runs, cross a path of one window and are acknowledged.
//! Classic: one ACK a segment, or one a run. Native: one ACK a run; with losses, one for each
//! second segment. The third segment beyond a hole reveals it, and repairs are never lost.

use std::collections::VecDeque;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use rdt::transport::parts::Scoreboard;
use rdt::transport::wire::Numbering;

/// Segments of a run: a batch of 1472-byte datagrams.
const RUN: u64 = 44;
/// Runs in one timed step.
const RUNS: u64 = 25;
/// Bytes of a segment.
const LEN: u32 = 1444;
/// With losses, one segment in this many is lost.
const LOST: u64 = 100;
/// Segments beyond a hole until it is declared lost.
const REORDERING: u64 = 3;

/// Answer to the arrival of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// No segment is marked; one ACK a segment.
    ClassicEach,
    /// No segment is marked; one ACK a run.
    ClassicBatch,
    /// Segments may be marked; one ACK a run.
    Native,
    /// Segments may be marked; some are lost.
    NativeLossy,
}

const WAYS: [(&str, Way); 4] = [
    ("classic, an ACK for each", Way::ClassicEach),
    ("classic, an ACK for a run", Way::ClassicBatch),
    ("native, an ACK for a run", Way::Native),
    ("native, 1 % lost", Way::NativeLossy),
];

/// Cost a segment: its transmission, its share of an ACK and its repair.
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
    /// Fewest segments on the path.
    window: u64,
    way: Way,
    /// Constant: nothing here depends on time.
    now: Instant,
    /// Counts: new segments sent, those that arrived or were lost, all transmissions.
    sent: u64,
    arrived: u64,
    transmissions: u64,
    /// Numbers of lost segments whose repair has not arrived.
    holes: VecDeque<u64>,
}

impl Flow {
    /// Starts with a full path and holes of the largest age.
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

    /// Sends a run and delivers another.
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

    /// Sends a run; classic transmissions all have the same number.
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

    /// Delivers or loses one segment.
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

    /// Takes an ACK of everything before the segment `end`, with the block that grew.
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

/// Offset of a segment.
fn offset(segment: u64) -> u64 {
    segment * u64::from(LEN)
}
