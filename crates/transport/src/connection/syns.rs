//! SYNs of an initiator, numbered by attempt.

use std::time::Instant;

/// Send times of the SYNs, by attempt number. A SYN-ACK names its SYN, so
/// the RTT sample is unambiguous (Karn).
#[derive(Debug, Default)]
pub(super) struct Syns {
    sent_at: Vec<Instant>,
}

impl Syns {
    /// Returns the attempt number of the next SYN, from 1.
    pub(super) fn next(&self) -> u8 {
        u8::try_from(self.sent_at.len()).map_or(u8::MAX, |sent| sent.saturating_add(1))
    }

    /// Records the transmission of the next SYN. SYNs beyond the largest attempt number share it.
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.sent_at.truncate(usize::from(u8::MAX) - 1);
        self.sent_at.push(now);
    }

    pub(super) fn newest(&self) -> Option<Instant> {
        self.sent_at.last().copied()
    }

    pub(super) fn sent_at(&self, attempt: u8) -> Option<Instant> {
        self.sent_at.get(usize::from(attempt).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn syn_numbers_count_up_to_255() {
        let epoch = rdt_testing::epoch();
        let at = |n| epoch + Duration::from_secs(n);
        let mut syns = Syns::default();
        for n in 1..=300 {
            assert_eq!(u64::from(syns.next()), n.min(255));
            syns.on_sent(at(n));
        }
        assert_eq!([0, 1, 2, 254].map(|n| syns.sent_at(n)), [None, Some(at(1)), Some(at(2)), Some(at(254))]);
        assert_eq!(syns.sent_at(255), Some(at(300)));
    }
}
