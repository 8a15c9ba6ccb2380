//! RACK (RFC 8985, section 6): a transmission is lost if a later one was delivered and more than an
//! RTT and the reordering window have passed since it was sent. Owns the newest delivery and the
//! measure of reordering. Has no timer: it returns the time of the next check.

use std::time::{Duration, Instant};

use crate::congestion::SentState;
use crate::recovery::{AckOutcome, Fate, Rtt, Scoreboard, Segment, SentPackets};

/// Number of recoveries for which a widened reordering window stays (RFC 8985, section 6.2, step
/// 4).
const WIDENED_RECOVERIES: u32 = 16;
/// Full segments selectively acknowledged from which on the reordering window is zero if no
/// reordering was seen (`DupThresh` of RFC 8985, section 6.2, step 4).
const DUP_THRESHOLD: u64 = 3;
/// Upper limit of the reordering window, or `srtt` if that is longer: half of the minimum RTO of
/// 200 ms.
const MAX_WINDOW: Duration = Duration::from_millis(100);

/// Reordering window before any reordering was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reordering {
    /// A quarter of the minimum RTT until the first loss, then as [`Reordering::OnceSeen`]. Without
    /// loss, reordering within that time causes no retransmission; with loss, only the first repair
    /// is later than in RFC 8985.
    UntilLoss,
    /// RFC 8985, section 6.2, step 4: zero during recovery and after three segments were
    /// selectively acknowledged. The first reordering counts as a loss.
    OnceSeen,
}

/// Inputs of the detector besides the scoreboard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) now: Instant,
    pub(crate) srtt: Duration,
    pub(crate) rttvar: Duration,
    pub(crate) min_rtt: Duration,
    /// Bytes of a full segment.
    pub(crate) mss: u64,
    pub(crate) in_recovery: bool,
}

impl Times {
    #[inline]
    pub(crate) fn new(ack: &AckOutcome, rtt: &Rtt, in_recovery: bool) -> Self {
        Self {
            now: ack.now,
            srtt: rtt.srtt(),
            rttvar: rtt.rttvar(),
            min_rtt: rtt.min_rtt.unwrap_or_default(),
            mss: ack.mss,
            in_recovery,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// True until the first loss with [`Reordering::UntilLoss`]: the reordering window is a quarter
    /// of the minimum RTT although no reordering was seen.
    waits_before_first_loss: bool,
    /// Value of `waits_before_first_loss` before the current recovery.
    waited_before_recovery: bool,
    /// Oldest in-flight packet that a delivered one has overtaken, and when that was first seen.
    /// Used only before the first loss.
    overtaken: Option<(u64, Instant)>,
    /// Newest transmission delivered: its number, send time, and the time of its ACK.
    newest: Option<(u64, Instant, Instant)>,
    /// End of the highest segment delivered, stream offset (`RACK.fack`).
    fack: u64,
    /// `fack` and `newest` before the current ACK: the order of arrival of segments within one ACK
    /// is unknown.
    prior_fack: u64,
    prior_newest: Option<(u64, Instant, Instant)>,
    reordering_seen: bool,
    /// Largest lateness of reordered segments: in the current series of [`WIDENED_RECOVERIES`]
    /// recoveries, and in the series before.
    max_lateness: [Duration; 2],
    recoveries: u32,
    /// Reordering window at the last check.
    last_window: Duration,
    /// Arrival of the newest ACK.
    ack_at: Option<Instant>,
    /// Arrival of the newest ACK, at most `srtt` / 4 after the ACK before: if ACKs were lost, a
    /// later one would have reported these arrivals by then.
    reported_at: Option<Instant>,
    /// Transmissions before this number may be missing in earlier ACKs, whose SACK blocks were
    /// full.
    unreported_below: u64,
    /// Reordering window in quarters of the minimum RTT, minus one (`RACK.reo_wnd_mult` - 1).
    widened: u32,
    /// The window is not widened again by segments retransmitted before this transmission
    /// (`RACK.dsack_round`).
    widened_until: Option<u64>,
    persist: u32,
}

impl Rack {
    pub(crate) fn new(reordering: Reordering) -> Self {
        Self { waits_before_first_loss: reordering == Reordering::UntilLoss, ..Self::default() }
    }

    /// Prepares for an ACK. If it is `full`, it has the maximum number of SACK blocks, and arrivals
    /// of transmissions before `next_number` may be reported late.
    pub(crate) fn on_ack_begins(&mut self, now: Instant, srtt: Duration, full: bool, next_number: u64) {
        if full {
            self.unreported_below = next_number;
        }
        // If ACKs were lost since the last one, this ACK reports arrivals that are older than
        // itself.
        let prior = self.ack_at.replace(now);
        self.reported_at = Some(prior.map_or(now, |prior| now.min(prior + srtt / 4)));
        self.prior_fack = self.fack;
        self.prior_newest = self.newest;
    }

    /// Handles the delivery of a segment by its last transmission.
    pub(crate) fn on_delivered(&mut self, now: Instant, segment: &Segment, srtt: Duration) {
        self.fack = self.fack.max(segment.end());
        if segment.end() <= self.prior_fack
            && segment.sent_count == 1
            && segment.packet_number >= self.unreported_below
        {
            self.reordering_seen = true;
            self.on_late(segment.sent_at, srtt);
        }
        if self.newest.is_none_or(|(packet_number, ..)| packet_number < segment.packet_number) {
            self.newest = Some((segment.packet_number, segment.sent_at, now));
        }
    }

    /// Records the lateness of a transmission sent at `sent_at` that arrived after a later one.
    fn on_late(&mut self, sent_at: Instant, srtt: Duration) {
        if let (Some((_, newest_sent_at, delivered_at)), Some(reported_at)) =
            (self.prior_newest, self.reported_at)
        {
            let due = sent_at + delivered_at.saturating_duration_since(newest_sent_at).max(srtt);
            self.max_lateness[0] = self.max_lateness[0].max(reported_at.saturating_duration_since(due));
        }
    }

    /// Handles a spurious retransmission: a segment was delivered by an earlier transmission than
    /// its last one, `again`. Widens the reordering window, but only once for all segments
    /// retransmitted before `next_number`, because the old window applied to them. (RFC 8985,
    /// section 6.2, step 4, cannot tell transmissions apart and waits until `SND.UNA` has passed
    /// all of them.)
    ///
    /// The lateness is the old window plus the time since the retransmission.
    pub(crate) fn on_spurious(&mut self, now: Instant, again: &Segment, next_number: u64) {
        self.reordering_seen = true;
        self.persist = WIDENED_RECOVERIES;
        let late = self.last_window + now.saturating_duration_since(again.sent_at);
        self.max_lateness[0] = self.max_lateness[0].max(late);
        let again_number = again.packet_number;
        if self.widened_until.is_none_or(|until| again_number >= until) {
            self.widened = self.widened.saturating_add(1);
            self.widened_until = Some(next_number);
        }
    }

    /// Handles the end of a recovery; `spurious` if nothing was lost.
    pub(crate) fn on_recovered(&mut self, spurious: bool) {
        self.waits_before_first_loss |= spurious && self.waited_before_recovery;
        self.waited_before_recovery = false;
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.widened = 0;
        }
        self.recoveries += 1;
        if self.recoveries == WIDENED_RECOVERIES {
            self.recoveries = 0;
            self.max_lateness = [Duration::ZERO, self.max_lateness[0]];
        }
    }

    /// Handles a loss in the network.
    pub(crate) fn on_loss(&mut self) {
        self.waited_before_recovery |= self.waits_before_first_loss;
        self.waits_before_first_loss = false;
    }

    /// True if reordering delayed segments by more than `srtt` lately.
    pub(crate) fn reorders(&self) -> bool {
        self.max_lateness.iter().any(|late| !late.is_zero())
    }

    /// Returns the reordering window (section 6.2, step 4); `sacked` is the number of bytes
    /// selectively acknowledged.
    pub(crate) fn reordering_window(&self, times: &Times, sacked: u64) -> Duration {
        let expected = self.waits_before_first_loss || self.reordering_seen;
        if !expected && (times.in_recovery || sacked >= DUP_THRESHOLD * times.mss) {
            return Duration::ZERO;
        }
        // Before reordering is measured, `rttvar` stands for the variation; it starts at half of
        // the handshake RTT.
        let varies = if self.waits_before_first_loss { times.rttvar } else { Duration::ZERO };
        let by_rounds = (times.min_rtt / 4 * (self.widened + 1)).max(varies).min(times.srtt);
        by_rounds.max(self.expected_late(times.srtt).min(times.srtt.max(MAX_WINDOW)))
    }

    /// Returns the expected lateness: the measured one, doubled while the history is short, because
    /// a short history shows only part of it.
    fn expected_late(&self, srtt: Duration) -> Duration {
        let learnt = self.max_lateness[0].max(self.max_lateness[1]) * 5 / 4;
        match self.max_lateness {
            [_, before] if !before.is_zero() => learnt,
            [late, _] if self.waits_before_first_loss && !late.is_zero() => srtt.max(2 * late),
            [late, _] => 2 * late,
        }
    }

    /// Returns the RTT of the newest delivery (`RACK.rtt`), at least `srtt` once reordering was
    /// seen.
    fn rtt(&self, srtt: Duration) -> Option<Duration> {
        let (_, sent_at, delivered_at) = self.newest?;
        let rtt = delivered_at.saturating_duration_since(sent_at);
        Some(if self.reordering_seen { rtt.max(srtt) } else { rtt })
    }

    /// Returns the age from which on a transmission counts as lost when the retransmission timer
    /// fires (section 6.3); `None` before the first delivery. Based on the newest RTT, because
    /// `srtt` is far below it while a queue grows.
    pub(crate) fn timeout_age(&self, times: &Times, sacked: u64) -> Option<Duration> {
        Some(self.rtt(times.srtt)? + self.reordering_window(times, sacked))
    }

    /// Returns the time at which a segment counts as lost.
    ///
    /// If the queue has become shorter since the segment was sent, the RTT of the newest delivery
    /// is too short for it. So before the first loss the reordering window begins only when a later
    /// transmission was first seen to be delivered, but at most `srtt` later (a tail loss probe
    /// reveals it later still).
    fn due(&mut self, segment: &Segment, rtt: Duration, reordering: Duration, times: &Times) -> Instant {
        let due = segment.sent_at + rtt + reordering;
        if !self.waits_before_first_loss {
            return due;
        }
        let known = self.overtaken.filter(|(packet_number, _)| *packet_number == segment.packet_number);
        let (_, since) = *self.overtaken.insert(known.unwrap_or((segment.packet_number, times.now)));
        due.max(since.min(due + times.srtt) + reordering)
    }

    /// Marks lost segments and calls `on_lost` for each. Returns the time at which the next segment
    /// counts as lost.
    pub(crate) fn detect(
        &mut self,
        times: &Times,
        board: &mut Scoreboard,
        sent_packets: &mut SentPackets,
        mut on_lost: impl FnMut(&Segment, Option<SentState>),
    ) -> Option<Instant> {
        let (newest, ..) = self.newest?;
        let rtt = self.rtt(times.srtt)?;
        let reordering = self.reordering_window(times, board.sacked());
        self.last_window = reordering;
        sent_packets.forget_acknowledged(board.una_offset(), newest);
        while let Some((packet_number, packet)) = sent_packets.first()
            && packet_number < newest
        {
            let state = packet.state;
            // A cumulative ACK inside the segment moved its begin to `snd_una`.
            let segment = packet.offset.and_then(|offset| board.find(offset.max(board.una_offset())));
            if let Some(segment) =
                segment.filter(|s| s.packet_number == packet_number && s.fate == Fate::InFlight)
            {
                let due = self.due(segment, rtt, reordering, times);
                if due > times.now {
                    return Some(due);
                }
                let segment = *segment;
                on_lost(&segment, Some(state));
                board.mark_lost(segment.offset);
            }
            sent_packets.pop(1);
        }
        // Segments that were divided, or marked lost and restored, have no record of their own.
        let base = *board.base().filter(|base| base.fate == Fate::InFlight && base.packet_number < newest)?;
        let due = self.due(&base, rtt, reordering, times);
        if due > times.now {
            return Some(due);
        }
        on_lost(&base, None);
        board.mark_lost(base.offset);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Numbering;
    use rdt_testing::{epoch, ms};

    const MSS: u64 = 1000;

    fn times(now: Instant, in_recovery: bool) -> Times {
        Times { now, srtt: ms(120), rttvar: ms(0), min_rtt: ms(100), mss: MSS, in_recovery }
    }

    /// Segment `index`, sent `packet_number` ms after the epoch.
    fn segment(epoch: Instant, index: u64, packet_number: u64, sent_count: u16) -> Segment {
        let sent_at = epoch + ms(packet_number);
        Segment { offset: index * MSS, sent_at, packet_number, len: 1000, sent_count, fate: Fate::InFlight }
    }

    #[test]
    fn once_seen_gives_no_time_before_reordering() {
        let epoch = epoch();
        let mut rack = Rack::new(Reordering::OnceSeen);
        let window = |rack: &Rack, in_recovery, sacked| {
            rack.reordering_window(&times(epoch, in_recovery), sacked * MSS)
        };
        assert_eq!((window(&rack, false, 2), window(&rack, false, 3)), (ms(25), ms(0)));
        assert_eq!(window(&rack, true, 0), ms(0));
        rack.on_delivered(epoch + ms(100), &segment(epoch, 3, 3, 1), ms(120));
        rack.on_delivered(epoch + ms(100), &segment(epoch, 1, 1, 1), ms(120));
        assert_eq!(window(&rack, false, 3), ms(0), "one ACK tells no order");
        rack.on_ack_begins(epoch + ms(100), ms(120), false, 9);
        rack.on_delivered(epoch + ms(101), &segment(epoch, 0, 4, 2), ms(120));
        assert_eq!(window(&rack, false, 3), ms(0), "what was sent again overtook nothing");
        rack.on_delivered(epoch + ms(102), &segment(epoch, 2, 2, 1), ms(120));
        assert_eq!((window(&rack, false, 3), window(&rack, true, 9)), (ms(25), ms(25)));
    }

    #[test]
    fn dsack_widens_reordering_window_up_to_srtt() {
        let epoch = epoch();
        for reordering in [Reordering::UntilLoss, Reordering::OnceSeen] {
            let mut rack = Rack::new(reordering);
            for (round, quarters) in [(0, 2), (1, 3), (2, 4)] {
                // Ten spurious retransmissions in an RTT of ten transmissions widen the window
                // once.
                for n in 0..10 {
                    rack.on_spurious(epoch, &segment(epoch, 0, 10 * round + n, 2), 10 * round + 10);
                }
                let expected = (quarters * ms(25)).min(ms(120));
                assert_eq!(rack.reordering_window(&times(epoch, true), 0), expected);
            }
            rack.on_spurious(epoch, &segment(epoch, 0, 30, 2), 40);
            assert_eq!(rack.reordering_window(&times(epoch, true), 0), ms(120), "srtt and no more");
            for _ in 0..15 {
                rack.on_recovered(false);
            }
            assert_eq!(rack.reordering_window(&times(epoch, true), 0), ms(120));
            rack.on_recovered(false);
            assert_eq!(rack.reordering_window(&times(epoch, true), 0), ms(25));
        }
    }

    #[test]
    fn first_loss_ends_wait_without_reordering() {
        let epoch = epoch();
        let mut rack = Rack::new(Reordering::UntilLoss);
        assert_eq!(rack.reordering_window(&times(epoch, true), 9 * MSS), ms(25));
        rack.on_loss();
        assert_eq!(rack.reordering_window(&times(epoch, false), 3 * MSS), ms(0));
        rack.on_spurious(epoch, &segment(epoch, 0, 0, 2), 1);
        assert_eq!(rack.reordering_window(&times(epoch, false), 3 * MSS), ms(50));
    }

    #[test]
    fn measured_lateness_widens_the_window() {
        let epoch = epoch();
        let at = |n| epoch + ms(n);
        let deliver = |rack: &mut Rack, now, index, packet_number| {
            rack.on_ack_begins(now, ms(120), false, 9);
            rack.on_delivered(now, &segment(epoch, index, packet_number, 1), ms(120));
        };
        let mut rack = Rack::new(Reordering::UntilLoss);
        deliver(&mut rack, at(105), 5, 5);
        deliver(&mut rack, at(110), 4, 4);
        assert!(!rack.reorders(), "within a smoothed round trip");
        deliver(&mut rack, at(130), 3, 3);
        // Due at 123 ms: 7 ms late. As nothing was lost yet, it may become a round trip.
        assert_eq!(rack.reordering_window(&times(at(130), false), 0), ms(120));
        rack.on_loss();
        assert_eq!(
            rack.reordering_window(&times(at(130), true), 0),
            ms(25),
            "a quarter is more than twice 7 ms"
        );
        deliver(&mut rack, at(155), 2, 2);
        assert_eq!(rack.reordering_window(&times(at(155), true), 0), 2 * ms(33));
        for _ in 0..WIDENED_RECOVERIES {
            rack.on_recovered(false);
        }
        assert_eq!(rack.reordering_window(&times(at(155), true), 0), ms(33) * 5 / 4);
        for _ in 0..WIDENED_RECOVERIES {
            rack.on_recovered(false);
        }
        assert_eq!(rack.reordering_window(&times(at(155), true), 0), ms(25), "forgotten");
    }

    #[test]
    fn full_sack_list_shows_no_reordering() {
        let epoch = epoch();
        let mut rack = Rack::new(Reordering::UntilLoss);
        for (at, index, full) in [(105, 5, true), (130, 3, false)] {
            let now = epoch + ms(at);
            rack.on_ack_begins(now, ms(120), full, 9);
            rack.on_delivered(now, &segment(epoch, index, index, 1), ms(120));
        }
        assert!(!rack.reorders() && !rack.reordering_seen);
    }

    #[test]
    fn expected_reordering_delays_loss_by_quarter_rtt() {
        let epoch = epoch();
        // Four segments a millisecond apart; the ACK of the last three arrives at 103 ms.
        for (reordering, due) in [(Reordering::OnceSeen, None), (Reordering::UntilLoss, Some(ms(128)))] {
            let mut rack = Rack::new(reordering);
            let mut board = Scoreboard::new(Numbering::Bytes);
            let mut sent_packets = SentPackets::new(0);
            for packet_number in 0..4 {
                board.push(epoch + ms(packet_number), 1000, packet_number);
            }
            let now = epoch + ms(103);
            board.sack(&(MSS..4 * MSS), |run| rack.on_delivered(now, run.first, ms(120)));
            let mut lost = Vec::new();
            let again =
                rack.detect(&times(now, false), &mut board, &mut sent_packets, |s, _| lost.push(s.offset));
            assert_eq!(again, due.map(|due| epoch + due), "{reordering:?}");
            assert_eq!(lost.len(), usize::from(due.is_none()), "{reordering:?}");
            let late = times(epoch + ms(128), false);
            rack.detect(&late, &mut board, &mut sent_packets, |s, _| lost.push(s.offset));
            assert_eq!(lost, [0], "{reordering:?}");
        }
    }

    #[test]
    fn timeout_age_follows_newest_round_trip() {
        let epoch = epoch();
        let mut rack = Rack::new(Reordering::OnceSeen);
        let at_timeout = times(epoch + ms(700), false);
        assert_eq!(rack.timeout_age(&at_timeout, 0), None);
        // A queue grows: srtt is 120 ms, the newest round trip 600 ms.
        rack.on_ack_begins(epoch + ms(600), ms(120), false, 9);
        rack.on_delivered(epoch + ms(600), &segment(epoch, 3, 0, 1), ms(120));
        assert_eq!(rack.timeout_age(&at_timeout, 3 * MSS), Some(ms(600)));
        assert_eq!(rack.timeout_age(&at_timeout, MSS), Some(ms(625)), "a quarter of the smallest");
    }

    #[test]
    fn spurious_recovery_restores_wait() {
        for (reordering, spurious, window) in [
            (Reordering::UntilLoss, true, ms(25)),
            (Reordering::UntilLoss, false, ms(0)),
            (Reordering::OnceSeen, true, ms(0)),
        ] {
            let mut rack = Rack::new(reordering);
            rack.on_loss();
            rack.on_recovered(spurious);
            let times = times(epoch(), true);
            assert_eq!(rack.reordering_window(&times, 0), window, "{reordering:?} {spurious}");
        }
    }
}
