//! Air of one 802.11 cell that several paths share, such as a path from a station to the access
//! point and one from there to another station.

use std::time::{Duration, Instant};

use super::Medium;
use crate::draw::Direction;
use crate::link::{Delivery, Dropped, Queued};
use crate::packet::Packet;
use crate::path::Path;
use crate::time::saturating_add;

/// Turns of the stations of one 802.11 cell whose links are those of several paths.
///
/// Each link is a queue of the station at its start. A station has one turn at a time, however many
/// queues it has. If several stations could send at the same time, the one whose last turn is the
/// longest ago sends first, and of its queues likewise. Saturated stations thus have equal numbers
/// of turns, as with DCF.
///
/// All paths of a cell must be pushed and popped through it. `paths` are the same in all calls.
#[derive(Debug, Default)]
pub struct Air {
    queues: Vec<Queue>,
    /// Number of turns so far.
    turns: u64,
}

/// One link of a path.
#[derive(Debug)]
struct Queue {
    path: usize,
    direction: Direction,
    station: usize,
    /// Number of its last turn. 0 before the first one.
    last: u64,
    /// End of its last turn. `None` before the first one.
    until: Option<Instant>,
}

/// Error of [`Air::add`]: packets of the path do not wait for their turns in an 802.11 cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a path that shares its air must be an 802.11 cell in both directions, and its discipline drop-tail, \
     drop-head or codel"
)]
pub struct NoStation;

impl Air {
    /// Adds the path with this index, which must be empty, between the stations with these numbers.
    ///
    /// # Errors
    /// If a direction of it is not an 802.11 cell, or has RED or PIE, which decide on arrival.
    pub fn add(&mut self, index: usize, path: &Path, stations: [usize; 2]) -> Result<(), NoStation> {
        let links = [&path.forward, &path.reverse];
        if !links.iter().all(|link| link.uses_wifi() && !link.decides_on_arrival()) {
            return Err(NoStation);
        }
        for (direction, station) in [Direction::Forward, Direction::Reverse].into_iter().zip(stations) {
            self.queues.push(Queue { path: index, direction, station, last: 0, until: None });
        }
        Ok(())
    }

    /// True if the path with this index is in the cell.
    pub fn has(&self, index: usize) -> bool {
        self.queues.iter().any(|queue| queue.path == index)
    }

    /// Pushes a packet into a link of the path with this index; see [`Path::push`].
    pub fn push(
        &mut self,
        paths: &mut [Path],
        index: usize,
        direction: Direction,
        now: Instant,
        packet: impl Into<Packet>,
    ) -> Result<(), Dropped> {
        self.settle(paths, now, Duration::ZERO);
        // If the air is free, the link sends the packet at once.
        let place = self.place(index, direction);
        self.prepare(paths, place, now);
        let result = paths[index].link_mut(direction).push(now, packet);
        self.report(paths, place);
        result
    }

    /// Removes and returns the next packet of a link that is due by `now`; see [`Path::pop`].
    pub fn pop(
        &mut self,
        paths: &mut [Path],
        index: usize,
        direction: Direction,
        now: Instant,
    ) -> Option<Delivery> {
        let delays = self.queues.iter().map(|queue| paths[queue.path].link(queue.direction).least_delay());
        let ahead = delays.min().unwrap_or_default();
        self.settle(paths, now, ahead);
        paths[index].link_mut(direction).pop(now)
    }

    /// Returns the packets queued in a link at `now`; see [`Path::queued`].
    pub fn queued(&mut self, paths: &mut [Path], index: usize, direction: Direction, now: Instant) -> Queued {
        self.settle(paths, now, Duration::ZERO);
        paths[index].link_mut(direction).queued(now)
    }

    fn place(&self, index: usize, direction: Direction) -> usize {
        let is_it = |queue: &Queue| queue.path == index && queue.direction == direction;
        self.queues.iter().position(is_it).expect("the path is in the cell")
    }

    /// Serves the packets whose turns start by `now` less `ahead`, in the order of the turns.
    fn settle(&mut self, paths: &mut [Path], now: Instant, ahead: Duration) {
        while let Some((start, place)) = self.next_turn(paths) {
            if saturating_add(start, ahead) > now {
                return;
            }
            self.prepare(paths, place, start);
            let Queue { path, direction, .. } = self.queues[place];
            paths[path].link_mut(direction).serve_next();
            self.report(paths, place);
        }
    }

    /// Returns the start and the queue of the next turn.
    fn next_turn(&self, paths: &[Path]) -> Option<(Instant, usize)> {
        let last_of = |station| {
            let own = self.queues.iter().filter(|queue| queue.station == station);
            own.map(|queue| queue.last).max()
        };
        let turns = self.queues.iter().enumerate().filter_map(|(place, queue)| {
            let start = paths[queue.path].link(queue.direction).next_service()?;
            Some((start, last_of(queue.station), queue.last, place))
        });
        turns.min().map(|(start, .., place)| (start, place))
    }

    /// Tells the medium of a queue how many stations contend for its turn at `start`: its own,
    /// those with a packet that could start by then, and those whose last turn ends then.
    fn prepare(&self, paths: &mut [Path], place: usize, start: Instant) {
        let own = self.queues[place].station;
        let contends = |queue: &&Queue| {
            let link = paths[queue.path].link(queue.direction);
            let waits = || link.next_service().is_some_and(|at| at <= start);
            queue.station != own && (queue.until >= Some(start) || waits())
        };
        let mut others: Vec<usize> = self.queues.iter().filter(contends).map(|it| it.station).collect();
        others.sort_unstable();
        others.dedup();
        let stations = 1 + u32::try_from(others.len()).unwrap_or(u32::MAX - 1);
        let Queue { path, direction, .. } = self.queues[place];
        if let Some(medium) = paths[path].link_mut(direction).medium_mut() {
            medium.contend(stations);
        }
    }

    /// Delays all other queues by the turn that a queue has used, if it has used one.
    fn report(&mut self, paths: &mut [Path], place: usize) {
        let Queue { path, direction, .. } = self.queues[place];
        let medium = paths[path].link_mut(direction).medium_mut();
        let Some(turn) = medium.and_then(Medium::take_turn) else { return };
        self.turns += 1;
        (self.queues[place].last, self.queues[place].until) = (self.turns, Some(turn.ends));
        for queue in &self.queues {
            if let Some(medium) = paths[queue.path].link_mut(queue.direction).medium_mut() {
                medium.wait_until(turn.ends);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LinkConfig;
    use crate::queue::QueueLimit;
    use crate::wifi::config::Costs;
    use crate::wifi::{WifiConfig, duration};
    use rdt_testing::{epoch, ms};

    const SECONDS: u64 = 4;
    const STATION_A: (usize, Direction) = (0, Direction::Forward);
    const STATION_B: (usize, Direction) = (1, Direction::Reverse);

    /// Returns paths from station A to the access point, and from there to station B.
    fn cell() -> (Air, [Path; 2]) {
        let link = LinkConfig::default().overhead(28).wifi(WifiConfig::a()).queue(QueueLimit::packets(50));
        let paths = [1, 2].map(|seed| Path::new(link.clone(), seed));
        let mut air = Air::default();
        for (index, path) in paths.iter().enumerate() {
            air.add(index, path, [index, index + 1]).unwrap();
        }
        (air, paths)
    }

    /// Keeps the queues of these stations full of packets for the other station. Returns the paths,
    /// and the packets that arrive at stations B and A.
    fn saturate(stations: &[(usize, Direction)]) -> ([Path; 2], [u64; 2]) {
        let (mut air, mut paths) = cell();
        let mut arrived = [0; 2];
        let start = epoch();
        for tick in 0..SECONDS * 50_000 {
            let now = start + Duration::from_micros(20 * tick);
            for &(path, direction) in stations {
                let _ = air.push(&mut paths, path, direction, now, vec![0; 1_472]);
            }
            for direction in [Direction::Forward, Direction::Reverse] {
                let order = if direction == Direction::Forward { [0, 1] } else { [1, 0] };
                while let Some(packet) = air.pop(&mut paths, order[0], direction, now) {
                    let _ = air.push(&mut paths, order[1], direction, now, packet.packet);
                }
                while air.pop(&mut paths, order[1], direction, now).is_some() {
                    arrived[direction as usize] += 1;
                }
            }
        }
        (paths, arrived)
    }

    /// Returns how many packets of 1500 bytes have turns in all if `stations` stations contend.
    fn turns(stations: u32) -> u64 {
        let turn = duration(Costs::new(WifiConfig::a()).of(1_500, stations, None).total);
        SECONDS * 1_000_000_000 / u64::try_from(turn.as_nanos()).unwrap()
    }

    fn assert_near(measured: u64, expected: u64) {
        assert!(measured.abs_diff(expected) <= expected / 100, "{measured} of {expected}");
    }

    #[test]
    fn access_point_forwards_all_of_one_station() {
        let (paths, arrived) = saturate(&[STATION_A]);
        assert_near(arrived[0], turns(2) / 2);
        assert_eq!(paths[1].forward.ledger().dropped_queue, 0);
    }

    #[test]
    fn access_point_between_two_stations_drops_half() {
        let (paths, arrived) = saturate(&[STATION_A, STATION_B]);
        let sent = [&paths[0].forward, &paths[1].reverse].map(|link| link.ledger().delivered);
        for (sent, arrived) in sent.into_iter().zip(arrived) {
            assert_near(sent, turns(3) / 3);
            assert_near(arrived, turns(3) / 6);
        }
        let busy: Duration =
            paths.iter().flat_map(|path| [&path.forward, &path.reverse]).map(|link| link.ledger().busy).sum();
        assert!(busy <= Duration::from_secs(SECONDS) + ms(1), "{busy:?} of air");
    }

    #[test]
    fn wires_and_early_drops_have_no_turns() {
        let wire = Path::new(LinkConfig::default(), 1);
        assert_eq!(Air::default().add(0, &wire, [0, 1]), Err(NoStation));
        let red = LinkConfig::default().wifi(WifiConfig::a()).discipline("pie".parse().unwrap());
        assert_eq!(Air::default().add(0, &Path::new(red, 1), [0, 1]), Err(NoStation));
    }
}
