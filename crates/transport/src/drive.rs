//! One turn of a machine: datagrams in, due timer, datagrams out. Every waiter (a thread on a socket, a
//! simulator) calls this and differs only in how it waits, so the order of things exists once.

use std::time::Instant;

use crate::{Endpoint, TransmitBuf};

/// Where datagrams come from and go to: a socket, or a simulated network.
pub trait DatagramIo {
    /// The same as the endpoint's.
    type Peer: Copy;

    /// The next received batch, or `None` when there is nothing to read now.
    fn recv(&mut self) -> Option<Received<'_, Self::Peer>>;

    /// An empty batch to fill, or `None` while an earlier one is stuck: the endpoint has already counted
    /// it as sent, so it must leave first.
    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf>;

    /// Sends what was put into [`DatagramIo::transmit_buf`]; what the socket refuses for now is kept and
    /// sent by a later call of `transmit_buf`.
    fn flush(&mut self, peer: Self::Peer);
}

/// Datagrams from one peer, end to end.
#[derive(Debug)]
pub struct Received<'a, P> {
    /// Who sent them.
    pub peer: P,
    /// The datagrams' bytes.
    pub bytes: &'a [u8],
    /// Bytes of each datagram but perhaps the last; 0 for one empty datagram.
    pub stride: usize,
}

/// How much one turn may do before it gives the caller a chance to look at other work and the clock.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Received batches.
    pub receive: usize,
    /// Transmitted batches.
    pub transmit: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { receive: 32, transmit: 32 }
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
    /// A timer was due.
    pub fired: bool,
    /// Datagrams received.
    pub received: usize,
    /// Datagrams handed to `flush`.
    pub transmitted: usize,
}

/// Moves datagrams in, fires the due timer, moves datagrams out.
pub fn turn<E, I>(endpoint: &mut E, io: &mut I, now: Instant, budget: Budget) -> Turn
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    let mut turn = Turn::default();
    turn.more |= receive(endpoint, io, now, budget.receive, &mut turn);
    if endpoint.poll_timeout().is_some_and(|deadline| deadline <= now) {
        endpoint.handle_timeout(now);
        turn.fired = true;
    }
    turn.more |= transmit(endpoint, io, now, budget.transmit, &mut turn);
    turn.deadline = endpoint.poll_timeout();
    turn
}

/// True if the budget ran out before the input did.
fn receive<E, I>(endpoint: &mut E, io: &mut I, now: Instant, budget: usize, turn: &mut Turn) -> bool
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    for _ in 0..budget {
        let Some(batch) = io.recv() else { return false };
        if batch.bytes.is_empty() {
            endpoint.handle_datagram(now, batch.peer, &[]);
            turn.received += 1;
        }
        for datagram in batch.bytes.chunks(batch.stride.max(1)) {
            endpoint.handle_datagram(now, batch.peer, datagram);
            turn.received += 1;
        }
    }
    true
}

/// True if the budget ran out before the output did.
fn transmit<E, I>(endpoint: &mut E, io: &mut I, now: Instant, budget: usize, turn: &mut Turn) -> bool
where
    E: Endpoint + ?Sized,
    I: DatagramIo<Peer = E::Peer>,
{
    for _ in 0..budget {
        let Some(batch) = io.transmit_buf() else {
            turn.blocked = true;
            return false;
        };
        let Some(peer) = endpoint.poll_transmit(now, batch) else { return false };
        turn.transmitted += batch.segments();
        io.flush(peer);
    }
    true
}
