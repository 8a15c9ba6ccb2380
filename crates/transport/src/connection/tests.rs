//! Two connections against each other in virtual time, without a set.

mod ends;
mod keys;
mod streams;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, Entropy, Initiator, Keys, Pattern, ResetKey, Responder, Secrets, StaticKey};
use rdt_testing::{epoch, ms};

use super::*;
use crate::wire::native::{self, peek};
use crate::{Ecn, Service, TransmitBuf, WindowConfig};

/// One-way delay of the wire.
const DELAY: Duration = Duration::from_millis(5);
/// Index of the initiator and of the responder.
const HERE: usize = 0;
const THERE: usize = 1;

fn entropy(seed: u8) -> Entropy {
    Entropy::from_seed([seed; 32])
}

/// Returns the secrets of a handshake for each side.
fn secrets() -> [Secrets; 2] {
    let mut entropy = entropy(1);
    let (ours, theirs) = (StaticKey::generate(&mut entropy), StaticKey::generate(&mut entropy));
    let keys = Keys { local: Some(&ours), remote: Some(theirs.public()), psk: None };
    let (mut initiator, first) = Initiator::start(Pattern::Ik, keys, b"", entropy.child(), b"").unwrap();
    let keys = Keys { local: Some(&theirs), ..Keys::default() };
    let (mut responder, _) = Responder::accept(Pattern::Ik, keys, b"", entropy.child(), &first).unwrap();
    initiator.read_second(&responder.write_second(b"").unwrap()).unwrap();
    [initiator.finish().unwrap(), responder.finish().unwrap()]
}

/// Datagram on the wire.
struct Flying {
    at: Instant,
    to: usize,
    bytes: Vec<u8>,
}

/// Decides whether a datagram of this sender is delivered, and may change it.
type Filter = Box<dyn FnMut(usize, &mut Vec<u8>) -> bool>;

/// Two open connections and the wire between them.
struct Pair {
    ends: [Connection; 2],
    now: Instant,
    wire: VecDeque<Flying>,
    events: [Vec<ConnectionEvent>; 2],
    /// Everything that was sent, with its sender.
    sent: Vec<(usize, Vec<u8>)>,
    filter: Filter,
    batch: TransmitBuf,
}

impl Pair {
    /// Returns an ACK that `side` would not send, sealed with its keys.
    fn forged_ack(&mut self, side: usize, largest_received: u64, ack: u64) -> Vec<u8> {
        let body = ack_body(largest_received, ack);
        let mut packet = vec![0; native::ack_len(body.len())];
        let sealing = &mut self.ends[side].streams_mut().unwrap().sealing;
        sealing.seal(&mut packet, |header, packet| native::encode_ack(header, &body, packet));
        packet
    }

    fn new(config: &ConnectionConfig) -> Self {
        Self::of([config, config])
    }

    fn of(configs: [&ConnectionConfig; 2]) -> Self {
        let now = epoch();
        let mut index = 0;
        let ends = secrets().map(|secrets| {
            let side = std::mem::replace(&mut index, 1);
            let peer = configs[1 - side];
            let offer = Offer::new(now, peer.receiver, peer.idle_timeout, None);
            let id = |side: usize| [0xAAAA_0001, 0xBBBB_0002][side];
            let established = Established {
                local_id: id(side),
                remote_id: id(1 - side),
                is_initiator: side == HERE,
                secrets,
                aead: Aead::Aes128Gcm,
                window: offer.window,
                params: params_of(peer, &offer, Service::NONE),
                name: None,
                peer_reset: ResetKey::generate(&mut entropy(9)).token(id(1 - side)),
                rtt: Some(2 * DELAY),
                is_remembered: false,
                offered_at: now,
            };
            let reset = ResetKey::generate(&mut entropy(8)).token(id(side));
            let env = ConnectionEnv {
                local_id: id(side),
                reset,
                share: None,
                memory: Memory::default(),
                known: None,
                skip_seed: 5,
            };
            Connection::accepted(now, configs[side], established, (None, None), env).unwrap()
        });
        Self {
            ends,
            now,
            wire: VecDeque::new(),
            events: [Vec::new(), Vec::new()],
            sent: Vec::new(),
            filter: Box::new(|_, _| true),
            batch: TransmitBuf::new(64),
        }
    }

    /// Sends the datagrams of the batch.
    fn send_batch(&mut self, side: usize) {
        for datagram in self.batch.datagrams() {
            let mut bytes = datagram.to_vec();
            self.sent.push((side, bytes.clone()));
            if (self.filter)(side, &mut bytes) {
                self.wire.push_back(Flying { at: self.now + DELAY, to: 1 - side, bytes });
            }
        }
    }

    /// Sends what both sides have to send, and takes their events.
    fn flush(&mut self) {
        for side in [HERE, THERE] {
            loop {
                self.batch.clear();
                if self.ends[side].poll_transmit(self.now, &mut self.batch) == Output::Nothing {
                    break;
                }
                self.send_batch(side);
            }
            self.events[side].extend(std::iter::from_fn(|| self.ends[side].poll_event()));
        }
    }

    /// Goes to the next arrival or timer, up to `end`. Returns false if there is none before.
    fn step(&mut self, end: Instant) -> bool {
        self.flush();
        let (ends, now) = (&self.ends, self.now);
        let timers = ends.iter().filter(|end| !end.is_drained(now)).filter_map(Connection::poll_timeout);
        let Some(next) = timers.chain(self.wire.front().map(|flying| flying.at)).min() else { return false };
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        while self.wire.front().is_some_and(|flying| flying.at <= self.now) {
            let Some(mut flying) = self.wire.pop_front() else { break };
            let end = &mut self.ends[flying.to];
            if peek(&flying.bytes).is_some() {
                end.handle_run(self.now, Ecn::NotEct, &mut flying.bytes, 1500, 1 << 30);
            } else {
                end.handle_clear(self.now, &flying.bytes);
            }
        }
        for end in &mut self.ends {
            if end.poll_timeout().is_some_and(|at| at <= self.now) && !end.is_drained(self.now) {
                end.handle_timeout(self.now);
            }
        }
        true
    }

    /// Runs for `time`, or until both sides are drained.
    fn run(&mut self, time: Duration) -> &mut Self {
        let end = self.now + time;
        while self.step(end) && !self.ends.iter().all(|end| end.is_drained(self.now)) {}
        self.flush();
        self
    }

    /// Writes all of `bytes` at one side and reads at the other one until everything was read.
    fn transfer(&mut self, from: usize, bytes: &[u8]) -> Vec<u8> {
        let (mut written, mut read) = (0, Vec::new());
        let end = self.now + Duration::from_secs(300);
        loop {
            written += self.ends[from].write(&bytes[written..]).unwrap();
            self.ends[from].push();
            self.read(1 - from, &mut read);
            if read.len() >= bytes.len() {
                return read;
            }
            assert!(self.step(end), "{} of {} bytes after {:?}", read.len(), bytes.len(), self.now - epoch());
        }
    }

    /// Appends everything that `side` can read to `into`.
    fn read(&mut self, side: usize, into: &mut Vec<u8>) {
        while !self.ends[side].data().is_empty() {
            into.extend_from_slice(self.ends[side].data());
            let n = self.ends[side].data().len();
            self.ends[side].consume(n);
        }
        self.ends[side].after_call(self.now);
    }

    fn count(&self, from: usize, kind: u8) -> usize {
        self.sent.iter().filter(|(side, bytes)| *side == from && bytes[1] == kind).count()
    }
}

/// Returns the body of an ACK without SACK blocks.
fn ack_body(largest_received: u64, ack: u64) -> Vec<u8> {
    let ack = native::Ack {
        largest_received,
        sent_us: 0,
        echo_delay_us: 0,
        ack,
        window: 1 << 20,
        packets: 1,
        duplicates: 0,
        ce: 0,
        ect: 0,
        overflow: None,
    };
    let mut body = vec![0; native::ack_body_len(0)];
    let len = native::encode_ack_body(&ack, &[], &mut body);
    body.truncate(len);
    body
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect()
}

fn config() -> ConnectionConfig {
    ConnectionConfig::default()
}
