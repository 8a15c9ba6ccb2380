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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::time::Duration;

    use rdt_transport::drive::Received;
    use rdt_transport::{Ecn, TransmitBuf};

    use super::*;

    /// Sends one datagram for every time its application asks for one, and at its deadline.
    #[derive(Default)]
    struct Machine {
        to_send: usize,
        deadline: Option<Instant>,
        fired: usize,
        got: usize,
    }

    impl Endpoint for Machine {
        type Peer = ();
        type Event = ();

        fn handle_datagram(&mut self, _: Instant, (): (), _: Ecn, _: &[u8]) {
            self.got += 1;
        }

        fn handle_timeout(&mut self, _: Instant) {
            self.deadline = None;
            self.fired += 1;
        }

        fn poll_transmit(&mut self, _: Instant, out: &mut TransmitBuf) -> Option<()> {
            self.to_send = self.to_send.checked_sub(1)?;
            out.slot(1).map(|slot| slot.fill(7))
        }

        fn poll_timeout(&self) -> Option<Instant> {
            self.deadline
        }

        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    /// Holds `input` datagrams, counts what is sent, and fails after `fails_after` reads of nothing.
    struct FakeSocket {
        input: usize,
        sent: usize,
        empty_reads: usize,
        fails_after: usize,
        batch: TransmitBuf,
    }

    impl FakeSocket {
        fn new(input: usize) -> Self {
            Self { input, sent: 0, empty_reads: 0, fails_after: usize::MAX, batch: TransmitBuf::new(1) }
        }
    }

    impl DatagramIo for FakeSocket {
        type Peer = ();

        fn recv(&mut self) -> Option<Received<'_, ()>> {
            let Some(left) = self.input.checked_sub(1) else {
                self.empty_reads += 1;
                return None;
            };
            self.input = left;
            Some(Received { peer: (), bytes: b"x", stride: 1, ecn: Ecn::NotEct, at: clock::now() })
        }

        fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
            self.batch.clear();
            Some(&mut self.batch)
        }

        fn flush(&mut self, (): ()) {
            self.sent += 1;
        }
    }

    impl Socket for FakeSocket {
        fn take_error(&mut self) -> Option<SocketError> {
            (self.empty_reads >= self.fails_after)
                .then(|| SocketError::Receive(std::io::Error::other("unplugged")))
        }
    }

    /// Answers each question with the next of its answers, which may give the machine work.
    struct Script<F>(Vec<F>, usize);

    impl<F: FnMut(&mut Machine) -> Flow> Application<Machine> for Script<F> {
        fn pump(&mut self, _: Instant, machine: &mut Machine) -> Flow {
            self.1 += 1;
            self.0[self.1 - 1](machine)
        }
    }

    type Answer = fn(&mut Machine) -> Flow;

    /// Runs the script; says how often it was asked. Waits are on a socket to which nobody sends.
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
    fn what_the_application_gave_last_still_leaves() {
        let (mut machine, mut socket) = (Machine::default(), FakeSocket::new(1));
        let done: Answer = |machine| {
            machine.to_send = 2;
            Flow::Done
        };
        assert_eq!(follow(&mut machine, &mut socket, vec![done]).unwrap(), 1);
        assert_eq!((machine.got, socket.sent), (1, 2));
    }

    #[test]
    fn again_is_asked_again_without_a_wait() {
        // Nothing happens on the socket and no deadline is set: a wait would not end.
        let script: Vec<Answer> = vec![|_| Flow::Again, |_| Flow::Again, |_| Flow::Done];
        assert_eq!(follow(&mut Machine::default(), &mut FakeSocket::new(0), script).unwrap(), 3);
    }

    #[test]
    fn a_turn_that_did_something_is_followed_by_another_before_a_wait() {
        let script: Vec<Answer> = vec![|_| Flow::Wait(None), |_| Flow::Done];
        assert_eq!(follow(&mut Machine::default(), &mut FakeSocket::new(1), script.clone()).unwrap(), 2);
        let mut sends = Machine { to_send: 1, ..Machine::default() };
        assert_eq!(follow(&mut sends, &mut FakeSocket::new(0), script).unwrap(), 2);
    }

    #[test]
    fn a_wait_ends_at_the_earlier_of_the_machines_time_and_the_applications() {
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

    /// Gives the same answer as long as it is asked.
    struct Repeat<'a, F>(&'a mut F);

    impl<F: FnMut(&mut Machine) -> Flow> Application<Machine> for Repeat<'_, F> {
        fn pump(&mut self, _: Instant, machine: &mut Machine) -> Flow {
            (self.0)(machine)
        }
    }

    #[test]
    fn the_sockets_error_ends_it() {
        let mut socket = FakeSocket { fails_after: 2, ..FakeSocket::new(0) };
        let script: Vec<Answer> = vec![|_| Flow::Again; 5];
        let error = follow(&mut Machine::default(), &mut socket, script).unwrap_err();
        assert_eq!(error.to_string(), "cannot receive: unplugged");
        assert_eq!(socket.empty_reads, 2, "at once");
    }
}
