//! Event loop of one thread that owns one endpoint, its socket and its application. Needs no lock,
//! because no datagram changes threads.

use std::time::{Duration, Instant};

use rdt_transport::drive::{Budget, DatagramIo, Turn, send_out, turn_with};
use rdt_transport::{Endpoint, FramePool};

use crate::{Connected, SocketError, UdpIo, Waiter, clock};

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
pub(crate) const BATCHES: usize = 4;

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
        match self.take_error() {
            Some(error @ SocketError::Receive(_)) => Some(error),
            _ => None,
        }
    }
}

/// Returns the memory for a sender on `socket`: zero-copy frames if the socket supports them, else
/// heap frames.
pub fn send_memory(socket: &mut Connected) -> FramePool {
    socket.zerocopy_pool().map_or_else(FramePool::new, FramePool::of)
}

/// Runs `endpoint` over `socket` until `application` returns [`Flow::Done`].
///
/// # Errors
///
/// Fails if the socket becomes unusable.
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

/// Sends the remaining output of `endpoint`, and ignores input. Waits for room in a full socket for
/// at most `max_wait`.
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
mod tests {
    use std::net::UdpSocket;
    use std::sync::Arc;

    use super::*;
    use crate::tests::{FakeSocket, Machine};

    /// Application that calls the functions of a script in order; each returns the [`Flow`], and
    /// may make the endpoint send.
    struct Script<F>(Vec<F>, usize);

    impl<F: FnMut(&mut Machine) -> Flow> Application<Machine> for Script<F> {
        fn pump(&mut self, _: Instant, machine: &mut Machine) -> Flow {
            self.1 += 1;
            self.0[self.1 - 1](machine)
        }
    }

    type Answer = fn(&mut Machine) -> Flow;

    /// Runs the script over a socket that receives nothing, and returns the number of calls.
    fn follow(
        machine: &mut Machine,
        socket: &mut FakeSocket,
        script: Vec<Answer>,
    ) -> Result<usize, SocketError> {
        let silent = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut waiter = Waiter::new(silent, Duration::ZERO).unwrap();
        let mut script = Script(script, 0);
        run(machine, socket, &mut script, &mut waiter).map(|()| script.1)
    }

    #[test]
    fn work_given_with_done_is_sent() {
        let (mut machine, mut socket) = (Machine::default(), FakeSocket::new(1));
        let done: Answer = |machine| {
            machine.to_send = 2;
            Flow::Done
        };
        assert_eq!(follow(&mut machine, &mut socket, vec![done]).unwrap(), 1);
        assert_eq!((machine.got, socket.sent), (1, 2));
    }

    #[test]
    fn again_asks_without_waiting() {
        // Nothing arrives and no deadline is set, so a wait would never end.
        let script: Vec<Answer> = vec![|_| Flow::Again, |_| Flow::Again, |_| Flow::Done];
        assert_eq!(follow(&mut Machine::default(), &mut FakeSocket::new(0), script).unwrap(), 3);
    }

    #[test]
    fn active_turn_is_followed_by_another() {
        let script: Vec<Answer> = vec![|_| Flow::Wait(None), |_| Flow::Done];
        assert_eq!(follow(&mut Machine::default(), &mut FakeSocket::new(1), script.clone()).unwrap(), 2);
        let mut sends = Machine { to_send: 1, ..Machine::default() };
        assert_eq!(follow(&mut sends, &mut FakeSocket::new(0), script).unwrap(), 2);
    }

    #[test]
    fn wait_ends_at_earlier_deadline() {
        let far = clock::now() + Duration::from_secs(3600);
        let mut machine =
            Machine { deadline: Some(clock::now() + Duration::from_millis(2)), ..Machine::default() };
        let mut answer = move |machine: &mut Machine| {
            if machine.fired > 0 { Flow::Done } else { Flow::Wait(Some(far)) }
        };
        let silent = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut waiter = Waiter::new(silent, Duration::ZERO).unwrap();
        let mut application = Repeat(&mut answer);
        run(&mut machine, &mut FakeSocket::new(0), &mut application, &mut waiter).unwrap();

        let near = clock::now() + Duration::from_millis(2);
        let mut machine = Machine { deadline: Some(far), ..Machine::default() };
        let mut answer = move |_: &mut Machine| {
            if clock::now() >= near { Flow::Done } else { Flow::Wait(Some(near)) }
        };
        run(&mut machine, &mut FakeSocket::new(0), &mut Repeat(&mut answer), &mut waiter).unwrap();
        assert_eq!(machine.fired, 0);
    }

    /// Application that calls the same function each time.
    struct Repeat<'a, F>(&'a mut F);

    impl<F: FnMut(&mut Machine) -> Flow> Application<Machine> for Repeat<'_, F> {
        fn pump(&mut self, _: Instant, machine: &mut Machine) -> Flow {
            (self.0)(machine)
        }
    }

    #[test]
    fn send_rest_ignores_input_and_is_bounded() {
        let silent = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut waiter = Waiter::new(silent, Duration::ZERO).unwrap();
        let mut socket = FakeSocket::new(1);
        // 5000 datagrams are more than one turn may send.
        let mut machine = Machine { to_send: 5000, ..Machine::default() };
        send_rest(&mut machine, &mut socket, &mut waiter, Duration::from_secs(3600));
        assert_eq!((machine.to_send, socket.sent, machine.got), (0, 5000, 0));
        let mut full = FakeSocket::new(0);
        full.full = true;
        machine.to_send = 1;
        send_rest(&mut machine, &mut full, &mut waiter, Duration::from_millis(2));
        assert_eq!((machine.to_send, full.sent), (1, 0));
    }

    #[test]
    fn socket_error_ends_run() {
        let mut socket = FakeSocket::new(0);
        socket.fails_after = 2;
        let script: Vec<Answer> = vec![|_| Flow::Again; 5];
        let error = follow(&mut Machine::default(), &mut socket, script).unwrap_err();
        assert_eq!(error.to_string(), "cannot receive: unplugged");
        assert_eq!(socket.empty_reads, 2, "at once");
    }
}
