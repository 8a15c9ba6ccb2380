//! Ways in which the thread that drives an endpoint waits, and its waker. The waker and the number
//! of the calling thread.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdt_driver::Waiter;

use crate::io::Io;

/// Way in which the driving thread waits.
pub(super) enum Wait {
    Socket(Box<Waiter>),
    /// By parking: packets of an emulated network are due at known times.
    #[cfg(feature = "emulator")]
    Park,
}

impl Wait {
    pub(super) fn on(io: &Io) -> io::Result<Self> {
        match io.socket() {
            Some(socket) => Ok(Self::Socket(Box::new(Waiter::new(socket, Duration::ZERO)?))),
            #[cfg(feature = "emulator")]
            None => Ok(Self::Park),
            #[cfg(not(feature = "emulator"))]
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns a waker that ends the wait of the driving thread on the socket. `None` on an
    /// emulated network.
    pub(super) fn end_wait(&self) -> Option<Arc<EndWait>> {
        match self {
            Self::Socket(waiter) => Some(Arc::new(EndWait {
                waker: waiter.waker(),
                driving: AtomicU64::new(0),
                is_repeated: AtomicBool::new(false),
            })),
            #[cfg(feature = "emulator")]
            Self::Park => None,
        }
    }

    pub(super) fn wait(&mut self, deadline: Option<Instant>, writable: bool) -> io::Result<()> {
        match self {
            Self::Socket(waiter) => waiter.wait(deadline, writable),
            #[cfg(feature = "emulator")]
            Self::Park => {
                let now = rdt_driver::clock::now();
                match deadline {
                    Some(deadline) => thread::park_timeout(deadline.saturating_duration_since(now)),
                    None => thread::park(),
                }
                Ok(())
            }
        }
    }
}

/// Waker of a [`Waiter`] as that of a task. The driving thread itself needs no system call.
pub(super) struct EndWait {
    waker: rdt_driver::Waker,
    /// Number of the thread that drives, by [`thread_number`]; 0: none.
    driving: AtomicU64,
    /// True if the driving thread was woken by itself: its next wait ends at once.
    is_repeated: AtomicBool,
}

impl EndWait {
    /// Starts the driving of the calling thread.
    pub(super) fn start(self: &Arc<Self>) {
        self.driving.store(thread_number(), Ordering::Relaxed);
        set_driven(Some(Arc::clone(self)));
    }

    /// Ends the driving of the calling thread.
    pub(super) fn end(&self) {
        set_driven(None);
        self.driving.store(0, Ordering::Relaxed);
        self.take_repeated();
    }

    /// Takes the wake-up of the driving thread by itself.
    pub(super) fn take_repeated(&self) -> bool {
        self.is_repeated.swap(false, Ordering::Relaxed)
    }
}

impl Wake for EndWait {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.driving.load(Ordering::Relaxed) == thread_number() {
            self.is_repeated.store(true, Ordering::Relaxed);
        } else {
            self.waker.wake();
        }
    }
}

/// Returns the waker of the driving thread.
pub(super) fn waker(end_wait: Option<&Arc<EndWait>>) -> Waker {
    match end_wait {
        Some(end_wait) => Arc::clone(end_wait).into(),
        None => Arc::new(CallWaker::new()).into(),
    }
}

/// Waker of a thread. One that drives sleeps on the socket, where an unpark does not reach it.
struct CallWaker {
    thread: Thread,
    /// Exists while the thread drives an endpoint.
    driven: Mutex<Option<Arc<EndWait>>>,
}

impl CallWaker {
    fn new() -> Self {
        Self { thread: thread::current(), driven: Mutex::default() }
    }

    fn driven(&self) -> MutexGuard<'_, Option<Arc<EndWait>>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match &*self.driven() {
            Some(end_wait) => end_wait.wake_by_ref(),
            None => self.thread.unpark(),
        }
    }
}

static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static CALL: Arc<CallWaker> = Arc::new(CallWaker::new());
    static WAKER: Waker = CALL.with(Arc::clone).into();
    static NUMBER: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Passes a context that wakes the calling thread.
pub(super) fn with_context<T>(call: impl FnOnce(&mut Context<'_>) -> T) -> T {
    WAKER.with(|waker| call(&mut Context::from_waker(waker)))
}

/// Sets the endpoint that the calling thread drives.
fn set_driven(end_wait: Option<Arc<EndWait>>) {
    // A thread that ends has dropped its waker, and waits no more.
    let _ = CALL.try_with(|call| *call.driven() = end_wait);
}

/// Returns the number of the calling thread, at least 1.
fn thread_number() -> u64 {
    NUMBER.with(|number| *number)
}
