//! The air of an 802.11 cell as a serialiser: what takes time is not the bytes but the sequence of frames.
//!
//! Owns when the air is free for one direction of a path, and what it knows of the other one, with which it
//! shares that air. Which frames carry a packet, and for how long, is said in `wifi/config.rs`.
//!
//! # One air, two links
//!
//! A link settles the fate of a packet when it arrives, so no due time ever moves; but who sends next in a
//! cell is decided when the air becomes free, and a packet that comes later the other way may be ahead of
//! one that is due already. The two links of a path therefore take turns like this. Each tells the other
//! of the air it takes ([`Turn`], passed on by [`Path::push`](crate::Path::push) and
//! [`Path::pop`](crate::Path::pop)):
//!
//! - A turn that begins before our last settled one has ended pushes our *next* packet back by its length.
//!   Those already settled keep their times, and we are in debt by as much.
//! - Turns that begin later are the other's queue. Each of our packets waits until one of them is over,
//!   then goes, and the rest of that queue is behind it.
//!
//! So a lone acknowledgement waits for the frame that is on the air and not for the queue behind it, two
//! full queues alternate, and both together take the air that one queue for both would take. What is not
//! exact is the wait of packets that were settled before the other direction came: it is too short by the
//! turns that pass meanwhile. Over random loads below saturation, the mean wait of a direction is 6 % below
//! that of turns decided when the air is free, at the median, and 20 % at worst; `wifi/tests` compares
//! them. A queue of frames of different lengths is taken for one of frames as long as its last.
//!
//! Where the [`Discipline`](crate::Discipline) of both links has packets wait for the decision, or that of one link
//! and the other is drop-tail, whose packets then wait too, it is exact: then the
//! path serves one packet at a time, in the direction whose turn starts first, and of two at one time not in the one
//! that had the air last.
//!
//! # What is left out
//!
//! Errors on the air and the rate control that follows them (a link has a [`Loss`](crate::Loss) for what
//! remains of them), fragments of 802.11, power saving, beacons, and everything since 802.11e: several
//! classes of traffic, aggregation, block acknowledgements.

mod config;
mod contention;
mod parse;
mod phy;

use std::time::{Duration, Instant};

use crate::draw::{Direction, child_seed};
use crate::packet::Service;
use crate::time::saturating_add;
use config::{Company, Costs};
use phy::duration;

pub use config::{BackOff, WifiConfig};
pub use parse::WifiError;
pub use phy::{Preamble, SlotTime, WifiRate, WifiStandard};

/// A stretch of air that one link takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    starts: Instant,
    /// The next turn may begin.
    ends: Instant,
    /// Its length: less than `ends - starts` if it is several with gaps between.
    takes: Duration,
}

/// One direction's view of the air.
#[derive(Debug, Clone)]
pub(crate) struct Air {
    costs: Costs,
    /// The seed of drawn back-offs, if they are drawn.
    seed: Option<u64>,
    /// How many packets were served.
    served: u64,
    /// When the last settled turn ends, and what the other direction took meanwhile.
    free_at: Option<Instant>,
    /// Turns of the other direction that begin after ours.
    others: Option<Queue>,
    /// Until when the other direction was heard to send.
    heard_until: Option<Instant>,
    /// What the other direction was not told of yet.
    untold: Option<Turn>,
}

/// Turns one after the other.
#[derive(Debug, Clone, Copy)]
struct Queue {
    /// When the last of them ends.
    until: Instant,
    /// The length of each.
    each: Duration,
}

impl Air {
    pub(crate) fn new(config: WifiConfig, seed: u64, direction: Direction) -> Self {
        let seed = match (config.back_off, direction) {
            (BackOff::Mean, _) => None,
            (BackOff::Drawn, Direction::Forward) => Some(child_seed(seed, BACK_OFF_SEED_CHILD)),
            (BackOff::Drawn, Direction::Reverse) => Some(child_seed(seed, BACK_OFF_SEED_CHILD - 1)),
        };
        Self {
            costs: Costs::new(config),
            seed,
            served: 0,
            free_at: None,
            others: None,
            heard_until: None,
            untold: None,
        }
    }

    /// When the turn of a packet that enters at `now` would start.
    ///
    /// A station that has been quiet for longer than a back-off sends at once (10.3.4.2): the wait comes
    /// after a frame, for the next one.
    pub(crate) fn next_start(&self, now: Instant) -> Instant {
        let free = self.free_at.map_or(now, |free_at| free_at.max(now));
        match self.others {
            Some(queue) if queue.until > free => queue.turn_ends_after(free),
            _ => free,
        }
    }

    /// Takes a packet of `bytes` bytes that enters at `now`.
    pub(crate) fn serve(&mut self, now: Instant, bytes: usize) -> Service {
        let start = self.next_start(now);
        let company = match self.heard_until {
            Some(heard_until) if heard_until >= start => Company::BothWays,
            _ => Company::Alone,
        };
        let draw = self.seed.map(|seed| child_seed(seed, self.served));
        self.served += 1;
        let cost = self.costs.of(bytes, company, draw);
        let (arrives, takes) = (duration(cost.arrives), duration(cost.total));
        let free_at = saturating_add(start, takes);
        self.free_at = Some(free_at);
        match &mut self.others {
            Some(queue) if queue.until > start => queue.until = saturating_add(queue.until, takes),
            others => *others = None,
        }
        let told = self.untold.unwrap_or(Turn { starts: start, ends: start, takes: Duration::ZERO });
        self.untold = Some(Turn { ends: free_at, takes: told.takes.saturating_add(takes), ..told });
        Service { start, end: saturating_add(start, arrives), busy: takes }
    }

    /// The air taken since the last time this was asked.
    pub(crate) const fn take_turn(&mut self) -> Option<Turn> {
        self.untold.take()
    }

    /// The other direction takes this turn.
    pub(crate) fn hear(&mut self, turn: Turn) {
        self.heard_until = self.heard_until.max(Some(turn.ends));
        match &mut self.free_at {
            Some(free_at) if turn.starts < *free_at => *free_at = saturating_add(*free_at, turn.takes),
            _ => self.others = Some(Queue { until: turn.ends, each: turn.takes }),
        }
    }
}

impl Queue {
    /// The end of the turn that is on at a time before the last one ends, or that begins then.
    fn turn_ends_after(self, at: Instant) -> Instant {
        let left = self.until.saturating_duration_since(at).as_nanos();
        let each = self.each.as_nanos().max(1);
        // What is left is whole turns and the rest of the one that is on. All fit 64 bits of a Duration.
        let rest = left - (left - 1) / each * each;
        saturating_add(at, Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX)))
    }
}

/// Which child of a path's seed draws back-offs in the forward direction; the one below does in the other. Far above any count of
/// connections, which are children of seeds too, and below the one for duplicates.
const BACK_OFF_SEED_CHILD: u64 = u64::MAX - 1;

#[cfg(test)]
mod tests;
