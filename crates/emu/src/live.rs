//! `--json-stream`: the account while packets come and go.
//!
//! The relay's thread makes a copy of its account, which another one writes: whoever reads it slowly delays no packet.
//! An account that would have to wait for its reader is not written; the next one counts what it did.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdt_driver::clock;
use rdt_emulator::Direction;
use serde_json::json;

use crate::json;
use crate::relay::{Account, Books};
use crate::tap::Tap;

/// Accounts that may wait for the writer.
const WAITING: usize = 4;

/// Tells an account at intervals.
pub struct Live {
    interval: Duration,
    begin: Instant,
    next: Instant,
    to_writer: SyncSender<Moment>,
    writer: JoinHandle<()>,
}

/// The accounts, the forward one first, so long after the beginning.
struct Moment {
    elapsed: Duration,
    accounts: [Account; 2],
}

impl Live {
    /// An account each `interval`, from now on, an object a line. When nobody reads them any more they go on unread.
    pub fn start(interval: Duration, out: impl Write + Send + 'static) -> Self {
        let (to_writer, moments) = sync_channel(WAITING);
        let begin = clock::now();
        let writer = thread::spawn(move || write(out, &moments));
        Self { interval, begin, next: begin + interval, to_writer, writer }
    }

    /// Waits until all is written.
    pub fn finish(self) {
        drop(self.to_writer);
        // What it had to say is not worth a run.
        let _ = self.writer.join();
    }
}

impl Tap for Live {
    fn on_turn(&mut self, at: Instant, books: &Books<'_>) {
        if at < self.next {
            return;
        }
        // Of intervals that nobody saw the end of there is one account.
        while self.next <= at {
            self.next += self.interval;
        }
        let accounts = [Direction::Forward, Direction::Reverse].map(|direction| books.account(direction));
        let elapsed = at.saturating_duration_since(self.begin);
        let _ = self.to_writer.try_send(Moment { elapsed, accounts });
    }

    fn next_turn(&self) -> Option<Instant> {
        Some(self.next)
    }
}

fn write(mut out: impl Write, moments: &Receiver<Moment>) {
    for Moment { elapsed, accounts: [forward, reverse] } in moments {
        let object = json!({
            "event": "progress",
            "elapsed_us": json::micros(elapsed),
            "forward": json::account(&forward),
            "reverse": json::account(&reverse),
        });
        if writeln!(out, "{object}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use rdt_emulator::{Path, PathConfig};
    use serde_json::Value;

    use super::*;
    use crate::port::{Buffers, Port, Sent};
    use crate::relay::Relay;
    use crate::wait::Wait;

    /// A port where nothing happens.
    struct Silent;

    impl Port for Silent {
        fn receive(
            &mut self,
            _budget: usize,
            _buffers: &mut Buffers,
            _take: &mut dyn FnMut(&mut Buffers, Instant, rdt_emulator::Packet),
        ) -> io::Result<usize> {
            Ok(0)
        }

        fn send(&mut self, _packet: &mut rdt_emulator::Delivery) -> io::Result<Sent> {
            Ok(Sent::Taken)
        }
    }

    /// Waits for so many deadlines without sleeping.
    struct Deadlines(usize);

    impl Wait for Deadlines {
        fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
            while deadline.unwrap() > clock::now() {}
            self.0 -= 1;
            Ok(self.0 > 0)
        }
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_idle_relay_wakes_up_to_tell_its_account() {
        let out = Shared::default();
        let live = Live::start(Duration::from_millis(5), out.clone());
        let mut relay = Relay::new(Path::new(PathConfig::default(), 1), Silent, Silent, live);
        relay.run(&mut Deadlines(4)).unwrap();
        relay.finish().1.finish();
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!((1..=4).contains(&lines.len()), "{text}");
        for line in lines {
            assert_eq!((&line["event"], &line["forward"]["arrived"]), (&"progress".into(), &0.into()));
        }
    }
}
