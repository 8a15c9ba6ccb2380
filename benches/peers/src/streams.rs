//! Byte streams of `rdt-endpoint`, as an application uses them: over tokio and blocking, one way
//! and both ways, one connection and many of one endpoint.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::ready;

use anyhow::{Result, ensure};
use rdt_endpoint::{Connect, EndpointConfig, Listen, blocking, tokio as rdt_tokio};
use rdt_transport::ConnectionConfig;
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};
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
pub(crate) const TUNED_IDLE: &str =
    "over tokio, beside 512 connections of the same endpoints that carry nothing";
pub(crate) const TUNED_MANY: &str = "over tokio, all connections of one endpoint, equal shares of the bytes; the streams \
    begin when all connections are open, and share one buffer to write from and one to read into";

/// What a row runs over tokio.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: u64,
    /// Number of connections of the same endpoints that carry nothing.
    pub(crate) idle: usize,
    pub(crate) is_duplex: bool,
    /// True for the configuration that a program gets without asking.
    pub(crate) is_default: bool,
}

/// One connection, one way.
pub(crate) const PLAIN: Load = Load { connections: 1, idle: 0, is_duplex: false, is_default: false };

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

/// What all streams of a process share: the bytes to write, the buffer to read into, and the count
/// of what was read. So the memory of the application is the same for any number of streams.
pub(crate) struct Shared {
    pub(crate) source: Vec<u8>,
    read: Mutex<Taken>,
}

struct Taken {
    buffer: Vec<u8>,
    meter: Meter,
}

impl Shared {
    pub(crate) fn new(expected: u64) -> Arc<Self> {
        let taken = Taken { buffer: vec![0; meter::SOURCE], meter: Meter::new(expected) };
        Arc::new(Self { source: meter::source(), read: Mutex::new(taken) })
    }

    /// Calls `act` on the count of the bytes that were read.
    pub(crate) fn meter<R>(&self, act: impl FnOnce(&mut Meter) -> R) -> R {
        act(&mut self.read.lock().unwrap_or_else(PoisonError::into_inner).meter)
    }
}

/// Writes a stream and waits until the peer has read all of it.
async fn write(shared: &Shared, mut stream: rdt_tokio::WriteHalf, bytes: u64) -> Result<()> {
    for block in meter::blocks(bytes, meter::SOURCE) {
        stream.write_all(&shared.source[block]).await?;
    }
    stream.shutdown().await?;
    stream.delivered().await?;
    Ok(())
}

/// Reads to the end of the stream and counts the bytes.
pub(crate) async fn read(shared: &Shared, mut stream: impl AsyncRead + Unpin) -> Result<()> {
    while poll_fn(|cx| {
        let Taken { buffer, meter } = &mut *shared.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = ReadBuf::new(buffer);
        ready!(Pin::new(&mut stream).poll_read(cx, &mut room))?;
        let length = room.filled().len();
        if length > 0 {
            meter.count(length);
        }
        std::io::Result::Ok(length > 0).into()
    })
    .await?
    {}
    Ok(())
}

/// Writes and reads one connection at the same time.
async fn exchange(shared: Arc<Shared>, stream: rdt_tokio::Stream, bytes: u64) -> Result<()> {
    let (reader, writer) = stream.into_split();
    let (written, received) = tokio::join!(write(&shared, writer, bytes), read(&shared, reader));
    written?;
    received
}

/// Runs all streams to their ends, each of which writes `bytes`.
async fn exchange_all(shared: &Arc<Shared>, streams: Vec<rdt_tokio::Stream>, bytes: u64) -> Result<()> {
    let mut tasks: JoinSet<_> =
        streams.into_iter().map(|stream| exchange(Arc::clone(shared), stream, bytes)).collect();
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

pub(crate) fn receive(bytes: u64, load: Load) -> Result<()> {
    let (theirs, ours) = load.shares(bytes);
    meter::runtime()?.block_on(async {
        let endpoint = rdt_tokio::Endpoint::bind(local(), EndpointConfig::default())?;
        let listener = endpoint.listen(listen(WINDOW, load))?;
        meter::print_hello(listener.local_addr(), None);
        let shared = Shared::new((theirs + ours) * load.connections);
        let mut streams = Vec::new();
        let mut idle = Vec::new();
        for _ in 0..load.connections {
            streams.push(listener.accept().await?);
        }
        for _ in 0..load.idle {
            idle.push(listener.accept().await?);
        }
        exchange_all(&shared, streams, ours).await?;
        let seconds = shared.meter(|meter| meter.seconds());
        drop((listener, idle));
        endpoint.wait_idle().await;
        let delivered = usize::try_from(ours * load.connections)?;
        shared.meter(|meter| {
            meter.count(delivered);
            meter.print(seconds, None)
        })
    })
}

pub(crate) fn send(bytes: u64, window: u32, load: Load) -> Result<()> {
    let address = Hello::read()?.address()?;
    let (ours, theirs) = load.shares(bytes);
    meter::runtime()?.block_on(async {
        let endpoint = rdt_tokio::Endpoint::bind(local(), EndpointConfig::default())?;
        let shared = Shared::new(theirs * load.connections);
        let mut streams = Vec::new();
        for _ in 0..load.connections {
            streams.push(endpoint.connect(address, connect(window, load)).await?);
        }
        let mut idle = Vec::new();
        for _ in 0..load.idle {
            idle.push(endpoint.connect(address, connect(window, load)).await?);
        }
        exchange_all(&shared, streams, ours).await?;
        ensure!(shared.meter(|meter| meter.full()), "too few bytes came");
        drop(idle);
        endpoint.wait_idle().await;
        meter::print_sent(None)
    })
}

pub(crate) fn receive_blocking(bytes: u64) -> Result<()> {
    let endpoint = blocking::Endpoint::bind(local(), EndpointConfig::default())?;
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
    let endpoint = blocking::Endpoint::bind(local(), EndpointConfig::default())?;
    let mut stream = endpoint.connect(address, connect(window, PLAIN))?;
    let source = meter::source();
    for block in meter::blocks(bytes, meter::SOURCE) {
        stream.write_all(&source[block])?;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.delivered()?;
    meter::print_sent(None)
}
