//! Event loop of one thread that owns one endpoint, its socket and its application. Needs no lock,
//! because no datagram changes threads.

use std::time::{Duration, Instant};

use rdt_transport::drive::{Budget, DatagramIo, Turn, send_out, turn_with};
use rdt_transport::{Endpoint, FramePool};
use rdt_udp::{Connected, SocketError, UdpIo, Waiter, clock};

/// Result of [`Application::pump`]: when to call it next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// After the next event of the endpoint, or at this time.
    Wait(Option<Instant>),
    /// After the next turn (input, timers and output), without waiting.
    Again,
    /// Never: the loop ends after one more turn.
    Done,
}

/// Batches sent between two reads of input: several, so that both hosts process many packets in a
/// row, but no more than fit the caches.
const BATCHES: usize = 4;

/// Result of [`Application::refill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refill {
    /// The endpoint has all data that the application can supply now.
    Done,
    /// Call [`Application::pump`] before the next wait.
    Ask,
}

/// Application of an endpoint: supplies its data and processes its events.
pub trait Application<E: Endpoint> {
    /// Processes the endpoint's events, and supplies new data or commands.
    fn pump(&mut self, now: Instant, endpoint: &mut E) -> Flow;

    /// Supplies data for about this many `batches`. Called in each turn between input and output,
    /// so that the data is sent while it is in the cache.
    fn refill(&mut self, _endpoint: &mut E, _batches: usize) -> Refill {
        Refill::Done
    }
}

/// Socket that can become unusable.
pub trait Socket: DatagramIo {
    /// Returns the error that made the socket unusable, once.
    fn take_error(&mut self) -> Option<SocketError>;
}

impl Socket for Connected {
    fn take_error(&mut self) -> Option<SocketError> {
        self.take_error()
    }
}

impl Socket for UdpIo {
    /// Returns receive errors only: a send error concerns one peer, and the other peers continue.
    fn take_error(&mut self) -> Option<SocketError> {
        self.take_error().filter(|error| matches!(error, SocketError::Receive(_)))
    }
}

/// Returns the memory for a sender on `socket`: zero-copy frames if it has them, else heap frames.
pub fn send_memory(socket: &mut Connected) -> FramePool {
    socket.zerocopy_pool().map_or_else(FramePool::new, FramePool::of)
}

/// Runs `endpoint` over `socket` until `application` returns [`Flow::Done`]. Fails if the socket
/// becomes unusable.
pub fn run<E, S, A>(
    endpoint: &mut E,
    socket: &mut S,
    application: &mut A,
    waiter: &mut Waiter,
) -> Result<(), SocketError>
where
    E: Endpoint,
    S: Socket<Peer = E::Peer>,
    A: Application<E>,
{
    loop {
        let now = clock::now();
        let flow = application.pump(now, endpoint);
        let mut asks = false;
        let turn = turn_with(endpoint, socket, now, Budget::default(), |endpoint| {
            asks |= application.refill(endpoint, BATCHES) == Refill::Ask;
        });
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        let busy = asks || turn.more || turn.fired || turn.received > 0 || turn.transmitted > 0;
        match flow {
            Flow::Done => return Ok(()),
            Flow::Wait(wanted) if !busy => {
                let deadline = turn.deadline.into_iter().chain(wanted).min();
                waiter.wait(deadline, turn.blocked).map_err(SocketError::Receive)?;
            }
            Flow::Wait(_) | Flow::Again => {}
        }
    }
}

/// Sends the rest of the output, without input. Waits at most `max_wait` for a full socket.
pub fn send_rest<E, S>(endpoint: &mut E, socket: &mut S, waiter: &mut Waiter, max_wait: Duration)
where
    E: Endpoint,
    S: Socket<Peer = E::Peer>,
{
    let until = clock::now() + max_wait;
    loop {
        let now = clock::now();
        let mut turn = Turn::default();
        send_out(endpoint, socket, now, Budget::default().transmit, &mut turn, |_| {});
        let all = !turn.more && !turn.blocked;
        if all || now >= until || turn.blocked && waiter.wait(Some(until), true).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
