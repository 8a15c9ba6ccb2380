//! `rdt-recv --measure`: connections of rdt, whose peers may have data sent to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_crypto::Aead;
use rdt_endpoint::thread::{Application, Flow, run, send_rest};
use rdt_endpoint::{PublicKey, generate_key, truesize};
use rdt_program::Failure;
use rdt_transport::{
    Confirm, Connection, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig, Endpoint as _,
    ResponderConfig,
};
use rdt_trust::{TrustError, os_entropy};
use rdt_udp::{Remote, SocketError, UdpIo, UdpOptions, Waiter, clock};

use super::connection::LOOK_INTERVAL;
use super::message::{Report, Verdict};
use super::recv::{LoggedPeer, Server};
use super::session::{End, IDLE_TIMEOUT, Pipe, Session, Step};
use crate::socket::{FLUSH_TIMEOUT, bind_asked, bind_udp};

/// Connections beyond each limit on peers, which are accepted, counted and closed with the reason.
const SPARE: usize = 8;
/// Wait for answers that may have to be repeated, at the end.
const END: Duration = Duration::from_secs(1);
/// Steps of one session between two polls of the socket.
const STEPS: usize = 16;

/// Code of CLOSE of a transfer that is given up.
const GIVEN_UP: u32 = 1;
/// Code of CLOSE to a peer beyond a limit.
pub(super) const TOO_MANY_PEERS: u32 = 2;
/// Code of CLOSE to a peer that does not ask for data.
const NOT_ASKED: u32 = 3;

/// Socket of a measuring receiver, and its connections.
pub(super) struct Listener {
    io: UdpIo,
    set: ConnectionSet<Remote>,
}

/// Binds a socket to `address`, or to the default port.
pub(super) fn bind(address: Option<SocketAddr>) -> Result<UdpIo, SocketError> {
    bind_asked(address, |address| bind_udp(address, UdpOptions::default()))
}

impl Listener {
    /// Listens with the limits of `server` and the rest of `environment`.
    pub(super) fn new(
        io: UdpIo,
        server: &Server,
        mut responder: ResponderConfig,
        environment: ConnectionSetConfig<Remote>,
    ) -> Result<Self, Failure> {
        // The end of a foreign stream is not confirmed.
        responder.config.confirm = Confirm::ByApplication;
        responder.config.idle_timeout = IDLE_TIMEOUT;
        let (max, max_per_source) = server.peers.limits();
        let config = ConnectionSetConfig {
            max_connections: max.saturating_add(SPARE),
            max_connections_per_source: max_per_source.map(|most| most.saturating_add(SPARE)),
            socket_buffer: Some(truesize::socket_buffer(io.stats().receive_buffer)),
            ..environment
        };
        let mut set = ConnectionSet::new(config, os_entropy().map_err(TrustError::Entropy)?);
        set.listen(responder);
        Ok(Self { io, set })
    }

    /// Returns a listener on the loopback interface that admits every peer, and its key.
    pub(super) fn local(server: &Server, unencrypted: bool) -> Result<(Self, PublicKey), Failure> {
        let identity = generate_key().map_err(SocketError::Receive)?;
        let key = identity.public();
        let mut responder = ResponderConfig::open(identity);
        responder.config.dangerously_unencrypted = unencrypted;
        let io = bind(Some((Ipv4Addr::LOCALHOST, 0).into()))?;
        Ok((Self::new(io, server, responder, ConnectionSetConfig::default())?, key))
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Serves peers until the program is to end, and those that are connected then.
    pub(super) fn serve(mut self, server: &Arc<Server>) -> Result<(), SocketError> {
        let mut waiter = Waiter::new(self.io.socket(), Duration::ZERO).map_err(SocketError::Receive)?;
        server.stop.add(waiter.waker());
        let mut application = Measuring {
            server: Arc::clone(server),
            sessions: BTreeMap::new(),
            ready: BTreeSet::new(),
            look_at: clock::now(),
            empty_since: None,
        };
        let served = run(&mut self.set, &mut self.io, &mut application, &mut waiter);
        send_rest(&mut self.set, &mut self.io, &mut waiter, FLUSH_TIMEOUT);
        served
    }
}

/// Application of a measuring receiver.
struct Measuring {
    server: Arc<Server>,
    /// Sessions of the open connections, and when to step each without an event.
    sessions: BTreeMap<ConnectionId, (Session, Option<Instant>)>,
    /// Sessions to step.
    ready: BTreeSet<ConnectionId>,
    /// Time of the next look at all sessions, whose times may be over.
    look_at: Instant,
    /// While the program ends: time since which there has been no session.
    empty_since: Option<Instant>,
}

impl Measuring {
    /// Begins a session, unless there are too many.
    fn accept(&mut self, now: Instant, set: &mut ConnectionSet<Remote>, id: ConnectionId) {
        let Some((peer, connection)) = set.address(id).zip(set.get(id)) else { return };
        let peer: LoggedPeer = (peer.addr, connection.stats().aead.map(Aead::name));
        if let Some(slot) = self.server.peers.take(peer.0) {
            self.sessions.insert(id, (Session::new(now, peer, slot, None), None));
        } else {
            end(now, set, id, |connection| {
                connection.close(now, TOO_MANY_PEERS, Verdict::Busy.sentence());
            });
        }
    }

    /// Steps one session. Returns true if it has more to do.
    fn step(&mut self, now: Instant, set: &mut ConnectionSet<Remote>, id: ConnectionId) -> bool {
        let Some((session, step_at)) = self.sessions.get_mut(&id) else { return false };
        *step_at = None;
        let server = &self.server;
        let stepped = set.with(now, id, |connection| {
            for _ in 0..STEPS {
                match session.step(now, server, &mut OfConnection(connection)) {
                    Step::Again => {}
                    other => return other,
                }
            }
            Step::Again
        });
        let ended = match stepped {
            Some(Step::Again) => return true,
            Some(Step::Wait(at)) => {
                *step_at = at;
                return false;
            }
            Some(Step::Ended(ended)) => ended,
            None => session.fail(server, &io::ErrorKind::ConnectionReset.into()),
        };
        self.sessions.remove(&id);
        end(now, set, id, |connection| match ended {
            End::Whole => connection.confirm(),
            End::Broken => connection.close(now, GIVEN_UP, "the transfer was given up"),
            // A connection that is only released would keep its slot until the peer ends it.
            End::NotServed(why) => connection.close(now, NOT_ASKED, why),
        });
        false
    }

    /// Refuses new peers. Returns true once nothing is left to do.
    fn is_over(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> bool {
        set.stop_listening();
        self.sessions.is_empty() && (set.is_empty() || now >= *self.empty_since.get_or_insert(now) + END)
    }
}

impl Application<ConnectionSet<Remote>> for Measuring {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Flow {
        while let Some((id, event)) = set.poll_event() {
            if let ConnectionEvent::Connected { .. } = event {
                self.accept(now, set, id);
            }
            self.ready.insert(id);
        }
        if self.look_at <= now || self.server.stop.is_set() {
            self.look_at = now + LOOK_INTERVAL;
            self.server.log.poll(now);
            self.ready.extend(self.sessions.keys());
        }
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at <= now);
        let due = self.sessions.iter().filter(|(_, (_, at))| is_due(at));
        self.ready.extend(due.map(|(id, _)| *id));
        for id in std::mem::take(&mut self.ready) {
            if self.step(now, set, id) {
                self.ready.insert(id);
            }
        }
        if !self.ready.is_empty() {
            return Flow::Again;
        }
        if self.server.is_closing() && self.is_over(now, set) {
            return Flow::Done;
        }
        let next = self.sessions.values().filter_map(|(_, at)| *at).min();
        Flow::Wait(next.into_iter().chain([self.look_at]).min())
    }
}

/// Ends a connection by `last`, and gives up its handle.
fn end(now: Instant, set: &mut ConnectionSet<Remote>, id: ConnectionId, last: impl FnOnce(&mut Connection)) {
    set.with(now, id, last);
    set.release(now, id);
}

struct OfConnection<'a>(&'a mut Connection);

impl OfConnection<'_> {
    /// Returns why nothing can be read or written: not now, or never.
    fn pause(&self) -> io::Error {
        self.0.closed().map_or_else(|| io::ErrorKind::WouldBlock.into(), |why| io::Error::other(why.clone()))
    }
}

impl Pipe for OfConnection<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.0.data().len().min(out.len());
        if length == 0 && !self.0.is_read_finished() {
            return Err(self.pause());
        }
        out[..length].copy_from_slice(&self.0.data()[..length]);
        self.0.consume(length);
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes).map_err(io::Error::other)? {
            0 => Err(self.pause()),
            taken => {
                if taken == bytes.len() {
                    self.0.push();
                }
                Ok(taken)
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish();
        Ok(())
    }

    fn set_congestion(&mut self, _: &str) -> bool {
        // That of a connection is chosen when it opens.
        false
    }

    fn is_acknowledged(&self) -> bool {
        // The next write to a connection that has ended fails.
        let stats = self.0.stats().sender;
        self.0.closed().is_some() || stats.bytes_acked >= stats.bytes_written
    }

    fn counters(&self) -> Report {
        let stats = self.0.stats().sender;
        Report {
            retransmitted: stats.retransmitted,
            retransmitted_bytes: stats.retransmitted_bytes,
            timeouts: Some(stats.timeouts),
            srtt: stats.srtt.unwrap_or_default(),
            min_rtt: stats.min_rtt.unwrap_or_default(),
            cwnd: stats.cwnd,
            // The default of rdt.
            congestion: Some("bbr"),
            ..Report::default()
        }
    }
}
