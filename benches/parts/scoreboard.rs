//! The sender's scoreboard alone, as senders use it: segments leave in runs, cross a path of one window's length and are
//! acknowledged. Where none is marked ever (classic), by an ACK for each or for all that came together; where segments
//! are marked (native), by an ACK for all that came together, and where some are lost by one for each second segment:
//! the third behind a hole tells of it, and repairs are never lost.

use std::collections::VecDeque;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use rdt::transport::parts::scoreboard::Scoreboard;
use rdt::transport::wire::Numbering;

/// Segments that leave and arrive together: a batch of 1472-byte datagrams.
const RUN: u64 = 44;
/// Such runs between two looks at the clock.
const RUNS: u64 = 25;
/// Bytes of a segment.
const LEN: u32 = 1444;
/// Where some are lost, every so many-th.
const LOST: u64 = 100;
/// Segments behind a hole until it is known to be lost.
const REORDERING: u64 = 3;

/// What a run's arrival brings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing is ever marked; an ACK for each segment.
    ClassicEach,
    /// The same; an ACK for the run.
    ClassicBatch,
    /// Segments may be marked; an ACK for the run.
    Native,
    /// The same; some are lost.
    NativeLossy,
}

const WAYS: [(&str, Way); 4] = [
    ("classic, an ACK for each", Way::ClassicEach),
    ("classic, an ACK for a run", Way::ClassicBatch),
    ("native, an ACK for a run", Way::Native),
    ("native, 1 % lost", Way::NativeLossy),
];

/// Per segment: what sending it, its share of an ACK and its repair cost.
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
    /// Segments on the path, at least.
    window: u64,
    way: Way,
    /// Nothing here depends on the time.
    now: Instant,
    /// New segments that were sent, those of them that arrived or were lost, and all transmissions.
    sent: u64,
    arrived: u64,
    transmissions: u64,
    /// Numbers of those lost whose repair has not arrived.
    holes: VecDeque<u64>,
}

impl Flow {
    /// With a full path, and holes as old as they get.
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

    /// A run leaves and another arrives.
    fn step(&mut self) {
        self.push();
        let first = self.arrived;
        self.arrived += RUN;
        match self.way {
            Way::ClassicEach => {
                for segment in first..self.arrived {
                    self.board.acknowledge_unmarked(segment + 1);
                }
            }
            Way::ClassicBatch => {
                self.board.acknowledge_unmarked(self.arrived);
            }
            Way::Native => self.acknowledge(self.arrived),
            Way::NativeLossy => (first..self.arrived).for_each(|segment| self.arrive(segment)),
        }
    }

    /// A run leaves; where transmissions are not numbered, all have the same number.
    fn push(&mut self) {
        let tx = self.transmissions;
        match self.way {
            Way::ClassicEach | Way::ClassicBatch => self.board.push_run(self.now, LEN, RUN, |_| tx),
            Way::Native | Way::NativeLossy => {
                self.board.push_run(self.now, LEN, RUN, |n| tx + n);
                self.transmissions += RUN;
            }
        }
        self.sent += RUN;
    }

    /// One segment of a path that loses some.
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

    /// An ACK of all that arrived before the segment `end`, with the block that grew.
    fn acknowledge(&mut self, end: u64) {
        let edge = offset(self.holes.front().copied().unwrap_or(end));
        match self.board.plain_run(edge) {
            Some(run) => {
                self.board.acknowledge_run(edge, &run);
            }
            None => {
                self.board.acknowledge(edge, |_| {});
            }
        }
        if let Some(hole) = self.holes.back() {
            self.board.sack(&(offset(hole + 1)..offset(end)), |_| {});
        }
    }
}

/// Where a segment begins.
fn offset(segment: u64) -> u64 {
    segment * u64::from(LEN)
}
