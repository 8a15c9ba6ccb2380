//! Connections from this side to one peer: addresses, keys, and whether the peer answers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdt_crypto::ResumptionCookie;
use rdt_endpoint::tokio::{Endpoint, Stream};
use rdt_endpoint::{Connect, ConnectError, EndpointConfig, StreamError};
use rdt_program::Failure;
use rdt_program::exit::{PEER_CLOSED, TIMEOUT};
use rdt_transport::{Closed, ConnectionConfig, InitiatorConfig};
use rdt_trust::{Dialer, PathOptions, Remote, bind_towards, race, resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::args::MemoryArgs;
use crate::protocol::{OPEN, PeerEnd, connection};
use crate::report::Report;

/// Time for the answer to the test of a new link.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest number of cookies kept. Each connection brings one and uses one.
const MAX_COOKIES: usize = 16;

/// Link to one peer, shared by all connections to it.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Endpoint,
    dialer: Arc<Dialer>,
    remote: Remote,
    config: ConnectionConfig,
    report: Report,
    /// Addresses to try: first the one that answered last. Empty: resolve the name.
    addresses: Mutex<Vec<SocketAddr>>,
    /// Resumption cookies. Each saves the round trip of the RETRY in one handshake.
    cookies: Mutex<Vec<ResumptionCookie>>,
    /// True while the peer is presumed reachable: after a connection opened, until one is lost.
    answers: AtomicBool,
    /// True after the first connection that was lost.
    was_lost: AtomicBool,
}

impl Link {
    pub(crate) async fn new(
        remote: Remote,
        dialer: Dialer,
        (path, memory): (&PathOptions, &MemoryArgs),
        report: &Report,
    ) -> Result<Self, Failure> {
        let addresses = resolve(&remote).await?;
        let endpoint = bind_towards(&addresses, |any| {
            let mut config = EndpointConfig::default();
            memory.limit(&mut config);
            Endpoint::bind(any, config).map_err(|error| Failure::bind(any, error))
        })?;
        Ok(Self::over(endpoint, remote, dialer, path, report))
    }

    pub(crate) fn over(
        endpoint: Endpoint,
        remote: Remote,
        dialer: Dialer,
        path: &PathOptions,
        report: &Report,
    ) -> Self {
        Self {
            endpoint,
            dialer: Arc::new(dialer),
            remote,
            config: connection(path),
            report: report.clone(),
            addresses: Mutex::default(),
            cookies: Mutex::default(),
            answers: AtomicBool::new(false),
            was_lost: AtomicBool::new(false),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn name(&self) -> String {
        self.remote.name()
    }

    /// Tests whether the peer answers, has the right key, and admits this side.
    pub(crate) async fn test(&self) -> Result<(), Failure> {
        let mut stream = self.connect().await?;
        let ended = async {
            stream.shutdown().await?;
            stream.read(&mut [0]).await
        };
        match timeout(TEST_TIMEOUT, ended).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.failure(PeerEnd::of_error(&error))),
            Err(_) => Err(self.failure(PeerEnd::Lost("the test connection hangs".into()))),
        }
    }

    /// Opens a connection to the target of the tunnel.
    pub(crate) async fn open(&self) -> Result<Stream, Failure> {
        let mut stream = self.connect().await?;
        match stream.write_all(&[OPEN]).await {
            Ok(()) => Ok(stream),
            Err(error) => Err(self.failure(PeerEnd::of_error(&error))),
        }
    }

    /// Notes how a connection ended, and says once that the peer is gone.
    pub(crate) fn note_end(&self, end: &PeerEnd) {
        if let PeerEnd::Lost(why) = end
            && self.answers.swap(false, Ordering::Relaxed)
        {
            self.was_lost.store(true, Ordering::Relaxed);
            let name = self.name();
            self.report.remark(&format!("{name} is gone: {why}. New connections will be tried"));
            self.report.event(|| serde_json::json!({ "event": "lost", "peer": name, "text": why }));
        }
    }

    async fn connect(&self) -> Result<Stream, Failure> {
        let mut addresses = self.addresses().clone();
        if addresses.is_empty() {
            addresses = resolve(&self.remote).await?;
        }
        match race(&self.endpoint, &addresses, &self.dialer, |keys| self.connect_config(keys)).await {
            Ok(stream) => {
                if let Some(address) = stream.peer_addr() {
                    addresses.retain(|other| *other != address);
                    addresses.insert(0, address);
                }
                *self.addresses() = addresses;
                if let Some(cookie) = stream.resumption_cookie() {
                    let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
                    cookies.truncate(MAX_COOKIES - 1);
                    cookies.push(cookie);
                }
                if !self.answers.swap(true, Ordering::Relaxed) && self.was_lost.load(Ordering::Relaxed) {
                    let name = self.name();
                    self.report.remark(&format!("{name} answers again"));
                    self.report.event(|| serde_json::json!({ "event": "restored", "peer": name }));
                }
                Ok(stream)
            }
            Err(error) => {
                // The name may have another address by now.
                self.addresses().clear();
                Err(self.connect_failure(error))
            }
        }
    }

    fn connect_config(&self, keys: InitiatorConfig) -> Connect {
        let resumption = self.cookies.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let initiator = InitiatorConfig { resumption, ..keys };
        Connect::with(initiator).config(self.config.clone())
    }

    fn addresses(&self) -> std::sync::MutexGuard<'_, Vec<SocketAddr>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect_failure(&self, error: ConnectError) -> Failure {
        match error {
            ConnectError::Stream(StreamError::Closed(closed)) => {
                if let Some(refusal) = self.dialer.refusal(&self.name(), &closed) {
                    return refusal.into();
                }
                let end = PeerEnd::of_closed(&closed);
                self.note_end(&end);
                self.failure(end)
            }
            _ => self.failure(PeerEnd::Other(error.to_string())),
        }
    }

    /// Returns the failure of a connection that was open, or that the peer refused.
    pub(crate) fn failure(&self, end: PeerEnd) -> Failure {
        let name = self.name();
        let refusal = match end {
            PeerEnd::Refused(reason) => self.dialer.refusal(&name, &Closed::Refused(reason)),
            _ => None,
        };
        let code = if matches!(end, PeerEnd::Lost(_)) { TIMEOUT } else { PEER_CLOSED };
        refusal.map_or_else(|| Failure::new(code, format_args!("{name}: {end}")).because(end), Failure::from)
    }
}
