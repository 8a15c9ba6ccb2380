//! The receivers of classic transfers behind one socket, one for each peer: delivers datagrams by
//! peer, admits new peers, limits their number and memory, and removes idle ones. Sees peer addresses
//! as an opaque key `P`.

mod admission;
pub(crate) mod budget;
mod config;
mod entry;
mod half_open;
mod idle;
pub(crate) mod peers;
mod receive;
mod sources;
mod stats;
mod transmit;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

pub use admission::Admission;
use budget::Budget;
pub use budget::SocketLoad;
pub use config::{ListenerConfig, SocketBuffer};
use entry::Entry;
use half_open::HalfOpen;
pub use half_open::MAX_HALF_OPEN_PEERS;
use peers::Peers;
use sources::Sources;
pub use sources::{SourceCounts, source_number};
pub use stats::ListenerStats;

use crate::PayloadDiscarded;
use crate::receiver::Receiver;
use crate::wire::FromSender;
use crate::{Ecn, Endpoint, ReceiverEvent, ReceiverStats, TransmitBuf};

/// Receivers of all classic peers behind one socket.
#[derive(Debug)]
pub struct Listener<P> {
    config: ListenerConfig,
    peers: Peers<P, Entry>,
    half_open: HalfOpen<P>,
    /// Number of connected peers of each source.
    sources: Sources<P>,
    /// Number of connected peers that have not finished, in total and of each source: the load of
    /// this listener on its socket. Finished ones only repeat their FIN-ACK.
    open: usize,
    open_sources: SourceCounts,
    /// Idle deadline of every connected peer. May be too early, because it is computed again only
    /// when it expires, not for each datagram.
    idle: BTreeSet<(Instant, P)>,
    /// Cached minimum of all deadlines, which is read far more often than it changes.
    deadline: Option<Instant>,
    /// Peers with replies to send, round-robin.
    ready: VecDeque<P>,
    events: VecDeque<(P, ReceiverEvent)>,
    /// Memory of all receivers, bytes.
    memory: u64,
    /// Number of receivers that hold memory.
    holders: u64,
    budget: Budget,
    /// Load of the [`ConnectionSet`](crate::ConnectionSet) on this socket.
    other_load: SocketLoad,
    stats: ListenerStats,
    /// Counters of removed receivers.
    removed: ReceiverStats,
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Creates a listener without peers.
    pub fn new(config: ListenerConfig) -> Self {
        Self {
            config,
            peers: Peers::new(),
            half_open: HalfOpen::new(),
            sources: Sources::new(),
            open: 0,
            open_sources: SourceCounts::default(),
            idle: BTreeSet::new(),
            deadline: None,
            ready: VecDeque::new(),
            events: VecDeque::new(),
            memory: 0,
            holders: 0,
            budget: Budget::new(config.socket_buffer),
            other_load: SocketLoad::default(),
            stats: ListenerStats::default(),
            removed: ReceiverStats::default(),
        }
    }

    /// Returns the number of in-order bytes of `peer` that are not consumed yet.
    pub fn unread(&self, peer: P) -> u64 {
        self.peers.get(&peer).map_or(0, |entry| entry.receiver.unread())
    }

    /// Returns contiguous unread bytes of `peer`, in order. Empty only if no byte is unread.
    ///
    /// # Errors
    /// The receivers keep no payload, so there would never be a byte.
    pub fn data(&self, peer: P) -> Result<&[u8], PayloadDiscarded> {
        if !self.config.receiver.keep_payload {
            return Err(PayloadDiscarded);
        }
        Ok(self.peers.get(&peer).map_or(&[], |entry| entry.receiver.data()))
    }

    /// Returns the number of bytes in order that arrived from `peer` since its first transfer. 0
    /// for an unknown peer.
    pub fn received_bytes(&self, peer: P) -> u64 {
        self.peers.get(&peer).map_or(0, |entry| entry.receiver.stats().bytes)
    }

    /// Consumes the first `n` bytes of [`Listener::data`].
    pub fn consume(&mut self, peer: P, n: usize) {
        self.with(peer, |receiver| receiver.consume(n));
    }

    /// Answers the FIN of `peer` after the application has stored the transfer.
    pub fn confirm(&mut self, peer: P) {
        self.with(peer, Receiver::confirm);
    }

    /// Removes `peer` without a message.
    pub fn close(&mut self, peer: P) {
        let Some(entry) = self.peers.remove(&peer) else { return };
        self.memory -= entry.memory;
        self.holders -= u64::from(entry.memory > 0);
        if let Some(claim) = entry.claim {
            self.budget.close(claim);
        }
        self.removed.merge(&entry.receiver.stats());
        if entry.queued {
            self.ready.retain(|p| *p != peer);
        }
        if entry.is_half_open {
            self.half_open.remove(entry.idle_at, peer, entry.memory);
            self.events.push_back((peer, ReceiverEvent::Dropped));
        } else {
            // Events about bytes are void without the bytes. Connected and Started remain.
            let void = |event| matches!(event, ReceiverEvent::Readable | ReceiverEvent::Finished { .. });
            self.events.retain(|(p, event)| *p != peer || !void(*event));
            self.idle.remove(&(entry.idle_at, peer));
            self.sources.remove(&peer);
            if entry.is_open {
                self.leave_open(&peer);
            }
            self.events.push_back((peer, ReceiverEvent::Closed { unfinished: entry.is_unfinished() }));
        }
        self.set_deadline();
    }

    /// Admits no more peers. Connected ones stay; half-open ones cannot connect.
    pub fn refuse_new(&mut self) {
        self.config.max_peers = 0;
    }

    /// Returns the number of connected peers.
    pub fn active(&self) -> usize {
        self.peers.len() - self.half_open.len()
    }

    /// True if `peer` has a receiver.
    #[cfg(test)]
    pub(crate) fn knows(&self, peer: P) -> bool {
        self.peers.contains_key(&peer)
    }

    /// True if any connected peer has an unfinished transfer that was reported.
    pub fn has_unfinished(&self) -> bool {
        self.peers.values().any(Entry::is_unfinished)
    }

    /// Returns the memory of all receivers, bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns what this listener uses of the limits of its socket.
    pub fn load(&self) -> SocketLoad {
        let (peers, memory, holders) = (self.open, self.memory, self.holders);
        SocketLoad { peers, memory, holders, ..self.budget.load() }
    }

    /// Returns the numbers of peers of each source that have not finished.
    pub fn source_counts(&self) -> SourceCounts {
        self.open_sources.clone()
    }

    /// Counts the peers of a [`ConnectionSet`](crate::ConnectionSet) on this socket towards the
    /// limit of a source.
    pub fn set_other_sources(&mut self, counts: SourceCounts) {
        self.sources.set_other_counts(counts);
    }

    /// Counts the peer looked up last as open until its transfer is finished.
    fn count_open(&mut self, peer: P) {
        let Some(entry) = self.peers.latest_mut() else { return };
        let is_open = !entry.is_half_open && !entry.receiver.is_finished();
        match (std::mem::replace(&mut entry.is_open, is_open), is_open) {
            (false, true) => {
                self.open += 1;
                if let Some(source) = self.sources.source(&peer) {
                    self.open_sources.add(source);
                }
            }
            (true, false) => self.leave_open(&peer),
            _ => {}
        }
    }

    fn leave_open(&mut self, peer: &P) {
        self.open -= 1;
        if let Some(source) = self.sources.source(peer) {
            self.open_sources.remove(source);
        }
    }

    /// Counts the load of a [`ConnectionSet`](crate::ConnectionSet) on this socket towards the
    /// limits.
    pub fn set_other_load(&mut self, load: SocketLoad) {
        self.other_load = load;
        self.budget.set_other_load(load);
    }

    /// Returns the memory limit of a receiver that holds `held` bytes. Receivers that hold memory
    /// divide what is free, so the windows offered to all of them fit the limit.
    fn allowance(&self, is_half_open: bool, held: u64) -> u64 {
        let others = self.holders - u64::from(held > 0) + self.other_load.holders;
        let free = self.config.memory_limit.saturating_sub(self.memory + self.other_load.memory);
        let most = self.config.peer_memory_limit.min(held + free / (others + 1));
        if is_half_open { most.min(self.half_open.allowance(held)) } else { most }
    }

    /// Calls `act` on the receiver of `peer`, then processes its output.
    fn with(&mut self, peer: P, act: impl FnOnce(&mut Receiver)) {
        if self.peers.get_mut(&peer).is_some() {
            self.with_latest(peer, act);
        }
    }

    /// Calls `act` on the receiver of the peer looked up last, then processes its output.
    fn with_latest(&mut self, peer: P, act: impl FnOnce(&mut Receiver)) {
        let Some(entry) = self.peers.latest_mut() else { return };
        act(&mut entry.receiver);
        self.process_output(peer);
    }

    /// Moves events out of the receiver of the peer looked up last.
    fn report_events(&mut self, peer: P) {
        let Some(entry) = self.peers.latest_mut() else { return };
        while let Some(event) = entry.receiver.poll_event() {
            if event == ReceiverEvent::Started {
                // A new transfer discards the unread bytes of the previous one.
                self.events.retain(|queued| *queued != (peer, ReceiverEvent::Readable));
            }
            self.events.push_back((peer, event));
        }
    }

    /// Reports the events of the peer looked up last, and updates its memory, claim and
    /// position in the reply queue.
    fn process_output(&mut self, peer: P) {
        let Some(entry) = self.peers.latest_mut() else { return };
        let on_probation = entry.on_probation;
        if !on_probation {
            self.report_events(peer);
        }
        let Some(entry) = self.peers.latest_mut() else { return };
        let memory = entry.receiver.memory();
        self.memory = self.memory - entry.memory + memory;
        self.holders = self.holders - u64::from(entry.memory > 0) + u64::from(memory > 0);
        if entry.is_half_open {
            self.half_open.on_memory(entry.memory, memory);
        }
        entry.memory = memory;
        entry.update_claim(&mut self.budget);
        self.stats.max_memory = self.stats.max_memory.max(self.memory);
        if !entry.queued && entry.receiver.may_reply() {
            entry.queued = true;
            self.ready.push_back(peer);
        }
        self.count_open(peer);
        if on_probation {
            self.end_probation(peer);
        }
    }
}

impl<P: Copy + Ord + Debug + Hash> Endpoint for Listener<P> {
    type Peer = P;
    type Event = (P, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        let Some(packet) = self.inspect(peer, datagram) else { return };
        let is_known = !matches!(packet, FromSender::Syn(_));
        if is_known || self.admit(now, peer) != Admission::Refused {
            self.deliver(now, peer, ecn, &packet);
        }
    }

    fn handle_datagrams(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        if bytes.is_empty() {
            self.handle_datagram(now, peer, ecn, bytes);
            return 1;
        }
        let stride = stride.max(1);
        let datagrams = bytes.len().div_ceil(stride);
        let mut rest = bytes;
        loop {
            let taken = self.deliver_run(now, peer, ecn, rest, stride);
            rest = &mut rest[taken..];
            if rest.is_empty() {
                return datagrams;
            }
            let (datagram, others) = rest.split_at_mut(stride.min(rest.len()));
            self.handle_datagram(now, peer, ecn, datagram);
            rest = others;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.close_idle_peers(now);
        self.set_deadline();
    }

    fn poll_transmit(&mut self, _: Instant, out: &mut TransmitBuf) -> Option<P> {
        self.fill_batch(out)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn poll_event(&mut self) -> Option<(P, ReceiverEvent)> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests;
