//! QUIC of quinn and s2n-quic, with everything as it is by default but the trusted certificate.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use s2n_quic::client::Connect;

use super::{REQUEST, answer_to, request_for, tcp};

const QUINN_PORT: u16 = 4001;
const S2N_PORT: u16 = 4002;

pub(super) async fn serve_quinn(host: &str, directory: &Path) -> Result<()> {
    let mut tls = tcp::server_config(directory)?;
    tls.max_early_data_size = u32::MAX;
    let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = quinn::Endpoint::server(config, format!("{host}:{QUINN_PORT}").parse()?)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            // Ready at once, so that the request of a resumed session is answered before its end.
            let connection = match incoming.accept()?.into_0rtt() {
                Ok((connection, _)) => connection,
                Err(connecting) => connecting.await?,
            };
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let mut request = [0; REQUEST];
                receive.read_exact(&mut request).await?;
                send.write_all(&answer_to(&request)).await?;
                send.finish()?;
            }
            anyhow::Ok(())
        });
    }
    Ok(())
}

pub(super) struct QuinnClient {
    endpoint: quinn::Endpoint,
    address: SocketAddr,
    kept: bool,
    early: bool,
    connection: Option<quinn::Connection>,
}

impl QuinnClient {
    pub(super) fn new(host: &str, directory: &Path, kept: bool, early: bool) -> Result<Self> {
        let mut tls = tcp::client_config(directory)?;
        tls.enable_early_data = early;
        if !early {
            tls.resumption = rustls::client::Resumption::disabled();
        }
        let mut endpoint = quinn::Endpoint::client("0.0.0.0:0".parse()?)?;
        endpoint
            .set_default_client_config(quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
        let address = format!("{host}:{QUINN_PORT}").parse()?;
        Ok(Self { endpoint, address, kept, early, connection: None })
    }

    pub(super) async fn exchange(&mut self, bytes: usize) -> Result<()> {
        if !self.kept || self.connection.is_none() {
            let connecting = self.endpoint.connect(self.address, "localhost")?;
            self.connection = Some(match self.early {
                true => match connecting.into_0rtt() {
                    Ok((connection, _)) => connection,
                    Err(connecting) => connecting.await?,
                },
                false => connecting.await?,
            });
        }
        let connection = self.connection.as_ref().context("opened above")?;
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(&request_for(bytes)).await?;
        send.finish()?;
        let answer = receive.read_to_end(bytes).await?;
        ensure!(answer.len() == bytes, "the answer is short");
        if !self.kept {
            connection.close(0u32.into(), b"");
        }
        Ok(())
    }
}

pub(super) async fn serve_s2n(host: &str, directory: &Path) -> Result<()> {
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    let mut server = s2n_quic::Server::builder()
        .with_tls((certificate.as_path(), key.as_path()))?
        .with_io(format!("{host}:{S2N_PORT}").parse::<SocketAddr>()?)?
        .start()?;
    while let Some(mut connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(Some(mut stream)) = connection.accept_bidirectional_stream().await {
                let mut request = Vec::new();
                while let Some(chunk) = stream.receive().await? {
                    request.extend_from_slice(&chunk);
                }
                let request = request.as_slice().try_into().context("a request has a fixed length")?;
                stream.send(Bytes::from(answer_to(request))).await?;
                stream.finish()?;
            }
            anyhow::Ok(())
        });
    }
    Ok(())
}

pub(super) struct S2nClient {
    client: s2n_quic::Client,
    address: SocketAddr,
    kept: bool,
    connection: Option<s2n_quic::Connection>,
}

impl S2nClient {
    pub(super) fn new(host: &str, directory: &Path, kept: bool) -> Result<Self> {
        let client = s2n_quic::Client::builder()
            .with_tls(directory.join("certificate.pem").as_path())?
            .with_io("0.0.0.0:0".parse::<SocketAddr>()?)?
            .start()?;
        Ok(Self { client, address: format!("{host}:{S2N_PORT}").parse()?, kept, connection: None })
    }

    pub(super) async fn exchange(&mut self, bytes: usize) -> Result<()> {
        if !self.kept || self.connection.is_none() {
            let connect = Connect::new(self.address).with_server_name("localhost");
            let mut connection = self.client.connect(connect).await?;
            connection.keep_alive(self.kept)?;
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut().context("opened above")?;
        let mut stream = connection.open_bidirectional_stream().await?;
        stream.send(Bytes::copy_from_slice(&request_for(bytes))).await?;
        stream.finish()?;
        let mut received = 0;
        while let Some(chunk) = stream.receive().await? {
            received += chunk.len();
        }
        ensure!(received == bytes, "the answer is short");
        if !self.kept {
            connection.close(0u32.into());
        }
        Ok(())
    }
}
