//! Events of a relay, for captures and reports.

use std::time::Instant;

use rdt_emulator::{Delivery, Direction, Dropped, LateDrop, Packet};

use crate::account::Accounts;

/// Events of a relay. All methods are optional.
pub(crate) trait Observer {
    /// A packet arrived, and enters the link next. Packets of a direction are numbered from 0 in
    /// this order.
    fn on_arrival(&mut self, _direction: Direction, _at: Instant, _packet: &Packet) {}

    /// The link dropped the packet that arrived last.
    fn on_drop(&mut self, _direction: Direction, _at: Instant, _dropped: &Dropped) {}

    /// The link dropped a packet that it had accepted, or its duplicate. Reported at the end of the
    /// relay's turn, for up to [`late_drops`](Self::late_drops) packets per turn.
    fn on_late_drop(&mut self, _direction: Direction, _dropped: &LateDrop) {}

    /// Number of late drops of a direction that were not reported, because a turn had more than
    /// [`late_drops`](Self::late_drops). Called once, at the end.
    fn on_overlooked(&mut self, _direction: Direction, _packets: u64) {}

    /// A packet departed from the link at `at`, which is not before its due time.
    fn on_delivery(&mut self, _direction: Direction, _at: Instant, _delivery: &Delivery) {}

    /// A turn of the relay's loop ends at time `at`.
    fn on_turn(&mut self, _at: Instant, _accounts: &Accounts<'_>) {}

    /// Returns the number of late drops per turn that are recorded for
    /// [`on_late_drop`](Self::on_late_drop).
    fn late_drops(&self) -> usize {
        0
    }

    /// Returns the time by which a turn must take place even without packets; `None` for no such
    /// time.
    fn next_turn(&self) -> Option<Instant> {
        None
    }
}

impl Observer for () {}
