//! Flows of rdt over UDP sockets: the state machines and the event loop of `rdt-send` and
//! `rdt-recv`, with an application that writes and reads as the words of the flow say. Each flow is
//! a connection of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdt_endpoint::thread::{Application, Flow as Next, run, send_memory};
use rdt_endpoint::truesize;
use rdt_server::{SenderId, Server};
use rdt_transport::congestion::Cause;
use rdt_transport::{
    Closed, Connection, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig, Endpoint as _,
    Interest, Observer, ReceiverEvent, SenderStats, Trace,
};
use rdt_udp::{Connected, Remote, SocketError, UdpIo, UdpOptions, Waiter, clock};

use super::counts::{CA_RECOVERY, RdtCounters, Sample};
use super::network::End;
use super::tcp::{RATE_INTERVAL, due, readable};
use super::{LoadError, SAMPLE_INTERVAL, Shared};
use crate::engine::words::{Initiating, Responding};

/// Returns a socket at `end`. Port 0 is any port, for a sender. With `offload` a system call has
/// many packets (GSO, GRO), and a sender's socket is zero-copy, as in `rdt-send`.
pub(super) fn socket(end: &End, port: u16, offload: bool) -> Result<UdpIo, LoadError> {
    let by_reference = offload && port == 0;
    let options = UdpOptions { gso: offload, gro: offload, by_reference, ..UdpOptions::default() };
    let bind = || UdpIo::bind(SocketAddr::new(end.local, port), options).map_err(std::io::Error::other);
    end.open("cannot bind a port", bind)
}

/// Receives one transfer.
pub(super) fn receive(mut io: UdpIo, responding: Responding, shared: &Shared) {
    let Responding { server: mut config, responder, entropy } = responding;
    config.socket_buffer = Some(truesize::socket_buffer(io.stats().receive_buffer));
    let mut server = Server::new(config);
    let environment = ConnectionSetConfig {
        ip_of: Some(|remote: &Remote| remote.addr.ip()),
        local_ip_of: Some(|remote: &Remote| remote.local),
        ..ConnectionSetConfig::default()
    };
    server.listen(responder, environment, entropy);
    let keeps = config.receiver.keep_payload;
    let mut receiving = Receiving { shared, keeps, peer: None, bytes: 0, begin: None, is_whole: false };
    let waiter = Waiter::new(io.socket(), Duration::ZERO).map_err(SocketError::Receive);
    let end = waiter.and_then(|mut waiter| run(&mut server, &mut io, &mut receiving, &mut waiter));
    if let Err(error) = end {
        shared.fail(&format!("the receiver failed: {error}"));
    }
}

/// Opens a connection at the start of the flow, and writes until its end. `watches_recovery` adds
/// the recovery episodes to the samples, which costs the sender some time for each packet.
pub(super) fn send(
    io: UdpIo,
    to: SocketAddr,
    initiating: Initiating,
    watches_recovery: bool,
    shared: &Shared,
) {
    let start = shared.flow.start.0;
    shared.clock.sleep_until(start);
    let Initiating { config, initiator, entropy } = initiating;
    let transfer = || {
        let mut waiter = Waiter::new(io.socket(), Duration::ZERO).map_err(|error| error.to_string())?;
        let mut socket = Connected::new(io, to);
        let (limits, memory) = (ConnectionSetConfig::default(), send_memory(&mut socket));
        let mut set = ConnectionSet::with_memory(limits, entropy, memory);
        let (now, mss) = (clock::now(), config.payload_size() as u64);
        let id = set.connect(now, (), initiator, config).map_err(|error| error.to_string())?;
        let watch = Arc::new(Watch { watches_recovery, mss, ..Watch::default() });
        let observer = Box::new(Watcher(Arc::clone(&watch)));
        set.with(now, id, |connection| connection.observe(observer));
        let mut sending = Sending { shared, id, watch, written: 0, is_finished: false, next_sample: start };
        run(&mut set, &mut socket, &mut sending, &mut waiter).map_err(|error| error.to_string())
    };
    if let Err(sentence) = transfer() {
        shared.fail(&format!("the sender failed: {sentence}"));
    }
}

struct Receiving<'a> {
    shared: &'a Shared,
    /// True if the receiver keeps the data until the application reads it.
    keeps: bool,
    peer: Option<SenderId<Remote>>,
    bytes: u64,
    begin: Option<Duration>,
    /// True from the arrival of the last byte until the transfer is confirmed.
    is_whole: bool,
}

impl Receiving<'_> {
    /// Reads what the flow's rule allows. Returns the time of the next read if data is left.
    fn read(&mut self, now: Instant, server: &mut Server<Remote>, peer: SenderId<Remote>) -> Option<Instant> {
        if !self.keeps {
            let received = server.received_bytes(peer);
            self.count(received.saturating_sub(self.bytes));
            return None;
        }
        let at = self.shared.clock.at(now);
        while let Ok(data) = server.data(peer).map(<[u8]>::len)
            && data > 0
        {
            let begin = *self.begin.get_or_insert(at);
            let (may, next) = readable(self.shared.flow.reads, at, begin, self.bytes);
            let bytes = data.min(usize::try_from(may).unwrap_or(usize::MAX));
            if bytes == 0 {
                return Some(self.shared.clock.instant(next));
            }
            server.consume(now, peer, bytes);
            self.count(bytes as u64);
        }
        None
    }

    fn count(&mut self, bytes: u64) {
        if bytes > 0 {
            self.bytes += bytes;
            self.shared.read(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }
}

impl Application<Server<Remote>> for Receiving<'_> {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Next {
        while let Some((peer, event)) = server.poll_event() {
            match event {
                ReceiverEvent::Started => self.peer = Some(peer),
                ReceiverEvent::Finished { .. } => self.is_whole = true,
                ReceiverEvent::Connected
                | ReceiverEvent::Dropped
                | ReceiverEvent::Readable
                | ReceiverEvent::Closed { .. } => {}
            }
        }
        let Some(peer) = self.peer else { return Next::Wait(None) };
        let next = self.read(now, server, peer);
        if self.is_whole && next.is_none() {
            self.is_whole = false;
            server.confirm(now, peer);
            self.shared.complete();
        }
        // Answers retransmissions until the program ends.
        Next::Wait(next)
    }
}

struct Sending<'a> {
    shared: &'a Shared,
    id: ConnectionId,
    watch: Arc<Watch>,
    written: u64,
    is_finished: bool,
    next_sample: Duration,
}

impl Sending<'_> {
    /// Writes what is due and has room. Returns when to write next, unless the buffer limits.
    fn write(&mut self, now: Instant, connection: &mut Connection) -> Option<Instant> {
        let (flow, at) = (&self.shared.flow, self.shared.clock.at(now));
        let end = [flow.stop, self.shared.duration].into_iter().flatten().min();
        let total = flow.bytes.unwrap_or(u64::MAX);
        let is_over = end.is_some_and(|end| at >= end);
        let due = if is_over { self.written } else { due(flow, at.saturating_sub(flow.start.0)).min(total) };
        while self.written < due {
            let Ok(spare) = connection.spare() else { return None };
            let rest = usize::try_from(due - self.written).unwrap_or(usize::MAX);
            let mut room = 0;
            for piece in spare.within(rest) {
                piece.fill(0);
                room += piece.len();
            }
            if room == 0 {
                break;
            }
            connection.advance(room);
            self.written += room as u64;
        }
        self.shared.sent().bytes = self.written;
        if is_over || self.written >= total {
            self.is_finished = true;
            connection.finish();
            return None;
        }
        if self.written < due {
            return end.map(|end| self.shared.clock.instant(end));
        }
        connection.push();
        Some(now + RATE_INTERVAL)
    }

    fn sample(&self, now: Instant, set: &ConnectionSet<()>) {
        let at = self.shared.clock.at(now);
        let Some(stats) = set.get(self.id).map(|connection| connection.stats().sender) else { return };
        if stats.handshake_rtt.is_some() && self.shared.duration.is_none_or(|end| at <= end) {
            let life = at.saturating_sub(self.shared.flow.start.0);
            self.shared.sampled(at, self.watch.sample(&stats, life));
        }
    }

    /// Handles an event. Returns true at the end of the transfer.
    fn on_event(&self, now: Instant, set: &ConnectionSet<()>, event: &ConnectionEvent) -> bool {
        match event {
            ConnectionEvent::Connected { .. } => {
                let rtt = set.get(self.id).and_then(|connection| connection.stats().sender.handshake_rtt);
                self.shared.sent().handshake = rtt;
                return false;
            }
            ConnectionEvent::Delivered { .. } => self.shared.sent().ended = Some(self.shared.clock.at(now)),
            // After the stream was delivered, or caused by this side.
            ConnectionEvent::Closed(Closed::Finished | Closed::Local) => return true,
            ConnectionEvent::Closed(closed) => {
                self.shared.fail(&format!("the transfer failed: {closed}"));
            }
            ConnectionEvent::Readable | ConnectionEvent::Writable | ConnectionEvent::Finished { .. } => {
                return false;
            }
        }
        self.sample(now, set);
        true
    }
}

impl Application<ConnectionSet<()>> for Sending<'_> {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<()>) -> Next {
        while let Some((_, event)) = set.poll_event() {
            if self.on_event(now, set, &event) {
                return Next::Done;
            }
        }
        if self.shared.clock.at(now) >= self.next_sample {
            self.sample(now, set);
            while self.next_sample <= self.shared.clock.at(now) {
                self.next_sample += SAMPLE_INTERVAL;
            }
        }
        let id = self.id;
        let next_write = if self.is_finished {
            None
        } else {
            set.with(now, id, |connection| self.write(now, connection)).flatten()
        };
        Next::Wait(next_write.into_iter().chain([self.shared.clock.instant(self.next_sample)]).min())
    }
}

/// State of a sender beside its counters, from its trace.
#[derive(Debug, Default)]
struct Watch {
    watches_recovery: bool,
    /// Payload of a full packet, bytes.
    mss: u64,
    is_recovering: AtomicBool,
    /// Receiver's window, bytes.
    window: AtomicU64,
}

impl Watch {
    /// Returns the state of a sender `life` after its start.
    fn sample(&self, stats: &SenderStats, life: Duration) -> Sample {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let is_recovering = self.is_recovering.load(Ordering::Relaxed);
        Sample {
            ca_state: if is_recovering { CA_RECOVERY } else { 0 },
            mss: self.mss,
            cwnd: stats.cwnd,
            ssthresh: stats.ssthresh.unwrap_or(0),
            in_flight: stats.in_flight,
            peer_window: self.window.load(Ordering::Relaxed),
            srtt_us: stats.srtt.map_or(0, micros),
            min_rtt_us: stats.min_rtt.map_or(0, micros),
            rto_us: micros(stats.rto),
            retransmitted: stats.retransmitted,
            timeouts: Some(stats.timeouts),
            rdt: Some(RdtCounters {
                lost: stats.lost,
                lost_to_socket: stats.lost_to_socket,
                recoveries: stats.recoveries,
                spurious: stats.spurious,
            }),
            duplicated: None,
            segments_sent: stats.datagrams_sent,
            segments_received: stats.datagrams_received,
            busy_us: micros(life.saturating_sub(stats.waited.application)),
            window_limited_us: micros(stats.waited.peer_window),
            buffer_limited_us: 0,
        }
    }
}

struct Watcher(Arc<Watch>);

impl Observer for Watcher {
    fn on(&mut self, _now: Instant, trace: &Trace) {
        match trace {
            Trace::AckReceived { window, .. } => self.0.window.store(*window, Ordering::Relaxed),
            Trace::RecoveryBegan { cause: Cause::Loss | Cause::Timeout } => {
                self.0.is_recovering.store(true, Ordering::Relaxed);
            }
            Trace::RecoveryEnded { .. } => self.0.is_recovering.store(false, Ordering::Relaxed),
            _ => {}
        }
    }

    fn interest(&self) -> Interest {
        if self.0.watches_recovery { Interest::Everything } else { Interest::RoundTrips }
    }
}
