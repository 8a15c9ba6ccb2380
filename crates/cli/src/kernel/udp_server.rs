//! `rdt-recv --wire udp`: one socket for all peers; each reverse transfer has a thread.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use rdt_udp::clock;
use sha2::Sha256;

use super::arrivals::Arrivals;
use super::datagram::{Cookie, Due, MAX_DATAGRAM, Packet, Source};
use super::message::{Report, Request, Verdict};
use super::places::Place;
use super::recv::Server;
use super::stream::LOOK_INTERVAL;

/// Silence after which an unfinished session ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which a finished session repeats its report.
const LINGER: Duration = Duration::from_secs(3);
/// Time without a sign of life after which nothing more is sent to a peer.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the peer to confirm the end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two repetitions of the end.
const END_INTERVAL: Duration = Duration::from_millis(200);
/// Validity of a cookie: this one and the one before are good.
const COOKIE_EPOCH: Duration = Duration::from_secs(15);
/// Stack of a thread that sends, bytes.
const STACK: usize = 256 << 10;

/// Serves peers until the program is to end.
pub(super) fn serve(socket: UdpSocket, server: &Arc<Server>) {
    let mut table = Table {
        server: Arc::clone(server),
        socket: Arc::new(socket),
        sessions: BTreeMap::new(),
        cookies: Cookies { secret: rand::random(), zero: clock::now() },
    };
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut next_look = clock::now();
    while !server.stop.is_set() {
        if let Ok((length, peer)) = table.socket.recv_from(&mut buffer) {
            table.handle(clock::now(), peer, &buffer[..length]);
        }
        let now = clock::now();
        if now >= next_look {
            next_look = now + LOOK_INTERVAL;
            server.log.poll(now);
            table.expire(now);
            if server.is_closing() && table.sessions.is_empty() {
                return;
            }
        }
    }
}

struct Table {
    server: Arc<Server>,
    socket: Arc<UdpSocket>,
    sessions: BTreeMap<(SocketAddr, u64), Session>,
    cookies: Cookies,
}

struct Session {
    request: Request,
    heard_at: Instant,
    is_finished: bool,
    part: Part,
    _place: Place,
}

/// What a session does.
enum Part {
    Receive(Box<Arrivals>),
    Send(Arc<Sending>),
}

/// State of a reverse transfer, shared with its thread.
struct Sending {
    heard_at: Mutex<Instant>,
    /// The peer has confirmed the end.
    is_done: AtomicBool,
    /// The thread has ended.
    has_ended: AtomicBool,
}

impl Table {
    fn handle(&mut self, now: Instant, peer: SocketAddr, bytes: &[u8]) {
        let Some((id, packet)) = Packet::decode(bytes) else { return };
        if let Packet::Hello { cookie, request } = packet {
            return self.handle_hello(now, (peer, id), cookie, request);
        }
        let Some(session) = self.sessions.get_mut(&(peer, id)) else { return };
        session.heard_at = now;
        match (&mut session.part, packet) {
            (Part::Receive(arrivals), Packet::Data { number, sent }) => {
                arrivals.add(now, number, sent, bytes.len());
            }
            (Part::Receive(arrivals), Packet::End { .. }) => {
                let report = arrivals.report();
                Packet::Report(report).send(id, |bytes| self.socket.send_to(bytes, peer));
                if !session.is_finished {
                    session.is_finished = true;
                    self.server.finished(peer, &session.request, &report);
                }
            }
            (Part::Send(sending), Packet::Alive | Packet::Done) => {
                *sending.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
                sending.is_done.fetch_or(packet == Packet::Done, Relaxed);
            }
            _ => {}
        }
    }

    /// Answers a request. A peer that has not proved its address takes no memory.
    fn handle_hello(&mut self, now: Instant, key: (SocketAddr, u64), cookie: Cookie, request: Request) {
        let (peer, id) = key;
        let answer = if self.sessions.contains_key(&key) {
            Packet::Answer(Verdict::Accepted)
        } else if !self.cookies.are_good(now, key, cookie) {
            Packet::Cookie(self.cookies.of(key, self.cookies.epoch(now)))
        } else {
            Packet::Answer(self.admit(now, key, request))
        };
        answer.send(id, |bytes| self.socket.send_to(bytes, peer));
    }

    fn admit(&mut self, now: Instant, key: (SocketAddr, u64), request: Request) -> Verdict {
        let verdict = self.server.judge(Some(&request));
        if verdict != Verdict::Accepted {
            return verdict;
        }
        if self.server.is_closing() {
            return Verdict::Busy;
        }
        let Some(place) = self.server.places.take(key.0) else { return Verdict::Busy };
        let part = if request.is_reverse {
            let Some(sending) = self.start(now, key, request) else { return Verdict::Busy };
            Part::Send(sending)
        } else {
            Part::Receive(Box::new(Arrivals::new(request.omit, now)))
        };
        self.server.connected(key.0, &request);
        let session = Session { request, heard_at: now, is_finished: false, part, _place: place };
        self.sessions.insert(key, session);
        Verdict::Accepted
    }

    /// Starts the thread of a reverse transfer. `None` if the system has none.
    fn start(&self, now: Instant, (peer, id): (SocketAddr, u64), request: Request) -> Option<Arc<Sending>> {
        let sending = Arc::new(Sending {
            heard_at: Mutex::new(now),
            is_done: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let (server, socket) = (Arc::clone(&self.server), Arc::clone(&self.socket));
        let of_thread = Arc::clone(&sending);
        let run = move || {
            let source = Source::new(id, &request, server.rate(&request).unwrap_or(1), clock::now());
            of_thread.run(&server, &socket, (peer, id), &request, source);
            of_thread.has_ended.store(true, Relaxed);
        };
        thread::Builder::new().stack_size(STACK).spawn(run).ok()?;
        Some(sending)
    }

    /// Removes sessions that are over.
    fn expire(&mut self, now: Instant) {
        let server = &self.server;
        self.sessions.retain(|(peer, _), session| {
            let silence = now.saturating_duration_since(session.heard_at);
            let is_over = match &session.part {
                Part::Receive(_) => silence > if session.is_finished { LINGER } else { IDLE_TIMEOUT },
                Part::Send(sending) => {
                    session.is_finished = sending.is_done.load(Relaxed);
                    sending.has_ended.load(Relaxed)
                }
            };
            if is_over {
                server.cleaned_up(*peer, &session.request, !session.is_finished);
            }
            !is_over
        });
    }
}

impl Sending {
    /// True while the peer shows that it is there.
    fn is_alive(&self, server: &Server, now: Instant) -> bool {
        let heard_at = *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner);
        !server.stop.is_set() && now < heard_at + ALIVE_TIMEOUT
    }

    /// Sends the datagrams, and the number of them until the peer confirms it.
    fn run(
        &self,
        server: &Server,
        socket: &UdpSocket,
        (peer, id): (SocketAddr, u64),
        request: &Request,
        mut source: Source,
    ) {
        let ends_at = request.bytes.is_none().then(|| source.begun_at + request.omit + request.time);
        loop {
            let now = clock::now();
            if !self.is_alive(server, now) {
                return;
            }
            if ends_at.is_some_and(|at| at <= now) {
                break;
            }
            match source.send_due(now, |bytes| socket.send_to(bytes, peer)) {
                Ok(Due::Now) => {}
                Ok(Due::At(at)) => clock::sleep_until(at.min(now + LOOK_INTERVAL)),
                Ok(Due::Ended) => break,
                Err(_) => return,
            }
        }
        let ended_at = clock::now();
        while !self.is_done.load(Relaxed) {
            let now = clock::now();
            if server.stop.is_set() || now >= ended_at + END_TIMEOUT {
                return;
            }
            Packet::End { counted: source.counted }.send(id, |bytes| socket.send_to(bytes, peer));
            clock::sleep_until(now + END_INTERVAL);
        }
        let elapsed = ended_at.saturating_duration_since(source.begun_at).saturating_sub(request.omit);
        let report = Report { bytes: source.counted_bytes, elapsed, ..Report::default() };
        server.finished(peer, request, &report);
    }
}

/// Cookies: a peer that returns one receives at its address.
struct Cookies {
    secret: [u8; 32],
    zero: Instant,
}

impl Cookies {
    fn epoch(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.zero).as_secs() / COOKIE_EPOCH.as_secs()
    }

    fn of(&self, key: (SocketAddr, u64), epoch: u64) -> Cookie {
        self.mac(key, epoch).finalize().into_bytes().first_chunk().copied().unwrap_or_default()
    }

    fn are_good(&self, now: Instant, key: (SocketAddr, u64), cookie: Cookie) -> bool {
        let epoch = self.epoch(now);
        // The comparison takes constant time.
        (epoch.saturating_sub(1)..=epoch).any(|it| self.mac(key, it).verify_truncated_left(&cookie).is_ok())
    }

    fn mac(&self, (peer, session): (SocketAddr, u64), epoch: u64) -> Hmac<Sha256> {
        // A key that is shorter than a block is filled up with zeros (RFC 2104).
        let mut block = [0; 64];
        block[..self.secret.len()].copy_from_slice(&self.secret);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        match peer.ip().to_canonical() {
            IpAddr::V4(ip) => mac.update(&ip.octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        mac.update(&peer.port().to_le_bytes());
        mac.update(&session.to_le_bytes());
        mac.update(&epoch.to_le_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_belongs_to_address_session_and_time() {
        let cookies = Cookies { secret: [5; 32], zero: clock::now() };
        let now = cookies.zero + COOKIE_EPOCH * 10;
        let key = ("192.0.2.1:5".parse().unwrap(), 7);
        let cookie = cookies.of(key, cookies.epoch(now));
        assert!(cookies.are_good(now, key, cookie) && cookies.are_good(now + COOKIE_EPOCH, key, cookie));
        assert!(!cookies.are_good(now + COOKIE_EPOCH * 2, key, cookie));
        assert!(!cookies.are_good(now, (key.0, 8), cookie));
        assert!(!cookies.are_good(now, ("192.0.2.1:6".parse().unwrap(), 7), cookie));
        assert!(!cookies.are_good(now, key, [0; 16]));
    }
}
