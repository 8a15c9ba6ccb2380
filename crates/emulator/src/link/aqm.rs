//! How a packet passes a link whose discipline is not drop-tail; [`Link::offer`] handles drop-tail.
//!
//! If the discipline decides on arrival, a packet's drop or due time is final when it arrives. If
//! it decides on departure, packets wait in a [`Fifo`]. Before a packet enters, the link serves all
//! packets whose service starts by then in the model, each at its own time.

use std::time::{Duration, Instant};

use super::{Dropped, LateDrop, Link, charge};
use crate::draw::Draws;
use crate::ledger::DropCause;
use crate::mtu::Frames;
use crate::packet::Packet;
use crate::queue::{Aqm, Arrival, Departure, Fifo, ManagedQueue, QueuedPacket, Signal, Waiting};
use crate::time::saturating_add;

impl Link {
    #[cold]
    pub(super) fn offer_managed(
        &mut self,
        mut managed: Box<ManagedQueue>,
        now: Instant,
        draws: Draws,
        frames: Frames,
        packet: Packet,
    ) -> Result<(), Dropped> {
        let result = self.enqueue(&mut managed, now, draws, frames, packet);
        self.managed = Some(managed);
        result
    }

    /// Admits a packet unless the queue limit, the discipline or the memory limit drops it.
    fn enqueue(
        &mut self,
        managed: &mut ManagedQueue,
        now: Instant,
        draws: Draws,
        frames: Frames,
        packet: Packet,
    ) -> Result<(), Dropped> {
        let ManagedQueue { aqm, waiting } = managed;
        let aqm = &mut **aqm;
        if let Waiting::Undecided(queue) = waiting {
            self.serve(aqm, queue, now, Duration::ZERO);
        }
        aqm.on_arrival(now, waiting.bytes_at(now));
        let mut admission = self.admission(now, frames, packet.ecn);
        if admission == Err(DropCause::QueueFull)
            && let Waiting::Undecided(queue) = waiting
        {
            self.make_room(aqm, queue, now, frames);
            admission = self.admission(now, frames, packet.ecn);
        }
        let mut is_marked = match admission {
            Ok(is_marked) => is_marked,
            Err(cause) => return Err(self.reject(cause, packet)),
        };
        let arrival = Arrival { now, backlog: waiting.bytes_at(now), ecn: packet.ecn, draws };
        match aqm.on_enqueue(&arrival) {
            Some(Signal::Drop) => return Err(self.reject(DropCause::Aqm, packet)),
            Some(Signal::Mark) => is_marked = true,
            None => {}
        }
        if !self.has_memory(packet.bytes.len()) {
            return Err(self.reject(DropCause::Memory, packet));
        }
        self.accept(managed, now, draws, frames, packet, is_marked);
        Ok(())
    }

    /// Schedules the service of an admitted packet, or queues it for a decision on departure.
    fn accept(
        &mut self,
        ManagedQueue { aqm, waiting }: &mut ManagedQueue,
        now: Instant,
        draws: Draws,
        frames: Frames,
        mut packet: Packet,
        is_marked: bool,
    ) {
        let (len, wire_bytes) = (packet.bytes.len(), frames.bytes() as u64);
        match waiting {
            Waiting::Settled(backlog) => {
                let service = self.send(now, draws, frames, packet, is_marked);
                backlog.push(service.start, wire_bytes);
                aqm.on_scheduled(service);
                self.ledger.on_admitted(len as u64, service.busy, self.queue.packets());
            }
            Waiting::Undecided(queue) => {
                if is_marked {
                    self.mark(&mut packet);
                }
                self.held_bytes += charge(len);
                self.queue.hold(wire_bytes);
                queue.push(QueuedPacket {
                    enters: now,
                    seed: draws.seed,
                    index: draws.index,
                    frames,
                    packet,
                });
                self.ledger.on_admitted(len as u64, Duration::ZERO, 0);
                // If the serialiser is idle, this serves the packet immediately.
                self.serve(&mut **aqm, queue, now, Duration::ZERO);
                self.ledger.on_occupied(self.queue.packets());
            }
        }
    }

    /// Drops queued packets until an arriving packet fits. Drops none if the arriving packet would
    /// not fit even into an empty queue.
    fn make_room(&mut self, aqm: &mut dyn Aqm, queue: &mut Fifo, now: Instant, frames: Frames) {
        let starts = self.serialiser.next_start(now);
        let bytes = frames.bytes() as u64;
        if !self.queue.could_admit(now, starts, bytes) {
            return;
        }
        while !self.queue.admits(now, starts, bytes)
            && let Some(packet) = aqm.on_full(queue)
        {
            self.drop_queued(now, DropCause::Head, packet);
        }
    }

    /// Serves all queued packets whose service starts by `now - ahead`.
    #[cold]
    pub(crate) fn settle(&mut self, now: Instant, ahead: Duration) {
        let Some(mut managed) = self.managed.take() else { return };
        let ManagedQueue { aqm, waiting } = &mut *managed;
        if let Waiting::Undecided(queue) = waiting {
            self.serve(&mut **aqm, queue, now, ahead);
        }
        self.managed = Some(managed);
        debug_assert!(self.ledger.balances(), "{:?}", self.ledger);
    }

    /// Serves all packets whose service starts by `now - ahead`, each at its own time in the model.
    fn serve(&mut self, aqm: &mut dyn Aqm, queue: &mut Fifo, now: Instant, ahead: Duration) {
        while let Some(oldest) = queue.oldest() {
            let start = self.serialiser.next_start(oldest);
            if saturating_add(start, ahead) > now {
                return;
            }
            self.serve_at(start, aqm, queue);
        }
    }

    /// Serves the packet that the discipline selects at `start`. Later pushes enter no earlier.
    fn serve_at(&mut self, start: Instant, aqm: &mut dyn Aqm, queue: &mut Fifo) {
        self.reached = self.reached.map(|reached| reached.max(start));
        let mut drop = |packet| self.drop_queued(start, DropCause::Aqm, packet);
        if let Some(Departure { packet, is_marked }) = aqm.on_dequeue(start, queue, &mut drop) {
            self.depart(packet, is_marked);
        }
    }

    /// Returns the next wake-up, given the due time of the first packet that has been served.
    #[cold]
    pub(super) fn next_of_both(&self, due: Option<Instant>) -> Option<Instant> {
        // Without reordering, queued packets are due after packets already served.
        if due.is_some() && self.delay.keeps_order() {
            return due;
        }
        let queued = self.next_service().map(|start| saturating_add(start, self.delay.least()));
        due.into_iter().chain(queued).min()
    }

    pub(crate) fn decides_on_arrival(&self) -> bool {
        self.managed.as_deref().is_some_and(|managed| matches!(managed.waiting, Waiting::Settled(_)))
    }

    /// Makes a drop-tail queue store its waiting packets, so that a path with a shared 802.11
    /// medium can decide which direction sends next.
    pub(crate) fn decide_on_departure(&mut self) {
        self.managed.get_or_insert_with(|| Box::new(ManagedQueue::drop_tail()));
    }

    /// Returns when service of the oldest queued packet can start. `None` if none is queued.
    pub(crate) fn next_service(&self) -> Option<Instant> {
        match &self.managed.as_deref()?.waiting {
            Waiting::Undecided(queue) => Some(self.serialiser.next_start(queue.oldest()?)),
            Waiting::Settled(_) => None,
        }
    }

    pub(crate) fn serve_next(&mut self) {
        let Some(start) = self.next_service() else { return };
        let Some(mut managed) = self.managed.take() else { return };
        let ManagedQueue { aqm, waiting } = &mut *managed;
        if let Waiting::Undecided(queue) = waiting {
            self.serve_at(start, &mut **aqm, queue);
        }
        self.managed = Some(managed);
    }

    fn depart(&mut self, packet: QueuedPacket, is_marked: bool) {
        self.release(&packet);
        let QueuedPacket { enters, seed, index, frames, packet } = packet;
        let draws = Draws { seed, direction: self.direction, index };
        let service = self.send(enters, draws, frames, packet, is_marked);
        self.ledger.on_served(service.busy);
    }

    fn drop_queued(&mut self, at: Instant, cause: DropCause, packet: QueuedPacket) {
        self.release(&packet);
        let QueuedPacket { seed, packet, .. } = packet;
        self.ledger.on_dropped_inside(cause, packet.bytes.len() as u64);
        self.keep_drop(LateDrop { at, cause, packet, is_copy: self.is_copy(seed) });
    }

    /// Stops counting a packet that left the queue towards the queue limit and the memory limit.
    fn release(&mut self, packet: &QueuedPacket) {
        self.held_bytes -= charge(packet.packet.bytes.len());
        self.queue.leave_held(packet.frames.bytes() as u64);
    }
}
