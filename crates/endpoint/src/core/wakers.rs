//! Tasks that wait, and tasks to wake after the lock is released.

use std::task::{Context, Waker};

/// Tasks that wait for the same thing. A task is registered once, and woken once.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Vec<Waker>);

impl Waiting {
    pub(crate) fn register(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Moves all tasks to `wakes`. Keeps no memory, so that idle connections are small.
    pub(crate) fn wake(&mut self, wakes: &mut Wakes) {
        for waker in std::mem::take(&mut self.0) {
            wakes.push(waker);
        }
    }
}

/// Tasks to wake once the core is unlocked: a woken task may run at once on another thread, and
/// would wait for the lock.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// Most turns wake one task, for which no memory is allocated.
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakes {
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.more.push(waker);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn wake(self) {
        if let Some(first) = self.first {
            first.wake();
        }
        self.more.into_iter().for_each(Waker::wake);
    }
}
