//! Paths of a relay: one that all packets share, or one for each tag. Owns the assignment of
//! packets to paths, and the order of due times across paths.

mod per_destination;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

pub(crate) use per_destination::PerDestination;
use rdt_emulator::{
    ChangeError, DelayHistogram, Delivery, Direction, Dropped, LateDrop, Ledger, Packet, Path, PathConfig,
    child_seed,
};

use crate::account::{Account, Lane};

/// New settings of a path.
pub(crate) struct Change {
    /// Number of the path, if there is one for each destination.
    pub(crate) path: usize,
    /// Name of its destination; `None` if all packets have one description.
    pub(crate) name: Option<String>,
    /// Packets that arrive at this time or later meet the new settings.
    pub(crate) at: Instant,
    pub(crate) config: PathConfig,
    /// Description of the path in TOML.
    pub(crate) description: String,
}

/// Queue of changes, which the relay takes from.
pub(crate) type Changes = Receiver<Change>;

#[derive(Debug)]
pub(crate) enum Paths {
    /// One path for all packets, like a shared router.
    One(Box<Path>),
    /// One path for the packets of each tag.
    PerTag(Box<PerTag>),
    /// One path for the packets of each destination.
    PerDestination(PerDestination),
}

impl From<Path> for Paths {
    fn from(path: Path) -> Self {
        Self::One(Box::new(path))
    }
}

impl From<PerTag> for Paths {
    fn from(paths: PerTag) -> Self {
        Self::PerTag(Box::new(paths))
    }
}

impl Paths {
    /// Starts the schedules at `at`, except those of a tag, which start with its first packet.
    pub(crate) fn start(&mut self, at: Instant) {
        match self {
            Self::One(path) => path.start(at),
            Self::PerTag(_) => {}
            Self::PerDestination(paths) => paths.paths().for_each(|path| path.start(at)),
        }
    }

    /// Changes the settings of all paths, or of that with this number if there is one for each
    /// destination, for packets that arrive from now on.
    ///
    /// # Errors
    /// If a setting cannot change. Then all paths stay as they are.
    pub(crate) fn change(
        &mut self,
        number: usize,
        now: Instant,
        config: PathConfig,
    ) -> Result<(), ChangeError> {
        match self {
            Self::One(path) => path.change(now, config),
            Self::PerTag(paths) => paths.change(now, config),
            Self::PerDestination(paths) => paths.change(number, now, config),
        }
    }

    /// Prepares for [`change`](Self::change), before the first packet.
    pub(crate) fn allow_changes(&mut self) {
        match self {
            Self::One(path) => path.allow_changes(),
            Self::PerTag(paths) => paths.allows_changes = true,
            Self::PerDestination(paths) => paths.paths().for_each(Path::allow_changes),
        }
    }

    /// Enables measurement of queueing delays, and records up to `late_drops` late drops for
    /// [`pop_dropped`](Self::pop_dropped).
    pub(crate) fn watch(&mut self, late_drops: usize) {
        match self {
            Self::One(path) => watch(path, late_drops),
            Self::PerTag(paths) => {
                paths.late_drops = late_drops;
                paths.delays = [(); 2].map(|()| Some(DelayHistogram::default()));
            }
            Self::PerDestination(paths) => paths.paths().for_each(|path| watch(path, late_drops)),
        }
    }

    /// Returns the next packet of a direction that its path dropped after having accepted it.
    pub(crate) fn pop_dropped(&mut self, direction: Direction) -> Option<LateDrop> {
        match self {
            Self::One(path) => path.link_mut(direction).pop_dropped(),
            Self::PerTag(paths) => paths.dropped[direction as usize].pop_front(),
            Self::PerDestination(paths) => paths.pop_dropped(direction),
        }
    }

    /// Returns the number of late drops of a direction, on all paths, that were not recorded.
    pub(crate) fn freed_drops(&self, direction: Direction) -> u64 {
        match self {
            Self::One(path) => path.link(direction).freed_drops(),
            Self::PerTag(paths) => paths.freed_drops(direction),
            Self::PerDestination(paths) => paths.freed_drops(direction),
        }
    }

    pub(crate) fn queue_delays(&self, direction: Direction) -> DelayHistogram {
        match self {
            Self::One(path) => path.link(direction).queue_delays().cloned().unwrap_or_default(),
            Self::PerTag(paths) => paths.delays[direction as usize].clone().unwrap_or_default(),
            Self::PerDestination(paths) => paths.queue_delays(direction),
        }
    }

    pub(crate) fn push(&mut self, direction: Direction, at: Instant, packet: Packet) -> Result<(), Dropped> {
        match self {
            Self::One(path) => path.push(direction, at, packet),
            Self::PerTag(paths) => paths.push(direction, at, packet),
            Self::PerDestination(paths) => paths.push(direction, at, packet),
        }
    }

    /// Returns the next packet of a direction that is due by `now`.
    pub(crate) fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivery> {
        match self {
            Self::One(path) => path.pop(direction, now),
            Self::PerTag(paths) => paths.pop(direction, now),
            Self::PerDestination(paths) => paths.pop(direction, now),
        }
    }

    /// Returns the time at which the next packet of either direction is due.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        match self {
            Self::One(path) => path.forward.next_wakeup().into_iter().chain(path.reverse.next_wakeup()).min(),
            Self::PerTag(paths) => paths.next_wakeup(),
            Self::PerDestination(paths) => paths.next_wakeup(),
        }
    }

    pub(crate) fn ledger(&self, direction: Direction) -> Ledger {
        match self {
            Self::One(path) => *path.link(direction).ledger(),
            Self::PerTag(paths) => paths.total[direction as usize],
            Self::PerDestination(paths) => paths.ledger(direction),
        }
    }

    /// Returns how long the packets admitted so far occupy the links of a direction after `now`.
    pub(crate) fn backlog(&self, direction: Direction, now: Instant) -> Duration {
        match self {
            Self::One(path) => path.link(direction).backlog(now),
            Self::PerTag(paths) => paths.paths.values().map(|path| path.link(direction).backlog(now)).sum(),
            Self::PerDestination(paths) => paths.backlog(direction, now),
        }
    }

    /// Returns the account of a direction until `now`.
    pub(crate) fn account(&self, lane: &Lane, now: Instant) -> Account {
        let direction = lane.direction;
        lane.account(self.ledger(direction), self.backlog(direction, now), self.queue_delays(direction))
    }

    /// Counts a delivered packet for its path, if there is one for each destination.
    pub(crate) fn on_delivered(&mut self, direction: Direction, tag: u32, late: Duration, refused: bool) {
        if let Self::PerDestination(paths) = self {
            paths.on_delivered(direction, tag, late, refused);
        }
    }

    /// Returns the accounts of each path until `now`, forward first; empty unless there is one for
    /// each destination.
    pub(crate) fn accounts(&self, now: Instant) -> Vec<[Account; 2]> {
        match self {
            Self::PerDestination(paths) => paths.accounts(now),
            Self::One(_) | Self::PerTag(_) => Vec::new(),
        }
    }

    /// Removes the path of the client with this tag and discards its packets. No effect if all
    /// clients share one path.
    pub(crate) fn remove(&mut self, tag: u32) {
        if let Self::PerTag(paths) = self {
            paths.remove(tag);
        }
    }
}

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// Enables measurement of queueing delays, and records up to `late_drops` late drops.
fn watch(path: &mut Path, late_drops: usize) {
    for direction in BOTH {
        path.link_mut(direction).measure_queue_delays();
        path.link_mut(direction).keep_dropped(late_drops);
    }
}

/// One path for each tag, all with the same configuration. Seeds are derived from one seed, so that
/// the packets of one tag do not affect those of another, except through the memory limit, which
/// all paths share.
#[derive(Debug)]
pub(crate) struct PerTag {
    config: PathConfig,
    seed: u64,
    /// True if [`change`](Paths::change) may be called.
    allows_changes: bool,
    paths: BTreeMap<u32, Path>,
    /// Due time and tag of each path with packets, by direction.
    wakeups: [BTreeSet<(Instant, u32)>; 2],
    /// Sums of the ledgers of all current and removed paths, by direction. Updated with each
    /// packet, so that the cost of a report does not grow with the number of paths.
    total: [Ledger; 2],
    /// Bytes in the links of all paths, by direction. A link's memory limit applies to this sum.
    held: [u64; 2],
    /// Queueing delays of all paths, by direction; `None` if not measured.
    delays: [Option<DelayHistogram>; 2],
    /// Number of late drops of removed paths that were not recorded, by direction.
    closed_freed_drops: [u64; 2],
    /// Limit on the late drops that each path records until they are collected.
    late_drops: usize,
    /// Late drops not yet returned by [`pop_dropped`](Paths::pop_dropped), by direction.
    dropped: [VecDeque<LateDrop>; 2],
}

impl PerTag {
    /// Creates an empty set of paths. The path of tag n has the seed [`child_seed`] n.
    pub(crate) fn new(config: PathConfig, seed: u64) -> Self {
        Self {
            config,
            seed,
            allows_changes: false,
            paths: BTreeMap::new(),
            wakeups: Default::default(),
            total: Default::default(),
            held: [0; 2],
            delays: Default::default(),
            closed_freed_drops: [0; 2],
            late_drops: 0,
            dropped: Default::default(),
        }
    }

    fn push(&mut self, direction: Direction, at: Instant, packet: Packet) -> Result<(), Dropped> {
        let tag = packet.tag;
        let path = self.paths.entry(tag).or_insert_with(|| {
            let mut path = Path::new(self.config.clone(), child_seed(self.seed, u64::from(tag)));
            path.start(at);
            if self.allows_changes {
                path.allow_changes();
            }
            for direction in BOTH {
                path.link_mut(direction).keep_dropped(self.late_drops);
            }
            path
        });
        let limit = match direction {
            Direction::Forward => self.config.forward.memory_limit,
            Direction::Reverse => self.config.reverse.memory_limit,
        };
        let others = self.held[direction as usize] - path.link(direction).held_bytes();
        path.link_mut(direction).set_memory_limit(limit.saturating_sub(others));
        let before = begin(path, &mut self.delays);
        let result = path.push(direction, at, packet);
        self.follow(tag, &before);
        result
    }

    fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivery> {
        loop {
            let wakeup = *self.wakeups[direction as usize].first().filter(|(at, _)| *at <= now)?;
            let (_, tag) = wakeup;
            let Some(path) = self.paths.get_mut(&tag) else {
                self.wakeups[direction as usize].remove(&wakeup);
                continue;
            };
            let before = begin(path, &mut self.delays);
            // A queue discipline that drops on departure may deliver no packet, and change the due
            // time.
            let delivery = path.pop(direction, now);
            self.follow(tag, &before);
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    fn change(&mut self, now: Instant, config: PathConfig) -> Result<(), ChangeError> {
        let tags: Vec<_> = self.paths.keys().copied().collect();
        for tag in tags {
            let Some(path) = self.paths.get_mut(&tag) else { continue };
            let before = begin(path, &mut self.delays);
            // All have the same settings, so only the first one can refuse.
            let changed = path.change(now, config.clone());
            self.follow(tag, &before);
            changed?;
        }
        self.config = config;
        Ok(())
    }

    /// Updates the sums over all paths and the due times after a push or pop, and collects packets
    /// that a queue dropped after it had accepted them. Both directions may have changed, because
    /// they share the airtime of an 802.11 cell.
    fn follow(&mut self, tag: u32, before: &[State; 2]) {
        let Some(path) = self.paths.get_mut(&tag) else { return };
        swap_histograms(path, &mut self.delays);
        for direction in BOTH {
            let link = path.link_mut(direction);
            self.dropped[direction as usize].extend(iter::from_fn(|| link.pop_dropped()));
        }
        for (direction, (before, after)) in BOTH.into_iter().zip(before.iter().zip(&states(path))) {
            let index = direction as usize;
            self.held[index] = self.held[index] - before.held + after.held;
            // Most packets change nothing in the opposite direction.
            if before.ledger != after.ledger {
                self.total[index].replace(&before.ledger, &after.ledger);
            }
            self.wake(direction, tag, before.wakeup, after.wakeup);
        }
    }

    fn wake(&mut self, direction: Direction, tag: u32, before: Option<Instant>, after: Option<Instant>) {
        if before == after {
            return;
        }
        let wakeups = &mut self.wakeups[direction as usize];
        if let Some(before) = before {
            wakeups.remove(&(before, tag));
        }
        wakeups.extend(after.map(|after| (after, tag)));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.wakeups.iter().filter_map(|wakeups| wakeups.first()).map(|(at, _)| *at).min()
    }

    fn freed_drops(&self, direction: Direction) -> u64 {
        let open: u64 = self.paths.values().map(|path| path.link(direction).freed_drops()).sum();
        self.closed_freed_drops[direction as usize] + open
    }

    fn remove(&mut self, tag: u32) {
        let Some(path) = self.paths.remove(&tag) else { return };
        for direction in BOTH {
            let link = path.link(direction);
            self.wake(direction, tag, link.next_wakeup(), None);
            self.held[direction as usize] -= link.held_bytes();
            let before = *link.ledger();
            let mut ledger = before;
            ledger.abandon();
            self.total[direction as usize].replace(&before, &ledger);
            self.closed_freed_drops[direction as usize] += link.freed_drops();
        }
    }
}

/// State of a link before or after a push or pop.
struct State {
    wakeup: Option<Instant>,
    ledger: Ledger,
    held: u64,
}

fn states(path: &Path) -> [State; 2] {
    [&path.forward, &path.reverse].map(|link| State {
        wakeup: link.next_wakeup(),
        ledger: *link.ledger(),
        held: link.held_bytes(),
    })
}

/// Records the state, and moves the shared delay histograms into the path.
fn begin(path: &mut Path, delays: &mut [Option<DelayHistogram>; 2]) -> [State; 2] {
    swap_histograms(path, delays);
    states(path)
}

/// Exchanges the shared delay histograms with those of a path: into the path before a call, out of
/// it after the call.
fn swap_histograms(path: &mut Path, delays: &mut [Option<DelayHistogram>; 2]) {
    for (direction, delays) in BOTH.into_iter().zip(delays) {
        path.link_mut(direction).swap_queue_delays(delays);
    }
}

#[cfg(test)]
mod tests;
