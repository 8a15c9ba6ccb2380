//! Readiness of a UDP socket, by the runtime's reactor.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::task::{Context, Poll};

#[cfg(not(unix))]
pub(super) use portable::Readiness;
#[cfg(unix)]
pub(super) use unix::Readiness;

#[cfg(unix)]
mod unix {
    use ::tokio::io::Interest;
    use ::tokio::io::unix::AsyncFd;

    use super::super::register;
    use super::{Arc, Context, Poll, UdpSocket, io};

    /// Interest in a socket. Writability is watched only while it is waited for: the reactor would
    /// wake up for every datagram that the peer has read.
    pub(in crate::tokio) struct Readiness {
        socket: Arc<UdpSocket>,
        readable: AsyncFd<std::os::fd::OwnedFd>,
        writable: Option<AsyncFd<std::os::fd::OwnedFd>>,
    }

    impl Readiness {
        pub(in crate::tokio) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
            let readable = register(socket.try_clone()?.into(), Interest::READABLE)?;
            Ok(Self { socket, readable, writable: None })
        }

        /// True if datagrams may have arrived; else the task is woken when one does.
        pub(in crate::tokio) fn is_readable(&self, cx: &mut Context<'_>) -> bool {
            self.readable.poll_read_ready(cx).is_ready()
        }

        /// Calls `read` if datagrams may have arrived. It returns true once there are no more.
        pub(in crate::tokio) fn read(&self, cx: &mut Context<'_>, read: impl FnOnce() -> bool) -> Poll<()> {
            let Poll::Ready(guard) = self.readable.poll_read_ready(cx) else { return Poll::Pending };
            // The guard knows the events until now: a datagram that arrives meanwhile stays
            // noticed.
            if read()
                && let Ok(mut guard) = guard
            {
                guard.clear_ready();
            }
            Poll::Ready(())
        }

        /// Calls `write` when the socket may be writable, until it returns true: everything was
        /// written.
        pub(in crate::tokio) fn write(
            &mut self,
            cx: &mut Context<'_>,
            mut write: impl FnMut() -> bool,
        ) -> io::Result<Poll<()>> {
            let writable = match &mut self.writable {
                Some(writable) => writable,
                none => none.insert(register(self.socket.try_clone()?.into(), Interest::WRITABLE)?),
            };
            while let Poll::Ready(guard) = writable.poll_write_ready(cx) {
                let mut guard = guard?;
                if write() {
                    self.writable = None;
                    return Ok(Poll::Ready(()));
                }
                guard.clear_ready();
            }
            Ok(Poll::Pending)
        }
    }
}

#[cfg(not(unix))]
mod portable {
    use ::tokio::io::Interest;

    use super::{Arc, Context, Poll, UdpSocket, io};

    /// Interest in a socket.
    pub(in crate::tokio) struct Readiness(::tokio::net::UdpSocket);

    impl Readiness {
        #[expect(clippy::needless_pass_by_value, reason = "other systems keep the socket")]
        pub(in crate::tokio) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
            socket.try_clone().and_then(::tokio::net::UdpSocket::from_std).map(Self)
        }

        /// True if datagrams may have arrived; else the task is woken when one does.
        pub(in crate::tokio) fn is_readable(&self, cx: &mut Context<'_>) -> bool {
            self.0.poll_recv_ready(cx).is_ready()
        }

        /// Calls `read` if datagrams may have arrived. It returns true once there are no more.
        pub(in crate::tokio) fn read(&self, cx: &mut Context<'_>, read: impl FnOnce() -> bool) -> Poll<()> {
            if !self.is_readable(cx) {
                return Poll::Pending;
            }
            let _ = self.0.try_io(Interest::READABLE, || would_block(read()));
            Poll::Ready(())
        }

        /// Calls `write` when the socket may be writable, until it returns true: everything was
        /// written.
        pub(in crate::tokio) fn write(
            &mut self,
            cx: &mut Context<'_>,
            mut write: impl FnMut() -> bool,
        ) -> io::Result<Poll<()>> {
            while self.0.poll_send_ready(cx)?.is_ready() {
                if self.0.try_io(Interest::WRITABLE, || would_block(!write())).is_ok() {
                    return Ok(Poll::Ready(()));
                }
            }
            Ok(Poll::Pending)
        }
    }

    fn would_block(blocks: bool) -> io::Result<()> {
        if blocks { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}
