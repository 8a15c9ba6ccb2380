//! The tail loss probe (RFC 8985, section 7): when ACKs stop coming, one segment is sent (new, or
//! the last one again) so that the loss of the last segments is repaired by their ACK and not by
//! the retransmission timer. Owns whether a probe is out.

use std::time::Duration;

use super::Probe;

/// How much later than its time an answer may come because either side's timers are coarse: a timer
/// of the receiver may be a millisecond late, and so may the sender be at its socket. On a path of
/// less than that, two round trips are none.
const MARGIN: Duration = Duration::from_millis(2);

/// A probe and what became of it.
#[derive(Debug, Default)]
pub(crate) struct TailLossProbe {
    /// A probe is due and was not sent.
    pub(crate) pending: bool,
    /// The probe that is out.
    out: Option<Probe>,
}

/// Outcome of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It repaired no loss.
    Harmless,
    /// The probe repaired a loss, which a congestion controller must hear of (section 7.4.2).
    Repaired,
}

impl TailLossProbe {
    /// The probe timeout (section 7.2): two round trips, of which the second is at least
    /// [`MARGIN`], and the receiver's delay if it may wait with all that is out: one segment, or as
    /// many as the sender lets it.
    pub(crate) fn timeout(srtt: Duration, may_wait: bool, max_ack_delay: Duration) -> Duration {
        srtt + srtt.max(MARGIN) + if may_wait { max_ack_delay } else { Duration::ZERO }
    }

    /// True if there may be another one.
    pub(crate) fn is_ready(&self) -> bool {
        !self.pending && self.out.is_none()
    }

    pub(crate) fn on_sent(&mut self, probe: Probe) {
        self.pending = false;
        self.out = Some(probe);
    }

    /// An ACK came: of everything below `una`, with the newest transmission received and how many
    /// duplicates the receiver has counted so far.
    pub(crate) fn on_ack(&mut self, una: u64, largest_tx: u64, duplicates: u32) -> Option<Ending> {
        self.pending = false;
        let probe = self.out?;
        if una < probe.end || largest_tx < probe.tx {
            return None;
        }
        self.out = None;
        let twice = duplicates != probe.duplicates;
        Some(if probe.repeated && !twice { Ending::Repaired } else { Ending::Harmless })
    }

    /// Takes an ACK during a recovery, which finds all losses itself: another probe may leave once
    /// the receiver has this one.
    pub(crate) fn on_ack_in_recovery(&mut self, largest_tx: u64) {
        self.pending = false;
        self.out.take_if(|probe| probe.tx <= largest_tx);
    }

    /// The retransmission timer fired, or a recovery began: they take over.
    pub(crate) fn cancel(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_timeout_is_two_rtts_plus_margin() {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        for (srtt, alone, expected) in [
            (ms(100), false, ms(200)),
            (ms(100), true, ms(225)),
            (ms(2), false, ms(4)),
            (us(100), false, us(2100)),
            (us(100), true, us(27_100)),
        ] {
            assert_eq!(TailLossProbe::timeout(srtt, alone, ms(25)), expected, "{srtt:?}, {alone}");
        }
    }
}
