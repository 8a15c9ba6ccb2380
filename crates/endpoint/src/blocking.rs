//! Endpoints and streams for threads: calls wait. Needs no runtime.

mod driver;
mod stream;
mod wait;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::Duration;

use rdt_transport::ConnectionId;

use crate::config::{Connect, EndpointConfig, Listen};
use crate::core::handles::{EndpointHandle, endpoint_methods};
use crate::core::{Backlog, Core, Shared};
use crate::error::{ConnectError, ListenError};
use crate::io::Io;
#[cfg(feature = "emulator")]
use crate::network::Network;
use crate::race::{Race, bind_towards};
use driver::Driver;
use stream::Keeps;
pub use stream::Stream;
use wait::Wait;

/// One UDP socket with any number of connections, opened by both sides. Clones are the same
/// endpoint.
///
/// A call that waits does the endpoint's work. If several calls wait, or none, a thread of the
/// endpoint does it. Connections of dropped streams continue in the background until all is
/// delivered. The drop of the last clone waits for that, for at most 30 s, because the program may
/// end next; [`Endpoint::wait_idle`] waits longer, and says whether all was delivered. Then
/// connections whose streams exist are closed.
#[derive(Clone)]
pub struct Endpoint(Arc<EndpointHandle>, Arc<Driver>);

impl Endpoint {
    /// Binds a UDP socket to `address`, such as `"[::]:7300"`, which accepts IPv4 too.
    ///
    /// # Errors
    /// If the address is in use or not local, or the system has no sockets or threads left.
    pub fn bind(address: impl ToSocketAddrs, config: EndpointConfig) -> io::Result<Self> {
        let io = Io::bind(address, config.udp)?;
        Self::spawn(io, config)
    }

    /// Same as [`Endpoint::on_network`], with a configuration.
    ///
    /// # Errors
    /// If the system has no threads left.
    #[cfg(feature = "emulator")]
    pub fn on_network_with(network: &Network, config: EndpointConfig) -> io::Result<Self> {
        let config = config.or_seed(network.next_seed());
        Self::spawn(Io::Network(network.port(rdt_udp::clock::now)), config)
    }

    fn spawn(io: Io, config: EndpointConfig) -> io::Result<Self> {
        let wait = Wait::on(&io)?;
        let shared = Shared::new(io, config, rdt_udp::clock::now)?;
        let driver = Driver::spawn(Arc::clone(&shared), wait)?;
        Ok(Self(Arc::new(EndpointHandle(shared)), driver))
    }

    fn stream(&self, id: ConnectionId, owned: Option<Self>) -> Stream {
        Stream::new(self.0.stream(id, Keeps::new(Arc::clone(&self.1), owned)))
    }

    /// Opens a connection and waits for the handshake. If the peer has several addresses, each is
    /// tried 250 ms after the one before, and the first one that answers wins (RFC 8305).
    ///
    /// # Errors
    /// If the configuration is invalid, the name has no address, the peer refuses or is not
    /// trusted, or does not answer for `config.sender.handshake_give_up`. With
    /// [`Connect::trusting`] and without a secret, the peer learns the local key last: a refusal is
    /// then the error of the first read, and of writes. So is every failure of a further connection
    /// with the same keys to the same address, for an hour: it is open at once, without a
    /// handshake, and its first data leaves with it.
    pub fn connect(&self, peer: impl ToSocketAddrs, connect: Connect) -> Result<Stream, ConnectError> {
        self.connect_first(&addresses_of(peer)?, connect, None, None)
    }

    /// Same as [`Endpoint::connect`], but gives up after `timeout`, in which the lookup of a name
    /// does not count.
    ///
    /// # Errors
    /// As [`Endpoint::connect`], and [`ConnectError::Timeout`].
    pub fn connect_timeout(
        &self,
        peer: impl ToSocketAddrs,
        connect: Connect,
        timeout: Duration,
    ) -> Result<Stream, ConnectError> {
        self.connect_first(&addresses_of(peer)?, connect, Some(timeout), None)
    }

    fn connect_first(
        &self,
        addresses: &[SocketAddr],
        connect: Connect,
        timeout: Option<Duration>,
        owned: Option<&Self>,
    ) -> Result<Stream, ConnectError> {
        let mut race = Race::new(self.local_addr(), addresses, connect);
        let stream = |id| self.stream(id, owned.cloned());
        let poll = |cx: &mut Context<'_>| race.poll(&self.0.0, cx, stream);
        match timeout {
            Some(limit) => self.1.block_on(timeout, poll).unwrap_or(Err(ConnectError::Timeout(limit))),
            None => self.1.wait_for(poll),
        }
    }

    /// Accepts connections from now on. Before, and after the listener was dropped, handshakes get
    /// no answer.
    ///
    /// # Errors
    /// If the endpoint has a listener, or is stopped.
    pub fn listen(&self, listen: Listen) -> Result<Listener, ListenError> {
        let backlog = self.0.0.with(|core, _| core.listen(listen))?;
        Ok(Listener { endpoint: self.clone(), backlog, timeout: Mutex::new(None) })
    }

    /// Waits for at most `timeout` until no connection is left: every stream is dropped, what was
    /// written is delivered, and lost answers were repeated. Returns false after the timeout.
    pub fn wait_idle(&self, timeout: Option<Duration>) -> bool {
        self.1.block_on(timeout, |cx| self.0.0.with(|core, _| core.poll_idle(cx))).is_some()
    }

    /// Ends the endpoint gracefully: accepts no more connections, [waits until none is
    /// left](Self::wait_idle), for at most `limit`, then closes those whose streams exist. Returns
    /// true if all that was written was delivered. What dropped streams have left is still sent as
    /// long as a handle of the endpoint exists; the drop of the last one waits no more.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.0.0.with(Core::stop_listening);
        self.wait_idle(Some(limit));
        self.0.0.with(Core::end_shutdown)
    }
}

endpoint_methods!(Endpoint, Listener);

/// Longest wait of the drop of an endpoint.
const DROP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks, if another call does the endpoint's work meanwhile.
const DROP_INTERVAL: Duration = Duration::from_millis(20);

impl Drop for Endpoint {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) > 1 || std::thread::panicking() {
            return;
        }
        let deadline = rdt_udp::clock::now() + DROP_TIMEOUT;
        while rdt_udp::clock::now() < deadline {
            let poll_delivered = |_: &mut Context<'_>| self.0.0.with(|core, _| core.poll_delivered_all());
            if self.1.block_on(Some(DROP_INTERVAL), poll_delivered).is_some() {
                return;
            }
        }
    }
}

/// Connections that peers open. Keeps its endpoint open. Its drop closes those not accepted.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    backlog: Backlog,
    timeout: Mutex<Option<Duration>>,
}

impl Listener {
    /// Waits for the next connection, in the order in which handshakes completed.
    ///
    /// # Errors
    /// If the endpoint is closed or stopped. [`io::ErrorKind::WouldBlock`] after the timeout.
    pub fn accept(&self) -> io::Result<Stream> {
        let timeout = *self.timeout.lock().unwrap_or_else(PoisonError::into_inner);
        let EndpointHandle(shared) = &*self.endpoint.0;
        let poll = |cx: &mut Context<'_>| shared.with(|core, _| core.poll_accept(cx, &self.backlog));
        match self.endpoint.1.block_on(timeout, poll) {
            Some(accepted) => Ok(self.endpoint.stream(accepted?, None)),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Iterates over the connections, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<Stream>> {
        std::iter::repeat_with(|| self.accept())
    }

    /// Limits the wait of [`Listener::accept`]. `None`, the default, is no limit.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
    }
}

/// Opens a connection over an endpoint of its own, such as to `"host.example:7300"`.
///
/// # Errors
/// As [`Endpoint::bind`] and [`Endpoint::connect`].
pub fn connect(peer: impl ToSocketAddrs, connect: Connect) -> io::Result<Stream> {
    let addresses = addresses_of(peer)?;
    let endpoint = bind_towards(&addresses, |any| Endpoint::bind(any, EndpointConfig::default()))?;
    Ok(endpoint.connect_first(&addresses, connect, None, Some(&endpoint))?)
}

fn addresses_of(peer: impl ToSocketAddrs) -> Result<Vec<SocketAddr>, ConnectError> {
    Ok(peer.to_socket_addrs()?.collect())
}
