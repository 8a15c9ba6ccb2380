//! Interface between a link and a queue discipline other than drop-tail.
//!
//! A discipline decides in one of two places, which fixes where its packets wait ([`Waiting`]):
//!
//! - **On arrival** (RED, PIE). The fate of a packet and its due time are settled when it enters.
//! - **On departure** (drop-head, CoDel). Packets wait in a [`Fifo`] until the serialiser asks for
//!   one.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use crate::draw::{Draws, Stage};
use crate::packet::{Ecn, Service};
use crate::queue::{Fifo, QueuedPacket, Signal};

/// A queue discipline other than drop-tail. The defaults are those of drop-tail: they drop and mark
/// nothing.
///
/// The link applies the queue's limit and the threshold of [`Marking`](crate::Marking) itself.
pub(crate) trait Aqm: fmt::Debug + Send + Sync {
    /// A packet arrives at `now`, whether or not there is room for it. `backlog` bytes on the wire
    /// wait.
    fn on_arrival(&mut self, now: Instant, backlog: u64) {
        let _ = (now, backlog);
    }

    /// The limit leaves no room for an arriving packet. Takes a packet to drop in its place from
    /// the queue ([`DropCause::Head`](crate::DropCause::Head)); the link calls again until there is
    /// room. `None` drops the arriving packet.
    ///
    /// Called only if the discipline decides on departure.
    fn on_full(&mut self, queue: &mut Fifo) -> Option<QueuedPacket> {
        let _ = queue;
        None
    }

    /// Drops or marks an arriving packet for which there is room.
    fn on_enqueue(&mut self, arrival: &Arrival) -> Option<Signal> {
        let _ = arrival;
        None
    }

    /// The packet was accepted and will be served at these times.
    ///
    /// Called only if the discipline decides on arrival.
    fn on_scheduled(&mut self, service: Service) {
        let _ = service;
    }

    /// The serialiser is free at `now`. Takes the packet that leaves, and hands those that it drops
    /// before it to `drop`.
    ///
    /// Called only if the discipline decides on departure.
    fn on_dequeue(
        &mut self,
        now: Instant,
        queue: &mut Fifo,
        drop: &mut dyn FnMut(QueuedPacket),
    ) -> Option<Departure> {
        let _ = (now, drop);
        queue.pop().map(|packet| Departure { packet, is_marked: false })
    }
}

/// An arriving packet for which the limit leaves room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) now: Instant,
    /// Bytes on the wire that wait ahead of it.
    pub(crate) backlog: u64,
    pub(crate) ecn: Ecn,
    pub(crate) draws: Draws,
}

impl Arrival {
    /// The draw of this packet for an early drop, uniform over all of `u64`.
    pub(crate) const fn draw(&self) -> u64 {
        self.draws.at(Stage::EarlyDrop)
    }
}

/// A packet that a discipline hands to the serialiser.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) packet: QueuedPacket,
    pub(crate) is_marked: bool,
}

/// A discipline together with the packets that wait for it.
#[derive(Debug)]
pub(crate) struct ManagedQueue {
    pub(crate) aqm: Box<dyn Aqm>,
    pub(crate) waiting: Waiting,
}

/// Packets in front of the serialiser.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// Sizes and times of packets whose fate was settled on arrival. The link holds the packets.
    Settled(Backlog),
    /// Packets whose fate is decided on departure.
    Undecided(Fifo),
}

impl ManagedQueue {
    /// A discipline that decides on arrival.
    pub(crate) fn on_arrival(aqm: impl Aqm + 'static) -> Self {
        Self { aqm: Box::new(aqm), waiting: Waiting::Settled(Backlog::default()) }
    }

    /// A discipline that decides on departure.
    pub(crate) fn on_departure(aqm: impl Aqm + 'static) -> Self {
        Self { aqm: Box::new(aqm), waiting: Waiting::Undecided(Fifo::default()) }
    }
}

impl Waiting {
    /// Bytes on the wire that wait at `now`, which never goes back.
    pub(crate) fn bytes_at(&mut self, now: Instant) -> u64 {
        match self {
            Self::Settled(backlog) => backlog.bytes_at(now),
            Self::Undecided(queue) => queue.bytes(),
        }
    }
}

/// Sizes of the accepted packets whose service has not started.
///
/// This differs from what counts against the queue's limit if packets on the wire count too
/// ([`Occupancy`](crate::Occupancy)): no discipline can shorten those.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Start of service and size in bytes on the wire, in order of arrival.
    packets: VecDeque<(Instant, u64)>,
    /// The sum of the sizes.
    bytes: u64,
}

impl Backlog {
    /// Bytes on the wire that wait at `now`, which never goes back.
    pub(crate) fn bytes_at(&mut self, now: Instant) -> u64 {
        while let Some(&(starts, bytes)) = self.packets.front()
            && starts <= now
        {
            self.bytes -= bytes;
            self.packets.pop_front();
        }
        self.bytes
    }

    /// Adds a packet of `bytes` bytes on the wire whose service begins at `starts`, no earlier than
    /// that of the packets ahead of it.
    pub(crate) fn push(&mut self, starts: Instant, bytes: u64) {
        self.packets.push_back((starts, bytes));
        self.bytes += bytes;
    }
}
