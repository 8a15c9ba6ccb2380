//! [`Server`]: a set of peers behind the emulated paths of its senders.

mod forwarding;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rdt_crypto::Entropy;
use rdt_emulator::{DelayHistogram, Ledger};
use rdt_transport::wire::native::{CloseReason, recognize};
use rdt_transport::{
    AddressKey, ClassicPeers, Connection, ConnectionId, ConnectionSet, ConnectionSetConfig, Ecn, Endpoint,
    PayloadDiscarded, ReceiverEvent, ResponderConfig, TransmitBuf, one_by_one,
};

use crate::links::Links;
use crate::outgoing::Outgoing;
use crate::path::LinkWanted;
use crate::transfers::{Transfers, limits, listening};
use crate::{LinkMode, SenderId, ServerConfig};

/// Datagrams in the batch from which replies enter the links.
const BATCH_SEGMENTS: usize = 64;

/// Receivers of many senders, each behind the emulated path that its handshake requested, if any.
#[derive(Debug)]
pub struct Server<P> {
    config: ServerConfig,
    pub(crate) peers: ConnectionSet<P>,
    pub(crate) transfers: Transfers,
    /// Batch of replies that enter the links.
    batch: TransmitBuf,
    pub(crate) links: Links<P>,
    pub(crate) outgoing: Outgoing<P>,
    events: VecDeque<(SenderId<P>, ReceiverEvent)>,
    /// Largest number of senders at once.
    pub(crate) max_active: usize,
    /// Number of datagrams dropped because the server takes no classic ones.
    pub(crate) classic_dropped: u64,
    pub(crate) lateness: DelayHistogram,
}

impl<P: AddressKey> Server<P> {
    /// Creates a server without senders.
    pub fn new(config: ServerConfig) -> Self {
        Self {
            peers: ConnectionSet::classic_only(limits(&config, &ConnectionSetConfig::default())),
            transfers: Transfers::default(),
            batch: TransmitBuf::new(BATCH_SEGMENTS),
            links: Links::new(&config),
            config,
            outgoing: Outgoing::new(),
            events: VecDeque::new(),
            max_active: 0,
            classic_dropped: 0,
            lateness: DelayHistogram::default(),
        }
    }

    /// Accepts native connections, each for one transfer to this server. Both formats together stay
    /// within the limits of [`ServerConfig`]. `environment` has all other fields of the
    /// configuration. `entropy` must be unpredictable. Call it before the first datagram.
    pub fn listen(
        &mut self,
        responder: ResponderConfig,
        environment: ConnectionSetConfig<P>,
        entropy: Entropy,
    ) {
        self.peers = listening(&self.config, responder, environment, entropy);
    }

    /// Returns the classic senders behind the paths.
    pub fn classic(&self) -> &ClassicPeers<P> {
        self.peers.classic()
    }

    /// Returns the number of packets by which senders without encryption were refused.
    pub fn unencrypted(&self) -> u64 {
        self.classic_dropped + self.peers.stats().unencrypted
    }

    /// Returns the native connection of a sender; `None` after its end.
    pub fn connection(&self, sender: impl Into<SenderId<P>>) -> Option<&Connection> {
        match sender.into() {
            SenderId::Address(_) => None,
            SenderId::Connection(id) => self.peers.get(id),
        }
    }

    /// Returns the present address of a sender; `None` for an unknown connection.
    pub fn address(&self, sender: impl Into<SenderId<P>>) -> Option<P> {
        match sender.into() {
            SenderId::Address(address) => Some(address),
            SenderId::Connection(id) => self.peers.address(id),
        }
    }

    /// Returns the name that a sender suggests for its stream. The text comes from the network: it
    /// may contain path separators and control characters.
    pub fn stream_name(&self, sender: impl Into<SenderId<P>>) -> Option<&str> {
        match sender.into() {
            SenderId::Address(_) => None,
            sender @ SenderId::Connection(_) => self.connection(sender)?.peer_name(),
        }
    }

    /// Returns contiguous unread bytes of `sender`, in order. Empty only if no byte is unread.
    ///
    /// # Errors
    /// The server keeps no payload, so there would never be a byte.
    pub fn data(&self, sender: impl Into<SenderId<P>>) -> Result<&[u8], PayloadDiscarded> {
        match sender.into() {
            SenderId::Address(address) => self.classic().data(address),
            _ if !self.config.receiver.keep_payload => Err(PayloadDiscarded),
            sender @ SenderId::Connection(_) => Ok(self.connection(sender).map_or(&[], Connection::data)),
        }
    }

    /// Returns the number of bytes in order that arrived from `sender`: of a connection until its
    /// end, of an address since its first transfer. 0 for an unknown sender.
    pub fn received_bytes(&self, sender: impl Into<SenderId<P>>) -> u64 {
        match sender.into() {
            SenderId::Address(address) => self.classic().received_bytes(address),
            sender @ SenderId::Connection(_) => self.connection(sender).map_or(0, Connection::received_bytes),
        }
    }

    /// Consumes the first `n` bytes of [`Server::data`].
    pub fn consume(&mut self, now: Instant, sender: impl Into<SenderId<P>>, n: usize) {
        match sender.into() {
            SenderId::Address(address) => self.peers.consume_classic(address, n),
            SenderId::Connection(id) => self.with(now, id, |connection| connection.consume(n)),
        }
    }

    /// Lets the receiver answer the FIN of `sender`: the application has stored the transfer.
    pub fn confirm(&mut self, now: Instant, sender: impl Into<SenderId<P>>) {
        match sender.into() {
            SenderId::Address(address) => self.peers.confirm_classic(address),
            SenderId::Connection(id) => self.with(now, id, Connection::confirm),
        }
        self.route_replies(now);
    }

    /// Removes `sender`, whose transfer cannot be stored, with its path. Sends a CLOSE with the
    /// reason if its format has one (native).
    pub fn refuse(&mut self, now: Instant, sender: impl Into<SenderId<P>>, reason: CloseReason) {
        match sender.into() {
            SenderId::Address(address) => self.peers.close_classic(address),
            SenderId::Connection(id) => self.with(now, id, |connection| connection.abort(now, reason)),
        }
        self.absorb_events();
    }

    /// Removes all native senders with unfinished transfers and sends each a CLOSE, at shutdown.
    /// The CLOSEs bypass the links, because the program may end before links would deliver them.
    pub fn abort_unfinished(&mut self, now: Instant) {
        for id in self.transfers.open.clone() {
            self.with(now, id, |connection| connection.abort(now, CloseReason::Aborted));
        }
        self.absorb_events();
    }

    /// Rejects new senders from now on. Existing senders stay connected.
    pub fn refuse_new(&mut self) {
        self.peers.refuse_new();
    }

    /// Returns the number of senders. A native one counts until its transfer is confirmed.
    pub fn active(&self) -> usize {
        self.classic().active() + self.transfers.open.len()
    }

    /// True if any sender has an unfinished transfer that was reported.
    pub fn has_unfinished(&self) -> bool {
        self.classic().has_unfinished() || !self.transfers.open.is_empty()
    }

    /// Returns the time until which `sender` may still retransmit a packet whose answer was lost.
    /// Its first timeout is three RTTs, or `spare` on a path without delay. `None` if the sender is
    /// unknown.
    pub fn quiet_at(&self, sender: impl Into<SenderId<P>>, spare: Duration) -> Option<Instant> {
        let sender = sender.into();
        let rtt = self.links.paths.get(&sender).map_or(Duration::ZERO, |p| p.rtt);
        let last_active = match sender {
            SenderId::Address(address) => self.classic().last_active(address),
            SenderId::Connection(id) => self.peers.last_active(id),
        };
        last_active.map(|at| at + 3 * rtt + spare)
    }

    /// Returns the ledgers of the forward and the reverse link of `sender`. `None` without a path.
    pub fn path_ledgers(&self, sender: impl Into<SenderId<P>>) -> Option<(&Ledger, &Ledger)> {
        let path = self.links.paths.get(&sender.into())?;
        Some((path.path.forward.ledger(), path.path.reverse.ledger()))
    }

    /// Returns whether links are emulated, which requires that the caller polls on time.
    pub fn is_emulating(&self) -> bool {
        self.config.link != LinkMode::None
    }

    /// Returns the memory of receivers and of packets inside links, bytes.
    pub fn memory(&self) -> u64 {
        self.peers.memory() + self.links.memory
    }

    /// Calls `act` on a native connection.
    fn with(&mut self, now: Instant, id: ConnectionId, act: impl FnOnce(&mut Connection)) {
        self.peers.with(now, id, act);
        self.absorb_connections(now);
    }

    /// Moves events of classic peers to `events`, and removes the paths of removed ones.
    #[inline]
    fn absorb_events(&mut self) {
        while let Some((peer, event)) = self.peers.poll_classic_event() {
            self.absorb(SenderId::Address(peer), event);
        }
    }

    /// Moves events of native connections to `events`. Adds and removes the paths of connections.
    fn absorb_connections(&mut self, now: Instant) {
        while let Some((id, event)) = self.transfers.poll_event(now, &mut self.peers) {
            let sender = SenderId::Connection(id);
            match event {
                ReceiverEvent::Connected => {
                    if let LinkMode::Emulated { seed } = self.config.link {
                        let wanted = self.peers.get(id).and_then(Connection::link_request);
                        self.links.admit(now, sender, wanted.map(LinkWanted::Native), seed, false);
                    }
                }
                ReceiverEvent::Closed { unfinished: false } if self.links.contains(sender) => {
                    // The link carries the FIN-ACK, and its repetitions.
                    self.transfers.ended.insert(id);
                    self.events.push_back((sender, event));
                    continue;
                }
                _ => {}
            }
            self.absorb(sender, event);
            if event == ReceiverEvent::Connected {
                self.events.push_back((sender, ReceiverEvent::Started));
            }
        }
    }

    #[inline(never)]
    fn absorb(&mut self, sender: SenderId<P>, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Closed { .. } => {
                self.links.remove(sender);
                self.withdraw(sender);
            }
            ReceiverEvent::Dropped => return self.links.remove(sender),
            ReceiverEvent::Connected => {
                self.links.connect(sender);
                self.max_active = self.max_active.max(self.active());
            }
            ReceiverEvent::Started => self.withdraw(sender),
            _ => {}
        }
        self.events.push_back((sender, event));
    }

    /// Drops queued events about bytes that the receiver has discarded.
    fn withdraw(&mut self, sender: SenderId<P>) {
        let void = |event| matches!(event, ReceiverEvent::Readable | ReceiverEvent::Finished { .. });
        self.events.retain(|(of, event)| *of != sender || !void(*event));
    }
}

impl<P: AddressKey> Endpoint for Server<P> {
    type Peer = P;
    type Event = (SenderId<P>, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        let is_native = recognize(datagram);
        if !is_native && !self.config.classic {
            self.classic_dropped += 1;
            return;
        }
        match self.config.link {
            // `handle_timeout` handles deliveries later. All input comes first, because the
            // socket's buffer is the one queue that the emulation does not model.
            LinkMode::Emulated { seed } if !is_native => self.enter_classic(now, peer, ecn, datagram, seed),
            LinkMode::Emulated { .. } => {
                self.enter_native(now, peer, ecn, datagram, datagram.len());
            }
            LinkMode::None => {
                self.peers.handle_datagram(now, peer, ecn, datagram);
                self.absorb_connections(now);
            }
        }
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
        let (takes_both, is_emulating) = (self.config.classic, self.is_emulating());
        if (is_emulating || !takes_both) && !bytes.chunks(stride).all(recognize) {
            return one_by_one(self, now, peer, ecn, bytes, stride);
        }
        if is_emulating {
            return self.enter_native(now, peer, ecn, bytes, stride);
        }
        let datagrams = self.peers.handle_datagrams(now, peer, ecn, bytes, stride);
        self.absorb_connections(now);
        datagrams
    }

    fn handle_overflow(&mut self, messages: u64) {
        self.peers.handle_overflow(messages);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.peers.handle_timeout(now);
        self.absorb_events();
        self.absorb_connections(now);
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if !self.is_emulating() {
            let peer = self.peers.poll_transmit(now, out);
            self.absorb_connections(now);
            return peer;
        }
        // Includes replies that no packet triggered: window updates and delayed ACKs.
        self.route_replies(now);
        self.remove_ended_paths();
        self.outgoing.poll(out, &mut self.links)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let wakeup = self.links.first_wakeup().map(|(due, _)| due);
        [wakeup, self.peers.poll_timeout()].into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<(SenderId<P>, ReceiverEvent)> {
        self.absorb_events();
        self.events.pop_front()
    }
}

#[cfg(test)]
#[path = "server/tests/native.rs"]
mod native_tests;
#[cfg(test)]
mod tests;
