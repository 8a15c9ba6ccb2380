//! Key of a sender.

use rdt_transport::ConnectionId;

/// Sender of transfers to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SenderId<P> {
    /// Sender without authentication, known by its address: classic, or native version 1.
    Address(P),
    /// Encrypted connection (native version 2). Its address may change.
    Connection(ConnectionId),
}

impl<P> From<P> for SenderId<P> {
    fn from(address: P) -> Self {
        Self::Address(address)
    }
}

impl<P: Copy> SenderId<P> {
    /// Returns the address of a sender that is known by it.
    pub fn address(self) -> Option<P> {
        match self {
            Self::Address(address) => Some(address),
            Self::Connection(_) => None,
        }
    }
}
