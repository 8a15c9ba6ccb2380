//! Waker of a thread, and the number of the calling thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static WAKER: Waker = waker();
    static NUMBER: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Returns a waker that unparks the calling thread.
pub(super) fn waker() -> Waker {
    Arc::new(Unpark(thread::current())).into()
}

/// Passes a context that unparks the calling thread.
pub(super) fn with_context<T>(call: impl FnOnce(&mut Context<'_>) -> T) -> T {
    WAKER.with(|waker| call(&mut Context::from_waker(waker)))
}

/// Returns the number of the calling thread, at least 1.
pub(super) fn thread_number() -> u64 {
    NUMBER.with(|number| *number)
}
