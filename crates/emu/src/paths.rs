//! What a relay carries packets over: one path that all share, or one for each of those that it tells apart.
//!
//! Owns which path a packet takes, and which of many has the next packet that is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::time::Instant;

use rdt_emulator::{
    Delivery, Direction, Dropped, LateDrop, Ledger, Link, Packet, Path, PathConfig, QueueDelays, child_seed,
};

/// One path, or many.
#[derive(Debug)]
pub enum Paths {
    /// All packets share it, as those of all clients share a router.
    One(Box<Path>),
    /// Packets of each tag have their own.
    PerTag(Box<PerTag>),
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
    /// Lets the times of schedules count from `at`; those of a tag's own path count from its first packet.
    pub fn start(&mut self, at: Instant) {
        match self {
            Self::One(path) => path.start(at),
            Self::PerTag(_) => {}
        }
    }

    /// From now on measures how long packets wait, and keeps so many of those that are dropped late for
    /// [`pop_dropped`](Self::pop_dropped).
    pub fn watch(&mut self, late_drops: usize) {
        match self {
            Self::One(path) => watch(path, late_drops),
            Self::PerTag(paths) => paths.late_drops = late_drops,
        }
    }

    /// The next packet of a direction that was dropped after its path had taken it.
    pub fn pop_dropped(&mut self, direction: Direction) -> Option<LateDrop> {
        match self {
            Self::One(path) => path.link_mut(direction).pop_dropped(),
            Self::PerTag(paths) => paths.dropped[direction as usize].pop_front(),
        }
    }

    /// How many packets of a direction were dropped late beyond those that are kept, on all paths together.
    pub fn overlooked_drops(&self, direction: Direction) -> u64 {
        match self {
            Self::One(path) => link(path, direction).overlooked_drops(),
            Self::PerTag(paths) => paths.overlooked_drops(direction),
        }
    }

    /// How long packets of one direction waited so far, on all paths together.
    pub fn queue_delays(&self, direction: Direction) -> QueueDelays {
        match self {
            Self::One(path) => link(path, direction).queue_delays().cloned().unwrap_or_default(),
            Self::PerTag(paths) => paths.queue_delays(direction),
        }
    }

    /// The packet enters its path at `at`.
    pub fn push(&mut self, direction: Direction, at: Instant, packet: Packet) -> Result<(), Dropped> {
        match self {
            Self::One(path) => path.push(direction, at, packet),
            Self::PerTag(paths) => paths.push(direction, at, packet),
        }
    }

    /// The next packet of a direction that is due by `now`.
    pub fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivery> {
        match self {
            Self::One(path) => path.pop(direction, now),
            Self::PerTag(paths) => paths.pop(direction, now),
        }
    }

    /// When the next packet is due, of either direction.
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self {
            Self::One(path) => path.forward.next_wakeup().into_iter().chain(path.reverse.next_wakeup()).min(),
            Self::PerTag(paths) => paths.next_wakeup(),
        }
    }

    /// What became of the packets of one direction so far, on all paths together.
    pub fn ledger(&self, direction: Direction) -> Ledger {
        match self {
            Self::One(path) => *of(path, direction),
            Self::PerTag(paths) => paths.ledger(direction),
        }
    }

    /// No packet of this tag comes any more. What is on a path of its own is discarded.
    pub fn remove(&mut self, tag: u32) {
        if let Self::PerTag(paths) = self {
            paths.remove(tag);
        }
    }
}

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// When packets are due, forward and back.
fn wakeups(path: &Path) -> [Option<Instant>; 2] {
    BOTH.map(|direction| link(path, direction).next_wakeup())
}

fn watch(path: &mut Path, late_drops: usize) {
    for link in [&mut path.forward, &mut path.reverse] {
        link.measure_queue_delays();
        link.keep_dropped(late_drops);
    }
}

const fn link(path: &Path, direction: Direction) -> &Link {
    match direction {
        Direction::Forward => &path.forward,
        Direction::Reverse => &path.reverse,
    }
}

const fn of(path: &Path, direction: Direction) -> &Ledger {
    link(path, direction).ledger()
}

/// A path for each tag, all of one description. They draw from children of one seed, so what happens to the
/// packets of one tag does not depend on the others.
#[derive(Debug)]
pub struct PerTag {
    config: PathConfig,
    seed: u64,
    paths: BTreeMap<u32, Path>,
    /// When each path has its next packet due, of each direction.
    wakeups: [BTreeSet<(Instant, u32)>; 2],
    /// The final accounts of paths that were removed.
    closed: [Ledger; 2],
    /// How long packets waited on these.
    closed_delays: [QueueDelays; 2],
    /// How many packets they dropped late beyond those that are kept.
    closed_overlooked: [u64; 2],
    /// How many packets that were dropped late are kept, of each call.
    late_drops: usize,
    /// Those.
    dropped: [VecDeque<LateDrop>; 2],
}

impl PerTag {
    /// No path yet. That of tag n draws from [`child_seed`] n.
    pub fn new(config: PathConfig, seed: u64) -> Self {
        Self {
            config,
            seed,
            paths: BTreeMap::new(),
            wakeups: Default::default(),
            closed: Default::default(),
            closed_delays: Default::default(),
            closed_overlooked: [0; 2],
            late_drops: 0,
            dropped: Default::default(),
        }
    }

    fn push(&mut self, direction: Direction, at: Instant, packet: Packet) -> Result<(), Dropped> {
        let tag = packet.tag;
        let path = self.paths.entry(tag).or_insert_with(|| {
            let mut path = Path::new(self.config.clone(), child_seed(self.seed, u64::from(tag)));
            path.start(at);
            watch(&mut path, self.late_drops);
            path
        });
        let before = wakeups(path);
        let result = path.push(direction, at, packet);
        self.rewake(tag, before);
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
            let before = wakeups(path);
            // Where the discipline decides on departure it may be that nothing is due, and the wake-up moves on.
            let delivery = path.pop(direction, now);
            self.rewake(tag, before);
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    /// A path with these wake-ups was pushed or popped: its packets in both directions may have others now, as
    /// the directions of a cell share its air. What was dropped meanwhile is collected.
    fn rewake(&mut self, tag: u32, before: [Option<Instant>; 2]) {
        let Some(path) = self.paths.get_mut(&tag) else { return };
        for direction in BOTH {
            let link = path.link_mut(direction);
            self.dropped[direction as usize].extend(iter::from_fn(|| link.pop_dropped()));
        }
        let after = wakeups(path);
        for direction in BOTH {
            self.wake(direction, tag, before[direction as usize], after[direction as usize]);
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

    fn ledger(&self, direction: Direction) -> Ledger {
        let mut sum = self.closed[direction as usize];
        for path in self.paths.values() {
            sum.merge(of(path, direction));
        }
        sum
    }

    fn queue_delays(&self, direction: Direction) -> QueueDelays {
        let mut sum = self.closed_delays[direction as usize].clone();
        for delays in self.paths.values().filter_map(|path| link(path, direction).queue_delays()) {
            sum.merge(delays);
        }
        sum
    }

    fn overlooked_drops(&self, direction: Direction) -> u64 {
        let open: u64 = self.paths.values().map(|path| link(path, direction).overlooked_drops()).sum();
        self.closed_overlooked[direction as usize] + open
    }

    fn remove(&mut self, tag: u32) {
        let Some(path) = self.paths.remove(&tag) else { return };
        for direction in BOTH {
            self.wake(direction, tag, link(&path, direction).next_wakeup(), None);
            let mut ledger = *of(&path, direction);
            ledger.abandon();
            self.closed[direction as usize].merge(&ledger);
            self.closed_overlooked[direction as usize] += link(&path, direction).overlooked_drops();
            if let Some(delays) = link(&path, direction).queue_delays() {
                self.closed_delays[direction as usize].merge(delays);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rdt_driver::clock;
    use rdt_emulator::{Bitrate, Discipline, LinkConfig, Loss, Probability, WifiConfig};

    use super::*;

    fn lossy() -> PathConfig {
        LinkConfig::new(Bitrate::from_bps(8_000_000), Duration::from_millis(5))
            .loss(Loss::Bernoulli(Probability::new(0.3).unwrap()))
            .into()
    }

    /// Carries 100 packets of each tag, a millisecond apart. Gives those that came out: tag, number and when.
    fn carry(paths: &mut Paths, begin: Instant, tags: &[u32]) -> Vec<(u32, u8, Instant)> {
        for number in 0..100 {
            for (place, tag) in (0..).zip(tags) {
                let at = begin + Duration::from_millis(u64::from(number)) + Duration::from_nanos(place);
                let _ = paths.push(Direction::Forward, at, Packet::from(vec![number]).with_tag(*tag));
            }
        }
        let mut came = Vec::new();
        while let Some(wakeup) = paths.next_wakeup() {
            while let Some(delivery) = paths.pop(Direction::Forward, wakeup) {
                assert_eq!(delivery.due, wakeup);
                came.push((delivery.tag, delivery.packet[0], wakeup));
            }
        }
        came
    }

    #[test]
    fn the_path_of_a_tag_is_the_same_whoever_else_there_is() {
        let begin = clock::now();
        let mut together = Paths::from(PerTag::new(lossy(), 3));
        let both = carry(&mut together, begin, &[7, 8]);
        assert!(both.is_sorted_by_key(|packet| packet.2));
        let of = |tag| both.iter().filter(|packet| packet.0 == tag).copied().collect::<Vec<_>>();
        assert_eq!(of(7), carry(&mut Paths::from(PerTag::new(lossy(), 3)), begin, &[7]));
        let numbers = |tag| of(tag).iter().map(|packet| packet.1).collect::<Vec<_>>();
        assert_ne!(numbers(7), numbers(8));
        let mut alone = Paths::from(Path::new(lossy(), child_seed(3, 7)));
        assert_eq!(of(7), carry(&mut alone, begin, &[7]));
    }

    #[test]
    fn what_is_on_a_path_that_is_removed_is_discarded_and_told() {
        let mut paths = Paths::from(PerTag::new(LinkConfig::default().into(), 3));
        let now = clock::now();
        for tag in [1, 2, 2] {
            for direction in BOTH {
                paths.push(direction, now, Packet::from(vec![0]).with_tag(tag)).unwrap();
            }
        }
        paths.remove(2);
        paths.remove(9);
        for direction in BOTH {
            assert!(paths.pop(direction, now).is_some() && paths.pop(direction, now).is_none());
            let ledger = paths.ledger(direction);
            assert_eq!((ledger.sent, ledger.delivered, ledger.discarded), (3, 1, 2));
            assert!(ledger.balances());
        }
        assert_eq!(paths.next_wakeup(), None);
    }

    #[test]
    fn a_discipline_that_decides_on_departure_holds_up_no_other_path() {
        let codel = LinkConfig::new(Bitrate::from_bps(80_000), Duration::ZERO)
            .discipline(Discipline::DropHead)
            .loss(Loss::None);
        let mut paths = Paths::from(PerTag::new(codel.into(), 3));
        let came = carry(&mut paths, clock::now(), &[1, 2, 3]);
        assert_eq!(came.len(), 300);
        assert!(paths.ledger(Direction::Forward).balances());
    }

    #[test]
    fn a_path_whose_directions_move_each_others_wake_ups_leaves_none_behind() {
        let cell = LinkConfig::default().wifi(WifiConfig::b()).discipline(Discipline::DropHead);
        let mut paths = Paths::from(PerTag::new(cell.into(), 3));
        let mut now = clock::now();
        for tag in [1, 2] {
            for direction in BOTH.repeat(20) {
                now += Duration::from_micros(100);
                paths.push(direction, now, Packet::from(vec![0; 1_000]).with_tag(tag)).unwrap();
            }
        }
        now += Duration::from_millis(10);
        for direction in BOTH {
            while paths.pop(direction, now).is_some() {}
        }
        paths.remove(1);
        now += Duration::from_secs(1);
        for direction in BOTH {
            while paths.pop(direction, now).is_some_and(|delivery| delivery.tag == 2) {}
        }
        let Paths::PerTag(paths) = paths else { unreachable!() };
        assert_eq!(paths.ledger(Direction::Reverse).delivered + paths.closed[1].discarded, 40);
        assert!(paths.wakeups.iter().all(BTreeSet::is_empty));
    }
}
