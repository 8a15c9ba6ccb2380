//! Rules of the timers of a connection: the RTO backs off, and no ACK is late.

use std::time::{Duration, Instant};

use crate::faults::bounds::MIN_RTO;

/// Upper limit of the back-off, unless the RTO without back-off is longer.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// Timers of one stream.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Timeouts since the newest packet that reached the sender, and the time of the last one.
    timeouts: u32,
    timed_out_at: Option<Instant>,
    /// True if a timeout came before the RTO was over. That is right at the give-up time alone,
    /// after which nothing is sent.
    pub(super) is_hasty: bool,
    /// Time by which the receiver must acknowledge the oldest DATA packet that waits for it.
    ack_due: Option<Instant>,
}

impl Timers {
    /// Notes a timeout. Each of them doubles the RTO (RFC 6298, rule 5.5), which is at least
    /// [`MIN_RTO`] before.
    pub(super) fn timed_out(&mut self, now: Instant) {
        let least = MIN_RTO.saturating_mul(2_u32.saturating_pow(self.timeouts)).min(MAX_BACKOFF);
        self.is_hasty |= self.timed_out_at.replace(now).is_some_and(|before| now - before < least);
        self.timeouts += 1;
    }

    /// Notes a packet that reached the sender.
    pub(super) fn heard(&mut self) {
        *self = Self { ack_due: self.ack_due, ..Self::default() };
    }

    /// Notes a DATA packet that reached the receiver, which must acknowledge it by `due`.
    pub(super) fn expect_ack(&mut self, due: Instant) {
        self.ack_due.get_or_insert(due);
    }

    /// Notes an ACK or the end of the connection, which the receiver sent.
    pub(super) fn answered(&mut self) {
        self.ack_due = None;
    }

    pub(super) fn is_ack_late(&self, now: Instant) -> bool {
        self.ack_due.is_some_and(|due| due < now)
    }
}
