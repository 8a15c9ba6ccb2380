//! `--json` and `--json-stream`: accounts as lines of JSON, at intervals and at the end.
//!
//! The relay copies its account, and another thread writes it, so that a slow reader delays no
//! packet. If the writer is busy, an account is skipped, and the next one includes its counts.
//! Changes of the path wait for the writer instead. A failed write ends the stream, because it may
//! have left an incomplete line.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdt_program::json::EventStamp;
use rdt_udp::clock;
use serde_json::{Value, json};

use crate::account::{Account, DestinationAccount, DestinationName};
use crate::accounts::Accounts;
use crate::json;
use crate::relay::{Event, Observer};

const MAX_QUEUED_ACCOUNTS: usize = 4;

pub(crate) type Out = Box<dyn Write + Send>;

/// Observer that writes an account at each interval, if an interval is set.
pub(crate) struct JsonStream {
    stamp: EventStamp,
    beat: Option<Beat>,
    /// Names of the paths of `--to`, in their order.
    pub(crate) destinations: Vec<DestinationName>,
    /// Changes for which the writer had no room, oldest first.
    changes: VecDeque<Line>,
    to_writer: SyncSender<Line>,
    writer: JoinHandle<io::Result<Out>>,
}

#[derive(Debug, Clone, Copy)]
struct Beat {
    next: Instant,
    interval: Duration,
}

/// Line that the writer writes.
enum Line {
    Progress(Box<Moment>),
    /// New description of the path, in TOML.
    Change {
        at: Instant,
        destination: Option<String>,
        path: String,
    },
}

/// Accounts of both directions, forward first, at one time.
struct Moment {
    at: Instant,
    accounts: [Account; 2],
    destinations: Vec<DestinationAccount>,
}

impl JsonStream {
    /// Starts the writer thread, which writes an account at each `interval`, if there is one.
    pub(crate) fn start(interval: Option<Duration>, out: Out) -> Self {
        let (to_writer, moments) = sync_channel(MAX_QUEUED_ACCOUNTS);
        let begin = clock::now();
        let stamp = EventStamp::new(begin);
        let of_writer = stamp.clone();
        let writer = thread::spawn(move || write(out, &of_writer, &moments));
        let beat = interval.map(|interval| Beat { next: begin + interval, interval });
        Self { stamp, beat, destinations: Vec::new(), changes: VecDeque::new(), to_writer, writer }
    }

    /// Returns the stamp of the lines, whose begin is that of the stream.
    pub(crate) fn stamp(&self) -> EventStamp {
        self.stamp.clone()
    }

    /// Waits until everything is written, and returns the output for the final account.
    pub(crate) fn finish(self) -> io::Result<Out> {
        for change in self.changes {
            // Fails if the writer has ended by an error, which is its result.
            let _ = self.to_writer.send(change);
        }
        drop(self.to_writer);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("its thread ended by itself")))
    }

    /// Passes changes on until the writer has no room. Returns true if none is left.
    fn send_changes(&mut self) -> bool {
        while let Some(change) = self.changes.pop_front() {
            if let Err(TrySendError::Full(change)) = self.to_writer.try_send(change) {
                self.changes.push_front(change);
                return false;
            }
        }
        true
    }

    // A relay whose path may change has a turn at least every 20 ms.
    fn on_turn(&mut self, at: Instant, current: &Accounts<'_>) {
        let has_room = self.send_changes();
        let Some(beat) = self.beat.as_mut().filter(|beat| beat.next <= at) else { return };
        // Several intervals missed in a row result in one account.
        while beat.next <= at {
            beat.next += beat.interval;
        }
        if !has_room {
            return;
        }
        let destinations = self.destinations.iter().cloned().zip(current.paths.accounts(at)).collect();
        let moment = Moment { at, accounts: current.copy(at), destinations };
        let _ = self.to_writer.try_send(Line::Progress(Box::new(moment)));
    }
}

impl Observer for JsonStream {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Turn(at, accounts) => self.on_turn(at, accounts),
            Event::Change(change) => {
                let (destination, path) = (change.name.clone(), change.description.clone());
                self.changes.push_back(Line::Change { at: change.at, destination, path });
                self.send_changes();
            }
            _ => {}
        }
    }

    fn next_turn(&self) -> Option<Instant> {
        self.beat.map(|beat| beat.next)
    }
}

pub(crate) fn line(out: &mut dyn Write, object: &Value) -> io::Result<()> {
    out.write_all(format!("{object}\n").as_bytes())?;
    out.flush()
}

fn write(mut out: Out, stamp: &EventStamp, lines: &Receiver<Line>) -> io::Result<Out> {
    for event in lines {
        line(&mut out, &object(stamp, event))?;
    }
    Ok(out)
}

fn object(stamp: &EventStamp, line: Line) -> Value {
    let (at, object) = match line {
        Line::Progress(moment) => {
            let [forward, reverse] = moment.accounts.each_ref().map(json::account);
            let destinations = json::destinations(&moment.destinations);
            let event = json!({
                "event": "progress", "forward": forward, "reverse": reverse, "destinations": destinations,
            });
            (moment.at, event)
        }
        Line::Change { at, destination, path } => {
            (at, json!({ "event": "change", "destination": destination, "path": path }))
        }
    };
    let mut object = stamp.at(at, object);
    object["monotonic_ns"] = json!(json::monotonic(at));
    object
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rdt_emulator::{Path, PathConfig};

    use super::*;
    use crate::paths::Change;
    use crate::port::{Buffers, Port, Sent};
    use crate::relay::Relay;
    use crate::waiter::Wait;

    /// Port that receives nothing and accepts every packet.
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

    /// Skips to the next deadline without sleeping, for this number of waits.
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
    fn idle_relay_reports_periodically() {
        let out = Shared::default();
        let live = JsonStream::start(Some(Duration::from_millis(5)), Box::new(out.clone()));
        let mut relay = Relay::new(Path::new(PathConfig::default(), 1), Silent, Silent, live);
        relay.run(&mut Deadlines(4)).unwrap();
        relay.finish().1.finish().unwrap();
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!((1..=4).contains(&lines.len()), "{text}");
        for line in lines {
            assert_eq!((&line["event"], &line["forward"]["arrived"]), (&"progress".into(), &0.into()));
        }
    }

    /// Output that waits for a lock.
    struct Locked(Arc<Mutex<()>>, Shared);

    impl Write for Locked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _lock = self.0.lock().unwrap();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn changes_wait_for_slow_writer() {
        const CHANGES: usize = 10 * MAX_QUEUED_ACCOUNTS;
        let (lock, out) = (Arc::new(Mutex::new(())), Shared::default());
        let busy = lock.lock().unwrap();
        let mut live = JsonStream::start(None, Box::new(Locked(lock.clone(), out.clone())));
        for number in 0..CHANGES {
            let (at, config) = (clock::now(), PathConfig::default());
            let description = number.to_string();
            live.on(&Event::Change(&Change { path: 0, name: None, at, config, description }));
        }
        drop(busy);
        live.finish().unwrap();
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let numbers: Vec<usize> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["path"].as_str().unwrap().parse().unwrap()
            })
            .collect();
        assert_eq!(numbers, (0..CHANGES).collect::<Vec<_>>());
    }

    /// Output with room for this number of bytes.
    struct Small(usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = self.0.min(bytes.len());
            self.0 -= room;
            if room == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(room) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn failed_write_ends_stream_and_is_reported() {
        let live = JsonStream::start(Some(Duration::from_millis(1)), Box::new(Small(100)));
        let mut relay = Relay::new(Path::new(PathConfig::default(), 1), Silent, Silent, live);
        relay.run(&mut Deadlines(3)).unwrap();
        let error = relay.finish().1.finish().err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn no_interval_means_no_early_account() {
        let live = JsonStream::start(None, Box::new(Small(0)));
        assert_eq!(live.next_turn(), None);
        assert!(live.finish().is_ok());
    }
}
