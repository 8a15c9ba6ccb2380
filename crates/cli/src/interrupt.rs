//! Signals. Ctrl-C and termination: the first asks the program to end in order, the second ends it. The limit
//! on the size of files: reaching it fails the write.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rdt_driver::Waker;

use crate::exit;

/// Says whether the user asked to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sets this when the user asks to stop, and wakes the thread that looks at it.
    pub(crate) fn on_interrupt(&self, waker: Waker) {
        let stop = self.clone();
        let handler = move || {
            if stop.is_set() {
                process::exit(i32::from(exit::INTERRUPTED));
            }
            stop.set();
            waker.wake();
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
