//! The application on a server: stores what arrives and logs what happens.

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

/// How long the last transfer's sender must be quiet before the program exits, beyond the time that its link
/// takes: a FIN whose answer was lost is answered again.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that are handed on before the socket is looked at again: some tenths of a millisecond, in which a fast sender
/// fills a large part of the socket's buffer.
const TURN: usize = 1 << 20;
/// What each peer served takes of that beside its bytes: a transfer that ends is told of.
const OF_PEER: usize = TURN / 256;
/// WriteResult that are heard before the socket is looked at again.
const NEWS: usize = 256;

/// The application on a server: stores and logs.
pub(crate) struct ReceiverApp {
    peer_log: PeerLog,
    store: Store,
    stop: Stop,
    pub(crate) exit_after_first: bool,
    /// Who has bytes for the store, or is complete.
    waiting: BTreeSet<Remote>,
    /// Whose turn was last.
    served: Option<Remote>,
    /// Transfers that are complete, but for what the store has not taken.
    complete: BTreeMap<Remote, Finished>,
    /// Transfers that are being finished.
    finishing: BTreeMap<Transfer, Finishing>,
    /// Whose transfers were finished, if the first of them ends the program: their last answers may be lost.
    ended: BTreeSet<Remote>,
    /// Nothing is under way any more, nor will be.
    left: bool,
    /// Transfers finished, and their bytes.
    pub(crate) finished: u64,
    pub(crate) bytes: u64,
    /// Transfers that could not be stored.
    pub(crate) not_stored: u64,
    /// Transfers that are stored, in files whose names may be lost although they were not to be.
    pub(crate) not_synced: u64,
    /// Bytes went to the standard output that belong to no complete transfer.
    pub(crate) cut_short: bool,
    /// What could not be written, if that ends the program.
    pub(crate) broken: Option<(String, io::Error)>,
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
            finished: 0,
            bytes: 0,
            not_stored: 0,
            not_synced: 0,
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
                // What is complete is stored all the same.
                self.finishing
                    .iter_mut()
                    .filter(|(of, _)| of.peer == peer)
                    .for_each(|(_, f)| f.is_gone = true);
                self.peer_log.cleaned_up(peer, unfinished, active);
            }
        }
    }

    /// There is something of `peer` to hand on, once it is its turn.
    fn wait(&mut self, server: &mut Server<Remote>, peer: Remote) {
        match self.store.check(peer) {
            Ok(()) => {
                self.waiting.insert(peer);
            }
            Err(error) => self.give_up(server, peer, error),
        }
    }

    /// Nothing more is to be stored of what came so far.
    fn forget(&mut self, peer: Remote) {
        self.waiting.remove(&peer);
        self.complete.remove(&peer);
    }

    /// Those who wait take turns while there is room, until it is time to look at the socket; true if there was any.
    fn serve_waiting(&mut self, now: Instant, server: &mut Server<Remote>) -> bool {
        let mut left = TURN;
        while left > 0 && !self.waiting.is_empty() && self.store.has_room() {
            let from = self.served.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.waiting.range((from, Bound::Unbounded)).next().or(self.waiting.first()).copied();
            let Some(peer) = next else { break };
            self.served = Some(peer);
            let taken = self.serve(now, server, peer, left);
            left = left.saturating_sub(taken + OF_PEER);
        }
        left < TURN
    }

    /// Hands on what there is of `peer`, at most so many bytes, and says how many. It waits on if something is left.
    fn serve(&mut self, now: Instant, server: &mut Server<Remote>, peer: Remote, most: usize) -> usize {
        let mut taken = 0;
        // What is there may lie in several pieces.
        while let data = server.data(peer)
            && !data.is_empty()
        {
            match self.store.write(peer, &data[..data.len().min(most - taken)]) {
                // The turn is over, or there is no room for now.
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

    /// A transfer is stored, or it cannot be.
    fn on_news(&mut self, now: Instant, server: &mut Server<Remote>, news: WriteResult) {
        let WriteResult { transfer, result } = news;
        let peer = transfer.peer;
        let finishing = self.finishing.remove(&transfer);
        match (result, finishing) {
            (Ok(kept), Some(finishing)) => self.on_stored(now, server, peer, &finishing, &kept),
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
        Stored { path, unsynced }: &Stored,
    ) {
        self.finished += 1;
        self.bytes += end.bytes;
        if self.exit_after_first {
            // Before anybody can read that one is finished.
            self.ended.insert(peer);
            self.stop.close();
        }
        self.peer_log.finished(server, peer, end, path.as_deref());
        if let Some(error) = unsynced {
            self.not_synced += 1;
            self.peer_log.not_synced(peer, path.as_deref(), error);
        }
        match unsynced {
            _ if *is_gone => {}
            None => server.confirm(now, peer),
            // The sender was promised more than that.
            Some(_) => server.close(peer),
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
        self.peer_log.lost(peer, &error);
        if self.exit_after_first && !elsewhere {
            self.broken = Some((format!("the transfer of {}", name(peer)), error));
        }
    }

    /// Ends the program's service without cutting off a transfer: nobody becomes a peer any more, on no thread, and who is
    /// one is waited for. Gives when to look again though nothing happened.
    fn close(&mut self, now: Instant, server: &mut Server<Remote>) -> Option<Instant> {
        server.refuse_new();
        // The standard output takes one transfer, whatever else is under way.
        let under_way = server.listener().has_unfinished() && !self.store.is_stdout();
        if self.left || under_way || self.is_storing() {
            return None;
        }
        let quiet_at = self.ended.iter().filter_map(|peer| server.quiet_at(*peer, LINGER)).max();
        if quiet_at.is_none_or(|at| at <= now) {
            self.left = true;
            // This thread goes on until all have left: were its socket gone, the system would spread the senders anew.
            self.stop.leave();
        }
        quiet_at.filter(|at| *at > now)
    }

    /// Transfers that arrived are not all stored yet.
    pub(crate) fn is_storing(&self) -> bool {
        !self.finishing.is_empty()
    }
}

impl Application<Server<Remote>> for ReceiverApp {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Flow {
        let mut busy = false;
        for _ in 0..NEWS {
            let Some(news) = self.store.poll() else { break };
            busy = true;
            self.on_news(now, server, news);
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

/// A transfer that is handed over whole.
struct Finishing {
    end: Finished,
    /// Nobody is there any more who could be told.
    is_gone: bool,
}

#[cfg(test)]
mod tests;
