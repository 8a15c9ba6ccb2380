//! Worker threads that start together, or not at all. A shortage of threads or memory is reported
//! before the program serves its first peer.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use rdt_udp::prefill_batch_pool;

/// Estimate of the heap memory, without payload, that a worker allocates while it runs, bytes.
const WORKER_MEMORY_BYTES: usize = 2 << 20;
/// Memory of a thread for its stack of 2 MiB, its signal stack and its allocator, bytes. The
/// standard library aborts the process if a thread has a stack and no signal stack.
const THREAD_BYTES: usize = 3 << 20;

/// Runs `work` for each worker on a thread of its own, and returns the results in order. Calls
/// `announce` once all threads are ready, before any of them calls `work`. Fails before that if a
/// thread or its memory is not available.
pub fn run<W: Send, T: Send>(
    workers: Vec<W>,
    work: impl Fn(W) -> T + Sync,
    announce: impl FnOnce(),
) -> io::Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        // An early return drops `signals`, which ends the threads that wait for them.
        let (mut signals, mut threads) = (Vec::new(), Vec::new());
        // One after another, so that each reservation sees the memory that earlier ones use.
        for worker in workers {
            reserve(THREAD_BYTES + WORKER_MEMORY_BYTES)?;
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
            // Cannot fail: no thread ends before its signal.
            let _ = signal.send(());
        }
        let ends: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let end = |end: std::thread::Result<_>| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(ends.into_iter().filter_map(end).collect())
    })
}

/// Allocates the thread's batch memory, reports the result, and waits for the start signal. Returns
/// false if the caller dropped the signal.
fn wait(tell: &Sender<io::Result<()>>, begin: &Receiver<()>) -> bool {
    let ready = prefill_batch_pool();
    // Cannot fail: the caller waits for the result.
    let _ = tell.send(ready);
    begin.recv().is_ok()
}

/// Checks that `bytes` of memory can be allocated now.
fn reserve(bytes: usize) -> io::Result<()> {
    let mut probe = Vec::<u8>::new();
    let reserved = probe.try_reserve_exact(bytes);
    // Without this the compiler may remove the unused allocation.
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
    fn workers_run_after_announcement() {
        let begun = AtomicUsize::new(0);
        let work = |n: u32| {
            begun.fetch_add(1, Ordering::Relaxed);
            n * n
        };
        let ends = run(vec![1, 2, 3], work, || assert_eq!(begun.load(Ordering::Relaxed), 0)).unwrap();
        assert_eq!(ends, [1, 4, 9]);
    }

    #[test]
    fn reserve_fails_beyond_available_memory() {
        assert_eq!(reserve(usize::MAX / 2).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        reserve(1).unwrap();
    }
}
