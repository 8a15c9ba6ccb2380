//! The stages in order where the queue is not drop-tail.
//!
//! Owns what [`Link::offer`] is for drop-tail. A discipline that decides on arrival settles a packet's
//! whole fate there too. One that decides on departure has packets wait in its fifo, and they are served
//! by model time: before a packet enters, everything leaves that leaves by then, each at its own time.

use std::time::{Duration, Instant};

use super::{Dropped, LateDrop, Link, charge};
use crate::draw::Draws;
use crate::ledger::DropCause;
use crate::mtu::Frames;
use crate::packet::Packet;
use crate::queue::{Backlog, Departure, Early, Fifo, Manager, QueuedPacket, Rule, Signal};
use crate::time::saturating_add;

impl Link {
    /// [`Link::offer`] for a queue that is not drop-tail. It puts the manager back where it was.
    #[cold]
    pub(super) fn offer_managed(
        &mut self,
        mut manager: Box<Manager>,
        now: Instant,
        draws: Draws,
        frames: Frames,
        packet: Packet,
    ) -> Result<(), Dropped> {
        let result = match &mut *manager {
            Manager::Arrivals(backlog, early) => self.offer_early(backlog, early, now, draws, frames, packet),
            Manager::Departures(fifo, rule) => self.offer_waiting(fifo, rule, now, draws, frames, packet),
        };
        self.manager = Some(manager);
        result
    }

    /// Lets everything leave that may be due by `now`.
    #[cold]
    pub(super) fn settle(&mut self, now: Instant) {
        let Some(mut manager) = self.manager.take() else { return };
        if let Manager::Departures(fifo, rule) = &mut *manager {
            self.serve(fifo, rule, now, self.delay.least());
        }
        self.manager = Some(manager);
        debug_assert!(self.ledger.balances(), "{:?}", self.ledger);
    }

    /// The earlier of `due`, at which the first is due that is on its way, and of the first time at which
    /// one can be that waits.
    #[cold]
    pub(super) fn next_of_both(&self, due: Option<Instant>) -> Option<Instant> {
        match self.manager.as_deref() {
            Some(Manager::Departures(fifo, _)) if due.is_none() || !self.delay.keeps_order() => {
                due.into_iter().chain(self.next_departure(fifo)).min()
            }
            // Who waits is due after those who left.
            _ => due,
        }
    }

    /// Takes a packet unless something speaks against it, chance included.
    fn offer_early(
        &mut self,
        backlog: &mut Backlog,
        early: &mut Early,
        now: Instant,
        draws: Draws,
        frames: Frames,
        packet: Packet,
    ) -> Result<(), Dropped> {
        let len = packet.bytes.len();
        early.on_arrival(now, backlog.bytes_at(now));
        let mut is_marked = match self.admission(now, frames, packet.ecn) {
            Ok(is_marked) => is_marked,
            Err(cause) => return Err(self.reject(cause, packet)),
        };
        match early.signal(now, backlog.bytes_at(now), packet.ecn, draws) {
            Some(Signal::Drop) => return Err(self.reject(DropCause::Aqm, packet)),
            Some(Signal::Mark) => is_marked = true,
            None => {}
        }
        if !self.has_memory(len) {
            return Err(self.reject(DropCause::Memory, packet));
        }
        let service = self.send(now, draws, frames, packet, is_marked);
        backlog.enter(service.start, frames.bytes() as u64);
        early.on_served(service);
        self.ledger.on_admitted(len as u64, service.busy, self.queue.packets());
        Ok(())
    }

    /// Lets a packet wait unless something speaks against it. If the serialiser is idle it does not wait
    /// for long.
    fn offer_waiting(
        &mut self,
        fifo: &mut Fifo,
        rule: &mut Rule,
        now: Instant,
        draws: Draws,
        frames: Frames,
        mut packet: Packet,
    ) -> Result<(), Dropped> {
        let len = packet.bytes.len();
        self.serve(fifo, rule, now, Duration::ZERO);
        if matches!(rule, Rule::DropHead) {
            self.make_room(fifo, now, frames);
        }
        let is_marked = match self.admission(now, frames, packet.ecn) {
            Ok(is_marked) => is_marked,
            Err(cause) => return Err(self.reject(cause, packet)),
        };
        if !self.has_memory(len) {
            return Err(self.reject(DropCause::Memory, packet));
        }
        if is_marked {
            self.mark(&mut packet);
        }
        self.held_bytes += charge(len);
        self.queue.hold(frames.bytes() as u64);
        fifo.push(QueuedPacket { enters: now, seed: draws.seed, index: draws.index, frames, packet });
        self.ledger.on_admitted(len as u64, Duration::ZERO, 0);
        self.serve(fifo, rule, now, Duration::ZERO);
        self.ledger.on_occupied(self.queue.packets());
        Ok(())
    }

    /// Throws those out who wait longest, as many as have to go for the packet to find fifo: none if it
    /// would not even if nobody waited.
    fn make_room(&mut self, fifo: &mut Fifo, now: Instant, frames: Frames) {
        let starts = self.serialiser.next_start(now);
        let bytes = frames.bytes() as u64;
        if !self.queue.could_admit(now, starts, bytes) {
            return;
        }
        while !self.queue.admits(now, starts, bytes)
            && let Some(oldest) = fifo.pop()
        {
            self.drop_waiting(now, DropCause::Head, oldest);
        }
    }

    /// Lets everything leave whose service starts by `now` less `ahead`, each at its own time.
    ///
    /// Time has then come as far as the last of these starts, and no packet enters before it any more.
    fn serve(&mut self, fifo: &mut Fifo, rule: &mut Rule, now: Instant, ahead: Duration) {
        while let Some(oldest) = fifo.oldest() {
            let start = self.serialiser.next_start(oldest);
            if saturating_add(start, ahead) > now {
                return;
            }
            self.serve_at(start, fifo, rule);
        }
    }

    /// The serialiser asks for a packet at `start`.
    fn serve_at(&mut self, start: Instant, fifo: &mut Fifo, rule: &mut Rule) {
        self.reached = self.reached.map(|reached| reached.max(start));
        let departure = match rule {
            Rule::DropTail | Rule::DropHead => {
                fifo.pop().map(|waiting| Departure { waiting, is_marked: false })
            }
            Rule::CoDel(codel) => {
                let dropped = |waiting| self.drop_waiting(start, DropCause::Aqm, waiting);
                codel.dequeue(start, fifo, dropped)
            }
        };
        if let Some(Departure { waiting, is_marked }) = departure {
            self.depart(waiting, is_marked);
        }
    }

    /// Whether something but the queue's limit turns packets away when they come, which settles their times too.
    pub(crate) fn decides_on_arrival(&self) -> bool {
        matches!(self.manager.as_deref(), Some(Manager::Arrivals(..)))
    }

    /// Has the packets of a drop-tail queue wait for their turns too, although nothing but time depends on it.
    pub(crate) fn decide_on_departure(&mut self) {
        self.manager.get_or_insert_with(|| Box::new(Manager::Departures(Fifo::default(), Rule::DropTail)));
    }

    /// When the next service of one who waits can start, or `None` if nobody does.
    pub(crate) fn next_service(&self) -> Option<Instant> {
        match self.manager.as_deref()? {
            Manager::Departures(fifo, _) => Some(self.serialiser.next_start(fifo.oldest()?)),
            Manager::Arrivals(..) => None,
        }
    }

    /// Makes that service.
    pub(crate) fn serve_next(&mut self) {
        let Some(start) = self.next_service() else { return };
        let Some(mut manager) = self.manager.take() else { return };
        if let Manager::Departures(fifo, rule) = &mut *manager {
            self.serve_at(start, fifo, rule);
        }
        self.manager = Some(manager);
    }

    /// When the next service can start, with what the shortest delay adds: nothing that waits is due
    /// earlier.
    fn next_departure(&self, fifo: &Fifo) -> Option<Instant> {
        let start = self.serialiser.next_start(fifo.oldest()?);
        Some(saturating_add(start, self.delay.least()))
    }

    /// A packet goes from the fifo to the serialiser.
    fn depart(&mut self, waiting: QueuedPacket, is_marked: bool) {
        self.take_off(&waiting);
        let QueuedPacket { enters, seed, index, frames, packet } = waiting;
        let draws = Draws { seed, direction: self.direction, index };
        let service = self.send(enters, draws, frames, packet, is_marked);
        self.ledger.on_served(service.busy);
    }

    /// A packet that left the fifo is dropped.
    fn drop_waiting(&mut self, at: Instant, cause: DropCause, waiting: QueuedPacket) {
        self.take_off(&waiting);
        self.ledger.on_dropped_inside(cause, waiting.packet.bytes.len() as u64);
        let is_copy = self.is_copy(waiting.seed);
        self.keep_drop(LateDrop { at, cause, packet: waiting.packet, is_copy });
    }

    /// A packet no longer waits.
    fn take_off(&mut self, waiting: &QueuedPacket) {
        self.held_bytes -= charge(waiting.packet.bytes.len());
        self.queue.leave_held(waiting.frames.bytes() as u64);
    }
}
