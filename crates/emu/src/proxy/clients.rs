//! Clients of the proxy, each with a socket towards the target.
//!
//! Owns the limit on the number of clients, and the idle timeout.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_udp::{Connected, PollSet, Remote, SocketError, UdpIo, UdpOptions, UdpStats, wildcard_for};

/// A new client may replace a client that has been silent for this long, if there is no room.
const REPLACEABLE_AFTER: Duration = Duration::from_secs(1);
/// Longest interval between two checks for idle clients.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Socket buffer of each client and direction, bytes: 30 ms at 2 Gbit/s.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Address of each client by its tag. Shared with a capture, because packets carry only the tag.
pub(crate) type Addresses = Arc<Mutex<BTreeMap<u32, SocketAddr>>>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) most: usize,
    pub(crate) idle: Duration,
}

pub(crate) struct Client {
    /// Address of the client, and the local address that it uses.
    pub(crate) remote: Remote,
    pub(crate) io: Connected,
    /// Time of the last packet from or to the client.
    last: Instant,
}

pub(crate) struct Clients {
    target: SocketAddr,
    limits: Limits,
    tags: BTreeMap<Remote, u32>,
    addresses: Addresses,
    open: BTreeMap<u32, Client>,
    /// Tags of removed clients that [`Clients::poll_gone`] has not returned yet.
    gone: Vec<u32>,
    next_tag: u32,
    next_check: Option<Instant>,
    /// Time before which no client can be replaced; `None` if it is unknown.
    replaceable_at: Option<Instant>,
    totals: Totals,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) clients: u64,
    /// Silent clients that were removed to make room for new ones.
    pub(crate) replaced: u64,
    /// Packets from clients beyond the limit.
    pub(crate) turned_away: u64,
    /// Packets dropped in the receive buffers of the clients' sockets; `None` if the system does
    /// not report them.
    pub(crate) overflow: Option<u64>,
    /// Datagrams that a client's socket received from other addresses than the target's.
    pub(crate) foreign_messages: u64,
    pub(crate) sockets: UdpStats,
}

impl Totals {
    fn add(&mut self, client: &Client) {
        let stats = client.io.io().stats();
        self.overflow = self.overflow.zip(stats.receive_overflow).map(|(a, b)| a + b);
        self.foreign_messages += client.io.foreign_messages();
        self.sockets.merge(&stats);
    }
}

pub(crate) enum Refusal {
    Full,
    Socket(SocketError),
}

impl Clients {
    pub(crate) fn new(target: SocketAddr, limits: Limits) -> Self {
        Self {
            target,
            limits,
            tags: BTreeMap::new(),
            addresses: Addresses::default(),
            open: BTreeMap::new(),
            gone: Vec::new(),
            next_tag: 0,
            next_check: None,
            replaceable_at: None,
            totals: Totals { overflow: Some(0), ..Totals::default() },
        }
    }

    /// Returns the tag of the client that sent a packet at `at`; registers a client that is new.
    pub(crate) fn admit(&mut self, remote: Remote, at: Instant, set: &mut PollSet) -> Result<u32, Refusal> {
        if let Some(&tag) = self.tags.get(&remote) {
            self.touch(tag, at);
            return Ok(tag);
        }
        if self.open.len() >= self.limits.most && !self.make_room(at, set) {
            return Err(Refusal::Full);
        }
        let tag = self.next_tag;
        let client = self.open(remote, tag, at, set).map_err(Refusal::Socket)?;
        self.open.insert(tag, client);
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(tag, remote.addr);
        self.tags.insert(remote, tag);
        self.totals.clients += 1;
        // Tags have 31 bits, because poll keys from 2^31 on are other sockets. After 2^31 clients
        // the first one has been removed long ago.
        self.next_tag = (tag + 1) & (u32::MAX >> 1);
        self.next_check.get_or_insert(at + self.check_interval());
        Ok(tag)
    }

    /// Removes the client that has been silent longest, if it was for [`REPLACEABLE_AFTER`].
    fn make_room(&mut self, now: Instant, set: &mut PollSet) -> bool {
        // Clients are searched only if one can be found, because a flood of new clients may ask for
        // each of its packets.
        if self.replaceable_at.is_some_and(|at| now < at) {
            return false;
        }
        let silent_longest = self.open.iter().map(|(tag, client)| (client.last, *tag)).min();
        let Some((last, tag)) = silent_longest else { return false };
        self.replaceable_at = Some(last + REPLACEABLE_AFTER);
        if now < last + REPLACEABLE_AFTER {
            return false;
        }
        self.totals.replaced += 1;
        self.remove(tag, set);
        true
    }

    /// Removes a client, and counts its packets.
    fn remove(&mut self, tag: u32, set: &mut PollSet) {
        let Some(client) = self.open.remove(&tag) else { return };
        self.totals.add(&client);
        // Cannot fail: the socket is open.
        let _ = set.remove(tag as usize);
        self.tags.remove(&client.remote);
        self.gone.push(tag);
    }

    fn open(&self, remote: Remote, tag: u32, at: Instant, set: &mut PollSet) -> Result<Client, SocketError> {
        let any = wildcard_for(self.target);
        let io = UdpIo::bind(
            any,
            UdpOptions {
                receive_buffer: SOCKET_BUFFER_BYTES,
                send_buffer: SOCKET_BUFFER_BYTES,
                by_reference: false,
                ..UdpOptions::default()
            },
        )?;
        set.add(tag as usize, io.socket()).map_err(|error| SocketError::Bind { address: any, error })?;
        Ok(Client { remote, io: Connected::new(io, self.target), last: at })
    }

    pub(crate) fn turn_away(&mut self, packets: u64) {
        self.totals.turned_away += packets;
    }

    pub(crate) fn client_mut(&mut self, tag: u32) -> Option<&mut Client> {
        self.open.get_mut(&tag)
    }

    pub(crate) fn touch(&mut self, tag: u32, at: Instant) {
        if let Some(client) = self.open.get_mut(&tag) {
            client.last = client.last.max(at);
        }
    }

    pub(crate) fn next_check(&self) -> Option<Instant> {
        self.next_check
    }

    /// Removes idle clients if a check is due. Returns true if it was due.
    pub(crate) fn check(&mut self, now: Instant, set: &mut PollSet) -> bool {
        if self.next_check.is_none_or(|check| now < check) {
            return false;
        }
        let idle = self.limits.idle;
        let is_idle = |client: &Client| now.saturating_duration_since(client.last) >= idle;
        let idle: Vec<_> = self.open.iter().filter(|(_, it)| is_idle(it)).map(|(tag, _)| *tag).collect();
        for tag in idle {
            self.remove(tag, set);
        }
        self.next_check = (!self.open.is_empty()).then(|| now + self.check_interval());
        true
    }

    /// Returns the tag of a removed client, once for each.
    pub(crate) fn poll_gone(&mut self) -> Option<u32> {
        let tag = self.gone.pop()?;
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).remove(&tag);
        Some(tag)
    }

    /// Returns the shared map of client addresses, which is updated as clients come and go.
    pub(crate) fn addresses(&self) -> Addresses {
        Arc::clone(&self.addresses)
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.totals;
        for client in self.open.values() {
            totals.add(client);
        }
        totals
    }

    fn check_interval(&self) -> Duration {
        MAX_CHECK_INTERVAL.min(self.limits.idle / 2)
    }
}
