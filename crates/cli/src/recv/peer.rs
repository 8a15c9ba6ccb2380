//! Senders as the program names them: the key in the server, the address, and the format.

use rdt_crypto::PublicKey;
use rdt_server::{SenderId, Server};
use rdt_transport::{ConnectionId, Wire};
use rdt_udp::Remote;

/// Sender of transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    id: SenderId<Remote>,
    /// Address at the beginning. That of an encrypted connection may change.
    pub(crate) address: Remote,
}

impl Peer {
    /// Returns an encrypted sender that connected from `address`.
    pub(crate) fn encrypted(id: ConnectionId, address: Remote) -> Self {
        Self { id: SenderId::Connection(id), address }
    }
}

impl From<Remote> for Peer {
    fn from(address: Remote) -> Self {
        Self { id: SenderId::Address(address), address }
    }
}

#[cfg(test)]
impl From<std::net::SocketAddr> for Peer {
    fn from(address: std::net::SocketAddr) -> Self {
        Remote::from(address).into()
    }
}

impl From<Peer> for SenderId<Remote> {
    fn from(peer: Peer) -> Self {
        peer.id
    }
}

/// Format of a transfer, and what is known of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Classic,
    /// Version 1 of the native format.
    Native,
    /// Version 2 of the native format.
    Encrypted {
        /// Key of the sender; `None` if it has shown none.
        key: Option<PublicKey>,
        /// True if the sender knows a shared secret, such as that of a ticket.
        has_secret: bool,
    },
}

impl Format {
    /// Returns the format of the newest transfer of `peer`; `None` if the server has removed it.
    pub(crate) fn of(server: &Server<Remote>, peer: Peer) -> Option<Self> {
        if let Some(connection) = server.connection(peer) {
            let (key, has_secret) = (connection.peer(), connection.secret().is_some());
            return Some(Self::Encrypted { key, has_secret });
        }
        Some(match server.listener().wire(peer.id.address()?)? {
            Wire::Classic => Self::Classic,
            Wire::Native { .. } => Self::Native,
        })
    }

    /// Returns the name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Native => "native",
            Self::Encrypted { .. } => "native 2",
        }
    }

    /// Returns the sender's public key.
    pub(crate) fn key(self) -> Option<PublicKey> {
        match self {
            Self::Encrypted { key, .. } => key,
            Self::Classic | Self::Native => None,
        }
    }

    pub(crate) fn has_secret(self) -> bool {
        matches!(self, Self::Encrypted { has_secret: true, .. })
    }

    /// Returns the remark that follows the address in a line. Lines about classic senders must be
    /// exactly as in the reference, without a remark.
    pub(crate) fn remark(self) -> String {
        match self {
            Self::Classic => String::new(),
            Self::Native => " (native)".into(),
            Self::Encrypted { key: Some(key), .. } => format!(" (native 2, key {})", key.fingerprint()),
            Self::Encrypted { has_secret: true, .. } => " (native 2, secret)".into(),
            Self::Encrypted { .. } => " (native 2, no key)".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rdt_crypto::StaticKey;

    use super::*;

    #[test]
    fn remark_names_key_before_secret() {
        let key = StaticKey::from_bytes([1; 32]).public();
        let remark = |key, has_secret| Format::Encrypted { key, has_secret }.remark();
        let with_key = format!(" (native 2, key {})", key.fingerprint());
        assert_eq!([remark(Some(key), true), remark(Some(key), false)], [with_key.clone(), with_key]);
        assert_eq!([remark(None, true), remark(None, false)], [" (native 2, secret)", " (native 2, no key)"]);
        assert_eq!([Format::Classic.remark(), Format::Native.remark()], ["", " (native)"]);
    }
}
