//! When each SYN left that may be answered, by the number that it bears. Where the format has such
//! numbers the answer names the SYN that it is to, and nothing has to be guessed (Karn).

use std::time::{Duration, Instant};

/// The SYNs with the cookie that is known, oldest first.
#[derive(Debug, Default)]
pub(super) struct Syns {
    sent_at: Vec<Instant>,
    /// The first of all, with a cookie or without.
    first: Option<Instant>,
}

impl Syns {
    /// The next SYN is another one: it shows a cookie.
    pub(super) fn restart(&mut self) {
        self.sent_at.clear();
    }

    /// The number that the next one bears, from 1.
    pub(super) fn next(&self) -> u8 {
        u8::try_from(self.sent_at.len()).map_or(u8::MAX, |sent| sent.saturating_add(1))
    }

    /// It left; those that share the last number count as the newest of them.
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.sent_at.truncate(usize::from(u8::MAX) - 1);
        self.sent_at.push(now);
    }

    /// For how long the handshake has been going on.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        self.first.map_or(Duration::ZERO, |first| now.saturating_duration_since(first))
    }

    /// When the one with this number left; `None` if there was none.
    pub(super) fn sent_at(&self, attempt: u8) -> Option<Instant> {
        self.sent_at.get(usize::from(attempt).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syn_numbers_count_up_to_255() {
        let epoch = crate::testing::epoch();
        let at = |n| epoch + Duration::from_secs(n);
        let mut syns = Syns::default();
        for n in 1..=300 {
            assert_eq!(u64::from(syns.next()), n.min(255));
            syns.on_sent(at(n));
        }
        assert_eq!([0, 1, 2, 254].map(|n| syns.sent_at(n)), [None, Some(at(1)), Some(at(2)), Some(at(254))]);
        assert_eq!(syns.sent_at(255), Some(at(300)));
        syns.restart();
        assert_eq!((syns.next(), syns.sent_at(1)), (1, None));
    }
}
