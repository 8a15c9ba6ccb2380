//! Native connections of a set: finds the connection of a datagram, accepts those of peers, resets
//! unknown ones, and follows peers to new addresses, which it sees as an opaque key `P`.

mod accept;
mod address;
mod associations;
mod by_host;
mod complete;
mod ended;
mod entry;
mod fin_acks;
mod granted;
mod half_open;
mod known_paths;
mod receive;
mod recent_syns;
mod retry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use rdt_crypto::{Entropy, ResetKey, ResumptionJar};

use associations::HeldTable;
use by_host::ByHost;
use ended::Ended;
use entry::Entry;
use fin_acks::FinAcks;
use granted::GrantedTable;
use half_open::{HalfOpenTable, OwnId};
use known_paths::KnownPaths;
use recent_syns::RecentSyns;
use retry::RetryPolicy;

use super::account::Key;
use super::slots::Slot;
use super::stateless_limit::{LoadLimiter, RateLimiter};
use super::table::Table;
use super::{AddressKey, ConnectionId, ConnectionSet, ConnectionSetStats, ResponderConfig};
use crate::connection::{
    Connection, ConnectionConfig, ConnectionEnv, ConnectionEvent, InitiatorConfig, Memory, Output,
};
use crate::cookie::{Address, CookieKey};
use crate::send_buffer::FramePool;
use crate::sender::earlier;
use crate::wire::native::peek;
use crate::{ConfigError, TransmitBuf};

/// Largest number of connection IDs whose tokens are known to be told: those of 4 s at least.
const MAX_TOLD: usize = 4096;

/// Connections of both directions.
#[derive(Debug)]
pub(super) struct Native<P> {
    connections: Table<u64, Entry<P>>,
    /// Pairs of remote and local connection ID. A RESET of a peer names the remote one.
    by_remote: BTreeSet<(u64, u64)>,
    by_host: ByHost,
    /// Connections that this side opens, until their handshake ends.
    opening: BTreeSet<u64>,
    ended: Ended,
    fin_acks: FinAcks,
    known_paths: KnownPaths,
    /// Associations in which this side opens connections.
    held: HeldTable<P>,
    pub(super) events: VecDeque<(ConnectionId, ConnectionEvent)>,
    /// Number of connections removed so far.
    removed: u64,
    /// Memory of all streams.
    pools: Memory,
    /// Copy of a datagram to open; kept to allocate once.
    scratch: Vec<u8>,
    pub(super) stats: ConnectionSetStats,
}

/// Acceptance of connections: handshakes of peers, and the proofs of their addresses.
#[derive(Debug)]
pub(super) struct Acceptor<P> {
    responder: Option<Arc<ResponderConfig>>,
    resumptions: Option<ResumptionJar>,
    half_open: HalfOpenTable<P>,
    /// Associations in which peers open connections.
    associations: GrantedTable<P>,
    /// Digests of SYNs that opened a connection lately.
    opened: RecentSyns,
    /// Whether a SYN needs a cookie.
    retry: RetryPolicy,
    cookies: CookieKey,
    /// Time of the first SYN, from which the times of cookies count.
    cookie_epoch: Option<Instant>,
    /// Limit of handshakes computed again, because a host on the path changed an AUTH.
    rebuilds: RateLimiter,
    /// Limit of handshakes that begin while the table of half-open connections is full.
    evictions: LoadLimiter,
    /// Bytes of an address; kept to allocate once.
    address: Address,
}

/// Stateless resets of unknown connections.
#[derive(Debug)]
pub(super) struct Resets {
    /// Key of the tokens that were given to peers and of those in RESETs.
    key: ResetKey,
    /// True if a peer may have a token, so that `key` stays.
    is_key_used: bool,
    /// Limit of RESETs, and of FIN-ACKs of removed connections.
    limit: RateLimiter,
    /// Newest connection IDs whose tokens RESETs have told, in order of time and sorted.
    told_order: VecDeque<u64>,
    told: BTreeSet<u64>,
}

impl<P> Native<P> {
    pub(super) fn new(memory: FramePool) -> Self {
        Self {
            connections: Table::new(),
            by_remote: BTreeSet::new(),
            by_host: ByHost::default(),
            opening: BTreeSet::new(),
            ended: Ended::default(),
            fin_acks: FinAcks::default(),
            known_paths: KnownPaths::default(),
            held: HeldTable::default(),
            events: VecDeque::new(),
            removed: 0,
            pools: Memory { frames: memory, ..Memory::default() },
            scratch: Vec::new(),
            stats: ConnectionSetStats::default(),
        }
    }
}

impl<P> Acceptor<P> {
    pub(super) fn new(max_half_open: usize, since: Option<Instant>, entropy: &mut Entropy) -> Self {
        Self {
            responder: None,
            resumptions: None,
            half_open: HalfOpenTable::new(max_half_open),
            associations: GrantedTable::new(since),
            opened: RecentSyns::default(),
            retry: RetryPolicy::new(max_half_open),
            cookies: CookieKey::new(entropy.array()),
            cookie_epoch: None,
            rebuilds: RateLimiter::of_rebuilds(),
            evictions: LoadLimiter::of_handshakes(),
            address: Address::default(),
        }
    }
}

impl Resets {
    pub(super) fn new(entropy: &mut Entropy) -> Self {
        Self {
            key: ResetKey::generate(entropy),
            is_key_used: false,
            limit: RateLimiter::of_resets(),
            told_order: VecDeque::new(),
            told: BTreeSet::new(),
        }
    }

    /// Notes that a RESET told the token of this connection ID.
    fn on_told(&mut self, id: u64) {
        if self.told.insert(id) {
            self.told_order.push_back(id);
        }
        if self.told_order.len() > MAX_TOLD
            && let Some(oldest) = self.told_order.pop_front()
        {
            self.told.remove(&oldest);
        }
    }
}

impl<P: AddressKey> ConnectionSet<P> {
    /// Accepts connections of peers. The first event of each is [`ConnectionEvent::Connected`].
    ///
    /// A later set with the same identity and
    /// [`reset_scope`](super::ConnectionSetConfig::reset_scope) can reset the connections of this
    /// one, as after a restart of the program. It cannot if this set had a connection before it
    /// first listened: the peer has a token of a random key.
    pub fn listen(&mut self, responder: ResponderConfig) {
        if !self.resets.is_key_used {
            self.resets.key = ResetKey::of(&responder.identity, self.config.reset_scope);
        }
        self.acceptor.resumptions = Some(ResumptionJar::new(&responder.identity));
        self.acceptor.responder = Some(Arc::new(responder));
        self.acceptor.associations.clear();
    }

    /// Accepts no further connection. Half-open ones are dropped.
    pub fn stop_listening(&mut self) {
        self.acceptor.responder = None;
        self.acceptor.half_open.clear();
    }

    /// Opens a connection to `peer`: within an association, if an earlier connection with the same
    /// keys made one, else by a handshake.
    ///
    /// # Errors
    /// The configuration is invalid, or lacks a key.
    pub fn connect(
        &mut self,
        now: Instant,
        peer: P,
        mut initiator: InitiatorConfig,
        config: ConnectionConfig,
    ) -> Result<ConnectionId, ConfigError> {
        let known = self.path_of_new(now, &peer);
        initiator.rtt = initiator.rtt.or(known.map(|known| known.rtt));
        let OwnId { id, reset_token } = self.draw_id();
        let share = self.memory.budget.share_of_new();
        let skip_seed = u64::from_le_bytes(self.entropy.array());
        let env = ConnectionEnv {
            local_id: id,
            reset: reset_token,
            share,
            memory: self.native.pools.clone(),
            known,
            skip_seed,
        };
        let association = self.native.held.find(now, &peer, &initiator, &config);
        let within = association.and_then(|id| self.native.held.next(id, initiator.rtt));
        let entropy = self.entropy.child();
        let initiated = Connection::initiate(now, config, initiator, env, entropy, within.as_ref());
        if let (Err(_), Some(association)) = (&initiated, association) {
            self.native.held.on_ended(association);
        }
        let connection = initiated?;
        self.native.stats.initiated += 1;
        self.native.stats.initiated_open += u64::from(association.is_some());
        self.native.opening.insert(id);
        let slot = self.slots.take(None);
        self.insert(id, peer, connection, slot, association);
        Ok(ConnectionId(id))
    }

    /// Returns a connection that was not released.
    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.native.connections.get(&id.0).filter(|entry| !entry.is_released).map(|entry| &*entry.connection)
    }

    /// Calls `act` on a connection that was not released, then updates its events, timers and slot
    /// in the order of transmission.
    pub fn with<R>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        act: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        let entry = self.native.connections.get_mut(&id.0).filter(|entry| !entry.is_released)?;
        let result = act(&mut entry.connection);
        entry.connection.after_call(now);
        self.process_output(id.0);
        Some(result)
    }

    /// Returns the present address of the peer of a connection.
    pub fn address(&self, id: ConnectionId) -> Option<P> {
        self.native.connections.get(&id.0).map(|entry| entry.peer)
    }

    /// Returns the connection to which a sealed packet belongs by its ID, which is not authentic.
    pub fn find(&self, datagram: &[u8]) -> Option<ConnectionId> {
        let id = peek(datagram)?.connection_id;
        self.native.connections.contains_key(&id).then_some(ConnectionId(id))
    }

    /// Returns the arrival of the newest authentic packet of a connection, also of a released one
    /// that repeats its last answers.
    pub fn last_active(&self, id: ConnectionId) -> Option<Instant> {
        self.native.connections.get(&id.0).and_then(|entry| entry.connection.last_active())
    }

    /// Gives up the handle of a connection, which reports no further event. What was written is
    /// still delivered, and what was not read is discarded.
    pub fn release(&mut self, now: Instant, id: ConnectionId) {
        let Some(entry) = self.native.connections.get_mut(&id.0).filter(|entry| !entry.is_released) else {
            return;
        };
        entry.is_released = true;
        entry.connection.release(now);
        self.remember_path(now, id.0);
        self.native.events.retain(|(owner, _)| *owner != id);
        self.process_output(id.0);
    }

    /// True while the outgoing stream of a [released](Self::release) connection is on its way.
    pub fn delivers_released(&self) -> bool {
        self.native.connections.iter().any(|(_, entry)| entry.is_released && entry.connection.is_delivering())
    }

    /// Returns the number of connections, half-open ones not included.
    pub fn len(&self) -> usize {
        self.native.connections.len()
    }

    /// Returns the number of connections removed so far: forgotten, after their ends.
    pub fn removed(&self) -> u64 {
        self.native.removed
    }

    /// True if there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of half-open connections.
    pub fn half_open(&self) -> usize {
        self.acceptor.half_open.len()
    }

    /// Fills the empty batch `out` with datagrams of a connection. Returns their address.
    pub(super) fn transmit_native(&mut self, now: Instant, id: u64, out: &mut TransmitBuf) -> Option<P> {
        let overflow = self.overflow();
        let entry = self.native.connections.get_mut(&id)?;
        entry.account.is_queued = false;
        let probed = entry.probe.as_mut().and_then(|probe| probe.transmit(now, &mut entry.connection, out));
        if probed.is_some() {
            self.native.stats.path_probes += 1;
            self.process_output(id);
            return probed;
        }
        entry.connection.set_overflow(overflow);
        // An ACK may offer a larger window.
        if let Some(share) = self.memory.share(&entry.account) {
            entry.connection.set_share(share);
        }
        let (peer, output) = (entry.peer, entry.connection.poll_transmit(now, out));
        if output == Output::Batch {
            self.process_output(id);
        } else {
            self.update(id);
            self.remove_if_over(now, id);
        }
        (output != Output::Nothing).then_some(peer)
    }

    /// Returns the time at which something expires that has no connection.
    pub(super) fn native_deadline(&self) -> Option<Instant> {
        let tables = earlier(self.acceptor.half_open.deadline(), self.native.fin_acks.deadline());
        earlier(tables, self.association_deadline())
    }

    /// Removes what has expired and has no connection.
    pub(super) fn expire_native(&mut self, now: Instant) {
        self.native.stats.half_open_expired += self.acceptor.half_open.expire(now);
        self.native.fin_acks.expire(now);
        self.expire_associations(now);
    }

    /// Tells the connections to a peer of ICMP errors.
    pub(super) fn on_refused(&mut self, now: Instant, peer: P, reports: u64) {
        // Among many open connections the search would cost more than the report is worth: a
        // retransmission timeout ends them, too.
        let only = self.native.connections.iter().next().filter(|_| self.native.connections.len() == 1);
        let ids: BTreeSet<u64> = self.native.opening.iter().copied().chain(only.map(|(id, _)| *id)).collect();
        for id in ids {
            if let Some(entry) = self.native.connections.get_mut(&id).filter(|entry| entry.peer == peer) {
                entry.connection.handle_refused(now, reports);
                self.process_output(id);
            }
        }
    }

    /// Draws a connection ID that no connection of this set has.
    fn draw_id(&mut self) -> OwnId {
        loop {
            let id = u64::from_le_bytes(self.entropy.array());
            if id != 0 && !self.native.connections.contains_key(&id) && !self.acceptor.half_open.contains(id)
            {
                self.resets.is_key_used = true;
                return OwnId { id, reset_token: self.resets.key.token(id) };
            }
        }
    }

    fn insert(&mut self, id: u64, peer: P, connection: Connection, slot: Slot, association: Option<u64>) {
        if let Some(ip_of) = self.config.ip_of {
            self.native.by_host.insert(ip_of(&peer), id);
        }
        self.native.connections.insert(id, Entry::new(peer, connection, slot, association));
        self.native.stats.max_connections = self.native.stats.max_connections.max(self.slots.taken);
        self.process_output(id);
    }
}
