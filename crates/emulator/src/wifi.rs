//! The medium of an 802.11 cell: a serialiser whose service times are airtimes of frames.
//!
//! `config.rs` computes the frames of a packet and their airtime. This file decides when the medium
//! is free for one direction of a path. A *turn* is the airtime that one direction uses for one
//! packet.
//!
//! # One medium, two links
//!
//! A link with RED or PIE computes the due time of a packet on arrival and never changes it. In a
//! real cell, however, the next sender is decided when the medium becomes free, so a packet of the
//! other direction that arrives later may be sent earlier. The links therefore report their turns
//! to each other ([`Turn`]) through [`Path::push`](crate::Path::push) and
//! [`Path::pop`](crate::Path::pop):
//!
//! - A turn of the other direction that begins before the end of our last scheduled turn delays our
//!   *next* packet by its length. The times of packets already scheduled do not change.
//! - Turns that begin later are the queue of the other direction. Each of our packets waits for the
//!   end of one of these turns and is then sent before the rest of that queue.
//!
//! A single acknowledgement thus waits for the frame being sent and not for the queue behind it.
//! Two full queues alternate. Both directions together use as much airtime as one queue of all
//! their packets.
//!
//! This scheme is inexact for packets that were scheduled before a packet of the other direction
//! arrived: their wait is too short by the turns in between. For random loads below saturation, the
//! mean wait of a direction is 6 % too short at the median and 20 % at worst (`wifi/tests`). A
//! queue of frames of different lengths counts as frames of the length of the last.
//!
//! If neither direction has RED or PIE, packets wait in the link until their turn, so all times are
//! exact: the path serves one packet at a time, in the direction whose turn starts first. If both
//! could start at the same time, the direction that did not have the last turn sends first.
//!
//! # More than two stations
//!
//! Paths with [`WifiConfig::shared`] can have one medium in common ([`Air`]). Packets wait in their
//! links until their turn, and [`Air`] serves one packet at a time.
//!
//! # Not modelled
//!
//! Transmission errors and rate adaptation (use [`Loss`](crate::Loss) for the residual loss, and a
//! bit rate in steps for its schedule), 802.11 fragments, power saving, beacons, and the features
//! of 802.11e and later: traffic classes, aggregation, block acknowledgements.
//!
//! A collision costs each frame its own length. In a real cell the medium is free only after the
//! longer of two frames that collide, which is 1 to 2 % of the airtime of TCP with its short ACKs.

mod air;
mod config;
mod contention;
mod parse;
mod phy;

use std::time::{Duration, Instant};

use crate::draw::{Direction, child_seed};
use crate::packet::Service;
use crate::schedule::Schedule;
use crate::time::saturating_add;
use config::Costs;
use phy::duration;

pub use air::{Air, NoStation};
pub use config::{AirtimeParts, BackOff, WifiConfig};
pub use phy::{Preamble, SlotTime, WifiRate, WifiStandard};

/// Airtime that one link uses for one or several packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    starts: Instant,
    /// Time from which the next turn may begin.
    ends: Instant,
    /// Airtime used. Less than `ends - starts` if this is several turns with gaps between them.
    takes: Duration,
}

/// State of the shared medium for one direction of a path.
#[derive(Debug, Clone)]
pub(crate) struct Medium {
    /// Costs in the cell, which may change. A frame keeps the bit rate at its turn's start.
    costs: Schedule<Costs>,
    /// Origin of the times at which the cell changes.
    origin: Option<Instant>,
    /// Seed of random back-offs. `None`: each back-off has the mean length.
    seed: Option<u64>,
    /// Number of packets served so far, the index of the next back-off draw.
    served: u64,
    /// End of our last scheduled turn, delayed by the turns of the other direction that began
    /// before it. `None` before the first packet.
    free_at: Option<Instant>,
    /// Scheduled turns of the other direction that begin after our last one, if there are any.
    other_turns: Option<Queue>,
    /// End of the last scheduled turn of the other direction. `None` before its first packet.
    other_until: Option<Instant>,
    /// Number of stations that contend for the next turn, in an [`Air`]. `None`: one or both
    /// directions of a path.
    contenders: Option<u32>,
    /// Airtime not yet reported to the other direction. `None`: all is reported.
    unreported: Option<Turn>,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    until: Instant,
    each: Duration,
}

impl Medium {
    pub(crate) fn new(cells: &Schedule<WifiConfig>, seed: u64, direction: Direction) -> Self {
        let config = cells.at(Duration::ZERO);
        let seed = match (config.back_off, direction) {
            (BackOff::Mean, _) => None,
            (BackOff::Drawn, Direction::Forward) => Some(child_seed(seed, BACK_OFF_SEED_CHILD)),
            (BackOff::Drawn, Direction::Reverse) => Some(child_seed(seed, BACK_OFF_SEED_CHILD - 1)),
        };
        Self {
            costs: cells.map(Costs::new),
            origin: None,
            seed,
            served: 0,
            free_at: None,
            other_turns: None,
            other_until: None,
            contenders: None,
            unreported: None,
        }
    }

    /// Sets the origin of the times at which the cell changes.
    pub(crate) const fn start(&mut self, at: Instant) {
        self.origin = Some(at);
    }

    /// Returns when the turn of a packet that enters at `now` would start.
    ///
    /// A turn includes the back-off after its frame, which delays the next frame. A station that
    /// has been idle for longer than a back-off therefore sends immediately (10.3.4.2).
    pub(crate) fn next_start(&self, now: Instant) -> Instant {
        let free = self.free_at.map_or(now, |free_at| free_at.max(now));
        match self.other_turns {
            Some(queue) if queue.until > free => queue.turn_ends_after(free),
            _ => free,
        }
    }

    pub(crate) fn serve(&mut self, now: Instant, bytes: usize) -> Service {
        let start = self.next_start(now);
        let origin = *self.origin.get_or_insert(start);
        let contenders = self
            .contenders
            .unwrap_or_else(|| if self.other_until.is_some_and(|until| until >= start) { 2 } else { 1 });
        let draw = self.seed.map(|seed| child_seed(seed, self.served));
        self.served += 1;
        let costs = self.costs.at(start.saturating_duration_since(origin));
        let cost = costs.of(bytes, contenders, draw);
        let (arrives, takes) = (duration(cost.arrives), duration(cost.total));
        let free_at = saturating_add(start, takes);
        self.free_at = Some(free_at);
        match &mut self.other_turns {
            Some(queue) if queue.until > start => queue.until = saturating_add(queue.until, takes),
            others => *others = None,
        }
        let reported = self.unreported.unwrap_or(Turn { starts: start, ends: start, takes: Duration::ZERO });
        self.unreported =
            Some(Turn { ends: free_at, takes: reported.takes.saturating_add(takes), ..reported });
        Service { start, end: saturating_add(start, arrives), busy: takes }
    }

    /// Returns the airtime used since the last call. `None` if there was none.
    pub(crate) const fn take_turn(&mut self) -> Option<Turn> {
        self.unreported.take()
    }

    /// Records a turn of the other direction, which may delay our next packet.
    pub(crate) fn on_other_turn(&mut self, turn: Turn) {
        self.other_until = self.other_until.max(Some(turn.ends));
        match &mut self.free_at {
            Some(free_at) if turn.starts < *free_at => *free_at = saturating_add(*free_at, turn.takes),
            _ => self.other_turns = Some(Queue { until: turn.ends, each: turn.takes }),
        }
    }

    /// Delays the next packet until `until`, the end of the turn of another station.
    pub(crate) fn wait_until(&mut self, until: Instant) {
        self.free_at = self.free_at.max(Some(until));
    }

    /// Sets the number of stations that contend for the next turn.
    pub(crate) const fn contend(&mut self, stations: u32) {
        self.contenders = Some(stations);
    }
}

impl Queue {
    /// Returns the end of the turn in progress at `at`, which must be before `until`.
    fn turn_ends_after(self, at: Instant) -> Instant {
        let left = self.until.saturating_duration_since(at).as_nanos();
        let each = self.each.as_nanos().max(1);
        // The remaining time is the rest of the turn in progress and whole turns after it.
        let rest = left - (left - 1) / each * each;
        saturating_add(at, Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX)))
    }
}

/// Child number of a path's seed for the random back-offs of the forward direction; this number
/// less 1 is for the reverse direction. Connections are children of seeds too, numbered from 0, so
/// the numbers do not collide.
const BACK_OFF_SEED_CHILD: u64 = u64::MAX - 1;

#[cfg(test)]
mod tests;
