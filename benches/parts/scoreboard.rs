//! The sender's scoreboard alone: segments are sent, cross a path of one window's length and are acknowledged, every
//! second one at once. Of those that are lost the third behind tells, and their repairs are never lost.

use std::collections::VecDeque;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use rdt::transport::parts::scoreboard::Scoreboard;
use rdt::transport::wire::Numbering;

/// Segments that are sent between two looks at the clock.
const STEPS: u64 = 1000;
/// Bytes of a segment.
const LEN: u32 = 1444;
/// Where some are lost, every so many-th.
const LOST: u64 = 100;
/// Segments behind a hole until it is known to be lost.
const REORDERING: u64 = 3;

/// Per segment: what sending it, its share of an ACK and its repair cost.
pub(crate) fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("scoreboard");
    group.throughput(Throughput::Elements(STEPS));
    for window in [64, 8192, 100_000] {
        for (name, lossy) in [("in order", false), ("1 % lost", true)] {
            group.bench_function(format!("{window} segments, {name}"), |b| {
                let mut flow = Flow::new(window, lossy);
                b.iter(|| (0..STEPS).for_each(|_| flow.step()));
            });
        }
    }
    group.finish();
}

struct Flow {
    board: Scoreboard,
    /// Segments on the path.
    window: u64,
    lossy: bool,
    /// Nothing here depends on the time.
    now: Instant,
    /// New segments that were sent, and all transmissions.
    sent: u64,
    transmissions: u64,
    /// Numbers of those lost whose repair has not arrived.
    holes: VecDeque<u64>,
}

impl Flow {
    /// With a full path, and holes as old as they get.
    fn new(window: u64, lossy: bool) -> Self {
        let board = Scoreboard::new(Numbering::Bytes);
        let mut flow = Self {
            board,
            window,
            lossy,
            now: super::epoch(),
            sent: 0,
            transmissions: 0,
            holes: VecDeque::new(),
        };
        while flow.sent < window {
            flow.push();
        }
        for _ in 0..3 * window {
            flow.step();
        }
        flow
    }

    /// A segment leaves and another arrives.
    fn step(&mut self) {
        let arriving = self.sent - self.window;
        self.push();
        match arriving % LOST {
            0 if self.lossy => self.holes.push_back(arriving),
            REORDERING if self.lossy => {
                let hole = offset(arriving - REORDERING);
                self.board.mark_lost(hole);
                self.board.resend(self.now, hole, self.transmissions);
                self.transmissions += 1;
            }
            _ => {}
        }
        if self.holes.front().is_some_and(|hole| hole + REORDERING + self.window == arriving) {
            self.holes.pop_front();
        }
        if arriving % 2 == 1 {
            self.acknowledge(arriving + 1);
        }
    }

    fn push(&mut self) {
        self.board.push(self.now, LEN, self.transmissions);
        self.sent += 1;
        self.transmissions += 1;
    }

    /// An ACK of all that arrived before the segment `end`, with the block that grew.
    fn acknowledge(&mut self, end: u64) {
        if !self.lossy {
            self.board.acknowledge_unmarked(offset(end));
            return;
        }
        let edge = self.holes.front().copied().unwrap_or(end);
        self.board.acknowledge(offset(edge), |_| {});
        if let Some(hole) = self.holes.back() {
            self.board.sack(&(offset(hole + 1)..offset(end)), |_| {});
        }
    }
}

/// Where a segment begins.
fn offset(segment: u64) -> u64 {
    segment * u64::from(LEN)
}
