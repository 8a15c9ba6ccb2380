//! The thread that writes, with sinks that stop, fail, and remember.

use std::sync::Mutex;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use super::super::queue::QUEUE;
use super::*;

/// Takes a call for each permission, or any number once nobody is left who could give one.
struct Gate {
    go: Receiver<()>,
    written: Arc<Mutex<Vec<u8>>>,
    /// Writes of these transfers fail.
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

    fn finish(&mut self, _: Transfer) -> io::Result<Stored> {
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

const PATIENCE: Duration = Duration::from_secs(60);

impl Script {
    /// Waits for the next news.
    fn news(&mut self) -> WriteResult {
        loop {
            if let Some(news) = self.writer.poll() {
                return news;
            }
            self.woken.recv_timeout(PATIENCE).unwrap();
        }
    }
}

#[test]
fn a_sink_that_stops_holds_up_nobody_and_gets_everything_in_order_afterwards() {
    let mut script = script(&[]);
    let bytes: Vec<u8> = (0..3 * QUEUE).map(|i| (i % 251).to_le_bytes()[0]).collect();
    let mut taken = 0;
    while script.writer.has_room() {
        let n = script.writer.write(transfer(1), &bytes[taken..][..100_000]);
        assert!(n > 0);
        taken += n;
    }
    // The last piece may have been begun.
    taken += script.writer.write(transfer(1), &bytes[taken..]);
    assert!((QUEUE - 300_000..=QUEUE + 300_000).contains(&taken), "{taken} bytes wait");
    assert_eq!(script.writer.write(transfer(1), &bytes[taken..]), 0);
    assert_eq!(script.woken.try_recv().ok(), None, "nothing was written yet");
    // One write more leaves less than half free; all of them wake.
    script.go.send(()).unwrap();
    assert_eq!(script.woken.recv_timeout(Duration::from_millis(10)), Err(RecvTimeoutError::Timeout));
    drop(std::mem::replace(&mut script.go, channel().0));
    while taken < bytes.len() {
        match script.writer.write(transfer(1), &bytes[taken..]) {
            0 if !script.writer.has_room() => script.woken.recv_timeout(PATIENCE).unwrap(),
            n => taken += n,
        }
    }
    script.writer.finish(transfer(1));
    assert!(script.news().result.unwrap().path.is_none());
    assert!(*script.written.lock().unwrap() == bytes, "the bytes differ");
}

#[test]
fn a_transfer_is_finished_only_after_its_bytes_are_written() {
    let mut script = script(&[]);
    assert_eq!(script.writer.write(transfer(1), b"abc"), 3);
    script.writer.finish(transfer(1));
    script.go.send(()).unwrap();
    assert!(script.writer.poll().is_none(), "nobody let it finish");
    script.go.send(()).unwrap();
    assert_eq!(script.news().transfer, transfer(1));
    assert_eq!(*script.written.lock().unwrap(), b"abc");
}

#[test]
fn what_cannot_be_written_is_told_once_and_the_others_go_on() {
    let mut script = script(&[1]);
    drop(std::mem::replace(&mut script.go, channel().0));
    for number in [1, 2, 1] {
        assert_eq!(script.writer.write(transfer(number), b"abc"), 3);
    }
    script.writer.finish(transfer(1));
    script.writer.finish(transfer(2));
    let (first, second) = (script.news(), script.news());
    assert_eq!(first.transfer, transfer(1));
    assert_eq!(first.result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!((second.transfer, second.result.unwrap().path), (transfer(2), None));
    script.writer.abort(transfer(1));
    script.writer.finish(transfer(3));
    assert_eq!(script.news().transfer, transfer(3), "and nothing else of the first");
}

#[test]
fn its_end_waits_for_what_is_being_written_and_for_no_more() {
    struct Counts(Arc<Mutex<usize>>, Receiver<()>);
    impl Sink for Counts {
        fn write(&mut self, _: Transfer, _: &[u8]) -> io::Result<()> {
            let _ = self.1.recv();
            *self.0.lock().unwrap() += 1;
            Ok(())
        }

        fn finish(&mut self, _: Transfer) -> io::Result<Stored> {
            Ok(Stored::default())
        }

        fn abort(&mut self, _: Transfer) {}
    }
    let (count, (go, permission)) = (Arc::default(), channel());
    let mut writer = Writer::new(Counts(Arc::clone(&count), permission), || {}).unwrap();
    for _ in 0..100 {
        writer.write(transfer(1), b"abc");
    }
    let queue = Arc::clone(&writer.queue);
    let dropping = thread::spawn(move || drop(writer));
    while !queue.is_closed() {
        thread::yield_now();
    }
    drop(go);
    dropping.join().unwrap();
    assert!(*count.lock().unwrap() <= 1, "the rest is nobody's");
}

#[test]
fn an_end_of_its_own_is_told_to_whoever_waits() {
    struct Broken;
    impl Sink for Broken {
        fn write(&mut self, _: Transfer, _: &[u8]) -> io::Result<()> {
            panic!("a fault that this test is about");
        }

        fn finish(&mut self, _: Transfer) -> io::Result<Stored> {
            Ok(Stored::default())
        }

        fn abort(&mut self, _: Transfer) {}
    }
    let (wake, woken) = channel();
    let mut writer = Writer::new(Broken, move || {
        let _ = wake.send(());
    })
    .unwrap();
    assert!(!writer.has_died());
    writer.write(transfer(1), b"abc");
    writer.finish(transfer(1));
    woken.recv_timeout(PATIENCE).unwrap();
    assert!(writer.has_died() && writer.poll().is_none());
}
