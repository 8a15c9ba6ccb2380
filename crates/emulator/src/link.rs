//! One direction of a network path: runs the stages in order and stores the packets inside.
//!
//! The stages are loss, impairments, queue, serialiser and delay. Each has its own file; this file
//! passes values between them and updates the ledger.

#![expect(clippy::inline_always, reason = "for every packet of a drop-tail link; the other callers are rare")]

mod aqm;
mod change;
mod delivery;
mod watch;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Ecn;
use crate::config::LinkConfig;
use crate::delay::{Arrival, Delay};
use crate::draw::{Direction, Draws};
use crate::impairments::Impairments;
use crate::ledger::{DropCause, Ledger};
use crate::loss::{Loss, LossState};
use crate::mtu::Frames;
use crate::packet::{Packet, Passage, Service};
use crate::queue::{BoundedQueue, Discipline, ManagedQueue, Signal};
use crate::rate::Serialiser;
use crate::wifi::Medium;
use watch::Watch;

pub use change::ChangeError;
use delivery::charge;
pub use watch::{BusyPeriod, Queued};

pub use delivery::{Delivery, Dropped, LateDrop, MIN_PACKET_CHARGE_BYTES};

/// One direction of a path: a state machine from (time, packet) to (due time, packet).
///
/// # Contract
///
/// - [`push`](Self::push) decides whether a packet is dropped and, if not, the nanosecond at which
///   it is due. Later calls change neither.
/// - Exception: if the [`Discipline`](crate::Discipline) decides on departure (drop-head, CoDel),
///   later packets determine whether a waiting packet is dropped and when it is due.
/// - [`pop`](Self::pop) only removes packets that are due. When it is called changes no due time
///   and no place in the queue; it only frees memory.
/// - Exception: if the discipline decides on departure, a pop at time t performs the departures
///   from the queue up to t - d, where d is the shortest delay. A packet that is pushed afterwards
///   with an earlier time enters at the time of the last departure. Pushes with times after t - d
///   are unaffected.
/// - Packets are popped in the order of their due times, and packets with equal due times in the
///   order in which they entered. Without reordering and unordered jitter all packets are popped in
///   the order in which they entered.
/// - The caller pops again at [`next_wakeup`](Self::next_wakeup), which only a push or a pop
///   changes. No packet is due earlier. If the discipline decides on departure, a pop at that time
///   may return none and set a later wake-up.
/// - [`change`](Self::change) applies to packets that are pushed after it.
/// - Links that share an 802.11 cell must be pushed and popped through their [`Path`](crate::Path).
/// - Schedules and traces cover the first 584 years after the start.
/// - No argument causes a panic. Due times saturate at the platform's last `Instant`.
#[derive(Debug)]
pub struct Link {
    seed: u64,
    direction: Direction,
    loss: Loss,
    loss_state: LossState,
    impairments: Option<Box<Impairments>>,
    queue: BoundedQueue,
    discipline: Discipline,
    /// State of the discipline with its waiting packets. `None` for drop-tail.
    managed: Option<Box<ManagedQueue>>,
    serialiser: Serialiser,
    delay: Delay,
    overhead: u32,
    framing: u32,
    /// Limit on `held_bytes`.
    memory_limit: u64,
    /// Packets whose due time is known and that are not yet popped, in the order of due times.
    inside: VecDeque<Delivery>,
    /// Sum of [`charge`] over all packets inside the link, in bytes.
    held_bytes: u64,
    /// Origin of loss, outage, MTU and rate times. `None` before the start and the first push.
    start: Option<Instant>,
    /// Earliest time at which the next packet can enter: that of the last push, or of a later
    /// departure from the queue. `None` before the first push.
    reached: Option<Instant>,
    ledger: Ledger,
    /// Optional measurements; `None` if the caller enabled none.
    watch: Option<Box<Watch>>,
}

impl Link {
    /// Creates an empty link. `seed` and `direction` determine the random draws of its packets.
    pub fn new(config: LinkConfig, seed: u64, direction: Direction) -> Self {
        Self {
            seed,
            direction,
            impairments: Impairments::new(&config).map(Box::new),
            loss: config.loss.in_order(),
            loss_state: LossState::default(),
            queue: BoundedQueue::new(config.queue, config.occupancy).marking(config.marking),
            discipline: config.discipline,
            managed: config.discipline.build(config.rate).map(Box::new),
            serialiser: Serialiser::new(config.rate).varying(config.varying, seed, direction),
            delay: Delay::new(config.delay).varied(config.jitter, config.reorder),
            overhead: config.overhead,
            framing: config.framing,
            memory_limit: config.memory_limit,
            inside: VecDeque::new(),
            held_bytes: 0,
            start: None,
            reached: None,
            ledger: Ledger::default(),
            watch: None,
        }
    }

    /// Sets the origin of loss, outage, MTU and rate times. Has no effect after the first call or
    /// push.
    ///
    /// Both links of a path should start at the same time ([`Path::start`](crate::Path::start)). If
    /// the first push has an earlier time than `at`, its time becomes the origin.
    pub fn start(&mut self, at: Instant) {
        if self.reached.is_none() {
            self.start.get_or_insert(at);
        }
    }

    /// Inserts a packet that arrives at `now`, or at the time of the last push if `now` is earlier.
    ///
    /// # Errors
    ///
    /// If the link drops the packet on arrival, the error has the cause and the packet's buffer.
    /// For packets dropped later see [`keep_dropped`](Self::keep_dropped).
    pub fn push(&mut self, now: Instant, packet: impl Into<Packet>) -> Result<(), Dropped> {
        self.push_packet(now, packet.into())
    }

    /// Removes and returns the next packet whose due time is not after `now`.
    #[inline]
    pub fn pop(&mut self, now: Instant) -> Option<Delivery> {
        if self.managed.is_some() {
            self.settle(now, self.delay.least());
        }
        if self.inside.front()?.due > now {
            return None;
        }
        let delivery = self.inside.pop_front()?;
        self.held_bytes -= charge(delivery.packet.len());
        self.ledger.on_delivered(delivery.packet.len() as u64);
        debug_assert!(self.ledger.balances(), "{:?}", self.ledger);
        Some(delivery)
    }

    /// Returns when to pop again: no packet is due earlier. `None` if the link is empty.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let due = self.inside.front().map(|delivery| delivery.due);
        if self.managed.is_some() { self.next_of_both(due) } else { due }
    }

    /// Returns the counters of the link's packets so far.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Discards the link and returns its final counters. Packets still inside count as discarded.
    pub fn into_ledger(self) -> Ledger {
        let mut ledger = self.ledger;
        ledger.abandon();
        ledger
    }

    /// Returns the memory charged for the packets inside the link, in bytes. Each packet is charged
    /// its payload bytes, but at least [`MIN_PACKET_CHARGE_BYTES`].
    pub const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Sets the memory limit, in bytes. It drops no packet inside the link. While the packets
    /// inside exceed the limit, the link drops arriving packets.
    pub const fn set_memory_limit(&mut self, bytes: u64) {
        self.memory_limit = bytes;
    }

    /// Returns the medium of an 802.11 cell. `None` for other links.
    pub(crate) fn medium_mut(&mut self) -> Option<&mut Medium> {
        self.serialiser.medium_mut()
    }

    pub(crate) fn uses_wifi(&self) -> bool {
        self.serialiser.is_wifi()
    }

    /// Returns the shortest delay that a packet can have after its serialisation.
    pub fn least_delay(&self) -> Duration {
        self.delay.least()
    }

    fn push_packet(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let now = self.enter(now);
        let draws = Draws { seed: self.seed, direction: self.direction, index: self.ledger.sent };
        self.ledger.on_sent(packet.bytes.len() as u64);
        let result = match self.arrive(now, draws, packet.bytes.len()) {
            Err(cause) => Err(self.reject(cause, packet)),
            Ok(frames) if self.impairments.is_some() => self.offer_impaired(now, draws, frames, packet),
            Ok(frames) => self.offer(now, draws, frames, packet),
        };
        debug_assert!(self.ledger.balances(), "{:?}", self.ledger);
        result
    }

    /// Returns the time at which a packet pushed at `now` enters. The first one may set the origin.
    fn enter(&mut self, now: Instant) -> Instant {
        let entered = if let Some(reached) = self.reached {
            reached.max(now)
        } else {
            let start = self.start.map_or(now, |start| start.min(now));
            self.start = Some(start);
            self.serialiser.start(start);
            now
        };
        self.reached = Some(entered);
        entered
    }

    /// Returns the frames of a packet of `len` bytes, or why it is dropped before the queue.
    ///
    /// The loss model comes first, so that its decisions depend on no other effect. A packet is
    /// lost if any of its fragments is lost. Fragments of a lost packet use no link time.
    fn arrive(&mut self, now: Instant, draws: Draws, len: usize) -> Result<Frames, DropCause> {
        let start = self.start;
        // Computed only for links with a schedule, an outage or an MTU.
        let elapsed = || start.map(|start| now.saturating_duration_since(start)).unwrap_or_default();
        if self.loss_state.decide(&self.loss, draws, elapsed) {
            return Err(DropCause::Loss);
        }
        let size = len.saturating_add(self.overhead as usize);
        let Some(impairments) = &self.impairments else {
            return Ok(Frames::whole(size).framed(self.framing));
        };
        let frames = impairments.frames(elapsed(), size)?;
        let is_lost = |n| self.loss_state.decide_fragment(&self.loss, draws.of_fragment(n), elapsed);
        let is_lost = (1..frames.count()).any(is_lost);
        if is_lost { Err(DropCause::Loss) } else { Ok(frames.framed(self.framing)) }
    }

    #[cold]
    fn offer_impaired(
        &mut self,
        now: Instant,
        draws: Draws,
        frames: Frames,
        packet: Packet,
    ) -> Result<(), Dropped> {
        let copy = self.impairments.as_ref().filter(|i| i.duplicates(draws)).map(|_| packet.clone());
        self.offer(now, draws, frames, packet)?;
        if let Some(copy) = copy {
            self.ledger.on_duplicated(copy.bytes.len() as u64);
            let (ecn, tag) = (copy.ecn, copy.tag);
            // The push has succeeded, so a dropped copy can be reported as a late drop only.
            if let Err(Dropped { cause, packet: bytes }) = self.offer(now, draws.of_duplicate(), frames, copy)
            {
                let packet = Packet { bytes, ecn, tag };
                self.keep_drop(LateDrop { at: now, cause, packet, is_copy: true });
            }
        }
        Ok(())
    }

    /// Admits a packet unless the queue limit or the memory limit drops it. With drop-tail, its
    /// times at the serialiser and its due time are final after this call.
    #[inline]
    fn offer(&mut self, now: Instant, draws: Draws, frames: Frames, packet: Packet) -> Result<(), Dropped> {
        if let Some(managed) = self.managed.take() {
            return self.offer_managed(managed, now, draws, frames, packet);
        }
        let len = packet.bytes.len();
        let is_marked = match self.admission(now, frames, packet.ecn) {
            Ok(is_marked) => is_marked,
            Err(cause) => return Err(self.reject(cause, packet)),
        };
        // Last, so that `Memory` counts only packets that the model would have admitted.
        if !self.has_memory(len) {
            return Err(self.reject(DropCause::Memory, packet));
        }
        let service = self.send(now, draws, frames, packet, is_marked);
        self.ledger.on_admitted(len as u64, service.busy, self.queue.packets());
        Ok(())
    }

    /// Returns whether an arriving packet gets a CE mark, or the cause if the queue drops it.
    #[inline(always)]
    fn admission(&mut self, now: Instant, frames: Frames, ecn: Ecn) -> Result<bool, DropCause> {
        let wire_size = frames.bytes() as u64;
        let starts = self.serialiser.next_start(now);
        if !self.queue.admits(now, starts, wire_size) {
            return Err(DropCause::QueueFull);
        }
        match self.queue.signal(now, starts, wire_size, ecn) {
            Some(Signal::Drop) => Err(DropCause::Congestion),
            signal => Ok(signal.is_some()),
        }
    }

    const fn has_memory(&self, len: usize) -> bool {
        self.held_bytes.saturating_add(charge(len)) <= self.memory_limit
    }

    /// Serialises a packet that entered at `enters`, and stores it until its due time.
    #[inline(always)]
    fn send(
        &mut self,
        enters: Instant,
        draws: Draws,
        frames: Frames,
        mut packet: Packet,
        is_marked: bool,
    ) -> Service {
        let service = self.serialiser.serve_all(enters, frames);
        let Arrival { due, held_back } = self.delay.travel(service.end, draws);
        self.queue.enter(Passage { enters, starts: service.start, due }, frames.bytes() as u64);
        if held_back {
            self.ledger.reordered += 1;
        }
        if frames.count() > 1 {
            self.ledger.on_fragmented(frames.count());
        }
        if is_marked {
            self.mark(&mut packet);
        }
        let is_corrupted = self.impairments.as_ref().is_some_and(|it| it.corrupts(draws, &mut packet.bytes));
        if is_corrupted {
            self.ledger.corrupted += 1;
        }
        if let Some(watch) = &mut self.watch {
            watch.on_served(enters, service);
        }
        let Packet { bytes: packet, ecn, tag } = packet;
        self.hold(Delivery { due, packet, tag, ecn, is_copy: self.is_copy(draws.seed), is_corrupted });
        service
    }

    /// Returns whether a packet whose draws use this seed is a second copy.
    const fn is_copy(&self, seed: u64) -> bool {
        seed != self.seed
    }

    fn mark(&mut self, packet: &mut Packet) {
        if packet.ecn != Ecn::Ce {
            self.ledger.marked += 1;
            packet.ecn = Ecn::Ce;
        }
    }

    fn reject(&mut self, cause: DropCause, packet: Packet) -> Dropped {
        self.ledger.on_dropped(cause, packet.bytes.len() as u64);
        Dropped { cause, packet: packet.bytes }
    }

    #[inline(always)]
    fn hold(&mut self, delivery: Delivery) {
        self.held_bytes += charge(delivery.packet.len());
        if self.inside.back().is_none_or(|last| last.due <= delivery.due) {
            self.inside.push_back(delivery);
        } else {
            self.overtake(delivery);
        }
    }

    /// Inserts a packet before packets that are due later. Few of them have to move.
    #[cold]
    fn overtake(&mut self, delivery: Delivery) {
        let after = self.inside.partition_point(|other| other.due <= delivery.due);
        self.inside.insert(after, delivery);
    }
}

#[cfg(test)]
mod tests;
