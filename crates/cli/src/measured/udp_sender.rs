//! Reverse transfer over UDP at the side of `rdt-recv`: a thread that sends while the peer proves
//! that it receives.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdt_udp::{Remote, clock, send_from};

use super::connection::LOOK_INTERVAL;
use super::datagram::{Due, END_INTERVAL, END_TIMEOUT, Packet, Source, is_too_large};
use super::message::{Report, Request, Verdict};
use super::recv::{MAX_TIME, Server};

/// Time without a keep-alive of the peer after which the transfer ends.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which datagrams carry the same nonce.
const NONCE_INTERVAL: Duration = Duration::from_secs(2);
const STACK: usize = 256 << 10;

/// State of a reverse transfer, shared with its thread.
pub(super) struct Sending {
    peer: Mutex<Peer>,
    has_begun: AtomicBool,
    is_sent: AtomicBool,
    is_done: AtomicBool,
    has_ended: AtomicBool,
}

struct Peer {
    heard_at: Instant,
    nonces: RecentNonces,
}

/// Nonces of the last 6 to 8 s: the address of a peer that echoes one is not spoofed.
struct RecentNonces {
    /// Newest first. A peer that has received nothing returns 0, which is valid at the start.
    newest: [u32; 4],
    changed_at: Option<Instant>,
}

impl RecentNonces {
    /// Returns the nonce of a datagram that is sent now.
    fn current(&mut self, now: Instant) -> u32 {
        if self.changed_at.is_none_or(|at| now >= at + NONCE_INTERVAL) {
            self.changed_at = Some(now);
            self.newest.rotate_right(1);
            self.newest[0] = rand::random();
        }
        self.newest[0]
    }

    fn contains(&self, nonce: u32) -> bool {
        self.newest.contains(&nonce)
    }
}

impl Sending {
    pub(super) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self {
            peer: Mutex::new(Peer {
                heard_at: now,
                nonces: RecentNonces { newest: [0; 4], changed_at: None },
            }),
            has_begun: AtomicBool::new(false),
            is_sent: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        })
    }

    fn peer(&self) -> MutexGuard<'_, Peer> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a keep-alive. Returns true if the data must begin: the peer has its answer.
    pub(super) fn on_alive(&self, now: Instant, nonce: u32) -> bool {
        let mut peer = self.peer();
        if !peer.nonces.contains(nonce) {
            return false;
        }
        peer.heard_at = now;
        !self.has_begun.swap(true, Relaxed)
    }

    /// Notes that the peer confirms the end. Returns false if the data has not ended.
    pub(super) fn on_done(&self) -> bool {
        let is_sent = self.is_sent.load(Relaxed);
        self.is_done.fetch_or(is_sent, Relaxed);
        is_sent
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Relaxed)
    }

    /// True if nothing more is sent: the thread has ended, or the peer never asked for the data.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.has_ended.load(Relaxed) || (!self.has_begun.load(Relaxed) && !self.is_alive(now))
    }

    fn is_alive(&self, now: Instant) -> bool {
        now < self.peer().heard_at + ALIVE_TIMEOUT
    }

    /// Starts the thread. Without one, the session ends.
    pub(super) fn start(
        self: &Arc<Self>,
        server: &Arc<Server>,
        socket: &Arc<UdpSocket>,
        (peer, id): (Remote, u64),
        request: Request,
    ) {
        let sending = Arc::clone(self);
        let (server, socket) = (Arc::clone(server), Arc::clone(socket));
        let run = move || {
            let source = Source::new(id, &request, server.rate(&request).unwrap_or(1), clock::now());
            sending.run(&server, (&socket, peer, id), &request, source);
            sending.has_ended.store(true, Relaxed);
        };
        if thread::Builder::new().stack_size(STACK).spawn(run).is_err() {
            self.has_ended.store(true, Relaxed);
        }
    }

    /// Sends the datagrams, and the number of them until the peer confirms it.
    fn run(
        &self,
        server: &Server,
        (socket, peer, id): (&UdpSocket, Remote, u64),
        request: &Request,
        mut source: Source,
    ) {
        let length = if request.bytes.is_some() { MAX_TIME } else { request.omit + request.time };
        let ends_at = source.begun_at + length;
        let say = |packet: Packet| packet.send(id, |bytes| send_from(socket, peer, bytes));
        loop {
            let now = clock::now();
            if server.stop.is_set() || !self.is_alive(now) {
                return;
            }
            if ends_at <= now {
                break;
            }
            if source.is_due(now) {
                source.nonce = self.peer().nonces.current(now);
            }
            match source.send_due(now, |bytes| send_from(socket, peer, bytes)) {
                Ok(Due::Now) => {}
                Ok(Due::At(at)) => clock::sleep_until(at.min(now + LOOK_INTERVAL)),
                Ok(Due::Ended) => break,
                Err(error) => {
                    if is_too_large(&error) {
                        say(Packet::Answer(Verdict::TooLarge));
                    }
                    return;
                }
            }
            if source.must_speak(now) {
                say(Packet::Answer(Verdict::Accepted));
            }
        }
        self.is_sent.store(true, Relaxed);
        let ended_at = clock::now();
        while !self.is_done() {
            let now = clock::now();
            if server.stop.is_set() || now >= ended_at + END_TIMEOUT {
                return;
            }
            say(Packet::End { counted: source.counted });
            clock::sleep_until(now + END_INTERVAL);
        }
        let elapsed = ended_at.saturating_duration_since(source.begun_at).saturating_sub(request.omit);
        let report = Report { bytes: source.counted_bytes, elapsed, ..Report::default() };
        server.finished((peer.addr, None), request, &report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recent_marks_prove_an_address() {
        let now = clock::now();
        let sending = Sending::new(now);
        assert!(!sending.on_alive(now, 1) && !sending.is_over(now), "a nonce that was never sent");
        assert!(sending.on_alive(now, 0) && !sending.on_alive(now, 0), "begins once");
        let first = sending.peer().nonces.current(now);
        assert_eq!(sending.peer().nonces.current(now + NONCE_INTERVAL / 2), first);
        let mut at = now;
        for _ in 0..3 {
            at += NONCE_INTERVAL;
            sending.peer().nonces.current(at);
            sending.on_alive(at, first);
            assert!(sending.is_alive(at + ALIVE_TIMEOUT / 2));
        }
        let last = sending.peer().nonces.current(at + NONCE_INTERVAL);
        for stale in [0, first, last.wrapping_add(1)] {
            sending.on_alive(at + NONCE_INTERVAL, stale);
        }
        assert!(!sending.is_alive(at + ALIVE_TIMEOUT));
        sending.on_alive(at + NONCE_INTERVAL, last);
        assert!(sending.is_alive(at + ALIVE_TIMEOUT));
    }

    #[test]
    fn end_is_confirmed_after_data_alone() {
        let sending = Sending::new(clock::now());
        assert!(!sending.on_done() && !sending.is_done());
        sending.is_sent.store(true, Relaxed);
        assert!(sending.on_done() && sending.is_done());
    }

    #[test]
    fn transfer_without_begin_is_over_soon() {
        let now = clock::now();
        let sending = Sending::new(now);
        assert!(!sending.is_over(now) && sending.is_over(now + ALIVE_TIMEOUT));
    }
}
