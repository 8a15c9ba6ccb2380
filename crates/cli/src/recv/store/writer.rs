//! Writer thread of a store, so that the network thread never blocks on a disk or on the reader of
//! a pipe.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::queue::{Job, Queue};
use super::{Stored, Transfer};

pub(super) trait Sink: Send + 'static {
    fn write(&mut self, transfer: Transfer, bytes: &[u8]) -> io::Result<()>;

    /// Completes a transfer. `name` is safe as a component of a path.
    fn finish(&mut self, transfer: Transfer, name: Option<&str>) -> io::Result<Stored>;

    fn abort(&mut self, transfer: Transfer);
}

/// Result of a transfer that was completely written or that failed; reported once.
#[derive(Debug)]
pub(crate) struct WriteResult {
    pub(crate) transfer: Transfer,
    pub(crate) result: io::Result<Stored>,
}

/// Handle of the writer thread. No call blocks on a disk or on the reader of a pipe.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) queue: Arc<Queue>,
    results: Receiver<WriteResult>,
    /// Thread, joined on drop; `None` if the sink may block for ever.
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts a thread that writes to `sink`. `wake` is called when there is a result, when a full
    /// queue has room again, and when the thread ends.
    pub(super) fn new(sink: impl Sink, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (report, results) = channel();
        let worker = Worker { queue: Arc::clone(&queue), sink, report, wake, failed: BTreeSet::new() };
        let thread = Builder::new().name("writer".into()).spawn(move || worker.run())?;
        Ok(Self { queue, results, thread: Some(thread) })
    }

    /// Like [`Writer::new`], for a sink that may block for ever: a drop does not join the thread.
    pub(super) fn detached(sink: impl Sink, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let mut writer = Self::new(sink, wake)?;
        writer.thread = None;
        Ok(writer)
    }

    pub(super) fn poll(&mut self) -> Option<WriteResult> {
        self.results.try_recv().ok()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic was already printed.
            let _ = thread.join();
        }
    }
}

struct Worker<S, W: Fn()> {
    queue: Arc<Queue>,
    sink: S,
    report: Sender<WriteResult>,
    wake: W,
    /// Transfers with a failed write, until the network thread finishes or aborts them.
    failed: BTreeSet<Transfer>,
}

impl<S: Sink, W: Fn()> Worker<S, W> {
    fn run(mut self) {
        while let Some(job) = self.queue.next() {
            match &job {
                Job::Write(transfer, bytes) => self.write(*transfer, bytes),
                Job::Finish(transfer, name) => {
                    if !self.failed.remove(transfer) {
                        let result = self.sink.finish(*transfer, name.as_deref());
                        self.send(WriteResult { transfer: *transfer, result });
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
            // Before the result is sent, so that no partial file exists when it is received.
            self.sink.abort(transfer);
            self.send(WriteResult { transfer, result: Err(error) });
        }
    }

    fn send(&self, result: WriteResult) {
        // Fails only while the program exits.
        let _ = self.report.send(result);
        (self.wake)();
    }
}

impl<S, W: Fn()> Drop for Worker<S, W> {
    /// Runs even if the sink panics, so that the network thread does not wait for ever.
    fn drop(&mut self) {
        self.queue.abandon();
        (self.wake)();
    }
}

#[cfg(test)]
mod tests;
