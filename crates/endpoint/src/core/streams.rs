//! Reading, writing and ending of one connection.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use rdt_crypto::{PublicKey, ResumptionCookie};
use rdt_transport::{Closed, Connection, ConnectionId, ConnectionStats};

use super::{Core, Entry};
use crate::error::StreamError;

impl Core {
    /// Returns the state of a connection, unless nothing can happen with it any more.
    pub(super) fn entry(&mut self, id: ConnectionId) -> Result<&mut Entry, StreamError> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone().into());
        }
        match self.connections.get_mut(&id) {
            Some(Entry { closed: Some(closed), .. }) => Err(closed.clone().into()),
            Some(entry) => Ok(entry),
            None => Err(Closed::Local.into()),
        }
    }

    /// Passes up to `room` bytes to `take`, slice by slice, and returns their number; 0 at the end
    /// of the stream. Bytes that arrived before the connection ended are read before its error.
    pub(crate) fn poll_read(
        &mut self,
        now: Instant,
        id: ConnectionId,
        cx: &Context<'_>,
        room: usize,
        mut take: impl FnMut(&[u8]),
    ) -> Poll<Result<usize, StreamError>> {
        let Some(connection) = self.set.get(id) else {
            return Poll::Ready(self.ended(id).map(|()| 0));
        };
        if connection.is_read_finished() || room == 0 {
            return Poll::Ready(Ok(0));
        }
        if connection.data().is_empty() {
            let has_one_task = self.has_one_task;
            if let Err(error) = self.entry(id).map(|entry| entry.readers.wait(cx, has_one_task)) {
                return Poll::Ready(self.ended(id).map(|()| 0).map_err(|_| error));
            }
            if self.is_output_pending {
                self.output_inline(now);
            }
            return Poll::Pending;
        }
        let mut taken = 0;
        self.set.with(now, id, |connection: &mut Connection| {
            while let unread @ 1.. = connection.data().len().min(room - taken) {
                take(&connection.data()[..unread]);
                connection.consume(unread);
                taken += unread;
            }
        });
        // The ACK waits for what the reader writes next, or for its next read.
        if !self.is_output_pending {
            self.output_inline(now);
        }
        Poll::Ready(Ok(taken))
    }

    /// Returns how a connection without further bytes ended: `Ok` at the end of the stream.
    fn ended(&mut self, id: ConnectionId) -> Result<(), StreamError> {
        match self.entry(id).map(|_| ()) {
            Err(StreamError::Closed(Closed::Finished)) => Ok(()),
            ended => ended,
        }
    }

    /// Writes what fits, and sends it. Returns the number of bytes.
    pub(crate) fn poll_write(
        &mut self,
        now: Instant,
        id: ConnectionId,
        cx: &Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, StreamError>> {
        let entry = self.entry(id)?;
        if entry.is_finished {
            return Poll::Ready(Err(StreamError::Finished));
        }
        let mut written = 0;
        let mut wanted = false;
        let result = self.set.with(now, id, |connection| {
            for slice in slices.iter().filter(|slice| !slice.is_empty()) {
                wanted = true;
                let taken = connection.write(slice)?;
                written += taken;
                if taken < slice.len() {
                    break;
                }
            }
            connection.push();
            Ok::<_, Closed>(())
        });
        if let Some(Err(closed)) = result
            && written == 0
        {
            return Poll::Ready(Err(closed.into()));
        }
        if wanted && written == 0 {
            let has_one_task = self.has_one_task;
            self.entry(id)?.writers.wait(cx, has_one_task);
            return Poll::Pending;
        }
        self.output_inline(now);
        Poll::Ready(Ok(written))
    }

    /// Ends the outgoing stream: the peer reads its end after all bytes.
    pub(crate) fn finish(&mut self, now: Instant, id: ConnectionId) -> Result<(), StreamError> {
        let entry = match self.entry(id) {
            Err(StreamError::Closed(Closed::Finished)) => return Ok(()),
            entry => entry?,
        };
        if !std::mem::replace(&mut entry.is_finished, true) {
            self.change(now, id, Connection::finish);
        }
        Ok(())
    }

    /// Waits until the peer's application has confirmed the outgoing stream. Returns its length.
    pub(crate) fn poll_delivered(
        &mut self,
        id: ConnectionId,
        cx: &Context<'_>,
    ) -> Poll<Result<u64, StreamError>> {
        if let Some(Entry { delivered: Some(bytes), .. }) = self.connections.get(&id) {
            return Poll::Ready(Ok(*bytes));
        }
        self.entry(id)?.watchers.register(cx);
        Poll::Pending
    }

    /// Waits until the connection is over. Returns why.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_closed(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<StreamError> {
        match self.entry(id) {
            Err(error) => Poll::Ready(error),
            Ok(entry) => {
                entry.watchers.register(cx);
                Poll::Pending
            }
        }
    }

    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "calls of threads are not dropped"))]
    pub(crate) fn forget_watcher(&mut self, id: ConnectionId, waker: &Waker) {
        if let Some(entry) = self.connections.get_mut(&id) {
            entry.watchers.forget(waker, &mut self.wakes);
        }
    }

    /// Forgets a thread whose read or write timed out.
    pub(crate) fn forget_thread(&mut self, id: ConnectionId, waker: &Waker) {
        if let Some(entry) = self.connections.get_mut(&id) {
            entry.readers.forget(waker, &mut self.wakes);
            entry.writers.forget(waker, &mut self.wakes);
        }
    }

    /// Changes a connection, and sends what became due.
    pub(crate) fn change(&mut self, now: Instant, id: ConnectionId, work: impl FnOnce(&mut Connection)) {
        self.set.with(now, id, work);
        self.output_inline(now);
    }

    pub(crate) fn close(&mut self, now: Instant, id: ConnectionId, code: u32, text: &str) {
        self.change(now, id, |connection| connection.close(now, code, text));
    }

    /// Handles the drop of a connection's last handle.
    pub(crate) fn release(&mut self, now: Instant, id: ConnectionId) {
        self.connections.remove(&id);
        self.set.release(now, id);
        self.output_inline(now);
    }

    pub(crate) fn peer_address(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.set.address(id).map(|address| address.canonical())
    }

    pub(crate) fn peer_name(&self, id: ConnectionId) -> Option<String> {
        self.set.get(id)?.peer_name().map(str::to_owned)
    }

    pub(crate) fn peer_identity(&self, id: ConnectionId) -> Option<PublicKey> {
        self.connections.get(&id)?.peer
    }

    pub(crate) fn resumption(&self, id: ConnectionId) -> Option<ResumptionCookie> {
        self.connections.get(&id)?.resumption.as_deref().copied()
    }

    pub(crate) fn stats(&self, id: ConnectionId) -> Option<ConnectionStats> {
        self.set.get(id).map(Connection::stats)
    }
}
