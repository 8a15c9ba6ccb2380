//! Turns of an endpoint: input and timers by its driver, output by the driver or a writing task,
//! and the events that wake tasks.

use std::task::Context;
use std::time::{Duration, Instant};

use rdt_transport::drive::{Budget, Turn, send_out, take_in};
use rdt_transport::{ConnectionEvent, Endpoint as _};

use super::{Core, Entry};
use crate::error::Stopped;

/// Datagrams that one call sends before it releases the lock.
const MAX_TRANSMIT: usize = 4 * 64;

/// Shortest suspension that matters: reading two clocks in a row may show a shorter one.
const MIN_SUSPENSION: Duration = Duration::from_millis(500);

impl Core {
    /// Reads datagrams and handles due timers. [`Core::output`] follows, unless it is pending.
    pub(crate) fn input(&mut self, now: Instant) -> Turn {
        if self.io.socket().is_some()
            && let Some(suspended) = rdt_udp::clock::suspended_at_least(self.suspended + MIN_SUSPENSION)
        {
            self.set.on_suspended(suspended.saturating_sub(self.suspended));
            self.suspended = suspended;
        }
        let mut turn = Turn::default();
        let now = take_in(&mut self.set, &mut self.io, now, Budget::default(), &mut turn);
        self.present = Some(now);
        if let Some(error) = self.io.take_error() {
            self.stop(Stopped::Socket(error.into()));
        }
        self.dispatch(now);
        self.is_output_pending = !self.wakes.is_empty();
        turn
    }

    pub(crate) fn output(&mut self, now: Instant) -> Turn {
        self.is_output_pending = false;
        let now = self.present.map_or(now, |present| now.max(present));
        let mut turn = Turn::default();
        send_out(&mut self.set, &mut self.io, now, MAX_TRANSMIT, &mut turn, |_| {});
        self.is_blocked = turn.blocked;
        self.dispatch(now);
        turn
    }

    /// Sends what a call of the application made due, and wakes the driver if it has to continue.
    pub(super) fn output_inline(&mut self, now: Instant) {
        let mut needs_driver = false;
        if self.is_blocked {
            self.dispatch(now);
        } else {
            let turn = self.output(now);
            needs_driver = turn.more || turn.blocked;
        }
        let is_earlier = match (self.set.poll_timeout(), self.armed) {
            (Some(deadline), Some(armed)) => deadline < armed,
            (deadline, None) => deadline.is_some(),
            (None, Some(_)) => false,
        };
        if needs_driver || is_earlier {
            self.wake_driver();
        }
    }

    pub(crate) fn wake_driver(&mut self) {
        if let Some(driver) = &self.driver {
            self.wakes.push(driver.clone());
        }
    }

    /// Sets the task that runs turns.
    pub(crate) fn set_driver(&mut self, cx: &Context<'_>) {
        if self.driver.as_ref().is_none_or(|driver| !driver.will_wake(cx.waker())) {
            self.driver = Some(cx.waker().clone());
            #[cfg(feature = "emulator")]
            if let crate::io::Io::Network(port) = &self.io {
                port.set_driver(cx.waker());
            }
        }
    }

    /// Returns the driver's next deadline, not after `latest`, and records it. Calls wake the
    /// driver only for an earlier deadline.
    pub(crate) fn arm(&mut self, latest: Option<Instant>) -> Option<Instant> {
        let alarm = self.alarms.iter().map(|(at, _)| *at).min();
        let deadlines = [self.set.poll_timeout(), self.io.next_arrival(), alarm, latest];
        self.armed = deadlines.into_iter().flatten().min();
        self.armed
    }

    /// Has the driver wake the task of `cx` at this time.
    pub(crate) fn set_alarm(&mut self, at: Instant, cx: &Context<'_>) {
        if !self.alarms.iter().any(|(time, waker)| *time == at && waker.will_wake(cx.waker())) {
            self.alarms.push((at, cx.waker().clone()));
        }
        if self.armed.is_none_or(|armed| at < armed) {
            self.wake_driver();
        }
    }

    /// Stops waking the driver for timers: it polls soon.
    pub(crate) fn suspend_timers(&mut self, now: Instant) {
        self.armed = Some(now);
    }

    /// True once the endpoint is closed and no connection is left: the driver ends.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped.is_some() || self.is_closed && self.set.is_empty() && !self.is_blocked
    }

    /// Passes events to the tasks that wait for them.
    fn dispatch(&mut self, now: Instant) {
        while let Some((id, event)) = self.set.poll_event() {
            match self.connections.get_mut(&id) {
                Some(entry) => entry.on_event(event, &mut self.wakes),
                None => {
                    if let ConnectionEvent::Connected { .. } = event {
                        self.on_accepted(now, id, event);
                    }
                }
            }
        }
        if self.set.is_empty() {
            self.idlers.wake(&mut self.wakes);
        }
        for (_, waker) in self.alarms.extract_if(.., |(at, _)| *at <= now) {
            self.wakes.push(waker);
        }
    }

    /// Ends everything: every call fails from now on.
    pub(crate) fn stop(&mut self, reason: Stopped) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some(reason);
        for entry in self.connections.values_mut() {
            entry.wake_all(&mut self.wakes);
        }
        self.acceptors.wake(&mut self.wakes);
        self.idlers.wake(&mut self.wakes);
        self.wake_driver();
    }
}

impl Entry {
    pub(super) fn on_event(&mut self, event: ConnectionEvent, wakes: &mut super::Wakes) {
        match event {
            ConnectionEvent::Connected { peer, resumption } => {
                self.is_connected = true;
                self.peer = peer;
                self.resumption = resumption.map(Box::new);
                self.watchers.wake(wakes);
                self.writers.wake(wakes);
            }
            ConnectionEvent::Readable | ConnectionEvent::Finished { .. } => self.readers.wake(wakes),
            ConnectionEvent::Writable => self.writers.wake(wakes),
            ConnectionEvent::Delivered { bytes } => {
                self.delivered = Some(bytes);
                self.watchers.wake(wakes);
            }
            ConnectionEvent::Closed(closed) => {
                self.closed = Some(closed);
                self.wake_all(wakes);
            }
        }
    }
}
