//! How the driving thread blocks (socket poll or park), and the [`Waker`]s that unblock it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdt_udp::Waiter;

use crate::io::Io;

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

    /// Returns a waker that interrupts the poll of the socket. `None` on an emulated network.
    #[cfg_attr(
        not(feature = "emulator"),
        expect(clippy::unnecessary_wraps, reason = "an emulated network has none")
    )]
    pub(super) fn driver_waker(&self) -> Option<Arc<DriverWaker>> {
        match self {
            Self::Socket(waiter) => Some(Arc::new(DriverWaker {
                waker: waiter.waker(),
                driving: AtomicU64::new(0),
                woke_itself: AtomicBool::new(false),
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
                let now = rdt_udp::clock::now();
                match deadline {
                    Some(deadline) => thread::park_timeout(deadline.saturating_duration_since(now)),
                    None => thread::park(),
                }
                Ok(())
            }
        }
    }
}

/// [`Waker`] that interrupts the driver's poll. The driving thread itself only sets a flag.
pub(super) struct DriverWaker {
    waker: rdt_udp::Waker,
    /// [`thread_number`] of the driving thread; 0 for none.
    driving: AtomicU64,
    /// True if the driving thread woke itself: it must not block before its next turn.
    woke_itself: AtomicBool,
}

impl DriverWaker {
    /// Marks the calling thread as the driving one.
    pub(super) fn start(self: &Arc<Self>) {
        self.driving.store(thread_number(), Ordering::Relaxed);
        set_driven(Some(Arc::clone(self)));
    }

    /// Ends that: the calling thread no longer drives.
    pub(super) fn end(&self) {
        set_driven(None);
        self.driving.store(0, Ordering::Relaxed);
        self.take_woke_itself();
    }

    /// Returns and clears the flag that the driving thread woke itself.
    pub(super) fn take_woke_itself(&self) -> bool {
        self.woke_itself.swap(false, Ordering::Relaxed)
    }
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.driving.load(Ordering::Relaxed) == thread_number() {
            self.woke_itself.store(true, Ordering::Relaxed);
        } else {
            self.waker.wake();
        }
    }
}

/// Returns the waker of the driving thread: that of its socket, or an unpark.
pub(super) fn waker(driver_waker: Option<&Arc<DriverWaker>>) -> Waker {
    match driver_waker {
        Some(driver_waker) => Arc::clone(driver_waker).into(),
        None => Arc::new(CallWaker::new()).into(),
    }
}

/// Waker of an application thread. While it drives it polls the socket, and sees no unpark.
struct CallWaker {
    thread: Thread,
    /// Waker of the endpoint that the thread drives; `None` if it drives none.
    driven: Mutex<Option<Arc<DriverWaker>>>,
}

impl CallWaker {
    fn new() -> Self {
        Self { thread: thread::current(), driven: Mutex::default() }
    }

    fn driven(&self) -> MutexGuard<'_, Option<Arc<DriverWaker>>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match &*self.driven() {
            Some(driver_waker) => driver_waker.wake_by_ref(),
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
fn set_driven(driver_waker: Option<Arc<DriverWaker>>) {
    // A thread that ends has dropped its waker, and waits no more.
    let _ = CALL.try_with(|call| *call.driven() = driver_waker);
}

/// Returns the number of the calling thread, at least 1.
fn thread_number() -> u64 {
    NUMBER.with(|number| *number)
}
