//! Interface between a link and queue disciplines other than drop-tail.
//!
//! A discipline decides at one of two times, which [`Waiting`] distinguishes:
//!
//! - **On arrival** (RED, PIE). A packet's drop or due time is final when it arrives.
//! - **On departure** (drop-head, CoDel). Packets wait in a [`Fifo`] until the serialiser is free.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use crate::Ecn;
use crate::bitrate::Bitrate;
use crate::draw::{Draws, Stage};
use crate::packet::Service;
use crate::queue::{Fifo, QueuedPacket, Signal};

/// Decisions of a queue discipline. The default methods drop and mark no packet, like drop-tail.
///
/// The link itself applies the queue limit and the threshold of [`Marking`](crate::Marking).
pub(crate) trait Aqm: fmt::Debug + Send + Sync {
    /// Called when the rate of the link changes. `None`: no limit.
    fn set_rate(&mut self, _rate: Option<Bitrate>) {}

    /// Called when a packet arrives at `now`, before the queue limit is checked. `backlog` is the
    /// bytes on the wire of the waiting packets.
    fn on_arrival(&mut self, _now: Instant, _backlog: u64) {}

    /// Called when the queue limit does not admit an arriving packet. Removes a packet from the
    /// queue, which the link drops ([`DropCause::Head`](crate::DropCause::Head)). The link calls
    /// again until the arriving packet fits. `None` drops the arriving packet.
    ///
    /// Called only if the discipline decides on departure.
    fn on_full(&mut self, _queue: &mut Fifo) -> Option<QueuedPacket> {
        None
    }

    /// Decides whether a packet that the queue limit admits is dropped or marked. `None`: neither.
    fn on_enqueue(&mut self, _arrival: &Arrival) -> Option<Signal> {
        None
    }

    /// Called with the service times of an admitted packet.
    ///
    /// Called only if the discipline decides on arrival.
    fn on_scheduled(&mut self, _service: Service) {}

    /// Called when the serialiser is free at `now`. Removes the packet to send from the queue.
    /// Passes each packet that it drops before that one to `drop`.
    ///
    /// Called only if the discipline decides on departure.
    fn on_dequeue(
        &mut self,
        _now: Instant,
        queue: &mut Fifo,
        _drop: &mut dyn FnMut(QueuedPacket),
    ) -> Option<Departure> {
        queue.pop().map(|packet| Departure { packet, is_marked: false })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) now: Instant,
    /// Bytes on the wire of the packets that wait before it.
    pub(crate) backlog: u64,
    pub(crate) ecn: Ecn,
    pub(crate) draws: Draws,
}

impl Arrival {
    /// Returns the packet's draw for an early drop, uniform over all `u64` values.
    pub(crate) const fn draw(&self) -> u64 {
        self.draws.at(Stage::EarlyDrop)
    }
}

#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) packet: QueuedPacket,
    pub(crate) is_marked: bool,
}

#[derive(Debug)]
pub(crate) struct ManagedQueue {
    pub(crate) aqm: Box<dyn Aqm>,
    pub(crate) waiting: Waiting,
}

/// Packets that wait for the serialiser.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// Sizes and times of the waiting packets, if the discipline decides on arrival. The link
    /// stores the packets themselves with their due times.
    Settled(Backlog),
    /// The waiting packets, if the discipline decides on departure.
    Undecided(Fifo),
}

impl ManagedQueue {
    pub(crate) fn on_arrival(aqm: impl Aqm + 'static) -> Self {
        Self { aqm: Box::new(aqm), waiting: Waiting::Settled(Backlog::default()) }
    }

    pub(crate) fn on_departure(aqm: impl Aqm + 'static) -> Self {
        Self { aqm: Box::new(aqm), waiting: Waiting::Undecided(Fifo::default()) }
    }
}

impl Waiting {
    /// Returns the waiting bytes on the wire at `now`, which must not go back between calls.
    pub(crate) fn bytes_at(&mut self, now: Instant) -> u64 {
        match self {
            Self::Settled(backlog) => backlog.bytes_at(now),
            Self::Undecided(queue) => queue.bytes(),
        }
    }
}

/// Sizes of the admitted packets whose service has not started.
///
/// Unlike the queue limit, the backlog never includes packets on the wire
/// ([`Occupancy`](crate::Occupancy)), because no discipline can influence those.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Start of service, and size in bytes on the wire, of each packet in order of arrival.
    packets: VecDeque<(Instant, u64)>,
    /// Sum of the sizes of `packets`, in bytes on the wire.
    bytes: u64,
}

impl Backlog {
    /// Returns the waiting bytes on the wire at `now`, which must not go back between calls.
    pub(crate) fn bytes_at(&mut self, now: Instant) -> u64 {
        while let Some(&(starts, bytes)) = self.packets.front()
            && starts <= now
        {
            self.bytes -= bytes;
            self.packets.pop_front();
        }
        self.bytes
    }

    /// Adds a packet of `bytes` bytes on the wire. `starts`, the begin of its service, must not be
    /// earlier than that of the packet added before.
    pub(crate) fn push(&mut self, starts: Instant, bytes: u64) {
        self.packets.push_back((starts, bytes));
        self.bytes += bytes;
    }
}
