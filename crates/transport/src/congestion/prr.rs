//! Proportional rate reduction (RFC 9937, obsoletes RFC 6937): limits sending during loss recovery,
//! so that the flight reaches `ssthresh` at its end and ACKs keep clocking data out.
//!
//! Each recovery episode has a [`Prr`] of its own. Byte counts are stream payload.

/// Effect of an ACK during recovery, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrrAck {
    /// Newly delivered, by cumulative ACK or SACK (`DeliveredData`). Without SACK: one segment per
    /// duplicate ACK, subtracted from the next cumulative ACK (RFC 9937, section 6.2).
    pub delivered: u64,
    /// In flight after the ACK and after loss detection (`pipe` of RFC 6675, `inflight` of RFC
    /// 9937).
    pub pipe: u64,
    /// Target flight at the end of recovery.
    pub ssthresh: u64,
    /// True if the cumulative ACK advanced without further loss (`safeACK`).
    pub safe: bool,
}

/// State of one recovery episode.
#[derive(Debug, Clone)]
#[expect(clippy::struct_field_names, reason = "the names are the RFC's")]
pub(crate) struct Prr {
    mss: u64,
    recover_fs: u64,
    prr_delivered: u64,
    prr_out: u64,
    /// Remaining allowance before the next ACK, bytes.
    pub(crate) sndcnt: u64,
}

impl Prr {
    /// Starts recovery with `recover_fs` outstanding bytes and segments of `mss` bytes.
    /// `recover_fs` is `snd_nxt` - `snd_una` without the bytes that SACK reported earlier, plus the
    /// bytes cumulatively acknowledged by the ACK that starts recovery (RFC 9937, section 6.1).
    pub(crate) fn new(mss: u64, recover_fs: u64) -> Self {
        Self { mss, recover_fs: recover_fs.max(1), prr_delivered: 0, prr_out: 0, sndcnt: 0 }
    }

    /// Processes an ACK, including the one that starts recovery. Returns the bytes that may be sent
    /// now (`sndcnt`); the window is `pipe` plus this.
    ///
    /// The proportional part is rounded up to whole segments: a fraction would only delay a
    /// segment. Unused allowance is kept, since each ACK counts from the start of the episode.
    pub(crate) fn on_ack(&mut self, ack: &PrrAck) -> u64 {
        if ack.delivered == 0 {
            return self.sndcnt;
        }
        self.prr_delivered += ack.delivered;
        self.sndcnt = if ack.pipe > ack.ssthresh {
            self.proportional(ack.ssthresh).saturating_sub(self.prr_out)
        } else {
            let banked = self.prr_delivered.saturating_sub(self.prr_out).max(ack.delivered);
            let bound = if ack.safe { banked + self.mss } else { banked };
            bound.min(ack.ssthresh - ack.pipe)
        };
        if self.prr_out == 0 {
            // Never delay the fast retransmit.
            self.sndcnt = self.sndcnt.max(self.mss);
        }
        self.sndcnt
    }

    /// Reports sent bytes, including retransmissions.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.prr_out += bytes;
        self.sndcnt = self.sndcnt.saturating_sub(bytes);
    }

    /// `CEIL(prr_delivered * ssthresh / RecoverFS)`, rounded up to segments.
    fn proportional(&self, ssthresh: u64) -> u64 {
        let target = u128::from(self.prr_delivered) * u128::from(ssthresh);
        let segments = target.div_ceil(u128::from(self.recover_fs) * u128::from(self.mss));
        u64::try_from(segments).unwrap_or(u64::MAX).saturating_mul(self.mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segment size, bytes; not 1, so that fractions of segments exist.
    const MSS: u64 = 1000;

    /// Flight with its first segments lost, and one ACK for each other segment. In segments.
    struct Flight {
        prr: Prr,
        pipe: u64,
        ssthresh: u64,
    }

    impl Flight {
        /// `pipe` is the flight before the first ACK, without the segment that it acknowledges.
        fn new(recover_fs: u64, ssthresh: u64, pipe: u64) -> Self {
            Self { prr: Prr::new(MSS, recover_fs * MSS), pipe: pipe + 1, ssthresh: ssthresh * MSS }
        }

        /// Acknowledges one segment and returns the number of segments sent in response.
        fn ack(&mut self, safe: bool) -> u64 {
            self.pipe -= 1;
            let ack = PrrAck { delivered: MSS, pipe: self.pipe * MSS, ssthresh: self.ssthresh, safe };
            let sent = self.prr.on_ack(&ack) / MSS;
            self.prr.on_sent(sent * MSS);
            self.pipe += sent;
            sent
        }

        fn acks(&mut self, count: usize, safe: bool) -> Vec<u64> {
            (0..count).map(|_| self.ack(safe)).collect()
        }
    }

    #[test]
    fn rfc_example_one_lost_of_twenty() {
        // RFC 6937, section 3.1. Two ACKs release new data (RFC 3042), the third starts recovery:
        // 22 outstanding, ssthresh 11, and 22 - 3 - 1 in flight. Expected is the row `sent` of the
        // figure for ACKs 3 to 19: R, then N at 5, 7, ... 15, 18 and 19.
        let mut flight = Flight::new(22, 11, 18);
        assert_eq!(flight.acks(17, true), [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]);
        assert_eq!(flight.pipe, 11);
    }

    #[test]
    fn rfc_example_fifteen_lost_of_twenty() {
        // 22 outstanding, 15 lost, three delivered: 4 in flight when recovery begins.
        let mut slow_start_bound = Flight::new(22, 11, 4);
        assert_eq!(slow_start_bound.acks(3, true), [2, 2, 2]);
        assert_eq!(slow_start_bound.pipe, 8);
        let mut conservative_bound = Flight::new(22, 11, 4);
        assert_eq!(conservative_bound.acks(3, false), [1, 1, 1]);
        assert_eq!(conservative_bound.pipe, 5);
    }

    #[test]
    fn episodes_match_oracle_table() {
        const TABLE: &str = include_str!("../../tests/oracles/prr.csv");
        let mut rows = 0;
        let mut case = "";
        let mut flight = Flight::new(1, 1, 1);
        for line in TABLE.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let count = |i: usize| cells[i].parse::<u64>().unwrap();
            if case != cells[0] {
                case = cells[0];
                flight = Flight::new(count(1), count(2), count(5));
            }
            assert_eq!(flight.pipe - 1, count(5), "{line}");
            assert_eq!(flight.ack(true), count(7), "{line}");
            assert_eq!(
                (flight.prr.prr_delivered, flight.prr.prr_out),
                (count(4) * MSS, count(8) * MSS),
                "{line}"
            );
            assert_eq!(flight.pipe, count(9), "{line}");
            rows += 1;
        }
        assert_eq!(rows, 75);
    }

    #[test]
    fn flight_ends_at_ssthresh() {
        for outstanding in 4..200 {
            for (share, of) in [(1, 2), (7, 10), (17, 20)] {
                let ssthresh = (outstanding * share / of).max(2);
                let mut flight = Flight::new(outstanding, ssthresh, outstanding - 2);
                let sent: u64 = flight.acks(usize::try_from(outstanding - 1).unwrap(), true).iter().sum();
                assert_eq!(flight.pipe, ssthresh, "{outstanding} to {ssthresh}");
                assert!(sent <= ssthresh + 1, "{outstanding} to {ssthresh}: {sent} sent");
            }
        }
    }

    #[test]
    fn unused_allowance_is_kept() {
        let mut prr = Prr::new(MSS, 20 * MSS);
        let ack = |pipe: u64| PrrAck { delivered: MSS, pipe: pipe * MSS, ssthresh: 10 * MSS, safe: false };
        // Fast retransmit, then nine ACKs without data to send.
        assert_eq!(prr.on_ack(&ack(18)), MSS);
        prr.on_sent(MSS);
        let allowed: Vec<u64> = (0..9).map(|i| prr.on_ack(&ack(18 - i)) / MSS).collect();
        // CEIL(n / 2) - 1 for n = 2, ... 9. Then 10 delivered, 1 sent, and the flight equals
        // ssthresh.
        assert_eq!(allowed, [0, 1, 1, 2, 2, 3, 3, 4, 0]);
        // 11 delivered, 1 sent: limited by ssthresh minus the flight.
        assert_eq!(prr.on_ack(&ack(4)), 6 * MSS);
    }

    #[test]
    fn fast_retransmit_is_never_delayed() {
        // Without the exception the allowance is 0: the flight equals ssthresh.
        let mut prr = Prr::new(MSS, 10 * MSS);
        let ack = PrrAck { delivered: 100, pipe: 7000, ssthresh: 7000, safe: false };
        assert_eq!(prr.on_ack(&ack), MSS);
        prr.on_sent(MSS);
        assert_eq!(prr.on_ack(&ack), 0);
    }

    #[test]
    fn ack_without_delivery_changes_nothing() {
        let mut prr = Prr::new(MSS, 20 * MSS);
        let ack = PrrAck { delivered: 2 * MSS, pipe: 4 * MSS, ssthresh: 10 * MSS, safe: true };
        assert_eq!(prr.on_ack(&ack), 3 * MSS);
        prr.on_sent(MSS);
        assert_eq!(prr.on_ack(&PrrAck { delivered: 0, ..ack }), 2 * MSS);
        assert_eq!(prr.sndcnt, 2 * MSS);
    }

    #[test]
    fn segment_fractions_are_kept() {
        // ACKs of 300 bytes at a ratio of 1/2: 150 n bytes after n ACKs, rounded up to segments.
        let mut prr = Prr::new(MSS, 20 * MSS);
        for n in 1_u64..=30 {
            let ack = PrrAck { delivered: 300, pipe: 15 * MSS, ssthresh: 10 * MSS, safe: true };
            let allowed = prr.on_ack(&ack);
            prr.on_sent(allowed);
            assert_eq!(prr.prr_out, (150 * n).div_ceil(MSS) * MSS, "ACK {n}");
        }
    }
}
