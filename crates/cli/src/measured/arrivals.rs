//! Arrivals of numbered datagrams: distinct ones, second copies, order and jitter.

use std::time::{Duration, Instant};

use rdt_crypto::{Received, ReplayWindow};
use rdt_udp::Jitter;

use super::message::Report;

/// Copies are recognized up to here below the highest number; datagrams far below count as copies.
const WINDOW: u64 = 1 << 16;
/// Added to transit times so that they are positive whatever the clocks' zeros: more than the
/// longest measurement.
const OFFSET: Duration = Duration::from_secs(4 * 86_400);

#[derive(Debug)]
pub(super) struct Arrivals {
    /// Datagrams sent earlier than this after the start are not counted.
    omit: Duration,
    begun_at: Instant,
    seen: ReplayWindow,
    first_at: Option<Instant>,
    last_at: Option<Instant>,
    jitter: Jitter,
    counts: Report,
}

impl Arrivals {
    pub(super) fn new(omit: Duration, begun_at: Instant) -> Self {
        let mut seen = ReplayWindow::new();
        // It has a size of four times this number.
        seen.cover(WINDOW / 2);
        Self {
            omit,
            begun_at,
            seen,
            first_at: None,
            last_at: None,
            jitter: Jitter::default(),
            counts: Report::default(),
        }
    }

    /// Counts a datagram of `length` bytes that was sent `sent` after the start of the data.
    pub(super) fn add(&mut self, now: Instant, number: u64, sent: Duration, length: usize) {
        let is_late = self.seen.largest().is_some_and(|largest| number < largest);
        if self.seen.enter(number) != Received::New {
            self.counts.duplicates += u64::from(sent >= self.omit);
            return;
        }
        let at = now.saturating_duration_since(self.begun_at);
        self.jitter.add((at + OFFSET).saturating_sub(sent));
        if sent < self.omit {
            return;
        }
        self.counts.datagrams += 1;
        self.counts.bytes += length as u64;
        self.counts.reordered += u64::from(is_late);
        self.first_at.get_or_insert(now);
        self.last_at = Some(now);
    }

    pub(super) fn report(&self) -> Report {
        let elapsed = self.first_at.zip(self.last_at);
        Report {
            elapsed: elapsed.map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first)),
            jitter: Duration::try_from_secs_f64(self.jitter.seconds()).unwrap_or_default(),
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use rdt_udp::clock;

    use super::*;

    fn counts(omit: u64, datagrams: &[(u64, u64)]) -> (u64, u64, u64) {
        let now = clock::now();
        let mut arrivals = Arrivals::new(Duration::from_millis(omit), now);
        for (number, sent) in datagrams {
            let sent = Duration::from_millis(*sent);
            arrivals.add(now + sent, *number, sent, 100);
        }
        let report = arrivals.report();
        assert_eq!(report.bytes, report.datagrams * 100);
        (report.datagrams, report.reordered, report.duplicates)
    }

    #[test]
    fn copies_and_late_datagrams_are_told_apart() {
        assert_eq!(counts(0, &[(0, 0), (1, 1), (3, 3), (2, 2), (3, 3), (0, 0)]), (4, 1, 2));
        let far = 10 * WINDOW + 3;
        assert_eq!(counts(0, &[(0, 0), (far, 1), (far - 64, 1), (far - 64, 1), (3, 0)]), (3, 1, 2));
    }

    #[test]
    fn jumps_of_numbers_cost_no_loop() {
        let jumps: Vec<_> = (0..2000).map(|jump| (jump * WINDOW, 0)).collect();
        assert_eq!(counts(0, &jumps), (2000, 0, 0));
        let ends = [(0, 0), (WINDOW - 1, 0), (WINDOW, 0), (0, 0), (1, 0), (2 * WINDOW, 0), (WINDOW + 1, 0)];
        assert_eq!(counts(0, &ends), (6, 2, 1));
        let last = u64::MAX;
        assert_eq!(counts(0, &[(0, 0), (last - 1, 0), (last - 1, 0), (last, 0), (last - 2, 0)]), (4, 1, 1));
    }

    #[test]
    fn omitted_start_counts_nothing() {
        assert_eq!(counts(10, &[(0, 0), (1, 9), (1, 9), (2, 10), (3, 11)]), (2, 0, 0));
    }

    #[test]
    fn steady_transit_has_no_jitter() {
        let now = clock::now();
        let mut arrivals = Arrivals::new(Duration::ZERO, now);
        for number in 0..10 {
            // The sender's clock began an hour earlier.
            let sent = Duration::from_secs(3600) + Duration::from_millis(number);
            arrivals.add(now + Duration::from_millis(number), number, sent, 1);
        }
        let report = arrivals.report();
        assert_eq!((report.jitter, report.elapsed), (Duration::ZERO, Duration::from_millis(9)));
    }
}
