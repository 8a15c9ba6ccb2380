//! Nodes with their applications: a sender that transfers the array of `rdt-payload`, and a server
//! that compares every byte with the array.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::payload;
use rdt_server::{SenderId, Server, ServerConfig};
use rdt_transport::{Endpoint, Phase, ReceiverEvent, Sender, SenderEvent, TransferError};

use crate::application::{Application, Plan};
use crate::bins::Bins;
use crate::connection_node::ConnectionsNode;
use crate::read_policy::{ReadPolicy, Reader};
use crate::sink::SinkNode;
use crate::source::SourceNode;

/// Identifier of a node in its simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// State of a sender's transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The transfer has not ended.
    Running,
    /// The transfer succeeded: the FIN-ACK arrived.
    Finished {
        /// CRC-32 of the stream, computed by the receiver.
        crc: u32,
    },
    /// The transfer failed.
    Failed {
        /// Phase of the transfer at the failure.
        phase: Phase,
        /// Cause of the failure.
        error: TransferError,
    },
}

/// A sender and its application.
pub struct SenderNode {
    /// Protocol state machine of the sender.
    pub sender: Sender,
    /// State of the transfer.
    pub outcome: Outcome,
    /// Time at which the application opened the connection. `None` before its start.
    pub opened_at: Option<Instant>,
    /// Time at which the transfer succeeded or failed. `None` while it is running.
    pub ended_at: Option<Instant>,
    pub(crate) server: NodeId,
    application: Application,
    /// Start of virtual time.
    epoch: Instant,
    /// Bytes of the transfer written into the sender so far.
    written: u64,
    /// True if the application has finished the stream.
    is_finished: bool,
    /// Time at which the application next does anything of its own accord.
    wakes_at: Option<Instant>,
}

impl SenderNode {
    /// Creates a sender at time `now`, which opens the connection if its application has started.
    pub(crate) fn new(
        sender: Sender,
        server: NodeId,
        application: Application,
        epoch: Instant,
        now: Instant,
    ) -> Self {
        // A start in the past would make the bytes of that time due at once.
        let start = application.start.max(now.saturating_duration_since(epoch));
        let application = Application { start, ..application };
        let mut node = Self {
            sender,
            outcome: Outcome::Running,
            opened_at: None,
            ended_at: None,
            server,
            application,
            epoch,
            written: 0,
            is_finished: false,
            wakes_at: Some(epoch + application.start),
        };
        node.open_if_due(now);
        node
    }

    /// True from the start of the application on.
    pub(crate) fn is_open(&self) -> bool {
        self.opened_at.is_some()
    }

    fn open_if_due(&mut self, now: Instant) {
        if !self.is_open() && self.wakes_at.is_some_and(|at| at <= now) {
            // Cannot fail: the sender is new.
            let _ = self.sender.open();
            self.opened_at = Some(now);
            self.wakes_at = None;
        }
    }

    /// Fills the send buffer and handles events. Returns true if another call may have more to do.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        self.open_if_due(now);
        let mut busy = self.is_open() && !self.is_finished && self.write(now);
        while let Some(event) = self.sender.poll_event() {
            busy = true;
            let outcome = match event {
                SenderEvent::Connected { .. } => continue,
                SenderEvent::Finished { crc } => Outcome::Finished { crc },
                SenderEvent::Failed { phase, error } => Outcome::Failed { phase, error },
            };
            self.outcome = outcome;
            self.ended_at = Some(now);
            self.is_finished = true;
            self.wakes_at = None;
        }
        busy
    }

    /// Writes what the application has, and finishes the stream after its last byte. Returns true
    /// if it did anything.
    fn write(&mut self, now: Instant) -> bool {
        let Plan { due, ends, next } = match self.application {
            // The most frequent case needs no time.
            Application { bytes: Some(bytes), stop: None, rate: None, on_off: None, .. } => {
                Plan { due: bytes, ends: true, next: None }
            }
            ref application => application.plan(now.saturating_duration_since(self.epoch), self.written),
        };
        self.wakes_at = next.map(|next| self.epoch + next);
        let before = self.written;
        self.fill(due);
        if self.written < due {
            return self.written > before;
        }
        if ends {
            // Cannot fail: the sender is open.
            let _ = self.sender.finish();
            self.is_finished = true;
            self.wakes_at = None;
            return true;
        }
        self.sender.push();
        self.written > before
    }

    /// Writes up to offset `due` as far as there is room.
    fn fill(&mut self, due: u64) {
        while self.written < due {
            let Ok(spare) = self.sender.spare() else { return };
            let rest = usize::try_from(due - self.written).unwrap_or(usize::MAX);
            let before = self.written;
            for piece in spare.within(rest) {
                payload::fill(self.written, piece);
                self.written += piece.len() as u64;
            }
            let n = usize::try_from(self.written - before).unwrap_or(usize::MAX);
            if n == 0 {
                return;
            }
            self.sender.advance(n);
        }
    }
}

/// Latest transfer of one peer, as its server received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Number of bytes that the application has read.
    pub bytes: u64,
    /// True while every byte read has its expected value.
    pub intact: bool,
    /// CRC-32 of the stream. `None` until all bytes are read.
    pub crc: Option<u32>,
    /// Number of times that the peer started a transfer, including this one.
    pub starts: u32,
    /// Time from the first to the last data packet. `None` until all bytes are read.
    pub elapsed: Option<Duration>,
    /// `None` until the server removes the peer; then true if the transfer was unfinished.
    pub closed: Option<bool>,
    /// Virtual time at which the application read the first byte. `None` before.
    pub first_byte_at: Option<Duration>,
    /// Virtual time at which the application confirmed the transfer, with all bytes read. `None`
    /// before.
    pub completed_at: Option<Duration>,
    /// Bytes by the time at which the application read them. `None` without
    /// [`Simulation::record_goodput`](crate::Simulation::record_goodput).
    pub goodput: Option<Bins>,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            bytes: 0,
            intact: true,
            crc: None,
            starts: 0,
            elapsed: None,
            closed: None,
            first_byte_at: None,
            completed_at: None,
            goodput: None,
        }
    }
}

/// Results of a transfer whose last bytes the application has not read yet.
#[derive(Debug, Clone, Copy)]
struct Finish {
    bytes: u64,
    crc: u32,
    elapsed: Duration,
}

/// A server, its application and the transfers that it received.
pub struct ServerNode {
    /// Server with its listener and links.
    pub server: Server<NodeId>,
    /// Latest transfer of each peer. Bytes are checked only if the receivers store the payload.
    pub transfers: BTreeMap<NodeId, Transfer>,
    /// Read policy of the application; `None` if it reads immediately.
    reader: Option<Reader>,
    /// Read policies for single peers, which override `reader`.
    readers: BTreeMap<NodeId, Reader>,
    /// Peers that may have unread bytes.
    unread: BTreeSet<NodeId>,
    finishing: BTreeMap<NodeId, Finish>,
    /// Time of the application's next read. `None` if no policy delays a read.
    read_at: Option<Instant>,
    /// Time before which the application does nothing. `None`: it is not stalled.
    pub(crate) asleep_until: Option<Instant>,
    /// Width of the bins of goodput. `None`: not recorded.
    pub(crate) bin: Option<Duration>,
    /// Bytes of each peer that were counted, if receivers drop the payload and there is nothing to
    /// read. `None` if they keep it.
    counted: Option<BTreeMap<NodeId, u64>>,
    /// Start of virtual time.
    epoch: Instant,
}

impl ServerNode {
    #[expect(clippy::large_types_passed_by_value, reason = "moved into the server")]
    pub(crate) fn new(config: ServerConfig, epoch: Instant) -> Self {
        Self {
            server: Server::new(config),
            counted: (!config.listener.receiver.keep_payload).then(BTreeMap::new),
            transfers: BTreeMap::new(),
            reader: None,
            readers: BTreeMap::new(),
            unread: BTreeSet::new(),
            finishing: BTreeMap::new(),
            read_at: None,
            asleep_until: None,
            bin: None,
            epoch,
        }
    }

    pub(crate) fn set_read_policy(&mut self, policy: ReadPolicy) {
        self.reader = Some(Reader::new(policy, self.epoch));
    }

    pub(crate) fn set_peer_read_policy(&mut self, peer: NodeId, policy: ReadPolicy) {
        self.readers.insert(peer, Reader::new(policy, self.epoch));
    }

    /// Handles events, then reads, checks and confirms data. Returns true if it did anything.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        if self.asleep_until.is_some_and(|until| now < until) {
            return false;
        }
        self.asleep_until = None;
        let mut busy = false;
        // The server does not listen for encrypted connections: a `ConnectionsNode` has those.
        while let Some((SenderId::Address(peer), event)) = self.server.poll_event() {
            busy = true;
            let transfer = self.transfers.entry(peer).or_default();
            match event {
                ReceiverEvent::Started => {
                    *transfer = Transfer { starts: transfer.starts + 1, ..Transfer::default() };
                    self.finishing.remove(&peer);
                }
                ReceiverEvent::Readable => {
                    self.unread.insert(peer);
                }
                ReceiverEvent::Finished { bytes, crc, elapsed } => {
                    self.unread.insert(peer);
                    self.finishing.insert(peer, Finish { bytes, crc, elapsed });
                }
                ReceiverEvent::Closed { unfinished } => transfer.closed = Some(unfinished),
                ReceiverEvent::Connected | ReceiverEvent::Dropped | ReceiverEvent::Contradicted => {}
            }
        }
        self.count(now);
        self.read_at = None;
        if !self.unread.is_empty() {
            for peer in std::mem::take(&mut self.unread) {
                busy |= self.read(now, peer);
            }
        }
        busy
    }

    /// Counts the bytes that arrived in order, where the receivers drop them.
    fn count(&mut self, now: Instant) {
        let (Some(counted), Some(bin)) = (&mut self.counted, self.bin) else { return };
        let elapsed = now.saturating_duration_since(self.epoch);
        for (peer, transfer) in &mut self.transfers {
            let received = self.server.listener().received_bytes(*peer);
            let before = counted.entry(*peer).or_default();
            let bytes = received.saturating_sub(*before);
            if bytes > 0 {
                *before = received;
                transfer.bytes += bytes;
                transfer.first_byte_at.get_or_insert(elapsed);
                transfer.goodput.get_or_insert_with(|| Bins::new(bin)).add(elapsed, bytes);
            }
        }
    }

    /// Reads the bytes of `peer` that the policy allows, and confirms a transfer that is read to
    /// its end. Returns true if it did anything.
    fn read(&mut self, now: Instant, peer: NodeId) -> bool {
        let transfer = self.transfers.entry(peer).or_default();
        let before = transfer.bytes;
        let mut reader = self.readers.get_mut(&peer).or(self.reader.as_mut());
        // `data` returns contiguous bytes, so unread data may need several calls.
        while let Ok(data) = self.server.data(peer)
            && !data.is_empty()
        {
            let budget = reader.as_mut().map_or(u64::MAX, |reader| reader.budget(now));
            let n = data.len().min(usize::try_from(budget).unwrap_or(usize::MAX));
            if n == 0 {
                let next = reader.map(|reader| reader.next(now));
                self.read_at = self.read_at.into_iter().chain(next).min();
                self.unread.insert(peer);
                return transfer.bytes > before;
            }
            transfer.intact &= payload::matches(transfer.bytes, &data[..n]);
            transfer.bytes += n as u64;
            let elapsed = || now.saturating_duration_since(self.epoch);
            transfer.first_byte_at.get_or_insert_with(elapsed);
            if let Some(bin) = self.bin {
                transfer.goodput.get_or_insert_with(|| Bins::new(bin)).add(elapsed(), n as u64);
            }
            self.server.consume(now, peer, n);
            if let Some(reader) = &mut reader {
                reader.read(n as u64);
            }
        }
        let read = transfer.bytes > before;
        let Some(Finish { bytes, crc, elapsed }) = self.finishing.remove(&peer) else { return read };
        transfer.bytes = bytes;
        transfer.crc = Some(crc);
        transfer.elapsed = Some(elapsed);
        transfer.completed_at = Some(now.saturating_duration_since(self.epoch));
        self.server.confirm(now, peer);
        true
    }
}

pub(crate) enum Node {
    Sender(Box<SenderNode>),
    Server(Box<ServerNode>),
    Connections(Box<ConnectionsNode>),
    Source(Box<SourceNode>),
    Sink(Box<SinkNode>),
}

impl Node {
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        match self {
            Self::Sender(node) => node.pump(now),
            Self::Server(node) => node.pump(now),
            Self::Connections(node) => node.pump(now),
            Self::Source(_) | Self::Sink(_) => false,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Sender(node) => {
                let timer = node.sender.poll_timeout();
                timer.into_iter().chain(node.wakes_at).min()
            }
            Self::Server(node) => {
                [node.server.poll_timeout(), node.read_at, node.asleep_until].into_iter().flatten().min()
            }
            Self::Connections(node) => node.deadline(),
            Self::Source(node) => node.deadline(),
            Self::Sink(_) => None,
        }
    }
}
