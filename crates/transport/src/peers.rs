//! All peers behind one socket, in one table: native connections of both directions, by connection
//! ID, and the receivers of classic transfers, by address. Addresses are an opaque key `P`.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | account | `account.rs` | what the set counts of one peer, and its key |
//! | slot | `slots.rs`, `sources.rs` | limits on peers, in total and of one host |
//! | memory, claim | `memory.rs`, `budget.rs` | memory of peers; shares of the socket's buffer |
//! | turn | `transmit.rs` | the order in which peers transmit |
//! | timer | `timers.rs` | deadlines of peers |
//! | answer | `answers.rs`, `stateless_limit.rs` | datagrams to addresses without a connection |
//! | table | `table.rs` | map of peers with a cache of the latest lookup |
//! | connection | `native/entry.rs` | one connection and its account |
//! | handshake of a peer | `native/accept.rs` | from the SYN to the SYN-ACK |
//! | | `native/complete.rs` | from AUTH or the first sealed packet to the connection |
//! | half-open connection | `native/half_open.rs` | the table between both |
//! | ended connection | `native/ended.rs`, `fin_acks.rs` | the last answers of connections |
//! | arrival | `native/receive.rs` | delivery by connection ID; stateless resets of unknown IDs |
//! | address | `native/address.rs` | proof of a peer's new address |
//! | classic peer | `classic/` | admission, delivery by address, idle timeout |

mod account;
mod answers;
mod budget;
mod classic;
mod config;
mod memory;
mod native;
mod slots;
mod sources;
mod stateless_limit;
mod stats;
mod table;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::hash::Hash;
use std::time::Instant;

use rdt_crypto::Entropy;

use account::Key;
use answers::Answers;
pub use classic::{Admission, ClassicPeers, ClassicStats, MAX_HALF_OPEN_PEERS};
pub use config::{
    Admit, Admittee, ClassicConfig, ConnectionSetConfig, ResponderConfig, Secrets, SocketBuffer,
};
use memory::Memory;
use native::{Acceptor, Native, Resets};
use slots::Slots;
pub use stats::ConnectionSetStats;
use timers::Timers;

use crate::connection::ConnectionEvent;
use crate::send_buffer::FramePool;
use crate::sender::earlier;
use crate::wire::native::recognize;
use crate::{Ecn, Endpoint, TransmitBuf};

/// Address of a peer, which a set only compares and hashes.
pub trait AddressKey: Copy + Ord + Hash {}

impl<P: Copy + Ord + Hash> AddressKey for P {}

/// Handle of a connection within its set: the local connection ID. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// Peer of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerId<P> {
    /// Classic peer, known by its address.
    Address(P),
    /// Native connection. Its address may change.
    Connection(ConnectionId),
}

impl<P> From<P> for PeerId<P> {
    fn from(address: P) -> Self {
        Self::Address(address)
    }
}

impl<P: Copy> PeerId<P> {
    /// Returns the address of a peer that is known by it.
    pub fn address(self) -> Option<P> {
        match self {
            Self::Address(address) => Some(address),
            Self::Connection(_) => None,
        }
    }
}

/// All peers behind one socket.
///
/// A connection stays until the application [releases](Self::release) it, also after its last
/// event, so that the rest of its stream can be read. A classic peer stays until it is silent for
/// the idle timeout, or [closed](Self::close_classic).
#[derive(Debug)]
pub struct ConnectionSet<P> {
    config: ConnectionSetConfig<P>,
    entropy: Entropy,
    slots: Slots,
    memory: Memory,
    /// Peers that may have something to send, round-robin.
    ready: VecDeque<Key>,
    timers: Timers,
    answers: Answers<P>,
    /// Messages dropped because the socket's buffer was full, modulo 2^32.
    overflow: u32,
    /// True if native datagrams are taken.
    is_native: bool,
    native: Native<P>,
    acceptor: Acceptor<P>,
    resets: Resets,
    classic: ClassicPeers<P>,
}

impl<P: AddressKey> ConnectionSet<P> {
    /// Creates a set without peers. It answers no native SYN before [`ConnectionSet::listen`].
    /// `entropy` must be unpredictable: keys, IDs and cookies come from it.
    pub fn new(config: ConnectionSetConfig<P>, entropy: Entropy) -> Self {
        Self::with_memory(config, entropy, FramePool::new())
    }

    /// Creates a set that takes classic peers only, and drops native datagrams.
    pub fn classic_only(config: ConnectionSetConfig<P>) -> Self {
        Self { is_native: false, ..Self::new(config, Entropy::from_seed([0; 32])) }
    }

    /// Same as [`ConnectionSet::new`], with frames for outgoing streams from `memory`.
    pub fn with_memory(config: ConnectionSetConfig<P>, mut entropy: Entropy, memory: FramePool) -> Self {
        Self {
            slots: Slots::new(config.max_connections, config.max_connections_per_source),
            memory: Memory::new(config.memory_limit, config.connection_memory_limit, config.socket_buffer),
            ready: VecDeque::new(),
            timers: Timers::default(),
            answers: Answers::new(),
            overflow: 0,
            is_native: true,
            native: Native::new(memory),
            acceptor: Acceptor::new(config.max_half_open, config.unix_time.map(|(at, _)| at), &mut entropy),
            resets: Resets::new(&mut entropy),
            classic: ClassicPeers::new(config.classic),
            config,
            entropy,
        }
    }

    /// Refuses further peers from now on, half-open ones included. Native ones are told.
    pub fn refuse_new(&mut self) {
        self.slots.is_refusing = true;
    }

    /// Returns the memory of all peers, bytes.
    pub fn memory(&self) -> u64 {
        self.memory.total
    }

    /// Returns the current counters. [`ClassicPeers::stats`] has those of classic peers.
    pub fn stats(&self) -> ConnectionSetStats {
        let (answers_dropped, max_memory) = (self.answers.dropped, self.memory.max);
        ConnectionSetStats { answers_dropped, max_memory, ..self.native.stats }
    }

    /// Returns the number of drops at the socket's full buffer, for ACKs. `None` if the buffer does
    /// not limit windows: then a sender must treat such drops as congestion and slow down.
    fn overflow(&self) -> Option<u32> {
        self.config.socket_buffer.map(|_| self.overflow)
    }

    fn handle_one(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        let is_native = self.is_native && (recognize(datagram) || self.config.classic.is_none());
        if is_native {
            self.native.stats.received += 1;
            self.handle_other(now, peer, ecn, datagram);
        } else {
            self.handle_classic(now, peer, ecn, datagram);
        }
    }
}

impl<P: AddressKey> Endpoint for ConnectionSet<P> {
    type Peer = P;
    /// Classic peers have events of their own: [`ConnectionSet::poll_classic_event`].
    type Event = (ConnectionId, ConnectionEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        let stride = datagram.len();
        self.handle_datagrams(now, peer, ecn, datagram, stride);
    }

    fn handle_datagrams(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        let stride = stride.max(1);
        let datagrams = bytes.len().div_ceil(stride).max(1);
        let mut rest = bytes;
        loop {
            let mut taken = self.deliver_run(now, peer, ecn, rest, stride);
            self.native.stats.received += taken.div_ceil(stride) as u64;
            if taken == 0 {
                taken = self.deliver_classic_run(now, peer, ecn, rest, stride);
            }
            if taken == 0 {
                taken = stride.min(rest.len());
                self.handle_one(now, peer, ecn, &mut rest[..taken]);
            }
            rest = &mut rest[taken..];
            if rest.is_empty() {
                return datagrams;
            }
        }
    }

    fn handle_refused(&mut self, now: Instant, peer: P, reports: u64) {
        self.on_refused(now, peer, reports);
    }

    fn handle_overflow(&mut self, messages: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "counted modulo 2^32, as in ACKs")]
        let messages = messages as u32;
        self.overflow = self.overflow.wrapping_add(messages);
        self.answers.limit.on_overflow();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.expire_native(now);
        self.handle_timers(now);
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        self.poll_peer(now, out).map(|(peer, _)| peer)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earlier(self.native_deadline(), earlier(self.timers.first(), self.answers.limit.deadline()))
    }

    fn poll_event(&mut self) -> Option<(ConnectionId, ConnectionEvent)> {
        self.native.events.pop_front()
    }
}
