//! Task that reads arriving datagrams and handles the timers of an endpoint.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use ::tokio::task::yield_now;
use rdt_driver::SocketError;

use super::readiness::Readiness;
use super::timer::Timer;
use crate::core::{Core, Shared};
use crate::error::Stopped;

pub(super) struct Driver {
    shared: Arc<Shared>,
    waits: Waits,
}

/// Events that the task waits for, besides wake-ups by streams.
struct Waits {
    /// `None` without a socket.
    socket: Option<Readiness>,
    timer: Timer,
}

/// Continuation after a turn.
enum Next {
    /// Another turn, after other tasks had theirs.
    Turn,
    /// A turn at this time, or when the socket is ready.
    Wait(Option<Instant>),
    /// None: the endpoint is over.
    End,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, socket: Option<Readiness>, timer: Timer) -> Self {
        Self { shared, waits: Waits { socket, timer } }
    }
}

impl Waits {
    fn turn(&mut self, core: &mut Core, now: Instant, cx: &mut Context<'_>) -> Next {
        core.set_driver(cx);
        // The tasks that the last turn has woken had their time.
        let mut more = core.is_output_pending() && core.output(now).more;
        more |= self.input(core, now, cx);
        if !core.is_output_pending() {
            more |= core.output(now).more;
        }
        if core.is_over() {
            return Next::End;
        }
        if more || self.is_readable(cx) || core.is_blocked() && self.is_unblocked(core, now, cx) {
            return Next::Turn;
        }
        Next::Wait(core.arm(now))
    }

    /// Reads datagrams if there are any, and handles timers. Returns true if more can be read.
    fn input(&self, core: &mut Core, now: Instant, cx: &mut Context<'_>) -> bool {
        if let Some(socket) = &self.socket {
            let mut more = false;
            let read = socket.read(cx, || {
                core.io.set_readable();
                core.input(now);
                more = core.io.is_readable();
                !more
            });
            if read.is_ready() {
                return more;
            }
        }
        core.input(now).more
    }

    fn is_readable(&self, cx: &mut Context<'_>) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.is_readable(cx))
    }

    /// Sends the rest of the output once the socket is writable. Returns true if it was sent.
    fn is_unblocked(&mut self, core: &mut Core, now: Instant, cx: &mut Context<'_>) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        let written: io::Result<Poll<()>> = socket.write(cx, || {
            core.output(now);
            !core.is_blocked()
        });
        match written {
            Ok(written) => written.is_ready(),
            Err(error) => {
                core.stop(Stopped::Socket(SocketError::Send(error).into()));
                true
            }
        }
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
            // Returns when the other tasks of this thread have run. Unlike a wake-up of oneself, it
            // wakes no other thread of the runtime.
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
