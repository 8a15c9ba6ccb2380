//! Configuration of endpoints, of connections that they open, and of listeners.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rdt_crypto::{Entropy, PublicKey, SharedSecret, StaticKey};
use rdt_transport::{
    ConnectionConfig, ConnectionSetConfig, InitiatorConfig, Observer, ResponderConfig, Trust,
};
use rdt_udp::UdpOptions;

use crate::address::PeerAddress;

/// Connections that wait for `accept` by default; further ones are refused as busy.
const DEFAULT_BACKLOG: usize = 1024;

/// Configuration of an endpoint. The limits are described in [`ConnectionSetConfig`].
#[derive(Debug)]
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
    /// Source of keys and connection ids.
    pub entropy: Entropy,
}

impl EndpointConfig {
    /// Returns the default configuration, with random numbers of the operating system.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn new() -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        Ok(Self::from_seed(seed))
    }

    /// Returns the default configuration with reproducible keys and ids: for tests alone.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let limits = ConnectionSetConfig::<PeerAddress>::default();
        Self {
            max_connections: limits.max_connections,
            max_connections_per_source: limits.max_connections_per_source,
            max_half_open: limits.max_half_open,
            memory_limit: limits.memory_limit,
            connection_memory_limit: limits.connection_memory_limit,
            udp: UdpOptions::default(),
            entropy: Entropy::from_seed(seed),
        }
    }
}

/// Peer, keys and parameters of a connection to open.
pub struct Connect {
    /// Keys and proofs.
    pub initiator: InitiatorConfig,
    /// Parameters of the connection, such as the congestion controller
    /// (`config.sender.congestion`, or one's own as `config.sender.controller_factory`).
    pub config: ConnectionConfig,
    /// Observer of what the outgoing stream sends.
    pub observer: Option<Box<dyn Observer>>,
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

    /// Uses these parameters.
    #[must_use]
    pub fn config(mut self, config: ConnectionConfig) -> Self {
        self.config = config;
        self
    }

    /// Reports what the outgoing stream sends to `observer`, which is called with the endpoint
    /// [locked](crate#callbacks).
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("initiator", &self.initiator).finish_non_exhaustive()
    }
}

/// Identity and rules for connections to accept.
pub struct Listen {
    /// Identity, parameters, and who is admitted.
    pub responder: ResponderConfig,
    /// Limit on connections that wait for `accept`. Further ones are refused as busy.
    pub backlog: usize,
    /// Makes the observer of each connection's outgoing stream, by the peer's address.
    pub observer: Option<Box<ObserverFactory>>,
}

/// Maker of observers.
pub type ObserverFactory = dyn Fn(SocketAddr) -> Box<dyn Observer> + Send + Sync;

impl Listen {
    /// Accepts every peer. `peer_identity` of the stream returns its key.
    pub fn new(identity: Arc<StaticKey>) -> Self {
        Self { responder: ResponderConfig::open(identity), backlog: DEFAULT_BACKLOG, observer: None }
    }

    /// Reports what the outgoing stream of each connection sends to the observer that `make`
    /// returns for the peer's address. Both are called with the endpoint [locked](crate#callbacks).
    #[must_use]
    pub fn observer<O: Observer + 'static>(
        mut self,
        make: impl Fn(SocketAddr) -> O + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Box::new(move |peer| -> Box<dyn Observer> { Box::new(make(peer)) }));
        self
    }
}

impl fmt::Debug for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listen").field("backlog", &self.backlog).finish_non_exhaustive()
    }
}

/// Returns a new static key from random numbers of the operating system.
///
/// # Errors
/// If the operating system has no random numbers.
pub fn generate_key() -> io::Result<Arc<StaticKey>> {
    Ok(Arc::new(StaticKey::generate(&mut EndpointConfig::new()?.entropy)))
}
