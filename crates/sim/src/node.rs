//! The two kinds of node and the applications on them: a sender with an endless supply of the course's
//! payload, and a server that checks every byte against it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdt_server::Server;
use rdt_transport::{Endpoint, Phase, ReceiverEvent, Sender, SenderEvent, TransferError, dword_array};

use crate::read_policy::{ReadPolicy, Reader};

/// A node of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a sender's transfer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on.
    Running,
    /// The FIN-ACK arrived with this CRC-32.
    Finished {
        /// As the receiver computed it.
        crc: u32,
    },
    /// It failed.
    Failed {
        /// What was going on.
        phase: Phase,
        /// Why.
        error: TransferError,
    },
}

/// A sender, the bytes it has still to write, and how it ended.
pub struct SenderNode {
    /// The machine.
    pub sender: Sender,
    /// How its transfer stands.
    pub outcome: Outcome,
    /// When it ended.
    pub ended_at: Option<Instant>,
    pub(crate) server: NodeId,
    written: u64,
    bytes: u64,
}

impl SenderNode {
    pub(crate) fn new(sender: Sender, server: NodeId, bytes: u64) -> Self {
        Self { sender, outcome: Outcome::Running, ended_at: None, server, written: 0, bytes }
    }

    /// Writes what fits and takes the news; true if there may be more to do at once.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        let mut busy = self.fill();
        while let Some(event) = self.sender.poll_event() {
            busy = true;
            let outcome = match event {
                SenderEvent::Connected { .. } => continue,
                SenderEvent::Finished { crc } => Outcome::Finished { crc },
                SenderEvent::Failed { phase, error } => Outcome::Failed { phase, error },
            };
            self.outcome = outcome;
            self.ended_at = Some(now);
        }
        busy
    }

    fn fill(&mut self) -> bool {
        let mut busy = false;
        while self.written < self.bytes {
            let Ok(spare) = self.sender.spare() else { return busy };
            let rest = usize::try_from(self.bytes - self.written).unwrap_or(usize::MAX);
            let before = self.written;
            for piece in spare.within(rest) {
                dword_array::fill(self.written, piece);
                self.written += piece.len() as u64;
            }
            let n = usize::try_from(self.written - before).unwrap_or(usize::MAX);
            if n == 0 {
                return busy;
            }
            self.sender.advance(n);
            busy = true;
            if self.written == self.bytes {
                // The sender was opened when the node was made.
                let _ = self.sender.finish();
            }
        }
        busy
    }
}

/// What a server received of one peer's newest transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes read, in order.
    pub bytes: u64,
    /// True while every byte was the one that belongs there.
    pub intact: bool,
    /// CRC-32, once finished.
    pub crc: Option<u32>,
    /// How often a SYN started it again.
    pub starts: u32,
    /// From the first to the last data packet, once finished.
    pub elapsed: Option<Duration>,
    /// The server closed the peer; true if a transfer was under way then.
    pub closed: Option<bool>,
}

impl Default for Transfer {
    /// Nothing arrived, so nothing is wrong.
    fn default() -> Self {
        Self { bytes: 0, intact: true, crc: None, starts: 0, elapsed: None, closed: None }
    }
}

/// What a FIN told of a transfer whose last bytes are not read.
#[derive(Debug, Clone, Copy)]
struct Finish {
    bytes: u64,
    crc: u32,
    elapsed: Duration,
}

/// A server and what it received.
pub struct ServerNode {
    /// The machine.
    pub server: Server<NodeId>,
    /// By peer. Bytes are checked only if the receivers keep them.
    pub transfers: BTreeMap<NodeId, Transfer>,
    /// The application, if it does not read at once.
    reader: Option<Reader>,
    /// What it does instead with what some peers sent.
    readers: BTreeMap<NodeId, Reader>,
    /// Peers with bytes that were not read.
    unread: BTreeSet<NodeId>,
    finishing: BTreeMap<NodeId, Finish>,
    /// When the application reads on.
    read_at: Option<Instant>,
    /// The application does nothing before this time.
    pub(crate) asleep_until: Option<Instant>,
}

impl ServerNode {
    pub(crate) fn new(server: Server<NodeId>) -> Self {
        Self {
            server,
            transfers: BTreeMap::new(),
            reader: None,
            readers: BTreeMap::new(),
            unread: BTreeSet::new(),
            finishing: BTreeMap::new(),
            read_at: None,
            asleep_until: None,
        }
    }

    /// From now on the application reads so.
    pub(crate) fn set_read_policy(&mut self, policy: ReadPolicy, epoch: Instant) {
        self.reader = Some(Reader::new(policy, epoch));
    }

    /// From now on the application reads so what `peer` sends, whatever it does else.
    pub(crate) fn set_peer_read_policy(&mut self, peer: NodeId, policy: ReadPolicy, epoch: Instant) {
        self.readers.insert(peer, Reader::new(policy, epoch));
    }

    /// Reads, checks and confirms; true if there may be more to do at once.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        if self.asleep_until.is_some_and(|until| now < until) {
            return false;
        }
        self.asleep_until = None;
        let mut busy = false;
        while let Some((peer, event)) = self.server.poll_event() {
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
                ReceiverEvent::Connected => {}
            }
        }
        self.read_at = None;
        for peer in std::mem::take(&mut self.unread) {
            busy |= self.read(now, peer);
        }
        busy
    }

    /// Reads what the application would, and confirms what it read to the end; true if it read anything.
    fn read(&mut self, now: Instant, peer: NodeId) -> bool {
        let transfer = self.transfers.entry(peer).or_default();
        let before = transfer.bytes;
        let mut reader = self.readers.get_mut(&peer).or(self.reader.as_mut());
        // What is there may lie in several pieces.
        while let data = self.server.data(peer)
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
            transfer.intact &= dword_array::matches(transfer.bytes, &data[..n]);
            transfer.bytes += n as u64;
            self.server.consume(peer, n);
            if let Some(reader) = &mut reader {
                reader.read(n as u64);
            }
        }
        let read = transfer.bytes > before;
        let Some(Finish { bytes, crc, elapsed }) = self.finishing.remove(&peer) else { return read };
        transfer.bytes = bytes;
        transfer.crc = Some(crc);
        transfer.elapsed = Some(elapsed);
        self.server.confirm(now, peer);
        true
    }
}

/// Either kind.
pub(crate) enum Node {
    Sender(Box<SenderNode>),
    Server(Box<ServerNode>),
}

impl Node {
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        match self {
            Self::Sender(node) => node.pump(now),
            Self::Server(node) => node.pump(now),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Sender(node) => node.sender.poll_timeout(),
            Self::Server(node) => {
                [node.server.poll_timeout(), node.read_at, node.asleep_until].into_iter().flatten().min()
            }
        }
    }
}
