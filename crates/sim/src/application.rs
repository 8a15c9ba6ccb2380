//! Sending application: when it starts and stops, how many bytes it writes, and how fast.

use std::time::Duration;

use crate::source::BIT_NANOS_PER_BYTE;

/// Highest number of writes per second of an application with a rate: iperf3's timer has 1 ms.
const MAX_WRITES_PER_SECOND: u64 = 1000;
/// Smallest write of an application with a rate, apart from its last one: less than a full packet,
/// so that each write can be sent alone.
const MIN_WRITE_BYTES: u64 = 1400;

/// Application that writes a stream. By default it writes without end from the start of virtual
/// time on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Application {
    /// Virtual time at which the application of a sender opens the connection, and that of one side
    /// of a connection begins to write. In the past: immediately.
    pub start: Duration,
    /// Bytes of the transfer. `None`: the application writes until `stop`.
    pub bytes: Option<u64>,
    /// Virtual time at which the application stops writing and finishes the stream. Data that it
    /// has written before is still sent.
    pub stop: Option<Duration>,
    /// Rate at which the application produces bytes, bits per second. It writes them as soon as
    /// there is room, in pieces of at least 1400 bytes and at most 1000 times per second. `None`:
    /// it fills the room.
    pub rate: Option<u64>,
    /// Lengths of the periods in which the application produces bytes and pauses, in turn, from
    /// `start` on. `None`: it does not pause.
    pub on_off: Option<(Duration, Duration)>,
}

/// Action of an application at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Bytes of the stream that it has produced so far; `u64::MAX` if it fills the room.
    pub(crate) due: u64,
    /// True if it finishes the stream when these bytes are written.
    pub(crate) ends: bool,
    /// Virtual time at which the plan changes. `None`: never.
    pub(crate) next: Option<Duration>,
}

impl Application {
    /// Returns an application that transfers `bytes` bytes from the start of virtual time on, as
    /// fast as it can.
    pub const fn transfer(bytes: u64) -> Self {
        Self { start: Duration::ZERO, bytes: Some(bytes), stop: None, rate: None, on_off: None }
    }

    pub(crate) fn check(&self) {
        assert!(self.rate != Some(0), "the rate of an application is not zero");
        let runs = self.on_off.is_none_or(|(on, _)| !on.is_zero());
        assert!(runs, "the periods in which an application produces bytes are not empty");
    }

    /// Returns what the application does at virtual time `now`, after `start`, if it has written
    /// `written` bytes.
    pub(crate) fn plan(&self, now: Duration, written: u64) -> Plan {
        if self.stop.is_some_and(|stop| stop <= now) {
            return Plan { due: written, ends: true, next: None };
        }
        let total = self.bytes.unwrap_or(u64::MAX);
        let (due, next) = match (self.rate, self.on_off) {
            (None, None) => (u64::MAX, None),
            (None, Some(periods)) => self.fills_room(now, written, periods),
            (Some(rate), _) => self.produces(now, rate, total),
        };
        Plan { due: due.min(total), ends: due >= total, next: next.into_iter().chain(self.stop).min() }
    }

    /// Returns the bytes due and the time of the next change of an application without a rate.
    fn fills_room(
        &self,
        now: Duration,
        written: u64,
        (on, off): (Duration, Duration),
    ) -> (u64, Option<Duration>) {
        let (on, cycle) = (on.as_nanos(), (on + off).as_nanos());
        let since = now.saturating_sub(self.start).as_nanos();
        let into = since % cycle;
        let (due, change) = if into < on { (u64::MAX, on) } else { (written, cycle) };
        (due, Some(self.start + nanos(since - into + change)))
    }

    /// Returns the bytes due and the time of the next write of an application with a rate.
    fn produces(&self, now: Duration, rate: u64, total: u64) -> (u64, Option<Duration>) {
        let piece = (rate / 8 / MAX_WRITES_PER_SECOND).max(MIN_WRITE_BYTES);
        let active = self.active_time(now.saturating_sub(self.start).as_nanos());
        let produced = active * u128::from(rate) / BIT_NANOS_PER_BYTE;
        let Some(produced) = u64::try_from(produced).ok().filter(|produced| *produced < total) else {
            return (total, None);
        };
        let due = produced - produced % piece;
        let target = due.saturating_add(piece).min(total);
        let active = (u128::from(target) * BIT_NANOS_PER_BYTE).div_ceil(u128::from(rate));
        (due, Some(self.start + nanos(self.time_of(active))))
    }

    /// Returns the nanoseconds of active periods among the first `since` nanoseconds.
    fn active_time(&self, since: u128) -> u128 {
        let Some((on, off)) = self.on_off else { return since };
        let (on, cycle) = (on.as_nanos(), (on + off).as_nanos());
        since / cycle * on + (since % cycle).min(on)
    }

    /// Returns the nanoseconds after which the active periods sum up to `active` nanoseconds.
    fn time_of(&self, active: u128) -> u128 {
        let Some((on, off)) = self.on_off else { return active };
        // An exact multiple ends with an active period, not after the pause.
        let pauses = active.saturating_sub(1) / on.as_nanos();
        active + pauses * off.as_nanos()
    }
}

impl From<u64> for Application {
    /// Same as [`Application::transfer`].
    fn from(bytes: u64) -> Self {
        Self::transfer(bytes)
    }
}

fn nanos(n: u128) -> Duration {
    Duration::from_nanos(u64::try_from(n).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::ms;

    /// Bytes due and time of the next change, ms, at each of `times`, ms, if all due is written.
    fn plans(application: Application, times: &[u64]) -> Vec<(u64, Option<Duration>)> {
        let mut written = 0;
        let plan = |at: &u64| {
            let Plan { due, next, .. } = application.plan(ms(*at), written);
            if due < u64::MAX {
                written = due;
            }
            (due, next)
        };
        times.iter().map(plan).collect()
    }

    #[test]
    fn rate_is_exact_with_and_without_pauses() {
        // 2800 bytes per 10 ms of activity: two pieces.
        let constant = Application { start: ms(5), rate: Some(2_240_000), ..Application::default() };
        let at = [5, 9, 10, 14, 15, 1005];
        let due = [(0, 10), (0, 10), (1400, 15), (1400, 15), (2800, 20), (280_000, 1010)];
        assert_eq!(plans(constant, &at), due.map(|(due, next)| (due, Some(ms(next)))));

        // A piece that is complete at the end of a period is due then, not after the pause.
        let pausing = Application { on_off: Some((ms(10), ms(30))), ..constant };
        let at = [5, 14, 15, 44, 45, 50, 405];
        let due = [(0, 10), (1400, 15), (2800, 50), (2800, 50), (2800, 50), (4200, 55), (28_000, 410)];
        assert_eq!(plans(pausing, &at), due.map(|(due, next)| (due, Some(ms(next)))));
    }

    #[test]
    fn last_write_may_be_short() {
        let application = Application { rate: Some(1_120_000), bytes: Some(1540), ..Application::default() };
        let plan = |at| application.plan(ms(at), 0);
        assert_eq!(plan(10), Plan { due: 1400, ends: false, next: Some(ms(11)) });
        assert_eq!(plan(11), Plan { due: 1540, ends: true, next: None });
    }

    #[test]
    fn fast_application_writes_thousand_times_per_second() {
        let application = Application { rate: Some(1_000_000_000), ..Application::default() };
        assert_eq!(plans(application, &[0, 1]), [(0, Some(ms(1))), (125_000, Some(ms(2)))]);
    }

    #[test]
    fn unlimited_application_pauses_and_stops() {
        let application =
            Application { stop: Some(ms(50)), on_off: Some((ms(10), ms(20))), ..Application::default() };
        let next = [(0, u64::MAX, 10), (9, u64::MAX, 10), (10, 77, 30), (29, 77, 30), (30, u64::MAX, 40)];
        for (at, due, next) in next {
            let plan = application.plan(ms(at), 77);
            assert_eq!((plan.due, plan.next), (due, Some(ms(next))), "at {at} ms");
        }
        assert_eq!(application.plan(ms(45), 77).next, Some(ms(50)));
        assert_eq!(application.plan(ms(50), 77), Plan { due: 77, ends: true, next: None });
    }
}
