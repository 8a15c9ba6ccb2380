use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_transport::drive::Received;
use rdt_transport::{Ecn, TransmitBuf};

use super::*;

/// Endpoint that sends `to_send` datagrams, and has one timer.
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

    fn handle_datagram(&mut self, _: Instant, (): (), _: Ecn, _: &mut [u8]) {
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

/// Socket with `input` datagrams to read, which counts sends. Fails after `fails_after` reads
/// without a datagram.
struct FakeSocket {
    input: usize,
    sent: usize,
    empty_reads: usize,
    fails_after: usize,
    /// True if no datagram can be sent.
    full: bool,
    datagram: [u8; 1],
    batch: TransmitBuf,
}

impl FakeSocket {
    fn new(input: usize) -> Self {
        let batch = TransmitBuf::new(1);
        Self { input, sent: 0, empty_reads: 0, fails_after: usize::MAX, full: false, datagram: [7], batch }
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
        Some(Received { peer: (), bytes: &mut self.datagram, stride: 1, ecn: Ecn::NotEct, at: clock::now() })
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        self.batch.clear();
        (!self.full).then_some(&mut self.batch)
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
fn follow(machine: &mut Machine, socket: &mut FakeSocket, script: Vec<Answer>) -> Result<usize, SocketError> {
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
