//! Limits of a connection set, and what a responder needs to accept connections.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use rdt_crypto::{Aead, Psk, PublicKey, SecretId, SharedSecret, StaticKey};

use crate::SocketBuffer;
use crate::connection::{ConnectionConfig, RefuseReason};

/// Limits of a connection set. Each bounds something that peers could make grow.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSetConfig<P> {
    /// Limit on open connections: peers that open more are refused. Connections that this side
    /// opens count too, but are never refused. Ended connections do not count: the newest of them,
    /// as many again and at least 64, repeat their last answers.
    pub max_connections: usize,
    /// Limit on the open connections that one host has opened. A host is an IPv4 address or an IPv6
    /// network of 64 bits. Needs [`ip_of`](Self::ip_of).
    pub max_connections_per_source: usize,
    /// Largest number of handshakes of peers that are not complete, each about 4 KiB. The oldest
    /// makes room for a new one.
    pub max_half_open: usize,
    /// Bytes that all connections together may hold, beyond holes or unread by the application.
    /// Each may hold 128 KiB of unread data regardless.
    pub memory_limit: u64,
    /// Memory limit of one connection, bytes.
    pub connection_memory_limit: u64,
    /// Receive buffer of the socket, which limits the windows of all connections together. `None`
    /// for no limit, as behind emulated links, which delay packets after they left the socket.
    pub socket_buffer: Option<SocketBuffer>,
    /// Returns the IP address of a peer. With it, one host (IPv4 address or IPv6 network of 64
    /// bits) may have only a quarter of [`max_half_open`](Self::max_half_open), and addresses that
    /// differ in their ports alone count as one path.
    pub ip_of: Option<fn(&P) -> IpAddr>,
    /// Returns the local address to which a peer sent, if it is known. With it, a change of the own
    /// address counts as a new path.
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
    /// Returns the limits of [`ListenerConfig`](crate::ListenerConfig), for 65,536 connections,
    /// half of them of one host, and 1024 half-open ones. The functions that need to know the type
    /// of addresses are absent.
    fn default() -> Self {
        Self {
            max_connections: 65_536,
            max_connections_per_source: 32_768,
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
    /// True if a packet of `from` was sent to another local address than one of `before`.
    pub(super) fn has_other_local_ip(&self, from: &P, before: &P) -> bool {
        let ips = self.local_ip_of.and_then(|ip_of| ip_of(from).zip(ip_of(before)));
        ips.is_some_and(|(from, before)| from != before)
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
}

/// Decision on an initiator that has proved its key. Called while the set of connections is locked:
/// must not wait, and must not call the set.
pub type Admit = Arc<dyn Fn(Admittee) -> Result<(), RefuseReason> + Send + Sync>;

/// Initiator that asks for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admittee {
    /// Its static key; `None` for an initiator without one.
    pub peer: Option<PublicKey>,
    /// Shared secret that it names. The connection completes only if the initiator knows the
    /// secret.
    pub secret: Option<SecretId>,
    /// Cipher of the connection. [`Aead::None`] only if
    /// [`ConnectionConfig::dangerously_unencrypted`] allows it.
    pub aead: Aead,
}

/// Shared secrets of a responder. Called while the set of connections is locked: must not wait, and
/// must not call the set.
pub trait Secrets: Send + Sync {
    /// Returns the key of a secret; `None` for an unknown one.
    fn psk(&self, id: SecretId) -> Option<Psk>;

    /// Notes that an initiator has proved its key, if it has one, and the secret. Returns false to
    /// refuse the connection, because the secret is for a single connection or peer and was used
    /// before.
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
        Self { identity, config: ConnectionConfig::default(), secrets, admit: Arc::new(|_| Ok(())) }
    }
}

impl fmt::Debug for ResponderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponderConfig")
            .field("identity", &self.identity)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
