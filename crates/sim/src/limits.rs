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
    /// Handshake, until the first data packet or the SYN-ACK, or until the SYN is repeated.
    pub start: Duration,
    /// The application has written nothing, or all data is sent.
    pub application: Duration,
    /// A recovery episode, a timeout's back-off, or the handshake after a lost SYN or SYN-ACK.
    pub recovery: Duration,
    /// The receive window is full, and no link is the cause, or another flow contends for the link:
    /// a larger window would take a part of its share.
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
    /// Limits until the latest event; those that the lists below have are zero here.
    limits: Limits,
    /// Periods of recovery, in order.
    recoveries: Vec<Period>,
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
        let Limits { start, application, host, .. } = &mut self.limits;
        let part = match self.reason {
            _ if !self.has_started && self.is_recovering => return wait(&mut self.recoveries, from, now),
            _ if !self.has_started => start,
            Some(Blocked::NoData) => application,
            _ if self.is_recovering => return wait(&mut self.recoveries, from, now),
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
    /// are the times in which the links of its route are the limit, and `contended` those in which
    /// other flows would send more through them, both in any order.
    pub(crate) fn limits(
        &self,
        opened: Instant,
        end: Instant,
        busy: Vec<Period>,
        contended: impl FnOnce() -> Vec<Period>,
    ) -> Limits {
        let mut observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        observed.advance(end);
        let first = observed.span.map_or(end, |(first, _)| first);
        let mut limits = observed.limits;
        limits.start += first.saturating_duration_since(opened);
        limits.recovery = total(&observed.recoveries);
        let busy = merged(busy);
        let cwnd_at_link = common(&observed.cwnd_waits, &busy);
        let window_at_link = common(&observed.window_waits, &busy);
        let contended = if window_at_link.is_empty() { Vec::new() } else { merged(contended()) };
        let by_window = total(&common(&window_at_link, &contended));
        limits.link = total(&cwnd_at_link) + total(&window_at_link).saturating_sub(by_window);
        limits.cwnd = total(&observed.cwnd_waits).saturating_sub(total(&cwnd_at_link));
        limits.peer_window = total(&observed.window_waits).saturating_sub(total(&window_at_link)) + by_window;
        limits
    }

    /// Returns the periods, up to the latest event, in which the flow would have sent more through
    /// a faster or emptier path.
    pub(crate) fn contends(&self) -> Vec<Period> {
        let observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        [&observed.recoveries, &observed.cwnd_waits, &observed.window_waits].map(Clone::clone).concat()
    }
}

impl Observer for LimitRecorder {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        observed.advance(now);
        match trace {
            Trace::SynAckReceived { .. } | Trace::DataSent { .. } => {
                // Data sent after that is no end of a recovery.
                let ends_handshake = !observed.has_started || matches!(trace, Trace::SynAckReceived { .. });
                observed.is_recovering &= !ends_handshake;
                observed.has_started = true;
            }
            Trace::SynSent { attempt: 2.., .. }
            | Trace::RecoveryBegan { cause: Cause::Loss | Cause::Timeout } => observed.is_recovering = true,
            Trace::RecoveryEnded { .. } => observed.is_recovering = false,
            Trace::Blocked { reason } => observed.reason = Some(*reason),
            _ => {}
        }
    }
}

fn total(periods: &[Period]) -> Duration {
    periods.iter().map(|period| period.to.saturating_duration_since(period.from)).sum()
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

/// Returns the times that two lists of periods have in common. Each is in order and without
/// overlap.
fn common(a: &[Period], b: &[Period]) -> Vec<Period> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        let period = Period { from: one.from.max(other.from), to: one.to.min(other.to) };
        common.extend((period.from < period.to).then_some(period));
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
            assert_eq!(total(&super::common(&periods(t0, waits), &busy)), ms(common), "{waits:?}");
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
        let busy = periods(t0, &[(35, 65), (85, 90), (95, 200)]);
        let limits = recorder.limits(at(0), at(100), busy, Vec::new);
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
    #[test]
    fn receive_window_limits_a_flow_whose_link_others_contend_for() {
        let t0 = epoch();
        let at = |time| t0 + ms(time);
        let recorder = LimitRecorder::default();
        let mut observer = recorder.clone();
        observer.on(at(0), &Trace::SynAckReceived { ack: 0, window: 0, rto: ms(1) });
        observer.on(at(0), &Trace::Blocked { reason: Blocked::PeerWindow });
        observer.on(at(60), &Trace::Blocked { reason: Blocked::Cwnd });
        let busy = periods(t0, &[(10, 90)]);
        let limits = recorder.limits(at(0), at(100), busy, || periods(t0, &[(50, 70), (30, 55), (5, 15)]));
        // Of a congestion window and a busy link, the link counts, with and without others.
        // 10 ms without a queue, and of the 50 ms with one 5 and 30 beside others.
        assert_eq!((limits.peer_window, limits.link), (ms(10 + 5 + 30), ms(50 - 5 - 30 + 30)));
        assert_eq!((limits.cwnd, limits.life()), (ms(10), ms(100)));
        assert_eq!(recorder.contends(), periods(t0, &[(60, 100), (0, 60)]));
    }

    #[test]
    fn lost_handshake_is_recovery() {
        let t0 = epoch();
        let at = |time| t0 + ms(time);
        let recorder = LimitRecorder::default();
        let mut observer = recorder.clone();
        let syn = |attempt| Trace::SynSent { seq: 0, attempt, of: 9, rto: ms(1) };
        observer.on(at(0), &syn(1));
        observer.on(at(10), &syn(2));
        observer.on(at(30), &syn(3));
        observer.on(at(40), &Trace::SynAckReceived { ack: 0, window: 0, rto: ms(1) });
        observer.on(at(40), &Trace::Blocked { reason: Blocked::NoData });
        let limits = recorder.limits(at(0), at(45), Vec::new(), Vec::new);
        assert_eq!((limits.start, limits.recovery, limits.application), (ms(10), ms(30), ms(5)));
    }
}
