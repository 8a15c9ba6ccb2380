//! Kernel TCP, alone and with TLS 1.3 of rustls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{REQUEST, answer_to, request_for};

const PORT: u16 = 4003;
const TLS_PORT: u16 = 4004;

/// Stream of bytes with or without TLS.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Bytes for T {}

pub(super) fn server_config(directory: &Path) -> Result<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(directory.join("certificate.pem"))?;
    let key = PrivateKeyDer::from_pem_file(directory.join("key.pem"))?;
    Ok(ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?)
}

pub(super) fn client_config(directory: &Path) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(directory.join("certificate.pem"))?)?;
    Ok(ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

pub(super) async fn serve(host: &str, tls: Option<&Path>) -> Result<()> {
    let listener = TcpListener::bind((host, if tls.is_some() { TLS_PORT } else { PORT })).await?;
    let acceptor = tls.map(server_config).transpose()?.map(|config| TlsAcceptor::from(Arc::new(config)));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Some(acceptor) = acceptor else { return answer(stream).await };
            answer(acceptor.accept(stream).await?).await
        });
    }
}

/// Answers requests until the peer closes its stream.
pub(super) async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    let mut request = [0; REQUEST];
    while stream.read_exact(&mut request).await.is_ok() {
        stream.write_all(&answer_to(&request)).await?;
        stream.flush().await?;
    }
    Ok(stream.shutdown().await?)
}

pub(super) struct Client {
    host: String,
    tls: Option<TlsConnector>,
    kept: Option<Option<Box<dyn Bytes>>>,
}

impl Client {
    pub(super) fn new(host: &str, tls: Option<&Path>, kept: bool) -> Result<Self> {
        let tls = tls.map(PathBuf::from).map(|directory| client_config(&directory)).transpose()?;
        let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Self { host: host.to_owned(), tls, kept: kept.then_some(None) })
    }

    async fn connect(&self) -> Result<Box<dyn Bytes>> {
        let port = if self.tls.is_some() { TLS_PORT } else { PORT };
        let stream = TcpStream::connect((self.host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        Ok(Box::new(tls.connect(ServerName::try_from("localhost")?, stream).await?))
    }

    pub(super) async fn exchange(&mut self, bytes: usize) -> Result<()> {
        if let Some(None) = self.kept {
            self.kept = Some(Some(self.connect().await?));
        }
        if let Some(kept) = &mut self.kept {
            return ask(kept.as_mut().context("opened above")?, bytes).await;
        }
        ask(&mut self.connect().await?, bytes).await
    }
}

/// Sends a request and reads its answer.
pub(super) async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), bytes: usize) -> Result<()> {
    stream.write_all(&request_for(bytes)).await?;
    stream.flush().await?;
    stream.read_exact(&mut vec![0; bytes]).await?;
    Ok(())
}
