//! Datagrams between nodes: inboxes, the wires that lead to them, and the hash of everything that arrived.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rdt_emulator::Path;
use rdt_transport::TransmitBuf;
use rdt_transport::drive::{DatagramIo, Received};

use crate::node::NodeId;

/// Batches kept for reuse.
const POOL: usize = 64;
/// FNV-1a, 64 bits: offset basis and prime.
const FNV: (u64, u64) = (0xCBF2_9CE4_8422_2325, 0x0000_0100_0000_01B3);

/// Datagrams from one node, end to end, as a socket with receive offload would give them.
#[derive(Debug)]
pub(crate) struct Batch {
    from: NodeId,
    bytes: Vec<u8>,
    stride: usize,
}

/// Which direction of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Forward,
    Reverse,
}

/// Inboxes and wires. A pair of nodes without a wire is joined without delay or loss.
#[derive(Debug)]
pub(crate) struct Network {
    epoch: Instant,
    inboxes: Vec<VecDeque<Batch>>,
    wires: BTreeMap<(NodeId, NodeId), Path>,
    pool: Vec<Vec<u8>>,
    /// Nodes whose inbox got something.
    pub(crate) woken: VecDeque<NodeId>,
    /// Wires whose wake-up may have moved.
    pub(crate) stirred: Vec<((NodeId, NodeId), Way)>,
    /// Datagrams that reached an inbox.
    pub(crate) datagrams: u64,
    pub(crate) hash: u64,
}

impl Network {
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            inboxes: Vec::new(),
            wires: BTreeMap::new(),
            pool: Vec::new(),
            woken: VecDeque::new(),
            stirred: Vec::new(),
            datagrams: 0,
            hash: FNV.0,
        }
    }

    pub(crate) fn add_inbox(&mut self) {
        self.inboxes.push(VecDeque::new());
    }

    /// Joins two nodes by a path whose forward direction leads from the first to the second.
    pub(crate) fn join(&mut self, ends: (NodeId, NodeId), path: Path) {
        self.wires.insert(ends, path);
    }

    pub(crate) fn wire(&self, ends: (NodeId, NodeId)) -> Option<&Path> {
        self.wires.get(&ends)
    }

    pub(crate) fn wire_wakeup(&self, ends: (NodeId, NodeId), way: Way) -> Option<Instant> {
        let path = self.wires.get(&ends)?;
        match way {
            Way::Forward => path.forward.next_wakeup(),
            Way::Reverse => path.reverse.next_wakeup(),
        }
    }

    /// Moves what is due on a wire into its inbox.
    pub(crate) fn run_wire(&mut self, now: Instant, ends: (NodeId, NodeId), way: Way) {
        loop {
            let Some(path) = self.wires.get_mut(&ends) else { return };
            let (link, from, to) = match way {
                Way::Forward => (&mut path.forward, ends.0, ends.1),
                Way::Reverse => (&mut path.reverse, ends.1, ends.0),
            };
            let Some(delivery) = link.pop(now) else { break };
            let stride = delivery.packet.len();
            self.arrive(now, to, Batch { from, bytes: delivery.packet, stride });
        }
        self.stirred.push((ends, way));
    }

    fn send(&mut self, now: Instant, from: NodeId, to: NodeId, batch: &TransmitBuf) {
        let (ends, way) = if self.wires.contains_key(&(to, from)) {
            ((to, from), Way::Reverse)
        } else {
            ((from, to), Way::Forward)
        };
        let Some(path) = self.wires.get_mut(&ends) else {
            let mut bytes = self.pool.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(batch.bytes());
            return self.arrive(now, to, Batch { from, bytes, stride: batch.segment_size() });
        };
        let link = if way == Way::Forward { &mut path.forward } else { &mut path.reverse };
        for datagram in batch.datagrams() {
            // A dropped packet is in the link's ledger.
            let _ = link.push(now, datagram.to_vec());
        }
        self.stirred.push((ends, way));
    }

    fn arrive(&mut self, now: Instant, to: NodeId, batch: Batch) {
        let time = now.saturating_duration_since(self.epoch).as_nanos();
        self.note(u64::try_from(time).unwrap_or(u64::MAX));
        self.note((u64::from(batch.from.0) << 32) | u64::from(to.0));
        for datagram in batch.bytes.chunks(batch.stride.max(1)) {
            self.datagrams += 1;
            // The first twelve bytes of a packet are its header, and what tells it from others.
            let mut head = [0; 16];
            let n = datagram.len().min(12);
            head[..n].copy_from_slice(&datagram[..n]);
            let words = u128::from_le_bytes(head);
            #[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
            for word in [words as u64, (words >> 64) as u64 ^ ((datagram.len() as u64) << 32)] {
                self.note(word);
            }
        }
        if let Some(inbox) = self.inboxes.get_mut(to.index()) {
            inbox.push_back(batch);
            self.woken.push_back(to);
        }
    }

    fn note(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(FNV.1);
    }
}

/// One node's view of the network, as a socket.
pub(crate) struct NodeIo<'a, P> {
    pub(crate) network: &'a mut Network,
    pub(crate) node: NodeId,
    pub(crate) now: Instant,
    pub(crate) batch: &'a mut TransmitBuf,
    pub(crate) received: Option<Batch>,
    /// The other end, for a node that has but one.
    pub(crate) address: fn(P, NodeId) -> NodeId,
    pub(crate) peer: fn(NodeId) -> P,
    pub(crate) default_peer: NodeId,
}

impl<P: Copy> DatagramIo for NodeIo<'_, P> {
    type Peer = P;

    fn recv(&mut self) -> Option<Received<'_, P>> {
        if let Some(old) = self.received.take()
            && self.network.pool.len() < POOL
        {
            self.network.pool.push(old.bytes);
        }
        self.received = self.network.inboxes.get_mut(self.node.index())?.pop_front();
        let batch = self.received.as_ref()?;
        Some(Received { peer: (self.peer)(batch.from), bytes: &batch.bytes, stride: batch.stride })
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        self.batch.clear();
        Some(self.batch)
    }

    fn flush(&mut self, peer: P) {
        let to = (self.address)(peer, self.default_peer);
        self.network.send(self.now, self.node, to, self.batch);
    }
}
