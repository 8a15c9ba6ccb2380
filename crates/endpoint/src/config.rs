//! Configuration of endpoints, of connections that they open, and of listeners.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rdt_crypto::{Entropy, PublicKey, ResumptionCookie, SharedSecret, StaticKey};
use rdt_transport::{
    Admittee, ConnectionConfig, ConnectionSetConfig, InitiatorConfig, Observer, RefuseReason,
    ResponderConfig, Service, Trust,
};
use rdt_udp::UdpOptions;

use crate::address::PeerAddress;

/// Connections that wait for `accept` by default; further ones are refused as busy.
const DEFAULT_BACKLOG: usize = 1024;

/// Configuration of an endpoint. The limits are described in [`ConnectionSetConfig`].
///
/// ```
/// use rdt_endpoint::EndpointConfig;
///
/// let config = EndpointConfig::default().max_connections(1000).memory_limit(256 << 20);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Limit on open connections: peers that open more are refused.
    pub max_connections: usize,
    /// Fixed limit on the open connections that one host has opened. `None`, the default: a host
    /// may open one more while it has fewer than are free.
    pub max_connections_per_source: Option<usize>,
    /// Largest number of handshakes of peers that are not complete.
    pub max_half_open: usize,
    /// Bytes that all connections together may hold, beyond holes or unread by the application.
    pub memory_limit: u64,
    /// Memory limit of one connection, bytes.
    pub connection_memory_limit: u64,
    /// Options of the UDP socket.
    pub udp: UdpOptions,
    /// Seed of keys and connection ids, which must never be used twice. `None`, the default: the
    /// operating system's random numbers, and on an emulated network a seed of that network.
    pub seed: Option<[u8; 32]>,
}

impl fmt::Debug for EndpointConfig {
    /// Leaves out the seed, from which all keys follow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointConfig")
            .field("max_connections", &self.max_connections)
            .field("max_connections_per_source", &self.max_connections_per_source)
            .field("max_half_open", &self.max_half_open)
            .field("memory_limit", &self.memory_limit)
            .field("connection_memory_limit", &self.connection_memory_limit)
            .field("udp", &self.udp)
            .finish_non_exhaustive()
    }
}

impl Default for EndpointConfig {
    fn default() -> Self {
        let limits = ConnectionSetConfig::<PeerAddress>::default();
        Self {
            max_connections: limits.max_connections,
            max_connections_per_source: limits.max_connections_per_source,
            max_half_open: limits.max_half_open,
            memory_limit: limits.memory_limit,
            connection_memory_limit: limits.connection_memory_limit,
            udp: UdpOptions::default(),
            seed: None,
        }
    }
}

impl EndpointConfig {
    /// Limits open connections.
    #[must_use]
    pub fn max_connections(self, max_connections: usize) -> Self {
        Self { max_connections, ..self }
    }

    /// Limits the open connections that one host has opened.
    #[must_use]
    pub fn max_connections_per_source(self, limit: usize) -> Self {
        Self { max_connections_per_source: Some(limit), ..self }
    }

    /// Limits handshakes of peers that are not complete.
    #[must_use]
    pub fn max_half_open(self, max_half_open: usize) -> Self {
        Self { max_half_open, ..self }
    }

    /// Limits the bytes that all connections together may hold.
    #[must_use]
    pub fn memory_limit(self, memory_limit: u64) -> Self {
        Self { memory_limit, ..self }
    }

    /// Limits the bytes that one connection may hold.
    #[must_use]
    pub fn connection_memory_limit(self, connection_memory_limit: u64) -> Self {
        Self { connection_memory_limit, ..self }
    }

    /// Sets the options of the UDP socket.
    #[must_use]
    pub fn udp(self, udp: UdpOptions) -> Self {
        Self { udp, ..self }
    }

    /// Makes keys and ids reproducible: for tests alone. Clones of the configuration have the same.
    #[must_use]
    pub fn seed(self, seed: [u8; 32]) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Sets the seed of an emulated network, unless there is one.
    #[cfg(feature = "emulator")]
    pub(crate) fn or_seed(self, seed: [u8; 32]) -> Self {
        Self { seed: self.seed.or(Some(seed)), ..self }
    }

    pub(crate) fn into_entropy(self) -> io::Result<Entropy> {
        self.seed.map_or_else(os_entropy, |seed| Ok(Entropy::from_seed(seed)))
    }
}

/// Keys and parameters of a connection to open. A clone opens another connection, such as after the
/// first one was lost.
#[derive(Clone)]
#[non_exhaustive]
pub struct Connect {
    /// Keys and proofs.
    pub initiator: InitiatorConfig,
    /// Parameters of the connection.
    pub config: ConnectionConfig,
    /// Makes the observer of the outgoing stream, by the peer's address.
    pub observer: Option<Arc<ObserverFactory>>,
}

impl Connect {
    /// Connects to the holder of this key alone.
    pub fn to(key: PublicKey) -> Self {
        Self::with(InitiatorConfig { remote: Some(key), ..InitiatorConfig::default() })
    }

    /// Connects to a peer whose key is not known beforehand. `trust` decides on the key, before the
    /// peer learns the local key. A `trust` that accepts every key protects against eavesdroppers
    /// alone: a host on the path can pose as the peer.
    ///
    /// `trust` must return at once and must not call the endpoint, which is
    /// [locked](crate#callbacks). To ask a user, refuse the key, ask, and connect to it.
    pub fn trusting(trust: impl Fn(&PublicKey) -> bool + Send + Sync + 'static) -> Self {
        let trust: Trust = Arc::new(trust);
        Self::with(InitiatorConfig { trust: Some(trust), ..InitiatorConfig::default() })
    }

    /// Connects to the peer that gave out a ticket, as in
    /// `connect(ticket.addresses(), Connect::ticket(&ticket).identity(me))`. Without an
    /// [`identity`](Self::identity) a ticket for one client is used up by the first connection.
    pub fn ticket(ticket: impl Into<Self>) -> Self {
        ticket.into()
    }

    /// Connects with these keys and proofs.
    pub fn with(initiator: InitiatorConfig) -> Self {
        Self { initiator, config: ConnectionConfig::default(), observer: None }
    }

    /// Proves this identity to the peer.
    #[must_use]
    pub fn identity(mut self, key: Arc<StaticKey>) -> Self {
        self.initiator.local = Some(key);
        self
    }

    /// Proves, and demands, the knowledge of a shared secret.
    #[must_use]
    pub fn secret(mut self, secret: Arc<SharedSecret>) -> Self {
        self.initiator.secret = Some(secret);
        self
    }

    /// Speaks this application protocol: a peer that speaks another one is refused.
    #[must_use]
    pub fn service(mut self, service: Service) -> Self {
        self.initiator.service = service;
        self
    }

    /// Shows the cookie of an earlier connection to the same peer
    /// ([`Stream::resumption_cookie`](crate::blocking::Stream::resumption_cookie)), which saves a
    /// round trip, once.
    #[must_use]
    pub fn resumption(mut self, cookie: ResumptionCookie) -> Self {
        self.initiator.resumption = Some(cookie);
        self
    }

    /// Uses these parameters, such as another congestion controller.
    #[must_use]
    pub fn config(self, config: ConnectionConfig) -> Self {
        Self { config, ..self }
    }

    /// Reports what the outgoing stream sends to the observer that `make` returns for the peer's
    /// address. Both are called with the endpoint [locked](crate#callbacks).
    #[must_use]
    pub fn observer<O: Observer + 'static>(
        self,
        make: impl Fn(SocketAddr) -> O + Send + Sync + 'static,
    ) -> Self {
        Self { observer: Some(boxing(make)), ..self }
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("initiator", &self.initiator).finish_non_exhaustive()
    }
}

/// Identity and rules for connections to accept.
#[derive(Clone)]
#[non_exhaustive]
pub struct Listen {
    /// Identity, parameters, and who is admitted.
    pub responder: ResponderConfig,
    /// Limit on connections that wait for `accept`. Further ones are refused as busy.
    pub backlog: usize,
    /// Makes the observer of each connection's outgoing stream, by the peer's address.
    pub observer: Option<Arc<ObserverFactory>>,
}

/// Maker of observers.
pub type ObserverFactory = dyn Fn(SocketAddr) -> Box<dyn Observer> + Send + Sync;

fn boxing<O: Observer + 'static>(
    make: impl Fn(SocketAddr) -> O + Send + Sync + 'static,
) -> Arc<ObserverFactory> {
    Arc::new(move |peer| Box::new(make(peer)))
}

impl Listen {
    /// Accepts every peer. `peer_identity` of the stream returns its key.
    pub fn new(identity: Arc<StaticKey>) -> Self {
        Self::with(ResponderConfig::open(identity))
    }

    /// Accepts the peers that `responder` admits.
    pub fn with(responder: ResponderConfig) -> Self {
        Self { responder, backlog: DEFAULT_BACKLOG, observer: None }
    }

    /// Uses these parameters for every connection.
    #[must_use]
    pub fn config(mut self, config: ConnectionConfig) -> Self {
        self.responder.config = config;
        self
    }

    /// Also asks `admit`, after the rules so far, whether a peer may connect. It is called with the
    /// endpoint [locked](crate#callbacks).
    #[must_use]
    pub fn admit(
        mut self,
        admit: impl Fn(Admittee) -> Result<(), RefuseReason> + Send + Sync + 'static,
    ) -> Self {
        let rules = self.responder.admit;
        self.responder.admit = Arc::new(move |admittee| rules(admittee).and_then(|()| admit(admittee)));
        self
    }

    /// Admits only peers that hold one of these keys.
    #[must_use]
    pub fn allow(self, keys: impl IntoIterator<Item = PublicKey>) -> Self {
        let keys: Vec<_> = keys.into_iter().collect();
        self.admit(move |admittee| match admittee.peer {
            Some(key) if keys.contains(&key) => Ok(()),
            _ => Err(RefuseReason::NotAdmitted),
        })
    }

    /// Admits only peers that know this secret.
    #[must_use]
    pub fn secret(mut self, secret: Arc<SharedSecret>) -> Self {
        let id = secret.id();
        self.responder.secrets = Arc::new(vec![secret]);
        self.admit(move |admittee| match admittee.secret {
            Some(shown) if shown == id => Ok(()),
            _ => Err(RefuseReason::Secret),
        })
    }

    /// Limits connections that wait for `accept`.
    #[must_use]
    pub fn backlog(self, backlog: usize) -> Self {
        Self { backlog, ..self }
    }

    /// Speaks this application protocol: peers that speak another one are refused.
    #[must_use]
    pub fn service(mut self, service: Service) -> Self {
        self.responder.service = service;
        self
    }

    /// Reports what the outgoing stream of each connection sends to the observer that `make`
    /// returns for the peer's address. Both are called with the endpoint [locked](crate#callbacks).
    #[must_use]
    pub fn observer<O: Observer + 'static>(
        self,
        make: impl Fn(SocketAddr) -> O + Send + Sync + 'static,
    ) -> Self {
        Self { observer: Some(boxing(make)), ..self }
    }
}

impl fmt::Debug for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listen").field("backlog", &self.backlog).finish_non_exhaustive()
    }
}

/// Returns random bytes that begin with a seed of the operating system.
///
/// # Errors
/// If the operating system has no random numbers, which happens only in broken sandboxes.
pub fn os_entropy() -> io::Result<Entropy> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    Ok(Entropy::from_seed(seed))
}

/// Returns a new static key from random numbers of the operating system.
///
/// # Errors
/// If the operating system has no random numbers.
pub fn generate_key() -> io::Result<Arc<StaticKey>> {
    Ok(Arc::new(StaticKey::generate(&mut os_entropy()?)))
}
