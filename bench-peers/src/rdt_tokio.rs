//! rdt's machines, its sockets and its order of things, but waiting is tokio's: what a dedicated thread is
//! measured against.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rdt_driver::{
    Application, Connected, DwordArray, Fill, Flow, Remote, Socket, Source as _, UdpIo, UdpOptions,
};
use rdt_server::{LinkMode, Server, ServerConfig};
use rdt_transport::drive::{Budget, turn};
use rdt_transport::{
    AckPolicy, Endpoint, LinkProperties, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::meter::{self, Hello, Meter};

pub(crate) const TUNED: &str = "as rdt, but each loop is a task of a current-thread runtime that waits with \
    `AsyncFd` and tokio's timer instead of a thread of its own";

/// How long the last ACK may be lost and asked for again.
const LINGER: Duration = Duration::from_millis(50);

/// As `rdt_driver::run`, but for the wait.
async fn run<E, S, A>(endpoint: &mut E, io: &mut S, application: &mut A, socket: Arc<UdpSocket>) -> Result<()>
where
    E: Endpoint,
    S: Socket<Peer = E::Peer>,
    A: Application<E>,
{
    let both = Interest::READABLE | Interest::WRITABLE;
    // SAFETY: the descriptor is that of the socket, which the `Arc` keeps open as long as it is registered.
    #[expect(unsafe_code, reason = "tokio cannot see that an `Arc` keeps its descriptor")]
    let socket = unsafe { AsyncFd::register_with_interest(socket, both) }?;
    let mut ready: Option<AsyncFdReadyGuard<'_, _>> = None;
    loop {
        let now = Instant::now();
        let flow = application.pump(now, endpoint);
        let turn = turn(endpoint, io, now, Budget::default());
        if let Some(error) = io.take_error() {
            return Err(error.into());
        }
        let busy = turn.more || turn.fired || turn.received > 0 || turn.transmitted > 0;
        let wanted = match flow {
            Flow::Done => return Ok(()),
            Flow::Wait(wanted) if !busy => wanted,
            Flow::Wait(_) | Flow::Again => continue,
        };
        // The turn has found nothing more: what the runtime remembers of this socket is over.
        if let Some(mut guard) = ready.take() {
            guard.clear_ready();
        }
        let interest =
            if turn.blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let deadline = [turn.deadline, wanted].into_iter().flatten().min();
        ready = match deadline {
            Some(at) => tokio::time::timeout_at(at.into(), socket.ready(interest)).await.ok().transpose()?,
            None => Some(socket.ready(interest).await?),
        };
    }
}

/// Takes one transfer.
struct Taking {
    meter: Meter,
    end: Option<Instant>,
    /// When the last byte was there, by the meter.
    seconds: f64,
}

impl Application<Server<Remote>> for Taking {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Flow {
        while let Some((peer, event)) = server.poll_event() {
            if let ReceiverEvent::Finished { bytes, elapsed, .. } = event {
                server.confirm(now, peer);
                self.meter.count(usize::try_from(bytes).unwrap_or(usize::MAX));
                self.seconds = elapsed.as_secs_f64();
                self.end = Some(now + LINGER);
            }
        }
        match self.end {
            Some(end) if end <= now => Flow::Done,
            end => Flow::Wait(end),
        }
    }
}

/// As `rdt-recv --no-link --ack-every batch --once`.
pub(crate) fn receive(bytes: u64) -> Result<()> {
    let receiver =
        ReceiverConfig { ack: AckPolicy::Batch, max_datagram: usize::MAX, ..ReceiverConfig::reference() };
    meter::runtime()?.block_on(async {
        let mut io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), UdpOptions::default())?;
        meter::print_hello(io.local_addr()?, None);
        let mut server = Server::new(ServerConfig::new(receiver, LinkMode::None));
        let mut taking = Taking { meter: Meter::new(bytes), end: None, seconds: 0.0 };
        let socket = io.socket();
        run(&mut server, &mut io, &mut taking, socket).await?;
        taking.meter.print(taking.seconds)
    })
}

/// Makes one transfer.
struct Making {
    source: Option<DwordArray>,
    failed: bool,
}

impl Making {
    fn fill(&mut self, sender: &mut Sender) -> std::io::Result<()> {
        while let Some(source) = &mut self.source {
            let Ok(spare) = sender.spare() else { return Ok(()) };
            if spare.is_empty() {
                return Ok(());
            }
            match source.read_into(spare)? {
                Fill::Bytes(n) => sender.advance(n),
                Fill::Pending => return Ok(()),
                Fill::End => {
                    self.source = None;
                    let _ = sender.finish();
                }
            }
        }
        Ok(())
    }
}

impl Application<Sender> for Making {
    fn pump(&mut self, _: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { .. } => return Flow::Done,
                SenderEvent::Failed { .. } => self.failed = true,
            }
        }
        self.failed |= self.fill(sender).is_err();
        if self.failed { Flow::Done } else { Flow::Wait(None) }
    }
}

/// As `rdt-send HOST W 0 0 10000`.
pub(crate) fn send(bytes: u64, window: u32) -> Result<()> {
    let address = Hello::read()?.address()?;
    let link = LinkProperties {
        rtt_s: 0.0,
        speed_bps: 1e10,
        loss_forward: 0.0,
        loss_reverse: 0.0,
        buffer: window.saturating_add(50),
    };
    let mut sender = Sender::new(SenderConfig::new(window, link))?;
    sender.open().context("opening")?;
    meter::runtime()?.block_on(async {
        let io = UdpIo::bind((Ipv4Addr::UNSPECIFIED, 0).into(), UdpOptions::default())?;
        let socket = io.socket();
        let mut io = Connected::new(io, address);
        let mut making = Making { source: Some(DwordArray::new(bytes)), failed: false };
        run(&mut sender, &mut io, &mut making, socket).await?;
        if making.failed {
            bail!("the transfer failed");
        }
        meter::print_sent()
    })
}
