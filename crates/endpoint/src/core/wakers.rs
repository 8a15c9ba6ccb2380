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

    /// Same as [`Waiting::register`]. If `is_one`, a new waker replaces the previous one.
    pub(crate) fn wait(&mut self, cx: &Context<'_>, is_one: bool) {
        match &mut *self.0 {
            [waker] if is_one => waker.clone_from(cx.waker()),
            _ => self.register(cx),
        }
    }

    /// Removes the task of a call that was dropped. It is woken, because other calls of the same
    /// task may wait with the same waker, and have to register again.
    pub(super) fn forget(&mut self, waker: &Waker, wakes: &mut Wakes) {
        let before = self.0.len();
        self.0.retain(|other| !other.will_wake(waker));
        if self.0.len() < before {
            wakes.push(waker.clone());
        }
    }

    /// Moves all tasks to `wakes`. Keeps no memory, so that idle connections are small.
    pub(crate) fn wake(&mut self, wakes: &mut Wakes) {
        for waker in std::mem::take(&mut self.0) {
            wakes.push(waker);
        }
    }
}

/// Tasks to wake once the core is unlocked: until then, a woken task would wait for the lock.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn newest_task_of_stream_is_woken() {
        let (mut waiting, mut wakes) = (Waiting::default(), Wakes::default());
        let tasks: Vec<_> = (0..1000).map(|_| Arc::new(Task::default())).collect();
        for task in &tasks {
            waiting.wait(&Context::from_waker(&Waker::from(Arc::clone(task))), true);
            assert_eq!(waiting.0.len(), 1);
        }
        waiting.wake(&mut wakes);
        wakes.wake();
        let woken = tasks.iter().position(|task| task.0.load(Ordering::Relaxed) == 1);
        assert_eq!(woken, Some(999));
    }

    #[test]
    fn dropped_calls_leave_no_wakers() {
        let (mut waiting, mut wakes) = (Waiting::default(), Wakes::default());
        let kept = Arc::new(Task::default());
        let kept_waker = Waker::from(Arc::clone(&kept));
        waiting.register(&Context::from_waker(&kept_waker));
        for _ in 0..1000 {
            let task = Arc::new(Task::default());
            let waker = Waker::from(Arc::clone(&task));
            waiting.register(&Context::from_waker(&waker));
            waiting.forget(&waker, &mut wakes);
            std::mem::take(&mut wakes).wake();
            assert_eq!(task.0.load(Ordering::Relaxed), 1, "its other calls register again");
        }
        assert_eq!(waiting.0.len(), 1);
        waiting.wake(&mut wakes);
        wakes.wake();
        assert_eq!(kept.0.load(Ordering::Relaxed), 1);
    }
}
