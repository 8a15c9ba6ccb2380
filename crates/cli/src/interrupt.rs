//! When a program's threads are to end: at once, or when what is under way is done. Signals. Ctrl-C and termination: the
//! first asks the program to end in order, the second ends it. The limit on the size of files: reaching it fails the write.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdt_driver::Waker;

use crate::exit;

/// Says whether a program's threads are to end, and wakes them to hear it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    set: AtomicBool,
    interrupted: AtomicBool,
    /// Nothing new is to begin.
    closing: AtomicBool,
    /// Threads that may still be at something that began before.
    busy: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Relaxed)
    }

    /// True if it was the user who set it.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Nothing new is to begin. When all that is under way is done, this is set.
    pub(crate) fn close(&self) {
        if !self.0.closing.swap(true, Ordering::Relaxed) {
            self.wake();
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Relaxed)
    }

    /// One more thread whose work is waited for, once this is closing.
    pub(crate) fn enter(&self) {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them has nothing under way any more.
    pub(crate) fn leave(&self) {
        if self.0.busy.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.set();
        }
    }

    fn wake(&self) {
        for waker in self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            waker.wake();
        }
    }

    /// A thread that is to be woken.
    pub(crate) fn add(&self, waker: Waker) {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Sets this when the user asks to stop; the second time, ends the program.
    pub(crate) fn on_interrupt(&self) {
        let stop = self.clone();
        let handler = move || {
            if stop.0.interrupted.swap(true, Ordering::Relaxed) {
                process::exit(i32::from(exit::INTERRUPTED));
            }
            stop.set();
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            tracing::warn!(%error, "Ctrl-C will end the program without a summary");
        }
    }
}

/// A write beyond the limit on the size of files would end the program; from now on it fails as one to a full
/// disk does.
pub(crate) fn survive_size_limit() {
    #[cfg(unix)]
    // SAFETY: an ignored signal runs no code.
    #[expect(unsafe_code, reason = "the standard library cannot ignore a signal")]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
