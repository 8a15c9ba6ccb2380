//! Give-up timer: how long a transfer goes on without an answer, without progress, or with nothing
//! but ICMP errors.

use std::time::{Duration, Instant};

/// Time of nothing but ICMP "port unreachable" after which a transfer fails. The error is hard (RFC
/// 1122, section 4.2.3.9), but it can be forged by a host that guesses the ports, and the cause may
/// be temporary.
const UNREACHABLE_TIME: Duration = Duration::from_secs(5);
/// Smallest number of ICMP errors within [`UNREACHABLE_TIME`].
const MIN_UNREACHABLE_REPORTS: u64 = 5;

#[derive(Debug)]
pub(super) struct GiveUpTimer {
    limit: Duration,
    /// Limit on the time without progress although answers arrive.
    no_progress: Duration,
    /// Time of the last answer that counts, or of the first packet that needs one.
    last_answer: Option<Instant>,
    /// Time of the last delivery, or of the first packet that was not delivered.
    last_progress: Option<Instant>,
    /// First ICMP error since the last packet from the receiver, or since an answer is due; and the
    /// number of errors since then.
    pub(super) unreachable: Option<(Instant, u64)>,
}

impl GiveUpTimer {
    /// Returns a stopped timer; the transfer is aborted after `limit` without an answer, or after
    /// `no_progress` with answers that acknowledge nothing.
    pub(super) fn new(limit: Duration, no_progress: Duration) -> Self {
        Self { limit, no_progress, last_answer: None, last_progress: None, unreachable: None }
    }

    /// Restarts both times: data was delivered, or nothing was outstanding until now.
    pub(super) fn restart(&mut self, now: Instant) {
        self.last_answer = Some(now);
        self.last_progress = Some(now);
    }

    /// Restarts the give-up time: the receiver answered.
    pub(super) fn on_answer(&mut self, now: Instant) {
        self.last_answer = Some(now);
    }

    /// True if nothing was delivered for longer than allowed.
    pub(super) fn lacks_progress(&self, now: Instant) -> bool {
        self.last_progress.is_some_and(|at| now.saturating_duration_since(at) >= self.no_progress)
    }

    /// Returns the time left until the transfer is aborted. No timer of data runs longer.
    pub(super) fn time_left(&self, now: Instant) -> Duration {
        let silence = self.last_answer.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.limit.saturating_sub(silence)
    }

    /// Counts `reports` of ICMP errors. Returns true if the transfer must fail.
    pub(super) fn on_unreachable(&mut self, now: Instant, reports: u64) -> bool {
        let (since, count) = self.unreachable.get_or_insert((now, 0));
        *count += reports;
        let long = now.saturating_duration_since(*since) >= UNREACHABLE_TIME;
        long && *count >= MIN_UNREACHABLE_REPORTS
    }
}
