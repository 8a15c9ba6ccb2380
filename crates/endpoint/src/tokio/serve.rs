//! Interfaces of axum and tonic: both take a listener as it is.

use std::net::SocketAddr;

use rdt_crypto::PublicKey;

#[cfg(any(feature = "axum", feature = "tonic"))]
use super::Listener;
use super::Stream;

/// Other side of a stream, as a server's handlers see it: axum's as `ConnectInfo<Peer>` (feature
/// `axum`), tonic's in the extensions of a request (feature `tonic`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Address at which the connection was accepted. `None` if it has ended since.
    pub address: Option<SocketAddr>,
    /// Static key that the peer has proved to hold, if it has one.
    pub identity: Option<PublicKey>,
}

impl From<&Stream> for Peer {
    fn from(stream: &Stream) -> Self {
        Self { address: stream.peer_addr(), identity: stream.peer_identity() }
    }
}

/// For `axum::serve(listener, router)`, whose handlers get a [`Peer`] from
/// `router.into_make_service_with_connect_info::<Peer>()`.
#[cfg(feature = "axum")]
impl axum::serve::Listener for Listener {
    type Io = Stream;
    type Addr = Peer;

    async fn accept(&mut self) -> (Stream, Peer) {
        match Self::accept(self).await {
            Ok(stream) => {
                let peer = Peer::from(&stream);
                (stream, peer)
            }
            // Nothing can be accepted any more.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns the address of the socket. No identity: a listener does not name its own.
    fn local_addr(&self) -> std::io::Result<Peer> {
        Ok(Peer { address: Some(Self::local_addr(self)), identity: None })
    }
}

#[cfg(feature = "axum")]
impl axum::extract::connect_info::Connected<axum::serve::IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: axum::serve::IncomingStream<'_, Listener>) -> Self {
        *stream.remote_addr()
    }
}

/// For `serve_with_incoming(listener)` of tonic. Ends with the endpoint.
#[cfg(feature = "tonic")]
impl futures_core::Stream for Listener {
    type Item = std::io::Result<Stream>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.poll_accept(cx).map(|accepted| accepted.ok().map(Ok))
    }
}

#[cfg(feature = "tonic")]
impl tonic::transport::server::Connected for Stream {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.into()
    }
}
