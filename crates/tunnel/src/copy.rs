//! Copying between a local stream (TCP, or standard input and output) and an rdt stream, in both
//! directions independently.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

/// Stream on this host: TCP, or standard input and output.
pub(crate) trait Local: AsyncRead + AsyncWrite + Unpin {
    /// Makes the drop of the stream a reset, so that the program at its end does not take cut data
    /// for complete.
    fn reset_at_drop(&self) {}

    /// Returns the error that has ended the stream, which is not read meanwhile. Without it, reads
    /// and writes alone find out.
    fn take_error(&self) -> Option<io::Error> {
        None
    }
}

impl Local for TcpStream {
    fn reset_at_drop(&self) {
        // Fails if the socket is unusable, and then the program learns that anyway.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }

    fn take_error(&self) -> Option<io::Error> {
        Self::take_error(self).ok().flatten()
    }
}

/// Buffer of a direction, bytes. A read of this size takes 40 us from a local socket, so the system
/// calls cost little at 10 Gbit/s. Pages that no read has reached take no memory.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// Interval at which a local stream that is not read is checked for a reset.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes that each direction has moved so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// True if the local stream has ended, and the peer was told.
    pub(crate) is_sent: AtomicBool,
}

/// Result of copying between a local stream and an rdt stream.
#[derive(Debug)]
pub(crate) enum End {
    /// Both sides have ended their streams, and everything was passed on.
    Finished,
    /// The local stream failed: the peer must be told.
    LocalFailed(io::Error),
    /// The rdt stream failed: the local side must be told.
    PeerFailed(io::Error),
}

/// Copies in both directions until both have ended or one has failed. The end of one direction is
/// passed on as a half-close, and the other direction goes on.
///
/// The first failure ends both: a connection that has failed in one direction has lost data. A
/// direction whose writer is blocked does not read, so it does not see that its reader has failed.
/// Therefore `peer_failed` is the failure of the peer's stream, and the local one is checked.
pub(crate) async fn relay<L, P>(
    local: &mut L,
    peer: &mut P,
    peer_failed: impl Future<Output = io::Error>,
    counters: &Counters,
) -> End
where
    L: Local,
    P: AsyncRead + AsyncWrite + Unpin,
{
    let (mut up, mut down) = (Direction::new(), Direction::new());
    let mut peer_failed = pin!(peer_failed);
    let mut check = interval(CHECK_INTERVAL);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let both = poll_fn(|cx| {
        let sent = up.poll(cx, (local, End::LocalFailed), (peer, End::PeerFailed), &counters.sent);
        if let Poll::Ready(Err(end)) = sent {
            return Poll::Ready(end);
        }
        if sent.is_ready() {
            counters.is_sent.store(true, Ordering::Relaxed);
        }
        let received = down.poll(cx, (peer, End::PeerFailed), (local, End::LocalFailed), &counters.received);
        if let Poll::Ready(Err(end)) = received {
            return Poll::Ready(end);
        }
        if sent.is_ready() && received.is_ready() {
            return Poll::Ready(End::Finished);
        }
        while up.is_full() && check.poll_tick(cx).is_ready() {
            if let Some(error) = local.take_error() {
                return Poll::Ready(End::LocalFailed(error));
            }
        }
        // All bytes that the local stream takes are written.
        peer_failed.as_mut().poll(cx).map(End::PeerFailed)
    });
    both.await
}

struct Direction {
    buffer: Box<[u8]>,
    /// Bytes from `start` to `end` are read and not yet written.
    start: usize,
    end: usize,
    phase: Phase,
    needs_flush: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Copying,
    /// The reader has ended: the rest of the buffer is written, then the writer is shut down.
    Ending,
    Ended,
}

impl Direction {
    fn new() -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { buffer, start: 0, end: 0, phase: Phase::Copying, needs_flush: false }
    }

    /// Moves what both streams can. Each comes with the end that its failure is.
    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        (reader, read_failed): (&mut R, fn(io::Error) -> End),
        (writer, write_failed): (&mut W, fn(io::Error) -> End),
        bytes: &AtomicU64,
    ) -> Poll<Result<(), End>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            self.fill(cx, reader).map_err(read_failed)?;
            if self.start == self.end {
                // Before a shutdown, too, because that of a standard output does not flush it.
                if self.needs_flush {
                    ready!(Pin::new(&mut *writer).poll_flush(cx)).map_err(write_failed)?;
                    self.needs_flush = false;
                }
                return match self.phase {
                    Phase::Ended => Poll::Ready(Ok(())),
                    Phase::Ending => {
                        ready!(Pin::new(&mut *writer).poll_shutdown(cx)).map_err(write_failed)?;
                        self.phase = Phase::Ended;
                        Poll::Ready(Ok(()))
                    }
                    Phase::Copying => Poll::Pending,
                };
            }
            let unwritten = &self.buffer[self.start..self.end];
            let written = ready!(Pin::new(&mut *writer).poll_write(cx, unwritten)).map_err(write_failed)?;
            if written == 0 {
                return Poll::Ready(Err(write_failed(io::ErrorKind::WriteZero.into())));
            }
            self.start += written;
            self.needs_flush = true;
            bytes.fetch_add(written as u64, Ordering::Relaxed);
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.end == self.buffer.len()
    }

    /// Reads once, behind the unwritten bytes, if there is room.
    fn fill<R: AsyncRead + Unpin>(&mut self, cx: &mut Context<'_>, reader: &mut R) -> io::Result<()> {
        if self.phase != Phase::Copying || self.is_full() {
            return Ok(());
        }
        let mut room = ReadBuf::new(&mut self.buffer[self.end..]);
        if Pin::new(reader).poll_read(cx, &mut room)?.is_ready() {
            match room.filled().len() {
                0 => self.phase = Phase::Ending,
                read => self.end += read,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    /// A relay in a task, with the far ends of both of its streams.
    struct Rig {
        local: DuplexStream,
        peer: DuplexStream,
        relay: JoinHandle<(End, [u64; 2])>,
    }

    fn rig(local_bytes: usize, peer_bytes: usize) -> Rig {
        let (local, mut near_local) = duplex(local_bytes);
        let (peer, mut near_peer) = duplex(peer_bytes);
        let relay = tokio::spawn(async move {
            let counters = Counters::default();
            let end = relay(&mut near_local, &mut near_peer, pending(), &counters).await;
            (end, [&counters.sent, &counters.received].map(|bytes| bytes.load(Ordering::Relaxed)))
        });
        Rig { local, peer, relay }
    }

    fn pattern(length: usize, salt: u8) -> Vec<u8> {
        (0..length).map(|i| u8::try_from(i % 251).unwrap() ^ salt).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn both_directions_arrive_through_small_windows() {
        let Rig { local, peer, relay } = rig(7, 1000);
        let (up, down) = (pattern(700_000, 0), pattern(300_000, 0x55));
        let exchange = |stream: DuplexStream, bytes: Vec<u8>| async move {
            let (mut reader, mut writer) = split(stream);
            let send = async move {
                writer.write_all(&bytes).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut got = Vec::new();
            tokio::join!(send, reader.read_to_end(&mut got)).1.unwrap();
            got
        };
        let (at_local, at_peer) = tokio::join!(exchange(local, up.clone()), exchange(peer, down.clone()));
        assert!(at_local == down && at_peer == up);
        let (end, bytes) = relay.await.unwrap();
        assert!(matches!(end, End::Finished), "{end:?}");
        assert_eq!(bytes, [700_000, 300_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn half_close_leaves_other_direction_open() {
        let Rig { mut local, mut peer, relay } = rig(64, 64);
        local.write_all(b"request").await.unwrap();
        local.shutdown().await.unwrap();
        let mut request = Vec::new();
        peer.read_to_end(&mut request).await.unwrap();
        assert_eq!(request, b"request");
        for part in [&b"first "[..], b"second"] {
            peer.write_all(part).await.unwrap();
            let mut got = vec![0; part.len()];
            local.read_exact(&mut got).await.unwrap();
            assert_eq!(got, part);
        }
        assert!(!relay.is_finished());
        peer.shutdown().await.unwrap();
        assert_eq!(local.read(&mut [0; 1]).await.unwrap(), 0);
        assert!(matches!(relay.await.unwrap().0, End::Finished));
    }

    #[tokio::test(start_paused = true)]
    async fn writer_is_blocked_while_peer_does_not_read() {
        let Rig { mut local, mut peer, relay: _relay } = rig(1000, 1000);
        let writing = async {
            let mut written = 0;
            while timeout(Duration::from_secs(1), local.write_all(&[7; 100])).await.is_ok() {
                written += 100;
            }
            written
        };
        let written = writing.await;
        assert!((2000..=BUFFER_BYTES + 2000).contains(&written), "{written}");
        // The other direction is not blocked.
        peer.write_all(b"hello").await.unwrap();
        let mut got = [0; 5];
        local.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"hello");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_name_their_side() {
        let Rig { local, mut peer, relay } = rig(64, 64);
        drop(local);
        peer.write_all(b"too late").await.unwrap();
        assert!(matches!(relay.await.unwrap().0, End::LocalFailed(_)));

        let Rig { mut local, peer, relay } = rig(64, 64);
        drop(peer);
        local.write_all(b"too late").await.unwrap();
        assert!(matches!(relay.await.unwrap().0, End::PeerFailed(_)));
    }

    /// Writer that keeps bytes back until it is flushed, as an rdt stream may.
    struct Flushed {
        kept: Vec<u8>,
        out: Vec<u8>,
    }

    impl AsyncWrite for Flushed {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.kept.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            let kept = std::mem::take(&mut self.kept);
            self.out.extend(kept);
            Poll::Ready(Ok(()))
        }

        /// Keeps what was not flushed, as tokio's standard output does.
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pause_of_reader_flushes_writer() {
        let (mut far, mut near) = duplex(64);
        far.write_all(b"prompt> ").await.unwrap();
        let (mut direction, bytes) = (Direction::new(), AtomicU64::new(0));
        let mut writer = Flushed { kept: Vec::new(), out: Vec::new() };
        let copying = poll_fn(|cx| {
            direction.poll(cx, (&mut near, End::LocalFailed), (&mut writer, End::PeerFailed), &bytes)
        });
        assert!(timeout(Duration::from_secs(1), copying).await.is_err());
        assert_eq!(writer.out, b"prompt> ");
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_reader_flushes_writer() {
        let (mut far, mut near) = duplex(64);
        far.write_all(b"bye").await.unwrap();
        far.shutdown().await.unwrap();
        let (mut direction, bytes) = (Direction::new(), AtomicU64::new(0));
        let mut writer = Flushed { kept: Vec::new(), out: Vec::new() };
        let copying = poll_fn(|cx| {
            direction.poll(cx, (&mut near, End::LocalFailed), (&mut writer, End::PeerFailed), &bytes)
        });
        assert!(copying.await.is_ok());
        assert_eq!(writer.out, b"bye");
    }
}
