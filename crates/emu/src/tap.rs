//! Who watches the packets of a relay: a file of them, a live account.

use std::time::Instant;

use rdt_emulator::{Delivery, Direction, Dropped, Packet};

/// Is told of every packet. All of it is optional.
pub trait Tap {
    /// The packet arrived, and enters the link next. Packets of a direction are numbered from 0 in this order.
    fn on_arrival(&mut self, _direction: Direction, _at: Instant, _packet: &Packet) {}

    /// The link did not take the packet that arrived last.
    fn on_drop(&mut self, _direction: Direction, _at: Instant, _dropped: &Dropped) {}

    /// The packet left the link; `at` is when, which is later than its due time.
    fn on_delivery(&mut self, _direction: Direction, _at: Instant, _delivery: &Delivery) {}

    /// A turn of the loop ends; `at` is the time. Whoever reports at intervals looks at it here.
    fn on_turn(&mut self, _at: Instant, _relay: &crate::relay::Books<'_>) {}
}

/// Nobody watches.
impl Tap for () {}
