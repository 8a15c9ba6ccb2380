//! Limits of a transfer over TCP of the kernel: causes of blocked writes, and give-up times.

use std::time::{Duration, Instant};

use rdt_program::Failure;
use rdt_transport::{Phase, Waited};
use rdt_udp::TcpInfo;

use super::stream::Progress;
use super::transfer::lost;

/// Blocked time between two samples of `TCP_INFO`.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// Causes for which the writes of a connection were blocked, each with its time.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// True if the congestion control paces at the rate that it measured.
    is_bbr: bool,
    /// Blocked time already attributed to a cause.
    judged: Duration,
    /// Counters of the connection at that sample.
    window_limited: Duration,
    buffer_limited: Duration,
    cwnd: Duration,
    peer_window: Duration,
    pacing: Duration,
}

impl Blocked {
    pub(super) fn new(congestion: Option<&str>) -> Self {
        Self { is_bbr: congestion.is_some_and(|name| name.starts_with("bbr")), ..Self::default() }
    }

    /// True if [`Blocked::add`] should be called.
    pub(super) fn is_due(&self, blocked: Duration) -> bool {
        blocked >= self.judged + SAMPLE_INTERVAL
    }

    /// Attributes the blocked time since the last call to a cause. `blocked`: total so far.
    pub(super) fn add(&mut self, blocked: Duration, info: &TcpInfo) {
        let window_limited = Duration::from_micros(info.window_limited_us);
        let buffer_limited = Duration::from_micros(info.buffer_limited_us);
        let mut rest = blocked.saturating_sub(self.judged);
        let peer_window = window_limited.saturating_sub(self.window_limited).min(rest);
        rest -= peer_window;
        // A small send buffer is a limit of this host.
        rest -= buffer_limited.saturating_sub(self.buffer_limited).min(rest);
        self.peer_window += peer_window;
        // While its pacer holds segments back, BBR does not see that the receiver has no room for
        // more than them, nor does the kernel count that time.
        let in_flight = u64::from(info.in_flight) * u64::from(info.mss);
        if self.is_bbr && info.peer_window > 0 && in_flight >= u64::from(info.peer_window) / 4 * 3 {
            self.peer_window += std::mem::take(&mut rest);
        }
        // BBR: the congestion window is twice what the measured rate fills.
        let is_window_full = info.in_flight >= info.cwnd / 4 * 3;
        if self.is_bbr && !is_window_full {
            self.pacing += rest;
        } else {
            self.cwnd += rest;
        }
        (self.judged, self.window_limited, self.buffer_limited) = (blocked, window_limited, buffer_limited);
    }

    /// Returns what the sender waited for. `has_input`: the source is not this program.
    pub(super) fn waited(&self, progress: &Progress, has_input: bool) -> Waited {
        Waited {
            cwnd: self.cwnd,
            peer_window: self.peer_window,
            pacing: self.pacing + progress.pacing,
            application: if has_input { progress.reading } else { Duration::ZERO },
            ..Waited::default()
        }
    }
}

/// Times after which a connection is given up.
#[derive(Debug)]
pub(super) struct GiveUp {
    /// Longest time without an ACK.
    pub(super) silence: Duration,
    /// Longest time without an acknowledged byte.
    pub(super) no_progress: Duration,
    acknowledged: u64,
    progress_at: Instant,
    /// Since then, segments or probes of a closed window have no answer.
    outstanding_at: Instant,
}

impl GiveUp {
    pub(super) fn new(now: Instant, silence: Duration, no_progress: Duration) -> Self {
        Self { silence, no_progress, acknowledged: 0, progress_at: now, outstanding_at: now }
    }

    /// Fails if the receiver has been silent or has taken nothing for too long. `acknowledged`:
    /// bytes of data. `is_idle`: all of them are, and this side is to send more.
    pub(super) fn check(
        &mut self,
        now: Instant,
        info: &TcpInfo,
        (acknowledged, written): (u64, u64),
        is_idle: bool,
    ) -> Result<(), Failure> {
        let is_acknowledged = acknowledged >= written;
        if info.unacknowledged == 0 && info.probes == 0 {
            self.outstanding_at = now;
        }
        if acknowledged > self.acknowledged || (is_acknowledged && is_idle) {
            (self.acknowledged, self.progress_at) = (acknowledged, now);
        }
        let silence = now.saturating_duration_since(self.outstanding_at);
        let silence = silence.min(Duration::from_millis(info.last_ack_ms.into()));
        if silence >= self.silence {
            return Err(lost(
                Phase::Send,
                format!("no answer from the receiver for {} s", self.silence.as_secs()),
            ));
        }
        if now >= self.progress_at + self.no_progress {
            return Err(lost(
                Phase::Send,
                format!("the receiver took nothing for {} s (--no-progress)", self.no_progress.as_secs()),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rdt_udp::clock;

    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn blocked_writes_are_told_apart() {
        let info = |window_limited_ms: u64, buffer_limited_ms: u64, in_flight: u32| TcpInfo {
            window_limited_us: window_limited_ms * 1000,
            buffer_limited_us: buffer_limited_ms * 1000,
            in_flight,
            cwnd: 100,
            ..TcpInfo::default()
        };
        for (name, paced, cwnd) in [("bbr", 70, 10), ("cubic", 0, 80)] {
            let mut blocked = Blocked::new(Some(name));
            assert!(!blocked.is_due(ms(4)) && blocked.is_due(ms(5)));
            blocked.add(ms(100), &info(20, 10, 40));
            // The counters of the kernel grow while writes are not blocked, too.
            blocked.add(ms(110), &info(500, 10, 99));
            blocked.add(ms(120), &info(500, 10, 99));
            let waited = blocked.waited(&Progress { reading: ms(7), ..Progress::default() }, false);
            let expected =
                Waited { cwnd: ms(cwnd), peer_window: ms(30), pacing: ms(paced), ..Waited::default() };
            assert_eq!(waited, expected, "{name}");
        }
        let mut full = info(0, 0, 31);
        (full.mss, full.peer_window) = (1000, 40_000);
        let mut blocked = Blocked::new(Some("bbr"));
        blocked.add(ms(100), &full);
        full.peer_window = 50_000;
        blocked.add(ms(150), &full);
        let waited = blocked.waited(&Progress::default(), false);
        assert_eq!((waited.peer_window, waited.pacing), (ms(100), ms(50)));
        let progress = Progress { reading: ms(7), pacing: ms(8), ..Progress::default() };
        let waited = Blocked::new(None).waited(&progress, true);
        assert_eq!((waited.application, waited.pacing), (ms(7), ms(8)));
    }

    #[test]
    fn answering_receiver_is_given_time() {
        let start = clock::now();
        let info = |last_ack_ms, unacknowledged, probes| TcpInfo {
            last_ack_ms,
            unacknowledged,
            probes,
            ..TcpInfo::default()
        };
        let answering = info(10, 3, 0);
        let mut give_up = GiveUp::new(start, ms(1000), ms(5000));
        let mut fails = |at: u64, info: &TcpInfo, acknowledged: u64, written: u64| {
            give_up.check(start + ms(at), info, (acknowledged, written), true).is_err()
        };
        assert!(!fails(4000, &info(60_000, 0, 0), 0, 0), "nothing is to be acknowledged");
        for silent in [info(60_000, 1, 0), info(60_000, 0, 1)] {
            assert!(!fails(4000, &info(0, 0, 0), 0, 9), "between probes of a closed window");
            assert!(!fails(4900, &silent, 0, 9) && fails(5000, &silent, 0, 9), "silent for a second");
        }
        assert!(!fails(8900, &answering, 0, 9) && fails(9000, &answering, 0, 9), "no progress");
        assert!(!fails(9000, &answering, 1, 9) && !fails(13_900, &answering, 1, 9));
        let mut ended = GiveUp::new(start, ms(1000), ms(5000));
        assert!(ended.check(start + ms(5000), &answering, (0, 0), false).is_err(), "no report");
    }
}
