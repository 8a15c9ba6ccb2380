//! The event loop of `rdt_endpoint::thread::run` with tokio's wait, for comparison with a thread of
//! its own.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rdt_endpoint::thread::{Application, Flow, Refill, Socket};
use rdt_transport::Endpoint;
use rdt_transport::drive::{Budget, turn_with};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// Batches sent between two reads of input, as in `rdt_endpoint::thread::run`.
const BATCHES: usize = 4;
/// Time of busy polling before a wait, and number of waits without it after one that found nothing,
/// both as in `rdt_udp::Waiter`.
const LOOK: Duration = Duration::from_micros(20);
const SLEEPS: u32 = 16;

/// Runs `endpoint` over `io`, whose descriptor is that of `socket`, until `application` is done.
/// Busy-polls before each wait if `looks` is true.
pub(crate) async fn run<E, S, A>(
    endpoint: &mut E,
    io: &mut S,
    application: &mut A,
    socket: Arc<UdpSocket>,
    looks: bool,
) -> Result<()>
where
    E: Endpoint,
    S: Socket<Peer = E::Peer>,
    A: Application<E>,
{
    let mut look = looks.then(|| Look { socket: Arc::clone(&socket), sleeps: 0 });
    let both = Interest::READABLE | Interest::WRITABLE;
    // SAFETY: the `Arc` keeps the socket and its descriptor open as long as it is registered.
    #[expect(unsafe_code, reason = "tokio cannot see that an `Arc` keeps its descriptor")]
    let socket = unsafe { AsyncFd::register_with_interest(socket, both) }?;
    let mut ready: Option<AsyncFdReadyGuard<'_, _>> = None;
    loop {
        let now = Instant::now();
        let flow = application.pump(now, endpoint);
        let mut asks = false;
        let turn = turn_with(endpoint, io, now, Budget::default(), |endpoint| {
            asks |= application.refill(endpoint, BATCHES) == Refill::Ask;
        });
        if let Some(error) = io.take_error() {
            return Err(error.into());
        }
        let busy = asks || turn.more || turn.fired || turn.received > 0 || turn.transmitted > 0;
        let wanted = match flow {
            Flow::Done => return Ok(()),
            Flow::Wait(wanted) if !busy => wanted,
            Flow::Wait(_) | Flow::Again => continue,
        };
        let deadline = [turn.deadline, wanted].into_iter().flatten().min();
        if look.as_mut().is_some_and(|look| look.finds(deadline, turn.blocked)) {
            continue;
        }
        // The turn has read everything, so the readiness in the runtime is stale.
        if let Some(mut guard) = ready.take() {
            guard.clear_ready();
        }
        let interest = if turn.blocked { both } else { Interest::READABLE };
        ready = match deadline {
            Some(at) => tokio::time::timeout_at(at.into(), socket.ready(interest)).await.ok().transpose()?,
            None => Some(socket.ready(interest).await?),
        };
    }
}

/// Busy polling of a socket, by the same rule as in the driver's thread.
struct Look {
    socket: Arc<UdpSocket>,
    /// Number of the next waits without busy polling, because the last one found nothing.
    sleeps: u32,
}

impl Look {
    /// Busy-polls; returns true if a datagram arrived or the deadline passed.
    fn finds(&mut self, deadline: Option<Instant>, writable: bool) -> bool {
        if self.sleeps > 0 {
            self.sleeps -= 1;
            return false;
        }
        let flags = if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut now = Instant::now();
        let until = now + LOOK;
        while now < until {
            let here = poll(&mut [PollFd::new(&self.socket, flags)], Some(&Timespec::default()));
            if here.is_ok_and(|count| count > 0) || deadline.is_some_and(|deadline| deadline <= now) {
                return true;
            }
            // The peer may be queued on this processor.
            std::thread::yield_now();
            now = Instant::now();
        }
        self.sleeps = SLEEPS;
        false
    }
}
