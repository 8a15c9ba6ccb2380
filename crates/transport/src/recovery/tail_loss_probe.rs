//! Tail loss probe (RFC 8985, section 7): if no ACK arrives for about two RTTs, or one in an
//! exchange of requests and answers, the sender sends one segment (new, or the last one again). Its
//! ACK reveals the loss of the last segments before the retransmission timer fires.

use std::time::Duration;

use super::Probe;

/// Allowance for late timers: 1 ms at the receiver and 1 ms at the sender.
const MARGIN: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(crate) struct TailLossProbe {
    /// True if a probe is due and not yet sent.
    pub(crate) pending: bool,
    /// Probe that was sent and not yet acknowledged.
    out: Option<Probe>,
}

impl TailLossProbe {
    /// Returns the probe timeout: `srtt`, plus again `srtt` (RFC 8985, section 7.2) or at least
    /// [`MARGIN`]. If `may_wait` (so little is outstanding that the receiver may delay its ACK, as
    /// with a request), the second part is four times `rttvar` (RFC 9002, section 6.2.1), but not
    /// more, plus the maximum ACK delay.
    pub(crate) fn timeout(
        (srtt, rttvar): (Duration, Duration),
        may_wait: bool,
        max_ack_delay: Duration,
    ) -> Duration {
        let (variation, delay) =
            if may_wait { (srtt.min(4 * rttvar), max_ack_delay) } else { (srtt, Duration::ZERO) };
        srtt + variation.max(MARGIN) + delay
    }

    /// True if no probe is pending or unacknowledged.
    pub(crate) fn is_ready(&self) -> bool {
        !self.pending && self.out.is_none()
    }

    pub(crate) fn on_sent(&mut self, probe: Probe) {
        self.pending = false;
        self.out = Some(probe);
    }

    /// Handles an ACK of everything below `una`. `largest_acked` is the newest transmission that
    /// arrived, `duplicates` the receiver's count of duplicate packets. Returns true if the probe
    /// repaired a loss, which counts as congestion (section 7.4.2).
    pub(crate) fn on_ack(&mut self, una: u64, largest_acked: u64, duplicates: u32) -> bool {
        self.pending = false;
        let is_decided = |probe: &mut Probe| una >= probe.end && largest_acked >= probe.packet_number;
        let decided = self.out.take_if(is_decided);
        decided.is_some_and(|probe| probe.repeated && duplicates == probe.duplicates)
    }

    /// Handles an ACK during recovery, where the outcome of a probe does not matter: the arrival of
    /// the probe allows another one.
    pub(crate) fn on_ack_in_recovery(&mut self, largest_acked: u64) {
        self.pending = false;
        self.out.take_if(|probe| probe.packet_number <= largest_acked);
    }

    /// Cancels the probe: the retransmission timer fired, or recovery began.
    pub(crate) fn cancel(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_timeout_is_two_rtts_or_one_and_its_deviation() {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        for (srtt, rttvar, alone, expected) in [
            (ms(100), ms(50), false, ms(200)),
            (ms(100), ms(5), false, ms(200)),
            (ms(100), ms(5), true, ms(145)),
            (ms(100), ms(0), true, ms(127)),
            (ms(2), ms(1), false, ms(4)),
            (us(100), us(50), false, us(2100)),
            (us(100), us(50), true, us(27_100)),
        ] {
            let timeout = TailLossProbe::timeout((srtt, rttvar), alone, ms(25));
            assert_eq!(timeout, expected, "{srtt:?}, {rttvar:?}, {alone}");
        }
    }

    /// A probe that was transmission 9, after 500 bytes and 2 reported duplicates.
    fn sent(repeated: bool) -> TailLossProbe {
        let mut probe = TailLossProbe { pending: true, out: None };
        assert!(!probe.is_ready(), "a probe is pending");
        probe.on_sent(Probe { packet_number: 9, end: 500, repeated, duplicates: 2 });
        assert!(!probe.is_ready(), "a probe is unacknowledged");
        probe
    }

    #[test]
    fn ack_of_probe_and_earlier_data_decides() {
        for (repeated, una, largest, duplicates, has_repaired, is_decided) in [
            (true, 499, 9, 2, false, false),
            (true, 500, 8, 2, false, false),
            (true, 500, 9, 2, true, true),
            (true, 500, 9, 3, false, true),
            (false, 500, 9, 2, false, true),
        ] {
            let mut probe = sent(repeated);
            assert_eq!(probe.on_ack(una, largest, duplicates), has_repaired, "{repeated} {una} {largest}");
            assert_eq!(probe.is_ready(), is_decided);
        }
    }

    #[test]
    fn recovery_allows_new_probe_after_arrival() {
        let mut probe = sent(true);
        probe.on_ack_in_recovery(8);
        assert!(!probe.is_ready());
        probe.on_ack_in_recovery(9);
        assert!(probe.is_ready());
    }
}
