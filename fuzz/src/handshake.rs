//! A listening set of connections under handshake packets of an attacker who has no key: nothing
//! completes, and no answer is longer than what it answers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rdt_crypto::{Entropy, SharedSecret, StaticKey};
use rdt_transport::{
    ConnectionConfig, ConnectionEvent, ConnectionSet, ConnectionSetConfig, Ecn, Endpoint, InitiatorConfig,
    ResponderConfig, TransmitBuf,
};

use rdt_testing::packets::{HEADER, connection_id, native, set_check};

/// Largest number of half-open connections.
const MAX_HALF_OPEN: usize = 8;

/// Types of packets (docs/PROTOCOL.md, N1).
const SYN: u8 = 1;
const RETRY: u8 = 2;
const SYN_ACK: u8 = 3;
const AUTH: u8 = 11;
const REFUSE: u8 = 14;
const OPEN: u8 = 15;

/// Length of the shortest SYN, bytes.
const SYN_MIN: usize = 320;

#[derive(Debug, Arbitrary)]
enum Op {
    Syn {
        peer: u8,
        id: u8,
        /// Whether the SYN has the newest cookie, one of these bytes, or none.
        cookie: Option<Option<u8>>,
        /// Whether the cookie has the length of those of an earlier connection.
        is_resumption: bool,
        attempt: u8,
        pattern: u8,
        aeads: u8,
        /// Number of a secret; `None` is that of the secret which the responder knows.
        secret: Option<u64>,
        noise: Vec<u8>,
    },
    /// Answers a SYN of the local connection.
    SynAck {
        attempt: u8,
        noise: Vec<u8>,
    },
    Auth {
        id: u64,
        noise: Vec<u8>,
    },
    /// Opens a connection in an association that the responder does not have.
    Open {
        peer: u8,
        id: u8,
        association: u64,
        number: u64,
        hello: Vec<u8>,
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
    /// Number of the secret that the responder knows, and the attacker does not.
    secret: u64,
    /// ID of the local connection, to peer 0.
    own: u64,
    newest: Vec<u8>,
    received: usize,
    sent: usize,
    out: TransmitBuf,
}

/// Host of an address. Four addresses are ports of one host.
fn host(address: &u8) -> IpAddr {
    [192, 0, 2, address / 4].into()
}

pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let now = Instant::now();
    let has_hosts: bool = input.arbitrary().unwrap_or_default();
    let limits = ConnectionSetConfig {
        max_half_open: MAX_HALF_OPEN,
        ip_of: has_hosts.then_some(host as fn(&u8) -> IpAddr),
        unix_time: has_hosts.then_some((now, 1_800_000_000)),
        ..ConnectionSetConfig::default()
    };
    let mut set = ConnectionSet::new(limits, Entropy::from_seed([1; 32]));
    let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([2; 32])));
    let secret = Arc::new(SharedSecret::from_array(&[7; 32]));
    let number = secret.id().to_wire();
    set.listen(ResponderConfig { secrets: Arc::new(vec![secret]), ..ResponderConfig::open(identity) });
    let known = StaticKey::generate(&mut Entropy::from_seed([3; 32])).public();
    let keys = InitiatorConfig { remote: Some(known), ..InitiatorConfig::default() };
    set.connect(now, 0, keys, ConnectionConfig::default()).expect("a valid configuration");
    let (cookie, out) = ([0; 32], TransmitBuf::new(64));
    let newest = Vec::new();
    let mut harness = Harness { set, now, cookie, secret: number, own: 0, newest, received: 0, sent: 0, out };
    harness.drain(true);
    harness.own = connection_id(&harness.newest).expect("a SYN");
    while let Ok(op) = Op::arbitrary(&mut input) {
        harness.apply(op);
        harness.drain(false);
        if input.is_empty() {
            return;
        }
    }
}

impl Harness {
    fn apply(&mut self, op: Op) {
        match op {
            Op::Syn { peer, id, cookie, is_resumption, attempt, pattern, aeads, secret, mut noise } => {
                let proof = cookie.map(|byte| {
                    let cookie = byte.map_or(self.cookie, |byte| [byte; 32]);
                    let rest = if is_resumption { &cookie[..16] } else { &[] };
                    [&cookie, rest].concat()
                });
                noise.truncate(240);
                let proof = proof.as_deref().unwrap_or_default();
                let pattern = [1, 2, 3, 0x11, 0x13, pattern][usize::from(pattern) % 6];
                let mut body = vec![proof.len() as u8, attempt.max(1), pattern, aeads];
                // Versions: the second alone. The next field is reserved.
                body.extend([1 << 2, 0, 0, 0]);
                body.extend(secret.unwrap_or(self.secret).to_le_bytes());
                body.extend(proof);
                body.extend(&noise);
                body.resize(SYN_MIN - HEADER, 0);
                self.input(peer.max(1), native(SYN, noise.len() as u16, u64::from(id) + 1, &body));
            }
            Op::SynAck { attempt, mut noise } => {
                noise.truncate(1000);
                let body = [&[attempt, 0, 0, 0, 0, 0, 0, 0][..], &noise].concat();
                self.input(0, native(SYN_ACK, noise.len() as u16, self.own, &body));
            }
            Op::Auth { id, mut noise } => {
                noise.truncate(1000);
                self.input(1, native(AUTH, noise.len() as u16, id, &noise));
            }
            Op::Open { peer, id, association, number, mut hello } => {
                hello.truncate(280);
                let body = [&association.to_le_bytes()[..], &number.to_le_bytes(), &hello].concat();
                self.input(peer.max(1), native(OPEN, hello.len() as u16, u64::from(id) + 1, &body));
            }
            Op::Refuse { reason } => self.input(0, native(REFUSE, reason, self.own ^ 1, &[])),
            Op::Retry { cookie } => self.input(0, native(RETRY, 0, self.own, &cookie)),
            Op::Bytes { peer, bytes } => self.input(peer, bytes),
            Op::Reflect { peer, at, mask } => {
                let mut packet = self.newest.clone();
                if packet.len() >= 16 {
                    let at = usize::from(at) % packet.len();
                    packet[at] ^= mask;
                    if !(4..8).contains(&at) {
                        set_check(&mut packet);
                    }
                    self.input(peer, packet);
                }
            }
            Op::Sealed { kind, bytes } => {
                let id = connection_id(&self.newest).unwrap_or(self.own);
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
                if datagram.starts_with(&[0xD2, RETRY]) {
                    self.cookie = datagram[HEADER..].try_into().expect("the cookie of a RETRY");
                }
                // Peer 0 is that of the local connection, whose SYNs are no answers.
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
