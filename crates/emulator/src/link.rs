//! One direction of a network path: the order of the stages, and the packets inside.
//!
//! The stages are loss, impairments, queue, serialiser and delay. Each decides in a file of its
//! own; this file passes values between them and keeps the ledger.

mod aqm;
mod delivery;
mod watch;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::config::LinkConfig;
use crate::delay::{Arrival, Delay};
use crate::draw::{Direction, Draws};
use crate::impairments::Impairments;
use crate::ledger::{DropCause, Ledger};
use crate::loss::{Loss, LossState};
use crate::mtu::Frames;
use crate::packet::{Ecn, Packet, Passage, Service};
use crate::queue::{BoundedQueue, ManagedQueue, Signal};
use crate::rate::Serialiser;
use crate::wifi::Turn;
use watch::Watch;

use delivery::charge;
pub use delivery::{Delivery, Dropped, LateDrop, MIN_PACKET_CHARGE_BYTES};

/// One direction of a path: a state machine from (time, packet) to (due time, packet).
///
/// # Contract
///
/// - [`push`](Self::push) decides whether a packet is dropped and, if not, the nanosecond at which
///   it is due. Nothing that happens later changes either.
/// - Exception: if the [`Discipline`](crate::Discipline) decides on departure (drop-head, CoDel), a
///   packet may still be dropped while it waits. That depends on later packets.
/// - [`pop`](Self::pop) only collects. Popping late or early changes no due time and frees no room
///   in the queue; it only frees memory.
/// - Exception: if the discipline decides on departure, a pop commits the link to the departures
///   that lead to the packets due by then. A later push for an earlier time than such a departure
///   enters at the time of the departure. With a delay of d, a packet that is pushed less than d
///   behind the pops is not late.
/// - Packets come out in the order of their due times; two with the same due time come out in the
///   order in which they entered. Without reordering or unordered jitter that is the order of entry
///   for all packets.
/// - The caller waits until [`next_wakeup`](Self::next_wakeup), which changes only by a push or a
///   pop. No packet is due before. If the discipline decides on departure, it may be that no packet
///   is due then either; the pop then moves the wake-up to a later time.
/// - Links that share an 802.11 cell are pushed and popped through their [`Path`](crate::Path)
///   only.
/// - Times of schedules and traces are counted for 584 years.
/// - No argument makes a method panic. A due time beyond the last instant of the platform becomes
///   that instant.
#[derive(Debug)]
pub struct Link {
    seed: u64,
    direction: Direction,
    loss: Loss,
    loss_state: LossState,
    impairments: Option<Box<Impairments>>,
    queue: BoundedQueue,
    /// The discipline and its packets. `None` for drop-tail.
    managed: Option<Box<ManagedQueue>>,
    serialiser: Serialiser,
    delay: Delay,
    /// Header bytes of each packet.
    overhead: u32,
    /// Framing bytes of each frame.
    framing: u32,
    /// Bytes, as [`charge`] counts them.
    memory_limit: u64,
    /// All packets with a known due time that are not yet popped, in the order in which they come
    /// out.
    inside: VecDeque<Delivery>,
    /// The sum of [`charge`] over all packets held.
    held_bytes: u64,
    /// Origin of the times of schedules.
    start: Option<Instant>,
    /// No packet enters earlier: the time of the last push, or of a later departure that a pop has
    /// settled. `None` before the first push.
    reached: Option<Instant>,
    ledger: Ledger,
    /// Measurements that an observer enabled.
    watch: Option<Box<Watch>>,
}

impl Link {
    /// An empty, idle link. `seed` and `direction` determine the draws of its packets.
    pub fn new(config: LinkConfig, seed: u64, direction: Direction) -> Self {
        Self {
            seed,
            direction,
            impairments: Impairments::new(&config).map(Box::new),
            loss: config.loss.in_order(),
            loss_state: LossState::default(),
            queue: BoundedQueue::new(config.queue, config.occupancy).marking(config.marking),
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

    /// Sets the origin of the times of outages, MTU and rates, unless an earlier call or push has
    /// set it.
    ///
    /// The links of a path should start together ([`Path::start`](crate::Path::start)). If the
    /// first push comes before `at`, times count from that push.
    pub fn start(&mut self, at: Instant) {
        if self.reached.is_none() {
            self.start.get_or_insert(at);
        }
    }

    /// The packet enters at `now`, or at the time of the last push if that was later.
    ///
    /// If the link drops the packet, the error returns the buffer with the cause. For packets
    /// dropped later see [`keep_dropped`](Self::keep_dropped).
    pub fn push(&mut self, now: Instant, packet: impl Into<Packet>) -> Result<(), Dropped> {
        self.push_packet(now, packet.into())
    }

    /// The next packet whose due time is not after `now`.
    pub fn pop(&mut self, now: Instant) -> Option<Delivery> {
        if self.managed.is_some() {
            self.settle(now);
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

    /// When the next packet is due, or `None` if the link is empty.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let due = self.inside.front().map(|delivery| delivery.due);
        if self.managed.is_some() { self.next_of_both(due) } else { due }
    }

    /// Counters of the packets so far.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The final counters. Packets still inside are discarded and counted as such.
    pub fn into_ledger(self) -> Ledger {
        let mut ledger = self.ledger;
        ledger.abandon();
        ledger
    }

    /// Memory charged for the packets inside, in bytes: for each its payload, but at least
    /// [`MIN_PACKET_CHARGE_BYTES`].
    pub const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Changes the memory limit, in bytes. Packets inside stay. With a limit below their memory, no
    /// packet enters until enough have been popped.
    pub const fn set_memory_limit(&mut self, bytes: u64) {
        self.memory_limit = bytes;
    }

    /// The airtime taken since the last call, if the link sends through an 802.11 cell.
    pub(crate) fn take_turn(&mut self) -> Option<Turn> {
        self.serialiser.take_turn()
    }

    /// The other direction takes this turn on the shared medium.
    pub(crate) fn on_other_turn(&mut self, turn: Turn) {
        self.serialiser.on_other_turn(turn);
    }

    /// Returns whether the link sends through an 802.11 cell, which the other direction may share.
    pub(crate) fn uses_wifi(&self) -> bool {
        self.serialiser.is_wifi()
    }

    /// The shortest delay of a packet after its service.
    pub(crate) fn least_delay(&self) -> Duration {
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

    /// The time at which a packet pushed at `now` enters.
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

    /// The frames of a packet of `len` payload bytes, or why it does not reach the queue.
    ///
    /// The loss model comes first, so that it sees the same packets with any other configuration.
    /// Fragments after the first are lost independently. The other fragments of a lost packet use
    /// no link time either.
    fn arrive(&mut self, now: Instant, draws: Draws, len: usize) -> Result<Frames, DropCause> {
        if self.loss_state.decide(&self.loss, draws) {
            return Err(DropCause::Loss);
        }
        let size = len.saturating_add(self.overhead as usize);
        let Some(impairments) = &self.impairments else {
            return Ok(Frames::whole(size).framed(self.framing));
        };
        let elapsed = self.start.map(|start| now.saturating_duration_since(start)).unwrap_or_default();
        let frames = impairments.frames(elapsed, size)?;
        let is_lost = |n| self.loss_state.decide_fragment(&self.loss, draws.of_fragment(n));
        let is_lost = (1..frames.count()).any(is_lost);
        if is_lost { Err(DropCause::Loss) } else { Ok(frames.framed(self.framing)) }
    }

    /// Offers a packet to the queue, and its second copy if it is duplicated.
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
            // A dropped copy is kept only if an observer asked for late drops.
            if let Err(Dropped { cause, packet: bytes }) = self.offer(now, draws.of_duplicate(), frames, copy)
            {
                let packet = Packet { bytes, ecn, tag };
                self.keep_drop(LateDrop { at: now, cause, packet, is_copy: true });
            }
        }
        Ok(())
    }

    /// Accepts a packet unless the limit or the memory limit drops it. With drop-tail and a rate
    /// known beforehand its times are final here.
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
        // Last, so that this cause always means that the model would have carried the packet.
        if !self.has_memory(len) {
            return Err(self.reject(DropCause::Memory, packet));
        }
        let service = self.send(now, draws, frames, packet, is_marked);
        self.ledger.on_admitted(len as u64, service.busy, self.queue.packets());
        Ok(())
    }

    /// True if an arriving packet is marked, or why the queue does not admit it.
    #[expect(
        clippy::inline_always,
        reason = "for every packet of a drop-tail link; the other callers are rare"
    )]
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

    /// Returns whether the memory limit allows one more packet of `len` payload bytes.
    const fn has_memory(&self, len: usize) -> bool {
        self.held_bytes.saturating_add(charge(len)) <= self.memory_limit
    }

    /// Serves a packet that entered at `enters`, and inserts it among the packets on their way.
    #[expect(
        clippy::inline_always,
        reason = "for every packet of a drop-tail link; the other callers are rare"
    )]
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
            watch.on_served(service.start.saturating_duration_since(enters));
        }
        let Packet { bytes: packet, ecn, tag } = packet;
        self.hold(Delivery { due, packet, tag, ecn, is_copy: self.is_copy(draws.seed), is_corrupted });
        service
    }

    /// Returns whether a packet that draws by this seed is a second copy.
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

    /// Inserts a packet in the order of due times.
    #[expect(
        clippy::inline_always,
        reason = "for every packet of a drop-tail link; the other callers are rare"
    )]
    #[inline(always)]
    fn hold(&mut self, delivery: Delivery) {
        self.held_bytes += charge(delivery.packet.len());
        if self.inside.back().is_none_or(|last| last.due <= delivery.due) {
            self.inside.push_back(delivery);
        } else {
            self.overtake(delivery);
        }
    }

    /// Inserts a packet before those that are due later. They entered last, so few have to move.
    #[cold]
    fn overtake(&mut self, delivery: Delivery) {
        let after = self.inside.partition_point(|other| other.due <= delivery.due);
        self.inside.insert(after, delivery);
    }
}

#[cfg(test)]
mod tests;
