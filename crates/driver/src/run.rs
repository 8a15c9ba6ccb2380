//! The loop of one thread that owns one machine, its socket and its application. The machine is locked by
//! nobody and nothing is handed between threads per datagram.

use std::time::Instant;

use rdt_transport::Endpoint;
use rdt_transport::drive::{Budget, DatagramIo, turn};

use crate::{Connected, SocketError, UdpIo, Waiter, clock};

/// What the application wants after it had its say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// To be asked again when something happened, or at this time.
    Wait(Option<Instant>),
    /// To be asked again after the next turn, without waiting.
    Again,
    /// To stop after one more turn.
    Done,
}

/// The side of a machine that is not the network.
pub trait Application<E: Endpoint> {
    /// Gives the machine work and takes its events.
    fn pump(&mut self, now: Instant, endpoint: &mut E) -> Flow;
}

/// A socket that may end.
pub trait Socket: DatagramIo {
    /// The error after which going on is useless, once.
    fn take_error(&mut self) -> Option<SocketError>;
}

impl Socket for Connected {
    fn take_error(&mut self) -> Option<SocketError> {
        self.take_error()
    }
}

impl Socket for UdpIo {
    /// One peer that cannot be reached is not the end of the others.
    fn take_error(&mut self) -> Option<SocketError> {
        match self.take_error() {
            Some(error @ SocketError::Receive(_)) => Some(error),
            _ => None,
        }
    }
}

/// Runs `endpoint` over `socket` until `application` is done.
///
/// # Errors
/// The socket's, when it cannot go on.
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
        let turn = turn(endpoint, socket, now, Budget::default());
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        let busy = turn.more || turn.fired || turn.received > 0 || turn.transmitted > 0;
        match flow {
            Flow::Done => return Ok(()),
            Flow::Wait(wanted) if !busy => {
                let deadline = match (turn.deadline, wanted) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                waiter.wait(deadline, turn.blocked).map_err(SocketError::Receive)?;
            }
            Flow::Wait(_) | Flow::Again => {}
        }
    }
}
