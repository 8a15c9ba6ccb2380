//! End of a program's threads: at once, or when the work in progress is done. The first Ctrl-C ends
//! the program in order, the second one ends it immediately.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdt_udp::Waker;

use crate::{exit, signals};

/// Flag that ends the threads of a program and wakes them. Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    set: AtomicBool,
    interrupted: AtomicBool,
    /// No new work starts.
    closing: AtomicBool,
    /// Threads with work in progress since before `closing`.
    busy: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Returns true if the threads end now.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Relaxed)
    }

    /// Returns true if Ctrl-C set the flag.
    pub fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::Relaxed)
    }

    /// Ends all threads, and wakes them.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Starts no new work. The flag is set once all threads have called [`Stop::leave`].
    pub fn close(&self) {
        if !self.0.closing.swap(true, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Returns true if no new work starts.
    pub fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Relaxed)
    }

    /// Registers a thread whose work in progress is completed before the end.
    pub fn enter(&self) {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports that a registered thread has no work in progress.
    pub fn leave(&self) {
        if self.0.busy.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.set();
        }
    }

    fn wake(&self) {
        for waker in self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            waker.wake();
        }
    }

    /// Adds a thread to wake.
    pub fn add(&self, waker: Waker) {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Sets the flag on Ctrl-C or termination; the second time, exits the process.
    pub fn on_interrupt(&self) {
        let stop = self.clone();
        let handler = move || {
            if stop.0.interrupted.swap(true, Ordering::Relaxed) {
                process::exit(i32::from(exit::INTERRUPTED));
            }
            stop.set();
        };
        if let Err(error) = signals::on_interrupt(handler) {
            tracing::warn!(%error, "Ctrl-C will end the program without a summary");
        }
    }
}
