//! The send_batch before a kernel that answers from a script.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use rdt_datagram::{Frame, FrameSource as _, Reuse};

use super::*;
use crate::zerocopy::ZerocopyPool;

const ENOSYS: i32 = 38;
const EPERM: i32 = 1;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ECONNREFUSED: i32 = 111;
const EHOSTUNREACH: i32 = 113;
const ENOBUFS: i32 = 105;
const EMSGSIZE: i32 = 90;
const EINVAL: i32 = 22;

/// Answers each call with the next of its answers, then takes everything.
struct Script {
    gso: usize,
    answers: RefCell<VecDeque<Result<usize, i32>>>,
    /// Each call, and the datagrams that it got, by their first bytes.
    calls: RefCell<Vec<(SendCall, Vec<u8>)>>,
    /// Of each call.
    codepoints: RefCell<Vec<Ecn>>,
    drained: Cell<u64>,
    /// What each call that drains them finds; `None` is one report, of the error that told of it or of nobody.
    reports: RefCell<Option<Vec<i32>>>,
    /// Answers each loan; then takes all.
    lends: RefCell<VecDeque<Result<usize, i32>>>,
    loans: Cell<u64>,
}

impl Script {
    fn new(gso: usize, answers: &[Result<usize, i32>]) -> Self {
        let answers = RefCell::new(answers.iter().copied().collect());
        Self {
            gso,
            answers,
            calls: RefCell::default(),
            codepoints: RefCell::default(),
            drained: Cell::new(0),
            reports: RefCell::default(),
            lends: RefCell::default(),
            loans: Cell::new(0),
        }
    }

    fn calls(&self) -> Vec<(SendCall, Vec<u8>)> {
        self.calls.take()
    }
}

impl Kernel for Script {
    fn max_gso_segments(&self) -> usize {
        self.gso
    }

    fn send(&self, call: SendCall, _: Remote, sent: Datagrams<'_>) -> io::Result<usize> {
        self.codepoints.borrow_mut().push(sent.ecn);
        let datagrams: Vec<u8> = sent.bytes.chunks(sent.size).map(|datagram| datagram[0]).collect();
        let all = datagrams.len();
        self.calls.borrow_mut().push((call, datagrams));
        self.answers.borrow_mut().pop_front().unwrap_or(Ok(all)).map_err(io::Error::from_raw_os_error)
    }

    fn lend(&self, _: Remote, _: &File, _: u64, datagrams: Datagrams<'_>) -> io::Result<usize> {
        self.loans.set(self.loans.get() + 1);
        self.lends
            .borrow_mut()
            .pop_front()
            .unwrap_or(Ok(datagrams.bytes.len()))
            .map_err(io::Error::from_raw_os_error)
    }

    fn drain_icmp_errors(&self, error: Option<&io::Error>) -> IcmpErrors {
        self.drained.set(self.drained.get() + 1);
        let told = error.and_then(io::Error::raw_os_error).unwrap_or(ECONNREFUSED);
        let mut reports = IcmpErrors::default();
        for code in self.reports.borrow().clone().unwrap_or_else(|| vec![told]) {
            reports.note(&io::Error::from_raw_os_error(code));
        }
        reports
    }
}

fn peer() -> Remote {
    Remote::from(std::net::SocketAddr::from(([127, 0, 0, 1], 9)))
}

/// An send_batch in which datagrams 0 to `count` wait, ten bytes each but for the last of four.
fn filled(kernel: &Script, count: u8) -> (SendBatch, UdpStats) {
    let (mut send_batch, stats) = (SendBatch::new(true, true), UdpStats::default());
    fill(&mut send_batch, kernel, count);
    (send_batch, stats)
}

fn fill(send_batch: &mut SendBatch, kernel: &Script, count: u8) {
    let batch = send_batch.open(kernel);
    for i in 0..count {
        batch.slot(if i + 1 == count { 4 } else { 10 }).unwrap().fill(i);
    }
}

#[test]
fn offload_gives_way_to_sendmmsg_and_that_to_single_calls() {
    let kernel = Script::new(64, &[Err(EIO), Err(ENOSYS)]);
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    assert_eq!((send_batch.call(&kernel), send_batch.max_segments(&kernel)), (SendCall::Gso, 64));
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    let expected = [
        (SendCall::Gso, vec![0, 1, 2]),
        (SendCall::Sendmmsg, vec![0, 1, 2]),
        (SendCall::Single, vec![0]),
        (SendCall::Single, vec![1]),
        (SendCall::Single, vec![2]),
    ];
    assert_eq!(kernel.calls(), expected);
    assert_eq!((send_batch.call(&kernel), send_batch.max_segments(&kernel)), (SendCall::Single, 1));
    assert_eq!((stats.sent, stats.send_calls, stats.lost_other), (3, 3, 0));
    assert_eq!(send_batch.given_up(), GivenUp { gso: Some(EIO), sendmmsg: Some(ENOSYS) });
}

#[test]
fn a_kernel_without_offload_gets_many_in_one_call_and_one_alone() {
    let kernel = Script::new(1, &[]);
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    fill(&mut send_batch, &kernel, 1);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!(kernel.calls(), [(SendCall::Sendmmsg, vec![0, 1, 2]), (SendCall::Single, vec![0])]);
    assert_eq!((stats.sent, stats.send_calls), (4, 2));
}

#[test]
fn a_refused_call_is_told_from_a_refused_peer() {
    for error in [EPERM, EINVAL] {
        let kernel = Script::new(1, &[Err(error)]);
        let (mut send_batch, mut stats) = filled(&kernel, 2);
        send_batch.send(&kernel, &mut stats, peer()).unwrap();
        assert_eq!(send_batch.call(&kernel), SendCall::Single, "a filter of system calls, at first use");
        assert_eq!((stats.sent, stats.lost_other), (2, 0));
    }

    let kernel = Script::new(1, &[Ok(1), Err(EPERM)]);
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!(send_batch.call(&kernel), SendCall::Sendmmsg, "it worked before");
    assert_eq!((stats.sent, stats.lost_other), (2, 1));
}

#[test]
fn memory_is_left_to_others_unless_something_is_stuck() {
    let kernel = Script::new(64, &[Ok(3), Err(EAGAIN), Ok(3)]);
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    send_batch.leave();
    assert!(send_batch.batch.slot(1).is_none(), "it has none any more");
    for size in [5, 9, 5] {
        send_batch.open(&kernel).slot(size);
    }
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    send_batch.leave();
    assert!(send_batch.is_stuck() && !send_batch.batch().bytes().is_empty());
}

#[test]
fn every_call_names_the_codepoint_of_its_batch_and_the_next_batch_has_its_own() {
    let kernel = Script::new(64, &[Err(EIO), Ok(1), Err(EAGAIN)]);
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    send_batch.batch.set_ecn(Ecn::Ect0);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert!(send_batch.is_stuck(), "after offload failed and one of three went");
    send_batch.resume(&kernel, &mut stats).unwrap();
    assert_eq!(kernel.codepoints.take(), [Ecn::Ect0; 4]);
    fill(&mut send_batch, &kernel, 1);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!(kernel.codepoints.take(), [Ecn::NotEct]);
}

#[test]
fn a_stuck_batch_goes_on_where_it_stopped() {
    let kernel = Script::new(1, &[Ok(2), Err(EAGAIN), Err(EAGAIN), Ok(1)]);
    let (mut send_batch, mut stats) = filled(&kernel, 5);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    send_batch.resume(&kernel, &mut stats).unwrap();
    assert!(send_batch.is_stuck(), "still full");
    send_batch.resume(&kernel, &mut stats).unwrap();
    assert!(!send_batch.is_stuck());
    let rests = [vec![0, 1, 2, 3, 4], vec![2, 3, 4], vec![2, 3, 4], vec![2, 3, 4], vec![3, 4]];
    assert_eq!(kernel.calls(), rests.map(|rest| (SendCall::Sendmmsg, rest)));
    assert_eq!((stats.sent, stats.blocked, stats.send_calls), (5, 2, 3));
}

#[test]
fn a_refused_datagram_costs_itself_alone_and_is_counted() {
    let kernel = Script::new(1, &[Ok(1), Err(ENOBUFS), Err(EMSGSIZE), Err(ECONNREFUSED)]);
    let (mut send_batch, mut stats) = filled(&kernel, 5);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.sent, stats.lost_no_buffers, stats.lost_too_big), (3, 1, 1));
    assert_eq!((kernel.drained.get(), stats.unreachable), (2, 2), "after the short count and the report");
    let all: Vec<Vec<u8>> = kernel.calls().into_iter().map(|(_, datagrams)| datagrams).collect();
    assert_eq!(all, [vec![0, 1, 2, 3, 4], vec![1, 2, 3, 4], vec![2, 3, 4], vec![3, 4], vec![3, 4]]);
}

/// An send_batch whose batches can be lent, and where they lie.
struct Lending {
    send_batch: SendBatch,
    ring: ZerocopyPool<File>,
    stats: UdpStats,
}

impl Lending {
    /// `None` where the kernel cannot do that.
    fn new() -> Option<Self> {
        let (file, ring) = zerocopy::open().ok()?;
        let mut send_batch = SendBatch::new(true, true);
        send_batch.file = Some(file);
        Some(Self { send_batch, ring, stats: UdpStats::default() })
    }

    /// A batch of so many datagrams of 1000 bytes.
    fn fill(&mut self, kernel: &Script, datagrams: u8) {
        let mut frame = self.ring.take().expect("one is free");
        let bytes = Arc::get_mut(&mut frame).expect("nobody else holds it").bytes_mut();
        (0..datagrams).zip(bytes[5000..].chunks_mut(1000)).for_each(|(i, datagram)| datagram.fill(i));
        self.send_batch.open(kernel).borrow(Arc::clone(&frame), 5000, 1000, datagrams.into());
        self.ring.give_back(frame, Reuse::NeverSent);
    }

    fn send(&mut self, kernel: &Script) {
        self.send_batch.send(kernel, &mut self.stats, peer()).unwrap();
    }
}

#[test]
fn large_batches_that_lie_in_its_memory_are_lent_and_others_copied() {
    let kernel = Script::new(64, &[]);
    let Some(mut lending) = Lending::new() else { return };
    lending.fill(&kernel, 20);
    lending.send(&kernel);
    fill(&mut lending.send_batch, &kernel, 3);
    lending.send(&kernel);
    lending.fill(&kernel, 4);
    lending.send(&kernel);
    let own = Arc::new(Frame::new());
    lending.send_batch.open(&kernel).borrow(own, 0, 1000, 20);
    lending.send(&kernel);
    let copied = [vec![0, 1, 2], vec![0, 1, 2, 3], vec![0; 20]];
    assert_eq!(kernel.calls(), copied.map(|datagrams| (SendCall::Gso, datagrams)));
    assert_eq!((lending.stats.sent, lending.stats.sent_by_reference, lending.stats.send_calls), (47, 20, 4));
}

#[test]
fn a_batch_in_the_memory_of_another_socket_is_copied() {
    let kernel = Script::new(64, &[]);
    let (Some(mut one), Some(mut other)) = (Lending::new(), Lending::new()) else { return };
    std::mem::swap(&mut one.ring, &mut other.ring);
    one.fill(&kernel, 20);
    one.send(&kernel);
    assert_eq!((kernel.calls().len(), one.stats.sent, one.stats.sent_by_reference), (1, 20, 0));
}

#[test]
fn a_batch_that_the_full_socket_did_not_take_is_offered_again() {
    let kernel = Script::new(64, &[]);
    let Some(mut lending) = Lending::new() else { return };
    kernel.lends.borrow_mut().push_back(Err(EAGAIN));
    lending.fill(&kernel, 20);
    lending.send(&kernel);
    assert!(lending.send_batch.is_stuck());
    lending.send_batch.resume(&kernel, &mut lending.stats).unwrap();
    let Lending { send_batch, stats, .. } = lending;
    assert_eq!((send_batch.is_stuck(), stats.sent_by_reference, kernel.loans.get()), (false, 20, 2));
}

#[test]
fn a_kernel_that_takes_nothing_by_reference_gets_copies_from_then_on() {
    for refusal in [Err(EINVAL), Ok(7)] {
        let kernel = Script::new(64, &[]);
        let Some(mut lending) = Lending::new() else { return };
        kernel.lends.borrow_mut().push_back(refusal);
        lending.fill(&kernel, 20);
        lending.send_batch.batch.set_ecn(Ecn::Ect0);
        lending.send(&kernel);
        assert_eq!(kernel.calls(), [(SendCall::Gso, (0..20).collect())], "{refusal:?}");
        assert_eq!(kernel.codepoints.take(), [Ecn::Ect0], "{refusal:?}");
        assert!(lending.ring.take().is_none(), "the sender gets other memory");
        assert_eq!((kernel.loans.get(), lending.stats.sent, lending.send_batch.lends()), (1, 20, false));
    }
}

#[test]
fn a_loan_that_failed_for_the_moment_is_copied_and_the_next_one_offered() {
    for errno in [ENOBUFS, EMSGSIZE, 113, ECONNREFUSED] {
        let kernel = Script::new(64, &[]);
        let Some(mut lending) = Lending::new() else { return };
        kernel.lends.borrow_mut().push_back(Err(errno));
        for _ in 0..2 {
            lending.fill(&kernel, 20);
            lending.send(&kernel);
        }
        let Lending { send_batch, stats, .. } = lending;
        assert_eq!((stats.sent, stats.sent_by_reference, send_batch.lends()), (40, 20, true), "{errno}");
    }
}

#[test]
fn segments_beyond_the_path_are_sent_without_offload_and_the_next_batch_with() {
    let kernel = Script::new(64, &[Err(EMSGSIZE)]);
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    fill(&mut send_batch, &kernel, 2);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    let expected =
        [(SendCall::Gso, vec![0, 1, 2]), (SendCall::Sendmmsg, vec![0, 1, 2]), (SendCall::Gso, vec![0, 1])];
    assert_eq!(kernel.calls(), expected);
    assert_eq!((stats.sent, stats.lost_too_big), (5, 0));
}

#[test]
fn news_of_an_earlier_datagram_costs_none_and_a_refusal_of_this_one_costs_it() {
    for errno in [113, 101, 13, 100] {
        let kernel = Script::new(1, &[Err(errno)]);
        let (mut send_batch, mut stats) = filled(&kernel, 2);
        send_batch.send(&kernel, &mut stats, peer()).unwrap();
        assert_eq!((stats.sent, stats.lost_other, stats.unreachable), (2, 0, 1), "error {errno}");
        assert!(stats.no_route, "error {errno}");

        // The second of three finds no way, and nothing was reported of the first.
        let kernel = Script::new(1, &[Ok(1), Err(errno)]);
        kernel.reports.replace(Some(Vec::new()));
        let (mut send_batch, mut stats) = filled(&kernel, 3);
        send_batch.send(&kernel, &mut stats, peer()).unwrap();
        assert_eq!((stats.sent, stats.lost_other, stats.unreachable), (2, 1, 0), "error {errno}");
    }
    // A system that reports without end is not asked for ever.
    let kernel = Script::new(64, &[Err(113); 9]);
    let (mut send_batch, mut stats) = filled(&kernel, 2);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.lost_other, kernel.calls().len()), (2, 2));
}

#[test]
fn what_never_worked_is_an_error() {
    let kernel = Script::new(1, &[Err(101)]);
    kernel.reports.replace(Some(Vec::new()));
    let (mut send_batch, mut stats) = filled(&kernel, 1);
    let error = send_batch.send(&kernel, &mut stats, peer()).unwrap_err();
    assert_eq!((error.raw_os_error(), stats.lost_other), (Some(101), 1));
}

#[test]
fn each_report_is_counted_by_its_own_reason() {
    // What the call was told is the oldest, of five read together.
    let kernel = Script::new(1, &[Err(ECONNREFUSED)]);
    let read = vec![ECONNREFUSED, EHOSTUNREACH, ECONNREFUSED, ECONNREFUSED, EHOSTUNREACH];
    kernel.reports.replace(Some(read));
    let (mut send_batch, mut stats) = filled(&kernel, 2);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.unreachable, stats.refused, stats.no_route), (5, 3, true));

    // A call that ends in the middle tells of none, and reads them.
    let kernel = Script::new(1, &[Ok(1)]);
    kernel.reports.replace(Some(vec![EHOSTUNREACH, ECONNREFUSED, ECONNREFUSED]));
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    stats.no_route = true;
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.sent, stats.unreachable, stats.refused, stats.no_route), (3, 3, 2, false));
}
