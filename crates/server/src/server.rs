//! [`Server`]: a [`Listener`] and a [`ConnectionSet`](rdt_transport::ConnectionSet) behind the
//! emulated paths of their senders.

mod forwarding;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use rdt_crypto::Entropy;
use rdt_emulator::{DelayHistogram, Ledger};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{
    Connection, ConnectionId, ConnectionSetConfig, Ecn, Endpoint, Listener, PayloadDiscarded, ReceiverEvent,
    ResponderConfig, TransmitBuf, one_by_one,
};

use crate::links::Links;
use crate::native::Native;
use crate::outgoing::Outgoing;
use crate::path::LinkWanted;
use crate::{LinkMode, ServerConfig};

/// Sender of transfers to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SenderId<P> {
    /// Classic sender, known by its address.
    Address(P),
    /// Native connection. Its address may change.
    Connection(ConnectionId),
}

impl<P> From<P> for SenderId<P> {
    fn from(address: P) -> Self {
        Self::Address(address)
    }
}

impl<P: Copy> SenderId<P> {
    /// Returns the address of a sender that is known by it.
    pub fn address(self) -> Option<P> {
        match self {
            Self::Address(address) => Some(address),
            Self::Connection(_) => None,
        }
    }
}

/// Receivers of many senders. Each is behind the emulated path that the sender requested in its
/// handshake, if it requested one.
#[derive(Debug)]
pub struct Server<P> {
    config: ServerConfig,
    pub(crate) listener: Listener<P>,
    /// Native connections; `None` if the server takes none.
    pub(crate) native: Option<Box<Native<P>>>,
    pub(crate) links: Links<P>,
    pub(crate) outgoing: Outgoing<P>,
    events: VecDeque<(SenderId<P>, ReceiverEvent)>,
    /// Largest number of senders at once.
    pub(crate) max_active: usize,
    /// Number of datagrams dropped because the server takes no classic ones.
    pub(crate) classic_dropped: u64,
    pub(crate) lateness: DelayHistogram,
}

impl<P: Copy + Ord + Debug + Hash> Server<P> {
    /// Creates a server without senders.
    pub fn new(config: ServerConfig) -> Self {
        Self {
            listener: Listener::new(config.listener),
            native: None,
            links: Links::new(&config),
            config,
            outgoing: Outgoing::new(),
            events: VecDeque::new(),
            max_active: 0,
            classic_dropped: 0,
            lateness: DelayHistogram::default(),
        }
    }

    /// Accepts native connections, each for one transfer to this server. Their limits are those
    /// of the listener, and both together stay within them. `environment` has all other fields of
    /// the configuration. `entropy` must be unpredictable.
    pub fn listen(
        &mut self,
        responder: ResponderConfig,
        environment: ConnectionSetConfig<P>,
        entropy: Entropy,
    ) {
        let mut native = Native::new(&self.config, responder, environment, entropy);
        native.set.set_other_sources(self.listener.source_counts());
        self.listener.set_other_sources(native.set.source_counts());
        self.native = Some(Box::new(native));
    }

    /// Returns the listener behind the paths, for classic senders.
    pub fn listener(&self) -> &Listener<P> {
        &self.listener
    }

    /// Returns the number of packets by which senders without encryption were refused.
    pub fn unencrypted(&self) -> u64 {
        self.classic_dropped + self.native.as_ref().map_or(0, |native| native.set.stats().unencrypted)
    }

    /// Returns the native connection of a sender; `None` after its end.
    pub fn connection(&self, sender: impl Into<SenderId<P>>) -> Option<&Connection> {
        match sender.into() {
            SenderId::Address(_) => None,
            SenderId::Connection(id) => self.native.as_ref()?.set.get(id),
        }
    }

    /// Returns the present address of a sender; `None` for an unknown connection.
    pub fn address(&self, sender: impl Into<SenderId<P>>) -> Option<P> {
        match sender.into() {
            SenderId::Address(address) => Some(address),
            SenderId::Connection(id) => self.native.as_ref()?.set.address(id),
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

    /// Limits the number of classic senders of one source ([`Listener::limit_sources`]). Its native
    /// ones count, too, if `source_of` is [`source_number`](rdt_transport::source_number)
    /// of the address.
    pub fn limit_sources(&mut self, source_of: fn(&P) -> u64) {
        self.listener.limit_sources(source_of);
    }

    /// Returns contiguous unread bytes of `sender`, in order. Empty only if no byte is unread.
    ///
    /// # Errors
    /// The server keeps no payload, so there would never be a byte.
    pub fn data(&self, sender: impl Into<SenderId<P>>) -> Result<&[u8], PayloadDiscarded> {
        match sender.into() {
            SenderId::Address(address) => self.listener.data(address),
            _ if !self.config.listener.receiver.keep_payload => Err(PayloadDiscarded),
            sender @ SenderId::Connection(_) => Ok(self.connection(sender).map_or(&[], Connection::data)),
        }
    }

    /// Returns the number of bytes in order that arrived from `sender`: of a connection until its
    /// end, of an address since its first transfer. 0 for an unknown sender.
    pub fn received_bytes(&self, sender: impl Into<SenderId<P>>) -> u64 {
        match sender.into() {
            SenderId::Address(address) => self.listener.received_bytes(address),
            sender @ SenderId::Connection(_) => self.connection(sender).map_or(0, Connection::received_bytes),
        }
    }

    /// Consumes the first `n` bytes of [`Server::data`].
    pub fn consume(&mut self, now: Instant, sender: impl Into<SenderId<P>>, n: usize) {
        match sender.into() {
            SenderId::Address(address) => self.listener.consume(address, n),
            SenderId::Connection(id) => self.with(now, id, |connection| connection.consume(n)),
        }
    }

    /// Lets the receiver answer the FIN of `sender`: the application has stored the transfer.
    pub fn confirm(&mut self, now: Instant, sender: impl Into<SenderId<P>>) {
        match sender.into() {
            SenderId::Address(address) => self.listener.confirm(address),
            SenderId::Connection(id) => self.with(now, id, Connection::confirm),
        }
        self.route_replies(now);
    }

    /// Removes `sender`, whose transfer cannot be stored, with its path. Sends a CLOSE with the
    /// reason if its format has one (native).
    pub fn refuse(&mut self, now: Instant, sender: impl Into<SenderId<P>>, reason: CloseReason) {
        match sender.into() {
            SenderId::Address(address) => self.listener.close(address),
            SenderId::Connection(id) => self.with(now, id, |connection| connection.abort(now, reason)),
        }
        self.absorb_events();
    }

    /// Removes all native senders with unfinished transfers and sends each a CLOSE, at shutdown.
    /// The CLOSEs bypass the links, because the program may end before links would deliver them.
    pub fn abort_unfinished(&mut self, now: Instant) {
        let open = self.native.as_ref().map(|native| native.open.clone());
        for id in open.into_iter().flatten() {
            self.with(now, id, |connection| connection.abort(now, CloseReason::Aborted));
        }
        self.absorb_events();
    }

    /// Rejects new senders from now on. Existing senders stay connected.
    pub fn refuse_new(&mut self) {
        self.listener.refuse_new();
        if let Some(native) = &mut self.native {
            native.set.refuse_new();
        }
    }

    /// Returns the number of senders. A native one counts until its transfer is confirmed.
    pub fn active(&self) -> usize {
        self.listener.active() + self.native.as_ref().map_or(0, |native| native.open.len())
    }

    /// True if any sender has an unfinished transfer that was reported.
    pub fn has_unfinished(&self) -> bool {
        self.listener.has_unfinished() || self.native.as_ref().is_some_and(|native| !native.open.is_empty())
    }

    /// Returns the time until which `sender` may still retransmit a packet whose answer was lost.
    /// Its first timeout is three RTTs, or `spare` on a path without delay. `None` if the sender is
    /// unknown.
    pub fn quiet_at(&self, sender: impl Into<SenderId<P>>, spare: Duration) -> Option<Instant> {
        let sender = sender.into();
        let rtt = self.links.paths.get(&sender).map_or(Duration::ZERO, |p| p.rtt);
        let last_active = match sender {
            SenderId::Address(address) => self.listener.last_active(address),
            SenderId::Connection(id) => self.native.as_ref()?.set.last_active(id),
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
        let connections = self.native.as_ref().map_or(0, |native| native.set.memory());
        self.listener.memory() + connections + self.links.memory
    }

    /// Calls `act` on a native connection.
    fn with(&mut self, now: Instant, id: ConnectionId, act: impl FnOnce(&mut Connection)) {
        if let Some(native) = &mut self.native {
            native.set.with(now, id, act);
            self.absorb_connections(now);
        }
    }

    /// Lets each of the listener and the set count what the other uses of the shared limits.
    fn share_limits(&mut self) {
        if let Some(native) = &mut self.native {
            native.set.set_other_load(self.listener.load());
            self.listener.set_other_load(native.set.load());
        }
    }

    /// Moves events from the listener to `events`, and removes the paths of removed peers.
    #[inline]
    fn absorb_events(&mut self) {
        while let Some((peer, event)) = self.listener.poll_event() {
            self.absorb(SenderId::Address(peer), event);
        }
    }

    /// Moves events of native connections to `events`. Adds the paths of new ones, and removes
    /// those of aborted ones.
    fn absorb_connections(&mut self, now: Instant) {
        while let Some(native) = &mut self.native
            && let Some((id, event)) = native.poll_event(now)
        {
            let sender = SenderId::Connection(id);
            match event {
                ReceiverEvent::Connected => {
                    if let LinkMode::Emulated { seed } = self.config.link {
                        let wanted = native.set.get(id).and_then(Connection::link_request);
                        self.links.admit(now, sender, wanted.map(LinkWanted::Native), seed, false);
                    }
                }
                ReceiverEvent::Closed { unfinished: false } if self.links.contains(sender) => {
                    // The link carries the FIN-ACK, and its repetitions.
                    native.ended.insert(id);
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

    /// Fills a batch of the listener or the set, which take turns.
    fn poll_either(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        self.share_limits();
        let Some(native) = &mut self.native else { return self.listener.poll_transmit(now, out) };
        let is_first = std::mem::take(&mut native.is_next);
        if is_first && let Some(peer) = native.set.poll_transmit(now, out) {
            self.absorb_connections(now);
            return Some(peer);
        }
        if let Some(peer) = self.listener.poll_transmit(now, out) {
            native.is_next = true;
            return Some(peer);
        }
        let peer = if is_first { None } else { native.set.poll_transmit(now, out) };
        self.absorb_connections(now);
        peer
    }
}

impl<P: Copy + Ord + Debug + Hash> Endpoint for Server<P> {
    type Peer = P;
    type Event = (SenderId<P>, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        self.share_limits();
        if self.is_native(datagram) {
            self.enter_native(now, peer, ecn, datagram, datagram.len());
            return;
        }
        if !self.config.classic {
            self.classic_dropped += 1;
            return;
        }
        match self.config.link {
            LinkMode::None => self.listener.handle_datagram(now, peer, ecn, datagram),
            // `handle_timeout` handles deliveries later. All input comes first, because the
            // socket's buffer is the one queue that the emulation does not model.
            LinkMode::Emulated { seed } => self.enter(now, peer, ecn, datagram, seed),
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
        let is_native = self.is_native(bytes);
        let is_mixed = self.native.is_some()
            && bytes.chunks(stride).any(|datagram| self.is_native(datagram) != is_native);
        if is_mixed {
            return one_by_one(self, now, peer, ecn, bytes, stride);
        }
        if is_native {
            self.share_limits();
            return self.enter_native(now, peer, ecn, bytes, stride);
        }
        if self.config.classic && !self.is_emulating() {
            self.share_limits();
            return self.listener.handle_datagrams(now, peer, ecn, bytes, stride);
        }
        one_by_one(self, now, peer, ecn, bytes, stride)
    }

    fn handle_overflow(&mut self, messages: u64) {
        self.listener.handle_overflow(messages);
        if let Some(native) = &mut self.native {
            native.set.handle_overflow(messages);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.listener.handle_timeout(now);
        self.absorb_events();
        if let Some(native) = &mut self.native {
            native.set.handle_timeout(now);
            self.absorb_connections(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if !self.is_emulating() {
            return self.poll_either(now, out);
        }
        // Includes replies that no packet triggered: window updates and delayed ACKs.
        self.route_replies(now);
        self.remove_ended_paths();
        self.outgoing.poll(out, &mut self.links)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let wakeup = self.links.first_wakeup().map(|(due, _)| due);
        let connections = self.native.as_ref().and_then(|native| native.set.poll_timeout());
        [wakeup, self.listener.poll_timeout(), connections].into_iter().flatten().min()
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
