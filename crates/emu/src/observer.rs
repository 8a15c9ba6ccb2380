//! Observer of a relay: a capture, a JSON stream.

use std::time::Instant;

use rdt_emulator::{Delivery, Direction, Dropped, LateDrop, Packet};

use crate::account::Accounts;

/// Events of a relay. All methods are optional.
pub trait Observer {
    /// The packet arrived, and enters the link next. Packets of a direction are numbered from 0 in
    /// this order.
    fn on_arrival(&mut self, _direction: Direction, _at: Instant, _packet: &Packet) {}

    /// The link did not take the packet that arrived last.
    fn on_drop(&mut self, _direction: Direction, _at: Instant, _dropped: &Dropped) {}

    /// The link dropped a packet that it had accepted, or its duplicate. Reported at the end of the
    /// turn, if [`late_drops`](Self::late_drops) asks for it.
    fn on_late_drop(&mut self, _direction: Direction, _dropped: &LateDrop) {}

    /// Number of late drops of a direction that were not reported, because one turn had more than
    /// are kept. Called at the end.
    fn on_overlooked(&mut self, _direction: Direction, _packets: u64) {}

    /// The packet left the link; `at` is when, which is later than its due time.
    fn on_delivery(&mut self, _direction: Direction, _at: Instant, _delivery: &Delivery) {}

    /// A turn of the loop ends at time `at`. Periodic reports check it here.
    fn on_turn(&mut self, _at: Instant, _accounts: &Accounts<'_>) {}

    /// Returns the number of late drops of a turn that are kept for
    /// [`on_late_drop`](Self::on_late_drop).
    fn late_drops(&self) -> usize {
        0
    }

    /// Returns the time of the next turn that happens even without packets.
    fn next_turn(&self) -> Option<Instant> {
        None
    }
}

/// No observer.
impl Observer for () {}

/// Optional observer.
impl<T: Observer> Observer for Option<T> {
    fn on_arrival(&mut self, direction: Direction, at: Instant, packet: &Packet) {
        if let Some(observer) = self {
            observer.on_arrival(direction, at, packet);
        }
    }

    fn on_drop(&mut self, direction: Direction, at: Instant, dropped: &Dropped) {
        if let Some(observer) = self {
            observer.on_drop(direction, at, dropped);
        }
    }

    fn on_late_drop(&mut self, direction: Direction, dropped: &LateDrop) {
        if let Some(observer) = self {
            observer.on_late_drop(direction, dropped);
        }
    }

    fn on_overlooked(&mut self, direction: Direction, packets: u64) {
        if let Some(observer) = self {
            observer.on_overlooked(direction, packets);
        }
    }

    fn on_delivery(&mut self, direction: Direction, at: Instant, delivery: &Delivery) {
        if let Some(observer) = self {
            observer.on_delivery(direction, at, delivery);
        }
    }

    fn on_turn(&mut self, at: Instant, accounts: &Accounts<'_>) {
        if let Some(observer) = self {
            observer.on_turn(at, accounts);
        }
    }

    fn late_drops(&self) -> usize {
        self.as_ref().map_or(0, Observer::late_drops)
    }

    fn next_turn(&self) -> Option<Instant> {
        self.as_ref().and_then(Observer::next_turn)
    }
}

/// Two observers.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn on_arrival(&mut self, direction: Direction, at: Instant, packet: &Packet) {
        self.0.on_arrival(direction, at, packet);
        self.1.on_arrival(direction, at, packet);
    }

    fn on_drop(&mut self, direction: Direction, at: Instant, dropped: &Dropped) {
        self.0.on_drop(direction, at, dropped);
        self.1.on_drop(direction, at, dropped);
    }

    fn on_late_drop(&mut self, direction: Direction, dropped: &LateDrop) {
        self.0.on_late_drop(direction, dropped);
        self.1.on_late_drop(direction, dropped);
    }

    fn on_overlooked(&mut self, direction: Direction, packets: u64) {
        self.0.on_overlooked(direction, packets);
        self.1.on_overlooked(direction, packets);
    }

    fn on_delivery(&mut self, direction: Direction, at: Instant, delivery: &Delivery) {
        self.0.on_delivery(direction, at, delivery);
        self.1.on_delivery(direction, at, delivery);
    }

    fn on_turn(&mut self, at: Instant, accounts: &Accounts<'_>) {
        self.0.on_turn(at, accounts);
        self.1.on_turn(at, accounts);
    }

    fn late_drops(&self) -> usize {
        self.0.late_drops().max(self.1.late_drops())
    }

    fn next_turn(&self) -> Option<Instant> {
        self.0.next_turn().into_iter().chain(self.1.next_turn()).min()
    }
}
