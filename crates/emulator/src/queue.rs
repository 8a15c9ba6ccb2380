//! The queue before the serialiser: its limit, ECN marking, and the queue disciplines.
//!
//! A packet stops counting towards the limit when it departs in the model, however late the call.
//!
//! # A new discipline
//!
//! Write one file with its configuration (`read` and `write` of the parameters) and its state
//! machine ([`Aqm`]: decisions). Register it in this file: `mod` and `pub use`, a variant of
//! [`Discipline`], and its line in each of the methods below it. Parser, help texts and error
//! messages are derived from these.

mod aqm;
mod codel;
mod drop_head;
mod drop_tail;
mod fifo;
mod limit;
mod marking;
mod notation;
mod pie;
mod red;

use crate::bitrate::Bitrate;
use crate::units::NotationError;
use codel::CoDel;
use drop_head::DropHead;
use drop_tail::DropTail;
use notation::Parameters;
use pie::Pie;
use red::Red;

pub(crate) use aqm::{Aqm, Arrival, Departure, ManagedQueue, Waiting};
pub use codel::CoDelConfig;
pub(crate) use drop_tail::{BoundedQueue, QUEUE_ENTRY_BYTES};
pub(crate) use fifo::{Fifo, QueuedPacket};
pub use limit::{Occupancy, QueueLimit, QueueSize};
pub(crate) use marking::Signal;
pub use marking::{Incapable, Marking};
pub use pie::PieConfig;
pub use red::RedConfig;

/// Queue discipline: which packets are dropped or marked. The [`QueueLimit`] applies to all.
///
/// The text form ([`FromStr`](std::str::FromStr), [`Display`](std::fmt::Display)) is a name, then a
/// colon and parameters: `codel:target=5ms,interval=100ms,ecn`. Omitted parameters have their
/// defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Discipline {
    /// `drop-tail`: if an arriving packet finds no room, it is dropped.
    #[default]
    DropTail,
    /// `drop-head`: if an arriving packet finds no room, the oldest queued packets are dropped.
    DropHead,
    /// Controlled Delay, RFC 8289: drops departing packets while the queueing delay stays above a
    /// target. `codel:target=5ms,interval=100ms,ecn`
    CoDel(CoDelConfig),
    /// Random Early Detection: drops arriving packets at random, with a probability that increases
    /// with the average queue. `red:min=30kb,max=90kb,p=0.1,weight=0.002,gentle=no,ecn`
    Red(RedConfig),
    /// PIE, RFC 8033: drops arriving packets at random, with a probability that a controller
    /// adjusts to hold the queueing delay at a target.
    /// `pie:target=15ms,tupdate=15ms,burst=150ms,alpha=0.125,beta=1.25,ecn`
    Pie(PieConfig),
}

impl Discipline {
    /// Returns all disciplines with their default parameters, in the order of help texts.
    fn all() -> [Self; 5] {
        [
            Self::DropTail,
            Self::DropHead,
            Self::CoDel(CoDelConfig::default()),
            Self::Red(RedConfig::default()),
            Self::Pie(PieConfig::default()),
        ]
    }

    /// Returns the name, and the names of the parameters as the end of an error sentence.
    const fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::DropTail => ("drop-tail", "none"),
            Self::DropHead => ("drop-head", "none"),
            Self::CoDel(_) => ("codel", "target, interval and ecn"),
            Self::Red(_) => ("red", "min, max, p, weight, gentle and ecn"),
            Self::Pie(_) => ("pie", "target, tupdate, burst, alpha, beta and ecn"),
        }
    }

    /// Returns this discipline changed by `parameters`.
    fn read(self, parameters: &mut Parameters<'_>) -> Result<Self, NotationError> {
        match self {
            Self::DropTail | Self::DropHead => Ok(self),
            Self::CoDel(config) => config.read(parameters).map(Self::CoDel),
            Self::Red(config) => config.read(parameters).map(Self::Red),
            Self::Pie(config) => config.read(parameters).map(Self::Pie),
        }
    }

    /// Returns the text of all parameters, which [`read`](Self::read) parses to an equal value.
    fn write(&self) -> String {
        match self {
            Self::DropTail | Self::DropHead => String::new(),
            Self::CoDel(config) => config.write(),
            Self::Red(config) => config.write(),
            Self::Pie(config) => config.write(),
        }
    }

    /// Creates the state machine of the discipline for a link of this rate. `None` for drop-tail,
    /// which the link implements without a state machine.
    pub(crate) fn build(&self, rate: Option<Bitrate>) -> Option<ManagedQueue> {
        Some(match *self {
            Self::DropTail => return None,
            Self::DropHead => ManagedQueue::on_departure(DropHead),
            Self::CoDel(config) => ManagedQueue::on_departure(CoDel::new(config)),
            Self::Red(config) => ManagedQueue::on_arrival(Red::new(config, rate)),
            Self::Pie(config) => ManagedQueue::on_arrival(Pie::new(config)),
        })
    }
}

impl ManagedQueue {
    /// Creates a drop-tail queue that stores its packets in a [`Fifo`], so that a path with a
    /// shared 802.11 medium can decide which link sends next.
    pub(crate) fn drop_tail() -> Self {
        Self::on_departure(DropTail)
    }
}
