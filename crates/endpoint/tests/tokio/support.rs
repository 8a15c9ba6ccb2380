//! Endpoints that are connected by an emulated network.

use std::io;
use std::sync::Arc;

use rdt_crypto::{Entropy, PublicKey, StaticKey};
use rdt_endpoint::tokio::{Endpoint, Listener, Stream};
use rdt_endpoint::{Connect, EndpointConfig, Listen, Network, StreamError};
use rdt_testing::Watchdog;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Seed of the networks. A failing test names its network, so that the run can be repeated.
pub(crate) const SEED: u64 = 7;

/// Returns the identity of listeners.
pub(crate) fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])))
}

pub(crate) fn key() -> PublicKey {
    identity().public()
}

/// Two endpoints, of which one listens.
pub(crate) struct Pair {
    pub(crate) network: Network,
    pub(crate) client: Endpoint,
    pub(crate) listener: Listener,
    _watchdog: Watchdog,
}

impl Pair {
    pub(crate) fn new(path: &str) -> Self {
        Self::with(path, Listen::new(identity()))
    }

    pub(crate) fn with(path: &str, listen: Listen) -> Self {
        Self::serving(path, listen, EndpointConfig::default().seed([4; 32]))
    }

    /// The server has this configuration.
    pub(crate) fn serving(path: &str, listen: Listen, config: EndpointConfig) -> Self {
        println!("network '{path}', seed {SEED}");
        let network = Network::new(path, SEED).unwrap();
        let client = Endpoint::on_network(&network).unwrap();
        let listener = Endpoint::on_network_with(&network, config).unwrap().listen(listen).unwrap();
        Self { network, client, listener, _watchdog: Watchdog::new() }
    }

    /// Opens a connection, and returns its streams at the client and at the server.
    pub(crate) async fn connect(&self) -> (Stream, Stream) {
        self.connect_with(Connect::to(key())).await
    }

    pub(crate) async fn connect_with(&self, connect: Connect) -> (Stream, Stream) {
        let (client, server) =
            tokio::join!(self.client.connect(self.listener.local_addr(), connect), self.listener.accept());
        (client.unwrap(), server.unwrap())
    }
}

/// Returns bytes that repeat after 251.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Sends `len` bytes of the pattern, and ends the stream.
pub(crate) async fn send(stream: &mut Stream, len: usize) -> io::Result<()> {
    stream.write_all(&pattern(len)).await?;
    stream.shutdown().await
}

/// Reads to the end, and checks that the bytes are the pattern.
pub(crate) async fn receive(stream: &mut Stream) -> io::Result<usize> {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await?;
    assert!(got == pattern(got.len()), "other bytes than were sent");
    Ok(got.len())
}

/// Returns the typed error inside.
pub(crate) fn typed(error: &io::Error) -> &StreamError {
    error.get_ref().and_then(|inner| inner.downcast_ref()).expect("an error of a stream")
}
