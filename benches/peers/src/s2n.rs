//! s2n-quic: QUIC in Rust, with a TLS library and ciphers in C.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::io::tokio::Provider as Io;
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};

use crate::meter::{self, Hello, Meter, SOURCE};

pub(crate) const TUNED: &str = "CUBIC, 1472-byte packets (`with_max_mtu(1500)`), GSO and GRO, windows of 8 MiB \
    a stream and 16 MiB a connection, 4 MiB socket buffers, 1 MiB rings, one thread a process";

/// MTU with IP and UDP headers, as this library counts, bytes.
const MTU: u16 = 1500;
const STREAM_WINDOW: u32 = 8 << 20;
const SOCKET_BUFFER: usize = 4 << 20;
/// Size of the rings between library and socket, bytes. The default receive ring of 8 MiB does not
/// fit the caches.
const RING: usize = 1 << 20;

fn limits() -> Result<Limits> {
    Ok(Limits::new()
        .with_data_window(u64::from(2 * STREAM_WINDOW))?
        .with_unidirectional_data_window(u64::from(STREAM_WINDOW))?
        .with_max_send_buffer_size(2 * STREAM_WINDOW)?
        .with_max_idle_timeout(Duration::from_secs(20))?)
}

fn io() -> Result<Io> {
    Ok(Io::builder()
        .with_receive_address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
        .with_send_buffer_size(SOCKET_BUFFER)?
        .with_recv_buffer_size(SOCKET_BUFFER)?
        .with_internal_send_buffer_size(RING)?
        .with_internal_recv_buffer_size(RING)?
        .with_max_mtu(MTU)?
        .with_initial_mtu(MTU)?
        .build()?)
}

pub(crate) fn receive(bytes: u64) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    meter::runtime()?.block_on(async {
        let mut server = Server::builder()
            .with_tls((certificate.as_str(), key.as_str()))?
            .with_io(io()?)?
            .with_limits(limits()?)?
            .start()?;
        meter::print_hello(server.local_addr()?, Some(&certificate));
        let mut connection = server.accept().await.context("the server closed")?;
        let mut stream = connection.accept_receive_stream().await?.context("no stream")?;
        let mut chunks = vec![Bytes::new(); 64];
        let mut meter = Meter::new(bytes);
        let mut open = true;
        while open {
            let filled;
            (filled, open) = stream.receive_vectored(&mut chunks).await?;
            for chunk in &mut chunks[..filled] {
                meter.count(std::mem::take(chunk).len());
            }
        }
        let seconds = meter.seconds();
        // Returns no stream or an error when the sender has closed the connection.
        let _ = connection.accept_receive_stream().await;
        meter.print(seconds, None)
    })
}

pub(crate) fn send(bytes: u64) -> Result<()> {
    let hello = Hello::read()?;
    meter::runtime()?.block_on(async {
        let mut client = Client::builder()
            .with_tls(hello.certificate()?)?
            .with_io(io()?)?
            .with_limits(limits()?)?
            .start()?;
        let connect = Connect::new(hello.address()?).with_server_name("localhost");
        let mut connection = client.connect(connect).await?;
        let mut stream = connection.open_send_stream().await?;
        let source = Bytes::from(meter::source());
        for block in meter::blocks(bytes, SOURCE) {
            stream.send(source.slice(block)).await?;
        }
        // Returns when all bytes are acknowledged.
        stream.close().await?;
        connection.close(0u32.into());
        client.wait_idle().await?;
        meter::print_sent(None)
    })
}
