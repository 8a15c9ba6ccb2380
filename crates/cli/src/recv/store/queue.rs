//! Bounded job queue from the network thread to the writer thread. Owns the buffers, and decides
//! when to wake each thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Transfer;

/// Limit on the memory of queued jobs, bytes. At the limit, data remains in the receive buffers.
pub(super) const MAX_QUEUED_BYTES: usize = 4 << 20;
/// Largest piece written with one call, bytes: few calls, and the data is still in the CPU cache.
const PIECE_BYTES: usize = 128 << 10;
/// Writes smaller than this get a buffer of their own size, because there may be many of them.
const MIN_PIECE_BYTES: usize = PIECE_BYTES / 8;
/// Memory of a job besides its data, bytes: the struct, and the overhead of the allocator.
pub(super) const JOB_OVERHEAD: usize = size_of::<Job>() + 32;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Job {
    Write(Transfer, Vec<u8>),
    Finish(Transfer, Option<Box<str>>),
    Abort(Transfer),
}

impl Job {
    fn cost(&self) -> usize {
        match self {
            Self::Write(_, piece) => JOB_OVERHEAD + piece.capacity(),
            Self::Finish(_, name) => JOB_OVERHEAD + name.as_ref().map_or(0, |name| name.len()),
            Self::Abort(_) => JOB_OVERHEAD,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Memory of all jobs including the one in progress, bytes.
    cost: usize,
    /// Buffers whose contents were written, for reuse.
    spare: Vec<Vec<u8>>,
    /// True if the network thread waits for half of the queue to be free.
    wanted: bool,
    idle: bool,
    ends: Ends,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Ends {
    #[default]
    Both,
    /// The network thread has closed the queue, and queued jobs are dropped.
    Closed,
    Abandoned,
}

impl Queue {
    /// Queues as many of the next bytes of a transfer as fit, and returns their number.
    pub(super) fn write(&self, transfer: Transfer, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty()
            && let Some(mut piece) = self.piece(transfer, bytes.len())
        {
            let n = (piece.capacity() - piece.len()).min(rest.len());
            piece.extend_from_slice(&rest[..n]);
            rest = &rest[n..];
            self.push(Job::Write(transfer, piece));
        }
        bytes.len() - rest.len()
    }

    pub(super) fn push(&self, job: Job) {
        let mut state = self.lock();
        state.cost += job.cost();
        state.jobs.push_back(job);
        if std::mem::take(&mut state.idle) {
            self.changed.notify_one();
        }
    }

    /// Returns false if the queue is full: [`Queue::done`] returns true once half of it is free.
    pub(super) fn has_room(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.cost < MAX_QUEUED_BYTES;
        state.wanted |= !has_room;
        has_room
    }

    pub(super) fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        while state.ends == Ends::Both {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.idle = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Releases the memory of a finished job. Returns true if the network thread must be woken.
    pub(super) fn done(&self, job: Job) -> bool {
        let mut state = self.lock();
        state.cost -= job.cost();
        if let Job::Write(_, mut piece) = job
            && piece.capacity() >= PIECE_BYTES
        {
            piece.clear();
            state.spare.push(piece);
        }
        state.cost <= MAX_QUEUED_BYTES / 2 && std::mem::take(&mut state.wanted)
    }

    /// Closes the queue for the network thread, and drops queued jobs.
    pub(super) fn close(&self) {
        self.lock().ends = Ends::Closed;
        self.changed.notify_one();
    }

    pub(super) fn abandon(&self) {
        self.lock().ends = Ends::Abandoned;
    }

    /// Returns true if the writer thread ended before the queue was closed, by a panic.
    pub(super) fn is_abandoned(&self) -> bool {
        self.lock().ends == Ends::Abandoned
    }

    /// Returns a buffer for up to `n` bytes of a transfer: the last queued piece if it is of that
    /// transfer and not full, else a new one. `None` if the queue is full.
    fn piece(&self, transfer: Transfer, n: usize) -> Option<Vec<u8>> {
        let mut state = self.lock();
        if let Some(Job::Write(of, piece)) = state.jobs.back()
            && *of == transfer
            && piece.len() < piece.capacity()
            && let Some(last) = state.jobs.pop_back()
        {
            state.cost -= last.cost();
            let Job::Write(_, piece) = last else { return None };
            return Some(piece);
        }
        if state.cost >= MAX_QUEUED_BYTES {
            return None;
        }
        if n < MIN_PIECE_BYTES {
            return Some(Vec::with_capacity(n));
        }
        Some(state.spare.pop().unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES)))
    }

    /// Locks the state. A poisoned lock is ignored, because no code that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queue {
        pub(in crate::recv::store) fn is_closed(&self) -> bool {
            self.lock().ends != Ends::Both
        }

        pub(in crate::recv::store) fn load(&self) -> (usize, usize) {
            let state = self.lock();
            (state.jobs.len(), state.cost)
        }
    }

    fn transfer(number: u64) -> Transfer {
        Transfer { number, peer: std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into() }
    }

    /// Takes the next job, marks it as done, and returns its data.
    fn take(queue: &Queue) -> (u64, Vec<u8>) {
        let Some(job) = queue.next() else { panic!("closed") };
        let Job::Write(transfer, piece) = &job else { panic!("{job:?}") };
        let taken = (transfer.number, piece.clone());
        queue.done(job);
        taken
    }

    #[test]
    fn small_writes_cost_their_size_plus_overhead() {
        let queue = Queue::default();
        for number in 0..100 {
            assert_eq!(queue.write(transfer(number), b"abc"), 3);
        }
        let (jobs, cost) = queue.load();
        assert_eq!(jobs, 100);
        assert!(cost <= 100 * (JOB_OVERHEAD + 8), "{cost}");
    }

    #[test]
    fn consecutive_writes_of_transfer_share_pieces() {
        let queue = Queue::default();
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES).map(|i| (i % 251).to_le_bytes()[0]).collect();
        for part in bytes.chunks(MIN_PIECE_BYTES + 1) {
            assert_eq!(queue.write(transfer(1), part), part.len());
        }
        assert_eq!(queue.write(transfer(2), &bytes[..MIN_PIECE_BYTES]), MIN_PIECE_BYTES);
        let mut got = Vec::new();
        for length in [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES] {
            let (number, piece) = take(&queue);
            assert_eq!((number, piece.len()), (1, length));
            got.extend(piece);
        }
        assert!(got == bytes, "the bytes differ");
        assert_eq!(take(&queue), (2, bytes[..MIN_PIECE_BYTES].to_vec()));
        assert_eq!(queue.load(), (0, 0));
        assert_eq!(queue.lock().spare.len(), 4, "their memory is used again");
        queue.write(transfer(3), &bytes);
        assert_eq!(queue.lock().spare.len(), 1);
    }

    #[test]
    fn full_queue_wakes_once_when_half_free() {
        let queue = Queue::default();
        let bytes = vec![7; MAX_QUEUED_BYTES];
        let mut taken = 0;
        let mut number = 0;
        while queue.has_room() {
            number += 1;
            taken += queue.write(transfer(number), &bytes[..MIN_PIECE_BYTES]);
        }
        let (jobs, cost) = queue.load();
        assert!(
            (MAX_QUEUED_BYTES..=MAX_QUEUED_BYTES + PIECE_BYTES + JOB_OVERHEAD).contains(&cost),
            "{cost} for {taken} bytes"
        );
        assert_eq!(queue.write(transfer(0), b"abc"), 0);
        let mut woken = Vec::new();
        for done in 1..=jobs {
            let job = queue.next().unwrap();
            if queue.done(job) {
                woken.push(done);
            }
        }
        assert_eq!(woken, [jobs / 2 + 1], "once");
    }
}
