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
        readable: AsyncFd<Arc<UdpSocket>>,
        /// Second descriptor of the socket, because the reactor takes each one once. Kept for the
        /// life of the endpoint: the process may have no free descriptor while a send is blocked.
        duplicate: Arc<UdpSocket>,
        writable: Option<AsyncFd<Arc<UdpSocket>>>,
    }

    impl Readiness {
        pub(in crate::tokio) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
            let duplicate = Arc::new(socket.try_clone()?);
            Ok(Self { readable: register(socket, Interest::READABLE)?, duplicate, writable: None })
        }

        /// True if datagrams may have arrived; else the task is woken when one does.
        pub(in crate::tokio) fn is_readable(&self, cx: &mut Context<'_>) -> bool {
            self.readable.poll_read_ready(cx).is_ready()
        }

        /// Calls `read` if datagrams may have arrived. It returns true once there are no more.
        pub(in crate::tokio) fn read(&self, cx: &mut Context<'_>, read: impl FnOnce() -> bool) -> Poll<()> {
            let Poll::Ready(guard) = self.readable.poll_read_ready(cx) else { return Poll::Pending };
            // A datagram that arrives meanwhile stays noticed: the guard knows earlier ones only.
            if read()
                && let Ok(mut guard) = guard
            {
                guard.clear_ready();
            }
            Poll::Ready(())
        }

        /// Calls `write` when the socket may be writable, until it returns true: everything was
        /// written. Also ready, for another attempt at once, if the reactor cannot watch the
        /// socket: `epoll_ctl(2)` has no memory or no free watch.
        pub(in crate::tokio) fn write(
            &mut self,
            cx: &mut Context<'_>,
            mut write: impl FnMut() -> bool,
        ) -> Poll<()> {
            let writable = match &mut self.writable {
                Some(writable) => writable,
                none => match register(Arc::clone(&self.duplicate), Interest::WRITABLE) {
                    Ok(registered) => none.insert(registered),
                    Err(_) => return Poll::Ready(()),
                },
            };
            // Fails once the runtime ends, and then the task is not polled again.
            while let Poll::Ready(Ok(mut guard)) = writable.poll_write_ready(cx) {
                if write() {
                    self.writable = None;
                    return Poll::Ready(());
                }
                guard.clear_ready();
            }
            Poll::Pending
        }
    }
}

/// The same with tokio's socket.
#[cfg(not(unix))]
mod portable {
    use ::tokio::io::Interest;

    use super::{Arc, Context, Poll, UdpSocket, io};

    pub(in crate::tokio) struct Readiness(::tokio::net::UdpSocket);

    impl Readiness {
        #[expect(clippy::needless_pass_by_value, reason = "other systems keep the socket")]
        pub(in crate::tokio) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
            socket.try_clone().and_then(::tokio::net::UdpSocket::from_std).map(Self)
        }

        pub(in crate::tokio) fn is_readable(&self, cx: &mut Context<'_>) -> bool {
            self.0.poll_recv_ready(cx).is_ready()
        }

        pub(in crate::tokio) fn read(&self, cx: &mut Context<'_>, read: impl FnOnce() -> bool) -> Poll<()> {
            if !self.is_readable(cx) {
                return Poll::Pending;
            }
            let _ = self.0.try_io(Interest::READABLE, || would_block(read()));
            Poll::Ready(())
        }

        pub(in crate::tokio) fn write(
            &mut self,
            cx: &mut Context<'_>,
            mut write: impl FnMut() -> bool,
        ) -> Poll<()> {
            // Fails once the runtime ends, and then the task is not polled again.
            while let Poll::Ready(Ok(())) = self.0.poll_send_ready(cx) {
                if self.0.try_io(Interest::WRITABLE, || would_block(!write())).is_ok() {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        }
    }

    fn would_block(blocks: bool) -> io::Result<()> {
        if blocks { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use ::tokio::time::timeout;
    use rdt_testing::NoDescriptors;

    use super::*;

    #[test]
    fn blocked_socket_needs_no_free_descriptor() {
        rdt_testing::run_alone("tokio::readiness::tests::blocked_socket_is_watched");
    }

    /// Another kind of socket stands in for UDP, which never blocks on the loopback interface.
    #[::tokio::test]
    #[ignore = "run by another test"]
    async fn blocked_socket_is_watched() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let socket = Arc::new(UdpSocket::from(OwnedFd::from(near)));
        let mut readiness = Readiness::new(Arc::clone(&socket)).unwrap();
        let _limit = NoDescriptors::new();
        socket.try_clone().unwrap_err();
        let send = || socket.send(&[0; 4096]).is_ok();
        while send() {}
        assert!(poll_fn(|cx| Poll::Ready(readiness.write(cx, send))).await.is_pending());
        while far.read(&mut [0; 4096]).is_ok() {}
        timeout(Duration::from_secs(60), poll_fn(|cx| readiness.write(cx, send))).await.unwrap();
    }
}
