//! Application of a receiver: stores transfers and logs events.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::time::{Duration, Instant};

use rdt_driver::{Application, Flow, Remote};
use rdt_program::Stop;
use rdt_server::Server;
use rdt_transport::{Endpoint as _, ReceiverEvent};

use crate::output::log::{EventLog, Finished, PeerLog, name};
use crate::recv::store::{Store, Stored, Transfer, WriteResult};

/// Silence of the last sender before the program exits, in addition to the delay of its link. Until
/// then a repeated FIN is answered again.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes passed to the store before the socket is polled again. This takes a few tenths of a
/// millisecond, in which a fast sender fills a large part of the socket's buffer.
const BYTES_PER_POLL: usize = 1 << 20;
/// Cost of serving one peer, in bytes of [`BYTES_PER_POLL`]: a transfer that ends is logged.
const COST_PER_PEER: usize = BYTES_PER_POLL / 256;
/// Results of the writer thread handled before the socket is polled again.
const RESULTS_PER_POLL: usize = 256;

pub(crate) struct ReceiverApp {
    peer_log: PeerLog,
    store: Store,
    stop: Stop,
    pub(crate) exit_after_first: bool,
    /// Peers with bytes for the store, or with a complete transfer.
    waiting: BTreeSet<Remote>,
    /// Peer served last, for round-robin.
    served: Option<Remote>,
    /// Transfers with a FIN, part of whose data is not in the store yet.
    complete: BTreeMap<Remote, Finished>,
    /// Transfers that the writer thread is finishing.
    finishing: BTreeMap<Transfer, Finishing>,
    /// With `exit_after_first`: peers whose transfers are finished. Their FIN may be repeated.
    ended: BTreeSet<Remote>,
    /// This thread has no transfer left and takes no new one.
    left: bool,
    pub(crate) totals: Totals,
    /// The transfer to the standard output broke off.
    pub(crate) cut_short: bool,
    /// Failed output that ends the program, and its error.
    pub(crate) broken: Option<(String, io::Error)>,
}

/// Counters of transfers.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) finished: u64,
    /// Bytes of the finished transfers.
    pub(crate) bytes: u64,
    pub(crate) not_stored: u64,
    /// Stored transfers whose directory could not be synced (`--sync`).
    pub(crate) not_synced: u64,
}

impl ReceiverApp {
    pub(crate) fn new(log: EventLog, store: Store, stop: Stop) -> Self {
        stop.enter();
        Self {
            peer_log: PeerLog::new(log),
            store,
            stop,
            exit_after_first: false,
            waiting: BTreeSet::new(),
            served: None,
            complete: BTreeMap::new(),
            finishing: BTreeMap::new(),
            ended: BTreeSet::new(),
            left: false,
            totals: Totals::default(),
            cut_short: false,
            broken: None,
        }
    }

    fn on_event(&mut self, server: &mut Server<Remote>, peer: Remote, event: ReceiverEvent) {
        let active = server.listener().active();
        match event {
            ReceiverEvent::Connected => {
                self.peer_log.note_wire(peer, server.listener().wire(peer));
                self.peer_log.connected(peer, active);
            }
            ReceiverEvent::Started => {
                self.peer_log.note_wire(peer, server.listener().wire(peer));
                self.forget(peer);
                if let Err(error) = self.store.start(peer) {
                    self.give_up(server, peer, error);
                }
            }
            ReceiverEvent::Readable => self.wait(server, peer),
            ReceiverEvent::Finished { bytes, crc, elapsed } => {
                let wire = self.peer_log.wire(peer);
                self.complete.insert(peer, Finished { wire, bytes, crc, elapsed });
                self.wait(server, peer);
            }
            ReceiverEvent::Closed { unfinished } => {
                self.cut_short |= self.store.abort(peer);
                self.forget(peer);
                // Complete transfers are stored although their sender left.
                self.finishing
                    .iter_mut()
                    .filter(|(of, _)| of.peer == peer)
                    .for_each(|(_, f)| f.is_gone = true);
                self.peer_log.cleaned_up(peer, unfinished, active);
            }
        }
    }

    /// Queues `peer` for [`Self::serve_waiting`].
    fn wait(&mut self, server: &mut Server<Remote>, peer: Remote) {
        match self.store.check(peer) {
            Ok(()) => {
                self.waiting.insert(peer);
            }
            Err(error) => self.give_up(server, peer, error),
        }
    }

    /// Drops the unfinished transfer of `peer`.
    fn forget(&mut self, peer: Remote) {
        self.waiting.remove(&peer);
        self.complete.remove(&peer);
    }

    /// Serves waiting peers round-robin, until the store is full or the socket must be polled.
    /// Returns true if any was served.
    fn serve_waiting(&mut self, now: Instant, server: &mut Server<Remote>) -> bool {
        let mut left = BYTES_PER_POLL;
        while left > 0 && !self.waiting.is_empty() && self.store.has_room() {
            let from = self.served.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.waiting.range((from, Bound::Unbounded)).next().or(self.waiting.first()).copied();
            let Some(peer) = next else { break };
            self.served = Some(peer);
            let taken = self.serve(now, server, peer, left);
            left = left.saturating_sub(taken + COST_PER_PEER);
        }
        left < BYTES_PER_POLL
    }

    /// Passes up to `most` bytes of `peer` to the store and returns their number. The peer stays
    /// queued if bytes are left.
    fn serve(&mut self, now: Instant, server: &mut Server<Remote>, peer: Remote, most: usize) -> usize {
        let mut taken = 0;
        // The data may lie in several pieces.
        while let data = server.data(peer)
            && !data.is_empty()
        {
            match self.store.write(peer, &data[..data.len().min(most - taken)]) {
                // `most` is reached, or the store is full.
                Ok(0) => return taken,
                Ok(n) => {
                    server.consume(peer, n);
                    taken += n;
                }
                Err(error) => {
                    self.give_up(server, peer, error);
                    return taken;
                }
            }
        }
        if self.complete.contains_key(&peer) && !self.store.has_room() {
            return taken;
        }
        self.waiting.remove(&peer);
        let Some(end) = self.complete.remove(&peer) else { return taken };
        match self.store.finish(peer) {
            Ok(Some(transfer)) => {
                self.finishing.insert(transfer, Finishing { end, is_gone: false });
            }
            Ok(None) => {
                self.on_stored(now, server, peer, &Finishing { end, is_gone: false }, &Stored::default());
            }
            Err(error) => self.give_up(server, peer, error),
        }
        taken
    }

    /// Confirms or closes a transfer after the writer thread is done with it.
    fn on_result(&mut self, now: Instant, server: &mut Server<Remote>, write: WriteResult) {
        let WriteResult { transfer, result } = write;
        let peer = transfer.peer;
        let finishing = self.finishing.remove(&transfer);
        match (result, finishing) {
            (Ok(kept), Some(finishing)) => self.on_stored(now, server, peer, &finishing, &kept),
            // The transfer was aborted meanwhile.
            (Ok(_), None) => {}
            (Err(error), finishing) => {
                // The standard output has part of it.
                self.cut_short |= self.store.is_stdout();
                match finishing {
                    // Its sender left, and may have begun another transfer.
                    Some(Finishing { is_gone: true, .. }) => self.log_lost(peer, error),
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
        Stored { path, unsynced }: &Stored,
    ) {
        self.totals.finished += 1;
        self.totals.bytes += end.bytes;
        if self.exit_after_first {
            // Before the line "finished" is printed, so that its reader finds new senders refused.
            self.ended.insert(peer);
            self.stop.close();
        }
        self.peer_log.finished(server, peer, end, path.as_deref());
        if let Some(error) = unsynced {
            self.totals.not_synced += 1;
            self.peer_log.not_synced(peer, path.as_deref(), error);
        }
        match unsynced {
            _ if *is_gone => {}
            None => server.confirm(now, peer),
            // Not as durable as `--sync` promises: the sender must not take it for stored.
            Some(_) => server.close(peer),
        }
    }

    /// Ends a transfer that cannot be stored. The FIN stays unanswered, so that the sender does not
    /// take it for stored.
    fn give_up(&mut self, server: &mut Server<Remote>, peer: Remote, error: io::Error) {
        self.cut_short |= self.store.abort(peer);
        self.forget(peer);
        server.close(peer);
        self.log_lost(peer, error);
    }

    /// Logs and counts a transfer that is not stored.
    fn log_lost(&mut self, peer: Remote, error: io::Error) {
        // Refused because another transfer has the standard output: not an error of the program.
        let elsewhere = self.store.is_stdout() && error.kind() == io::ErrorKind::ResourceBusy;
        self.totals.not_stored += u64::from(!elsewhere);
        self.peer_log.lost(peer, &error);
        if self.exit_after_first && !elsewhere {
            self.broken = Some((format!("the transfer of {}", name(peer)), error));
        }
    }

    /// Graceful shutdown: refuses new peers on all threads and waits for those connected. Returns
    /// when to check again.
    fn close(&mut self, now: Instant, server: &mut Server<Remote>) -> Option<Instant> {
        server.refuse_new();
        // The standard output takes one transfer: others under way do not matter.
        let under_way = server.listener().has_unfinished() && !self.store.is_stdout();
        if self.left || under_way || self.is_storing() {
            return None;
        }
        let quiet_at = self.ended.iter().filter_map(|peer| server.quiet_at(*peer, LINGER)).max();
        if quiet_at.is_none_or(|at| at <= now) {
            self.left = true;
            // This thread goes on until all are done: closing its socket would make the kernel move
            // senders to other threads.
            self.stop.leave();
        }
        quiet_at.filter(|at| *at > now)
    }

    /// True while received transfers are not stored yet.
    pub(crate) fn is_storing(&self) -> bool {
        !self.finishing.is_empty()
    }
}

impl Application<Server<Remote>> for ReceiverApp {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Flow {
        let mut busy = false;
        for _ in 0..RESULTS_PER_POLL {
            let Some(write) = self.store.poll() else { break };
            busy = true;
            self.on_result(now, server, write);
        }
        if !busy && self.store.has_died() && self.broken.is_none() {
            let why = io::Error::other("the thread that writes has ended");
            self.broken = Some(("what arrives".into(), why));
        }
        while let Some((peer, event)) = server.poll_event() {
            busy = true;
            self.on_event(server, peer, event);
        }
        busy |= self.serve_waiting(now, server);
        let look_at = if self.stop.is_closing() { self.close(now, server) } else { None };
        if self.stop.is_set() || self.cut_short || self.broken.is_some() {
            Flow::Done
        } else if busy {
            Flow::Again
        } else {
            Flow::Wait(look_at)
        }
    }
}

/// A transfer whose data is in the store.
struct Finishing {
    end: Finished,
    /// Its sender closed or timed out.
    is_gone: bool,
}

#[cfg(test)]
mod tests;
