//! Threads that begin their work together: when each of them has what it needs, or else none. What is missing, memory as
//! a rule, is then told before anybody was served, and not found out by the one who asks for it next.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use rdt_driver::prefill_batch_pool;

/// What a thread that serves asks for by and by, beside what peers send, bytes.
const SPARE: usize = 2 << 20;

/// Gives each worker a thread of its own and runs `work` on all of them, to the end of all. Before that, when all threads
/// are there, calls `announce`.
///
/// # Errors
/// If not all threads can be had. Then no work was done.
pub(crate) fn run<W: Send, T: Send>(
    workers: Vec<W>,
    work: impl Fn(W) -> T + Sync,
    announce: impl FnOnce(),
) -> io::Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        // Who returns early drops the signals, and the threads that wait for theirs end.
        let (mut signals, mut threads) = (Vec::new(), Vec::new());
        // One after the other, so that each finds what those before it have left.
        for worker in workers {
            reserve(SPARE)?;
            let (signal, begin) = channel();
            let (tell, told) = channel();
            let thread =
                Builder::new().spawn_scoped(scope, move || wait(&tell, &begin).then(|| work(worker)))?;
            told.recv().map_err(io::Error::other)??;
            signals.push(signal);
            threads.push(thread);
        }
        announce();
        for signal in signals {
            // Nobody ends before.
            let _ = signal.send(());
        }
        // All are waited for.
        let ends: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let end = |end: std::thread::Result<_>| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(ends.into_iter().filter_map(end).collect())
    })
}

/// Gets what the thread needs, tells of it, and waits for the signal; false if there is none.
fn wait(tell: &Sender<io::Result<()>>, begin: &Receiver<()>) -> bool {
    let ready = prefill_batch_pool();
    // Who asked waits for it.
    let _ = tell.send(ready);
    begin.recv().is_ok()
}

/// Fails if there are not so many bytes at present.
fn reserve(bytes: usize) -> io::Result<()> {
    let mut probe = Vec::<u8>::new();
    let reserved = probe.try_reserve_exact(bytes);
    // What nobody uses need not be asked for, as a compiler sees it.
    std::hint::black_box(&mut probe);
    reserved.map_err(|_| {
        let why = format!("no memory for the {bytes} bytes that one more needs");
        io::Error::new(io::ErrorKind::OutOfMemory, why)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_work_after_the_announcement_and_their_ends_are_in_order() {
        let begun = AtomicUsize::new(0);
        let work = |n: u32| {
            begun.fetch_add(1, Ordering::Relaxed);
            n * n
        };
        let ends = run(vec![1, 2, 3], work, || assert_eq!(begun.load(Ordering::Relaxed), 0)).unwrap();
        assert_eq!(ends, [1, 4, 9]);
    }

    #[test]
    fn what_is_not_there_cannot_be_reserved() {
        assert_eq!(reserve(usize::MAX / 2).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        reserve(1).unwrap();
    }
}
