//! Values that the sender and loss recovery exchange.

use std::time::{Duration, Instant};

use super::{Rtt, Segment};
use crate::LossTrigger;
use crate::congestion::{Cause, SentState};

/// A segment declared lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) offset: u64,
    /// Packet number of the segment's last transmission.
    pub(crate) packet_number: u64,
    pub(crate) bytes: u32,
    /// Delivery-rate state at the segment's last transmission; `None` if the record is gone.
    pub(crate) state: Option<SentState>,
    pub(crate) trigger: LossTrigger,
    /// True if the receiver's socket dropped the segment (see
    /// [`ReceiverDrops`](super::receiver_drops)).
    pub(crate) to_socket: bool,
}

impl Lost {
    pub(super) fn new(segment: &Segment, state: Option<SentState>, trigger: LossTrigger) -> Self {
        Self {
            offset: segment.offset,
            packet_number: segment.packet_number,
            bytes: segment.len,
            state,
            trigger,
            to_socket: false,
        }
    }
}

/// State from which timers are set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing<'a> {
    pub(crate) rtt: &'a Rtt,
    /// True if so little is outstanding that the receiver may delay its ACK.
    pub(crate) may_wait: bool,
}

/// Retransmission of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resent<'a> {
    pub(crate) now: Instant,
    pub(crate) timing: Timing<'a>,
    /// False while the receive window is closed, so that only the retransmission timer runs and no
    /// probe.
    pub(crate) has_room: bool,
    /// Time left until the sender aborts the transfer.
    pub(crate) time_left: Duration,
    /// Record of the segment before this retransmission.
    pub(crate) before: Segment,
}

/// Tail loss probe that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) packet_number: u64,
    /// End of the data sent so far, stream offset.
    pub(crate) end: u64,
    /// True if the probe retransmitted a segment, false if it was new data.
    pub(crate) repeated: bool,
    /// Count of duplicate packets reported by the receiver so far.
    pub(crate) duplicates: u32,
}

/// Effect of an ACK on the receive window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WindowUpdate {
    /// True if the window has room for a full packet.
    pub(crate) has_room: bool,
    /// True if the window had no room before this ACK.
    pub(crate) was_closed: bool,
    /// True if the window opened after the receiver dropped the oldest segment for lack of room;
    /// that segment may be retransmitted at once.
    pub(crate) reopened: bool,
    /// Time until the next zero-window probe, if this ACK answered a probe and the window is still
    /// closed.
    pub(crate) persist: Option<Duration>,
}

/// Effect of an ACK on the scoreboard and the estimators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckOutcome {
    pub(crate) now: Instant,
    /// True if the ACK advanced `snd_una`.
    pub(crate) moved: bool,
    /// True if the ACK is a duplicate: `snd_una` and window unchanged, and the window has room (RFC
    /// 5681, section 2).
    pub(crate) repeats: bool,
    /// Bytes newly delivered, in order or not.
    pub(crate) bytes: u64,
    /// Part of `bytes` that left before the path changed: the congestion controller of the new
    /// path does not count them.
    pub(crate) old_path_bytes: u64,
    /// Largest packet number in this ACK (native).
    pub(crate) largest_acked: Option<u64>,
    /// The receiver's count of duplicate packets.
    pub(crate) duplicates: u32,
    /// The receiver's count of messages dropped by its socket (native).
    pub(crate) overflow: Option<u32>,
    pub(crate) window: WindowUpdate,
    /// RTT sample of this ACK.
    pub(crate) latest_rtt: Option<Duration>,
    pub(crate) mss: u64,
}

impl AckOutcome {
    /// Returns the outcome that changes nothing: input of loss detection when a timer fires instead
    /// of an ACK.
    pub(crate) fn none(now: Instant, mss: u64, duplicates: u32, has_room: bool) -> Self {
        Self {
            now,
            moved: false,
            repeats: false,
            bytes: 0,
            old_path_bytes: 0,
            largest_acked: None,
            duplicates,
            overflow: None,
            window: WindowUpdate { has_room, ..WindowUpdate::default() },
            latest_rtt: None,
            mss,
        }
    }

    /// True if the timers of data may change: the ACK delivered data, or it sets the time of the
    /// next zero-window probe.
    pub(crate) fn restarts_timers(&self) -> bool {
        self.moved || self.bytes > 0 || self.window.persist.is_some() || self.window.reopened
    }
}

/// ACK before the scoreboard applies it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckArrival<'a> {
    pub(crate) now: Instant,
    pub(crate) rtt: &'a Rtt,
    /// Largest packet number in this ACK (native).
    pub(crate) largest_acked: Option<u64>,
    pub(crate) next_number: u64,
    /// True if the ACK has the maximum number of SACK blocks, so that it may omit some.
    pub(crate) full: bool,
}

/// Result of loss detection after an ACK.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Segments newly declared lost.
    pub(crate) lost: Vec<Lost>,
    /// True if a recovery episode began.
    pub(crate) begins: bool,
    /// Number of duplicate ACKs of the oldest segment, if the rule counts them.
    pub(crate) dup_acks: Option<u32>,
    /// Cause of the episode before this ACK, even if the ACK ends it.
    pub(crate) episode: Option<Cause>,
    pub(crate) ended: Option<Ended>,
}

/// End of a recovery episode or of a tail loss probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All losses are repaired.
    Recovered,
    /// The episode was spurious: the originals of all retransmissions arrived.
    Spurious {
        /// True if a timeout began the episode.
        timeout: bool,
        /// RTT of the original transmission of the first segment retransmitted.
        late_rtt: Option<Duration>,
    },
    /// The tail loss probe repaired a loss.
    RepairedByProbe,
}

/// Presumed cause of a retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostTo {
    /// Closed receive window: the packet was a zero-window probe, and nothing is lost.
    NoRoom,
    /// Path MTU: the packet's size was not confirmed, so its loss is no sign of congestion.
    Size,
    Network,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeout<'a> {
    pub(crate) rtt: &'a Rtt,
    /// [`AckOutcome::none`]: no ACK arrived.
    pub(crate) no_ack: AckOutcome,
    /// RTO after one more back-off.
    pub(crate) next_rto: Duration,
    pub(crate) lost_to: LostTo,
}

/// Effect of timers that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// No congestion event.
    Nothing,
    /// Losses were detected, and an episode began.
    Episode,
    /// The retransmission timer fired; `episode` is true if that began an episode that is reported.
    /// Zero-window probes begin none.
    Timeout { episode: bool },
    /// The oldest segment has reached its limit of transmissions.
    Exhausted,
}
