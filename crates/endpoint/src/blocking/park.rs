//! Waiting of a thread for what a task would wait for.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rdt_driver::clock;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = waker();
}

/// Returns a waker that unparks the calling thread.
pub(super) fn waker() -> Waker {
    Arc::new(Unpark(thread::current())).into()
}

/// Parks the calling thread until `poll` is ready.
pub(super) fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loop {
        if let Some(value) = block_on(None, &mut poll) {
            return value;
        }
    }
}

/// Parks the calling thread until `poll` is ready. Returns `None` after `timeout`.
pub(super) fn block_on<T>(
    timeout: Option<Duration>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    WAKER.with(|waker| {
        let mut cx = Context::from_waker(waker);
        // A timeout beyond the clock's range is none.
        let deadline = timeout.and_then(|timeout| clock::now().checked_add(timeout));
        loop {
            if let Poll::Ready(value) = poll(&mut cx) {
                return Some(value);
            }
            let Some(deadline) = deadline else {
                thread::park();
                continue;
            };
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    })
}
