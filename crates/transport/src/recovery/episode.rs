//! Recovery episode: its retransmissions, and the evidence that they were spurious.

use std::time::{Duration, Instant};

use super::{Ended, Fate, Leave, LostTo, Resend, SegmentRun};
use crate::congestion::Cause;

/// Number of holes repaired in an episode at which even a spurious retransmission allows another
/// one. With fewer holes that would only add spurious ones.
pub(super) const MANY_HOLES: u32 = 16;

/// Current recovery episode. It ends when all data sent before it is acknowledged (RFC 6675,
/// section 5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Episode {
    /// `RecoveryPoint`: end of the data sent before the episode, stream offset.
    pub(super) recover: u64,
    /// First packet number of the episode.
    pub(super) first_number: u64,
    /// `first_number` of the episode that this one continues, if a timeout interrupted it; else its
    /// own. Segments retransmitted since then are not examined by SACK counts.
    pub(super) judged_below: u64,
    pub(super) resent: u32,
    /// Segments whose retransmission, not the original, arrived.
    pub(super) repaired: u32,
    pub(super) spurious: u32,
    /// Presumed cause of the timeout that began the episode; `None` if ACKs revealed a loss.
    pub(super) timed_out: Option<LostTo>,
    /// Cause, as reported to the congestion controller. In Tahoe duplicate ACKs count as a timeout.
    pub(super) cause: Cause,
    /// First packet number after the first of consecutive timeouts; this episode follows the last
    /// of them.
    pub(super) series_start: u64,
    /// True if anything was delivered since the episode began.
    pub(super) answered: bool,
    /// First segment retransmitted after the first of consecutive timeouts: its offset, and the
    /// time of its original transmission.
    pub(super) original: Option<(u64, Instant)>,
    /// RTT of that original transmission, which arrived after all.
    pub(super) late_rtt: Option<Duration>,
    /// True until the first retransmission, which ignores the window (RFC 6675, section 5, step
    /// 4.3).
    pub(super) forced: bool,
    /// Number of retransmissions allowed before the next delivery; `None` for no limit. Set after a
    /// timeout without SACK, and after consecutive timeouts.
    pub(super) credit: Option<u32>,
}

impl Episode {
    /// True if slow start retransmits everything outstanding.
    pub(super) fn slow_start(&self) -> bool {
        self.cause == Cause::Timeout
    }

    /// Returns why the next lost segment is retransmitted, and when it may leave, with this many
    /// bytes in flight.
    pub(super) fn next_repeat(&self, in_flight: u64) -> (Resend, Leave) {
        match self {
            Self { credit: Some(0), .. } if in_flight > 0 => (Resend::Timeout, Leave::AfterAnswer),
            Self { timed_out: Some(_), forced: true, .. } => (Resend::Timeout, Leave::Forced),
            Self { timed_out: Some(_), .. } => (Resend::Timeout, Leave::InWindow),
            Self { forced: true, .. } => (Resend::Lost, Leave::Forced),
            Self { .. } => (Resend::Lost, Leave::InWindow),
        }
    }

    /// True if a zero-window probe began the episode: nothing is lost.
    pub(super) fn asks_for_room(&self) -> bool {
        self.timed_out == Some(LostTo::NoRoom)
    }

    /// Returns the end to report. There is none if the begin was not reported, because the episode
    /// asks for room.
    pub(super) fn ended(&self, spurious: bool) -> Option<Ended> {
        let ended = if spurious {
            Ended::Spurious { timeout: self.timed_out.is_some(), late_rtt: self.late_rtt }
        } else {
            Ended::Recovered
        };
        Some(ended).filter(|_| !self.asks_for_room())
    }

    /// True if the originals of all retransmissions have arrived: `largest_acked`, the newest
    /// transmission that arrived, was sent before the episode.
    pub(super) fn is_disproved(&self, largest_acked: Option<u64>) -> bool {
        largest_acked.is_some_and(|largest| largest < self.first_number)
    }

    /// Handles the delivery of a run of segments. `later` is `Some` if the original and not the
    /// retransmission arrived. Its value is the newest transmission that arrived, which was sent
    /// before the run's last one.
    pub(super) fn on_delivered(&mut self, now: Instant, run: &SegmentRun<'_>, later: Option<u64>) {
        let segment = run.first;
        let in_flight = segment.fate == Fate::InFlight;
        if in_flight && segment.packet_number >= self.first_number {
            // As in slow start, a repaired hole allows two more retransmissions. A spurious
            // retransmission allows none, which limits spurious ones. With many holes, however,
            // that would repair only one hole a round trip.
            let more = match later {
                None => 2,
                Some(_) if self.repaired >= MANY_HOLES => 1,
                Some(_) => 0,
            };
            let count = u32::try_from(run.count).unwrap_or(u32::MAX);
            self.repaired = self.repaired.saturating_add(if later.is_none() { count } else { 0 });
            self.credit = self.credit.map(|credit| credit.saturating_add(count.saturating_mul(more)));
        }
        self.answered = true;
        // The transmission that arrived may be a retransmission after an earlier one of the
        // consecutive timeouts. Then that timeout was not spurious.
        let of_series = |largest: u64| (self.series_start..self.first_number).contains(&largest);
        if later.is_some_and(|largest| in_flight && !of_series(largest)) {
            self.spurious += 1;
            let original = self.original.filter(|(offset, _)| *offset == segment.offset);
            let late_rtt = original.map(|(_, sent_at)| now.saturating_duration_since(sent_at));
            self.late_rtt = self.late_rtt.or(late_rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::Scoreboard;
    use crate::wire::Numbering;

    /// Episode of the second timeout in a row, at 100 ms. Its retransmissions are numbered from 20
    /// on, those after the first timeout from 10 on.
    fn episode(now: Instant) -> Episode {
        Episode {
            recover: 1000,
            first_number: 20,
            judged_below: 10,
            resent: 1,
            repaired: 0,
            spurious: 0,
            timed_out: Some(LostTo::Network),
            cause: Cause::Timeout,
            series_start: 10,
            answered: false,
            original: Some((0, now)),
            late_rtt: None,
            forced: false,
            credit: Some(1),
        }
    }

    /// The first segment, of transmission `number`, is delivered at 300 ms.
    fn deliver(episode: &mut Episode, now: Instant, number: u64, later: Option<u64>) {
        let mut board = Scoreboard::new(Numbering::Bytes);
        board.push(now, 100, number);
        let run = SegmentRun::single(board.base().unwrap());
        episode.on_delivered(now + Duration::from_millis(300), &run, later);
    }

    #[test]
    fn older_transmission_alone_disproves_episode() {
        let episode = episode(rdt_testing::epoch());
        for (largest, disproved) in [(None, false), (Some(19), true), (Some(20), false)] {
            assert_eq!(episode.is_disproved(largest), disproved, "{largest:?}");
        }
    }

    #[test]
    fn repaired_hole_allows_two_retransmissions() {
        let now = rdt_testing::epoch();
        for (number, later, repaired, credit, spurious) in [
            (20, None, 1, 3, 0),
            (19, None, 0, 1, 0),
            (20, Some(9), 0, 1, 1),
            (20, Some(10), 0, 1, 0),
            (20, Some(19), 0, 1, 0),
        ] {
            let mut episode = episode(now);
            deliver(&mut episode, now, number, later);
            let counts = (episode.repaired, episode.credit, episode.spurious);
            assert_eq!(counts, (repaired, Some(credit), spurious), "{number} {later:?}");
            let late_rtt = (spurious > 0).then_some(Duration::from_millis(300));
            assert_eq!((episode.late_rtt, episode.answered), (late_rtt, true));
        }
    }

    #[test]
    fn spurious_repair_counts_with_many_holes() {
        let now = rdt_testing::epoch();
        for (repaired, credit) in [(MANY_HOLES - 1, 1), (MANY_HOLES, 2)] {
            let mut episode = Episode { repaired, ..episode(now) };
            deliver(&mut episode, now, 20, Some(5));
            assert_eq!((episode.repaired, episode.credit), (repaired, Some(credit)));
        }
    }
}
