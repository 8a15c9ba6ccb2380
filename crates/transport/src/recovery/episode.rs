//! An episode of recovery: what was sent again in it, and whether that was needed.

use std::time::{Duration, Instant};

use super::{Fate, SegmentRun};
use crate::congestion::Cause;

/// Holes repaired after one timeout without SACK, from which on a repetition of what the receiver
/// had makes room for another one.
pub(super) const MANY_HOLES: u32 = 16;

/// A recovery that is on: until everything sent before it is acknowledged (RFC 6675, section 5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Episode {
    /// `RecoveryPoint`: one past the highest byte sent when it began.
    pub(super) recover: u64,
    /// Number of the first transmission after it began.
    pub(super) first_tx: u64,
    /// `first_tx` of the first of several timeouts in a row: segments sent again since then are not
    /// judged by counts.
    pub(super) judged_tx: u64,
    pub(super) resent: u32,
    /// Segments whose repetition was what arrived.
    pub(super) repaired: u32,
    pub(super) spurious: u32,
    /// The timer began it.
    pub(super) timeout: bool,
    /// Number of the first transmission after the first of the timeouts in a row, of which this one
    /// is the last.
    pub(super) series_tx: u64,
    /// Something was delivered since it began.
    pub(super) answered: bool,
    /// Offset of the first segment that was sent again after that timeout, and when its only
    /// transmission before had left.
    pub(super) original: Option<(u64, Instant)>,
    /// The round trip of that transmission, which arrived after all.
    pub(super) late_rtt: Option<Duration>,
    /// Its first segment goes whatever the window says (RFC 6675, section 5, step 4.3).
    pub(super) forced: bool,
    /// Segments that may be sent again until more answers come. Limits a timeout without selective
    /// ACKs, and one that follows another without an answer.
    pub(super) credit: Option<u32>,
}

impl Episode {
    /// Congestion controllers distinguish episodes by this.
    pub(super) fn cause(&self) -> Cause {
        if self.timeout { Cause::Timeout } else { Cause::Loss }
    }

    /// True if everything sent again so far had arrived before, given the newest transmission that
    /// the receiver has: it has nothing that left since the episode began, and yet what was sent
    /// again arrived.
    pub(super) fn is_disproved(&self, largest_tx: Option<u64>) -> bool {
        largest_tx.is_some_and(|largest| largest < self.first_tx)
    }

    /// A run of segments arrived; `later` is the newest transmission that the receiver has, if the
    /// run's last transmission left after it and so did not arrive itself.
    pub(super) fn on_delivered(&mut self, now: Instant, run: &SegmentRun, later: Option<u64>) {
        let segment = run.first();
        let in_flight = segment.fate == Fate::InFlight;
        if in_flight && segment.tx >= self.first_tx {
            // As in slow start, a repaired hole makes room for two. A repetition that the receiver
            // did not need makes room for none at first, which keeps repetitions few. With many
            // holes that would repair one a round trip.
            let more = match later {
                None => 2,
                Some(_) if self.repaired >= MANY_HOLES => 1,
                Some(_) => 0,
            };
            let count = u32::try_from(run.count()).unwrap_or(u32::MAX);
            self.repaired = self.repaired.saturating_add(if later.is_none() { count } else { 0 });
            self.credit = self.credit.map(|credit| credit.saturating_add(count.saturating_mul(more)));
        }
        self.answered = true;
        // What arrived instead may be what an earlier timeout of the series sent again: that one
        // was none too early.
        let of_series = |largest: u64| (self.series_tx..self.first_tx).contains(&largest);
        if later.is_some_and(|largest| in_flight && !of_series(largest)) {
            self.spurious += 1;
            let original = self.original.filter(|(offset, _)| *offset == segment.offset);
            let late_rtt = original.map(|(_, sent_at)| now.saturating_duration_since(sent_at));
            self.late_rtt = self.late_rtt.or(late_rtt);
        }
    }
}
