//! One turn of a machine: datagrams in, due timer, datagrams out. Every waiter (a thread on a socket, a
//! simulator) calls this and differs only in how it waits, so the order of things exists once.

use std::time::Instant;

pub use rdt_datagram::{DatagramIo, Received};

use crate::Endpoint;

/// How much one turn may do before it gives the caller a chance to look at other work and the clock.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Received batches.
    pub receive: usize,
    /// After so many received bytes no more batches are read: what is answered in good time keeps a sender going that
    /// may have no more under way than fits the caches.
    pub receive_bytes: usize,
    /// Transmitted datagrams.
    pub transmit: usize,
}

impl Default for Budget {
    fn default() -> Self {
        // A received batch may hold 64 datagrams, each of which may be answered.
        Self { receive: 32, receive_bytes: 256 * 1024, transmit: 32 * 64 }
    }
}

/// What a turn did and what must happen next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// Call again by then.
    pub deadline: Option<Instant>,
    /// A budget ran out: call again without waiting.
    pub more: bool,
    /// The socket takes no more for now: call again when it is writable.
    pub blocked: bool,
    /// A timer was due, or the network had something to report.
    pub fired: bool,
    /// Datagrams received.
    pub received: usize,
    /// Datagrams handed to `flush`.
    pub transmitted: usize,
}

/// Moves datagrams in, fires the due timer, moves datagrams out. `now` is the present.
pub fn turn<E, I>(endpoint: &mut E, io: &mut I, now: Instant, budget: Budget) -> Turn
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    turn_with(endpoint, io, now, budget, |_| {})
}

/// The same, and between the two the application may `refill` the endpoint: then it is known how much can be sent, and
/// what is written is sent at once, while it is in the cache.
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

/// The first half of a turn: as many datagrams in as the `budget` has, and the due timer. Gives the present.
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
    let reports = io.take_refused();
    if reports > 0 {
        endpoint.handle_refused(now, reports);
        turn.fired = true;
    }
    // What arrived since then has not been read, and may be the answer that a timer waits for.
    if endpoint.poll_timeout().is_some_and(|deadline| deadline <= now) {
        endpoint.handle_timeout(now);
        turn.fired = true;
    }
    turn.deadline = endpoint.poll_timeout();
    if turn.received == received {
        return now;
    }
    now.max(io.present(now))
}

/// The second half: at most `budget` datagrams out, but whole batches; before the first one the application may `refill`
/// the endpoint, unless the socket is full.
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
    turn.more |= transmit(endpoint, io, now, budget, turn, refill);
    io.leave();
    turn.deadline = endpoint.poll_timeout();
}

/// The present, which is at least the time of the newest arrival: the clock was read before the socket.
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

/// True if the budget ran out before the output did.
fn transmit<E, I, R>(
    endpoint: &mut E,
    io: &mut I,
    now: Instant,
    budget: usize,
    turn: &mut Turn,
    refill: R,
) -> bool
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
    R: FnOnce(&mut E),
{
    let mut refill = Some(refill);
    while turn.transmitted < budget {
        let Some(batch) = io.transmit_buf() else {
            turn.blocked = true;
            return false;
        };
        if let Some(refill) = refill.take() {
            refill(endpoint);
        }
        let Some(peer) = endpoint.poll_transmit(now, batch) else { return false };
        turn.transmitted += batch.segments();
        io.flush(peer);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use crate::{Ecn, TransmitBuf};

    /// Remembers what it was given and has `to_send` datagrams to send.
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

        fn handle_datagram(&mut self, _: Instant, (): (), ecn: Ecn, datagram: &[u8]) {
            self.got.push(datagram.to_vec());
            self.codepoints.push(ecn);
        }

        fn handle_refused(&mut self, _: Instant, reports: u64) {
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
                bytes: &self.current.0,
                stride: self.current.1,
                ecn: if self.current.1 > 1 { Ecn::Ce } else { Ecn::NotEct },
                at: self.at,
            })
        }

        fn take_refused(&mut self) -> u64 {
            std::mem::take(&mut self.refused)
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

    #[expect(clippy::disallowed_methods, reason = "an epoch for made-up times")]
    fn epoch() -> Instant {
        Instant::now()
    }

    #[test]
    fn the_application_is_asked_after_input_and_before_output_unless_the_socket_is_full() {
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
    fn every_turn_leaves_the_batch_to_others_however_it_ends() {
        // Nothing to send, a full socket, no budget left.
        for (to_send, room, transmit) in [(0, 9, 9), (3, 1, 9), (3, 9, 2)] {
            let (mut endpoint, mut io) = (Fake { to_send, ..Fake::default() }, FakeIo::new(&[], room));
            turn(&mut endpoint, &mut io, epoch(), Budget { receive: 1, transmit, ..Budget::default() });
            assert_eq!(io.left, 1, "{to_send} to send, room for {room}, at most {transmit}");
        }
    }

    #[test]
    fn what_is_sent_after_reading_leaves_at_the_present() {
        let later = Duration::from_micros(7);
        for (input, passed) in [(&[(&b"a"[..], 1)][..], later), (&[][..], Duration::ZERO)] {
            let mut io = FakeIo { reading_takes: later, ..FakeIo::new(input, 9) };
            let due = io.at + Duration::from_micros(1);
            let (now, mut endpoint) = (io.at, Fake { to_send: 1, deadline: Some(due), ..Fake::default() });
            let turn = turn(&mut endpoint, &mut io, now, Budget::default());
            assert_eq!(endpoint.sent_at, Some(now + passed), "{} datagrams read", input.len());
            assert!(!turn.fired, "what came meanwhile was not read yet");
        }
    }

    #[test]
    fn a_report_is_told_once_and_keeps_its_caller_awake() {
        let (mut endpoint, mut io) = (Fake::default(), FakeIo { refused: 3, ..FakeIo::new(&[], 9) });
        let fired = [0; 2].map(|_| turn(&mut endpoint, &mut io, epoch(), Budget::default()).fired);
        assert_eq!((endpoint.refused, fired), (3, [true, false]));
    }

    #[test]
    fn what_the_socket_had_no_room_for_is_told_before_anything_is_sent() {
        let (mut endpoint, mut io) =
            (Fake::default(), FakeIo { overflow: 3, ..FakeIo::new(&[(b"a", 1)], 9) });
        take_in(&mut endpoint, &mut io, epoch(), Budget::default(), &mut Turn::default());
        take_in(&mut endpoint, &mut io, epoch(), Budget::default(), &mut Turn::default());
        assert_eq!((endpoint.got.len(), endpoint.overflow), (1, 3));
    }

    #[test]
    fn a_batch_is_split_by_its_stride_and_an_empty_datagram_counts() {
        let (mut endpoint, mut io) =
            (Fake::default(), FakeIo::new(&[(b"aabbc", 2), (b"", 0), (b"dd", 2)], 9));
        let turn = turn(&mut endpoint, &mut io, epoch(), Budget::default());
        assert_eq!(endpoint.got, [&b"aa"[..], b"bb", b"c", b"", b"dd"]);
        assert_eq!(endpoint.codepoints, [Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
        assert_eq!((turn.received, turn.more, turn.blocked, turn.fired), (5, false, false, false));
    }

    #[test]
    fn budgets_end_a_turn_and_say_so() {
        let (mut endpoint, mut io) =
            (Fake { to_send: 3, ..Fake::default() }, FakeIo::new(&[(b"a", 1), (b"b", 1)], 9));
        let budget = Budget { receive: 1, receive_bytes: 9, transmit: 2 };
        let first = turn(&mut endpoint, &mut io, epoch(), budget);
        assert_eq!((first.received, first.transmitted, first.more), (1, 2, true));
        let second = turn(&mut endpoint, &mut io, epoch(), Budget { receive: 2, ..budget });
        assert_eq!((second.received, second.transmitted, second.more), (1, 1, false));
    }

    #[test]
    fn many_bytes_end_a_turns_reading_with_their_batch() {
        let mut io = FakeIo::new(&[(b"aaa", 3), (b"bbb", 3), (b"ccc", 3)], 9);
        let budget = Budget { receive_bytes: 4, ..Budget::default() };
        let mut endpoint = Fake::default();
        let turns = [0; 2].map(|_| turn(&mut endpoint, &mut io, epoch(), budget));
        assert_eq!(turns.map(|turn| (turn.received, turn.more)), [(2, true), (1, false)]);
    }

    #[test]
    fn a_full_socket_stops_output_but_not_input_or_timers() {
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
