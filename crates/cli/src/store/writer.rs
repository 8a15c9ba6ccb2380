//! The thread that writes what a receiver keeps, because a disk may be slow and who reads a pipe may pause: neither
//! holds up the thread that answers senders. Owns the jobs between the two, which are bounded in bytes.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rdt_driver::Remote;

/// Bytes that wait to be written at most; no more are taken from the receivers' memory then.
pub(super) const QUEUE: usize = 4 << 20;
/// What a job counts beside its bytes. Jobs without any come after one with some, so they have a bound, too.
const JOB: usize = 64;

/// One transfer of a peer, which may have had others before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transfer {
    /// Counts up.
    pub(super) number: u64,
    pub(crate) peer: Remote,
}

/// Where transfers end up. Each call may take its time.
pub(super) trait Sink: Send + 'static {
    /// The next bytes of a transfer.
    fn write(&mut self, transfer: Transfer, bytes: &[u8]) -> io::Result<()>;

    /// It is complete: gives the file that it is in, if it is in one.
    fn finish(&mut self, transfer: Transfer) -> io::Result<Option<PathBuf>>;

    /// It ends otherwise.
    fn abort(&mut self, transfer: Transfer);
}

/// How a transfer ended that was finished, or that could not be written: told once of each.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) transfer: Transfer,
    /// The file that it is in, if it is in one.
    pub(crate) result: io::Result<Option<PathBuf>>,
}

#[derive(Debug)]
enum Job {
    Write(Transfer, Vec<u8>),
    Finish(Transfer),
    Abort(Transfer),
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes and jobs that wait, as [`JOB`] counts them.
    queued: AtomicUsize,
    /// To be woken when half of the queue is free.
    wanted: AtomicBool,
    /// What still waits is nobody's.
    closed: AtomicBool,
}

impl Shared {
    fn is_half_free(&self) -> bool {
        self.queued.load(Ordering::SeqCst) <= QUEUE / 2
    }
}

/// The thread, seen from the one that answers senders. No call here waits for a disk or a reader.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// `None` once it is being dropped.
    jobs: Option<Sender<Job>>,
    news: Receiver<News>,
    /// Waited for at the end, where a sink leaves something to tidy up.
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Writes to `sink`. `wake` is called when there is news, or room after there was none.
    pub(super) fn new(sink: impl Sink, wake: impl Fn() + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let (jobs, queue) = channel();
        let (tell, news) = channel();
        let worker = Worker { shared: Arc::clone(&shared), sink, tell, wake, failed: BTreeSet::new() };
        let thread = thread::spawn(move || worker.run(queue));
        Self { shared, jobs: Some(jobs), news, thread: Some(thread) }
    }

    /// The same for a sink that may never return from a call; the end of the program does not wait for it.
    pub(super) fn detached(sink: impl Sink, wake: impl Fn() + Send + 'static) -> Self {
        let mut writer = Self::new(sink, wake);
        writer.thread = None;
        writer
    }

    /// Takes as many of the next bytes of a transfer as there is room for, and says how many. If none, the thread
    /// wakes its owner once there is room.
    pub(super) fn write(&mut self, transfer: Transfer, bytes: &[u8]) -> usize {
        let room = QUEUE.saturating_sub(self.shared.queued.load(Ordering::SeqCst));
        let n = room.min(bytes.len());
        if n > 0 {
            self.push(n, Job::Write(transfer, bytes[..n].to_vec()));
        }
        n
    }

    /// False if nothing more is taken for now; then its owner is woken when that changes.
    pub(super) fn has_room(&self) -> bool {
        if self.shared.queued.load(Ordering::SeqCst) < QUEUE {
            return true;
        }
        self.shared.wanted.store(true, Ordering::SeqCst);
        // The thread may have looked before.
        self.shared.is_half_free()
    }

    /// Everything of a transfer was taken; news of it follows.
    pub(super) fn finish(&mut self, transfer: Transfer) {
        self.push(0, Job::Finish(transfer));
    }

    /// The transfer ends otherwise.
    pub(super) fn abort(&mut self, transfer: Transfer) {
        self.push(0, Job::Abort(transfer));
    }

    /// The next news.
    pub(super) fn poll(&mut self) -> Option<News> {
        self.news.try_recv().ok()
    }

    fn push(&mut self, bytes: usize, job: Job) {
        self.shared.queued.fetch_add(bytes + JOB, Ordering::SeqCst);
        if let Some(jobs) = &self.jobs {
            // The thread ends after this only, or by a panic, which has been told.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of it has been told.
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Worker<S, W> {
    shared: Arc<Shared>,
    sink: S,
    tell: Sender<News>,
    wake: W,
    /// Transfers that could not be written, and that their owner has not ended yet.
    failed: BTreeSet<Transfer>,
}

impl<S: Sink, W: Fn()> Worker<S, W> {
    fn run(mut self, queue: Receiver<Job>) {
        for job in queue {
            if self.shared.closed.load(Ordering::SeqCst) {
                return;
            }
            let bytes = match job {
                Job::Write(transfer, bytes) => {
                    self.write(transfer, &bytes);
                    bytes.len()
                }
                Job::Finish(transfer) => {
                    if !self.failed.remove(&transfer) {
                        let result = self.sink.finish(transfer);
                        self.tell(News { transfer, result });
                    }
                    0
                }
                Job::Abort(transfer) => {
                    self.failed.remove(&transfer);
                    self.sink.abort(transfer);
                    0
                }
            };
            self.shared.queued.fetch_sub(bytes + JOB, Ordering::SeqCst);
            if self.shared.is_half_free() && self.shared.wanted.swap(false, Ordering::SeqCst) {
                (self.wake)();
            }
        }
    }

    fn write(&mut self, transfer: Transfer, bytes: &[u8]) {
        if self.failed.contains(&transfer) {
            return;
        }
        if let Err(error) = self.sink.write(transfer, bytes) {
            self.failed.insert(transfer);
            // What was written of it is gone when this is known.
            self.sink.abort(transfer);
            self.tell(News { transfer, result: Err(error) });
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens any more if the program ends.
        let _ = self.tell.send(news);
        (self.wake)();
    }
}

#[cfg(test)]
mod tests;
