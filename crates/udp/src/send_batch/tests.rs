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

/// Kernel that answers each call with the next result of its script, then accepts all datagrams.
struct Script {
    gso: usize,
    answers: RefCell<VecDeque<Result<usize, i32>>>,
    /// Send call and first bytes of its datagrams, for each call.
    calls: RefCell<Vec<(SendCall, Vec<u8>)>>,
    /// ECN codepoint of each call.
    codepoints: RefCell<Vec<Ecn>>,
    drained: Cell<u64>,
    /// ICMP errors that each drain returns. `None`: the error of the failed call, or ECONNREFUSED.
    icmp_errors: RefCell<Option<Vec<i32>>>,
    /// Results of the next zero-copy sends; later ones succeed.
    zerocopy_answers: RefCell<VecDeque<Result<usize, i32>>>,
    zerocopy_calls: Cell<u64>,
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
            icmp_errors: RefCell::default(),
            zerocopy_answers: RefCell::default(),
            zerocopy_calls: Cell::new(0),
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

    fn send_zerocopy(&self, _: Remote, _: &File, _: u64, datagrams: Datagrams<'_>) -> io::Result<usize> {
        self.zerocopy_calls.set(self.zerocopy_calls.get() + 1);
        self.zerocopy_answers
            .borrow_mut()
            .pop_front()
            .unwrap_or(Ok(datagrams.bytes.len()))
            .map_err(io::Error::from_raw_os_error)
    }

    fn drain_icmp_errors(&self, error: Option<&io::Error>) -> IcmpErrors {
        self.drained.set(self.drained.get() + 1);
        let default = error.and_then(io::Error::raw_os_error).unwrap_or(ECONNREFUSED);
        let mut errors = IcmpErrors::default();
        for code in self.icmp_errors.borrow().clone().unwrap_or_else(|| vec![default]) {
            errors.note(&io::Error::from_raw_os_error(code));
        }
        errors
    }
}

fn peer() -> Remote {
    Remote::from(std::net::SocketAddr::from(([127, 0, 0, 1], 9)))
}

/// Creates a batch of `count` datagrams of ten bytes, the last of four, filled with their numbers.
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
fn failed_offload_falls_back_to_sendmmsg_then_single() {
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
fn kernel_without_offload_uses_sendmmsg() {
    let kernel = Script::new(1, &[]);
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    fill(&mut send_batch, &kernel, 1);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!(kernel.calls(), [(SendCall::Sendmmsg, vec![0, 1, 2]), (SendCall::Single, vec![0])]);
    assert_eq!((stats.sent, stats.send_calls), (4, 2));
}

#[test]
fn refused_call_differs_from_refused_peer() {
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
fn unsent_batch_keeps_its_memory() {
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
fn each_batch_has_its_own_codepoint() {
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
fn unsent_batch_resumes_where_it_stopped() {
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
fn refused_datagram_is_counted_and_skipped() {
    let kernel = Script::new(1, &[Ok(1), Err(ENOBUFS), Err(EMSGSIZE), Err(ECONNREFUSED)]);
    let (mut send_batch, mut stats) = filled(&kernel, 5);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.sent, stats.lost_no_buffers, stats.lost_too_big), (3, 1, 1));
    assert_eq!((kernel.drained.get(), stats.unreachable), (2, 2), "after the short count and the report");
    let all: Vec<Vec<u8>> = kernel.calls().into_iter().map(|(_, datagrams)| datagrams).collect();
    assert_eq!(all, [vec![0, 1, 2, 3, 4], vec![1, 2, 3, 4], vec![2, 3, 4], vec![3, 4], vec![3, 4]]);
}

/// Send batch with zero-copy frames.
struct Zerocopy {
    send_batch: SendBatch,
    pool: ZerocopyPool<File>,
    stats: UdpStats,
}

impl Zerocopy {
    /// Returns `None` if the kernel does not support zero-copy.
    fn new() -> Option<Self> {
        let (file, pool) = zerocopy::open().ok()?;
        let mut send_batch = SendBatch::new(true, true);
        send_batch.file = Some(file);
        Some(Self { send_batch, pool, stats: UdpStats::default() })
    }

    /// Fills a batch with datagrams of 1000 bytes.
    fn fill(&mut self, kernel: &Script, datagrams: u8) {
        let mut frame = self.pool.take().expect("one is free");
        let bytes = Arc::get_mut(&mut frame).expect("it is not shared").bytes_mut();
        (0..datagrams).zip(bytes[5000..].chunks_mut(1000)).for_each(|(i, datagram)| datagram.fill(i));
        self.send_batch.open(kernel).borrow(Arc::clone(&frame), 5000, 1000, datagrams.into());
        self.pool.give_back(frame, Reuse::NeverSent);
    }

    fn send(&mut self, kernel: &Script) {
        self.send_batch.send(kernel, &mut self.stats, peer()).unwrap();
    }
}

#[test]
fn only_large_batches_in_frames_are_zerocopy() {
    let kernel = Script::new(64, &[]);
    let Some(mut zerocopy) = Zerocopy::new() else { return };
    zerocopy.fill(&kernel, 20);
    zerocopy.send(&kernel);
    fill(&mut zerocopy.send_batch, &kernel, 3);
    zerocopy.send(&kernel);
    zerocopy.fill(&kernel, 4);
    zerocopy.send(&kernel);
    let own = Arc::new(Frame::new());
    zerocopy.send_batch.open(&kernel).borrow(own, 0, 1000, 20);
    zerocopy.send(&kernel);
    let copied = [vec![0, 1, 2], vec![0, 1, 2, 3], vec![0; 20]];
    assert_eq!(kernel.calls(), copied.map(|datagrams| (SendCall::Gso, datagrams)));
    assert_eq!(
        (zerocopy.stats.sent, zerocopy.stats.sent_by_reference, zerocopy.stats.send_calls),
        (47, 20, 4)
    );
}

#[test]
fn batch_in_another_sockets_frame_is_copied() {
    let kernel = Script::new(64, &[]);
    let (Some(mut one), Some(mut other)) = (Zerocopy::new(), Zerocopy::new()) else { return };
    std::mem::swap(&mut one.pool, &mut other.pool);
    one.fill(&kernel, 20);
    one.send(&kernel);
    assert_eq!((kernel.calls().len(), one.stats.sent, one.stats.sent_by_reference), (1, 20, 0));
}

#[test]
fn full_socket_retries_zerocopy() {
    let kernel = Script::new(64, &[]);
    let Some(mut zerocopy) = Zerocopy::new() else { return };
    kernel.zerocopy_answers.borrow_mut().push_back(Err(EAGAIN));
    zerocopy.fill(&kernel, 20);
    zerocopy.send(&kernel);
    assert!(zerocopy.send_batch.is_stuck());
    zerocopy.send_batch.resume(&kernel, &mut zerocopy.stats).unwrap();
    let Zerocopy { send_batch, stats, .. } = zerocopy;
    assert_eq!((send_batch.is_stuck(), stats.sent_by_reference, kernel.zerocopy_calls.get()), (false, 20, 2));
}

#[test]
fn unsupported_zerocopy_is_given_up() {
    for refusal in [Err(EINVAL), Ok(7)] {
        let kernel = Script::new(64, &[]);
        let Some(mut zerocopy) = Zerocopy::new() else { return };
        kernel.zerocopy_answers.borrow_mut().push_back(refusal);
        zerocopy.fill(&kernel, 20);
        zerocopy.send_batch.batch.set_ecn(Ecn::Ect0);
        zerocopy.send(&kernel);
        assert_eq!(kernel.calls(), [(SendCall::Gso, (0..20).collect())], "{refusal:?}");
        assert_eq!(kernel.codepoints.take(), [Ecn::Ect0], "{refusal:?}");
        assert!(zerocopy.pool.take().is_none(), "the sender gets other memory");
        assert_eq!(
            (kernel.zerocopy_calls.get(), zerocopy.stats.sent, zerocopy.send_batch.is_zerocopy()),
            (1, 20, false)
        );
    }
}

#[test]
fn passing_zerocopy_error_copies_one_batch() {
    for errno in [ENOBUFS, EMSGSIZE, 113, ECONNREFUSED] {
        let kernel = Script::new(64, &[]);
        let Some(mut zerocopy) = Zerocopy::new() else { return };
        kernel.zerocopy_answers.borrow_mut().push_back(Err(errno));
        for _ in 0..2 {
            zerocopy.fill(&kernel, 20);
            zerocopy.send(&kernel);
        }
        let Zerocopy { send_batch, stats, .. } = zerocopy;
        assert_eq!(
            (stats.sent, stats.sent_by_reference, send_batch.is_zerocopy()),
            (40, 20, true),
            "{errno}"
        );
    }
}

#[test]
fn oversized_segments_disable_offload_for_one_batch() {
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
fn icmp_error_of_earlier_datagram_loses_nothing() {
    for errno in [113, 101, 13, 100] {
        let kernel = Script::new(1, &[Err(errno)]);
        let (mut send_batch, mut stats) = filled(&kernel, 2);
        send_batch.send(&kernel, &mut stats, peer()).unwrap();
        assert_eq!((stats.sent, stats.lost_other, stats.unreachable), (2, 0, 1), "error {errno}");
        assert!(stats.no_route, "error {errno}");

        // The second of three datagrams fails without a route, and there is no ICMP error of the
        // first.
        let kernel = Script::new(1, &[Ok(1), Err(errno)]);
        kernel.icmp_errors.replace(Some(Vec::new()));
        let (mut send_batch, mut stats) = filled(&kernel, 3);
        send_batch.send(&kernel, &mut stats, peer()).unwrap();
        assert_eq!((stats.sent, stats.lost_other, stats.unreachable), (2, 1, 0), "error {errno}");
    }
    // Not more than a few ICMP errors are read in a row.
    let kernel = Script::new(64, &[Err(113); 9]);
    let (mut send_batch, mut stats) = filled(&kernel, 2);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.lost_other, kernel.calls().len()), (2, 2));
}

/// The route may come up, or the rule of the firewall change.
#[test]
fn first_refused_datagram_is_lost() {
    for errno in [101, EHOSTUNREACH, EPERM, EIO, ENOBUFS, 100] {
        let kernel = Script::new(1, &[Err(errno)]);
        kernel.icmp_errors.replace(Some(Vec::new()));
        let (mut send_batch, mut stats) = filled(&kernel, 1);
        let sent = send_batch.send(&kernel, &mut stats, peer());
        assert!(sent.is_ok(), "error {errno}");
        assert_eq!((stats.lost_other + stats.lost_no_buffers, stats.refusal), (1, Some(errno)));
    }
}

#[test]
fn impossible_address_is_an_error() {
    for errno in [EINVAL, 13] {
        let kernel = Script::new(1, &[Err(errno)]);
        kernel.icmp_errors.replace(Some(Vec::new()));
        let (mut send_batch, mut stats) = filled(&kernel, 1);
        let error = send_batch.send(&kernel, &mut stats, peer()).unwrap_err();
        assert_eq!((error.raw_os_error(), stats.lost_other), (Some(errno), 1));
    }
}

#[test]
fn icmp_errors_are_counted_by_reason() {
    // The call fails with the oldest of five ICMP errors.
    let kernel = Script::new(1, &[Err(ECONNREFUSED)]);
    let read = vec![ECONNREFUSED, EHOSTUNREACH, ECONNREFUSED, ECONNREFUSED, EHOSTUNREACH];
    kernel.icmp_errors.replace(Some(read));
    let (mut send_batch, mut stats) = filled(&kernel, 2);
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.unreachable, stats.refused, stats.no_route), (5, 3, true));

    // A short count returns no error, but the ICMP errors are read.
    let kernel = Script::new(1, &[Ok(1)]);
    kernel.icmp_errors.replace(Some(vec![EHOSTUNREACH, ECONNREFUSED, ECONNREFUSED]));
    let (mut send_batch, mut stats) = filled(&kernel, 3);
    stats.no_route = true;
    send_batch.send(&kernel, &mut stats, peer()).unwrap();
    assert_eq!((stats.sent, stats.unreachable, stats.refused, stats.no_route), (3, 3, 2, false));
}
