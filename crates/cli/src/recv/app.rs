//! Application of a receiver: writes transfers to the store, and logs events.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::time::{Duration, Instant};

use rdt_endpoint::thread::{Application, Flow};
use rdt_program::Stop;
use rdt_server::{SenderId, Server};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{ConnectionId, Endpoint as _, ReceiverEvent};
use rdt_udp::Remote;

use crate::output::log::{EventLog, Finished, PeerLog, name};
use crate::peer::{Format, Peer};
use crate::recv::metrics::{Publisher, Totals};
use crate::recv::store::{Busy, Store, Stored, Transfer, WriteResult};

/// Time without a packet from the last sender before the program exits, in addition to the delay of
/// its link. Until then a retransmitted FIN is answered.
const LINGER: Duration = Duration::from_secs(1);
/// Limit on the bytes written to the store between two polls of the socket. Writing them takes a
/// few tenths of a millisecond, in which a fast sender fills a large part of the socket's buffer.
const BYTES_PER_POLL: usize = 1 << 20;
/// Cost of serving one peer towards [`BYTES_PER_POLL`]: the end of a transfer is logged.
const COST_PER_PEER: usize = BYTES_PER_POLL / 256;
/// Limit on the results of the writer thread that are handled between two polls of the socket.
const RESULTS_PER_POLL: usize = 256;

pub(crate) struct ReceiverApp {
    pub(crate) peer_log: PeerLog,
    store: Store,
    stop: Stop,
    pub(crate) exit_after_first: bool,
    /// Peers of open connections. A peer keeps its first address as name.
    connections: BTreeMap<ConnectionId, Peer>,
    /// Peers with received bytes that are not in the store yet, or with a complete transfer.
    waiting: BTreeSet<Peer>,
    /// Peer served last, after which the round-robin continues.
    served: Option<Peer>,
    /// Transfers whose FIN arrived, and part of whose data is not in the store yet.
    complete: BTreeMap<Peer, Finished>,
    /// Transfers whose data is in the store, and whose writer thread has not reported the end.
    finishing: BTreeMap<Transfer, Finishing>,
    /// With `exit_after_first`: peers that have finished, and may retransmit their FIN.
    ended: BTreeSet<Peer>,
    /// True once this thread has no transfer left and accepts no new one.
    left: bool,
    pub(crate) totals: Totals,
    pub(crate) publisher: Option<Publisher>,
    /// True if a transfer to the standard output ended early.
    pub(crate) cut_short: bool,
    /// Failed output that ends the program: its name, and the error.
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
            connections: BTreeMap::new(),
            waiting: BTreeSet::new(),
            served: None,
            complete: BTreeMap::new(),
            finishing: BTreeMap::new(),
            ended: BTreeSet::new(),
            left: false,
            totals: Totals::default(),
            publisher: None,
            cut_short: false,
            broken: None,
        }
    }

    fn on_event(&mut self, now: Instant, server: &mut Server<Remote>, peer: Peer, event: ReceiverEvent) {
        let active = server.active();
        match event {
            ReceiverEvent::Dropped => {}
            ReceiverEvent::Connected => {
                self.peer_log.note_format(peer, Format::of(server, peer));
                self.peer_log.connected(peer, active);
            }
            ReceiverEvent::Started => {
                self.peer_log.note_format(peer, Format::of(server, peer));
                self.forget(peer);
                if let Err(error) = self.store.start(peer, server.stream_name(peer)) {
                    self.give_up(now, server, peer, error);
                }
            }
            ReceiverEvent::Readable => self.wait(now, server, peer),
            ReceiverEvent::Finished { bytes, crc, elapsed } => {
                let format = self.peer_log.format(peer);
                // Each packet of a connection has its tag; its stream has no checksum.
                let crc = (format == Some(Format::Classic)).then_some(crc);
                self.complete.insert(peer, Finished { format, bytes, crc, elapsed });
                self.wait(now, server, peer);
            }
            ReceiverEvent::Closed { unfinished } => {
                self.cut_short |= self.store.abort(peer);
                self.forget(peer);
                // Complete transfers are stored although the connection of their sender has ended.
                self.finishing
                    .iter_mut()
                    .filter(|(of, _)| of.peer == peer)
                    .for_each(|(_, f)| f.is_gone = true);
                self.peer_log.cleaned_up(peer, unfinished, active);
                self.connections.retain(|_, known| *known != peer);
            }
        }
    }

    /// Returns the sender of an event. The server reports a connection first when it begins.
    fn peer(&mut self, server: &Server<Remote>, sender: SenderId<Remote>) -> Option<Peer> {
        let id = match sender {
            SenderId::Address(address) => return Some(address.into()),
            SenderId::Connection(id) => id,
        };
        if let Some(peer) = self.connections.get(&id) {
            return Some(*peer);
        }
        let peer = Peer::native(id, server.address(sender)?);
        self.connections.insert(id, peer);
        Some(peer)
    }

    fn wait(&mut self, now: Instant, server: &mut Server<Remote>, peer: Peer) {
        match self.store.check(peer) {
            Ok(()) => {
                self.waiting.insert(peer);
            }
            Err(error) => self.give_up(now, server, peer, error),
        }
    }

    fn forget(&mut self, peer: Peer) {
        self.waiting.remove(&peer);
        self.complete.remove(&peer);
    }

    /// Serves waiting peers round-robin, for a while. Returns true if a peer was served.
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

    /// Writes up to `most` bytes of `peer`, and returns their number. With more, it stays queued.
    fn serve(&mut self, now: Instant, server: &mut Server<Remote>, peer: Peer, most: usize) -> usize {
        let mut taken = 0;
        // The data may consist of several slices.
        while let Ok(data) = server.data(peer)
            && !data.is_empty()
        {
            match self.store.write(peer, &data[..data.len().min(most - taken)]) {
                // `most` is reached, or the store is full.
                Ok(0) => return taken,
                Ok(n) => {
                    server.consume(now, peer, n);
                    taken += n;
                }
                Err(error) => {
                    self.give_up(now, server, peer, error);
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
            Err(error) => self.give_up(now, server, peer, error),
        }
        taken
    }

    fn on_result(&mut self, now: Instant, server: &mut Server<Remote>, write: WriteResult) {
        let WriteResult { transfer, result } = write;
        let peer = transfer.peer;
        let finishing = self.finishing.remove(&transfer);
        match (result, finishing) {
            (Ok(kept), Some(finishing)) => self.on_stored(now, server, peer, &finishing, &kept),
            (Ok(_), None) => debug_assert!(false, "a transfer is stored once"),
            (Err(error), finishing) => {
                self.cut_short |= self.store.is_stream();
                match finishing {
                    // `peer` may have a new connection, whose transfer must not end.
                    Some(Finishing { is_gone: true, .. }) => self.log_lost(peer, error),
                    Some(_) => self.give_up(now, server, peer, error),
                    None if self.store.is_at(transfer) => self.give_up(now, server, peer, error),
                    None => {}
                }
            }
        }
    }

    fn on_stored(
        &mut self,
        now: Instant,
        server: &mut Server<Remote>,
        peer: Peer,
        Finishing { end, is_gone }: &Finishing,
        Stored { path, unsynced, .. }: &Stored,
    ) {
        self.totals.finished += 1;
        self.totals.bytes += end.bytes;
        if self.exit_after_first {
            // First, as a program that reads the line "finished" must find new senders refused.
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
            // It is less durable than `--sync` promises, so its sender must not count on it.
            Some(_) => server.refuse(now, peer, CloseReason::Storage),
        }
    }

    /// Ends a transfer that cannot be stored. Its FIN remains unanswered.
    fn give_up(&mut self, now: Instant, server: &mut Server<Remote>, peer: Peer, error: io::Error) {
        self.cut_short |= self.store.abort(peer);
        self.forget(peer);
        let reason = if Busy::is(&error) { CloseReason::Refused } else { CloseReason::Storage };
        server.refuse(now, peer, reason);
        self.log_lost(peer, error);
    }

    fn log_lost(&mut self, peer: Peer, error: io::Error) {
        // A transfer that is refused is not an error of the program.
        let is_refused = Busy::is(&error);
        self.totals.not_stored += u64::from(!is_refused);
        self.peer_log.lost(peer, &error);
        if self.exit_after_first && !is_refused {
            self.broken = Some((format!("the transfer of {}", name(peer.address.addr)), error));
        }
    }

    /// Refuses new peers, and waits for connected ones. Returns the time of the next check.
    fn close(&mut self, now: Instant, server: &mut Server<Remote>) -> Option<Instant> {
        server.refuse_new();
        // A stream takes one transfer, so other unfinished transfers do not delay the exit.
        let under_way = server.has_unfinished() && !self.store.is_stream();
        if self.left || under_way || self.is_storing() {
            return None;
        }
        let quiet_at = self.ended.iter().filter_map(|peer| server.quiet_at(*peer, LINGER)).max();
        if quiet_at.is_none_or(|at| at <= now) {
            self.left = true;
            // This thread runs until all threads have left, because closing its socket would make
            // the kernel reassign senders to other threads.
            self.stop.leave();
        }
        quiet_at.filter(|at| *at > now)
    }

    pub(crate) fn is_storing(&self) -> bool {
        !self.finishing.is_empty()
    }
}

impl Application<Server<Remote>> for ReceiverApp {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Flow {
        self.peer_log.begin_turn(now);
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
        while let Some((sender, event)) = server.poll_event() {
            busy = true;
            if let Some(peer) = self.peer(server, sender) {
                self.on_event(now, server, peer, event);
            }
        }
        busy |= self.serve_waiting(now, server);
        let totals = self.totals;
        let publish_at = self.publisher.as_mut().map(|publisher| publisher.publish(now, server, totals));
        if self.peer_log.is_remark_due && server.unencrypted() > 0 {
            self.peer_log.unencrypted_refused();
        }
        let look_at = if self.stop.is_closing() { self.close(now, server) } else { None };
        if self.stop.is_set() || self.cut_short || self.broken.is_some() {
            Flow::Done
        } else if busy {
            Flow::Again
        } else {
            Flow::Wait(look_at.into_iter().chain(self.peer_log.deadline()).chain(publish_at).min())
        }
    }
}

struct Finishing {
    end: Finished,
    /// True if its sender closed the connection or timed out.
    is_gone: bool,
}

#[cfg(test)]
mod tests;
