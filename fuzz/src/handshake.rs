//! A listening set of connections under handshake packets of an attacker who has no key: nothing
//! completes, and no answer is longer than what it answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rdt_crypto::{Entropy, StaticKey};
use rdt_transport::wire::sealed::{self, Clear, Proof, Syn};
use rdt_transport::{
    ConnectionConfig, ConnectionEvent, ConnectionSet, ConnectionSetConfig, Ecn, Endpoint, InitiatorConfig,
    ResponderConfig, TransmitBuf,
};

/// Largest number of half-open connections.
const MAX_HALF_OPEN: usize = 8;

#[derive(Debug, Arbitrary)]
enum Op {
    Syn {
        peer: u8,
        id: u8,
        /// Whether the SYN has the newest cookie, one of these bytes, or none.
        cookie: Option<Option<u8>>,
        attempt: u8,
        pattern: u8,
        aeads: u8,
        secret: u64,
        noise: Vec<u8>,
    },
    /// Answers a SYN of the own connection.
    SynAck {
        attempt: u8,
        noise: Vec<u8>,
    },
    Auth {
        id: u64,
        noise: Vec<u8>,
    },
    Refuse {
        reason: u16,
    },
    Retry {
        cookie: [u8; 32],
    },
    Bytes {
        peer: u8,
        bytes: Vec<u8>,
    },
    /// The newest datagram of the set, sent back to it with one byte changed.
    Reflect {
        peer: u8,
        at: u16,
        mask: u8,
    },
    /// A sealed packet for the newest ID of the responder.
    Sealed {
        kind: u8,
        bytes: Vec<u8>,
    },
    Advance {
        ms: u16,
    },
}

struct Harness {
    set: ConnectionSet<u8>,
    now: Instant,
    cookie: [u8; 32],
    /// ID of the own connection, to peer 0.
    own: u64,
    newest: Vec<u8>,
    received: usize,
    sent: usize,
    out: TransmitBuf,
}

pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut set = ConnectionSet::new(
        ConnectionSetConfig { max_half_open: MAX_HALF_OPEN, ..ConnectionSetConfig::default() },
        Entropy::from_seed([1; 32]),
    );
    let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([2; 32])));
    set.listen(ResponderConfig::open(identity));
    let now = Instant::now();
    let known = StaticKey::generate(&mut Entropy::from_seed([3; 32])).public();
    let keys = InitiatorConfig { remote: Some(known), ..InitiatorConfig::default() };
    set.connect(now, 0, keys, ConnectionConfig::default()).expect("a valid configuration");
    let (cookie, out) = ([0; 32], TransmitBuf::new(64));
    let mut harness = Harness { set, now, cookie, own: 0, newest: Vec::new(), received: 0, sent: 0, out };
    harness.drain(true);
    harness.own = sealed::connection_id(&harness.newest).expect("a SYN");
    while let Ok(op) = Op::arbitrary(&mut input) {
        harness.apply(op);
        harness.drain(false);
        if input.is_empty() {
            return;
        }
    }
}

/// Completes the check of a packet that is not sealed.
fn with_check(mut packet: Vec<u8>) -> Vec<u8> {
    packet[4..8].fill(0);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&packet);
    let check = crc.finalize().to_le_bytes();
    packet[4..8].copy_from_slice(&check);
    packet
}

impl Harness {
    fn apply(&mut self, op: Op) {
        match op {
            Op::Syn { peer, id, cookie, attempt, pattern, aeads, secret, mut noise } => {
                let proof = match cookie {
                    None => Proof::None,
                    Some(None) => Proof::Retry(self.cookie),
                    Some(Some(byte)) => Proof::Retry([byte; 32]),
                };
                noise.truncate(if proof == Proof::None { 0 } else { 250 });
                let len = if proof == Proof::None { sealed::SHORT_SYN } else { sealed::LONG_SYN };
                let mut packet = vec![0; len];
                // `Versions` cannot be made outside of the crate.
                let Some(versions) = versions() else { return };
                let syn = Syn {
                    proof,
                    attempt: attempt.max(1),
                    pattern: [1, 2, 3, 0x11, 0x13, pattern][usize::from(pattern) % 6],
                    aeads,
                    versions,
                    secret_id: secret,
                    noise: &noise,
                };
                sealed::encode_syn(u64::from(id) + 1, &syn, &mut packet);
                self.input(peer.max(1), packet);
            }
            Op::SynAck { attempt, mut noise } => {
                noise.truncate(1000);
                let mut packet = vec![0; sealed::syn_ack_len(&noise)];
                sealed::encode_syn_ack(self.own, attempt, &noise, &mut packet);
                self.input(0, packet);
            }
            Op::Auth { id, mut noise } => {
                noise.truncate(1000);
                let mut packet = vec![0; sealed::auth_len(&noise)];
                sealed::encode_auth(id, &noise, &mut packet);
                self.input(1, packet);
            }
            Op::Refuse { reason } => {
                let mut packet = vec![0; sealed::REFUSE_LEN];
                sealed::encode_refuse(self.own ^ 1, reason, &mut packet);
                self.input(0, packet);
            }
            Op::Retry { cookie } => {
                let mut packet = vec![0; sealed::RETRY_LEN];
                sealed::encode_retry(self.own, &cookie, &mut packet);
                self.input(0, packet);
            }
            Op::Bytes { peer, bytes } => self.input(peer, bytes),
            Op::Reflect { peer, at, mask } => {
                let mut packet = self.newest.clone();
                if packet.len() >= 16 {
                    let at = usize::from(at) % packet.len();
                    packet[at] ^= mask;
                    let packet = if (4..8).contains(&at) { packet } else { with_check(packet) };
                    self.input(peer, packet);
                }
            }
            Op::Sealed { kind, bytes } => {
                let id = sealed::connection_id(&self.newest).unwrap_or(self.own);
                let packet = [
                    &[0xD2, [4, 6, 7, 8, 9, 12][usize::from(kind) % 6], 0, 0, 0, 0, 0, 0][..],
                    &id.to_le_bytes(),
                    &bytes,
                ];
                self.input(1, packet.concat());
            }
            Op::Advance { ms } => {
                self.now += Duration::from_millis(u64::from(ms));
                self.set.handle_timeout(self.now);
            }
        }
    }

    fn input(&mut self, peer: u8, mut packet: Vec<u8>) {
        self.received += packet.len();
        self.set.handle_datagram(self.now, peer, Ecn::NotEct, &mut packet);
    }

    fn drain(&mut self, is_own: bool) {
        for _ in 0..1000 {
            self.out.clear();
            let Some(peer) = self.set.poll_transmit(self.now, &mut self.out) else { break };
            for datagram in self.out.datagrams() {
                if let Ok(Clear::Retry(cookie)) = Clear::decode(datagram) {
                    self.cookie = cookie;
                }
                // Peer 0 is that of the own connection, whose SYNs are no answers.
                self.sent += if peer == 0 || is_own { 0 } else { datagram.len() };
                self.newest = datagram.to_vec();
            }
        }
        assert!(self.sent <= self.received, "{} bytes for {}", self.sent, self.received);
        assert!(self.set.half_open() <= MAX_HALF_OPEN);
        assert_eq!(self.set.stats().accepted, 0, "a connection without a key");
        while let Some((_, event)) = self.set.poll_event() {
            assert!(!matches!(event, ConnectionEvent::Connected { .. }), "connected without the key");
        }
    }
}

/// Returns the set of versions with version 2 alone, as decoded from a SYN.
fn versions() -> Option<rdt_transport::wire::native::Versions> {
    let mut set = ConnectionSet::<u8>::new(ConnectionSetConfig::default(), Entropy::from_seed([9; 32]));
    let (now, mut out) = (Instant::now(), TransmitBuf::new(1));
    set.connect(now, 0, InitiatorConfig::default(), ConnectionConfig::default()).ok()?;
    set.poll_transmit(now, &mut out)?;
    let datagram = out.datagrams().next()?;
    match Clear::decode(datagram) {
        Ok(Clear::Syn(syn)) => Some(syn.versions),
        _ => None,
    }
}
