//! Two sets of connections and a network that loses, copies, changes, delays and invents packets.
//! Without encryption it invents packets that their receiver takes for the peer's.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rdt_crypto::{Entropy, ResumptionCookie, SharedSecret, StaticKey};
use rdt_testing::packets::{HEADER, connection_id, unencrypted};
use rdt_transport::{
    Connection, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig, Ecn,
    Endpoint, InitiatorConfig, ResponderConfig, Service, TransmitBuf,
};

use crate::grammar::{Expected, Sealed};

/// Datagrams that one call may send: more are a defect.
const MAX_DATAGRAMS: usize = 100_000;
/// Packets that wait in the network.
const MAX_WAITING: usize = 256;
/// Memory limit of a set, bytes; each connection may hold 128 KiB of unread data besides.
const MEMORY: u64 = 1 << 20;

#[derive(Debug, Arbitrary)]
struct Input {
    /// The initiator knows the responder's key (1), has a key (2), sends alone (4), has a secret
    /// (8). The responder knows the secret (16). Sets know hosts and the time (32). Nothing is
    /// encrypted (64).
    flags: u8,
    ops: Vec<Op>,
}

#[derive(Debug, Arbitrary)]
enum Op {
    Connect,
    /// Delivers the waiting packet with this index.
    Deliver {
        index: u8,
    },
    DeliverAll,
    Drop {
        index: u8,
    },
    Copy {
        index: u8,
    },
    /// Changes a byte of a waiting packet.
    Change {
        index: u8,
        at: u16,
        mask: u8,
    },
    Cut {
        index: u8,
        len: u16,
    },
    /// Adds a packet of the sender of a waiting one, which comes from the same address, has a
    /// number near its number, and a right tag if there is no encryption.
    Forge {
        index: u8,
        number: i8,
        packet: Sealed,
    },
    /// Sends a waiting packet back, or to the other side from another address.
    Reflect {
        index: u8,
    },
    Rebind {
        side: bool,
        address: u8,
    },
    Write {
        side: bool,
        connection: u8,
        len: u16,
    },
    Read {
        side: bool,
        connection: u8,
        len: u16,
    },
    Finish {
        side: bool,
        connection: u8,
    },
    Close {
        side: bool,
        connection: u8,
        code: u32,
    },
    Release {
        side: bool,
        connection: u8,
    },
    /// Makes the next update of this side's key due.
    UpdateKey {
        side: bool,
        connection: u8,
    },
    Advance {
        ms: u16,
    },
    ToDeadline,
}

struct Packet {
    to: usize,
    from: u8,
    bytes: Vec<u8>,
}

/// Stream positions of one side of a connection.
#[derive(Debug, Default, Clone)]
struct Side {
    written: u64,
    read: u64,
    is_finished: bool,
    is_connected: bool,
    is_over: bool,
    is_released: bool,
}

struct Harness {
    sets: [ConnectionSet<u8>; 2],
    sides: [BTreeMap<ConnectionId, Side>; 2],
    /// Present address of each set.
    addresses: [u8; 2],
    network: VecDeque<Packet>,
    now: Instant,
    keys: InitiatorConfig,
    /// Newest cookie of the responder.
    resumption: Option<ResumptionCookie>,
    config: ConnectionConfig,
    connects: u8,
    /// What each side has sent and received.
    expected: [Expected; 2],
    /// True if a forged packet may have arrived: then streams and events need not be genuine.
    is_forged: bool,
    out: TransmitBuf,
}

/// Host of an address. Four addresses are ports of one host.
fn host(address: &u8) -> IpAddr {
    [192, 0, 2, address / 4].into()
}

/// Byte of every stream at `offset`.
fn byte(offset: u64) -> u8 {
    (offset % 251) as u8
}

pub fn run(data: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let config = ConnectionConfig {
        one_way: input.flags & 4 != 0,
        dangerously_unencrypted: input.flags & 64 != 0,
        ..ConnectionConfig::default()
    };
    let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([2; 32])));
    let service = Service::new("fuzz").expect("it is a name");
    let keys = InitiatorConfig {
        service: if input.flags & 128 == 0 { service } else { Service::NONE },
        remote: (input.flags & 1 != 0).then(|| identity.public()),
        local: (input.flags & 2 != 0)
            .then(|| Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])))),
        ..InitiatorConfig::default()
    };
    let secret = Arc::new(SharedSecret::from_array(&[7; 32]));
    let keys = InitiatorConfig { secret: (input.flags & 8 != 0).then(|| Arc::clone(&secret)), ..keys };
    let secrets: Vec<_> = (input.flags & 16 != 0).then_some(secret).into_iter().collect();
    let now = Instant::now();
    let has_hosts = input.flags & 32 != 0;
    let limits = ConnectionSetConfig {
        max_connections: 4,
        max_connections_per_source: Some(3),
        ip_of: has_hosts.then_some(host as fn(&u8) -> IpAddr),
        unix_time: has_hosts.then_some((now, 1_800_000_000)),
        memory_limit: MEMORY,
        connection_memory_limit: MEMORY,
        ..ConnectionSetConfig::default()
    };
    let mut sets = [4, 5].map(|seed| ConnectionSet::new(limits, Entropy::from_seed([seed; 32])));
    let secrets = Arc::new(secrets);
    let open = ResponderConfig::open(identity);
    sets[1].listen(ResponderConfig { config: config.clone(), secrets, service, ..open });
    let mut harness = Harness {
        sets,
        sides: [BTreeMap::new(), BTreeMap::new()],
        addresses: [10, 20],
        network: VecDeque::new(),
        now,
        keys,
        resumption: None,
        config,
        connects: 0,
        expected: [Expected::default(); 2],
        is_forged: false,
        out: TransmitBuf::new(64),
    };
    harness.apply(Op::Connect);
    for op in input.ops {
        harness.drain();
        harness.apply(op);
    }
    harness.drain();
    harness.end();
}

impl Harness {
    fn apply(&mut self, op: Op) {
        let now = self.now;
        match op {
            Op::Connect if self.connects < 4 => {
                self.connects += 1;
                let to = self.addresses[1];
                let resumption = self.resumption.take();
                let keys = InitiatorConfig { resumption, ..self.keys.clone() };
                let id = self.sets[0].connect(now, to, keys, self.config.clone());
                self.sides[0].insert(id.expect("a valid configuration"), Side::default());
            }
            Op::Connect => {}
            Op::Deliver { index } => {
                if let Some(packet) = self.pick(index).and_then(|at| self.network.remove(at)) {
                    self.deliver(packet);
                }
            }
            Op::DeliverAll => {
                for packet in std::mem::take(&mut self.network) {
                    self.deliver(packet);
                }
            }
            Op::Drop { index } => {
                if let Some(at) = self.pick(index) {
                    self.network.remove(at);
                }
            }
            Op::Copy { index } => {
                if let Some(at) = self.pick(index) {
                    let Packet { to, from, ref bytes } = self.network[at];
                    let bytes = bytes.clone();
                    self.network.push_back(Packet { to, from, bytes });
                }
            }
            Op::Change { index, at, mask } => {
                if let Some(index) = self.pick(index) {
                    let bytes = &mut self.network[index].bytes;
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= mask;
                }
            }
            Op::Cut { index, len } => {
                if let Some(index) = self.pick(index) {
                    let bytes = &mut self.network[index].bytes;
                    bytes.truncate((usize::from(len) % bytes.len()).max(1));
                }
            }
            Op::Forge { index, number, packet } => self.forge(index, number, &packet),
            Op::Reflect { index } => {
                if let Some(at) = self.pick(index) {
                    self.network[at].to ^= 1;
                }
            }
            Op::Rebind { side, address } => self.addresses[usize::from(side)] = address,
            Op::Write { side, connection, len } => self.write(usize::from(side), connection, len),
            Op::Read { side, connection, len } => {
                if let Some(id) = self.nth(usize::from(side), connection) {
                    self.read(usize::from(side), id, len.into());
                }
            }
            Op::Finish { side, connection } => {
                let side = usize::from(side);
                if let Some(id) = self.nth(side, connection) {
                    let state = self.sides[side].get_mut(&id).expect("listed");
                    state.is_finished |= state.is_connected;
                    let is_connected = state.is_connected;
                    self.sets[side].with(now, id, |connection| is_connected.then(|| connection.finish()));
                }
            }
            Op::Close { side, connection, code } => {
                let side = usize::from(side);
                if let Some(id) = self.nth(side, connection) {
                    self.sets[side].with(now, id, |connection| connection.close(now, code, "fuzz"));
                }
            }
            Op::Release { side, connection } => {
                let side = usize::from(side);
                if let Some(id) = self.nth(side, connection) {
                    self.sides[side].get_mut(&id).expect("listed").is_released = true;
                    self.sets[side].release(now, id);
                }
            }
            Op::UpdateKey { side, connection } => {
                let side = usize::from(side);
                if let Some(id) = self.nth(side, connection) {
                    self.sets[side].with(now, id, Connection::use_up_key);
                }
            }
            Op::Advance { ms } => self.advance(now + Duration::from_millis(ms.into())),
            Op::ToDeadline => {
                let next = self.sets.iter().filter_map(Endpoint::poll_timeout).min();
                self.advance(next.unwrap_or(now).max(now));
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        self.now = now;
        for set in &mut self.sets {
            if set.poll_timeout().is_some_and(|at| at <= now) {
                set.handle_timeout(now);
            }
        }
    }

    fn pick(&self, index: u8) -> Option<usize> {
        usize::from(index).checked_rem(self.network.len())
    }

    /// Returns a connection that the application still has.
    fn nth(&self, side: usize, index: u8) -> Option<ConnectionId> {
        let held: Vec<_> = self.sides[side].iter().filter(|(_, state)| !state.is_released).collect();
        held.get(usize::from(index).checked_rem(held.len())?).map(|(id, _)| **id)
    }

    fn write(&mut self, side: usize, connection: u8, len: u16) {
        let Some(id) = self.nth(side, connection) else { return };
        let state = self.sides[side].get_mut(&id).expect("listed");
        if state.is_finished || !state.is_connected {
            return;
        }
        let bytes: Vec<u8> = (0..u64::from(len)).map(|i| byte(state.written + i)).collect();
        let taken = self.sets[side].with(self.now, id, |connection| {
            let taken = connection.write(&bytes);
            connection.push();
            taken
        });
        if let Some(Ok(taken)) = taken {
            state.written += taken as u64;
            let most = self.expected[side].sent.max(state.written);
            (self.expected[side].sent, self.expected[1 - side].received) = (most, most);
        }
    }

    fn read(&mut self, side: usize, id: ConnectionId, most: usize) {
        let state = self.sides[side].get_mut(&id).expect("listed");
        self.sets[side].with(self.now, id, |connection| {
            let n = connection.data().len().min(most);
            for (i, read) in connection.data()[..n].iter().enumerate() {
                let is_right = *read == byte(state.read + i as u64);
                assert!(is_right || self.is_forged, "a byte is wrong, missing or twice");
            }
            connection.consume(n);
            state.read += n as u64;
        });
    }

    fn deliver(&mut self, mut packet: Packet) {
        self.sets[packet.to].handle_datagram(self.now, packet.from, Ecn::NotEct, &mut packet.bytes);
    }

    /// Adds a packet to the network, as a peer that breaks the rules would send it.
    fn forge(&mut self, index: u8, number: i8, packet: &Sealed) {
        let Some(at) = self.pick(index) else { return };
        let Packet { to, from, ref bytes } = self.network[at];
        let Some(header) = bytes.first_chunk::<HEADER>() else { return };
        if ![4, 6, 7, 8, 9, 12].contains(&header[1]) {
            return;
        }
        let (kind, info, body) = packet.encode(&self.expected[to]);
        let phase = u16::from(header[2]) & 3;
        let near = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let number = near.wrapping_add_signed(number.into());
        let id = connection_id(header).expect("a header");
        let bytes = unencrypted(kind, info | phase, number, id, &body);
        self.network.push_back(Packet { to, from, bytes });
        self.is_forged |= self.config.dangerously_unencrypted;
    }

    fn drain(&mut self) {
        for side in 0..2 {
            let mut sent = 0;
            loop {
                self.out.clear();
                if self.sets[side].poll_transmit(self.now, &mut self.out).is_none() {
                    break;
                }
                for datagram in self.out.datagrams() {
                    sent += 1;
                    learn(&mut self.expected[side], datagram);
                    if self.network.len() < MAX_WAITING {
                        let from = self.addresses[side];
                        self.network.push_back(Packet { to: 1 - side, from, bytes: datagram.to_vec() });
                    }
                }
                assert!(sent < MAX_DATAGRAMS, "it sends without end");
            }
            self.events(side);
            let held = self.sides[side].len() as u64 + 1;
            assert!(self.sets[side].memory() <= MEMORY + held * (512 << 10), "{}", self.sets[side].memory());
        }
        assert_eq!(rdt_crypto::reused_nonces(), 0, "a nonce was used twice");
    }

    fn events(&mut self, side: usize) {
        while let Some((id, event)) = self.sets[side].poll_event() {
            let state = self.sides[side].entry(id).or_default();
            assert!(!state.is_over && !state.is_released, "an event after the last one: {event:?}");
            match event {
                ConnectionEvent::Connected { resumption, .. } => {
                    state.is_connected = true;
                    self.resumption = resumption.or(self.resumption);
                }
                ConnectionEvent::Delivered { bytes } => {
                    assert!(
                        state.is_finished && (bytes == state.written || self.is_forged),
                        "delivered {bytes} of {}",
                        state.written
                    );
                }
                ConnectionEvent::Closed(_) => state.is_over = true,
                _ => {}
            }
        }
    }

    /// Lets time pass until both sides have given up what is not released.
    fn end(&mut self) {
        for side in 0..2 {
            let ids: Vec<_> =
                self.sides[side].iter().filter(|(_, s)| !s.is_released).map(|(id, _)| *id).collect();
            for id in ids {
                self.sides[side].get_mut(&id).expect("listed").is_released = true;
                self.sets[side].release(self.now, id);
            }
        }
        self.network.clear();
        for _ in 0..10_000 {
            self.drain();
            self.network.clear();
            let Some(next) = self.sets.iter().filter_map(Endpoint::poll_timeout).min() else { break };
            self.advance(next.max(self.now));
        }
        for set in &self.sets {
            assert!(set.is_empty() && set.half_open() == 0, "{} connections are left", set.len());
        }
    }
}

/// Learns from a packet what its sender has sent.
fn learn(expected: &mut Expected, datagram: &[u8]) {
    if let [0xD2, 4 | 7, _, _, number @ ..] = datagram
        && let Some(number) = number.first_chunk()
    {
        expected.number = expected.number.max(u64::from(u32::from_le_bytes(*number)) + 1);
    }
}
