//! Whether a SYN must prove its address before a handshake is computed for it. A SYN-ACK costs a
//! Diffie-Hellman operation and an entry among the half-open connections, and a RETRY costs the
//! initiator a round trip. So a RETRY is for times of many SYNs whose senders go no further.

use std::time::{Duration, Instant};

use crate::peers::stateless_limit::LoadLimiter;

/// Time for which SYNs need a proof after their rate exceeded the limit.
const PERIOD: Duration = Duration::from_secs(5);

/// Rule for SYNs without a valid cookie.
#[derive(Debug)]
pub(super) struct RetryPolicy {
    /// Number of unproven half-open connections at which proofs become required.
    most: usize,
    is_required: bool,
    /// Earliest time at which the requirement ends.
    until: Option<Instant>,
    /// Limit of handshakes with unproved addresses.
    handshakes: LoadLimiter,
}

impl RetryPolicy {
    /// Returns a rule for a table of this size, a quarter of which may be unproven.
    pub(super) fn new(max_half_open: usize) -> Self {
        let handshakes = LoadLimiter::of_handshakes();
        Self { most: max_half_open / 4, is_required: false, until: None, handshakes }
    }

    pub(super) fn is_required(&self) -> bool {
        self.is_required
    }

    /// True if a SYN without a proof gets a RETRY. Proofs are required of all hosts from a quarter
    /// of the half-open connections until a sixteenth, and for a while after the rate was
    /// exceeded; of one host while it has a sixteenth of the table. `of_source` are those of the
    /// `unproven` half-open connections that the host of the SYN has.
    pub(super) fn needs_proof(
        &mut self,
        now: Instant,
        unproven: usize,
        of_source: usize,
        is_busy: bool,
    ) -> bool {
        if self.is_required {
            self.is_required = unproven > self.most / 4 || self.until.is_some_and(|until| now < until);
        } else if unproven >= self.most {
            self.is_required = true;
        }
        if self.is_required || of_source >= self.most.div_ceil(4) {
            return true;
        }
        if !self.handshakes.take(now, is_busy) {
            (self.is_required, self.until) = (true, Some(now + PERIOD));
        }
        self.is_required
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_required_from_quarter_to_sixteenth_of_table() {
        let (mut policy, now) = (RetryPolicy::new(1024), rdt_testing::epoch());
        let expected = [(255, false), (256, true), (255, true), (65, true), (64, false), (255, false)];
        for (all, needs_proof) in expected {
            assert_eq!(policy.needs_proof(now, all, 0, false), needs_proof, "{all}");
        }
    }

    #[test]
    fn exceeded_rate_requires_proofs_for_5_s() {
        for (is_busy, burst) in [(false, 400), (true, 50)] {
            let (mut policy, epoch) = (RetryPolicy::new(1024), rdt_testing::epoch());
            let granted = (0..1000).filter(|_| !policy.needs_proof(epoch, 0, 0, is_busy)).count();
            assert_eq!(granted, burst);
            for (ms, needs_proof) in [(4999, true), (5000, false)] {
                let now = epoch + Duration::from_millis(ms);
                assert_eq!(policy.needs_proof(now, 0, 0, is_busy), needs_proof, "{ms} ms");
            }
        }
    }

    #[test]
    fn host_with_many_half_open_needs_proof_alone() {
        let (mut policy, now) = (RetryPolicy::new(1024), rdt_testing::epoch());
        assert!(policy.needs_proof(now, 64, 64, false));
        assert!(!policy.is_required() && !policy.needs_proof(now, 64, 0, false));
    }

    #[test]
    fn no_table_always_requires_proofs() {
        let (mut policy, now) = (RetryPolicy::new(0), rdt_testing::epoch());
        assert!(policy.needs_proof(now, 0, 0, false));
    }
}
