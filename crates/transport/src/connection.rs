//! Connection with a stream in each direction (native): encrypted, unless both sides ask for the
//! cipher none.
//!
//! [`Connection`] owns a [`Sender`](crate::Sender) and a `Receiver`, the keys that protect their
//! packets, and the handshake. It knows no addresses: the set of connections behind a socket does.
//! `docs/PROTOCOL.md`, N1 and N6, has the packets.
//!
//! | file | owns |
//! |---|---|
//! | `initiator.rs` | the handshake of the side that opens |
//! | `syns.rs` | its SYNs, by attempt |
//! | `proof.rs` | its last step: proof of the local keys |
//! | `within.rs` | opening without a handshake, within an association |
//! | `machine.rs` | calls of the set of connections: packets, timers, steps to the end |
//! | `streams.rs` | the open phase: both streams, ACKs, path probes, idle timeout, graceful end |
//! | `streams/start.rs` | their start, from the result of a handshake |
//! | `streams/receive.rs` | arrival of sealed packets |
//! | `keys.rs` | keys of both directions, key updates, replay windows |
//! | `close.rs` | abortive end |
//! | `released.rs` | rest of a connection whose application has dropped its handle |
//! | `config.rs`, `events.rs` | what goes in, what comes out |

mod close;
mod config;
mod events;
mod initiator;
mod keys;
mod machine;
mod proof;
mod refusals;
mod released;
mod streams;
mod syns;
mod within;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, Entropy, PublicKey, ResetToken, SecretId};

pub(crate) use crate::sender::KnownPath;
pub use config::{Confirm, ConnectionConfig, InitiatorConfig, Trust};
pub use events::{Closed, ConnectionEvent, RefuseReason};
use initiator::{Opening, Progress};
pub(crate) use initiator::{choose_aead, params_of};
pub(crate) use machine::{Arrival, Output};
pub(crate) use proof::MIN_PROOF_INTERVAL;
pub(crate) use streams::Established;
use streams::Streams;
pub(crate) use within::{Associated, REFUSED_OPEN, Within};

use crate::receive_buffer::chunks::ChunkPool;
use crate::receiver::{BufferShare, Offer};
use crate::send_buffer::{FramePool, Spare};
use crate::wire::native::{CloseReason, LinkRequest};
use crate::{ConfigError, Observer, ReceiverStats, SenderStats, StreamName};

/// Bounds of the idle timeout.
const IDLE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

enum Stage {
    Opening(Box<Opening>),
    Open(Box<Streams>),
    /// Over, and nothing is to be sent.
    Ended,
}

/// Counters and gauges of a connection. Before the handshake is complete, all are zero.
#[derive(Debug, Clone, Default)]
pub struct ConnectionStats {
    /// The outgoing stream, and the path.
    pub sender: SenderStats,
    /// The incoming stream.
    pub receiver: ReceiverStats,
    /// AEAD of both directions.
    pub aead: Option<Aead>,
    /// Packets with this connection's ID that no key of the peer had sealed.
    pub unauthentic: u64,
    /// Packets that had arrived before: copies of the network, or replays.
    pub replayed: u64,
}

impl ConnectionStats {
    fn of(streams: &Streams) -> Self {
        Self {
            sender: streams.sender.stats(),
            receiver: streams.receiver.stats(),
            aead: Some(streams.sealing.aead),
            unauthentic: streams.dropped.unauthentic,
            replayed: streams.dropped.replayed,
        }
    }
}

/// Connection to one peer.
pub struct Connection {
    local_id: u64,
    stage: Stage,
    events: VecDeque<ConnectionEvent>,
    closed: Option<Closed>,
    /// [`ConnectionEvent::Connected`] of an initiator whose responder has not proved the shared
    /// secret yet. No data is sent before that.
    unproven: Option<Box<ConnectionEvent>>,
    observer: Option<Box<dyn Observer>>,
    peer: Option<PublicKey>,
    secret: Option<SecretId>,
    /// Name that the peer suggests for its stream.
    peer_name: Option<StreamName>,
    handshake_hash: Option<[u8; 32]>,
    /// Association that the handshake made, until the set takes it.
    associated: Option<Box<Associated>>,
    /// True if the application ended the outgoing stream before the handshake was complete.
    is_finish_due: bool,
}

/// Environment of a new connection: what its set shares out.
#[derive(Clone)]
pub(crate) struct ConnectionEnv {
    pub(crate) local_id: u64,
    /// Token of the RESETs that the set would send for this connection.
    pub(crate) reset: ResetToken,
    /// Share of the socket's receive buffer; `None` for no limit.
    pub(crate) share: Option<BufferShare>,
    pub(crate) memory: Memory,
    /// Path to the peer, as an earlier connection measured it.
    pub(crate) known: Option<KnownPath>,
    /// Random seed that chooses which packet numbers are skipped.
    pub(crate) skip_seed: u64,
}

/// Memory that the connections of a set share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Memory of the outgoing streams.
    pub(crate) frames: FramePool,
    /// Memory of the incoming streams.
    pub(crate) chunks: ChunkPool,
}

impl Memory {
    /// Frees memory that no stream uses.
    pub(crate) fn shrink(&self) {
        self.frames.shrink();
        self.chunks.shrink(0);
    }
}

impl Connection {
    /// Begins to open a connection, by a handshake or within an association.
    pub(crate) fn initiate(
        now: Instant,
        config: ConnectionConfig,
        mut keys: InitiatorConfig,
        env: ConnectionEnv,
        mut entropy: Entropy,
        within: Option<&Within<'_>>,
    ) -> Result<Self, ConfigError> {
        if !IDLE.contains(&config.idle_timeout) {
            return Err(ConfigError::IdleTimeout);
        }
        let local_id = env.local_id;
        let offer = Offer::new(now, config.receiver, config.idle_timeout, env.share);
        let secret = keys.secret.as_ref().map(|secret| secret.id());
        let own_key = keys.local.as_ref().map(|key| key.public());
        let mut within = within.map(|within| (within, entropy.child()));
        if let Some((within, entropy)) = &mut within {
            keys = within.complete(keys, entropy);
        }
        let mut opening = Box::new(Opening::new(config, (keys, own_key), env, entropy, offer)?);
        let opened = within.map(|(within, mut entropy)| opening.open_within(now, within, &mut entropy));
        let mut connection = Self { secret, ..Self::new(local_id, Stage::Opening(opening)) };
        if let Some(opened) = opened {
            connection.on_progress(now, Progress::Opened(Box::new(opened)));
            connection.after_call(now);
        }
        Ok(connection)
    }

    /// Creates the connection of a responder whose handshake is complete.
    pub(crate) fn accepted(
        now: Instant,
        config: &ConnectionConfig,
        established: Established,
        (peer, secret): (Option<PublicKey>, Option<SecretId>),
        env: ConnectionEnv,
    ) -> Result<Self, ConfigError> {
        let (local_id, hash) = (established.local_id, established.secrets.handshake_hash);
        let peer_name = established.name.clone();
        let streams = Streams::new(now, config, established, env)?;
        let connection = Self::new(local_id, Stage::Open(Box::new(streams)));
        Ok(Self { peer, secret, peer_name, handshake_hash: Some(hash), ..connection })
    }

    fn new(local_id: u64, stage: Stage) -> Self {
        Self {
            local_id,
            stage,
            events: VecDeque::new(),
            closed: None,
            unproven: None,
            observer: None,
            peer: None,
            secret: None,
            peer_name: None,
            handshake_hash: None,
            associated: None,
            is_finish_due: false,
        }
    }

    /// Takes the association that the handshake made, once the responder has opened its side of the
    /// connection, so that it knows the association, too.
    #[inline]
    pub(crate) fn take_associated(&mut self) -> Option<Box<Associated>> {
        let is_answered = self.streams().is_some_and(|streams| streams.proof.is_none());
        self.associated.take_if(|_| is_answered && self.unproven.is_none() && self.closed.is_none())
    }

    fn streams(&self) -> Option<&Streams> {
        match &self.stage {
            Stage::Open(streams) => Some(streams),
            Stage::Opening(_) | Stage::Ended => None,
        }
    }

    fn streams_mut(&mut self) -> Option<&mut Streams> {
        match &mut self.stage {
            Stage::Open(streams) => Some(streams),
            Stage::Opening(_) | Stage::Ended => None,
        }
    }

    /// Reports the SYNs and the events of the outgoing stream to `observer`.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        match &mut self.stage {
            Stage::Open(streams) => streams.observe(observer),
            Stage::Opening(_) | Stage::Ended => self.observer = Some(observer),
        }
    }

    /// Appends as much of `bytes` as fits to the outgoing stream and returns the number of bytes; 0
    /// before the handshake is complete. If that is less than all,
    /// [`Writable`](ConnectionEvent::Writable) follows when there is room.
    ///
    /// # Errors
    /// The reason of the end of the connection, or [`Closed::OneWay`].
    ///
    /// # Panics
    /// After [`Connection::finish`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Closed> {
        let mut taken = 0;
        while taken < bytes.len() {
            let n = self.spare()?.copy_from(&bytes[taken..]);
            if n == 0 {
                break;
            }
            self.advance(n);
            taken += n;
        }
        Ok(taken)
    }

    /// Returns room for the application's next bytes, to write without a copy; empty while enough
    /// is buffered. Fill its beginning, then call [`Connection::advance`] before anything else.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub fn spare(&mut self) -> Result<Spare<'_>, Closed> {
        if let Some(closed) = &self.closed {
            return Err(closed.clone());
        }
        if self.unproven.is_some() {
            return Ok(Spare::default());
        }
        let Some(streams) = self.streams_mut() else { return Ok(Spare::default()) };
        if !streams.has_own_stream {
            return Err(Closed::OneWay);
        }
        let sender = &mut streams.sender;
        streams.is_write_blocked = !sender.has_spare();
        let spare = if sender.buffers_ahead() { sender.spare() } else { sender.spare_now(usize::MAX) };
        Ok(spare.unwrap_or_default())
    }

    /// Appends the first `n` bytes of [`Connection::spare`] to the outgoing stream.
    ///
    /// # Panics
    /// If `n` exceeds the room. There is none after [`Connection::finish`].
    pub fn advance(&mut self, n: usize) {
        if let Some(streams) = self.streams_mut() {
            streams.sender.advance(n);
        }
    }

    /// Allows what is written so far to leave in a packet that is not full, before a pause.
    pub fn push(&mut self) {
        if let Some(streams) = self.streams_mut() {
            streams.sender.push();
        }
    }

    /// Chooses whether a packet that is not full leaves at once; see [`ConnectionConfig::nodelay`].
    pub fn set_nodelay(&mut self, nodelay: bool) {
        match &mut self.stage {
            Stage::Open(streams) => streams.sender.set_nodelay(nodelay),
            Stage::Opening(opening) => opening.config.nodelay = nodelay,
            Stage::Ended => {}
        }
    }

    /// Ends the outgoing stream: the remaining data leaves, then the FIN. The incoming goes on.
    pub fn finish(&mut self) {
        match &mut self.stage {
            Stage::Open(_) if self.unproven.is_some() => self.is_finish_due = true,
            // `finish` fails only before the handshake.
            Stage::Open(streams) => drop(streams.sender.finish()),
            Stage::Opening(_) => self.is_finish_due = true,
            Stage::Ended => {}
        }
    }

    /// Returns the next unread bytes of the incoming stream. Empty only if there are none.
    pub fn data(&self) -> &[u8] {
        self.streams().map_or(&[], |streams| streams.receiver.data())
    }

    /// Returns the number of bytes in order that arrived of the incoming stream.
    pub fn received_bytes(&self) -> u64 {
        self.streams().map_or(0, |streams| streams.receiver.stats().bytes)
    }

    /// Marks the next `n` bytes as read.
    pub fn consume(&mut self, n: usize) {
        if let Some(streams) = self.streams_mut() {
            streams.receiver.consume(n);
        }
    }

    /// True if the peer has ended its stream and all of it was read.
    pub fn is_read_finished(&self) -> bool {
        self.streams().is_some_and(|streams| streams.completion.is_received || streams.receiver.is_read())
    }

    /// Confirms the incoming stream ([`Confirm::ByApplication`]), once all of it has arrived.
    pub fn confirm(&mut self) {
        if let Some(streams) = self.streams_mut() {
            streams.confirm();
        }
    }

    /// Ends the connection at once: the peer's application gets `code` and up to 200 bytes of
    /// `text`. What was not delivered is lost.
    pub fn close(&mut self, now: Instant, code: u32, text: &str) {
        self.end(now, Closed::Local, Some((CloseReason::Aborted, code, text)));
    }

    /// Ends the connection at once, for a reason of the protocol. What was not delivered is lost.
    pub fn abort(&mut self, now: Instant, reason: CloseReason) {
        self.end(now, Closed::Local, Some((reason, 0, "")));
    }

    /// Ends the connection, by a CLOSE with these fields if the peer is told.
    fn end(&mut self, now: Instant, closed: Closed, close: Option<(CloseReason, u32, &str)>) {
        if self.closed.is_some() {
            return;
        }
        match (&mut self.stage, close) {
            (Stage::Open(streams), Some((reason, code, text))) => streams.close(now, reason, code, text),
            (Stage::Open(streams), None) => streams.stop(),
            (Stage::Opening(_) | Stage::Ended, _) => self.stage = Stage::Ended,
        }
        self.report_end(closed);
    }

    /// Gives up the handle: what was written is still delivered. Unread and further bytes of the
    /// peer end the connection by a CLOSE, so that its writes fail.
    pub(crate) fn release(&mut self, now: Instant) {
        match &mut self.stage {
            Stage::Open(_) if self.unproven.is_some() => self.close(now, 0, ""),
            Stage::Open(streams) => streams.release(now),
            Stage::Opening(_) => self.close(now, 0, ""),
            Stage::Ended => {}
        }
        self.after_call(now);
    }

    /// Returns the peer's static key: `None` before the handshake ends, and for a peer without one.
    pub fn peer(&self) -> Option<PublicKey> {
        self.peer
    }

    /// Returns the shared secret that the handshake proved.
    pub fn secret(&self) -> Option<SecretId> {
        self.secret
    }

    /// Returns the name that the peer suggests for its stream; see
    /// [`SenderConfig::name`](crate::SenderConfig::name). Only an initiator suggests one.
    pub fn peer_name(&self) -> Option<&str> {
        self.peer_name.as_ref().map(StreamName::as_str)
    }

    /// Returns the emulated link that the peer requests, for a responder that emulates links.
    pub fn link_request(&self) -> Option<LinkRequest> {
        self.streams().and_then(|streams| streams.link)
    }

    /// Returns the arrival of the peer's newest authentic packet; `None` without open streams.
    pub(crate) fn last_active(&self) -> Option<Instant> {
        self.streams().map(Streams::heard_at)
    }

    /// Returns the hash of the handshake, equal on both sides and different for each connection, to
    /// which an application can bind its own authentication. It changes if a connection that opened
    /// within an association is refused, and a handshake follows.
    pub fn handshake_hash(&self) -> Option<[u8; 32]> {
        self.handshake_hash
    }

    /// Returns what this connection has learned of the path.
    pub(crate) fn known_path(&self) -> Option<KnownPath> {
        self.streams()
            .filter(|streams| streams.has_own_stream)
            .and_then(|streams| streams.sender.known_path())
    }

    /// Returns, once, the rate that a stream without more data leaves to others, bytes per second.
    pub(crate) fn leave_rate(&mut self) -> Option<u64> {
        self.streams_mut().and_then(|streams| streams.sender.leave_rate())
    }

    /// Adds the rate that another connection to the same host has left, bytes per second.
    pub(crate) fn take_over(&mut self, now: Instant, rate: u64) {
        if let Some(streams) = self.streams_mut() {
            streams.sender.take_over(now, rate);
        }
    }

    /// True while data is in flight.
    pub(crate) fn is_sending(&self) -> bool {
        self.streams().is_some_and(|streams| streams.sender.is_sending())
    }

    /// True while the peer's application has not confirmed the outgoing stream.
    pub(crate) fn is_delivering(&self) -> bool {
        self.closed.is_none() && self.streams().is_some_and(|streams| !streams.completion.is_delivered)
    }

    /// True if the peer's application has confirmed the outgoing stream.
    pub(crate) fn is_delivered(&self) -> bool {
        self.streams().is_some_and(|streams| streams.completion.is_delivered && streams.has_own_stream)
    }

    /// Returns why the connection ended; `None` while it goes on.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.as_ref()
    }

    /// Returns a snapshot of counters and gauges.
    pub fn stats(&self) -> ConnectionStats {
        self.streams().map_or_else(ConnectionStats::default, ConnectionStats::of)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("local_id", &self.local_id)
            .field("peer", &self.peer)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
