//! Who watches the packets of a relay: a file of them, a live account.

use std::time::Instant;

use rdt_emulator::{Delivery, Direction, Dropped, LateDrop, Packet};

use crate::account::Accounts;

/// Is told of every packet. All of it is optional.
pub trait Observer {
    /// The packet arrived, and enters the link next. Packets of a direction are numbered from 0 in this order.
    fn on_arrival(&mut self, _direction: Direction, _at: Instant, _packet: &Packet) {}

    /// The link did not take the packet that arrived last.
    fn on_drop(&mut self, _direction: Direction, _at: Instant, _dropped: &Dropped) {}

    /// The link dropped a packet that it had taken, or its second copy. It is told at the end of the turn, and only
    /// to whoever asks by [`late_drops`](Self::late_drops).
    fn on_late_drop(&mut self, _direction: Direction, _dropped: &LateDrop) {}

    /// At the end: how many packets of a direction were dropped late and not told, because there were more in one turn
    /// than are kept.
    fn on_overlooked(&mut self, _direction: Direction, _packets: u64) {}

    /// The packet left the link; `at` is when, which is later than its due time.
    fn on_delivery(&mut self, _direction: Direction, _at: Instant, _delivery: &Delivery) {}

    /// A turn of the loop ends; `at` is the time. Whoever reports at intervals looks at it here.
    fn on_turn(&mut self, _at: Instant, _accounts: &Accounts<'_>) {}

    /// How many of the packets that were dropped late in one turn are kept for [`on_late_drop`](Self::on_late_drop).
    fn late_drops(&self) -> usize {
        0
    }

    /// When there is to be a turn even if no packet calls for one.
    fn next_turn(&self) -> Option<Instant> {
        None
    }
}

/// Nobody watches.
impl Observer for () {}

/// Somebody may watch.
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

/// Both watch.
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
