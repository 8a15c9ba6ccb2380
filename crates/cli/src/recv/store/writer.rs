//! The thread that writes what a receiver keeps, because a disk may be slow and who reads a pipe may pause: neither
//! holds up the thread that answers senders.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::queue::{Job, Queue};
use super::{Stored, Transfer};

/// Where transfers end up. Each call may take its time.
pub(super) trait Sink: Send + 'static {
    /// The next bytes of a transfer.
    fn write(&mut self, transfer: Transfer, bytes: &[u8]) -> io::Result<()>;

    /// It is complete.
    fn finish(&mut self, transfer: Transfer) -> io::Result<Stored>;

    /// It ends otherwise.
    fn abort(&mut self, transfer: Transfer);
}

/// How a transfer ended that was finished, or that could not be written: told once of each.
#[derive(Debug)]
pub(crate) struct WriteResult {
    pub(crate) transfer: Transfer,
    pub(crate) result: io::Result<Stored>,
}

/// The thread, seen from the one that answers senders. No call here waits for a disk or a reader.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    news: Receiver<WriteResult>,
    /// Waited for at the end, where a sink leaves something to tidy up.
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Writes to `sink`. `wake` is called when there is news, room after there was none, or an end of the thread.
    pub(super) fn new(sink: impl Sink, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (tell, news) = channel();
        let worker = Worker { queue: Arc::clone(&queue), sink, tell, wake, failed: BTreeSet::new() };
        let thread = Builder::new().name("writer".into()).spawn(move || worker.run())?;
        Ok(Self { queue, news, thread: Some(thread) })
    }

    /// The same for a sink that may never return from a call; the end of the program does not wait for it.
    pub(super) fn detached(sink: impl Sink, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let mut writer = Self::new(sink, wake)?;
        writer.thread = None;
        Ok(writer)
    }

    /// Takes as many of the next bytes of a transfer as there is room for, and says how many.
    pub(super) fn write(&mut self, transfer: Transfer, bytes: &[u8]) -> usize {
        self.queue.write(transfer, bytes)
    }

    /// False if nothing more is taken for now; then its owner is woken when that changes.
    pub(super) fn has_room(&self) -> bool {
        self.queue.has_room()
    }

    /// Everything of a transfer was taken; news of it follows. Not to be called while there is no room, for anybody can
    /// send an empty transfer.
    pub(super) fn finish(&mut self, transfer: Transfer) {
        self.queue.push(Job::Finish(transfer));
    }

    /// A transfer of which something was taken ends otherwise. There are no more of these than open files.
    pub(super) fn abort(&mut self, transfer: Transfer) {
        self.queue.push(Job::Abort(transfer));
    }

    /// The next news.
    pub(super) fn poll(&mut self) -> Option<WriteResult> {
        self.news.try_recv().ok()
    }

    /// True if the thread ended by itself, which it never should: nothing more is written.
    pub(super) fn has_died(&self) -> bool {
        self.queue.is_abandoned()
    }

    /// Jobs that wait, and their bytes.
    #[cfg(test)]
    pub(super) fn load(&self) -> (usize, usize) {
        self.queue.load()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic of it has been told.
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Worker<S, W: Fn()> {
    queue: Arc<Queue>,
    sink: S,
    tell: Sender<WriteResult>,
    wake: W,
    /// Transfers that could not be written, and that their owner has not ended yet.
    failed: BTreeSet<Transfer>,
}

impl<S: Sink, W: Fn()> Worker<S, W> {
    fn run(mut self) {
        while let Some(job) = self.queue.next() {
            match &job {
                Job::Write(transfer, bytes) => self.write(*transfer, bytes),
                Job::Finish(transfer) => {
                    if !self.failed.remove(transfer) {
                        let result = self.sink.finish(*transfer);
                        self.tell(WriteResult { transfer: *transfer, result });
                    }
                }
                Job::Abort(transfer) => {
                    self.failed.remove(transfer);
                    self.sink.abort(*transfer);
                }
            }
            if self.queue.done(job) {
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
            self.tell(WriteResult { transfer, result: Err(error) });
        }
    }

    fn tell(&self, news: WriteResult) {
        // Nobody listens any more if the program ends.
        let _ = self.tell.send(news);
        (self.wake)();
    }
}

impl<S, W: Fn()> Drop for Worker<S, W> {
    /// Also where the sink panics: whoever waits for news or room hears that none will come.
    fn drop(&mut self) {
        self.queue.abandon();
        (self.wake)();
    }
}

#[cfg(test)]
mod tests;
