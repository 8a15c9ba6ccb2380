//! Writing side of a stream: a sending application that writes the array of
//! [`payload`](crate::payload).

use std::time::Duration;

use crate::payload;
use rdt_transport::{Connection, Sender, Spare};

use crate::application::{Application, Plan};

/// Outgoing stream of either format.
pub(crate) trait Outgoing {
    /// Returns room for the next bytes; empty if there is none.
    fn spare(&mut self) -> Spare<'_>;
    fn advance(&mut self, n: usize);
    fn push(&mut self);
    fn finish(&mut self);
}

impl Outgoing for Sender {
    fn spare(&mut self) -> Spare<'_> {
        self.spare().unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        self.advance(n);
    }

    fn push(&mut self) {
        self.push();
    }

    fn finish(&mut self) {
        // Cannot fail: the sender is open.
        let _ = self.finish();
    }
}

impl Outgoing for Connection {
    fn spare(&mut self) -> Spare<'_> {
        self.spare().unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        self.advance(n);
    }

    fn push(&mut self) {
        self.push();
    }

    fn finish(&mut self) {
        self.finish();
    }
}

/// Application with its place in the stream. Times are virtual.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    application: Application,
    pub(crate) written: u64,
    /// True if the application has finished the stream, or given it up.
    is_finished: bool,
    /// Time at which the application next does anything of its own accord.
    pub(crate) wakes_at: Option<Duration>,
}

impl Writer {
    /// Creates an application at time `now`. A start in the past would make the bytes of that time
    /// due at once, so it starts at `now` at the earliest.
    pub(crate) fn new(application: Application, now: Duration) -> Self {
        let start = application.start.max(now);
        let application = Application { start, ..application };
        Self { application, written: 0, is_finished: false, wakes_at: Some(start) }
    }

    /// Ends the application, whose stream is over.
    pub(crate) fn stop(&mut self) {
        self.is_finished = true;
        self.wakes_at = None;
    }

    /// Writes what the application has, and finishes the stream after its last byte. Returns true
    /// if it did anything.
    pub(crate) fn write(&mut self, now: Duration, stream: &mut impl Outgoing) -> bool {
        if self.is_finished || now < self.application.start {
            return false;
        }
        let Plan { due, ends, next } = self.application.plan(now, self.written);
        self.wakes_at = next;
        let before = self.written;
        self.fill(due, stream);
        if self.written < due {
            return self.written > before;
        }
        if ends {
            stream.finish();
            self.stop();
            return true;
        }
        stream.push();
        self.written > before
    }

    fn fill(&mut self, due: u64, stream: &mut impl Outgoing) {
        while self.written < due {
            let rest = usize::try_from(due - self.written).unwrap_or(usize::MAX);
            let mut n = 0;
            for piece in stream.spare().within(rest) {
                payload::fill(self.written + n as u64, piece);
                n += piece.len();
            }
            if n == 0 {
                return;
            }
            stream.advance(n);
            self.written += n as u64;
        }
    }
}
