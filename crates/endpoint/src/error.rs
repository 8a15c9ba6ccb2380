//! Errors, and their [`io::ErrorKind`].

use std::io;
use std::sync::Arc;

use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Closed, ConfigError, Phase};
use rdt_udp::SocketError;

/// Reason why an endpoint does nothing any more.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The endpoint was closed, or the runtime of its task has ended.
    #[error("the endpoint is closed")]
    Closed,
    /// The socket is unusable.
    #[error(transparent)]
    Socket(Arc<SocketError>),
}

/// Failure of a connect.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The name of the peer has no address, or none that the socket reaches.
    #[error("no address to connect to: {0}")]
    Address(Arc<io::Error>),
    /// The connection ended before the handshake was complete.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// No answer within the timeout of the call.
    #[error("no connection within {0:?}")]
    Timeout(std::time::Duration),
}

/// Failure of listening or accepting.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The endpoint has a listener already.
    #[error("the endpoint has a listener already")]
    AlreadyListening,
    /// The endpoint does nothing any more.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Failure of a stream. It is the source of the [`io::Error`] of a read or write:
/// `error.get_ref()` and `downcast_ref::<StreamError>()` give it back.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The connection is over.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The application has ended the outgoing stream, and writes nevertheless.
    #[error("the stream was shut down for writing")]
    Finished,
    /// The endpoint does nothing any more.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Stopped {
    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Closed => io::ErrorKind::NotConnected,
            Self::Socket(_) => io::ErrorKind::Other,
        }
    }
}

impl StreamError {
    /// Returns the kind of the [`io::Error`] that this error becomes.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Closed(closed) => closed_kind(closed),
            Self::Finished => io::ErrorKind::BrokenPipe,
            Self::Stopped(stopped) => stopped.kind(),
        }
    }
}

fn closed_kind(closed: &Closed) -> io::ErrorKind {
    match closed {
        // A write after both streams were delivered.
        Closed::Finished | Closed::OneWay => io::ErrorKind::BrokenPipe,
        Closed::Local => io::ErrorKind::ConnectionAborted,
        Closed::Peer { reason: CloseReason::Refused, .. } | Closed::Refused(_) | Closed::Unreachable => {
            io::ErrorKind::ConnectionRefused
        }
        Closed::Peer { .. } | Closed::Reset => io::ErrorKind::ConnectionReset,
        Closed::TimedOut(Phase::Connect | Phase::Send | Phase::Close)
        | Closed::NoProgress(_)
        | Closed::Idle => io::ErrorKind::TimedOut,
        Closed::NotTrusted(_) => io::ErrorKind::PermissionDenied,
        Closed::Handshake
        | Closed::ProtocolBroken(_)
        | Closed::InvalidAcks
        | Closed::AeadLimit
        | Closed::Version(_) => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    }
}

impl ConnectError {
    /// Returns how the connection ended, if it was closed.
    pub fn closed(&self) -> Option<&Closed> {
        match self {
            Self::Stream(StreamError::Closed(closed)) => Some(closed),
            _ => None,
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Address(Arc::new(error))
    }
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::Config(_) => io::ErrorKind::InvalidInput,
            ConnectError::Address(error) => error.kind(),
            ConnectError::Stream(error) => error.kind(),
            ConnectError::Timeout(_) => io::ErrorKind::TimedOut,
        };
        Self::new(kind, error)
    }
}

impl From<ListenError> for io::Error {
    fn from(error: ListenError) -> Self {
        let kind = match &error {
            ListenError::AlreadyListening => io::ErrorKind::AddrInUse,
            ListenError::Stopped(stopped) => stopped.kind(),
        };
        Self::new(kind, error)
    }
}

impl From<Stopped> for ConnectError {
    fn from(stopped: Stopped) -> Self {
        Self::Stream(stopped.into())
    }
}
