//! One direction of a network path.
//!
//! Owns the order of the stages (loss, queue, rate, delay) and the packets inside. What each stage
//! decides is its own file's business; this one passes values between them and keeps the books. It
//! must not know what a packet contains, nor what time it is until told.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::delay::Delay;
use crate::fate::Direction;
use crate::ledger::{DropCause, Ledger};
use crate::loss::Loss;
use crate::queue::{Occupancy, Passage, Place, Queue, QueueLimit};
use crate::rate::Serialiser;
use crate::units::Bitrate;

/// The memory limit of a link unless configured: 1 GiB.
///
/// It holds over 800 ms of traffic at 10 Gbit/s, more than any plausible path, and still stops a
/// misconfigured one from taking the machine down.
pub const DEFAULT_MEMORY_LIMIT: u64 = 1 << 30;

/// The least that a packet is charged against the memory limit, in bytes.
///
/// It covers what the link itself needs to hold a packet, so that a flood of tiny packets is bounded
/// as well as a flood of large ones.
pub const MIN_PACKET_CHARGE: u64 = 64;

const _: () = assert!((size_of::<Delivery>() + size_of::<Place>()) as u64 <= MIN_PACKET_CHARGE);

/// What a link does to packets. The default is a perfect wire: no loss, no delay, no limit but on
/// memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Which packets are lost on arrival.
    pub loss: Loss,
    /// The rate at which packets are serialised, or `None` for no limit.
    pub rate: Option<Bitrate>,
    /// Propagation delay, from the end of serialisation to delivery.
    pub delay: Duration,
    /// The bound on what counts as occupancy.
    pub queue: QueueLimit,
    /// What counts as occupancy.
    pub occupancy: Occupancy,
    /// Bytes that each packet takes on the wire beyond its payload, such as headers and framing.
    pub overhead: u32,
    /// The most the link may hold in bytes; see [`Link::held_bytes`] for how they are counted.
    ///
    /// This protects the machine and is no part of the model: it applies to what is really held,
    /// packets that are due and not yet popped included.
    pub memory_limit: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            loss: Loss::None,
            rate: None,
            delay: Duration::ZERO,
            queue: QueueLimit::UNLIMITED,
            occupancy: Occupancy::Waiting,
            overhead: 0,
            memory_limit: DEFAULT_MEMORY_LIMIT,
        }
    }
}

/// A packet that has reached the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The exact time at which it arrived, which may be before the time of the [`Link::pop`].
    pub due: Instant,
    /// The packet, in the buffer that was pushed.
    pub packet: Vec<u8>,
}

/// A packet that the link did not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("packet of {} bytes dropped: {cause}", packet.len())]
pub struct Dropped {
    /// Why not.
    pub cause: DropCause,
    /// The packet, in the buffer that was pushed.
    pub packet: Vec<u8>,
}

/// One direction of a path: a state machine from (time, packet) to (due time, packet).
///
/// # Contract
///
/// - [`push`](Self::push) decides the whole fate of a packet: whether it is dropped, and if not, the
///   nanosecond at which it is due. Nothing that happens later changes either.
/// - [`pop`](Self::pop) only collects. Popping late, early or never moves no due time and frees no
///   room in the queue; it only gives back memory.
/// - Packets come out in the order in which they went in.
/// - Wait until [`next_wakeup`](Self::next_wakeup), which changes only by a push or a pop.
/// - No argument makes it panic. What would be due after the last instant that the platform can
///   represent is due at that instant.
#[derive(Debug)]
pub struct Link {
    seed: u64,
    direction: Direction,
    loss: Loss,
    queue: Queue,
    serialiser: Serialiser,
    delay: Delay,
    /// Bytes added to each packet on the wire.
    overhead: u32,
    /// Bytes, as [`charge`] counts them.
    memory_limit: u64,
    /// Everything let in and not yet popped. Due times never decrease.
    inside: VecDeque<Delivery>,
    /// The sum of [`charge`] over `inside`.
    held_bytes: u64,
    /// Time of the last push, `None` before the first.
    last_push: Option<Instant>,
    ledger: Ledger,
}

impl Link {
    /// An empty, idle link. `seed` and `direction` choose the draws of its loss model.
    pub fn new(config: LinkConfig, seed: u64, direction: Direction) -> Self {
        Self {
            seed,
            direction,
            loss: config.loss.in_order(),
            queue: Queue::new(config.queue, config.occupancy),
            serialiser: Serialiser::new(config.rate),
            delay: Delay::new(config.delay),
            overhead: config.overhead,
            memory_limit: config.memory_limit,
            inside: VecDeque::new(),
            held_bytes: 0,
            last_push: None,
            ledger: Ledger::default(),
        }
    }

    /// The packet enters at `now`, or at the time of the last push if that was later.
    ///
    /// If the link does not take it, the error hands the buffer back with the cause.
    pub fn push(&mut self, now: Instant, packet: Vec<u8>) -> Result<(), Dropped> {
        let now = self.last_push.map_or(now, |last| last.max(now));
        self.last_push = Some(now);

        let index = self.ledger.sent;
        let bytes = packet.len() as u64;
        self.ledger.on_sent(bytes);
        let result = if let Some(cause) = self.verdict(now, index, packet.len()) {
            self.ledger.on_dropped(cause, bytes);
            Err(Dropped { cause, packet })
        } else {
            self.accept(now, packet);
            Ok(())
        };
        debug_assert!(self.ledger.balances(), "{:?}", self.ledger);
        result
    }

    /// The next packet whose due time is not after `now`, with that exact time.
    pub fn pop(&mut self, now: Instant) -> Option<Delivery> {
        if self.next_wakeup()? > now {
            return None;
        }
        let delivery = self.inside.pop_front()?;
        self.held_bytes -= charge(delivery.packet.len());
        self.ledger.on_delivered(delivery.packet.len() as u64);
        debug_assert!(self.ledger.balances(), "{:?}", self.ledger);
        Some(delivery)
    }

    /// When the next packet is due, or `None` if the link is empty.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.inside.front().map(|delivery| delivery.due)
    }

    /// What became of the packets so far.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The final account. Packets still inside are discarded and counted as such.
    pub fn into_ledger(self) -> Ledger {
        let mut ledger = self.ledger;
        ledger.abandon();
        ledger
    }

    /// The memory that the packets inside are charged, in bytes: for each its payload, but at least
    /// [`MIN_PACKET_CHARGE`].
    pub const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Changes the memory limit, in bytes. Nothing inside is thrown away: a limit below what is held
    /// keeps new packets out until enough has been popped.
    pub const fn set_memory_limit(&mut self, bytes: u64) {
        self.memory_limit = bytes;
    }

    /// Why packet `index` of `len` payload bytes cannot enter at `now`, or `None` if it can.
    fn verdict(&mut self, now: Instant, index: u64, len: usize) -> Option<DropCause> {
        if self.loss.decide(self.seed, self.direction, index) {
            return Some(DropCause::Loss);
        }
        let starts = self.serialiser.next_start(now);
        if !self.queue.admits(now, starts, self.wire_size(len) as u64) {
            return Some(DropCause::QueueFull);
        }
        // Last, so that this cause always means "the model would have carried it".
        if self.held_bytes.saturating_add(charge(len)) > self.memory_limit {
            return Some(DropCause::Memory);
        }
        None
    }

    /// Takes a packet that nothing speaks against.
    ///
    /// Drop-tail and a fixed rate settle everything on entry, so the times are final here.
    fn accept(&mut self, now: Instant, packet: Vec<u8>) {
        let wire_size = self.wire_size(packet.len());
        let service = self.serialiser.serve(now, wire_size);
        let due = self.delay.arrival(service.end);
        self.queue.enter(Passage { enters: now, starts: service.start, due }, wire_size as u64);

        self.ledger.on_admitted(packet.len() as u64, service.busy, self.queue.packets());
        self.held_bytes += charge(packet.len());
        debug_assert!(self.inside.back().is_none_or(|last| last.due <= due), "due times never decrease");
        self.inside.push_back(Delivery { due, packet });
    }

    /// Bytes that a packet of `len` payload bytes takes on the wire.
    const fn wire_size(&self, len: usize) -> usize {
        len.saturating_add(self.overhead as usize)
    }
}

/// What a packet of `len` payload bytes is charged against the memory limit, in bytes.
fn charge(len: usize) -> u64 {
    (len as u64).max(MIN_PACKET_CHARGE)
}

#[cfg(test)]
mod tests;
