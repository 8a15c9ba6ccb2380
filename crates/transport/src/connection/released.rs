//! Connection whose handle was dropped. It delivers the outgoing stream, then waits up to 60 s for
//! the peer's FIN. Unread bytes of the peer close it with CLOSE 4.

use std::time::{Duration, Instant};

use super::config::Confirm;
use super::events::Closed;
use super::streams::Streams;

/// Time without progress after which a peer that answers is given up, although data is in flight.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for the peer to end its stream once ours has arrived (Linux: `tcp_fin_timeout`).
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);

/// Progress of a released connection.
#[derive(Debug)]
pub(super) struct Released {
    /// Bytes of the outgoing stream that were acknowledged at `since`.
    acknowledged: u64,
    /// True if the whole outgoing stream had arrived, with its FIN.
    has_arrived: bool,
    /// Time of the latest progress.
    since: Instant,
}

impl Streams {
    /// Ends the outgoing stream. The incoming one is no longer read.
    pub(super) fn release(&mut self, now: Instant) {
        // `finish` fails only before the handshake.
        let _ = self.sender.finish();
        let acknowledged = self.sender.acknowledged();
        self.released = Some(Box::new(Released { acknowledged, has_arrived: false, since: now }));
    }

    /// True if the application gave up its handle and the incoming stream is empty so far.
    pub(super) fn is_released_unused(&self) -> bool {
        self.released.is_some() && self.receiver.rcv_nxt() == 0
    }

    /// Returns the reason if a released connection is to be closed.
    pub(super) fn end_of_released(&mut self, now: Instant) -> Option<Closed> {
        let released = self.released.as_mut()?;
        let has_arrived = released.has_arrived || self.completion.is_delivered || self.sender.has_arrived();
        let acknowledged = self.sender.acknowledged();
        if (acknowledged, has_arrived) != (released.acknowledged, released.has_arrived) {
            **released = Released { acknowledged, has_arrived, since: now };
        }
        let is_overdue = self.release_deadline().is_some_and(|at| at <= now);
        let is_abandoned = has_arrived && self.has_lost_bytes();
        if !is_overdue && !is_abandoned {
            return None;
        }
        while !self.receiver.data().is_empty() {
            let unread = self.receiver.data().len();
            self.receiver.consume(unread);
        }
        Some(Closed::Local)
    }

    /// True if bytes arrived that the application did not read, or did not confirm as it should.
    fn has_lost_bytes(&self) -> bool {
        let is_unconfirmed = self.confirm == Confirm::ByApplication && self.receiver.is_read();
        !self.completion.is_received && (is_unconfirmed || !self.receiver.data().is_empty())
    }

    /// Returns the time at which a released connection is closed without further progress.
    pub(super) fn release_deadline(&self) -> Option<Instant> {
        let Released { has_arrived, since, .. } = **self.released.as_ref()?;
        Some(since + if has_arrived { HALF_CLOSED_TIMEOUT } else { ORPHAN_TIMEOUT })
    }
}
