//! Signals that ask a program to end, the flag that ends its threads, and the file size limit. The
//! first Ctrl-C ends the program with a summary, the second one ends it immediately.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdt_udp::Waker;
#[cfg(feature = "tokio")]
use tokio::sync::watch;

use crate::exit;

/// Calls `handler` on a thread of its own at each Ctrl-C, termination signal or closed terminal,
/// and on Linux for Ctrl-\\ (SIGQUIT) too.
pub fn on_interrupt_or_quit(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(handler)?;
    #[cfg(target_os = "linux")]
    copy_interrupt_to_quit().map_err(ctrlc::Error::System)?;
    Ok(())
}

/// Installs the handler of SIGINT for SIGQUIT too.
#[cfg(target_os = "linux")]
fn copy_interrupt_to_quit() -> std::io::Result<()> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the first call fills the structure or fails, and the second one only reads it. The
    // handler may serve another signal, because it ignores the signal number.
    #[expect(unsafe_code, reason = "no library copies a signal's action")]
    let copied = unsafe {
        libc::sigaction(libc::SIGINT, std::ptr::null(), action.as_mut_ptr()) == 0
            && libc::sigaction(libc::SIGQUIT, action.as_ptr(), std::ptr::null_mut()) == 0
    };
    if copied { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error, like one to a full
/// disk, instead of killing the program (SIGXFSZ). Must be called before any thread is started,
/// because threads inherit the signal mask.
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    // SAFETY: the first two calls fill the set that the third one reads; no pointer is used after
    // its call. If a call fails, the limit kills the program as usual.
    #[expect(unsafe_code, reason = "the standard library has no signal mask")]
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        if libc::sigemptyset(set.as_mut_ptr()) == 0 && libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ) == 0 {
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        }
    }
}

/// Flag that ends the threads of a program and wakes them: at once ([`Stop::set`]), or when the
/// work in progress is completed ([`Stop::close`]). Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    set: AtomicBool,
    interrupted: AtomicBool,
    /// True if no new work may start.
    closing: AtomicBool,
    /// Threads that called [`Stop::enter`] and not yet [`Stop::leave`].
    busy: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Returns true if the threads must end now.
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

    /// Forbids new work. The flag is set once all threads have called [`Stop::leave`].
    pub fn close(&self) {
        if !self.0.closing.swap(true, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Returns true if no new work may start.
    pub fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Relaxed)
    }

    /// Registers a thread whose work in progress is completed before the program ends.
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

    /// Registers a thread that is woken when the flag changes.
    pub fn add(&self, waker: Waker) {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Sets the flag at the first Ctrl-C or termination signal; exits the process at the second.
    pub fn on_interrupt(&self) {
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

/// Flag that ends all tasks (tokio) of a program. Clones share the flag.
#[cfg(feature = "tokio")]
#[derive(Debug, Clone)]
pub struct TaskStop(watch::Receiver<bool>);

#[cfg(feature = "tokio")]
impl TaskStop {
    /// Creates a flag that is set through `flag`.
    pub fn new(flag: watch::Receiver<bool>) -> Self {
        Self(flag)
    }

    /// Creates a flag that the first Ctrl-C or termination signal sets. The second one ends the
    /// process. Fails if the handler cannot be installed.
    pub fn at_interrupt() -> Result<Self, ctrlc::Error> {
        let (set, flag) = watch::channel(false);
        ctrlc::set_handler(move || {
            if set.send_replace(true) {
                process::exit(i32::from(exit::INTERRUPTED));
            }
        })?;
        Ok(Self(flag))
    }

    /// Returns true if the program is stopped.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the program is stopped.
    pub async fn wait(&self) {
        // An error means that the sender is gone, with it the reason to wait.
        let _ = self.0.clone().wait_for(|is_set| *is_set).await;
    }
}
