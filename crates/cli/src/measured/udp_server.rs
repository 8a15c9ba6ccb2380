//! `rdt-recv --wire udp`: one socket for all peers; each reverse transfer has a thread.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_transport::CookieKey;
use rdt_udp::{AddressedReads, Remote, clock, send_from};

use super::arrivals::Arrivals;
use super::connection::LOOK_INTERVAL;
use super::datagram::{Cookie, MAX_DATAGRAM, Packet};
use super::message::{Report, Request, Verdict};
use super::peer_slots::PeerSlot;
use super::recv::{MAX_PEERS, Server};
use super::udp_sender::Sending;
use crate::output::log::name;

/// Silence after which an unfinished session ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence of a finished session after which it does not repeat its last packet any more.
const LINGER: Duration = Duration::from_secs(3);
/// Sessions at a time, with those that have ended and may repeat their last packet.
const MAX_SESSIONS: usize = 2 * MAX_PEERS;

pub(super) fn serve(socket: UdpSocket, mut reads: AddressedReads, server: &Arc<Server>) {
    let mut table = Table {
        server: Arc::clone(server),
        socket: Arc::new(socket),
        sessions: BTreeMap::new(),
        cookies: Cookies { key: CookieKey::new(rand::random()), zero: clock::now() },
    };
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut next_look = clock::now();
    while !server.stop.is_set() {
        if let Ok((length, peer)) = reads.receive(&table.socket, &mut buffer) {
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
    for ((peer, _), mut session) in std::mem::take(&mut table.sessions) {
        session.log_report(server, peer);
        if !session.is_finished() {
            server.cleaned_up((peer.addr, None), &session.request, true);
        }
    }
    server.wait_for_threads();
}

type Key = (Remote, u64);

struct Table {
    server: Arc<Server>,
    socket: Arc<UdpSocket>,
    sessions: BTreeMap<Key, Session>,
    cookies: Cookies,
}

struct Session {
    request: Request,
    heard_at: Instant,
    report: Option<Report>,
    /// The report is logged: the peer asks for no other.
    is_logged: bool,
    part: Part,
    /// `None` after the end, while the last packet may have to be repeated.
    slot: Option<PeerSlot>,
}

impl Session {
    fn is_finished(&self) -> bool {
        match &self.part {
            Part::Receive(_) => self.report.is_some(),
            Part::Send(sending) => sending.is_done(),
        }
    }

    /// Frees the slot, and logs the end.
    fn end(&mut self, server: &Server, peer: Remote) {
        self.slot = None;
        self.log_report(server, peer);
        server.cleaned_up((peer.addr, None), &self.request, !self.is_finished());
    }

    /// Logs the newest report, if there is one and none is logged.
    fn log_report(&mut self, server: &Server, peer: Remote) {
        if let Some(report) = self.report.filter(|_| !self.is_logged) {
            self.is_logged = true;
            server.finished((peer.addr, None), &self.request, &report);
        }
    }
}

enum Part {
    Receive(Box<Arrivals>),
    Send(Arc<Sending>),
}

impl Table {
    fn handle(&mut self, now: Instant, peer: Remote, bytes: &[u8]) {
        let Some((id, packet)) = Packet::decode(bytes) else { return };
        if let Packet::Request { cookie, request } = packet {
            return self.handle_hello(now, (peer, id), cookie, request);
        }
        let Some(session) = self.sessions.get_mut(&(peer, id)) else { return };
        session.heard_at = now;
        match (&mut session.part, packet) {
            (Part::Receive(arrivals), Packet::Data { number, sent, .. }) => {
                arrivals.add(now, number, sent, bytes.len());
            }
            (Part::Receive(arrivals), Packet::End { counted }) => {
                let report = arrivals.report();
                session.report = Some(report);
                session.slot = None;
                Packet::Report(report).send(id, |bytes| send_from(&self.socket, peer, bytes));
                // After an incomplete count, which the session's end logs, the peer asks again.
                if report.datagrams >= counted {
                    session.log_report(&self.server, peer);
                }
            }
            (Part::Send(sending), Packet::KeepAlive { nonce }) => {
                let must_start = sending.on_alive(now, nonce);
                if must_start {
                    sending.start(&self.server, &self.socket, (peer, id), session.request);
                }
            }
            // Before the end of the data, the thread still needs the slot.
            (Part::Send(sending), Packet::EndConfirmed) if sending.on_done() => {
                session.slot = None;
                Packet::EndConfirmed.send(id, |bytes| send_from(&self.socket, peer, bytes));
            }
            _ => {}
        }
    }

    /// Answers a request. A peer that has not proved its address takes no memory.
    fn handle_hello(&mut self, now: Instant, key: Key, cookie: Cookie, request: Request) {
        let (peer, id) = key;
        let answer = if self.sessions.contains_key(&key) {
            Packet::Answer(Verdict::Accepted)
        } else if !self.cookies.are_good(now, key, cookie) {
            Packet::Cookie(self.cookies.of(now, key))
        } else {
            Packet::Answer(self.admit(now, key, request))
        };
        answer.send(id, |bytes| send_from(&self.socket, peer, bytes));
    }

    fn admit(&mut self, now: Instant, key: Key, request: Request) -> Verdict {
        let verdict = self.server.judge(&request);
        if verdict != Verdict::Accepted {
            return verdict;
        }
        if self.server.is_closing() {
            return Verdict::Busy;
        }
        let Some(slot) = self.server.peers.take(key.0.addr) else { return Verdict::Busy };
        let part = if request.is_reverse {
            Part::Send(Sending::new(now))
        } else {
            Part::Receive(Box::new(Arrivals::new(request.omit, now)))
        };
        self.make_room();
        self.server.connected((key.0.addr, None), &request);
        let session =
            Session { request, heard_at: now, report: None, is_logged: false, part, slot: Some(slot) };
        self.sessions.insert(key, session);
        Verdict::Accepted
    }

    /// Removes the session without a slot that was silent longest, if there are too many sessions.
    fn make_room(&mut self) {
        let ended = self.sessions.iter().filter(|(_, session)| session.slot.is_none());
        if self.sessions.len() >= MAX_SESSIONS
            && let Some((&key, _)) = ended.min_by_key(|(_, session)| session.heard_at)
            && let Some(mut session) = self.sessions.remove(&key)
        {
            session.end(&self.server, key.0);
        }
    }

    fn expire(&mut self, now: Instant) {
        let server = &self.server;
        self.sessions.retain(|(peer, _), session| {
            let silence = now.saturating_duration_since(session.heard_at);
            let is_over = match &session.part {
                Part::Send(sending) if !sending.is_over(now) => false,
                _ if session.is_finished() => silence > LINGER,
                Part::Receive(_) => silence > IDLE_TIMEOUT,
                Part::Send(_) => true,
            };
            if is_over {
                session.end(server, *peer);
            }
            !is_over
        });
    }
}

/// Cookies: a peer that returns one receives at its address.
struct Cookies {
    key: CookieKey,
    zero: Instant,
}

impl Cookies {
    fn of(&self, now: Instant, (peer, session): Key) -> Cookie {
        let cookie = self.key.issue(self.seconds(now), name(peer.addr).as_bytes(), session);
        cookie.first_chunk().copied().unwrap_or_default()
    }

    fn are_good(&self, now: Instant, (peer, session): Key, cookie: Cookie) -> bool {
        self.key.verify(&cookie, self.seconds(now), name(peer.addr).as_bytes(), session)
    }

    fn seconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.zero).as_secs()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn cookie_belongs_to_address_session_and_time() {
        let cookies = Cookies { key: CookieKey::new([5; 32]), zero: clock::now() };
        let slot = Duration::from_secs(CookieKey::SLOT_S);
        let now = cookies.zero + slot * 10;
        let peer = |text: &str| Remote::from(text.parse::<SocketAddr>().unwrap());
        let key = (peer("192.0.2.1:5"), 7);
        let cookie = cookies.of(now, key);
        assert!(cookies.are_good(now, key, cookie) && cookies.are_good(now + slot, key, cookie));
        assert!(!cookies.are_good(now + slot * 2, key, cookie));
        assert!(!cookies.are_good(now, (key.0, 8), cookie));
        assert!(!cookies.are_good(now, (peer("192.0.2.1:6"), 7), cookie));
        assert!(!cookies.are_good(now, key, [0; 16]));
    }
}
