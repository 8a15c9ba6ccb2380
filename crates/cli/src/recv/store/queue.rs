//! What waits to be written: jobs in order, between the thread that answers senders and the one that writes. Owns their
//! memory, which is bounded, and says who is to be woken.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Transfer;

/// Bytes that wait to be written at most; no more are taken from the receivers' memory then.
pub(super) const QUEUE: usize = 4 << 20;
/// Bytes that are written at a time, at most: few calls, and what is written is still in a cache.
const PIECE: usize = 128 << 10;
/// Fewer bytes than this get memory of their own size, of which there may be many.
const SMALL: usize = PIECE / 8;
/// What a job costs beside its bytes: itself, and the allocator's share.
pub(super) const JOB: usize = size_of::<Job>() + 32;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Job {
    Write(Transfer, Vec<u8>),
    Finish(Transfer),
    Abort(Transfer),
}

impl Job {
    /// Bytes of memory.
    fn cost(&self) -> usize {
        match self {
            Self::Write(_, piece) => JOB + piece.capacity(),
            Self::Finish(_) | Self::Abort(_) => JOB,
        }
    }
}

/// The jobs, shared by both threads.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is a job, or nothing more will come.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Of the jobs, the one that is being done included.
    cost: usize,
    /// Pieces that were written, for those that come.
    spare: Vec<Vec<u8>>,
    /// Whoever brings jobs waits until half of the queue is free.
    wanted: bool,
    /// Whoever does them waits for one.
    idle: bool,
    ends: Ends,
}

/// Who is there of the two.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Ends {
    #[default]
    Both,
    /// Nobody wants what still waits.
    Closed,
    /// Nobody does jobs any more.
    Abandoned,
}

impl Queue {
    /// Takes as many of the next bytes of a transfer as there is room for, and says how many.
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

    /// Takes a job whether there is room for it or not.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.lock();
        state.cost += job.cost();
        state.jobs.push_back(job);
        if std::mem::take(&mut state.idle) {
            self.changed.notify_one();
        }
    }

    /// False if nothing more is taken for now; then [`Queue::done`] says when that changes.
    pub(super) fn has_room(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.cost < QUEUE;
        state.wanted |= !has_room;
        has_room
    }

    /// The next job, waited for; `None` if there will be none.
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

    /// A job is done. True if somebody waits for room, and there is enough now.
    pub(super) fn done(&self, job: Job) -> bool {
        let mut state = self.lock();
        state.cost -= job.cost();
        if let Job::Write(_, mut piece) = job
            && piece.capacity() >= PIECE
        {
            piece.clear();
            state.spare.push(piece);
        }
        state.cost <= QUEUE / 2 && std::mem::take(&mut state.wanted)
    }

    /// Nobody wants what still waits.
    pub(super) fn close(&self) {
        self.lock().ends = Ends::Closed;
        self.changed.notify_one();
    }

    /// Nobody will do what still waits.
    pub(super) fn abandon(&self) {
        self.lock().ends = Ends::Abandoned;
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.lock().ends == Ends::Abandoned
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.lock().ends != Ends::Both
    }

    /// Jobs that wait, and what all cost.
    #[cfg(test)]
    pub(super) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.jobs.len(), state.cost)
    }

    /// Memory for some of `n` bytes of a transfer: behind those that came last, if they can be had back.
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
        if state.cost >= QUEUE {
            return None;
        }
        if n < SMALL {
            return Some(Vec::with_capacity(n));
        }
        Some(state.spare.pop().unwrap_or_else(|| Vec::with_capacity(PIECE)))
    }

    /// Nothing that could panic is done under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(number: u64) -> Transfer {
        Transfer { number, peer: std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into() }
    }

    /// Does the next job; gives what is written.
    fn take(queue: &Queue) -> (u64, Vec<u8>) {
        let Some(job) = queue.next() else { panic!("closed") };
        let Job::Write(transfer, piece) = &job else { panic!("{job:?}") };
        let taken = (transfer.number, piece.clone());
        queue.done(job);
        taken
    }

    #[test]
    fn small_writes_cost_no_more_than_themselves_and_a_job() {
        let queue = Queue::default();
        for number in 0..100 {
            assert_eq!(queue.write(transfer(number), b"abc"), 3);
        }
        let (jobs, cost) = queue.load();
        assert_eq!(jobs, 100);
        assert!(cost <= 100 * (JOB + 8), "{cost}");
    }

    #[test]
    fn what_follows_of_the_same_transfer_is_written_with_it() {
        let queue = Queue::default();
        let bytes: Vec<u8> = (0..3 * PIECE).map(|i| (i % 251).to_le_bytes()[0]).collect();
        for part in bytes.chunks(SMALL + 1) {
            assert_eq!(queue.write(transfer(1), part), part.len());
        }
        assert_eq!(queue.write(transfer(2), &bytes[..SMALL]), SMALL);
        let mut got = Vec::new();
        for length in [PIECE, PIECE, PIECE] {
            let (number, piece) = take(&queue);
            assert_eq!((number, piece.len()), (1, length));
            got.extend(piece);
        }
        assert!(got == bytes, "the bytes differ");
        assert_eq!(take(&queue), (2, bytes[..SMALL].to_vec()));
        assert_eq!(queue.load(), (0, 0));
        assert_eq!(queue.lock().spare.len(), 4, "their memory is used again");
        queue.write(transfer(3), &bytes);
        assert_eq!(queue.lock().spare.len(), 1);
    }

    #[test]
    fn no_bytes_are_taken_once_it_is_full_and_half_of_it_wakes() {
        let queue = Queue::default();
        let bytes = vec![7; QUEUE];
        let mut taken = 0;
        let mut number = 0;
        while queue.has_room() {
            number += 1;
            taken += queue.write(transfer(number), &bytes[..SMALL]);
        }
        let (jobs, cost) = queue.load();
        assert!((QUEUE..=QUEUE + PIECE + JOB).contains(&cost), "{cost} for {taken} bytes");
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
