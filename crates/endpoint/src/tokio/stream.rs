//! A connection as a pair of byte streams.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use ::tokio::task::coop::poll_proceed;

use super::Endpoint;
use super::wait;
use crate::core::Core;
use crate::core::handles::{StreamHandle, stream_methods};
use crate::error::StreamError;

/// Bidirectional byte stream to a peer: reads return the peer's bytes, writes send to it.
///
/// Used as [`tokio::net::TcpStream`](::tokio::net::TcpStream). A read of 0 bytes is the end of the
/// incoming stream. `shutdown` ends the outgoing stream; the incoming one can still be read. Bytes
/// are sent without a flush. All calls are cancel safe: bytes are read or written only if the call
/// returns their number.
///
/// Dropping the stream ends it as `shutdown` does. If the incoming stream was not read to its end,
/// the peer's writes and its `delivered` fail with `ConnectionReset`, after the outgoing stream has
/// arrived.
#[derive(Debug)]
pub struct Stream {
    handle: Arc<Handle>,
}

stream_methods!(Stream);

/// Handle of a connection, with the endpoint that it may own.
type Handle = StreamHandle<Option<Endpoint>>;

impl Stream {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Waits until the peer's application has received and confirmed the whole outgoing stream.
    /// Call `shutdown` first. Returns the length of the stream. Cancel safe.
    ///
    /// # Errors
    /// If the connection ended before.
    pub async fn delivered(&self) -> Result<u64, StreamError> {
        self.handle.delivered().await
    }

    /// Waits until the connection is over, also while bytes of the peer are unread. Returns why:
    /// [`Closed::Finished`](rdt_transport::Closed::Finished) after both streams were delivered. For
    /// a program that does not read because its own output is blocked. Cancel safe. The future
    /// keeps the connection as a stream does.
    pub fn closed(&self) -> impl Future<Output = StreamError> + Send + use<> {
        let handle = Arc::clone(&self.handle);
        async move {
            let forget = |core: &mut Core, waker: &Waker| core.forget_watcher(handle.id, waker);
            wait(&handle.shared, forget, |cx| handle.poll_closed(cx)).await
        }
    }

    /// Splits the stream into halves that different tasks can own. The connection ends when both
    /// are dropped.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (ReadHalf { handle: Arc::clone(&self.handle) }, WriteHalf { handle: self.handle })
    }
}

/// Reading half of a [`Stream`].
#[derive(Debug)]
pub struct ReadHalf {
    handle: Arc<Handle>,
}

stream_methods!(ReadHalf);

/// Writing half of a [`Stream`]. Dropping it ends the outgoing stream, as `shutdown` does.
#[derive(Debug)]
pub struct WriteHalf {
    handle: Arc<Handle>,
}

stream_methods!(WriteHalf);

impl WriteHalf {
    /// Same as [`Stream::delivered`].
    ///
    /// # Errors
    /// If the connection ended before.
    pub async fn delivered(&self) -> Result<u64, StreamError> {
        self.handle.delivered().await
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // Fails if the connection is over.
        let _ = self.handle.finish();
    }
}

impl<K> StreamHandle<K> {
    async fn delivered(&self) -> Result<u64, StreamError> {
        let forget = |core: &mut Core, waker: &Waker| core.forget_watcher(self.id, waker);
        wait(&self.shared, forget, |cx| self.poll_delivered(cx)).await
    }

    /// Not ready while the budget of the task is used up, as reads and writes then: a task that
    /// polls all of them would take a stream for blocked that is not.
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<StreamError> {
        let coop = ready!(poll_proceed(cx));
        let result = self.shared.with(|core, _| core.poll_closed(self.id, cx));
        if result.is_ready() {
            coop.made_progress();
        }
        result
    }

    fn poll_read_into(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let coop = ready!(poll_proceed(cx));
        let result = self.poll_read(cx, buf.remaining(), |bytes| buf.put_slice(bytes));
        if result.is_ready() {
            coop.made_progress();
        }
        result.map_ok(|_| ()).map_err(io::Error::from)
    }

    fn poll_write_from(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let coop = ready!(poll_proceed(cx));
        let result = self.poll_write(cx, slices);
        if result.is_ready() {
            coop.made_progress();
        }
        result.map_err(io::Error::from)
    }
}

macro_rules! async_read {
    ($half:ty) => {
        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.handle.poll_read_into(cx, buf)
            }
        }
    };
}
async_read!(Stream);
async_read!(ReadHalf);

macro_rules! async_write {
    ($half:ty) => {
        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.handle.poll_write_from(cx, &[IoSlice::new(bytes)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.handle.poll_write_from(cx, slices)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.handle.finish().map_err(io::Error::from))
            }
        }
    };
}
async_write!(Stream);
async_write!(WriteHalf);
