//! The application on a server: stores what arrives and logs what happens.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::ops::Bound;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rdt_driver::{Application, Flow, Remote};
use rdt_server::Server;
use rdt_transport::{Endpoint as _, ReceiverEvent, Wire};
use serde_json::json;

use crate::console::talk;
use crate::figures::{self, ledger_json};
use crate::format::{megabytes, rate_bps};
use crate::interrupt::Stop;
use crate::logbook::Logbook;
use crate::memory;
use crate::status::micros;
use crate::store::{News, Store, Transfer};

/// How long the last transfer's sender must be quiet before the program exits, beyond the time that its link
/// takes: a FIN whose answer was lost is answered again.
const LINGER: Duration = Duration::from_secs(1);

/// The application on a server: stores and logs.
pub(crate) struct Service {
    logbook: Logbook,
    store: Store,
    stop: Stop,
    pub(crate) exit_after_first: bool,
    /// The format that each peer uses.
    wires: BTreeMap<Remote, Wire>,
    /// Who has bytes for which there was no room.
    waiting: BTreeSet<Remote>,
    /// Whose turn was last.
    served: Option<Remote>,
    /// Transfers that are complete, but for what the store has not taken.
    complete: BTreeMap<Remote, End>,
    /// Transfers that are being finished.
    finishing: BTreeMap<Transfer, Finishing>,
    /// Whose finished transfer ends the program.
    last: Option<Remote>,
    /// Transfers finished, and their bytes.
    pub(crate) finished: u64,
    pub(crate) bytes: u64,
    /// Transfers that could not be stored.
    pub(crate) not_stored: u64,
    /// Bytes went to the standard output that belong to no complete transfer.
    pub(crate) cut_short: bool,
    /// What could not be written, if that ends the program.
    pub(crate) broken: Option<(String, io::Error)>,
}

impl Service {
    pub(crate) fn new(logbook: Logbook, store: Store, stop: Stop) -> Self {
        Self {
            logbook,
            store,
            stop,
            exit_after_first: false,
            wires: BTreeMap::new(),
            waiting: BTreeSet::new(),
            served: None,
            complete: BTreeMap::new(),
            finishing: BTreeMap::new(),
            last: None,
            finished: 0,
            bytes: 0,
            not_stored: 0,
            cut_short: false,
            broken: None,
        }
    }

    fn on_event(&mut self, now: Instant, server: &mut Server<Remote>, peer: Remote, event: ReceiverEvent) {
        // A new SYN of a peer may be of another format.
        if let (ReceiverEvent::Connected | ReceiverEvent::Started, Some(wire)) =
            (event, server.listener().wire(peer))
        {
            self.wires.insert(peer, wire);
        }
        match event {
            ReceiverEvent::Connected => {
                self.log_peer(peer, "connected", server.listener().active());
                self.json_peer(peer, "connected", true, server.listener().active());
            }
            ReceiverEvent::Started => {
                self.forget(peer);
                if let Err(error) = self.store.start(peer) {
                    self.give_up(server, peer, error);
                }
            }
            ReceiverEvent::Readable => self.read(now, server, peer),
            ReceiverEvent::Finished { bytes, crc, elapsed } => {
                self.complete.insert(peer, End { bytes, crc, elapsed });
                self.read(now, server, peer);
            }
            ReceiverEvent::Closed { unfinished } => {
                self.cut_short |= self.store.abort(peer);
                self.forget(peer);
                // What is complete is stored all the same.
                self.finishing
                    .iter_mut()
                    .filter(|(of, _)| of.peer == peer)
                    .for_each(|(_, f)| f.is_gone = true);
                let what = if unfinished { "cleaned up (unfinished)" } else { "cleaned up" };
                self.log_peer(peer, what, server.listener().active());
                self.json_peer(peer, "cleaned_up", unfinished, server.listener().active());
                self.wires.remove(&peer);
            }
        }
    }

    /// Nothing more is to be stored of what came so far.
    fn forget(&mut self, peer: Remote) {
        self.waiting.remove(&peer);
        self.complete.remove(&peer);
    }

    /// Hands to the store what it takes, unless others are in line before.
    fn read(&mut self, now: Instant, server: &mut Server<Remote>, peer: Remote) {
        if !self.waiting.contains(&peer) {
            self.read_on(now, server, peer);
        }
    }

    /// Those who wait take turns while there is room; true if there was any.
    fn serve_waiting(&mut self, now: Instant, server: &mut Server<Remote>) -> bool {
        let mut served = false;
        while !self.waiting.is_empty() && self.store.has_room() {
            let from = self.served.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.waiting.range((from, Bound::Unbounded)).next().or(self.waiting.first()).copied();
            let Some(peer) = next else { break };
            self.served = Some(peer);
            self.waiting.remove(&peer);
            self.read_on(now, server, peer);
            served = true;
        }
        served
    }

    fn read_on(&mut self, now: Instant, server: &mut Server<Remote>, peer: Remote) {
        // What is there may lie in several pieces.
        while let data = server.data(peer)
            && !data.is_empty()
        {
            match self.store.write(peer, data) {
                Ok(0) => {
                    self.waiting.insert(peer);
                    return;
                }
                Ok(n) => server.consume(peer, n),
                Err(error) => return self.give_up(server, peer, error),
            }
        }
        let Some(end) = self.complete.remove(&peer) else { return };
        match self.store.finish(peer) {
            Ok(Some(transfer)) => {
                self.finishing.insert(transfer, Finishing { end, is_gone: false });
            }
            Ok(None) => self.on_stored(now, server, peer, &Finishing { end, is_gone: false }, None),
            Err(error) => self.give_up(server, peer, error),
        }
    }

    /// A transfer is stored, or it cannot be.
    fn on_news(&mut self, now: Instant, server: &mut Server<Remote>, news: News) {
        let News { transfer, result } = news;
        let peer = transfer.peer;
        let finishing = self.finishing.remove(&transfer);
        match (result, finishing) {
            (Ok(path), Some(finishing)) => self.on_stored(now, server, peer, &finishing, path),
            // Of a transfer that ended before.
            (Ok(_), None) => {}
            (Err(error), finishing) => {
                // What is written of it is no whole.
                self.cut_short |= self.store.is_stdout();
                match finishing {
                    // Its sender left, and may be back with another one.
                    Some(Finishing { is_gone: true, .. }) => self.tell_lost(peer, error),
                    Some(_) => self.give_up(server, peer, error),
                    None if self.store.is_at(transfer) => self.give_up(server, peer, error),
                    None => {}
                }
            }
        }
    }

    fn on_stored(
        &mut self,
        now: Instant,
        server: &mut Server<Remote>,
        peer: Remote,
        Finishing { end, is_gone }: &Finishing,
        path: Option<PathBuf>,
    ) {
        if !is_gone {
            server.confirm(now, peer);
        }
        self.on_finished(server, peer, end, path);
        if self.exit_after_first {
            self.last.get_or_insert(peer);
        }
    }

    /// The transfer cannot be stored: it ends unanswered, so that its sender does not take it for stored.
    fn give_up(&mut self, server: &mut Server<Remote>, peer: Remote, error: io::Error) {
        self.cut_short |= self.store.abort(peer);
        self.forget(peer);
        server.close(peer);
        self.tell_lost(peer, error);
    }

    /// Says that a transfer is not stored, and counts it.
    fn tell_lost(&mut self, peer: Remote, error: io::Error) {
        // A transfer that another one keeps out of the standard output is no reason to end that one.
        let elsewhere = self.store.is_stdout() && error.kind() == io::ErrorKind::ResourceBusy;
        self.not_stored += u64::from(!elsewhere);
        talk(&format!("rdt-recv: cannot store the transfer of {}: {error}", name(peer)));
        self.logbook
            .json(&json!({ "event": "store_failed", "peer": name(peer), "error": error.to_string() }));
        if self.exit_after_first && !elsewhere {
            self.broken = Some((format!("the transfer of {}", name(peer)), error));
        }
    }

    /// Transfers that arrived are not all stored yet.
    pub(crate) fn is_storing(&self) -> bool {
        !self.finishing.is_empty()
    }

    fn on_finished(&mut self, server: &Server<Remote>, peer: Remote, end: &End, path: Option<PathBuf>) {
        let path = path.map(|path| path.display().to_string());
        self.finished += 1;
        self.bytes += end.bytes;
        let bps = rate_bps(end.bytes, end.elapsed);
        let kept = path.as_deref().map(|p| format!(", kept in {p}")).unwrap_or_default();
        let bytes = end.bytes;
        let what = format!(
            "finished: {bytes} bytes in {:.3} sec, {:.2} Kbps, checksum {:X}{kept}",
            end.elapsed.as_secs_f64(),
            bps.unwrap_or(0.0) / 1e3,
            end.crc,
        );
        self.log_peer(peer, &what, server.listener().active());
        let ledgers = server.path_ledgers(peer);
        self.logbook.json(&json!({
            "event": "finished",
            "peer": name(peer),
            "wire": self.wire_name(peer),
            "bytes": end.bytes,
            "elapsed_us": micros(end.elapsed),
            "rate_bps": bps,
            "crc32": format!("{:08x}", end.crc),
            "path": path,
            "forward": ledgers.map(|(forward, _)| ledger_json(forward)),
            "reverse": ledgers.map(|(_, reverse)| ledger_json(reverse)),
        }));
    }

    /// A line in the format of the reference receiver's log.
    fn log_peer(&self, peer: Remote, what: &str, active: usize) {
        let ram = memory::read().now.unwrap_or(0);
        let time = jiff::Zoned::now().strftime("%m/%d/%y %H:%M:%S");
        // Those of the classic format are as the reference receiver prints them.
        let wire = match self.wires.get(&peer) {
            Some(Wire::Native { .. }) => " (native)",
            _ => "",
        };
        self.logbook.line(&format!(
            "[{time}] {}{wire} {what}; RAM {:.2} MB active {active}",
            name(peer),
            megabytes(ram)
        ));
    }

    fn wire_name(&self, peer: Remote) -> Option<&'static str> {
        self.wires.get(&peer).map(|wire| figures::wire_name(*wire))
    }

    fn json_peer(&self, peer: Remote, event: &str, unfinished: bool, active: usize) {
        self.logbook.json(&json!({
            "event": event,
            "peer": name(peer),
            "wire": self.wire_name(peer),
            "unfinished": unfinished,
            "memory_bytes": memory::read().now,
            "active": active,
        }));
    }
}

impl Application<Server<Remote>> for Service {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Flow {
        let mut busy = false;
        while let Some(news) = self.store.poll() {
            busy = true;
            self.on_news(now, server, news);
        }
        while let Some((peer, event)) = server.poll_event() {
            busy = true;
            self.on_event(now, server, peer, event);
        }
        busy |= self.serve_waiting(now, server);
        let exit_at = self.last.map(|peer| server.quiet_at(peer, LINGER).unwrap_or(now));
        let over = exit_at.is_some_and(|at| at <= now);
        if self.stop.is_set() || self.cut_short || self.broken.is_some() || over {
            Flow::Done
        } else if busy {
            Flow::Again
        } else {
            Flow::Wait(exit_at)
        }
    }
}

/// What a FIN told.
struct End {
    bytes: u64,
    crc: u32,
    elapsed: Duration,
}

/// A transfer that is handed over whole.
struct Finishing {
    end: End,
    /// Nobody is there any more who could be told.
    is_gone: bool,
}

/// A peer as people know it: IPv4 without its IPv6 clothes.
fn name(peer: Remote) -> String {
    SocketAddr::new(peer.addr.ip().to_canonical(), peer.addr.port()).to_string()
}
