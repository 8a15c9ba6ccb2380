//! Limit on the rate at which a stream is read (`--max-rate`).
//!
//! It slows down the peer's sender: bytes that are not read close the receive window. The sender of
//! this side is paced by its configuration.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes that may pass at once after a pause, as time at the rate.
const BURST: Duration = Duration::from_millis(50);
/// Smallest burst, bytes: below it, system calls would cost more than they move.
const MIN_BURST_BYTES: u64 = 64 << 10;
const NANOS_PER_S: u128 = 1_000_000_000;

/// Stream that is read no faster than at a rate.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    stream: S,
    reads: Option<Bucket>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, bytes_per_s: Option<u64>) -> Self {
        Self { stream, reads: bytes_per_s.map(Bucket::new) }
    }
}

/// Token bucket, as the time at which it is full again.
#[derive(Debug)]
struct Bucket {
    bytes_per_s: u64,
    burst_bytes: u64,
    /// Time at which all bytes so far have passed at the rate.
    full_at: Instant,
    wait: Pin<Box<Sleep>>,
}

impl Bucket {
    fn new(bytes_per_s: u64) -> Self {
        let now = Instant::now();
        let burst = u128::from(bytes_per_s) * BURST.as_millis() / 1000;
        let burst_bytes = u64::try_from(burst).unwrap_or(u64::MAX).max(MIN_BURST_BYTES);
        Self { bytes_per_s, burst_bytes, full_at: now, wait: Box::pin(sleep_until(now)) }
    }

    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * NANOS_PER_S / u128::from(self.bytes_per_s);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns how many bytes may pass now, at least 1.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let burst = self.time_of(self.burst_bytes);
        loop {
            // A burst is a debt that the time before `full_at` pays off.
            let debt = self.full_at.saturating_duration_since(Instant::now());
            if let Some(credit) = burst.checked_sub(debt).filter(|credit| !credit.is_zero()) {
                let room = credit.as_nanos() * u128::from(self.bytes_per_s) / NANOS_PER_S;
                return Poll::Ready(usize::try_from(room).unwrap_or(usize::MAX).max(1));
            }
            // Half a burst at a time, so that few wake-ups are needed.
            self.wait.as_mut().reset(self.full_at - burst / 2);
            ready!(self.wait.as_mut().poll(cx));
        }
    }

    fn take(&mut self, bytes: usize) {
        let begin = self.full_at.max(Instant::now());
        self.full_at = begin + self.time_of(bytes as u64);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, reads } = &mut *self;
        let Some(bucket) = reads else { return Pin::new(stream).poll_read(cx, buf) };
        let room = ready!(bucket.poll_room(cx)).min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        ready!(Pin::new(stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buf.advance(read);
        bucket.take(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, repeat};

    use super::*;

    const RATE: u64 = 1_000_000;
    const BYTES: usize = 10_000_000;

    /// Returns true if the time is that of `BYTES` at `RATE`, less a burst.
    fn is_paced(took: Duration) -> bool {
        (9.8..=10.01).contains(&took.as_secs_f64())
    }

    #[tokio::test(start_paused = true)]
    async fn reads_take_time_of_rate() {
        let begin = Instant::now();
        let (mut near, far) = duplex(1 << 20);
        let write = async move {
            near.write_all(&vec![7; BYTES]).await.unwrap();
        };
        let mut got = Vec::new();
        let mut far = Paced::new(far, Some(RATE));
        let ((), read) = tokio::join!(write, far.read_to_end(&mut got));
        assert_eq!((read.unwrap(), got.iter().all(|byte| *byte == 7)), (BYTES, true));
        assert!(is_paced(begin.elapsed()), "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn pause_saves_no_more_than_burst() {
        let mut paced = Paced::new(repeat(7), Some(RATE));
        tokio::time::sleep(Duration::from_secs(100)).await;
        let begin = Instant::now();
        paced.read_exact(&mut vec![0; BYTES]).await.unwrap();
        assert!(is_paced(begin.elapsed()), "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_takes_no_time() {
        let begin = Instant::now();
        Paced::new(repeat(7), None).read_exact(&mut vec![0; BYTES]).await.unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
