//! Task that reads arriving datagrams and handles the timers of an endpoint.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use ::tokio::task::yield_now;
use rdt_transport::drive::Turn;
use rdt_udp::{BusyPoll, Policy};

use super::readiness::Readiness;
use super::timer::Timer;
use crate::core::{Core, Shared};

pub(super) struct Driver {
    shared: Arc<Shared>,
    waits: Waits,
}

/// Events that the task waits for, besides wake-ups by streams.
struct Waits {
    /// `None` without a socket.
    socket: Option<Readiness>,
    /// Polling of the socket before a wait, between which other tasks run.
    busy_poll: BusyPoll,
    timer: Timer,
}

/// Continuation after a turn.
enum Next {
    /// Another turn, after other tasks had theirs.
    Turn,
    /// A turn at this time, or when the socket is ready.
    Wait(Option<Instant>),
    /// No further turn: the endpoint is closed and has no connection.
    End,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, socket: Option<Readiness>, timer: Timer) -> Self {
        Self { shared, waits: Waits { socket, busy_poll: BusyPoll::new(Policy::Brief), timer } }
    }
}

impl Waits {
    fn turn(&mut self, core: &mut Core, now: Instant, cx: &mut Context<'_>) -> Next {
        core.set_driver(cx);
        // The tasks that the last turn has woken had their time.
        let mut more = core.is_output_pending && core.output(now).more;
        let input = self.input(core, now, cx);
        more |= input.more;
        if !core.is_output_pending {
            more |= core.output(now).more;
        }
        if core.is_over() {
            return Next::End;
        }
        if input.received > 0 {
            self.busy_poll.note_ready();
        }
        let deadline = core.arm(None);
        let is_due = more || core.is_output_pending || self.is_readable(cx);
        if is_due || core.is_blocked && self.is_unblocked(core, now, cx) {
            return Next::Turn;
        }
        if self.socket.is_some() && self.busy_poll.should_poll(now) {
            return Next::Turn;
        }
        Next::Wait(deadline)
    }

    /// Reads datagrams if there are any, and handles timers.
    fn input(&self, core: &mut Core, now: Instant, cx: &mut Context<'_>) -> Turn {
        let mut turn = Turn::default();
        if let Some(socket) = &self.socket {
            let read = socket.read(cx, || {
                core.io.set_readable();
                turn = core.input(now);
                turn.more = core.io.is_readable();
                !turn.more
            });
            if read.is_ready() {
                return turn;
            }
        }
        core.input(now)
    }

    fn is_readable(&self, cx: &mut Context<'_>) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.is_readable(cx))
    }

    /// Sends the rest of the output once the socket is writable. Returns true for another turn.
    fn is_unblocked(&mut self, core: &mut Core, now: Instant, cx: &mut Context<'_>) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        let written = socket.write(cx, || {
            core.output(now);
            !core.is_blocked
        });
        written.is_ready()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { shared, waits } = self.get_mut();
        let (now, next) = shared.with(|core, now| (now, waits.turn(core, now, cx)));
        let again = match next {
            Next::End => return Poll::Ready(()),
            Next::Turn => true,
            Next::Wait(deadline) => waits.timer.poll(now, deadline, cx).is_ready(),
        };
        if again {
            // Schedules this task behind the other tasks of its thread. The task's own waker would
            // also wake another thread of the runtime.
            let _ = pin!(yield_now()).poll(cx);
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.with(Core::abandon);
    }
}
