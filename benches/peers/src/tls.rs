//! Kernel TCP with TLS 1.3 of rustls over tokio: many connections, as the rows of rdt with many.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Result;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::meter::{self, Hello};
use crate::streams::{self, Shared};

pub(crate) const TUNED: &str = "kernel TCP and rustls (ring) with AES-128-GCM over tokio, 256 KiB a call; else as the \
    rows of rdt with many connections";

/// Returns a provider of only the cheapest cipher, which QUIC uses for its first packets in any
/// case.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

pub(crate) fn receive(bytes: u64, connections: u64) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    meter::runtime()?.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        meter::print_hello(listener.local_addr()?, Some(&made.cert.pem()));
        let shared = Shared::new(bytes / connections * connections);
        let mut streams = Vec::new();
        for _ in 0..connections {
            streams.push(acceptor.accept(listener.accept().await?.0).await?);
        }
        let mut tasks: JoinSet<_> =
            streams.into_iter().map(|stream| take(Arc::clone(&shared), stream)).collect();
        let mut ended = Vec::new();
        while let Some(done) = tasks.join_next().await {
            ended.push(done??);
        }
        let seconds = shared.meter(|meter| meter.seconds());
        for mut stream in ended {
            stream.shutdown().await?;
        }
        shared.meter(|meter| meter.print(seconds, None))
    })
}

async fn take(
    shared: Arc<Shared>,
    mut stream: server::TlsStream<TcpStream>,
) -> Result<server::TlsStream<TcpStream>> {
    streams::read(&shared, &mut stream).await?;
    Ok(stream)
}

pub(crate) fn send(bytes: u64, connections: u64) -> Result<()> {
    let hello = Hello::read()?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(hello.certificate()?.as_bytes())?)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    meter::runtime()?.block_on(async {
        let shared = Shared::new(0);
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(hello.address()?).await?;
            streams.push(connector.connect(ServerName::try_from("localhost")?, stream).await?);
        }
        let each = bytes / connections;
        let mut tasks: JoinSet<_> =
            streams.into_iter().map(|stream| give(Arc::clone(&shared), stream, each)).collect();
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        meter::print_sent(None)
    })
}

/// Writes a stream and waits until the peer closes it.
async fn give(shared: Arc<Shared>, mut stream: client::TlsStream<TcpStream>, bytes: u64) -> Result<()> {
    for block in meter::blocks(bytes, meter::SOURCE) {
        stream.write_all(&shared.source[block]).await?;
    }
    stream.shutdown().await?;
    anyhow::ensure!(stream.read(&mut [0]).await? == 0, "the receiver sent something");
    Ok(())
}
