//! Loss recovery: which segments are lost, which are sent again and when ([`LossRecovery`]), the
//! segments outstanding ([`Flight`]), and the round-trip estimator.

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

use base_only::BaseOnly;
use engine::Engine;
pub(crate) use events::{
    AckOutcome, Delivered, Ended, Expired, Lost, LostTo, Probe, Resent, Timeout, Timing, Verdict,
    WindowUpdate,
};
pub(crate) use flight::Flight;
pub use rack::Reordering;
pub use rto::RtoPolicy;
pub(crate) use rtt::{Rtt, RttQuality};
pub use scoreboard::Scoreboard;
pub(crate) use scoreboard::{Fate, Segment, SegmentRun};
pub(crate) use sent_packets::{SentPacket, SentPackets};

/// Rules by which losses are found and repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossDetection {
    /// By time: RACK and the tail loss probe (RFC 8985).
    Rack,
    /// By what was selectively acknowledged above (RFC 6675).
    Sack,
    /// By duplicate and partial ACKs (RFC 5681, RFC 6582).
    NewReno,
    /// The oldest packet alone, by the timer or on exactly the third duplicate ACK: the course's
    /// rule.
    BaseOnly,
}

impl LossDetection {
    const ALL: [(&'static str, Self); 4] = [
        ("rack", Self::Rack),
        ("sack", Self::Sack),
        ("newreno", Self::NewReno),
        ("base-only", Self::BaseOnly),
    ];

    /// True if the rule uses SACK blocks; the others use only the cumulative ACK.
    pub(crate) fn uses_sack(self) -> bool {
        matches!(self, Self::Rack | Self::Sack)
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
        found.map(|(_, rule)| *rule).ok_or("must be rack, sack, newreno or base-only")
    }
}

/// Why a segment is sent again, and which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// Its offset.
    pub(crate) offset: u64,
    pub(crate) reason: Resend,
    pub(crate) leave: Leave,
}

/// When a segment may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Whatever the congestion window says.
    Forced,
    /// As the congestion window allows.
    InWindow,
    /// Not before something else that was sent again is answered.
    AfterAnswer,
}

pub(crate) use crate::observer::Resend;

/// Rules of loss recovery: which segments are lost, which are sent again and when, and the timers
/// of data.
///
/// For each ACK: [`on_ack_begins`](Self::on_ack_begins), [`on_delivered`](Self::on_delivered) for
/// every run of segments that it acknowledges, [`on_ack`](Self::on_ack), and [`rearm`](Self::rearm)
/// once the congestion controller has answered.
pub(crate) trait LossRecovery: fmt::Debug + Send {
    /// New segments left. `timing.may_wait` says that nothing else is in flight.
    fn on_sent(&mut self, now: Instant, timing: &Timing);

    /// The segment that transmission `tx` carried was cut into smaller ones before it is sent
    /// again.
    fn on_recut(&mut self, _tx: u64) {}

    /// A segment was sent again.
    fn on_resent(&mut self, resent: &Resent);

    /// A tail loss probe left.
    fn on_probe_sent(&mut self, _probe: Probe) {}

    /// Transmission `tx` tries a larger datagram: its loss is no sign of congestion.
    fn excuse(&mut self, tx: Option<u64>);

    /// The handshake is over; early data may be in flight.
    fn on_open(&mut self, _now: Instant, _timing: &Timing, _board: &Scoreboard) {}

    /// The receiver acknowledges a single segment at the latest after `delay`.
    fn set_max_ack_delay(&mut self, _delay: Duration) {}

    /// An ACK is about to tell what was delivered. If it is `full`, it has as many SACK blocks as
    /// fit.
    fn on_ack_begins(&mut self, _now: Instant, _srtt: Duration, _full: bool, _next_tx: u64) {}

    /// A run of segments is newly acknowledged.
    fn on_delivered(&mut self, _delivered: &Delivered<'_>) {}

    /// Judges what is outstanding after an ACK.
    fn on_ack(&mut self, ack: &AckOutcome, rtt: &Rtt, flight: &mut Flight) -> Verdict;

    /// Restarts the timers after an ACK.
    fn rearm(&mut self, ack: &AckOutcome, timing: &Timing, board: &Scoreboard);

    /// A timer may be due.
    fn on_timeout(&mut self, timeout: &Timeout<'_>, flight: &mut Flight) -> (Expired, Vec<Lost>);

    /// The segment to send again next.
    fn next(&self, board: &Scoreboard) -> Option<Repeat>;

    /// When the next timer fires.
    fn deadline(&self) -> Option<Instant>;

    /// When each of [`Timer::ALL`](crate::Timer) fires; the last one is not of data.
    fn timers(&self) -> [Option<Instant>; 4];

    /// Stops all timers: no answer is awaited.
    fn stop(&mut self);

    /// True if lost segments are marked and repaired as the congestion window allows; false if only
    /// the oldest segment is ever sent again.
    fn marks_losses(&self) -> bool;

    /// True if an ACK that moves the cumulative edge does nothing but restart the timer, so that of
    /// several only the last one counts.
    fn coalesces_acks(&self) -> bool {
        false
    }

    /// True if segments were seen to arrive later than a smoothed round trip because others
    /// overtook them.
    fn reorders(&self) -> bool {
        false
    }

    /// True if a tail loss probe is to leave: new data if the receiver's window allows, else the
    /// last segment.
    fn probe_pending(&self) -> bool {
        false
    }

    /// True if ACKs tell that something beyond the oldest segment arrived.
    fn repeats_base(&self) -> bool {
        false
    }
}

/// The rules that `rule` names. `reference` selects the course's variant of
/// [`LossDetection::BaseOnly`], which declares nothing lost; `attempts` limits how often one
/// segment is sent.
pub(crate) fn build(
    rule: LossDetection,
    reordering: Reordering,
    reference: bool,
    attempts: u32,
) -> Box<dyn LossRecovery> {
    match rule {
        LossDetection::BaseOnly => Box::new(BaseOnly::new(reference, attempts)),
        rule => Box::new(Engine::new(rule, reordering)),
    }
}
