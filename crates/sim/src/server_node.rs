//! Server with its application and the transfers that it received.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rdt_crypto::{Entropy, StaticKey};
use rdt_server::{SenderId, Server, ServerConfig};
use rdt_transport::{
    ConnectionConfig, ConnectionId, ConnectionSetConfig, Endpoint, ReceiverEvent, ResponderConfig,
};

use crate::node_id::{NodeId, entropy};
use crate::read_policy::Reader;
use crate::transfer::{Finish, ServerStream, Transfer};

/// Returns the identity of every server.
pub(crate) fn identity() -> Arc<StaticKey> {
    static IDENTITY: LazyLock<Arc<StaticKey>> =
        LazyLock::new(|| Arc::new(StaticKey::generate(&mut Entropy::from_seed([1; 32]))));
    Arc::clone(&IDENTITY)
}

/// A server, its application and the transfers that it received. It takes classic transfers, and
/// connections with any cipher and with none.
pub struct ServerNode {
    /// Server with its senders and links.
    pub server: Server<NodeId>,
    /// Latest transfer of each node. That of a connection is under the node from which it was
    /// opened. Bytes are checked only if the receivers store the payload.
    pub transfers: BTreeMap<NodeId, Transfer>,
    /// Sender of the latest transfer of each node.
    senders: BTreeMap<NodeId, SenderId<NodeId>>,
    /// Node from which each connection was opened.
    openers: BTreeMap<ConnectionId, NodeId>,
    /// Read policy of the application; `None` if it reads immediately.
    pub(crate) reader: Option<Reader>,
    /// Read policies for single peers, which override `reader`.
    pub(crate) readers: BTreeMap<NodeId, Reader>,
    /// Peers that may have unread bytes.
    unread: BTreeSet<NodeId>,
    /// Virtual time of the application's next read. `None` if no policy delays a read.
    read_at: Option<Duration>,
    /// Time before which the application does nothing. `None`: it is not stalled.
    pub(crate) asleep_until: Option<Instant>,
    /// Width of the bins of goodput. `None`: not recorded.
    pub(crate) bin: Option<Duration>,
    /// False if receivers drop the payload, so that there is nothing to read.
    keeps_payload: bool,
    /// Start of virtual time.
    epoch: Instant,
}

impl ServerNode {
    pub(crate) fn new(config: ServerConfig, id: NodeId, epoch: Instant, now: Instant) -> Self {
        let mut server = Server::new(config);
        let keeps_payload = config.receiver.keep_payload;
        // Servers have one identity and different addresses.
        let set = ConnectionSetConfig { reset_scope: u64::from(id.0), ..ConnectionSetConfig::default() };
        let config = ConnectionConfig { dangerously_unencrypted: true, ..ConnectionConfig::default() };
        let responder = ResponderConfig { config, ..ResponderConfig::open(identity()) };
        server.listen(responder, set, entropy(0, id, now - epoch));
        Self {
            server,
            keeps_payload,
            transfers: BTreeMap::new(),
            senders: BTreeMap::new(),
            openers: BTreeMap::new(),
            reader: None,
            readers: BTreeMap::new(),
            unread: BTreeSet::new(),
            read_at: None,
            asleep_until: None,
            bin: None,
            epoch,
        }
    }

    /// Handles events, then reads, checks and confirms data. Returns true if it did anything.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        if self.asleep_until.is_some_and(|until| now < until) {
            return false;
        }
        self.asleep_until = None;
        let mut busy = false;
        while let Some((sender, event)) = self.server.poll_event() {
            busy = true;
            self.on_event(sender, event);
        }
        self.count(now);
        self.read_at = None;
        if !self.unread.is_empty() {
            let elapsed = now.saturating_duration_since(self.epoch);
            for peer in std::mem::take(&mut self.unread) {
                busy |= self.read(now, elapsed, peer);
            }
        }
        busy
    }

    fn on_event(&mut self, sender: SenderId<NodeId>, event: ReceiverEvent) {
        let Some(peer) = self.opener(sender) else { return };
        if event == ReceiverEvent::Started {
            self.senders.insert(peer, sender);
            let transfer = self.transfers.entry(peer).or_default();
            *transfer = Transfer { starts: transfer.starts + 1, ..Transfer::default() };
        }
        // A node that restarted has another connection, and its old one may still be there.
        if self.senders.get(&peer).is_some_and(|latest| *latest != sender) {
            return;
        }
        let transfer = self.transfers.entry(peer).or_default();
        match event {
            ReceiverEvent::Readable => {
                self.unread.insert(peer);
            }
            ReceiverEvent::Finished { bytes, crc, elapsed } => {
                // A connection has no checksum.
                let crc = sender.address().map(|_| crc);
                transfer.finish = Some(Finish { bytes, crc, elapsed });
                self.unread.insert(peer);
            }
            ReceiverEvent::Closed { unfinished } => transfer.closed = Some(unfinished),
            _ => {}
        }
    }

    /// Returns the node of a sender. `None` for a connection that ended while the server slept.
    fn opener(&mut self, sender: SenderId<NodeId>) -> Option<NodeId> {
        let SenderId::Connection(id) = sender else { return sender.address() };
        let opener = self.openers.get(&id).copied().or_else(|| self.server.address(sender));
        opener.inspect(|node| _ = self.openers.insert(id, *node))
    }

    /// Counts the bytes that arrived in order, where the receivers drop them.
    fn count(&mut self, now: Instant) {
        if self.keeps_payload || self.bin.is_none() {
            return;
        }
        let elapsed = now.saturating_duration_since(self.epoch);
        for (peer, transfer) in &mut self.transfers {
            let Some(sender) = self.senders.get(peer) else { continue };
            let bytes = self.server.received_bytes(*sender).saturating_sub(transfer.bytes);
            if bytes > 0 {
                transfer.count(elapsed, bytes, self.bin);
            }
        }
    }

    /// Reads the bytes of `peer` that the policy allows, and confirms a transfer that is read to
    /// its end. Returns true if it did anything.
    fn read(&mut self, now: Instant, elapsed: Duration, peer: NodeId) -> bool {
        let (Some(&sender), Some(transfer)) = (self.senders.get(&peer), self.transfers.get_mut(&peer)) else {
            return false;
        };
        let reader = self.readers.get_mut(&peer).or(self.reader.as_mut());
        let mut stream = ServerStream { server: &mut self.server, sender, now };
        let read = transfer.read(elapsed, reader, self.bin, &mut stream);
        if read.next.is_some() {
            self.read_at = self.read_at.into_iter().chain(read.next).min();
            self.unread.insert(peer);
        }
        if read.is_complete {
            self.server.confirm(now, sender);
        }
        read.is_some
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let read_at = self.read_at.map(|at| self.epoch + at);
        [self.server.poll_timeout(), read_at, self.asleep_until].into_iter().flatten().min()
    }
}
