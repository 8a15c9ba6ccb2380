//! One direction of a network path.
//!
//! Owns the order of the stages (loss, impairments, queue, rate, delay) and the packets inside. What
//! each stage decides is its own file's business; this one passes values between them and keeps the
//! books. It must not know what a packet contains, nor what time it is until told.

use std::collections::VecDeque;
use std::time::Instant;

use crate::config::LinkConfig;
use crate::delay::{Arrival, Delay};
use crate::fate::{Direction, Draws};
use crate::impair::Impairments;
use crate::ledger::{DropCause, Ledger};
use crate::loss::{self, Loss};
use crate::medium::Turn;
use crate::packet::{Ecn, Packet};
use crate::queue::{PLACE_BYTES, Passage, Queue, Signal};
use crate::rate::Serialiser;

/// The least that a packet is charged against the memory limit, in bytes.
///
/// It covers what the link itself needs to hold a packet, so that a flood of tiny packets is bounded
/// as well as a flood of large ones. (A queue bounded in bytes needs 8 bytes more.)
pub const MIN_PACKET_CHARGE: u64 = 64;

const _: () = assert!((size_of::<Delivery>() + PLACE_BYTES) as u64 <= MIN_PACKET_CHARGE);

/// A packet that has reached the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The exact time at which it arrived, which may be before the time of the [`Link::pop`].
    pub due: Instant,
    /// The packet, in the buffer that was pushed, or in one of the link's own if it is a duplicate.
    pub packet: Vec<u8>,
    /// What was pushed with the packet; see [`Packet::tag`].
    pub tag: u32,
    /// The codepoint: that which the packet was sent with, or [`Ecn::Ce`].
    pub ecn: Ecn,
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
/// - Packets come out in the order of their due times, and of two with the same the one that went in
///   first. Unless the configuration asks for reordering, that is the order in which they went in.
/// - Times of schedules and traces are counted for 584 years.
/// - Wait until [`next_wakeup`](Self::next_wakeup), which changes only by a push or a pop.
/// - No argument makes it panic. What would be due after the last instant that the platform can
///   represent is due at that instant.
#[derive(Debug)]
pub struct Link {
    seed: u64,
    direction: Direction,
    loss: Loss,
    loss_memory: loss::Memory,
    impairments: Option<Box<Impairments>>,
    queue: Queue,
    serialiser: Serialiser,
    delay: Delay,
    /// Bytes added to each packet on the wire.
    overhead: u32,
    /// Bytes, as [`charge`] counts them.
    memory_limit: u64,
    /// Everything let in and not yet popped, in the order in which it comes out.
    inside: VecDeque<Delivery>,
    /// The sum of [`charge`] over `inside`.
    held_bytes: u64,
    /// What the times of schedules count from.
    start: Option<Instant>,
    /// Time of the last push, `None` before the first.
    last_push: Option<Instant>,
    ledger: Ledger,
}

impl Link {
    /// An empty, idle link. `seed` and `direction` choose the fates of its packets.
    pub fn new(config: LinkConfig, seed: u64, direction: Direction) -> Self {
        Self {
            seed,
            direction,
            impairments: Impairments::new(&config).map(Box::new),
            loss: config.loss.in_order(),
            loss_memory: loss::Memory::default(),
            queue: Queue::new(config.queue, config.occupancy).marking(config.marking),
            serialiser: Serialiser::new(config.rate).varying(config.varying, seed, direction),
            delay: Delay::new(config.delay).varied(config.jitter, config.reorder),
            overhead: config.overhead,
            memory_limit: config.memory_limit,
            inside: VecDeque::new(),
            held_bytes: 0,
            start: None,
            last_push: None,
            ledger: Ledger::default(),
        }
    }

    /// Lets the times of outages, MTU and rates count from `at`, unless they do already: from an earlier
    /// call, or from the first push.
    ///
    /// The links of a path should start together ([`Path::start`](crate::Path::start)). If the first push
    /// comes before `at`, they count from it.
    pub fn start(&mut self, at: Instant) {
        if self.last_push.is_none() {
            self.start.get_or_insert(at);
        }
    }

    /// The packet enters at `now`, or at the time of the last push if that was later.
    ///
    /// If the link does not take it, the error hands the buffer back with the cause.
    pub fn push(&mut self, now: Instant, packet: impl Into<Packet>) -> Result<(), Dropped> {
        self.push_packet(now, packet.into())
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

    /// The air taken since the last time this was asked, if the medium is shared.
    pub(crate) fn take_turn(&mut self) -> Option<Turn> {
        self.serialiser.take_turn()
    }

    /// The other direction takes this turn on the medium.
    pub(crate) fn hear(&mut self, turn: Turn) {
        self.serialiser.hear(turn);
    }

    fn push_packet(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let now = self.enter(now);
        let draws = Draws { seed: self.seed, direction: self.direction, index: self.ledger.sent };
        self.ledger.on_sent(packet.bytes.len() as u64);
        let result = match self.loss(now, draws, packet.bytes.len()) {
            Some(cause) => Err(self.reject(cause, packet)),
            None if self.impairments.is_some() => self.offer_impaired(now, draws, packet),
            None => self.offer(now, draws, packet),
        };
        debug_assert!(self.ledger.balances(), "{:?}", self.ledger);
        result
    }

    /// The time at which a packet pushed at `now` enters.
    fn enter(&mut self, now: Instant) -> Instant {
        let entered = if let Some(last) = self.last_push {
            last.max(now)
        } else {
            let start = self.start.map_or(now, |start| start.min(now));
            self.start = Some(start);
            self.serialiser.start(start);
            now
        };
        self.last_push = Some(entered);
        entered
    }

    /// Why a packet of `len` payload bytes does not reach the queue, or `None` if it does.
    ///
    /// The loss model comes first, so that it finds the same packets whatever else is configured.
    fn loss(&mut self, now: Instant, draws: Draws, len: usize) -> Option<DropCause> {
        if self.loss_memory.decide(&self.loss, draws) {
            return Some(DropCause::Loss);
        }
        let impairments = self.impairments.as_ref()?;
        let elapsed = self.start.map(|start| now.saturating_duration_since(start)).unwrap_or_default();
        impairments.refusal(elapsed, self.wire_size(len))
    }

    /// Offers a packet to the queue, and its second copy if it has one.
    #[cold]
    fn offer_impaired(&mut self, now: Instant, draws: Draws, packet: Packet) -> Result<(), Dropped> {
        let copy = self.impairments.as_ref().filter(|i| i.duplicates(draws)).map(|_| packet.clone());
        self.offer(now, draws, packet)?;
        if let Some(copy) = copy {
            self.ledger.on_duplicated(copy.bytes.len() as u64);
            // What becomes of it is in the ledger; nobody waits for its buffer.
            let _ = self.offer(now, draws.of_duplicate(), copy);
        }
        Ok(())
    }

    /// Takes a packet unless something speaks against it. Drop-tail and a rate known beforehand settle
    /// everything on entry, so the times are final here.
    #[inline]
    fn offer(&mut self, now: Instant, draws: Draws, mut packet: Packet) -> Result<(), Dropped> {
        let len = packet.bytes.len();
        let wire_size = self.wire_size(len);
        let starts = self.serialiser.next_start(now);
        if !self.queue.admits(now, starts, wire_size as u64) {
            return Err(self.reject(DropCause::QueueFull, packet));
        }
        let signal = self.queue.signal(now, starts, wire_size as u64, packet.ecn);
        if signal == Some(Signal::Drop) {
            return Err(self.reject(DropCause::Congestion, packet));
        }
        // Last, so that this cause always means "the model would have carried it".
        if self.held_bytes.saturating_add(charge(len)) > self.memory_limit {
            return Err(self.reject(DropCause::Memory, packet));
        }

        let service = self.serialiser.serve(now, wire_size);
        let Arrival { due, held_back } = self.delay.travel(service.end, draws);
        self.queue.enter(Passage { enters: now, starts: service.start, due }, wire_size as u64);
        self.ledger.on_admitted(len as u64, service.busy, self.queue.packets());
        if held_back {
            self.ledger.reordered += 1;
        }
        if signal.is_some() && packet.ecn != Ecn::Ce {
            self.ledger.marked += 1;
            packet.ecn = Ecn::Ce;
        }
        if let Some(impairments) = &self.impairments
            && impairments.corrupts(draws, &mut packet.bytes)
        {
            self.ledger.corrupted += 1;
        }
        self.hold(Delivery { due, packet: packet.bytes, tag: packet.tag, ecn: packet.ecn });
        Ok(())
    }

    fn reject(&mut self, cause: DropCause, packet: Packet) -> Dropped {
        self.ledger.on_dropped(cause, packet.bytes.len() as u64);
        Dropped { cause, packet: packet.bytes }
    }

    /// Puts a packet where it comes out in order of due times.
    fn hold(&mut self, delivery: Delivery) {
        self.held_bytes += charge(delivery.packet.len());
        if self.inside.back().is_none_or(|last| last.due <= delivery.due) {
            self.inside.push_back(delivery);
        } else {
            self.overtake(delivery);
        }
    }

    /// Puts a packet before those that are due later. These came last: only they have to be moved.
    #[cold]
    fn overtake(&mut self, delivery: Delivery) {
        let after = self.inside.partition_point(|other| other.due <= delivery.due);
        self.inside.insert(after, delivery);
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
