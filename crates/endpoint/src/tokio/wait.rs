//! Calls that wait for a change of an endpoint. A dropped call leaves no waker behind.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use crate::core::{Core, Shared};

/// Waits until `poll` is ready. If the call is dropped before, `forget` removes its waker.
pub(super) async fn wait<T>(
    shared: &Shared,
    forget: impl Fn(&mut Core, &Waker),
    mut poll: impl FnMut(&Context<'_>) -> Poll<T>,
) -> T {
    let mut call = Call { shared, forget, waker: None };
    poll_fn(|cx| {
        let result = poll(cx);
        call.waker = result.is_pending().then(|| cx.waker().clone());
        result
    })
    .await
}

struct Call<'a, F: Fn(&mut Core, &Waker)> {
    shared: &'a Shared,
    forget: F,
    /// Waker that the core has, while the call waits.
    waker: Option<Waker>,
}

impl<F: Fn(&mut Core, &Waker)> Drop for Call<'_, F> {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            self.shared.with(|core, _| (self.forget)(core, &waker));
        }
    }
}
