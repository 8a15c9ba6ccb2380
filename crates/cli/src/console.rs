//! Where lines go: results to the standard output, talk to the standard error. A reader that goes away is
//! not an error of the transfer; a full disk is, and is told at the end.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::Failure;

/// Lines that may wait for a reader who is slow, each of 2 KB at most.
const WAITING: usize = 4096;

/// The first error of a writer.
type FirstError = Arc<Mutex<Option<io::Error>>>;

/// The standard output, shared by those who print lines of results.
#[derive(Debug, Clone, Default)]
pub(crate) struct Console {
    error: FirstError,
    background: Option<Background>,
}

/// A thread that prints, so that a reader who pauses holds up nobody else.
#[derive(Debug, Clone)]
struct Background {
    jobs: SyncSender<Job>,
    /// Texts for which there was no room.
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Job {
    Print(String),
    /// To say that all before it is printed.
    Report(SyncSender<()>),
}

impl Console {
    /// One that never waits for its reader, but at the end. Fails if no thread can be had.
    pub(crate) fn in_background() -> io::Result<Self> {
        Self::printing_to(io::stdout())
    }

    fn printing_to(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let error = FirstError::default();
        let (jobs, queue) = sync_channel(WAITING);
        let first = Arc::clone(&error);
        thread::Builder::new().spawn(move || {
            for job in queue {
                match job {
                    Job::Print(text) => print(&mut out, &text, &first),
                    // Nobody waits for it any more: then nobody has to be told.
                    Job::Report(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(Self { error, background: Some(Background { jobs, lost: Arc::default() }) })
    }

    /// Prints a line.
    pub(crate) fn line(&self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Prints text without ending the line.
    pub(crate) fn text(&self, text: &str) {
        match &self.background {
            None => print(&mut io::stdout().lock(), text, &self.error),
            Some(Background { jobs, lost }) => {
                if jobs.try_send(Job::Print(text.to_owned())).is_err() {
                    lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Waits until everything is printed.
    pub(crate) fn catch_up(&self) {
        let Some(Background { jobs, .. }) = &self.background else { return };
        let (done, is_done) = sync_channel(1);
        if jobs.send(Job::Report(done)).is_ok() {
            // An error is the end of the thread, which prints nothing more.
            let _ = is_done.recv();
        }
    }

    /// Lines that were left out because nobody read those before them.
    pub(crate) fn lost(&self) -> u64 {
        self.background.as_ref().map_or(0, |background| background.lost.load(Ordering::Relaxed))
    }

    /// The first error of any line, when all are printed.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.catch_up();
        if let lost @ 1.. = self.lost() {
            talk(&format!("{lost} lines are missing: the reader of the standard output was too slow"));
        }
        match self.error.lock().ok().and_then(|mut first| first.take()) {
            Some(error) => Err(Failure::Output { name: "the standard output".into(), error }),
            None => Ok(()),
        }
    }
}

fn print(out: &mut impl Write, text: &str, first: &Mutex<Option<io::Error>>) {
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
        && let Ok(mut first) = first.lock()
    {
        first.get_or_insert(error);
    }
}

/// Prints a line to the standard error. If that is gone, nobody listens.
pub(crate) fn talk(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes nothing before it is told to, or nobody is left who could.
    struct Slow {
        go: Receiver<()>,
        read: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.go.recv();
            self.read.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Console, Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (told, go) = channel();
        let read = Arc::new(Mutex::default());
        let console = Console::printing_to(Slow { go, read: Arc::clone(&read) }).unwrap();
        (console, told, read)
    }

    #[test]
    fn a_reader_that_pauses_holds_up_nobody_and_gets_the_first_lines() {
        let (console, told, read) = slow();
        // One is with the writer, or all are in the queue.
        let printed = WAITING + 10;
        for n in 0..printed {
            console.line(&n.to_string());
        }
        let lost = console.lost();
        assert!((9..=10).contains(&lost), "{lost}");
        drop(told);
        console.catch_up();
        let read = String::from_utf8(read.lock().unwrap().clone()).unwrap();
        let expected: Vec<String> =
            (0..printed - usize::try_from(lost).unwrap()).map(|n| n.to_string()).collect();
        assert!(read.lines().eq(expected), "in order, each once");
    }

    #[test]
    fn an_error_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let console = Console::printing_to(Full).unwrap();
        console.line("a");
        let Err(Failure::Output { error, .. }) = console.finish() else { panic!("no error") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
