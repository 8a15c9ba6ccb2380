//! A path for each destination; the tag of a packet is the number of its path.

use std::time::{Duration, Instant};

use rdt_emulator::{
    ChangeError, DelayHistogram, Delivery, Direction, Dropped, LateDrop, Ledger, Packet, Path, PathConfig,
};

use super::BOTH;
use crate::account::{Account, Lane};

#[derive(Debug)]
pub(crate) struct PerDestination {
    branches: Vec<Branch>,
}

#[derive(Debug)]
struct Branch {
    path: Path,
    /// Memory limits, forward first. They apply to the sum over all paths.
    limits: [u64; 2],
    /// Forward first.
    lanes: [Lane; 2],
}

impl Branch {
    fn account(&self, direction: Direction, now: Instant) -> Account {
        let link = self.path.link(direction);
        let delays = link.queue_delays().cloned().unwrap_or_default();
        self.lanes[direction as usize].account(*link.ledger(), link.backlog(now), delays)
    }
}

impl PerDestination {
    /// Creates a path for each configuration and seed.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(paths: impl IntoIterator<Item = (PathConfig, u64)>) -> Self {
        let branch = |(config, seed): (PathConfig, u64)| Branch {
            limits: [config.forward.memory_limit, config.reverse.memory_limit],
            path: Path::new(config, seed),
            lanes: BOTH.map(Lane::new),
        };
        Self { branches: paths.into_iter().map(branch).collect() }
    }

    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut Path> {
        self.branches.iter_mut().map(|branch| &mut branch.path)
    }

    /// Returns the accounts of each path until `now`, forward first.
    pub(super) fn accounts(&self, now: Instant) -> Vec<[Account; 2]> {
        self.branches.iter().map(|branch| BOTH.map(|direction| branch.account(direction, now))).collect()
    }

    pub(super) fn change(
        &mut self,
        number: usize,
        now: Instant,
        config: PathConfig,
    ) -> Result<(), ChangeError> {
        self.branches.get_mut(number).map_or(Ok(()), |branch| branch.path.change(now, config))
    }

    pub(super) fn push(&mut self, direction: Direction, at: Instant, packet: Packet) -> Result<(), Dropped> {
        let index = direction as usize;
        let number = packet.tag as usize;
        let held: u64 = self.branches.iter().map(|it| it.path.link(direction).held_bytes()).sum();
        let branch = &mut self.branches[number];
        let others = held - branch.path.link(direction).held_bytes();
        let limit = branch.limits[index].saturating_sub(others);
        branch.path.link_mut(direction).set_memory_limit(limit);
        branch.path.push(direction, at, packet)
    }

    pub(super) fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivery> {
        loop {
            let due = |it: &Branch| it.path.link(direction).next_wakeup().filter(|at| *at <= now);
            let earliest =
                (0..self.branches.len()).filter_map(|it| Some((due(&self.branches[it])?, it))).min();
            // A queue discipline that drops on departure may deliver no packet.
            let delivery = self.branches[earliest?.1].path.pop(direction, now);
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    pub(super) fn on_delivered(&mut self, direction: Direction, tag: u32, late: Duration, refused: bool) {
        if let Some(branch) = self.branches.get_mut(tag as usize) {
            let lane = &mut branch.lanes[direction as usize];
            lane.lateness.record(late);
            lane.refused += u64::from(refused);
        }
    }

    pub(super) fn pop_dropped(&mut self, direction: Direction) -> Option<LateDrop> {
        self.paths().find_map(|path| path.link_mut(direction).pop_dropped())
    }

    pub(super) fn freed_drops(&self, direction: Direction) -> u64 {
        self.branches.iter().map(|it| it.path.link(direction).freed_drops()).sum()
    }

    pub(super) fn queue_delays(&self, direction: Direction) -> DelayHistogram {
        let mut sum = DelayHistogram::default();
        for delays in self.branches.iter().filter_map(|it| it.path.link(direction).queue_delays()) {
            sum.merge(delays);
        }
        sum
    }

    pub(super) fn ledger(&self, direction: Direction) -> Ledger {
        let mut sum = Ledger::default();
        for branch in &self.branches {
            sum.merge(branch.path.link(direction).ledger());
        }
        sum
    }

    pub(super) fn backlog(&self, direction: Direction, now: Instant) -> Duration {
        self.branches.iter().map(|it| it.path.link(direction).backlog(now)).sum()
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        let wakeups = |it: &Branch| BOTH.map(|direction| it.path.link(direction).next_wakeup());
        self.branches.iter().flat_map(wakeups).flatten().min()
    }
}
