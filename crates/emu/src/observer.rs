//! Events of a relay, for captures and reports.

use std::time::Instant;

use rdt_emulator::{Delivery, Direction, Dropped, LateDrop, Packet};

use crate::account::Accounts;

/// Events of a relay. All methods are optional.
pub(crate) trait Observer {
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

impl Observer for () {}
