//! RACK (RFC 8985, section 6): a transmission is lost if one that left later was delivered, and it has had a
//! round trip and the time that reordering may take. Owns what is known of the newest delivery and of
//! reordering. Knows no timer: it says when to look again.

use std::time::{Duration, Instant};

use crate::congestion::SentState;
use crate::sender::{Fate, Flights, Scoreboard, Segment};

/// Recoveries for which a widened reordering window is kept (RFC 8985, section 6.2 step 4).
const PERSIST: u32 = 16;
/// Selectively acknowledged bytes, in full segments, from which on an unseen reordering is given no time
/// (`DupThresh` of RFC 8985, section 6.2 step 4).
const DUP_THRESHOLD: u64 = 3;

/// What the detector needs to know beside the scoreboard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) now: Instant,
    pub(crate) srtt: Duration,
    pub(crate) min_rtt: Duration,
    /// Bytes of a full segment.
    pub(crate) mss: u64,
    pub(crate) in_recovery: bool,
}

/// The detector's state; names as in the RFC.
#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// Number of the newest transmission that was delivered, when it left, and when its delivery was known.
    newest: Option<(u64, Instant, Instant)>,
    /// One past the highest byte delivered.
    fack: u64,
    reordering_seen: bool,
    /// The reordering window in quarters of the smallest round-trip time, less one.
    widened: u32,
    persist: u32,
}

impl Rack {
    /// A segment was delivered, by its last transmission.
    pub(crate) fn on_delivered(&mut self, now: Instant, segment: &Segment) {
        if segment.end() > self.fack {
            self.fack = segment.end();
        } else if segment.sent_count == 1 {
            self.reordering_seen = true;
        }
        if self.newest.is_none_or(|(tx, ..)| tx < segment.tx) {
            self.newest = Some((segment.tx, segment.sent_at, now));
        }
    }

    /// A segment that had been sent again was delivered by an earlier transmission than its last one: it had
    /// been given too little time.
    pub(crate) fn on_spurious(&mut self) {
        self.reordering_seen = true;
        self.widened = self.widened.saturating_add(1);
        self.persist = PERSIST;
    }

    /// A recovery ended.
    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.widened = 0;
        }
    }

    /// How much later than the newest delivery a transmission may still arrive (section 6.2 step 4).
    pub(crate) fn reordering_window(&self, times: &Times, sacked: u64) -> Duration {
        if !self.reordering_seen && (times.in_recovery || sacked >= DUP_THRESHOLD * times.mss) {
            return Duration::ZERO;
        }
        (times.min_rtt / 4 * (self.widened + 1)).min(times.srtt)
    }

    /// Tells `on_lost` the offset of each segment whose last transmission is lost, and gives the time at which
    /// the next one would be.
    pub(crate) fn detect(
        &self,
        times: &Times,
        board: &mut Scoreboard,
        flights: &mut Flights,
        mut on_lost: impl FnMut(&Segment, Option<SentState>),
    ) -> Option<Instant> {
        let (newest, sent_at, delivered_at) = self.newest?;
        let rtt = delivered_at.saturating_duration_since(sent_at);
        let wait = rtt + self.reordering_window(times, board.sacked());
        while let Some((tx, flight)) = flights.first()
            && tx < newest
        {
            let state = flight.state;
            // The cumulative edge may lie inside the segment, which then begins there.
            let segment = flight.offset.and_then(|offset| board.find(offset.max(board.una_offset())));
            if let Some(segment) = segment.filter(|s| s.tx == tx && s.fate == Fate::InFlight) {
                let due = segment.sent_at + wait;
                if due > times.now {
                    return Some(due);
                }
                let segment = *segment;
                on_lost(&segment, Some(state));
                board.mark_lost(segment.offset);
            }
            flights.pop();
        }
        // What was cut again, or taken back from the lost, has no record of its own.
        let base = *board.base().filter(|base| base.fate == Fate::InFlight && base.tx < newest)?;
        let due = base.sent_at + wait;
        if due > times.now {
            return Some(due);
        }
        on_lost(&base, None);
        board.mark_lost(base.offset);
        None
    }
}
