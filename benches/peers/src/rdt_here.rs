//! rdt's protocol endpoints and sockets in this program, configured as by its two programs. The
//! rows differ only in how the event loop waits.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rdt_endpoint::thread::{Application, Flow, Socket};
use rdt_endpoint::truesize;
use rdt_server::{LinkMode, Server, ServerConfig};
use rdt_sim::payload;
use rdt_transport::{
    AckPolicy, Endpoint, LinkProperties, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};
use rdt_udp::{Connected, Remote, UdpIo, UdpOptions, Waiter};

use crate::meter::{self, Hello, Meter};
use crate::rdt_tokio;

pub(crate) const TUNED: &str =
    "as rdt, a thread and its `Waiter` a process, but in the children of this program as the next two are";
pub(crate) const TUNED_TOKIO: &str = "the same machines, sockets (zero-copy batches) and order of things, but each loop is \
    a task of a current-thread runtime that waits with `AsyncFd` and tokio's timer, at once";
pub(crate) const TUNED_LOOKING: &str =
    "the same over tokio, but it looks at the socket for 20 us before it waits";

/// How the event loops wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A thread that busy-polls and then sleeps.
    Thread,
    /// tokio's reactor and timer.
    Tokio,
    /// tokio's reactor and timer, after busy polling as the thread does.
    TokioLooking,
}

/// Time in which a receiver whose last ACK was lost can repeat it.
const LINGER: Duration = Duration::from_millis(50);
/// Size of the socket buffer for ACKs, as in `rdt-recv` and `rdt-send`, bytes.
const ACKS: usize = 4 << 20;
/// Memory limit for all senders together, bytes.
const MEMORY: u64 = 1 << 30;

fn run<E, S, A>(
    waiting: Waiting,
    endpoint: &mut E,
    io: &mut S,
    application: &mut A,
    socket: Arc<UdpSocket>,
) -> Result<()>
where
    E: Endpoint,
    S: Socket<Peer = E::Peer>,
    A: Application<E>,
{
    match waiting {
        Waiting::Thread => {
            let mut waiter = Waiter::new(socket, Duration::ZERO)?;
            Ok(rdt_endpoint::thread::run(endpoint, io, application, &mut waiter)?)
        }
        Waiting::Tokio | Waiting::TokioLooking => {
            let looks = waiting == Waiting::TokioLooking;
            meter::runtime()?.block_on(rdt_tokio::run(endpoint, io, application, socket, looks))
        }
    }
}

/// Application that receives one transfer.
struct Taking {
    meter: Meter,
    end: Option<Instant>,
    /// Duration until the arrival of the last byte, as reported by the endpoint, seconds.
    seconds: f64,
    crc: u32,
}

impl Application<Server<Remote>> for Taking {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Flow {
        while let Some((peer, event)) = server.poll_event() {
            if let ReceiverEvent::Finished { bytes, elapsed, crc, .. } = event {
                server.confirm(now, peer);
                self.meter.count(usize::try_from(bytes).unwrap_or(usize::MAX));
                (self.seconds, self.crc) = (elapsed.as_secs_f64(), crc);
                self.end = Some(now + LINGER);
            }
        }
        match self.end {
            Some(end) if end <= now => Flow::Done,
            end => Flow::Wait(end),
        }
    }
}

/// Receives one transfer, as `rdt-recv --no-link --ack-every batch --once` does.
pub(crate) fn receive(bytes: u64, waiting: Waiting) -> Result<()> {
    let options = UdpOptions { send_buffer: ACKS, ..UdpOptions::default() };
    let mut io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), options)?;
    let receiver =
        ReceiverConfig { ack: AckPolicy::Batch, max_datagram: usize::MAX, ..ReceiverConfig::reference() };
    let mut config = ServerConfig::new(receiver, LinkMode::None).with_memory(MEMORY);
    config.socket_buffer = Some(truesize::socket_buffer(io.stats().receive_buffer));
    meter::print_hello(io.local_addr()?, None);
    let mut server = Server::new(config);
    let mut taking = Taking { meter: Meter::new(bytes), end: None, seconds: 0.0, crc: 0 };
    let socket = io.socket();
    run(waiting, &mut server, &mut io, &mut taking, socket)?;
    taking.meter.print(taking.seconds, Some(taking.crc))
}

/// Application that sends one transfer.
struct Making {
    bytes: u64,
    written: u64,
    is_finished: bool,
    crc: Option<u32>,
    failed: bool,
}

impl Making {
    /// Supplies the sender with data before a turn, as `rdt-send` does.
    fn fill(&mut self, sender: &mut Sender) {
        while self.written < self.bytes {
            let Ok(spare) = sender.spare() else { return };
            if spare.is_empty() {
                return;
            }
            let mut filled = 0;
            for piece in spare {
                let rest = usize::try_from(self.bytes - self.written).unwrap_or(usize::MAX);
                let length = piece.len().min(rest);
                payload::fill(self.written, &mut piece[..length]);
                self.written += length as u64;
                filled += length;
            }
            sender.advance(filled);
        }
        if !self.is_finished {
            self.is_finished = sender.finish().is_ok();
        }
    }
}

impl Application<Sender> for Making {
    fn pump(&mut self, _: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { crc } => self.crc = Some(crc),
                SenderEvent::Failed { .. } => self.failed = true,
            }
        }
        self.fill(sender);
        if self.failed || self.crc.is_some() { Flow::Done } else { Flow::Wait(None) }
    }
}

/// Sends one transfer, as `rdt-send HOST W 0 0 10000` does.
pub(crate) fn send(bytes: u64, window: u32, waiting: Waiting) -> Result<()> {
    let address = Hello::read()?.address()?;
    let link = LinkProperties {
        rtt_s: 0.0,
        speed_bps: 1e10,
        loss_forward: 0.0,
        loss_reverse: 0.0,
        buffer: window.saturating_add(50),
    };
    let config = SenderConfig::new(window, link);
    let outstanding = (window as usize).saturating_mul(config.packet_size);
    let options = UdpOptions {
        receive_buffer: ACKS,
        send_buffer: outstanding.clamp(256 << 10, 32 << 20),
        by_reference: true,
        ..UdpOptions::default()
    };
    let io = UdpIo::bind((Ipv4Addr::UNSPECIFIED, 0).into(), options)?;
    let socket = io.socket();
    let mut io = Connected::new(io, address);
    let mut sender = Sender::with_memory(config, rdt_endpoint::thread::send_memory(&mut io))?;
    sender.open().context("opening")?;
    let mut making = Making { bytes, written: 0, is_finished: false, crc: None, failed: false };
    run(waiting, &mut sender, &mut io, &mut making, socket)?;
    let Some(theirs) = making.crc.filter(|_| !making.failed) else { bail!("the transfer failed") };
    let ours = sender.stats().crc;
    ensure!(theirs == ours, "checksum {theirs:08x} came for {ours:08x}");
    meter::print_sent(Some(ours))
}
