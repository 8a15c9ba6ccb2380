//! Limits of a set of peers, and what it needs to accept classic peers and native connections.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, Psk, PublicKey, SecretId, SharedSecret, StaticKey};

use crate::connection::{ConnectionConfig, RefuseReason};
use crate::receiver::CLASSIC_IDLE;
use crate::{ReceiverConfig, Service};

/// Limits of a set of peers. Each bounds something that peers could make grow.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSetConfig<P> {
    /// Classic peers; `None` to take none.
    pub classic: Option<ClassicConfig>,
    /// Limit on open connections and classic peers together: peers that open more are refused.
    /// Connections that this side opens count too, but are never refused. Ended connections do not
    /// count: the newest of them, as many again and at least 64, repeat their last answers. Classic
    /// peers, which do not prove their addresses, never take the last quarter.
    pub max_connections: usize,
    /// Fixed limit on the open connections and classic peers of one host, whatever other hosts
    /// have. `None`: a host may open one more while it has fewer than are free, so one host gets at
    /// most half, and each further one at most half of what is left (classic peers: of their three
    /// quarters). A host is an IPv4 address or an IPv6 network of 56 bits. Needs
    /// [`ip_of`](Self::ip_of).
    pub max_connections_per_source: Option<usize>,
    /// Largest number of handshakes of peers that are not complete, each about 4 KiB. In a full
    /// table, an old one makes room for a new one. A quarter may be of peers that have not proved
    /// their addresses; with fewer than 4, every peer must prove its address first, which costs it
    /// a round trip.
    pub max_half_open: usize,
    /// Bytes that all peers together may hold, beyond holes or unread by the application. Each may
    /// hold 128 KiB of unread data regardless.
    pub memory_limit: u64,
    /// Memory limit of one peer, bytes.
    pub connection_memory_limit: u64,
    /// Receive buffer of the socket, which limits the windows of all peers together. `None`
    /// for no limit, as behind emulated links, which delay packets after they left the socket.
    pub socket_buffer: Option<SocketBuffer>,
    /// Returns the IP address of a peer. With it, one host (IPv4 address or IPv6 network of 56
    /// bits) may have only a quarter of the half-open peers of each format, and addresses that
    /// differ in their ports alone count as one path.
    pub ip_of: Option<fn(&P) -> IpAddr>,
    /// Returns the local address to which a peer sent, if known. If it changes, the path is new.
    pub local_ip_of: Option<fn(&P) -> Option<IpAddr>>,
    /// Seconds since 1970 at an instant. With it and [`ip_of`](Self::ip_of), peers get cookies that
    /// save a round trip at the next connection, and may use them.
    pub unix_time: Option<(Instant, u64)>,
    /// Scope of the tokens in stateless resets ([`rdt_crypto::ResetKey`]). Sockets with the same
    /// identity need different scopes, also on other hosts, and a socket needs the same one after a
    /// restart of the program
    /// ([`ResetKey::scope`](rdt_crypto::ResetKey::scope)).
    pub reset_scope: u64,
}

impl<P> Default for ConnectionSetConfig<P> {
    /// Returns limits for native connections only: 65,536 of them, which hosts share, and 1024
    /// half-open ones; 2 GiB of memory, of which 512 MiB a peer (four times the 125 MB that 10
    /// Gbit/s over 100 ms have in flight, because data beyond a hole waits until it is filled). The
    /// functions that need to know the type of addresses are absent.
    fn default() -> Self {
        Self {
            classic: None,
            max_connections: 65_536,
            max_connections_per_source: None,
            max_half_open: 1024,
            memory_limit: 2 << 30,
            connection_memory_limit: 512 << 20,
            socket_buffer: None,
            ip_of: None,
            local_ip_of: None,
            unix_time: None,
            reset_scope: 0,
        }
    }
}

impl<P> ConnectionSetConfig<P> {
    /// Returns the number of the host of a peer; `None` if addresses have no hosts.
    pub(super) fn source_of(&self, peer: &P) -> Option<u64> {
        self.ip_of.map(|ip_of| rdt_datagram::source_number(ip_of(peer)))
    }

    /// True if a packet of `from` was sent to another local address than one of `before`.
    pub(super) fn has_other_local_ip(&self, from: &P, before: &P) -> bool {
        let ips = self.local_ip_of.and_then(|ip_of| ip_of(from).zip(ip_of(before)));
        ips.is_some_and(|(from, before)| from != before)
    }
}

/// Receivers of classic peers.
#[derive(Debug, Clone, Copy)]
pub struct ClassicConfig {
    /// Configuration of every receiver.
    pub receiver: ReceiverConfig,
    /// Idle timeout of peers.
    pub idle: Duration,
}

impl ClassicConfig {
    /// Returns the default idle timeout: 25 s.
    pub fn new(receiver: ReceiverConfig) -> Self {
        Self { receiver, idle: CLASSIC_IDLE }
    }
}

/// Receive buffer of the socket that all peers share, as the system accounts for it.
/// `rdt_endpoint::truesize` has these values.
#[derive(Debug, Clone, Copy)]
pub struct SocketBuffer {
    /// Usable size, in bytes as [`charge`](Self::charge) counts them.
    pub capacity: u64,
    /// Returns the bytes charged to the buffer for a datagram with this payload; 0 counts as 1.
    pub charge: fn(u64) -> u64,
    /// Bytes in flight of all peers together beyond which throughput no longer rises.
    pub useful_bytes: u64,
    /// Bytes in flight of one peer beyond which its throughput no longer rises, among any number.
    pub useful_peer_bytes: u64,
    /// Lower limit of the rate at which busy hosts process data, bytes per second; 0 counts as 1.
    pub min_drain_rate: u64,
    /// Part of an RTT spent in idle hosts, by wake-ups and batching.
    pub min_host_delay: Duration,
}

impl SocketBuffer {
    /// Returns the bytes in flight beyond which the throughput of these peers no longer rises.
    pub(super) fn useful(&self, peers: u64) -> u64 {
        self.useful_bytes.max(peers * self.useful_peer_bytes)
    }
}

/// Identity and rules of the side that accepts connections.
#[derive(Clone)]
pub struct ResponderConfig {
    /// Own static key.
    pub identity: Arc<StaticKey>,
    /// Parameters of every accepted connection.
    pub config: ConnectionConfig,
    /// Shared secrets that initiators may use.
    pub secrets: Arc<dyn Secrets>,
    /// Decides which initiators are admitted.
    pub admit: Admit,
    /// Application protocol; initiators that speak another one are refused.
    pub service: Service,
}

/// Decision on an initiator that has proved its key. Called while the set of connections is locked:
/// must not wait, and must not call the set.
pub type Admit = Arc<dyn Fn(Admittee) -> Result<(), RefuseReason> + Send + Sync>;

/// Initiator that asks for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admittee {
    /// Static key of the initiator; `None` if it has none.
    pub peer: Option<PublicKey>,
    /// Shared secret that the initiator names, and must know to complete the connection.
    pub secret: Option<SecretId>,
    /// Cipher of the connection. [`Aead::None`] only if
    /// [`ConnectionConfig::dangerously_unencrypted`] allows it.
    pub aead: Aead,
}

/// Shared secrets of a responder. Called while the set is locked: must not wait or call the set.
pub trait Secrets: Send + Sync {
    /// Returns the key of a secret; `None` for an unknown one.
    fn psk(&self, id: SecretId) -> Option<Psk>;

    /// Notes that an initiator has proved the secret, and its key if it has one. Returns false to
    /// refuse the connection, because the secret is for one connection or peer and was used before.
    fn complete(&self, _id: SecretId, _peer: Option<PublicKey>) -> bool {
        true
    }
}

impl Secrets for Vec<Arc<SharedSecret>> {
    fn psk(&self, id: SecretId) -> Option<Psk> {
        self.iter().find(|secret| secret.id() == id).map(|secret| secret.psk())
    }
}

impl ResponderConfig {
    /// Returns a responder that admits every initiator and knows no secret.
    pub fn open(identity: Arc<StaticKey>) -> Self {
        let secrets = Arc::new(Vec::new());
        let (config, admit) = (ConnectionConfig::default(), Arc::new(|_: Admittee| Ok(())));
        Self { identity, config, secrets, admit, service: Service::NONE }
    }
}

impl fmt::Debug for ResponderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponderConfig")
            .field("identity", &self.identity)
            .field("config", &self.config)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
