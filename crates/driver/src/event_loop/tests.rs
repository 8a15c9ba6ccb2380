use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::*;
use crate::tests::{FakeSocket, Machine};
use crate::{Flow, Refill, UdpIo, UdpOptions};

/// Application that returns `flow` from each call. Lets the endpoint send one more datagram at each
/// of the first `refills` refills.
struct Says {
    flow: Flow,
    refills: usize,
    refill: Refill,
    pumped: usize,
}

impl Says {
    fn new(flow: Flow) -> Self {
        Self { flow, refills: 0, refill: Refill::Done, pumped: 0 }
    }
}

impl Application<Machine> for Says {
    fn pump(&mut self, _: Instant, _: &mut Machine) -> Flow {
        self.pumped += 1;
        self.flow
    }

    fn refill(&mut self, machine: &mut Machine, _: usize) -> Refill {
        if let Some(left) = self.refills.checked_sub(1) {
            self.refills = left;
            machine.to_send += 1;
        }
        self.refill
    }
}

type Fakes = Turns<Machine, FakeSocket, Says>;

const SILENT: Flow = Flow::Wait(None);

fn member(to_send: usize, flow: Flow) -> Member<Machine, FakeSocket, Says> {
    let endpoint = Machine { to_send, ..Machine::default() };
    Member { endpoint, socket: FakeSocket::new(0), application: Says::new(flow) }
}

/// Creates members that have these numbers of datagrams to send.
fn turns(now: Instant, to_send: &[usize]) -> Fakes {
    let mut turns = Fakes::new();
    for to_send in to_send {
        turns.add(now, member(*to_send, SILENT));
    }
    turns.look_at_due(now);
    turns
}

fn sent(turns: &Fakes) -> Vec<usize> {
    (0..).map_while(|key| turns.member(key)).map(|member| member.socket.sent).collect()
}

/// Sends until the queue is empty; returns the totals after each turn.
fn drain(turns: &mut Fakes, now: Instant) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    while !turns.is_idle() {
        turns.send(now);
        all.push(sent(turns));
    }
    all.dedup();
    all
}

#[test]
fn members_send_batches_in_turn() {
    let now = clock::now();
    let mut turns = turns(now, &[3, 1, 2]);
    assert_eq!(sent(&turns), [0, 0, 0], "to look is not to send");
    turns.send(now);
    assert_eq!(sent(&turns), [1, 0, 0]);
    // A member that receives input keeps its place in the send queue.
    turns.look(now, 0);
    let order = drain(&mut turns, now);
    assert_eq!(order, [[1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 1, 2], [3, 1, 2]]);
}

#[test]
fn only_members_with_input_are_asked() {
    let now = clock::now();
    let mut turns = turns(now, &[0, 0]);
    drain(&mut turns, now);
    turns.member_mut(1).socket.input = 3;
    turns.look(now, 1);
    drain(&mut turns, now);
    assert_eq!((turns.member_mut(0).endpoint.got, turns.member_mut(1).endpoint.got), (0, 3));
    assert_eq!((turns.member_mut(0).application.pumped, turns.member_mut(1).application.pumped), (1, 2));
    assert_eq!(turns.deadline(), None);
}

#[test]
fn each_batch_is_preceded_by_refill() {
    let now = clock::now();
    let mut turns = Fakes::new();
    let key = turns.add(now, member(0, SILENT));
    turns.member_mut(key).application.refills = 3;
    turns.look_at_due(now);
    drain(&mut turns, now);
    assert_eq!(sent(&turns), [3]);
    assert_eq!(turns.member_mut(key).application.pumped, 4, "before it waits it is asked once more");
}

#[test]
fn deadline_is_earliest_of_machines_and_applications() {
    let now = clock::now();
    let at = |ms| now + Duration::from_millis(ms);
    let mut turns = Fakes::new();
    turns.add(now, member(0, Flow::Wait(Some(at(3)))));
    let timed = turns.add(now, member(0, Flow::Wait(Some(at(9)))));
    turns.member_mut(timed).endpoint.deadline = Some(at(2));
    turns.look_at_due(now);
    drain(&mut turns, now);
    assert_eq!(turns.deadline(), Some(at(2)));
    turns.look_at_due(at(2));
    drain(&mut turns, at(2));
    assert_eq!((turns.member_mut(timed).endpoint.fired, turns.deadline()), (1, Some(at(3))));
}

#[test]
fn again_and_wake_are_due_at_once() {
    let now = clock::now();
    let mut turns = turns(now, &[0]);
    turns.add(now, member(0, Flow::Again));
    turns.look_at_due(now);
    drain(&mut turns, now);
    assert_eq!(turns.deadline(), Some(now));
    turns.member_mut(1).application.flow = SILENT;
    turns.member_mut(0).application.refill = Refill::Ask;
    turns.wake(now);
    turns.look_at_due(now);
    drain(&mut turns, now);
    assert_eq!(turns.deadline(), Some(now), "what a refill found is for the pump to say");
}

#[test]
fn finished_member_sends_rest_and_ends() {
    let now = clock::now();
    let mut turns = turns(now, &[1]);
    let done = turns.add(now, member(2, Flow::Done));
    turns.look_at_due(now);
    while !turns.is_idle() {
        turns.send(now);
    }
    let ended = turns.take_ended();
    let [(key, end)] = &ended[..] else { panic!("{} ended", ended.len()) };
    assert_eq!((*key, end.member.socket.sent, end.member.application.pumped), (done, 2, 1));
    assert!(end.result.is_ok() && turns.take_ended().is_empty());
    turns.wake(now);
    turns.look_at_due(now);
    assert_eq!((drain(&mut turns, now).len(), turns.deadline()), (1, None));
}

#[test]
fn failed_socket_ends_its_member_only() {
    let now = clock::now();
    let mut turns = turns(now, &[2, 2]);
    turns.member_mut(0).socket.fails_after = 0;
    while !turns.is_idle() {
        turns.send(now);
    }
    let ended = turns.take_ended();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].1.result.as_ref().unwrap_err().to_string(), "cannot receive: unplugged");
    assert_eq!(turns.member_mut(1).socket.sent, 2);
}

#[test]
fn full_and_writable_are_reported_once() {
    let now = clock::now();
    let mut turns = turns(now, &[2]);
    turns.member_mut(0).socket.full = true;
    assert_eq!(turns.send(now), Some((0, true)));
    assert!(turns.is_idle(), "it does not try again before it has room");
    turns.look(now, 0);
    assert_eq!(turns.send(now), None);
    turns.member_mut(0).socket.full = false;
    turns.look(now, 0);
    assert_eq!(turns.send(now), Some((0, false)));
    drain(&mut turns, now);
    assert_eq!(sent(&turns), [2]);
}

/// Application that ends when its endpoint received a datagram.
struct UntilOne {
    pumped: usize,
}

impl Application<Machine> for UntilOne {
    fn pump(&mut self, _: Instant, machine: &mut Machine) -> Flow {
        self.pumped += 1;
        if machine.got > 0 { Flow::Done } else { SILENT }
    }
}

#[test]
fn loop_sleeps_until_input_arrives() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let mut many = Many::new().unwrap();
    for _ in 0..20 {
        let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).unwrap();
        let endpoint = Machine { to_send: 1, ..Machine::default() };
        let application = UntilOne { pumped: 0 };
        many.add(Member { endpoint, socket: Connected::new(io, address), application }).unwrap();
    }
    let answers = thread::spawn(move || {
        // Receives the datagrams of all members before the first reply.
        let senders: Vec<_> = (0..20).map(|_| server.recv_from(&mut [0; 1]).unwrap().1).collect();
        for sender in senders {
            assert_eq!(server.send_to(b"x", sender).unwrap(), 1);
        }
    });
    let ended = many.run().unwrap();
    answers.join().unwrap();
    assert_eq!(ended.len(), 20);
    for Ended { member, result } in ended {
        assert!(result.is_ok());
        assert_eq!(member.endpoint.got, 1);
        // Called at the start, after the input, and after the output unless the reply arrived
        // before.
        assert!((2..=3).contains(&member.application.pumped), "{}", member.application.pumped);
    }
}

#[test]
fn wake_up_asks_all_applications() {
    /// Application that ends when another thread sets the flag.
    struct UntilTold(Arc<AtomicBool>);

    impl Application<Machine> for UntilTold {
        fn pump(&mut self, _: Instant, _: &mut Machine) -> Flow {
            if self.0.load(Ordering::SeqCst) { Flow::Done } else { SILENT }
        }
    }

    let (mut many, told) = (Many::new().unwrap(), Arc::default());
    for _ in 0..3 {
        let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).unwrap();
        let socket = Connected::new(io, ([127, 0, 0, 1], 9).into());
        let application = UntilTold(Arc::clone(&told));
        many.add(Member { endpoint: Machine::default(), socket, application }).unwrap();
    }
    let waker = many.waker();
    let other = thread::spawn(move || {
        told.store(true, Ordering::SeqCst);
        waker.wake();
    });
    assert_eq!(many.run().unwrap().len(), 3);
    other.join().unwrap();
}
