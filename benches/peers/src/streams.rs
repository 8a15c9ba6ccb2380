//! Byte streams of `rdt-endpoint`, as an application uses them: over tokio and blocking, one way
//! and both ways, one connection and many of one endpoint.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};

use anyhow::{Result, ensure};
use rdt_endpoint::{Connect, EndpointConfig, Listen, blocking, tokio as rdt_tokio};
use rdt_transport::ConnectionConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::meter::{self, Hello, Meter};
use crate::sealed;

pub(crate) const TUNED: &str = "streams of `rdt-endpoint`, a current-thread runtime a process, 256 KiB a call; else as \
    the row of the thread that reads";
pub(crate) const TUNED_DEFAULTS: &str = "the same, but nothing is tuned: BBR, pacing, default windows";
pub(crate) const TUNED_BLOCKING: &str =
    "the same, blocking: a thread of the endpoint and one of the application a process";
pub(crate) const TUNED_DUPLEX: &str =
    "over tokio, half of the bytes each way at the same time; rate and CPU of both ways together";
pub(crate) const TUNED_MANY: &str = "over tokio, all connections of one endpoint, equal shares of the bytes";

/// What a row runs over tokio.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: u64,
    pub(crate) is_duplex: bool,
    /// True for the configuration that a program gets without asking.
    pub(crate) is_default: bool,
}

/// One connection, one way.
pub(crate) const PLAIN: Load = Load { connections: 1, is_duplex: false, is_default: false };

impl Load {
    fn config(self, window: u32) -> ConnectionConfig {
        if self.is_default { ConnectionConfig::default() } else { sealed::config(window) }
    }

    /// Returns the bytes of each stream of the initiator and of the responder, given those of all.
    fn shares(self, bytes: u64) -> (u64, u64) {
        let each = bytes / self.connections;
        if self.is_duplex { (each - each / 2, each / 2) } else { (each, 0) }
    }
}

fn local() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn listen(window: u32, load: Load) -> Listen {
    let mut listen = Listen::new(sealed::identity());
    listen.responder.config = load.config(window);
    listen
}

fn connect(window: u32, load: Load) -> Connect {
    Connect::to(sealed::identity().public()).config(load.config(window))
}

/// Window of a responder, packets: it has no argument for it.
const WINDOW: u32 = 8192;

/// Writes a stream and waits until the peer has read all of it.
async fn write(mut stream: rdt_tokio::WriteHalf, bytes: u64) -> Result<()> {
    let source = meter::source();
    for block in meter::blocks(bytes, meter::SOURCE) {
        stream.write_all(&source[block]).await?;
    }
    stream.shutdown().await?;
    stream.delivered().await?;
    Ok(())
}

/// Reads to the end of the stream and returns the number of bytes.
async fn read(mut stream: rdt_tokio::ReadHalf) -> Result<u64> {
    let mut buffer = vec![0; meter::SOURCE];
    let mut bytes = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(bytes),
            length => bytes += length as u64,
        }
    }
}

/// Writes and reads one connection at the same time. Returns the number of bytes read.
async fn exchange(stream: rdt_tokio::Stream, bytes: u64) -> Result<u64> {
    let (reader, writer) = stream.into_split();
    let (written, received) = tokio::join!(write(writer, bytes), read(reader));
    written?;
    received
}

pub(crate) fn receive(bytes: u64, load: Load) -> Result<()> {
    let (theirs, ours) = load.shares(bytes);
    meter::runtime()?.block_on(async {
        let endpoint = rdt_tokio::Endpoint::bind(local(), EndpointConfig::new()?)?;
        let listener = endpoint.listen(listen(WINDOW, load))?;
        meter::print_hello(listener.local_addr(), None);
        let mut meter = Meter::new((theirs + ours) * load.connections);
        let mut streams = JoinSet::new();
        for _ in 0..load.connections {
            let stream = listener.accept().await?;
            meter.count(0);
            streams.spawn(exchange(stream, ours));
        }
        let mut received = 0;
        while let Some(done) = streams.join_next().await {
            received += done??;
        }
        ensure!(received == theirs * load.connections, "{received} bytes came");
        let seconds = meter.seconds();
        drop(listener);
        endpoint.wait_idle().await;
        meter.count(usize::try_from(received + ours * load.connections)?);
        meter.print(seconds, None)
    })
}

pub(crate) fn send(bytes: u64, window: u32, load: Load) -> Result<()> {
    let address = Hello::read()?.address()?;
    let (ours, theirs) = load.shares(bytes);
    meter::runtime()?.block_on(async {
        let endpoint = rdt_tokio::Endpoint::bind(local(), EndpointConfig::new()?)?;
        let mut streams = JoinSet::new();
        for _ in 0..load.connections {
            let stream = endpoint.connect(address, connect(window, load)).await?;
            streams.spawn(exchange(stream, ours));
        }
        let mut received = 0;
        while let Some(done) = streams.join_next().await {
            received += done??;
        }
        ensure!(received == theirs * load.connections, "{received} bytes came");
        endpoint.wait_idle().await;
        meter::print_sent(None)
    })
}

pub(crate) fn receive_blocking(bytes: u64) -> Result<()> {
    let endpoint = blocking::Endpoint::bind(local(), EndpointConfig::new()?)?;
    let listener = endpoint.listen(listen(WINDOW, PLAIN))?;
    meter::print_hello(listener.local_addr(), None);
    let mut stream = listener.accept()?;
    let mut meter = Meter::new(bytes);
    meter.count(0);
    let mut buffer = vec![0; meter::SOURCE];
    while let length @ 1.. = stream.read(&mut buffer)? {
        meter.count(length);
    }
    let seconds = meter.seconds();
    drop(stream);
    endpoint.wait_idle(None);
    meter.print(seconds, None)
}

pub(crate) fn send_blocking(bytes: u64, window: u32) -> Result<()> {
    let address = Hello::read()?.address()?;
    let endpoint = blocking::Endpoint::bind(local(), EndpointConfig::new()?)?;
    let mut stream = endpoint.connect(address, connect(window, PLAIN))?;
    let source = meter::source();
    for block in meter::blocks(bytes, meter::SOURCE) {
        stream.write_all(&source[block])?;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.delivered()?;
    meter::print_sent(None)
}
