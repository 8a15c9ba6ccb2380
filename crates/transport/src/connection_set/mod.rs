//! All connections behind one socket, in both directions: finds the connection of a datagram,
//! accepts those of peers, limits their number and memory, resets unknown ones, and follows peers to
//! new addresses, which it sees as an opaque key `P`.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | entry | `entry.rs`, `memory.rs`, `timers.rs` | one connection and what the set counts of it |
//! | handshake of a peer | `accept.rs` | from the SYN to the SYN-ACK |
//! | | `complete.rs` | from AUTH or the first sealed packet to the connection |
//! | half-open connection | `half_open.rs` | the table between both |
//! | slot | `connection_slots.rs` | limits on connections, in total and of one host |
//! | arrival | `receive.rs` | delivery by connection ID; stateless resets of unknown IDs |
//! | address | `address.rs` | proof of a peer's new address |
//! | FIN-ACK | `fin_acks.rs` | last answers of removed connections |
//! | answer | `answers.rs` | datagrams that no connection sends |

mod accept;
mod address;
mod answers;
mod complete;
mod config;
mod connection_slots;
mod entry;
mod fin_acks;
mod half_open;
mod memory;
mod receive;
mod recent_syns;
mod stats;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use rdt_crypto::{Entropy, ResetKey, ResumptionJar};

use answers::Answers;
pub use config::{Admit, Admittee, ConnectionSetConfig, ResponderConfig, Secrets};
use connection_slots::{ConnectionSlot, ConnectionSlots};
use entry::Entry;
use fin_acks::FinAcks;
use half_open::{HalfOpenTable, OwnId};
use recent_syns::RecentSyns;
pub use stats::ConnectionSetStats;
use timers::Timers;

use crate::connection::{
    Connection, ConnectionConfig, ConnectionEnv, ConnectionEvent, InitiatorConfig, Memory,
};
use crate::cookie::{Address, CookieKey};
use crate::listener::SourceCounts;
use crate::listener::budget::{Budget, SocketLoad};
use crate::listener::peers::Peers;
use crate::send_buffer::FramePool;
use crate::stateless_limit::RateLimiter;
use crate::wire::native::peek;
use crate::{ConfigError, Ecn, Endpoint, TransmitBuf};

/// Capacity of a queue below which its memory is kept.
const KEPT_CAPACITY: usize = 256;

/// Handle of a connection within its set: the local connection ID. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// All connections behind one socket.
///
/// A connection stays until the application [releases](Self::release) it, also after its last
/// event, so that the rest of its stream can be read.
#[derive(Debug)]
pub struct ConnectionSet<P> {
    config: ConnectionSetConfig<P>,
    entropy: Entropy,
    connections: Peers<u64, Entry<P>>,
    slots: ConnectionSlots,
    /// Pairs of remote and local connection ID. A RESET of a peer names the remote one.
    by_remote: BTreeSet<(u64, u64)>,
    /// Connections that this side opens, until their handshake ends.
    opening: BTreeSet<u64>,
    responder: Option<Arc<ResponderConfig>>,
    resumptions: Option<ResumptionJar>,
    half_open: HalfOpenTable<P>,
    /// Digests of SYNs that opened a connection while their cookies were valid.
    opened: RecentSyns,
    cookies: CookieKey,
    /// Time of the first SYN, from which the times of cookies count.
    cookie_epoch: Option<Instant>,
    /// Key of the tokens that were given to peers and of those in RESETs.
    reset_key: ResetKey,
    /// True if a peer may have a token, so that `reset_key` stays.
    is_reset_key_used: bool,
    /// Limit of RESETs, and of FIN-ACKs of removed connections.
    resets: RateLimiter,
    /// Limit of handshakes computed again, because a host on the path changed an AUTH.
    rebuilds: RateLimiter,
    /// Limit of handshakes that begin while the table of half-open connections is full.
    evictions: RateLimiter,
    answers: Answers<P>,
    /// Connections that may have something to send, round-robin.
    ready: VecDeque<u64>,
    timers: Timers,
    fin_acks: FinAcks,
    events: VecDeque<(ConnectionId, ConnectionEvent)>,
    /// Memory of all connections, bytes.
    memory: u64,
    /// Number of connections that hold memory.
    holders: u64,
    budget: Budget,
    /// Load of the [`Listener`](crate::Listener) on this socket.
    other_load: SocketLoad,
    /// Number of connections removed so far.
    removed: u64,
    /// True if no further connection of a peer is accepted.
    is_refusing: bool,
    /// Memory of all streams.
    pools: Memory,
    /// Messages dropped because the socket's buffer was full, modulo 2^32.
    overflow: u32,
    /// Bytes of an address; kept to allocate once.
    address: Address,
    /// Copy of a datagram to open; kept to allocate once.
    scratch: Vec<u8>,
    stats: ConnectionSetStats,
}

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// Creates a set without connections. It answers no SYN before [`ConnectionSet::listen`].
    /// `entropy` must be unpredictable: keys, IDs and cookies come from it.
    pub fn new(config: ConnectionSetConfig<P>, entropy: Entropy) -> Self {
        Self::with_memory(config, entropy, FramePool::new())
    }

    /// Same as [`ConnectionSet::new`], with frames for outgoing streams from `memory`.
    pub fn with_memory(config: ConnectionSetConfig<P>, mut entropy: Entropy, memory: FramePool) -> Self {
        Self {
            connections: Peers::new(),
            slots: ConnectionSlots::default(),
            by_remote: BTreeSet::new(),
            opening: BTreeSet::new(),
            responder: None,
            resumptions: None,
            half_open: HalfOpenTable::new(config.max_half_open),
            opened: RecentSyns::default(),
            cookies: CookieKey::new(entropy.array()),
            cookie_epoch: None,
            reset_key: ResetKey::generate(&mut entropy),
            is_reset_key_used: false,
            resets: RateLimiter::of_resets(),
            rebuilds: RateLimiter::of_rebuilds(),
            evictions: RateLimiter::of_evictions(),
            answers: Answers::new(),
            ready: VecDeque::new(),
            timers: Timers::default(),
            fin_acks: FinAcks::default(),
            events: VecDeque::new(),
            memory: 0,
            holders: 0,
            budget: Budget::new(config.socket_buffer),
            other_load: SocketLoad::default(),
            removed: 0,
            is_refusing: false,
            pools: Memory { frames: memory, ..Memory::default() },
            overflow: 0,
            address: Address::default(),
            scratch: Vec::new(),
            stats: ConnectionSetStats::default(),
            config,
            entropy,
        }
    }

    /// Accepts connections of peers. The first event of each is [`ConnectionEvent::Connected`].
    ///
    /// A later set with the same identity and [`reset_scope`](ConnectionSetConfig::reset_scope)
    /// can reset the connections of this one, as after a restart of the program. It cannot if this
    /// set had a connection before it first listened: the peer has a token of a random key.
    pub fn listen(&mut self, responder: ResponderConfig) {
        if !self.is_reset_key_used {
            self.reset_key = ResetKey::of(&responder.identity, self.config.reset_scope);
        }
        self.resumptions = Some(ResumptionJar::new(&responder.identity));
        self.responder = Some(Arc::new(responder));
    }

    /// Accepts no further connection. Half-open ones are dropped.
    pub fn stop_listening(&mut self) {
        self.responder = None;
        self.half_open = HalfOpenTable::new(self.config.max_half_open);
    }

    /// Refuses further connections of peers from now on, half-open ones included, and tells them.
    pub fn refuse_new(&mut self) {
        self.is_refusing = true;
    }

    /// Opens a connection to `peer`.
    ///
    /// # Errors
    /// The configuration is invalid, or lacks a key.
    pub fn connect(
        &mut self,
        now: Instant,
        peer: P,
        initiator: InitiatorConfig,
        config: ConnectionConfig,
    ) -> Result<ConnectionId, ConfigError> {
        let OwnId { id, reset_token } = self.draw_id();
        let share = self.budget.share_of_new();
        let skip_seed = u64::from_le_bytes(self.entropy.array());
        let env =
            ConnectionEnv { local_id: id, reset: reset_token, share, memory: self.pools.clone(), skip_seed };
        let connection = Connection::initiate(now, config, initiator, env, self.entropy.child())?;
        self.stats.initiated += 1;
        self.opening.insert(id);
        let slot = self.slots.take(None);
        self.insert(id, peer, connection, slot);
        Ok(ConnectionId(id))
    }

    /// Returns a connection that was not released.
    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id.0).filter(|entry| !entry.is_released).map(|entry| &*entry.connection)
    }

    /// Calls `act` on a connection that was not released, then updates its events, timers and slot
    /// in the order of transmission.
    pub fn with<R>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        act: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        let entry = self.connections.get_mut(&id.0).filter(|entry| !entry.is_released)?;
        let result = act(&mut entry.connection);
        entry.connection.after_call(now);
        self.process_output(id.0);
        Some(result)
    }

    /// Returns the present address of the peer of a connection.
    pub fn address(&self, id: ConnectionId) -> Option<P> {
        self.connections.get(&id.0).map(|entry| entry.peer)
    }

    /// Returns the connection to which a sealed packet belongs by its ID, which is not authentic.
    pub fn find(&self, datagram: &[u8]) -> Option<ConnectionId> {
        let id = peek(datagram)?.connection_id;
        self.connections.contains_key(&id).then_some(ConnectionId(id))
    }

    /// Returns the arrival of the newest authentic packet of a connection, also of a released one
    /// that repeats its last answers.
    pub fn last_active(&self, id: ConnectionId) -> Option<Instant> {
        self.connections.get(&id.0).and_then(|entry| entry.connection.last_active())
    }

    /// Like [`Endpoint::poll_transmit`]; also returns the connection that sends the datagrams.
    /// `None` for answers that no connection sends.
    pub fn poll_connection(
        &mut self,
        now: Instant,
        out: &mut TransmitBuf,
    ) -> Option<(P, Option<ConnectionId>)> {
        self.next_batch(now, out)
    }

    /// Returns what this set uses of the limits of its socket.
    pub fn load(&self) -> SocketLoad {
        let (peers, memory, holders) = (self.slots.taken(), self.memory, self.holders);
        SocketLoad { peers, memory, holders, ..self.budget.load() }
    }

    /// Counts the load of a [`Listener`](crate::Listener) on this socket towards the limits.
    pub fn set_other_load(&mut self, load: SocketLoad) {
        self.other_load = load;
        self.budget.set_other_load(load);
    }

    /// Returns the numbers of connections of peers of each source that have not ended.
    pub fn source_counts(&self) -> SourceCounts {
        self.slots.sources.clone()
    }

    /// Counts the peers of a [`Listener`](crate::Listener) on this socket towards the limit of a
    /// source.
    pub fn set_other_sources(&mut self, counts: SourceCounts) {
        self.slots.other_sources = counts;
    }

    /// Gives up the handle of a connection, which reports no further event. What was written is
    /// still delivered, and what was not read is discarded.
    pub fn release(&mut self, now: Instant, id: ConnectionId) {
        let Some(entry) = self.connections.get_mut(&id.0).filter(|entry| !entry.is_released) else { return };
        entry.is_released = true;
        entry.connection.release(now);
        self.events.retain(|(owner, _)| *owner != id);
        self.process_output(id.0);
    }

    /// Returns the number of connections, half-open ones not included.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the number of connections removed so far: forgotten, after their ends.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    /// True if there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of half-open connections.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Returns the memory of all connections, bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the current counters.
    pub fn stats(&self) -> ConnectionSetStats {
        ConnectionSetStats { answers_dropped: self.answers.dropped, ..self.stats }
    }

    /// Fills the empty batch `out` for one address. Returns the address, and the connection unless
    /// the batch is an answer that no connection sends.
    ///
    /// Answers of half-open connections leave first, then a batch of one connection after the
    /// other, round-robin. Answers to other addresses follow when no connection has anything, or
    /// after 16 batches.
    fn next_batch(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<(P, Option<ConnectionId>)> {
        if let Some(peer) = self.answers.pop_proved(out).or_else(|| self.answers.pop_overdue(now, out)) {
            return Some((peer, None));
        }
        let overflow = self.overflow();
        while let Some(id) = self.ready.pop_front() {
            let Some(entry) = self.connections.get_mut(&id) else { continue };
            entry.is_queued = false;
            let probed =
                entry.probe.as_mut().and_then(|probe| probe.transmit(now, &mut entry.connection, out));
            let peer = if probed.is_some() {
                self.stats.path_probes += 1;
                probed
            } else {
                entry.connection.set_overflow(overflow);
                // An ACK may offer a larger window.
                entry.set_share(&self.budget);
                entry.connection.poll_transmit(now, out).then_some(entry.peer)
            };
            if let Some(peer) = peer {
                self.answers.limit.on_peer_reply();
                self.process_output(id);
                return Some((peer, Some(ConnectionId(id))));
            }
            self.update(id);
            self.remove_if_over(now, id);
        }
        if self.ready.capacity() > KEPT_CAPACITY {
            self.ready.shrink_to(KEPT_CAPACITY);
        }
        self.answers.pop(now, out).map(|peer| (peer, None))
    }

    /// Draws a connection ID that no connection of this set has.
    fn draw_id(&mut self) -> OwnId {
        loop {
            let id = u64::from_le_bytes(self.entropy.array());
            if id != 0 && !self.connections.contains_key(&id) && !self.half_open.contains(id) {
                self.is_reset_key_used = true;
                return OwnId { id, reset_token: self.reset_key.token(id) };
            }
        }
    }

    fn insert(&mut self, id: u64, peer: P, connection: Connection, slot: ConnectionSlot) {
        self.connections.insert(id, Entry::new(peer, connection, slot));
        self.stats.max_connections = self.stats.max_connections.max(self.slots.taken());
        self.process_output(id);
    }
}

impl<P: Copy + Ord + Debug + Hash> Endpoint for ConnectionSet<P> {
    type Peer = P;
    type Event = (ConnectionId, ConnectionEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        let stride = datagram.len();
        self.handle_datagrams(now, peer, ecn, datagram, stride);
    }

    fn handle_datagrams(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        let stride = stride.max(1);
        let datagrams = bytes.len().div_ceil(stride).max(1);
        self.stats.received += datagrams as u64;
        let mut rest = bytes;
        loop {
            let mut taken = self.deliver_run(now, peer, ecn, rest, stride);
            if taken == 0 {
                taken = stride.min(rest.len());
                self.handle_other(now, peer, ecn, &mut rest[..taken]);
            }
            rest = &mut rest[taken..];
            if rest.is_empty() {
                return datagrams;
            }
        }
    }

    fn handle_refused(&mut self, now: Instant, peer: P, reports: u64) {
        // Among many open connections the search would cost more than the report is worth: a
        // retransmission timeout ends them, too.
        let only = self.connections.iter().next().filter(|_| self.connections.len() == 1);
        let ids: BTreeSet<u64> = self.opening.iter().copied().chain(only.map(|(id, _)| *id)).collect();
        for id in ids {
            if let Some(entry) = self.connections.get_mut(&id).filter(|entry| entry.peer == peer) {
                entry.connection.handle_refused(now, reports);
                self.process_output(id);
            }
        }
    }

    fn handle_overflow(&mut self, messages: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "counted modulo 2^32, as in ACKs")]
        let messages = messages as u32;
        self.overflow = self.overflow.wrapping_add(messages);
        self.answers.limit.on_overflow();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.stats.half_open_expired += self.half_open.expire(now);
        self.fin_acks.expire(now);
        self.handle_timers(now);
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        self.next_batch(now, out).map(|(peer, _)| peer)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let tables = [self.half_open.deadline(), self.fin_acks.deadline()];
        let timers = [self.timers.first(), self.answers.limit.deadline()];
        tables.into_iter().chain(timers).flatten().min()
    }

    fn poll_event(&mut self) -> Option<(ConnectionId, ConnectionEvent)> {
        self.events.pop_front()
    }
}
