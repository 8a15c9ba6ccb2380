//! rdt's encrypted connections on a thread of its own in each process: the state machine and the
//! socket, without `rdt-endpoint`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rdt_crypto::{Aead, Entropy, StaticKey};
use rdt_driver::{
    Application, DwordArray, Fill, Flow, Remote, Source as _, UdpIo, UdpOptions, Waiter, clock, truesize,
};
use rdt_transport::congestion::Algorithm;
use rdt_transport::{
    Connection, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig,
    Endpoint as _, InitiatorConfig, ReceiverConfig, ResponderConfig, SenderConfig,
};

use crate::meter::{self, Hello, Meter};

pub(crate) const TUNED: &str = "a connection of version 2, AES-128-GCM, fixed window of 8192 packets, unpaced, \
    1472-byte packets; a thread and its `Waiter` a process; the receiver opens every packet and drops its payload, \
    as `rdt-recv` without `--output`";
pub(crate) const TUNED_READING: &str =
    "the same, but the receiver copies every byte into a buffer of the application";

/// Time in which a receiver whose last answer was lost can repeat it.
const LINGER: Duration = Duration::from_millis(50);

/// What the receiver does with the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Drops it on arrival.
    Nothing,
    /// Copies it out of the receive buffer.
    All,
}

/// Returns the responder's key. It is known beforehand, so that handshakes have pattern NK.
pub(crate) fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])))
}

/// Returns a configuration without congestion control, as that of the unencrypted rows.
pub(crate) fn config(window: u32) -> ConnectionConfig {
    ConnectionConfig {
        sender: SenderConfig {
            congestion: Algorithm::Fixed(window),
            window,
            pacing: false,
            ..SenderConfig::native(0)
        },
        aead: Some(Aead::Aes128Gcm),
        ..ConnectionConfig::default()
    }
}

fn bind() -> Result<(UdpIo, ConnectionSetConfig<Remote>)> {
    let io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), UdpOptions::default())?;
    let socket_buffer = Some(truesize::socket_buffer(io.stats().receive_buffer));
    Ok((io, ConnectionSetConfig { socket_buffer, ..ConnectionSetConfig::default() }))
}

/// Application that receives one stream.
struct Taking {
    meter: Meter,
    reads: Reads,
    buffer: Vec<u8>,
    id: Option<ConnectionId>,
    /// Duration until the arrival of the last byte, seconds.
    seconds: f64,
    end: Option<Instant>,
}

impl Taking {
    /// Copies what has arrived. Returns the number of bytes.
    fn read(buffer: &mut [u8], connection: &mut Connection) -> usize {
        let mut total = 0;
        while let length @ 1.. = connection.data().len().min(buffer.len()) {
            buffer[..length].copy_from_slice(&connection.data()[..length]);
            connection.consume(length);
            total += length;
        }
        total
    }
}

impl Application<ConnectionSet<Remote>> for Taking {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Flow {
        while let Some((id, event)) = set.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } => {
                    self.meter.count(0);
                    self.id = Some(id);
                }
                ConnectionEvent::Finished { bytes } if self.reads == Reads::Nothing => {
                    self.meter.count(usize::try_from(bytes).unwrap_or(usize::MAX));
                }
                ConnectionEvent::Closed(_) => self.end = Some(now),
                _ => {}
            }
        }
        let Self { meter, reads, buffer, id, .. } = self;
        if *reads == Reads::All
            && let Some(id) = *id
            && let Some(length @ 1..) = set.with(now, id, |connection| Self::read(buffer, connection))
        {
            meter.count(length);
        }
        if self.meter.full() && self.seconds == 0.0 {
            self.seconds = self.meter.seconds();
            self.end = Some(now + LINGER);
        }
        match self.end {
            Some(end) if end <= now => Flow::Done,
            end => Flow::Wait(end),
        }
    }
}

pub(crate) fn receive(bytes: u64, reads: Reads) -> Result<()> {
    let (mut io, limits) = bind()?;
    meter::print_hello(io.local_addr()?, None);
    let mut set = ConnectionSet::new(limits, Entropy::from_seed([1; 32]));
    let config = config(1);
    let receiver = ReceiverConfig { keep_payload: reads == Reads::All, ..config.receiver };
    let config = ConnectionConfig { receiver, one_way: true, ..config };
    set.listen(ResponderConfig { config, ..ResponderConfig::open(identity()) });
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO)?;
    let buffer = vec![0; meter::SOURCE];
    let mut taking = Taking { meter: Meter::new(bytes), reads, buffer, id: None, seconds: 0.0, end: None };
    rdt_driver::run(&mut set, &mut io, &mut taking, &mut waiter)?;
    taking.meter.print(taking.seconds, None)
}

/// Application that sends one stream.
struct Making {
    id: ConnectionId,
    source: Option<DwordArray>,
    is_connected: bool,
    is_delivered: bool,
    failure: Option<String>,
}

impl Making {
    /// Writes as much as the connection has room for.
    fn fill(source: &mut Option<DwordArray>, connection: &mut Connection) -> Result<()> {
        while let Some(reader) = source {
            let spare = connection.spare()?;
            if spare.is_empty() {
                return Ok(());
            }
            match reader.read_into(spare)? {
                Fill::Bytes(n) => connection.advance(n),
                Fill::Pending => return Ok(()),
                Fill::End => {
                    *source = None;
                    connection.finish();
                }
            }
        }
        Ok(())
    }
}

impl Application<ConnectionSet<Remote>> for Making {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Flow {
        while let Some((_, event)) = set.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } => self.is_connected = true,
                ConnectionEvent::Delivered { .. } => self.is_delivered = true,
                ConnectionEvent::Closed(closed) => self.failure = Some(closed.to_string()),
                _ => {}
            }
        }
        let Self { id, source, is_connected, .. } = self;
        if *is_connected
            && source.is_some()
            && let Some(Err(error)) = set.with(now, *id, |connection| Self::fill(source, connection))
        {
            self.failure = Some(error.to_string());
        }
        if self.is_delivered || self.failure.is_some() { Flow::Done } else { Flow::Wait(None) }
    }
}

pub(crate) fn send(bytes: u64, window: u32) -> Result<()> {
    let address: SocketAddr = Hello::read()?.address()?;
    let (mut io, limits) = bind()?;
    let mut set = ConnectionSet::new(limits, Entropy::from_seed([2; 32]));
    let initiator = InitiatorConfig { remote: Some(identity().public()), ..InitiatorConfig::default() };
    let config = ConnectionConfig { one_way: true, ..config(window) };
    // Answers arrive with the local address, and belong to a peer with the same one.
    let peer = Remote { addr: address, local: Some(address.ip()) };
    let id = set.connect(clock::now(), peer, initiator, config).context("opening")?;
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO)?;
    let source = Some(DwordArray::new(bytes));
    let mut making = Making { id, source, is_connected: false, is_delivered: false, failure: None };
    rdt_driver::run(&mut set, &mut io, &mut making, &mut waiter)?;
    ensure!(making.is_delivered, "the transfer failed: {}", making.failure.unwrap_or_default());
    meter::print_sent(None)
}
