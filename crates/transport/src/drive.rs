//! One turn of an endpoint: datagrams in, due timer, datagrams out. Event loops on sockets
//! and the simulator share this order and differ only in how they wait.

use std::time::Instant;

pub use rdt_datagram::{DatagramIo, Received};

use crate::Endpoint;

/// Limits of the work of one turn, so that the caller regains control for other work and the clock.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Largest number of batches (datagrams coalesced by GRO) that a turn reads.
    pub receive: usize,
    /// Received bytes after which a turn reads no more batches, so that ACKs leave in time: the
    /// window of the sender may be only as large as the caches.
    pub receive_bytes: usize,
    /// Transmitted datagrams after which a turn fills no more batches.
    pub transmit: usize,
}

impl Default for Budget {
    fn default() -> Self {
        // Bytes limit the work of large batches. ACKs of many connections arrive one by one. A turn
        // must read more ACKs than its output can trigger: otherwise unread ACKs accumulate, and
        // retransmission timers fire although the ACK is in the socket. A received batch of 64
        // datagrams (GRO) may cause 64 replies.
        Self { receive: 128, receive_bytes: 256 * 1024, transmit: 32 * 64 }
    }
}

/// Work done by a turn, and conditions of the next one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// Time by which the next turn is due; not known before the output.
    pub deadline: Option<Instant>,
    /// True if a budget ran out: the next turn is due immediately.
    pub more: bool,
    /// True if the socket is full: the next turn is due when it is writable.
    pub blocked: bool,
    /// True if a timer was due or ICMP errors arrived.
    pub fired: bool,
    /// Number of received datagrams.
    pub received: usize,
    /// Number of datagrams passed to [`DatagramIo::flush`].
    pub transmitted: usize,
}

/// Reads datagrams, handles due timers and sends datagrams. `now` is the present time.
pub fn turn<E, I>(endpoint: &mut E, io: &mut I, now: Instant, budget: Budget) -> Turn
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    turn_with(endpoint, io, now, budget, |_| {})
}

/// Runs a turn in which the application may `refill` the endpoint between input and output. At that
/// point the ACKs have made room, and the written data is sent while it is in the cache.
pub fn turn_with<E, I, R>(endpoint: &mut E, io: &mut I, now: Instant, budget: Budget, refill: R) -> Turn
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
    R: FnOnce(&mut E),
{
    let mut turn = Turn::default();
    let now = take_in(endpoint, io, now, budget, &mut turn);
    send_out(endpoint, io, now, budget.transmit, &mut turn, refill);
    turn
}

/// First half of a turn: reads datagrams, handles due timers, and returns the present time.
pub fn take_in<E, I>(endpoint: &mut E, io: &mut I, now: Instant, budget: Budget, turn: &mut Turn) -> Instant
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    let received = turn.received;
    let now = receive(endpoint, io, now, budget, turn);
    let overflow = io.take_overflow();
    if overflow > 0 {
        endpoint.handle_overflow(overflow);
    }
    take_refused(endpoint, io, now, turn);
    // Compare timers with the time before the read: an answer that arrived since then is unread.
    if endpoint.poll_timeout().is_some_and(|deadline| deadline <= now) {
        endpoint.handle_timeout(now);
        turn.fired = true;
    }
    if turn.received == received {
        return now;
    }
    now.max(io.present(now))
}

/// Second half of a turn: sends whole batches until `budget` datagrams are reached. Before the
/// first batch the application may `refill` the endpoint, unless the socket is full.
pub fn send_out<E, I, R>(
    endpoint: &mut E,
    io: &mut I,
    now: Instant,
    budget: usize,
    turn: &mut Turn,
    refill: R,
) where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
    R: FnOnce(&mut E),
{
    let mut refill = Some(refill);
    loop {
        if turn.transmitted >= budget {
            turn.more = true;
            break;
        }
        let Some(batch) = io.transmit_buf() else {
            turn.blocked = true;
            break;
        };
        if let Some(refill) = refill.take() {
            refill(endpoint);
        }
        let Some(peer) = endpoint.poll_transmit(now, batch) else { break };
        turn.transmitted += batch.segments();
        io.flush(peer);
    }
    // A send call returns the ICMP error of an earlier datagram.
    take_refused(endpoint, io, now, turn);
    io.leave();
    turn.deadline = endpoint.poll_timeout();
}

fn take_refused<E, I>(endpoint: &mut E, io: &mut I, now: Instant, turn: &mut Turn)
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    while let Some((peer, reports)) = io.take_refused() {
        endpoint.handle_refused(now, peer, reports);
        turn.fired = true;
    }
}

/// Reads datagrams and returns the present time: `now`, or the arrival of the newest datagram.
fn receive<E, I>(endpoint: &mut E, io: &mut I, now: Instant, budget: Budget, turn: &mut Turn) -> Instant
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    let mut now = now;
    let mut bytes = 0;
    for _ in 0..budget.receive {
        let Some(batch) = io.recv() else { return now };
        now = now.max(batch.at);
        bytes += batch.bytes.len();
        turn.received +=
            endpoint.handle_datagrams(batch.at, batch.peer, batch.ecn, batch.bytes, batch.stride);
        if bytes >= budget.receive_bytes {
            break;
        }
    }
    turn.more = true;
    now
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use crate::{Ecn, TransmitBuf};
    use rdt_testing::epoch;

    /// Records its input and has `to_send` datagrams to send.
    #[derive(Default)]
    struct Fake {
        got: Vec<Vec<u8>>,
        codepoints: Vec<Ecn>,
        to_send: usize,
        refused: u64,
        overflow: u64,
        sent_at: Option<Instant>,
        deadline: Option<Instant>,
    }

    impl Endpoint for Fake {
        type Peer = ();
        type Event = ();

        fn handle_datagram(&mut self, _: Instant, (): (), ecn: Ecn, datagram: &mut [u8]) {
            self.got.push(datagram.to_vec());
            // An endpoint may decrypt in place.
            datagram.fill(0);
            self.codepoints.push(ecn);
        }

        fn handle_refused(&mut self, _: Instant, (): (), reports: u64) {
            self.refused += reports;
        }

        fn handle_overflow(&mut self, messages: u64) {
            self.overflow += messages;
        }

        fn handle_timeout(&mut self, _: Instant) {
            self.deadline = None;
            self.to_send += 1;
        }

        fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
            self.to_send = self.to_send.checked_sub(1)?;
            self.sent_at = Some(now);
            out.slot(4).map(|slot| slot.fill(7))
        }

        fn poll_timeout(&self) -> Option<Instant> {
            self.deadline
        }

        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    struct FakeIo {
        input: VecDeque<(Vec<u8>, usize)>,
        current: (Vec<u8>, usize),
        batch: TransmitBuf,
        room: usize,
        sent: usize,
        left: usize,
        refused: u64,
        overflow: u64,
        at: Instant,
        reading_takes: Duration,
    }

    impl FakeIo {
        fn new(input: &[(&[u8], usize)], room: usize) -> Self {
            let input = input.iter().map(|(bytes, stride)| (bytes.to_vec(), *stride)).collect();
            let batch = TransmitBuf::new(1);
            let (at, reading_takes) = (epoch(), Duration::ZERO);
            Self {
                input,
                current: (Vec::new(), 0),
                batch,
                room,
                sent: 0,
                left: 0,
                refused: 0,
                overflow: 0,
                at,
                reading_takes,
            }
        }
    }

    impl DatagramIo for FakeIo {
        type Peer = ();

        fn recv(&mut self) -> Option<Received<'_, ()>> {
            self.current = self.input.pop_front()?;
            Some(Received {
                peer: (),
                bytes: &mut self.current.0,
                stride: self.current.1,
                ecn: if self.current.1 > 1 { Ecn::Ce } else { Ecn::NotEct },
                at: self.at,
            })
        }

        fn take_refused(&mut self) -> Option<((), u64)> {
            let refused = std::mem::take(&mut self.refused);
            (refused > 0).then_some(((), refused))
        }

        fn take_overflow(&mut self) -> u64 {
            std::mem::take(&mut self.overflow)
        }

        fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
            self.room = self.room.checked_sub(1)?;
            self.batch.clear();
            Some(&mut self.batch)
        }

        fn flush(&mut self, (): ()) {
            self.sent += 1;
        }

        fn leave(&mut self) {
            self.left += 1;
        }

        fn present(&self, now: Instant) -> Instant {
            now + self.reading_takes
        }
    }

    #[test]
    fn refill_runs_between_input_and_output() {
        for (room, asked) in [(9, 1), (0, 0)] {
            let (mut endpoint, mut io, mut asks) =
                (Fake::default(), FakeIo::new(&[(b"a", 1), (b"b", 1)], room), 0);
            let turn = turn_with(&mut endpoint, &mut io, epoch(), Budget::default(), |endpoint| {
                asks += 1;
                assert_eq!((endpoint.got.len(), endpoint.sent_at), (2, None));
                endpoint.to_send = 3;
            });
            assert_eq!((asks, turn.transmitted, turn.blocked), (asked, 3 * asked, room == 0));
        }
    }

    #[test]
    fn every_turn_releases_the_batch() {
        // Ends: nothing to send, full socket, exhausted budget.
        for (to_send, room, transmit) in [(0, 9, 9), (3, 1, 9), (3, 9, 2)] {
            let (mut endpoint, mut io) = (Fake { to_send, ..Fake::default() }, FakeIo::new(&[], room));
            turn(&mut endpoint, &mut io, epoch(), Budget { receive: 1, transmit, ..Budget::default() });
            assert_eq!(io.left, 1, "{to_send} to send, room for {room}, at most {transmit}");
        }
    }

    #[test]
    fn output_uses_time_after_reading() {
        let later = Duration::from_micros(7);
        for (input, passed) in [(&[(&b"a"[..], 1)][..], later), (&[][..], Duration::ZERO)] {
            let mut io = FakeIo { reading_takes: later, ..FakeIo::new(input, 9) };
            let due = io.at + Duration::from_micros(1);
            let (now, mut endpoint) = (io.at, Fake { to_send: 1, deadline: Some(due), ..Fake::default() });
            let turn = turn(&mut endpoint, &mut io, now, Budget::default());
            assert_eq!(endpoint.sent_at, Some(now + passed), "{} datagrams read", input.len());
            assert!(!turn.fired, "later arrivals are not read yet");
        }
    }

    #[test]
    fn icmp_error_is_reported_once_and_fires() {
        let (mut endpoint, mut io) = (Fake::default(), FakeIo { refused: 3, ..FakeIo::new(&[], 9) });
        let fired = [0; 2].map(|_| turn(&mut endpoint, &mut io, epoch(), Budget::default()).fired);
        assert_eq!((endpoint.refused, fired), (3, [true, false]));
    }

    #[test]
    fn overflow_is_reported_once_before_output() {
        let (mut endpoint, mut io) =
            (Fake::default(), FakeIo { overflow: 3, ..FakeIo::new(&[(b"a", 1)], 9) });
        take_in(&mut endpoint, &mut io, epoch(), Budget::default(), &mut Turn::default());
        take_in(&mut endpoint, &mut io, epoch(), Budget::default(), &mut Turn::default());
        assert_eq!((endpoint.got.len(), endpoint.overflow), (1, 3));
    }

    #[test]
    fn batch_splits_by_stride_and_counts_empty() {
        let (mut endpoint, mut io) =
            (Fake::default(), FakeIo::new(&[(b"aabbc", 2), (b"", 0), (b"dd", 2)], 9));
        let turn = turn(&mut endpoint, &mut io, epoch(), Budget::default());
        assert_eq!(endpoint.got, [&b"aa"[..], b"bb", b"c", b"", b"dd"]);
        assert_eq!(endpoint.codepoints, [Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
        assert_eq!((turn.received, turn.more, turn.blocked, turn.fired), (5, false, false, false));
    }

    #[test]
    fn exhausted_budget_ends_turn_with_more() {
        let (mut endpoint, mut io) =
            (Fake { to_send: 3, ..Fake::default() }, FakeIo::new(&[(b"a", 1), (b"b", 1)], 9));
        let budget = Budget { receive: 1, receive_bytes: 9, transmit: 2 };
        let first = turn(&mut endpoint, &mut io, epoch(), budget);
        assert_eq!((first.received, first.transmitted, first.more), (1, 2, true));
        let second = turn(&mut endpoint, &mut io, epoch(), Budget { receive: 2, ..budget });
        assert_eq!((second.received, second.transmitted, second.more), (1, 1, false));
    }

    #[test]
    fn byte_budget_ends_reading() {
        let mut io = FakeIo::new(&[(b"aaa", 3), (b"bbb", 3), (b"ccc", 3)], 9);
        let budget = Budget { receive_bytes: 4, ..Budget::default() };
        let mut endpoint = Fake::default();
        let turns = [0; 2].map(|_| turn(&mut endpoint, &mut io, epoch(), budget));
        assert_eq!(turns.map(|turn| (turn.received, turn.more)), [(2, true), (1, false)]);
    }

    #[test]
    fn full_socket_stops_only_output() {
        let now = epoch();
        let deadline = Some(now + Duration::from_secs(1));
        let (mut endpoint, mut io) =
            (Fake { to_send: 1, deadline, ..Fake::default() }, FakeIo::new(&[(b"a", 1)], 0));
        let early = turn(&mut endpoint, &mut io, now, Budget::default());
        assert_eq!((early.received, early.blocked, early.fired, early.deadline), (1, true, false, deadline));
        let due = turn(&mut endpoint, &mut io, now + Duration::from_secs(1), Budget::default());
        assert_eq!((due.fired, due.deadline, endpoint.to_send), (true, None, 2));
    }
}
