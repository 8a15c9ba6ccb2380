//! Writer thread with sinks that block, fail and record.

use std::sync::Mutex;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use super::super::queue::MAX_QUEUED_BYTES;
use super::*;

/// Sink that performs one call for each message of `go`, and any number of calls once the sender of
/// `go` is dropped.
struct Gate {
    go: Receiver<()>,
    written: Arc<Mutex<Vec<u8>>>,
    /// Numbers of the transfers whose writes fail.
    full: Vec<u64>,
}

impl Sink for Gate {
    fn write(&mut self, transfer: Transfer, bytes: &[u8]) -> io::Result<()> {
        let _ = self.go.recv();
        if self.full.contains(&transfer.number) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, _: Transfer, _: Option<&str>) -> io::Result<Stored> {
        let _ = self.go.recv();
        Ok(Stored::default())
    }

    fn abort(&mut self, _: Transfer) {}
}

struct Script {
    writer: Writer,
    go: Sender<()>,
    woken: Receiver<()>,
    written: Arc<Mutex<Vec<u8>>>,
}

fn script(full: &[u64]) -> Script {
    let (go, permission) = channel();
    let (wake, woken) = channel();
    let written = Arc::default();
    let sink = Gate { go: permission, written: Arc::clone(&written), full: full.to_vec() };
    let writer = Writer::detached(sink, move || {
        let _ = wake.send(());
    })
    .unwrap();
    Script { writer, go, woken, written }
}

fn transfer(number: u64) -> Transfer {
    Transfer { number, peer: std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into() }
}

const WAIT_LIMIT: Duration = Duration::from_secs(60);

impl Script {
    fn result(&mut self) -> WriteResult {
        loop {
            if let Some(result) = self.writer.poll() {
                return result;
            }
            self.woken.recv_timeout(WAIT_LIMIT).unwrap();
        }
    }
}

#[test]
fn blocked_sink_fills_queue_then_gets_everything() {
    let mut script = script(&[]);
    let bytes: Vec<u8> = (0..3 * MAX_QUEUED_BYTES).map(|i| (i % 251).to_le_bytes()[0]).collect();
    let mut taken = 0;
    while script.writer.queue.has_room() {
        let n = script.writer.queue.write(transfer(1), &bytes[taken..][..100_000]);
        assert!(n > 0);
        taken += n;
    }
    // Part of the last piece may be free.
    taken += script.writer.queue.write(transfer(1), &bytes[taken..]);
    assert!((MAX_QUEUED_BYTES - 300_000..=MAX_QUEUED_BYTES + 300_000).contains(&taken), "{taken} bytes wait");
    assert_eq!(script.writer.queue.write(transfer(1), &bytes[taken..]), 0);
    assert_eq!(script.woken.try_recv().ok(), None, "nothing was written yet");
    // After one more write, less than half of the queue is free; after all of them, the writer
    // wakes the network thread.
    script.go.send(()).unwrap();
    assert_eq!(script.woken.recv_timeout(Duration::from_millis(10)), Err(RecvTimeoutError::Timeout));
    drop(std::mem::replace(&mut script.go, channel().0));
    while taken < bytes.len() {
        match script.writer.queue.write(transfer(1), &bytes[taken..]) {
            0 if !script.writer.queue.has_room() => script.woken.recv_timeout(WAIT_LIMIT).unwrap(),
            n => taken += n,
        }
    }
    script.writer.queue.push(Job::Finish(transfer(1), None));
    assert!(script.result().result.unwrap().path.is_none());
    assert!(*script.written.lock().unwrap() == bytes, "the bytes differ");
}

#[test]
fn transfer_finishes_after_its_bytes() {
    let mut script = script(&[]);
    assert_eq!(script.writer.queue.write(transfer(1), b"abc"), 3);
    script.writer.queue.push(Job::Finish(transfer(1), None));
    script.go.send(()).unwrap();
    assert!(script.writer.poll().is_none(), "the gate is closed");
    script.go.send(()).unwrap();
    assert_eq!(script.result().transfer, transfer(1));
    assert_eq!(*script.written.lock().unwrap(), b"abc");
}

#[test]
fn write_error_is_reported_once_others_continue() {
    let mut script = script(&[1]);
    drop(std::mem::replace(&mut script.go, channel().0));
    for number in [1, 2, 1] {
        assert_eq!(script.writer.queue.write(transfer(number), b"abc"), 3);
    }
    script.writer.queue.push(Job::Finish(transfer(1), None));
    script.writer.queue.push(Job::Finish(transfer(2), None));
    let (first, second) = (script.result(), script.result());
    assert_eq!(first.transfer, transfer(1));
    assert_eq!(first.result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!((second.transfer, second.result.unwrap().path), (transfer(2), None));
    script.writer.queue.push(Job::Abort(transfer(1)));
    script.writer.queue.push(Job::Finish(transfer(3), None));
    assert_eq!(script.result().transfer, transfer(3), "and nothing else of the first");
}

#[test]
fn drop_waits_only_for_current_write() {
    struct Counts(Arc<Mutex<usize>>, Receiver<()>);
    impl Sink for Counts {
        fn write(&mut self, _: Transfer, _: &[u8]) -> io::Result<()> {
            let _ = self.1.recv();
            *self.0.lock().unwrap() += 1;
            Ok(())
        }

        fn finish(&mut self, _: Transfer, _: Option<&str>) -> io::Result<Stored> {
            Ok(Stored::default())
        }

        fn abort(&mut self, _: Transfer) {}
    }
    let (count, (go, permission)) = (Arc::default(), channel());
    let writer = Writer::new(Counts(Arc::clone(&count), permission), || {}).unwrap();
    for _ in 0..100 {
        writer.queue.write(transfer(1), b"abc");
    }
    let queue = Arc::clone(&writer.queue);
    let dropping = thread::spawn(move || drop(writer));
    while !queue.is_closed() {
        thread::yield_now();
    }
    drop(go);
    dropping.join().unwrap();
    assert!(*count.lock().unwrap() <= 1, "queued writes are dropped");
}

#[test]
fn panic_of_sink_wakes_owner() {
    struct Broken;
    impl Sink for Broken {
        fn write(&mut self, _: Transfer, _: &[u8]) -> io::Result<()> {
            panic!("a fault that this test is about");
        }

        fn finish(&mut self, _: Transfer, _: Option<&str>) -> io::Result<Stored> {
            Ok(Stored::default())
        }

        fn abort(&mut self, _: Transfer) {}
    }
    let (wake, woken) = channel();
    let mut writer = Writer::new(Broken, move || {
        let _ = wake.send(());
    })
    .unwrap();
    assert!(!writer.queue.is_abandoned());
    writer.queue.write(transfer(1), b"abc");
    writer.queue.push(Job::Finish(transfer(1), None));
    woken.recv_timeout(WAIT_LIMIT).unwrap();
    assert!(writer.queue.is_abandoned() && writer.poll().is_none());
}
