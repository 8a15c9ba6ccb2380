//! Loss recovery: which segment is lost, when, and what is sent again. Each rule has its file; this
//! one owns the timers of a transfer's data and the episode of recovery that is on.

mod base_only;
mod dup_acks;
mod engine;
mod events;
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

pub(crate) use base_only::{BaseOnly, Expiry};
pub(crate) use engine::Engine;
pub(crate) use events::{AckOutcome, Delivered, Ended, Expired, Lost, Timing};
pub use rack::Reordering;
pub use rto::RtoPolicy;
pub(crate) use rtt::{Rtt, RttQuality};
pub use scoreboard::Scoreboard;
pub(crate) use scoreboard::{Fate, Segment};
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

    /// True for the rules that heed selective ACKs. To the others they say no more than a plain ACK
    /// does.
    pub(crate) fn heeds_sack(self) -> bool {
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

/// The rules in force.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a sender has one, and asks it per ACK")]
pub(crate) enum Recovery {
    BaseOnly(BaseOnly),
    Engine(Engine),
}

impl Recovery {
    pub(crate) fn new(rule: LossDetection, reordering: Reordering) -> Self {
        match rule {
            LossDetection::BaseOnly => Self::BaseOnly(BaseOnly::default()),
            rule => Self::Engine(Engine::new(rule, reordering)),
        }
    }

    /// When a timer fires.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::BaseOnly(rules) => rules.deadline(),
            Self::Engine(rules) => rules.deadline(),
        }
    }

    /// When each of [`Timer::ALL`](crate::Timer) fires.
    pub(crate) fn timers(&self) -> [Option<Instant>; 4] {
        match self {
            Self::BaseOnly(rules) => [rules.deadline(), None, None, None],
            Self::Engine(rules) => rules.timers(),
        }
    }

    /// Nothing waits for an answer any more.
    pub(crate) fn stop(&mut self) {
        match self {
            Self::BaseOnly(rules) => rules.stop(),
            Self::Engine(rules) => rules.stop(),
        }
    }

    /// A segment left for the first time; `alone` if nothing else was in flight.
    pub(crate) fn on_sent(&mut self, now: Instant, rto: Duration, srtt: Option<Duration>, alone: bool) {
        match self {
            Self::BaseOnly(rules) if alone => rules.arm(now, rto),
            Self::BaseOnly(_) => {}
            Self::Engine(rules) => rules.on_sent(now, &Timing { rto, srtt, may_wait: alone }),
        }
    }
}
