//! quinn: QUIC in Rust, over tokio.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ::quinn::congestion::{BbrConfig, CubicConfig};
use ::quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use ::quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use anyhow::{Context as _, Result};
use bytes::Bytes;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use socket2::{Domain, Socket, Type};

use crate::meter::{self, Hello, Meter, SOURCE};
use crate::tls::provider;

pub(crate) const TUNED: &str = "CUBIC, 1472-byte packets, windows of 8 MiB a stream and 16 MiB a connection, \
    4 MiB socket buffers, AES-128-GCM (ring), one thread a process";
pub(crate) const TUNED_BBR: &str = "as quinn, BBR for CUBIC";

/// UDP payload of a full Ethernet packet over IPv4, bytes. rdt's packets have the same size.
const MTU: u16 = 1472;
const STREAM_WINDOW: u32 = 8 << 20;
const SOCKET_BUFFER: usize = 4 << 20;

#[derive(Clone, Copy)]
pub(crate) enum Control {
    Cubic,
    Bbr,
}

fn transport(control: Control) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(2 * STREAM_WINDOW))
        .send_window(u64::from(2 * STREAM_WINDOW))
        .initial_mtu(MTU)
        .mtu_discovery_config(None)
        .max_idle_timeout(Some(Duration::from_secs(20).try_into()?));
    match control {
        Control::Cubic => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        Control::Bbr => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
    };
    Ok(Arc::new(transport))
}

fn endpoint(server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    Ok(Endpoint::new(EndpointConfig::default(), server, UdpSocket::from(socket), Arc::new(TokioRuntime))?)
}

pub(crate) fn receive(bytes: u64, control: Control) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(control)?);
    meter::runtime()?.block_on(async {
        let endpoint = endpoint(Some(config))?;
        meter::print_hello(endpoint.local_addr()?, Some(&made.cert.pem()));
        let connection = endpoint.accept().await.context("the endpoint closed")?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut chunks = vec![Bytes::new(); 64];
        let mut meter = Meter::new(bytes);
        while let Some(filled) = stream.read_chunks(&mut chunks).await? {
            for chunk in &mut chunks[..filled] {
                meter.count(std::mem::take(chunk).len());
            }
        }
        let seconds = meter.seconds();
        connection.closed().await;
        meter.print(seconds, None)
    })
}

pub(crate) fn send(bytes: u64, control: Control) -> Result<()> {
    let hello = Hello::read()?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(hello.certificate()?.as_bytes())?)?;
    let tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(control)?);
    meter::runtime()?.block_on(async {
        let endpoint = endpoint(None)?;
        let connection = endpoint.connect_with(config, hello.address()?, "localhost")?.await?;
        let mut stream = connection.open_uni().await?;
        let source = Bytes::from(meter::source());
        for block in meter::blocks(bytes, SOURCE) {
            stream.write_chunk(source.slice(block)).await?;
        }
        stream.finish()?;
        stream.stopped().await?;
        connection.close(VarInt::from_u32(0), b"");
        endpoint.wait_idle().await;
        meter::print_sent(None)
    })
}
