//! Values that the sender and loss recovery exchange.

use std::time::{Duration, Instant};

use super::{Rtt, Segment, SegmentRun};
use crate::LossTrigger;
use crate::congestion::{Cause, SentState};

/// A segment declared lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) offset: u64,
    /// Number of its last transmission.
    pub(crate) tx: u64,
    pub(crate) bytes: u32,
    /// How the connection stood when it was sent, where that is still known.
    pub(crate) state: Option<SentState>,
    pub(crate) trigger: LossTrigger,
    /// The receiver's socket had no room for it.
    pub(crate) to_socket: bool,
}

impl Lost {
    pub(super) fn new(segment: &Segment, state: Option<SentState>, trigger: LossTrigger) -> Self {
        Self { offset: segment.offset, tx: segment.tx, bytes: segment.len, state, trigger, to_socket: false }
    }
}

/// Durations that timers are set from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) rto: Duration,
    /// `None` until it was measured on the whole path.
    pub(crate) srtt: Option<Duration>,
    /// The receiver may delay its ACK of all that is outstanding.
    pub(crate) may_wait: bool,
}

/// A segment that was sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resent {
    pub(crate) now: Instant,
    /// `srtt` is absent while the receiver has no room: then the retransmission timer alone asks
    /// again.
    pub(crate) timing: Timing,
    /// Time left until the receiver is given up.
    pub(crate) patience: Duration,
    /// The segment before that.
    pub(crate) before: Segment,
}

/// A tail loss probe that left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// Number of its transmission.
    pub(crate) tx: u64,
    /// One past the highest byte sent by then.
    pub(crate) end: u64,
    /// It repeated a segment.
    pub(crate) repeated: bool,
    /// Duplicates that the receiver had reported by then.
    pub(crate) duplicates: u32,
}

/// Effect of an ACK on the receiver's window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WindowUpdate {
    /// The window has room for a full packet.
    pub(crate) has_room: bool,
    /// It had none before this ACK.
    pub(crate) was_closed: bool,
    /// It opened, and the receiver had refused the oldest segment, which may leave again at once.
    pub(crate) reopened: bool,
    /// Time until the next zero-window probe, if this ACK answered the one before without room.
    pub(crate) persist: Option<Duration>,
}

/// Effect of an ACK on the scoreboard and the estimators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckOutcome {
    pub(crate) now: Instant,
    /// The cumulative edge moved.
    pub(crate) moved: bool,
    /// It is a duplicate ACK: edge and window as before, and the window has room (RFC 5681, section
    /// 2).
    pub(crate) repeats: bool,
    /// Bytes newly delivered, in order or not.
    pub(crate) bytes: u64,
    /// Number of the newest transmission that the receiver has, where the wire says.
    pub(crate) largest_tx: Option<u64>,
    /// Packets that the receiver had already, so far.
    pub(crate) duplicates: u32,
    /// Drops in the receiver's socket so far, where the wire says.
    pub(crate) overflow: Option<u32>,
    pub(crate) window: WindowUpdate,
    /// The round-trip sample that it gave.
    pub(crate) latest_rtt: Option<Duration>,
    pub(crate) mss: u64,
    /// The timers restart from this if the window reopened.
    pub(crate) reopened: Option<Timing>,
}

impl AckOutcome {
    /// The timers of data may change: something was delivered, or the window says when to probe it.
    pub(crate) fn restarts_timers(&self) -> bool {
        self.moved || self.bytes > 0 || self.window.persist.is_some() || self.reopened.is_some()
    }
}

/// Segments that an ACK newly acknowledges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered<'a> {
    pub(crate) now: Instant,
    pub(crate) run: &'a SegmentRun,
    /// The newest transmission that the receiver has, where the wire says.
    pub(crate) largest_tx: Option<u64>,
    /// Number of the next transmission.
    pub(crate) next_tx: u64,
    pub(crate) srtt: Duration,
}

/// Judgement of what is outstanding after an ACK.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Segments newly declared lost.
    pub(crate) lost: Vec<Lost>,
    /// An episode of recovery began.
    pub(crate) begins: bool,
    /// Duplicate ACKs of the oldest segment so far, under a rule that counts them.
    pub(crate) dup_acks: Option<u32>,
    /// Cause of the episode that was on, that which ended included.
    pub(crate) episode: Option<Cause>,
    /// The episode ended.
    pub(crate) ended: Option<Ended>,
}

/// How an episode, or an episode of probing, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything that was lost is repaired.
    Recovered,
    /// The episode was unnecessary: every segment sent again had arrived.
    Spurious {
        /// The timer had fired too early.
        timeout: bool,
        /// Round trip of the first segment sent again, measured from its only transmission before.
        late_rtt: Option<Duration>,
    },
    /// A probe repaired a loss.
    RepairedByProbe,
}

/// Cause to which a retransmission timeout is put down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostTo {
    /// The receiver had no room: the packet was a zero-window probe, and nothing is lost.
    NoRoom,
    /// The packet tried a size that the path may not carry, which is no sign of congestion.
    Size,
    /// The network.
    Network,
}

/// State of the sender when a timer may be due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeout<'a> {
    pub(crate) rtt: &'a Rtt,
    /// As after an ACK that told nothing.
    pub(crate) quiet: AckOutcome,
    /// The timeout once the timer has fired again.
    pub(crate) next_rto: Duration,
    pub(crate) lost_to: LostTo,
}

/// Meaning of a timer that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// No event for congestion control.
    Nothing,
    /// Losses were found, and an episode begins.
    Episode,
    /// The retransmission timer fired; `episode` if that begins an episode.
    Timeout { episode: bool },
    /// The oldest segment was sent as often as it may be.
    Exhausted,
}
