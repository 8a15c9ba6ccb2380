//! Loss recovery: loss detection and retransmission ([`LossRecovery`]), outstanding segments
//! ([`Flight`]), and the RTT estimator.

mod base_only;
mod dup_acks;
mod engine;
mod episode;
mod events;
mod flight;
mod rack;
mod receiver_drops;
mod rto;
mod rtt;
pub(crate) mod scoreboard;
mod sent_packets;
mod tail_loss_probe;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

pub(crate) use base_only::BaseOnly;
pub(crate) use engine::Engine;
pub(crate) use events::{
    AckArrival, AckOutcome, Ended, Expired, Lost, LostTo, Probe, Resent, Timeout, Timing, Verdict,
    WindowUpdate,
};
pub(crate) use flight::Flight;
pub use rack::Reordering;
pub use rto::RtoPolicy;
pub(crate) use rto::doubled;
pub(crate) use rtt::{Rtt, RttQuality};
pub(crate) use scoreboard::{Fate, Scoreboard, Segment, SegmentRun};
pub(crate) use sent_packets::{SentPacket, SentPackets};

/// Rules of loss detection and retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossDetection {
    /// RACK and the tail loss probe (RFC 8985).
    Rack,
    /// SACK-based recovery (RFC 6675).
    Sack,
    /// `NewReno`: duplicate and partial ACKs (RFC 5681, RFC 6582).
    NewReno,
    /// Reno: duplicate ACKs alone (RFC 5681). The first ACK that advances `snd_una` ends fast
    /// recovery, so a second hole needs three more duplicate ACKs or a timeout.
    Reno,
    /// Tahoe: the third duplicate ACK counts as a timeout. There is no fast recovery.
    Tahoe,
    /// Only the oldest packet is ever retransmitted, on timeout or on exactly the third duplicate
    /// ACK: the rule of the classic format's reference sender.
    BaseOnly,
}

impl LossDetection {
    const ALL: [(&'static str, Self); 6] = [
        ("rack", Self::Rack),
        ("sack", Self::Sack),
        ("newreno", Self::NewReno),
        ("reno", Self::Reno),
        ("tahoe", Self::Tahoe),
        ("base-only", Self::BaseOnly),
    ];

    /// True if the rule uses SACK blocks; the others use only the cumulative ACK.
    pub(crate) fn uses_sack(self) -> bool {
        matches!(self, Self::Rack | Self::Sack)
    }

    /// True if PRR limits sending during fast recovery. Reno has the window of RFC 5681: `ssthresh`
    /// and one segment for each duplicate ACK.
    pub(crate) fn uses_prr(self) -> bool {
        !matches!(self, Self::Reno | Self::Tahoe)
    }
}

impl fmt::Display for LossDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, rule)| rule == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for LossDetection {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, rule)| *rule).ok_or("must be rack, sack, newreno, reno, tahoe or base-only")
    }
}

/// Transmission that loss recovery requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// A tail loss probe: new data if the receive window has room, else the last segment again.
    Probe,
    Repeat(Repeat),
}

/// A retransmission that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// Stream offset of the segment.
    pub(crate) offset: u64,
    pub(crate) reason: Resend,
    pub(crate) leave: Leave,
}

/// Condition for a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// At once, even if the congestion window is full.
    Forced,
    /// When the congestion window has room.
    InWindow,
    /// After an earlier retransmission is acknowledged.
    AfterAnswer,
}

pub(crate) use crate::observer::Resend;

/// Loss recovery: detects losses, chooses retransmissions, and owns the timers of data.
///
/// Calls for each ACK, in this order: [`on_ack_begins`](Self::on_ack_begins),
/// [`on_delivered`](Self::on_delivered) for every run of newly acknowledged segments,
/// [`on_ack`](Self::on_ack), and after the congestion controller [`rearm`](Self::rearm).
pub(crate) trait LossRecovery: fmt::Debug + Send {
    /// Handles the first transmission of segments. `timing.may_wait` is true if nothing else is in
    /// flight.
    fn on_sent(&mut self, now: Instant, timing: &Timing<'_>);

    /// Handles the division of the segment of packet `packet_number` into smaller ones, which will
    /// be retransmitted.
    fn on_recut(&mut self, _packet_number: u64) {}

    fn on_resent(&mut self, resent: &Resent<'_>);

    fn on_probe_sent(&mut self, _probe: Probe) {}

    /// Excuses a path MTU probe, packet `packet_number`: its loss is no sign of congestion.
    fn excuse(&mut self, packet_number: Option<u64>);

    /// Handles the end of the handshake. Early data may be in flight.
    fn on_open(&mut self, _now: Instant, _timing: &Timing<'_>, _board: &Scoreboard) {}

    /// Stops all timers, and ends the recovery episode without a verdict.
    fn forget_episode(&mut self) {}

    fn set_max_ack_delay(&mut self, _delay: Duration) {}

    /// Prepares for an ACK that the scoreboard will process.
    fn on_ack_begins(&mut self, _ack: &AckArrival<'_>) {}

    /// Handles the delivery of a run of segments, newly acknowledged.
    fn on_delivered(&mut self, _run: &SegmentRun<'_>, _ack: &AckArrival<'_>) {}

    /// Detects losses after an ACK.
    fn on_ack(&mut self, ack: &AckOutcome, timing: &Timing<'_>, flight: &mut Flight) -> Verdict;

    /// Restarts the timers after an ACK.
    fn rearm(&mut self, ack: &AckOutcome, timing: &Timing<'_>, board: &Scoreboard);

    fn on_timeout(&mut self, timeout: &Timeout<'_>, flight: &mut Flight) -> (Expired, Vec<Lost>);

    /// Returns the transmission that is due next.
    fn next(&self, board: &Scoreboard) -> Option<Pending>;

    /// Returns the deadline of the next timer.
    fn deadline(&self) -> Option<Instant> {
        self.timers().into_iter().flatten().min()
    }

    /// Returns the deadlines of retransmission, tail loss probe and reordering.
    fn timers(&self) -> [Option<Instant>; 3];

    /// Stops all timers.
    fn stop(&mut self);

    /// True if any lost segment is retransmitted when the congestion window allows it; false if
    /// only the oldest segment ever is.
    fn marks_losses(&self) -> bool;

    /// True if an ACK that advances `snd_una` only restarts the timer, so that the last of several
    /// ACKs suffices.
    fn coalesces_acks(&self) -> bool {
        false
    }

    /// True if reordering delayed segments by more than `srtt` lately.
    fn reorders(&self) -> bool {
        false
    }

    /// True if duplicate ACKs show that data beyond the oldest segment arrived.
    fn repeats_base(&self) -> bool {
        false
    }
}
