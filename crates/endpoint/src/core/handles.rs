//! Handles of the application. The drop of the last one ends a connection or the endpoint.

use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::{Context, Poll};

use rdt_transport::ConnectionId;

use super::{Core, Shared};
use crate::error::StreamError;

pub(crate) struct EndpointHandle(pub(crate) Arc<Shared>);

impl EndpointHandle {
    pub(crate) fn stream<K>(&self, id: ConnectionId, keeps: K) -> StreamHandle<K> {
        StreamHandle { shared: Arc::clone(&self.0), id, keeps }
    }
}

impl Drop for EndpointHandle {
    fn drop(&mut self) {
        self.0.with(Core::close_endpoint);
    }
}

/// Handle of a connection, and what it keeps, such as its endpoint. The connection ends first.
pub(crate) struct StreamHandle<K> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ConnectionId,
    pub(crate) keeps: K,
}

impl<K> StreamHandle<K> {
    pub(crate) fn poll_read(
        &self,
        cx: &Context<'_>,
        room: usize,
        take: impl FnMut(&[u8]),
    ) -> Poll<Result<usize, StreamError>> {
        self.shared.with(|core, now| core.poll_read(now, self.id, cx, room, take))
    }

    pub(crate) fn poll_write(
        &self,
        cx: &Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, StreamError>> {
        self.shared.with(|core, now| core.poll_write(now, self.id, cx, slices))
    }

    pub(crate) fn poll_delivered(&self, cx: &Context<'_>) -> Poll<Result<u64, StreamError>> {
        self.shared.with(|core, _| core.poll_delivered(self.id, cx))
    }

    pub(crate) fn finish(&self) -> Result<(), StreamError> {
        self.shared.with(|core, now| core.finish(now, self.id))
    }
}

impl<K> Drop for StreamHandle<K> {
    fn drop(&mut self) {
        self.shared.with(|core, now| core.release(now, self.id));
    }
}

impl<K> fmt::Debug for StreamHandle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.id).finish()
    }
}

/// Defines what endpoints and listeners of both interfaces have in common. The first field
/// of `$endpoint` is an `Arc<EndpointHandle>`, and `$listener` has a field `endpoint`.
macro_rules! endpoint_methods {
    ($endpoint:ty, $listener:ty) => {
        impl $endpoint {
            /// Creates an endpoint with an address of its own on an emulated network. Its time is
            /// that of the runtime, which a test may pause, and without a runtime the system's.
            ///
            /// # Errors
            /// If the system has no threads left.
            ///
            /// # Panics
            /// If it needs a runtime: outside of one.
            #[cfg(feature = "emulator")]
            pub fn on_network(network: &crate::Network) -> std::io::Result<Self> {
                Self::on_network_with(network, crate::EndpointConfig::default())
            }

            /// Returns the address of the socket, or on the emulated network.
            pub fn local_addr(&self) -> std::net::SocketAddr {
                self.0.0.address
            }

            /// Closes all connections whose streams exist, and stops listening.
            pub fn close(&self, code: u32, text: &str) {
                self.0.0.with(|core, now| core.close_all(now, code, text));
            }
        }

        impl std::fmt::Debug for $endpoint {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct("Endpoint").field("local_addr", &self.local_addr()).finish_non_exhaustive()
            }
        }

        impl $listener {
            /// Returns the address that peers connect to.
            pub fn local_addr(&self) -> std::net::SocketAddr {
                self.endpoint.local_addr()
            }

            /// Returns the endpoint, for connections in the other direction.
            pub fn endpoint(&self) -> &$endpoint {
                &self.endpoint
            }
        }

        impl Drop for $listener {
            fn drop(&mut self) {
                self.endpoint.0.0.with(|core, now| core.drop_listener(now, &self.backlog));
            }
        }
    };
}
pub(crate) use endpoint_methods;

/// Defines what streams of both interfaces have in common. `$stream` has a field `handle` that
/// leads to a [`StreamHandle`].
macro_rules! stream_methods {
    ($stream:ty) => {
        impl $stream {
            /// Returns the present address of the peer. It changes when the peer's network does.
            /// After the end of the connection it is the last one.
            pub fn peer_addr(&self) -> Option<std::net::SocketAddr> {
                self.handle.shared.with(|core, _| core.peer_address(self.handle.id))
            }

            /// Returns the address of the local endpoint.
            pub fn local_addr(&self) -> std::net::SocketAddr {
                self.handle.shared.address
            }

            /// Returns the static key that the peer has proved to hold, if it has one.
            pub fn peer_identity(&self) -> Option<rdt_crypto::PublicKey> {
                self.handle.shared.with(|core, _| core.peer_identity(self.handle.id))
            }

            /// Returns the peer's cookie, which saves a round trip when this side connects to it
            /// again (`InitiatorConfig::resumption`). Use it once.
            pub fn resumption_cookie(&self) -> Option<rdt_crypto::ResumptionCookie> {
                self.handle.shared.with(|core, _| core.resumption(self.handle.id))
            }

            /// Returns counters and gauges of both streams, also after the end of the connection.
            pub fn stats(&self) -> Option<rdt_transport::ConnectionStats> {
                self.handle.shared.with(|core, _| core.stats(self.handle.id))
            }

            /// True sends small writes at once, each in a packet of its own, as
            /// [`TcpStream::set_nodelay`](std::net::TcpStream::set_nodelay) does. False, the
            /// default, lets a packet that is not full wait for the ACK of an earlier one.
            pub fn set_nodelay(&self, nodelay: bool) {
                let set = |connection: &mut rdt_transport::Connection| connection.set_nodelay(nodelay);
                self.handle.shared.with(|core, now| core.change(now, self.handle.id, set));
            }

            /// Confirms to the peer that its stream was stored. Only of use with
            /// [`Confirm::ByApplication`](rdt_transport::Confirm::ByApplication).
            pub fn confirm(&self) {
                let confirm = rdt_transport::Connection::confirm;
                self.handle.shared.with(|core, now| core.change(now, self.handle.id, confirm));
            }

            /// Returns the name that the peer suggests for its stream. The text comes from the
            /// network: it may contain path separators and control characters.
            pub fn peer_name(&self) -> Option<String> {
                self.handle.shared.with(|core, _| core.peer_name(self.handle.id))
            }

            /// Ends the connection at once, for a reason such as that the stream cannot be stored.
            pub fn abort(&self, reason: rdt_transport::wire::native::CloseReason) {
                self.handle.shared.with(|core, now| {
                    core.change(now, self.handle.id, |connection| connection.abort(now, reason));
                });
            }

            /// Ends the connection at once, without the rest of what was written. The peer's reads
            /// and writes fail with [`Closed::Peer`](rdt_transport::Closed::Peer) and this code and
            /// text; those of this side with [`Closed::Local`](rdt_transport::Closed::Local).
            pub fn close(&self, code: u32, text: &str) {
                self.handle.shared.with(|core, now| core.close(now, self.handle.id, code, text));
            }
        }
    };
}
pub(crate) use stream_methods;
