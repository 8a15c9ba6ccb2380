//! Loss ratio of the newest packets.

use std::time::{Duration, Instant};

use crate::recovery::AckOutcome;

/// Loss ratio, one packet in this many, above which ACKs stay frequent because they are presumably
/// lost as well. With 20 % loss each way and eight ACKs per RTT BBR reaches 0.61 of the path's rate
/// instead of 1.10.
const HEAVY_LOSS_ONE_IN: u64 = 10;
/// Packets over which the loss ratio is measured: at 20 % loss, nearly every measurement is above
/// the limit.
const LOSS_PACKETS: u64 = 128;
/// Round trips over which it is measured. Loss is heavy if two measurements in a row say so: one
/// may be of the start, which overshoots, and frequent ACKs would flood a thin return path.
const LOSS_ROUND_TRIPS: u32 = 2;

/// Whether many of the newest packets were lost.
#[derive(Debug, Default)]
pub(super) struct RecentLoss {
    /// Bytes lost and delivered in the present measurement.
    lost: u64,
    delivered: u64,
    began_at: Option<Instant>,
    /// Results of the two measurements before, the newest first.
    were_heavy: [bool; 2],
}

impl RecentLoss {
    /// Takes an ACK, and the bytes that were declared lost since the one before.
    pub(super) fn update(&mut self, outcome: &AckOutcome, srtt: Duration, lost: u64) {
        self.lost += lost;
        self.delivered += outcome.bytes;
        let elapsed = outcome.now.saturating_duration_since(*self.began_at.get_or_insert(outcome.now));
        let all = self.lost + self.delivered;
        if all >= LOSS_PACKETS * outcome.mss && elapsed >= LOSS_ROUND_TRIPS * srtt {
            self.were_heavy = [self.lost * HEAVY_LOSS_ONE_IN > all, self.were_heavy[0]];
            (self.lost, self.delivered, self.began_at) = (0, 0, Some(outcome.now));
        }
    }

    /// Returns true if loss is so heavy that ACKs are presumably lost as well.
    pub(super) fn is_heavy(&self) -> bool {
        self.were_heavy == [true; 2]
    }
}
