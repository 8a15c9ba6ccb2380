//! The medium of an 802.11 cell: a serialiser whose time goes to the sequence of frames rather than
//! to bytes.
//!
//! `config.rs` computes the frames of a packet and their airtime. This file decides when the medium
//! is free for one direction of a path, given the turns of the other.
//!
//! # One medium, two links
//!
//! A link settles the fate of a packet on arrival, and no due time moves afterwards. In a cell,
//! however, the next sender is decided when the medium becomes free: a packet of the other
//! direction that arrives later may be sent earlier. The links therefore report their turns to each
//! other ([`Turn`], passed on by [`Path::push`](crate::Path::push) and
//! [`Path::pop`](crate::Path::pop)):
//!
//! - A turn of the other direction that begins before the end of our last settled one delays our
//!   *next* packet by its length. Packets already settled keep their times.
//! - Turns that begin later are the queue of the other direction. Each of our packets waits until
//!   one of them is over and then goes; the rest of that queue follows.
//!
//! A lone acknowledgement thus waits for the frame on the air and not for the queue behind it. Two
//! full queues alternate. Both directions together take the airtime that one queue for both would
//! take.
//!
//! Not exact is the wait of packets that were settled before the other direction arrived: it is too
//! short by the turns that pass meanwhile. Over random loads below saturation, the mean wait of a
//! direction is 6 % below the exact one at the median and 20 % at worst; `wifi/tests` compares
//! them. A queue of frames of different lengths counts as frames of the length of the last.
//!
//! If neither direction has RED or PIE, packets wait for the decision and the times are exact: the
//! path serves one packet at a time, in the direction whose turn starts first. If both could start
//! at the same time, the direction that did not send last goes first.
//!
//! # Not modelled
//!
//! Transmission errors and the rate control that follows them (use [`Loss`](crate::Loss) for the
//! residual loss), 802.11 fragments, power saving, beacons, and everything since 802.11e: traffic
//! classes, aggregation, block acknowledgements.

mod config;
mod contention;
mod parse;
mod phy;

use std::time::{Duration, Instant};

use crate::draw::{Direction, child_seed};
use crate::packet::Service;
use crate::time::saturating_add;
use config::{Contenders, Costs};
use phy::duration;

pub use config::{BackOff, WifiConfig};
pub use parse::WifiError;
pub use phy::{Preamble, SlotTime, WifiRate, WifiStandard};

/// Airtime that one link takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    starts: Instant,
    /// The next turn may begin.
    ends: Instant,
    /// Airtime: less than `ends - starts` if these are several turns with gaps between.
    takes: Duration,
}

/// The shared medium as one direction sees it.
#[derive(Debug, Clone)]
pub(crate) struct Medium {
    costs: Costs,
    /// The seed of back-offs, if they are drawn.
    seed: Option<u64>,
    /// Packets served.
    served: u64,
    /// End of the last settled turn, delayed by the turns that the other direction took meanwhile.
    free_at: Option<Instant>,
    /// Turns of the other direction that begin after ours.
    other_turns: Option<Queue>,
    /// End of the last known turn of the other direction.
    other_until: Option<Instant>,
    /// Airtime not yet reported to the other direction.
    unreported: Option<Turn>,
}

/// Consecutive turns.
#[derive(Debug, Clone, Copy)]
struct Queue {
    /// End of the last turn.
    until: Instant,
    /// Length of each turn.
    each: Duration,
}

impl Medium {
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
            other_turns: None,
            other_until: None,
            unreported: None,
        }
    }

    /// When the turn of a packet that enters at `now` would start.
    ///
    /// A station that has been idle for longer than a back-off sends at once (10.3.4.2): the
    /// back-off follows a frame and delays the next one.
    pub(crate) fn next_start(&self, now: Instant) -> Instant {
        let free = self.free_at.map_or(now, |free_at| free_at.max(now));
        match self.other_turns {
            Some(queue) if queue.until > free => queue.turn_ends_after(free),
            _ => free,
        }
    }

    /// Serves a packet of `bytes` bytes that enters at `now`.
    pub(crate) fn serve(&mut self, now: Instant, bytes: usize) -> Service {
        let start = self.next_start(now);
        let contenders = match self.other_until {
            Some(other_until) if other_until >= start => Contenders::BothWays,
            _ => Contenders::OneWay,
        };
        let draw = self.seed.map(|seed| child_seed(seed, self.served));
        self.served += 1;
        let cost = self.costs.of(bytes, contenders, draw);
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

    /// The airtime taken since the last call.
    pub(crate) const fn take_turn(&mut self) -> Option<Turn> {
        self.unreported.take()
    }

    /// The other direction takes this turn.
    pub(crate) fn on_other_turn(&mut self, turn: Turn) {
        self.other_until = self.other_until.max(Some(turn.ends));
        match &mut self.free_at {
            Some(free_at) if turn.starts < *free_at => *free_at = saturating_add(*free_at, turn.takes),
            _ => self.other_turns = Some(Queue { until: turn.ends, each: turn.takes }),
        }
    }
}

impl Queue {
    /// The end of the turn in progress at a time before the last one ends, or of the one that
    /// begins then.
    fn turn_ends_after(self, at: Instant) -> Instant {
        let left = self.until.saturating_duration_since(at).as_nanos();
        let each = self.each.as_nanos().max(1);
        // The rest is whole turns and the remainder of the one in progress. Both fit in 64 bits.
        let rest = left - (left - 1) / each * each;
        saturating_add(at, Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX)))
    }
}

/// The child of a path's seed that draws back-offs in the forward direction; the one below draws in
/// the reverse direction. Connections are children of seeds too, with numbers far below.
const BACK_OFF_SEED_CHILD: u64 = u64::MAX - 1;

#[cfg(test)]
mod tests;
