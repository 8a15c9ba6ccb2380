//! rdt's connections on a thread of its own in each process: the state machine and the
//! socket, without `rdt-endpoint`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rdt_crypto::{Aead, Entropy, StaticKey};
use rdt_endpoint::thread::{Application, Flow};
use rdt_endpoint::truesize;
use rdt_transport::congestion::Algorithm;
use rdt_transport::{
    Closed, Connection, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig,
    Endpoint as _, InitiatorConfig, ReceiverConfig, ResponderConfig, SenderConfig,
};
use rdt_udp::{Remote, UdpIo, UdpOptions, Waiter};

use crate::meter::{self, Hello, Meter};

pub(crate) const TUNED: &str = "a connection with AES-128-GCM, fixed window of 8192 packets, unpaced, \
    1472-byte packets; a thread and its `Waiter` a process; the receiver opens every packet and drops its payload, \
    as `rdt-recv` without `--output`";
pub(crate) const TUNED_NONE: &str = "as the row of the thread, without a cipher: a CRC-32 of each packet";
pub(crate) const TUNED_READING: &str =
    "the same, but the receiver copies every byte into a buffer of the application";
pub(crate) const TUNED_PLAIN: &str = "as the row of the thread, without GSO and GRO";
pub(crate) const TUNED_MANY: &str = "as the thread that reads, with connections of one socket and equal shares of the \
    bytes; the streams begin when all connections are open";

/// Time in which a receiver whose last answer was lost can repeat it.
const LINGER: Duration = Duration::from_millis(50);

/// What a row runs.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: u64,
    /// True to copy the streams out of the receive buffer, false to drop them on arrival.
    pub(crate) reads: bool,
    /// True to use GSO and GRO.
    pub(crate) offload: bool,
    /// False for connections without a cipher.
    pub(crate) encrypted: bool,
}

pub(crate) const DROPPING: Load = Load { connections: 1, reads: false, offload: true, encrypted: true };
pub(crate) const READING: Load = Load { reads: true, ..DROPPING };

/// Returns the responder's key. It is known beforehand, so that handshakes have pattern NK.
pub(crate) fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])))
}

/// Returns a configuration without congestion control, as that of the classic rows.
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

impl Load {
    fn config(self, window: u32) -> ConnectionConfig {
        ConnectionConfig { one_way: true, dangerously_unencrypted: !self.encrypted, ..config(window) }
    }
}

fn bind(load: Load) -> Result<(UdpIo, ConnectionSetConfig<Remote>)> {
    let options = UdpOptions { gso: load.offload, gro: load.offload, ..UdpOptions::default() };
    let io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), options)?;
    let socket_buffer = Some(truesize::socket_buffer(io.stats().receive_buffer));
    Ok((io, ConnectionSetConfig { socket_buffer, ..ConnectionSetConfig::default() }))
}

/// Application that receives the streams.
struct Taking {
    meter: Meter,
    load: Load,
    buffer: Vec<u8>,
    /// Connections with unread bytes.
    readable: Vec<ConnectionId>,
    /// Duration until the arrival of the last byte, seconds.
    seconds: f64,
    closed: u64,
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
                // A receiver that drops the payload sees no bytes before the end.
                ConnectionEvent::Connected { .. } if !self.load.reads => self.meter.count(0),
                ConnectionEvent::Readable if self.load.reads => self.readable.push(id),
                ConnectionEvent::Finished { bytes, .. } if !self.load.reads => {
                    self.meter.count(usize::try_from(bytes).unwrap_or(usize::MAX));
                }
                ConnectionEvent::Closed(_) => self.closed += 1,
                _ => {}
            }
        }
        for id in self.readable.drain(..) {
            if let Some(length) = set.with(now, id, |connection| Self::read(&mut self.buffer, connection)) {
                self.meter.count(length);
            }
        }
        if self.meter.full() && self.seconds == 0.0 {
            self.seconds = self.meter.seconds();
            self.end = Some(now + LINGER);
        }
        if self.closed == self.load.connections {
            self.end = Some(now);
        }
        match self.end {
            Some(end) if end <= now => Flow::Done,
            end => Flow::Wait(end),
        }
    }
}

pub(crate) fn receive(bytes: u64, load: Load) -> Result<()> {
    let (mut io, limits) = bind(load)?;
    meter::print_hello(io.local_addr()?, None);
    let mut set = ConnectionSet::new(limits, Entropy::from_seed([1; 32]));
    let config = load.config(1);
    let receiver = ReceiverConfig { keep_payload: load.reads, ..config.receiver };
    let config = ConnectionConfig { receiver, ..config };
    set.listen(ResponderConfig { config, ..ResponderConfig::open(identity()) });
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO)?;
    let mut taking = Taking {
        meter: Meter::new(bytes),
        load,
        buffer: vec![0; meter::SOURCE],
        readable: Vec::new(),
        seconds: 0.0,
        closed: 0,
        end: None,
    };
    rdt_endpoint::thread::run(&mut set, &mut io, &mut taking, &mut waiter)?;
    taking.meter.print(taking.seconds, None)
}

/// Handshakes at the same time: more would wait for the responder's limit on answers.
const HANDSHAKES: usize = 8;

/// Application that sends the streams.
struct Making {
    peer: Remote,
    config: ConnectionConfig,
    /// Bytes of the streams that are not written.
    streams: BTreeMap<ConnectionId, u64>,
    source: Vec<u8>,
    bytes: u64,
    connections: usize,
    connected: usize,
    delivered: usize,
    failure: Option<String>,
}

impl Making {
    /// Opens the next connections.
    fn connect(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Result<()> {
        while self.streams.len() < self.connections.min(self.connected + HANDSHAKES) {
            let remote = Some(identity().public());
            let initiator = InitiatorConfig { remote, ..InitiatorConfig::default() };
            let id = set.connect(now, self.peer, initiator, self.config.clone()).context("opening")?;
            self.streams.insert(id, self.bytes / self.connections as u64);
        }
        Ok(())
    }

    /// Writes as much as the connection has room for, and ends the stream after its last byte.
    fn fill(source: &[u8], left: &mut u64, connection: &mut Connection) -> Result<(), Closed> {
        while *left > 0 {
            let length = usize::try_from(*left).unwrap_or(usize::MAX).min(source.len());
            let written = connection.write(&source[..length])?;
            *left -= written as u64;
            if *left == 0 {
                connection.finish();
            } else if written < length {
                break;
            }
        }
        Ok(())
    }
}

impl Application<ConnectionSet<Remote>> for Making {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Flow {
        let mut writable = Vec::new();
        if self.connected < self.connections
            && let Err(error) = self.connect(now, set)
        {
            self.failure = Some(error.to_string());
        }
        while let Some((id, event)) = set.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } => {
                    self.connected += 1;
                    if self.connected == self.connections {
                        writable = self.streams.keys().copied().collect();
                    }
                }
                ConnectionEvent::Writable => writable.push(id),
                ConnectionEvent::Delivered { .. } => self.delivered += 1,
                ConnectionEvent::Closed(closed) if closed != Closed::Finished => {
                    self.failure = Some(closed.to_string());
                }
                _ => {}
            }
        }
        for id in writable {
            let Some(left) = self.streams.get_mut(&id) else { continue };
            let written = set.with(now, id, |connection| Self::fill(&self.source, left, connection));
            if let Some(Err(closed)) = written {
                self.failure = Some(closed.to_string());
            }
        }
        let is_done = self.delivered == self.connections || self.failure.is_some();
        if is_done { Flow::Done } else { Flow::Wait(None) }
    }
}

pub(crate) fn send(bytes: u64, window: u32, load: Load) -> Result<()> {
    let address: SocketAddr = Hello::read()?.address()?;
    let (mut io, limits) = bind(load)?;
    let mut set = ConnectionSet::new(limits, Entropy::from_seed([2; 32]));
    // Answers arrive with the local address, and belong to a peer with the same one.
    let peer = Remote { addr: address, local: Some(address.ip()) };
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO)?;
    let mut making = Making {
        peer,
        config: load.config(window),
        streams: BTreeMap::new(),
        source: meter::source(),
        bytes,
        connections: usize::try_from(load.connections)?,
        connected: 0,
        delivered: 0,
        failure: None,
    };
    rdt_endpoint::thread::run(&mut set, &mut io, &mut making, &mut waiter)?;
    ensure!(making.failure.is_none(), "the transfer failed: {}", making.failure.unwrap_or_default());
    meter::print_sent(None)
}
