//! The choice among queue disciplines, and the machine behind each.
//!
//! Owns the names and which discipline decides when: some when a packet comes, some when one leaves.

mod notation;

use std::time::Instant;

use crate::bitrate::Bitrate;
use crate::draw::{Draws, Stage};
use crate::packet::Ecn;
use crate::packet::Service;
use crate::queue::Signal;
use crate::queue::backlog::Backlog;
use crate::queue::codel::{CoDel, CoDelConfig};
use crate::queue::fifo::Fifo;
use crate::queue::pie::{Pie, PieConfig};
use crate::queue::red::{Red, RedConfig};

pub use notation::DisciplineError;

/// Whom a queue turns away or throws out. In words, [`FromStr`](std::str::FromStr) and
/// [`Display`](std::fmt::Display): `drop-tail`, `drop-head`, `codel:target=5ms,interval=100ms,ecn`,
/// `red:min=30kb,max=90kb,p=0.1,weight=0.002,gentle=no,ecn`,
/// `pie:target=15ms,tupdate=15ms,burst=150ms,alpha=0.125,beta=1.25,ecn`. What is left out is as the
/// standard recommends.
///
/// All of them keep the [`QueueLimit`](crate::QueueLimit) too.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Discipline {
    /// Who finds no room is turned away.
    #[default]
    DropTail,
    /// Who finds no room gets that of those who wait longest, so that their senders learn of it sooner:
    /// T. V. Lakshman, A. Neidhardt, T. J. Ott, "The Drop from Front Strategy in TCP and in TCP over ATM",
    /// INFOCOM 1996.
    DropHead,
    /// Controlled Delay, RFC 8289: some are thrown out when they should leave, while all wait too long.
    CoDel(CoDelConfig),
    /// Random Early Detection: some are turned away at random, more the longer the average queue.
    Red(RedConfig),
    /// RFC 8033: some are turned away at random, at the rate that keeps the waiting time.
    Pie(PieConfig),
}

/// The machine of a discipline other than drop-tail.
#[derive(Debug)]
pub(crate) enum Manager {
    /// Decides when a packet comes.
    Arrivals(Backlog, Early),
    /// Decides when a packet leaves.
    Departures(Fifo, Rule),
}

/// What turns packets away although there is room.
#[derive(Debug)]
pub(crate) enum Early {
    Red(Red),
    Pie(Pie),
}

/// What throws packets out that wait.
#[derive(Debug)]
pub(crate) enum Rule {
    /// Nothing does.
    DropTail,
    DropHead,
    CoDel(CoDel),
}

impl Discipline {
    /// The machine in front of a wire of this rate, or `None` for drop-tail, which needs none.
    pub(crate) fn manager(self, rate: Option<Bitrate>) -> Option<Manager> {
        let early = |early| Manager::Arrivals(Backlog::default(), early);
        let departures = |rule| Manager::Departures(Fifo::default(), rule);
        Some(match self {
            Self::DropTail => return None,
            Self::DropHead => departures(Rule::DropHead),
            Self::CoDel(config) => departures(Rule::CoDel(CoDel::new(config))),
            Self::Red(config) => early(Early::Red(Red::new(config, rate))),
            Self::Pie(config) => early(Early::Pie(Pie::new(config))),
        })
    }
}

impl Early {
    /// A packet comes at `now` and finds `backlog` bytes waiting, whether or not there is room for it.
    pub(crate) fn on_arrival(&mut self, now: Instant, backlog: u64) {
        match self {
            Self::Red(red) => red.on_arrival(now, backlog),
            // It samples the queue at times of its own.
            Self::Pie(_) => {}
        }
    }

    /// What that packet is to tell its sender, if there is room; it has these draws.
    pub(crate) fn signal(&mut self, now: Instant, backlog: u64, ecn: Ecn, draws: Draws) -> Option<Signal> {
        let draw = draws.at(Stage::EarlyDrop);
        match self {
            Self::Red(red) => red.signal(ecn, draw),
            Self::Pie(pie) => pie.signal(now, backlog, ecn, draw),
        }
    }

    /// A packet was let in and will be served so.
    pub(crate) const fn on_served(&mut self, service: Service) {
        match self {
            Self::Red(red) => red.on_served(service.end),
            Self::Pie(pie) => pie.on_served(service.start, service.end),
        }
    }
}
