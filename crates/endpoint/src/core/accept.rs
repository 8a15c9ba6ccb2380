//! Accepting of connections, the end of an endpoint, and waiting until it is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use rdt_transport::{Admittee, ConnectionEvent, ConnectionId, RefuseReason, ResponderConfig};

use super::{Core, Entry};
use crate::config::{Connect, Listen};
use crate::error::{ConnectError, ListenError, Stopped, StreamError};

/// Number of connections that wait for `accept`, shared with the closure that admits new ones. Each
/// listener has its own, which also identifies it: a closed listener is not its successor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backlog(Arc<AtomicUsize>);

impl PartialEq for Backlog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Core {
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        peer: std::net::SocketAddr,
        connect: Connect,
    ) -> Result<ConnectionId, ConnectError> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone().into());
        }
        let Connect { initiator, config, observer } = connect;
        self.io.report_unreachable();
        let id = self.set.connect(now, peer.into(), initiator, config)?;
        self.connections.insert(id, Entry::default());
        if let Some(make) = observer {
            self.set.with(now, id, |connection| connection.observe(make(peer)));
        }
        self.output_inline(now);
        Ok(id)
    }

    pub(crate) fn poll_connected(
        &mut self,
        id: ConnectionId,
        cx: &Context<'_>,
    ) -> Poll<Result<(), StreamError>> {
        let entry = self.entry(id)?;
        if entry.is_connected {
            return Poll::Ready(Ok(()));
        }
        entry.watchers.register(cx);
        Poll::Pending
    }

    pub(crate) fn listen(&mut self, listen: Listen) -> Result<Backlog, ListenError> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone().into());
        }
        if self.backlog.is_some() {
            return Err(ListenError::AlreadyListening);
        }
        let Listen { responder, backlog: limit, observer } = listen;
        self.observer = observer;
        let backlog = Backlog::default();
        self.backlog = Some(backlog.clone());
        let (admit, waiting) = (responder.admit, backlog.clone());
        let admit_within_backlog = move |admittee: Admittee| {
            if waiting.0.load(Ordering::Relaxed) >= limit {
                return Err(RefuseReason::Busy);
            }
            admit(admittee)
        };
        self.set.listen(ResponderConfig { admit: Arc::new(admit_within_backlog), ..responder });
        Ok(backlog)
    }

    /// Stops listening when the listener is dropped, unless the endpoint has a later listener.
    pub(crate) fn drop_listener(&mut self, now: Instant, backlog: &Backlog) {
        if self.backlog.as_ref() == Some(backlog) {
            self.stop_listening(now);
        }
    }

    /// Ends listening. Connections that were not accepted are closed.
    pub(crate) fn stop_listening(&mut self, now: Instant) {
        self.set.stop_listening();
        (self.backlog, self.observer) = (None, None);
        for id in std::mem::take(&mut self.accepted) {
            self.close(now, id, 0, "");
            self.release(now, id);
        }
        self.acceptors.wake(&mut self.wakes);
    }

    /// Queues a connection that a peer opened.
    pub(super) fn on_accepted(&mut self, now: Instant, id: ConnectionId, event: ConnectionEvent) {
        let Some(backlog) = &self.backlog else {
            return self.set.release(now, id);
        };
        if let Some((make, peer)) = self.observer.as_ref().zip(self.set.address(id)) {
            let observer = make(peer.canonical());
            self.set.with(now, id, |connection| connection.observe(observer));
        }
        let mut entry = Entry::default();
        entry.on_event(event, &mut self.wakes);
        self.connections.insert(id, entry);
        self.accepted.push_back(id);
        backlog.0.store(self.accepted.len(), Ordering::Relaxed);
        self.acceptors.wake(&mut self.wakes);
    }

    pub(crate) fn poll_accept(
        &mut self,
        cx: &Context<'_>,
        backlog: &Backlog,
    ) -> Poll<Result<ConnectionId, ListenError>> {
        if let Some(stopped) = &self.stopped {
            return Poll::Ready(Err(stopped.clone().into()));
        }
        if self.backlog.as_ref() != Some(backlog) {
            return Poll::Ready(Err(Stopped::Closed.into()));
        }
        if let Some(id) = self.accepted.pop_front() {
            backlog.0.store(self.accepted.len(), Ordering::Relaxed);
            return Poll::Ready(Ok(id));
        }
        self.acceptors.register(cx);
        Poll::Pending
    }

    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "calls of threads are not dropped"))]
    pub(crate) fn forget_acceptor(&mut self, waker: &Waker) {
        self.acceptors.forget(waker, &mut self.wakes);
    }

    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "calls of threads are not dropped"))]
    pub(crate) fn forget_idler(&mut self, waker: &Waker) {
        self.idlers.forget(waker, &mut self.wakes);
    }

    /// Closes all connections that have a handle; those without one still deliver written data.
    pub(crate) fn close_all(&mut self, now: Instant, code: u32, text: &str) {
        self.stop_listening(now);
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            self.close(now, id, code, text);
        }
    }

    /// Handles the drop of the last handle of the endpoint.
    pub(crate) fn close_endpoint(&mut self, now: Instant) {
        self.is_closed = true;
        self.close_all(now, 0, "");
        self.wake_driver();
    }

    /// Handles the end of the driver: closes everything at once, because nothing is sent later.
    pub(crate) fn abandon(&mut self, now: Instant) {
        if self.stopped.is_none() {
            self.close_all(now, 0, "");
            self.stop(Stopped::Closed);
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn poll_stopped(&mut self, cx: &Context<'_>) -> Poll<Stopped> {
        if let Some(stopped) = &self.stopped {
            return Poll::Ready(stopped.clone());
        }
        self.idlers.register(cx);
        Poll::Pending
    }

    /// Ready once the peers have all outgoing streams of dropped handles. Wakes no task.
    pub(crate) fn poll_delivered_all(&self) -> Poll<()> {
        let waits = self.stopped.is_none() && !self.is_shut_down && self.set.delivers_released();
        if waits { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Closes all connections when a shutdown has waited long enough, so dropping the last handle
    /// does not wait again. Returns true if all streams were delivered.
    pub(crate) fn end_shutdown(&mut self, now: Instant) -> bool {
        let is_delivered =
            self.stopped.is_none() && self.connections.is_empty() && !self.set.delivers_released();
        self.is_shut_down = true;
        self.close_all(now, 0, "");
        is_delivered
    }

    pub(crate) fn poll_idle(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.stopped.is_some() || self.set.is_empty() {
            return Poll::Ready(());
        }
        self.idlers.register(cx);
        Poll::Pending
    }
}
