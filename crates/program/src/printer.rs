//! Printing on a thread of its own, so that a slow reader delays only the output.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Handle to a printing thread. Clones print through the same thread.
#[derive(Debug, Clone)]
pub struct Printer {
    jobs: SyncSender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    /// First write error.
    error: Mutex<Option<io::Error>>,
}

#[derive(Debug)]
enum Job {
    Print(String),
    /// Reports on the channel when everything queued before is printed.
    Flush(SyncSender<()>),
    /// Reports as `Flush` does, then ends the thread.
    Close(SyncSender<()>),
}

impl Printer {
    /// Starts a thread that calls `write` for each text; at most `capacity` texts wait.
    pub fn spawn(
        capacity: usize,
        write: impl FnMut(&str) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(capacity);
        let shared = Arc::new(Shared::default());
        let errors = Arc::clone(&shared);
        thread::Builder::new().spawn(move || serve(queue, write, &errors))?;
        Ok(Self { jobs, shared })
    }

    /// Creates a printer that drops everything.
    pub fn discard() -> Self {
        Self { jobs: sync_channel(0).0, shared: Arc::default() }
    }

    /// Prints `text` without waiting. If the queue is full, the text is dropped and counted.
    pub fn print(&self, text: &str) {
        if self.jobs.try_send(Job::Print(text.to_owned())).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything is printed.
    pub fn flush(&self) {
        self.wait_for(Job::Flush);
    }

    /// Waits until everything is printed, and ends the thread. Later texts are dropped.
    pub fn close(&self) {
        self.wait_for(Job::Close);
    }

    /// Returns the number of dropped texts.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Returns the first write error, once.
    pub fn take_error(&self) -> Option<io::Error> {
        self.shared.error.lock().ok()?.take()
    }

    fn wait_for(&self, job: impl FnOnce(SyncSender<()>) -> Job) {
        let (done, is_done) = sync_channel(1);
        if self.jobs.send(job(done)).is_ok() {
            // Fails if the thread has ended: then nothing more is printed.
            let _ = is_done.recv();
        }
    }
}

fn serve(queue: Receiver<Job>, mut write: impl FnMut(&str) -> io::Result<()>, shared: &Shared) {
    while let Ok(job) = queue.recv() {
        // A send on `done` fails if the caller no longer waits.
        match job {
            Job::Print(text) => keep_first(&shared.error, write(&text)),
            Job::Flush(done) => drop(done.send(())),
            Job::Close(done) => {
                // Dropped before the report, so that no later text is queued.
                drop(queue);
                let _ = done.send(());
                return;
            }
        }
    }
}

/// Stores the first write error in `first`.
pub(crate) fn keep_first(first: &Mutex<Option<io::Error>>, result: io::Result<()>) {
    if let Err(error) = result
        && let Ok(mut first) = first.lock()
    {
        first.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const CAPACITY: usize = 64;

    /// Creates a printer that prints nothing until the first end of the channel is used or dropped.
    fn paused() -> (Printer, Sender<()>, Receiver<String>) {
        let (go, wait) = channel::<()>();
        let (prints, printed) = channel();
        let printer = Printer::spawn(CAPACITY, move |text| {
            let _ = wait.recv();
            prints.send(text.to_owned()).unwrap();
            Ok(())
        });
        (printer.unwrap(), go, printed)
    }

    #[test]
    fn full_queue_drops_texts_without_waiting() {
        let (printer, go, printed) = paused();
        for number in 0..2 * CAPACITY {
            printer.print(&number.to_string());
        }
        assert_eq!(printed.try_iter().count(), 0, "the reader pauses");
        drop(go);
        printer.flush();
        let printed: Vec<usize> = printed.try_iter().map(|text| text.parse().unwrap()).collect();
        // The thread may hold one more text than the queue. If it took the first one late, texts
        // were dropped before that made room for one.
        assert!((CAPACITY..=CAPACITY + 1).contains(&printed.len()), "{}", printed.len());
        assert!(printed.iter().take(CAPACITY).copied().eq(0..CAPACITY), "{printed:?}");
        assert!(printed.is_sorted(), "{printed:?}");
        assert_eq!(printer.dropped(), (2 * CAPACITY - printed.len()) as u64);
    }

    #[test]
    fn closed_printer_prints_queued_texts_only() {
        let (printer, go, printed) = paused();
        let clone = printer.clone();
        clone.print("in time");
        drop(go);
        printer.close();
        clone.print("too late");
        clone.flush();
        assert_eq!(printed.iter().collect::<Vec<_>>(), ["in time"]);
        assert_eq!(clone.dropped(), 1);
    }

    #[test]
    fn first_error_is_kept() {
        let mut errors = [io::ErrorKind::StorageFull, io::ErrorKind::TimedOut].into_iter();
        let printer = Printer::spawn(CAPACITY, move |_| Err(errors.next().unwrap().into())).unwrap();
        (0..2).for_each(|_| printer.print("x"));
        printer.flush();
        assert_eq!(printer.take_error().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
    }
}
