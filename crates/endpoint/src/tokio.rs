//! Endpoints and streams for tokio. They need a runtime with I/O, and on systems other than Linux
//! or with an emulated network also with time (`enable_all`).

mod driver;
mod readiness;
mod serve;
mod stream;
mod timer;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ::tokio::net::{ToSocketAddrs, lookup_host};

use crate::clock::Clock;
use crate::config::{Connect, EndpointConfig, Listen};
use crate::core::handles::{EndpointHandle, endpoint_methods};
use crate::core::{Backlog, Core, Shared};
use crate::error::{ConnectError, ListenError, Stopped};
use crate::io::Io;
#[cfg(feature = "emulator")]
use crate::network::Network;
use crate::race::{Race, bind_towards};
use driver::Driver;
use readiness::Readiness;
pub use serve::Peer;
pub use stream::{ReadHalf, Stream, WriteHalf};
use timer::Timer;

/// One UDP socket with any number of connections, opened by both sides. Clones are the same
/// endpoint.
///
/// Its work is done by a task of the runtime in which it was created, and by the calls of its
/// streams. When the last clone is dropped, connections whose streams exist are closed at once.
/// Connections of dropped streams continue in the background until all is delivered; before the
/// runtime ends, wait for that with [`Endpoint::wait_idle`].
#[derive(Clone)]
pub struct Endpoint(Arc<EndpointHandle>);

impl Endpoint {
    /// Binds a UDP socket to `address`, such as `"[::]:7300"`, which accepts IPv4 too. A name would
    /// be looked up by this thread.
    ///
    /// # Errors
    /// If the address is in use or not local, or the system has no sockets or timers left.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn bind(address: impl std::net::ToSocketAddrs, config: EndpointConfig) -> io::Result<Self> {
        let io = Io::bind(address, config.udp)?;
        let socket = io.socket().map(Readiness::new).transpose()?;
        let timer = Timer::of_socket()?;
        Self::spawn(io, config, rdt_udp::clock::now, socket, timer)
    }

    /// Same as [`Endpoint::on_network`], with a configuration.
    ///
    /// # Errors
    /// As [`Endpoint::on_network`].
    #[cfg(feature = "emulator")]
    pub fn on_network_with(network: &Network, config: EndpointConfig) -> io::Result<Self> {
        let clock: Clock = || ::tokio::time::Instant::now().into_std();
        let config = config.or_seed(network.next_seed());
        Self::spawn(Io::Network(network.port(clock)), config, clock, None, Timer::of_runtime())
    }

    fn spawn(
        io: Io,
        config: EndpointConfig,
        clock: Clock,
        socket: Option<Readiness>,
        timer: Timer,
    ) -> io::Result<Self> {
        let shared = Shared::new(io, config, clock)?;
        shared.with(|core, _| core.has_one_task = true);
        ::tokio::spawn(Driver::new(Arc::clone(&shared), socket, timer));
        Ok(Self(Arc::new(EndpointHandle(shared))))
    }

    /// Opens a connection and waits for the handshake: to the first address of the peer that
    /// answers, as [`blocking::Endpoint::connect`](crate::blocking::Endpoint::connect). Cancel
    /// safe: a dropped call gives the connection up.
    ///
    /// # Errors
    /// As [`blocking::Endpoint::connect`](crate::blocking::Endpoint::connect).
    pub async fn connect(&self, peer: impl ToSocketAddrs, connect: Connect) -> Result<Stream, ConnectError> {
        let addresses: Vec<_> = lookup_host(peer).await?.collect();
        self.connect_first(&addresses, connect, None).await
    }

    async fn connect_first(
        &self,
        addresses: &[SocketAddr],
        connect: Connect,
        owned: Option<&Self>,
    ) -> Result<Stream, ConnectError> {
        let mut race = Race::new(self.local_addr(), addresses, connect);
        let stream = |id| Stream::new(self.0.stream(id, owned.cloned()));
        poll_fn(|cx| race.poll(&self.0.0, cx, stream)).await
    }

    /// Accepts connections from now on. Before, and after the listener was dropped, handshakes get
    /// no answer.
    ///
    /// # Errors
    /// If the endpoint has a listener, or is stopped.
    pub fn listen(&self, listen: Listen) -> Result<Listener, ListenError> {
        let backlog = self.0.0.with(|core, _| core.listen(listen))?;
        Ok(Listener { endpoint: self.clone(), backlog })
    }

    /// Waits until the endpoint has ended: its socket failed, or the runtime of its task ends.
    /// Returns why. Cancel safe.
    pub async fn stopped(&self) -> Stopped {
        let shared = &*self.0.0;
        wait(shared, Core::forget_idler, |cx| shared.with(|core, _| core.poll_stopped(cx))).await
    }

    /// Waits until no connection is left: every stream is dropped, what was written is delivered,
    /// and answers that got lost were repeated. Cancel safe.
    pub async fn wait_idle(&self) {
        let shared = &*self.0.0;
        wait(shared, Core::forget_idler, |cx| shared.with(|core, _| core.poll_idle(cx))).await;
    }

    /// Ends the endpoint gracefully: accepts no more connections, [waits until none is
    /// left](Self::wait_idle), for at most `limit`, then closes those whose streams exist. Returns
    /// true if all that was written was delivered. What dropped streams have left is still sent as
    /// long as a handle of the endpoint exists. Cancel safe.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.0.0.with(Core::stop_listening);
        let _ = tokio::time::timeout(limit, self.wait_idle()).await;
        self.0.0.with(Core::end_shutdown)
    }
}

endpoint_methods!(Endpoint, Listener);

/// Connections that peers open. Keeps its endpoint open. Its drop closes those not accepted.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    backlog: Backlog,
}

impl Listener {
    /// Waits for the next connection, in the order in which handshakes completed. Cancel safe: a
    /// dropped call loses no connection.
    ///
    /// # Errors
    /// If the endpoint is closed or stopped.
    pub async fn accept(&self) -> Result<Stream, ListenError> {
        wait(&self.endpoint.0.0, Core::forget_acceptor, |cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&self, cx: &Context<'_>) -> Poll<Result<Stream, ListenError>> {
        let EndpointHandle(shared) = &*self.endpoint.0;
        let id = ready!(shared.with(|core, _| core.poll_accept(cx, &self.backlog)))?;
        Poll::Ready(Ok(Stream::new(self.endpoint.0.stream(id, None))))
    }
}

/// Opens a connection over an endpoint of its own, such as to `"host.example:7300"`.
///
/// # Errors
/// As [`Endpoint::bind`] and [`Endpoint::connect`].
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn connect(peer: impl ToSocketAddrs, connect: Connect) -> io::Result<Stream> {
    let addresses: Vec<_> = lookup_host(peer).await.map_err(ConnectError::from)?.collect();
    let endpoint = bind_towards(&addresses, |any| Endpoint::bind(any, EndpointConfig::default()))?;
    Ok(endpoint.connect_first(&addresses, connect, Some(&endpoint)).await?)
}

/// Registers the descriptor of a socket or timer with the runtime's reactor.
#[cfg(unix)]
fn register<T: std::os::fd::AsRawFd>(
    fd: Arc<T>,
    interest: ::tokio::io::Interest,
) -> io::Result<::tokio::io::unix::AsyncFd<Arc<T>>> {
    // SAFETY: `AsyncFd` holds the socket or timer, so its descriptor stays open and the same until
    // it is deregistered.
    #[expect(unsafe_code, reason = "tokio cannot check that a type keeps its descriptor")]
    let registered = unsafe { ::tokio::io::unix::AsyncFd::register_with_interest(fd, interest) };
    Ok(registered?)
}

/// Waits until `poll` is ready. If the call is dropped before, `forget` removes its waker.
async fn wait<T>(
    shared: &Shared,
    forget: impl Fn(&mut Core, &Waker),
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> T {
    let mut call = Call { shared, forget, waker: None };
    poll_fn(|cx| {
        let result = poll(cx);
        call.waker = result.is_pending().then(|| cx.waker().clone());
        result
    })
    .await
}

struct Call<'a, F: Fn(&mut Core, &Waker)> {
    shared: &'a Shared,
    forget: F,
    /// Waker that the core has, while the call waits.
    waker: Option<Waker>,
}

impl<F: Fn(&mut Core, &Waker)> Drop for Call<'_, F> {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            self.shared.with(|core, _| (self.forget)(core, &waker));
        }
    }
}
