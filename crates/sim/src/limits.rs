//! Limits of a flow: for each moment of its life, what kept it from sending faster.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_emulator::BusyPeriod as Period;
use rdt_transport::congestion::Cause;
use rdt_transport::{Blocked, Observer, Trace};

/// Partition of a flow's life by the limit in force. The sum is exactly its life, from the opening
/// of the connection to the end of the transfer, or to the present. Of several limits at one time
/// the first in this order counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Handshake, until the first data packet or the SYN-ACK.
    pub start: Duration,
    /// The application has written nothing, or all data is sent.
    pub application: Duration,
    /// A recovery episode or a timeout's back-off.
    pub recovery: Duration,
    /// The receive window is full, and no link is the cause.
    pub peer_window: Duration,
    /// A window is full, or the pacer delays packets, while a link is continuously busy for at
    /// least the flow's smallest RTT: a larger window would only lengthen the queue.
    pub link: Duration,
    /// The congestion window is full, or the pacer delays packets, and no link is the cause.
    pub cwnd: Duration,
    /// The sender could send and did not. Always zero in virtual time.
    pub host: Duration,
}

impl Limits {
    /// Returns the sum of all parts: the life of the flow.
    pub fn life(&self) -> Duration {
        let Self { start, application, recovery, peer_window, link, cwnd, host } = *self;
        [start, application, recovery, peer_window, link, cwnd, host].into_iter().sum()
    }
}

/// State of a sender that determines its limit.
#[derive(Debug, Default)]
struct Observed {
    /// Time of the first event, and of the latest.
    span: Option<(Instant, Instant)>,
    has_started: bool,
    is_recovering: bool,
    reason: Option<Blocked>,
    /// Limits until the latest event; `link`, `cwnd` and `peer_window` are zero here.
    limits: Limits,
    /// Periods limited by the congestion window or the pacer, in order.
    cwnd_waits: Vec<Period>,
    /// Periods limited by the receive window, in order.
    window_waits: Vec<Period>,
}

impl Observed {
    /// Counts the time from the latest event to `now`.
    fn advance(&mut self, now: Instant) {
        let (_, latest) = self.span.get_or_insert((now, now));
        let from = std::mem::replace(latest, now);
        let time = now.saturating_duration_since(from);
        if time.is_zero() {
            return;
        }
        let Limits { start, application, recovery, host, .. } = &mut self.limits;
        let part = match self.reason {
            _ if !self.has_started => start,
            Some(Blocked::NoData) => application,
            _ if self.is_recovering => recovery,
            Some(Blocked::PeerWindow) => return wait(&mut self.window_waits, from, now),
            Some(Blocked::Cwnd | Blocked::Pacing(_)) => return wait(&mut self.cwnd_waits, from, now),
            None => host,
        };
        *part += time;
    }
}

fn wait(waits: &mut Vec<Period>, from: Instant, to: Instant) {
    match waits.last_mut() {
        Some(last) if last.to == from => last.to = to,
        _ => waits.push(Period { from, to }),
    }
}

/// Observer that records the times of a sender's limits, for
/// [`Simulation::limits`](crate::Simulation::limits). Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LimitRecorder(Arc<Mutex<Observed>>);

impl LimitRecorder {
    /// Returns the limits of a flow that opened its connection at `opened`, until `end`. `busy`
    /// are the times in which the links of its route are the limit, in any order.
    pub(crate) fn limits(&self, opened: Instant, end: Instant, busy: Vec<Period>) -> Limits {
        let mut observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        observed.advance(end);
        let first = observed.span.map_or(end, |(first, _)| first);
        let mut limits = observed.limits;
        limits.start += first.saturating_duration_since(opened);
        let busy = merged(busy);
        let divide = |waits: &[Period]| {
            let by_link = overlap(waits, &busy);
            (by_link, waits.iter().map(length).sum::<Duration>().saturating_sub(by_link))
        };
        let (cwnd, window) = (divide(&observed.cwnd_waits), divide(&observed.window_waits));
        (limits.link, limits.cwnd, limits.peer_window) = (cwnd.0 + window.0, cwnd.1, window.1);
        limits
    }
}

impl Observer for LimitRecorder {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        observed.advance(now);
        match trace {
            Trace::SynAckReceived { .. } | Trace::DataSent { .. } => observed.has_started = true,
            Trace::RecoveryBegan { cause: Cause::Loss | Cause::Timeout } => observed.is_recovering = true,
            Trace::RecoveryEnded { .. } => observed.is_recovering = false,
            Trace::Blocked { reason } => observed.reason = Some(*reason),
            _ => {}
        }
    }
}

fn length(period: &Period) -> Duration {
    period.to.saturating_duration_since(period.from)
}

/// Returns the union of `periods` in order.
fn merged(mut periods: Vec<Period>) -> Vec<Period> {
    periods.sort_by_key(|period| period.from);
    let mut union: Vec<Period> = Vec::new();
    for period in periods {
        match union.last_mut() {
            Some(last) if period.from <= last.to => last.to = last.to.max(period.to),
            _ => union.push(period),
        }
    }
    union
}

/// Returns the time that two lists of periods have in common. Each is in order and without overlap.
fn overlap(a: &[Period], b: &[Period]) -> Duration {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut common = Duration::ZERO;
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        let to = one.to.min(other.to);
        common += to.saturating_duration_since(one.from.max(other.from));
        if one.to <= other.to {
            a.next()
        } else {
            b.next()
        };
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{epoch, ms};

    fn periods(t0: Instant, times: &[(u64, u64)]) -> Vec<Period> {
        times.iter().map(|(from, to)| Period { from: t0 + ms(*from), to: t0 + ms(*to) }).collect()
    }

    #[test]
    fn overlap_of_merged_periods() {
        let t0 = epoch();
        let busy = merged(periods(t0, &[(50, 60), (0, 10), (5, 20), (20, 25), (55, 58)]));
        assert_eq!(busy, periods(t0, &[(0, 25), (50, 60)]));
        for (waits, common) in [
            (&[][..], 0),
            (&[(0, 100)], 35),
            (&[(10, 12), (13, 14), (24, 51), (52, 53)], 6),
            (&[(25, 50), (60, 70)], 0),
        ] {
            assert_eq!(overlap(&periods(t0, waits), &busy), ms(common), "{waits:?}");
        }
    }

    #[test]
    fn first_limit_in_order_counts() {
        let t0 = epoch();
        let at = |time| t0 + ms(time);
        let recorder = LimitRecorder::default();
        let mut observer = recorder.clone();
        let blocked = |reason| Trace::Blocked { reason };
        let lost = Trace::RecoveryBegan { cause: Cause::Loss };
        observer.on(at(10), &Trace::ProbeRepaired);
        observer.on(at(30), &Trace::SynAckReceived { ack: 0, window: 0, rto: ms(1) });
        observer.on(at(30), &blocked(Blocked::Cwnd));
        observer.on(at(70), &lost);
        observer.on(at(75), &blocked(Blocked::NoData));
        observer.on(at(77), &blocked(Blocked::PeerWindow));
        observer.on(at(78), &Trace::RecoveryEnded { spurious: false });
        observer.on(at(90), &blocked(Blocked::Pacing(at(95))));
        let limits = recorder.limits(at(0), at(100), periods(t0, &[(35, 65), (85, 90), (95, 200)]));
        let expected = Limits {
            start: ms(30),
            application: ms(2),
            recovery: ms(6),
            peer_window: ms(7),
            link: ms(40),
            cwnd: ms(15),
            host: ms(0),
        };
        assert_eq!((limits, limits.life()), (expected, ms(100)));
    }
}
