//! What the rules that mark segments lost are told, and what they tell: values that the sender
//! passes on.

use std::time::{Duration, Instant};

use crate::LossTrigger;
use crate::congestion::SentState;
use crate::recovery::Segment;

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

/// What timers are set from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) rto: Duration,
    /// `None` until it was measured on the path as it is.
    pub(crate) srtt: Option<Duration>,
    /// No more is outstanding than the receiver may wait with.
    pub(crate) may_wait: bool,
}

/// What an ACK said, after the scoreboard took it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckOutcome {
    pub(crate) now: Instant,
    /// The cumulative edge moved.
    pub(crate) moved: bool,
    /// It says what the one before it said, edge and window, and the window has room (RFC 5681,
    /// section 2).
    pub(crate) repeats: bool,
    /// Bytes newly delivered, in order or not.
    pub(crate) bytes: u64,
    /// `DeliveredData` of RFC 9937: the same, but where duplicate ACKs told of it before, without
    /// saying what it was. Known once the ACK was judged.
    pub(crate) delivered: u64,
    /// Number of the newest transmission that the receiver has, where the wire says.
    pub(crate) largest_tx: Option<u64>,
    /// Packets that the receiver had already, so far.
    pub(crate) duplicates: u32,
    /// The sample that it gave.
    pub(crate) latest_rtt: Option<Duration>,
    pub(crate) srtt: Duration,
    pub(crate) rttvar: Duration,
    pub(crate) min_rtt: Duration,
    pub(crate) mss: u64,
}

/// A segment that an ACK tells to be delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered<'a> {
    pub(crate) now: Instant,
    /// As it was before.
    pub(crate) segment: &'a Segment,
    /// The newest transmission that the receiver has, where the wire says.
    pub(crate) largest_tx: Option<u64>,
    /// Number of the next transmission.
    pub(crate) next_tx: u64,
    pub(crate) srtt: Duration,
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
        /// The round trip of what was sent again first, where that had left once before.
        late_rtt: Option<Duration>,
    },
    /// A probe repaired a loss.
    RepairedByProbe,
}

/// What a timer meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Nothing that a congestion controller must hear of.
    Nothing,
    /// Losses were found, and an episode begins.
    Episode,
    /// The retransmission timer fired.
    Timeout,
}
