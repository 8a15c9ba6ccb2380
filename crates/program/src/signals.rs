//! Signals that ask a program to end, the flag that ends its threads, and the limit on file sizes.
//! The first Ctrl-C ends the program in order, the second one ends it immediately.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdt_udp::Waker;

use crate::exit;

/// Calls `handler` on a thread of its own each time that Ctrl-C, a closed terminal or another
/// process asks this process to end.
pub fn on_interrupt(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(handler)
}

/// Does the same, and on Linux for Ctrl-\\ (SIGQUIT) too.
pub fn on_interrupt_or_quit(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    on_interrupt(handler)?;
    #[cfg(target_os = "linux")]
    copy_interrupt_to_quit().map_err(ctrlc::Error::System)?;
    Ok(())
}

/// Gives SIGQUIT the handler of SIGINT.
#[cfg(target_os = "linux")]
fn copy_interrupt_to_quit() -> std::io::Result<()> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the first call fills the structure or fails, and the second one reads it. The handler
    // does not depend on the number of its signal.
    #[expect(unsafe_code, reason = "no library copies a signal's action")]
    let copied = unsafe {
        libc::sigaction(libc::SIGINT, std::ptr::null(), action.as_mut_ptr()) == 0
            && libc::sigaction(libc::SIGQUIT, action.as_ptr(), std::ptr::null_mut()) == 0
    };
    if copied { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like one to a full disk, instead of
/// ending the program. Must be called before any thread is started: threads inherit the signal
/// mask.
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    // SAFETY: the first two calls fill the set that the third one reads; no pointer outlives its
    // call. If a call fails, the limit ends the program as usual.
    #[expect(unsafe_code, reason = "the standard library has no signal mask")]
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        if libc::sigemptyset(set.as_mut_ptr()) == 0 && libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ) == 0 {
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        }
    }
}

/// Flag that ends the threads of a program and wakes them: at once, or when the work in progress is
/// done. Clones are the same flag.
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
        if let Err(error) = on_interrupt(handler) {
            tracing::warn!(%error, "Ctrl-C will end the program without a summary");
        }
    }
}
