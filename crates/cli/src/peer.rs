//! Senders as the program names them: the key in the server, the address, and the format.

use rdt_crypto::{Aead, PublicKey};
use rdt_server::{SenderId, Server};
use rdt_transport::ConnectionId;
use rdt_udp::Remote;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    id: SenderId<Remote>,
    /// Address at the beginning. That of a connection may change.
    pub(crate) address: Remote,
}

impl Peer {
    pub(crate) fn native(id: ConnectionId, address: Remote) -> Self {
        Self { id: SenderId::Connection(id), address }
    }

    pub(crate) fn is_native(&self) -> bool {
        self.id.address().is_none()
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
    Native {
        /// [`Aead::None`] for a sender that is not encrypted.
        cipher: Aead,
        /// Key of the sender; `None` if it has shown none, and without encryption.
        key: Option<PublicKey>,
        /// True if the sender knows a shared secret, such as that of a ticket.
        has_secret: bool,
    },
}

impl Format {
    /// Returns the format of the newest transfer of `peer`; `None` if the server has removed it.
    pub(crate) fn of(server: &Server<Remote>, peer: Peer) -> Option<Self> {
        if let Some(connection) = server.connection(peer) {
            let cipher = connection.stats().aead?;
            let key = connection.peer().filter(|_| cipher.is_encrypted());
            return Some(Self::Native { cipher, key, has_secret: connection.secret().is_some() });
        }
        server.classic().last_active(peer.id.address()?).map(|_| Self::Classic)
    }

    /// Returns the name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Native { .. } => "native",
        }
    }

    /// Returns the name of the cipher, if the format has ciphers.
    pub(crate) fn cipher(self) -> Option<&'static str> {
        match self {
            Self::Classic => None,
            Self::Native { cipher, .. } => Some(cipher.name()),
        }
    }

    pub(crate) fn key(self) -> Option<PublicKey> {
        match self {
            Self::Native { key, .. } => key,
            Self::Classic => None,
        }
    }

    pub(crate) fn has_secret(self) -> bool {
        matches!(self, Self::Native { has_secret: true, .. })
    }

    /// Returns the remark that follows the address in a line. Lines about classic senders must be
    /// exactly as in the reference, without a remark.
    pub(crate) fn remark(self) -> String {
        match self {
            Self::Classic => String::new(),
            Self::Native { cipher: Aead::None, .. } => " (native, not encrypted)".into(),
            Self::Native { key: Some(key), .. } => format!(" (native, key {})", key.fingerprint()),
            Self::Native { has_secret: true, .. } => " (native, secret)".into(),
            Self::Native { .. } => " (native, no key)".into(),
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
        let format = |cipher, key, has_secret| Format::Native { cipher, key, has_secret };
        let remark = |key, has_secret| format(Aead::Aes128Gcm, key, has_secret).remark();
        let with_key = format!(" (native, key {})", key.fingerprint());
        assert_eq!([remark(Some(key), true), remark(Some(key), false)], [with_key.clone(), with_key]);
        assert_eq!([remark(None, true), remark(None, false)], [" (native, secret)", " (native, no key)"]);
        assert_eq!(format(Aead::None, None, true).remark(), " (native, not encrypted)");
        assert_eq!(Format::Classic.remark(), "");
    }
}
