//! A connection as a pair of byte streams.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Endpoint;
use super::driver::Driver;
use super::wait::with_context;
use crate::core::handles::{StreamHandle, stream_methods};
use crate::error::StreamError;

/// Bidirectional byte stream to a peer: reads return the peer's bytes, writes send to it.
///
/// Used as [`std::net::TcpStream`]. A read of 0 bytes is the end of the incoming stream. Bytes are
/// sent without a flush. Clones ([`Stream::try_clone`]) are the same connection, for another
/// thread.
///
/// Dropping the last clone ends the outgoing stream as [`Stream::shutdown`] does. If the incoming
/// stream was not read to its end, the peer's writes and its `delivered` fail with
/// `ConnectionReset`, after the outgoing stream has arrived.
#[derive(Debug)]
pub struct Stream {
    handle: Arc<StreamHandle<Keeps>>,
}

stream_methods!(Stream);

/// Driver and timeouts of a connection, and the endpoint that it may own.
pub(super) struct Keeps {
    driver: Arc<Driver>,
    timeouts: Mutex<Timeouts>,
    _endpoint: Option<Endpoint>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Timeouts {
    read: Option<Duration>,
    write: Option<Duration>,
}

impl Keeps {
    pub(super) fn new(driver: Arc<Driver>, endpoint: Option<Endpoint>) -> Self {
        Self { driver, timeouts: Mutex::default(), _endpoint: endpoint }
    }
}

impl Stream {
    pub(super) fn new(handle: StreamHandle<Keeps>) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Returns another handle of the same connection.
    #[must_use]
    pub fn try_clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }

    /// Ends the outgoing stream: the peer reads its end after all bytes.
    ///
    /// # Errors
    /// If the connection has failed. [`io::ErrorKind::Unsupported`] unless `how` is
    /// [`Shutdown::Write`]: a peer cannot be told to write no more; drop the stream instead.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match how {
            Shutdown::Write => Ok(self.handle.finish()?),
            Shutdown::Read | Shutdown::Both => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Waits until the peer's application has received and confirmed the whole outgoing stream.
    /// Call [`Stream::shutdown`] first. Returns the length of the stream.
    ///
    /// # Errors
    /// If the connection ended before.
    pub fn delivered(&self) -> Result<u64, StreamError> {
        self.handle.keeps.driver.wait_for(|cx| self.handle.poll_delivered(cx))
    }

    /// Limits the wait of a read, for all clones. After it a read fails with
    /// [`io::ErrorKind::WouldBlock`], and may be repeated. `None`, the default, is no limit.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.timeouts(|timeouts| timeouts.read = timeout);
    }

    /// Limits the wait of a write, as [`Stream::set_read_timeout`] does that of a read.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        self.timeouts(|timeouts| timeouts.write = timeout);
    }

    /// Returns the error of a call whose time is over. Its thread waits no more.
    fn timed_out(&self) -> io::Error {
        let StreamHandle { shared, id, .. } = &*self.handle;
        with_context(|cx| shared.with(|core, _| core.forget_thread(*id, cx.waker())));
        io::ErrorKind::WouldBlock.into()
    }

    fn timeouts<R>(&self, access: impl FnOnce(&mut Timeouts) -> R) -> R {
        access(&mut self.handle.keeps.timeouts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let timeout = self.timeouts(|timeouts| timeouts.read);
        let read = self.handle.keeps.driver.block_on(timeout, |cx| {
            let mut room = &mut *buf;
            self.handle.poll_read(cx, room.len(), |bytes| {
                let (head, tail) = std::mem::take(&mut room).split_at_mut(bytes.len());
                head.copy_from_slice(bytes);
                room = tail;
            })
        });
        Ok(read.ok_or_else(|| self.timed_out())??)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let timeout = self.timeouts(|timeouts| timeouts.write);
        let written = self.handle.keeps.driver.block_on(timeout, |cx| self.handle.poll_write(cx, slices));
        Ok(written.ok_or_else(|| self.timed_out())??)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
