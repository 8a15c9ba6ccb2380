//! [`Server`]: a [`Listener`] and a [`ConnectionSet`](rdt_transport::ConnectionSet) behind the
//! emulated paths of their senders.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use rdt_crypto::Entropy;
use rdt_emulator::{DelayHistogram, Direction, Ledger};
use rdt_transport::wire::native::{CloseReason, Versions};
use rdt_transport::wire::{FromSender, LinkWanted, sealed};
use rdt_transport::{
    Admission, Connection, ConnectionId, ConnectionSetConfig, Ecn, Endpoint, Listener, ReceiverEvent,
    ResponderConfig, TransmitBuf, one_by_one,
};

use crate::encrypted::Encrypted;
use crate::links::{Datagram, Links};
use crate::{LinkMode, SenderId, ServerConfig};

/// Limit on the datagrams that wait for the socket. Further datagrams are dropped.
const MAX_OUTGOING: usize = 16 * 1024;

/// Datagrams that wait for the socket: each has left its reverse link, or its sender has no path.
#[derive(Debug)]
pub(crate) struct Outgoing<P> {
    queue: VecDeque<Datagram<P, Vec<u8>>>,
    pub(crate) dropped: u64,
}

/// Receivers of many senders. Each is behind the emulated path that the sender requested in its
/// handshake, if it requested one.
#[derive(Debug)]
pub struct Server<P> {
    config: ServerConfig,
    pub(crate) listener: Listener<P>,
    /// Encrypted connections; `None` if the server takes none.
    pub(crate) encrypted: Option<Box<Encrypted<P>>>,
    pub(crate) links: Links<P>,
    pub(crate) outgoing: Outgoing<P>,
    events: VecDeque<(SenderId<P>, ReceiverEvent)>,
    /// Largest number of senders at once.
    pub(crate) max_active: usize,
    pub(crate) lateness: DelayHistogram,
}

impl<P: Copy + Ord + Debug + Hash> Server<P> {
    /// Creates a server without senders.
    pub fn new(config: ServerConfig) -> Self {
        let mut listener = Listener::new(config.listener);
        if !config.unauthenticated {
            listener.set_versions(Versions::ONLY_SEALED);
        }
        Self {
            listener,
            encrypted: None,
            links: Links::new(&config),
            config,
            outgoing: Outgoing { queue: VecDeque::new(), dropped: 0 },
            events: VecDeque::new(),
            max_active: 0,
            lateness: DelayHistogram::default(),
        }
    }

    /// Accepts encrypted connections, each for one transfer to this server. Their limits are those
    /// of the listener, and both together stay within them; the limit of places of one source
    /// counts each kind by itself. Of `environment` only `ip_of`, `unix_time`, `reset_scope` and
    /// `max_half_open` are used. `entropy` must be unpredictable.
    pub fn listen(
        &mut self,
        responder: ResponderConfig,
        environment: ConnectionSetConfig<P>,
        entropy: Entropy,
    ) {
        self.encrypted = Some(Box::new(Encrypted::new(&self.config, responder, environment, entropy)));
        if self.config.unauthenticated {
            self.listener.set_versions(Versions::BOTH);
        }
    }

    /// Returns the listener behind the paths, for senders without encryption.
    pub fn listener(&self) -> &Listener<P> {
        &self.listener
    }

    /// Returns the encrypted connection of a sender; `None` after its end.
    pub fn connection(&self, sender: impl Into<SenderId<P>>) -> Option<&Connection> {
        match sender.into() {
            SenderId::Address(_) => None,
            SenderId::Connection(id) => self.encrypted.as_ref()?.set.get(id),
        }
    }

    /// Returns the present address of a sender; `None` for an unknown connection.
    pub fn address(&self, sender: impl Into<SenderId<P>>) -> Option<P> {
        match sender.into() {
            SenderId::Address(address) => Some(address),
            SenderId::Connection(id) => self.encrypted.as_ref()?.set.address(id),
        }
    }

    /// Limits the number of unencrypted senders of one source ([`Listener::limit_sources`]).
    pub fn limit_sources(&mut self, source_of: fn(&P) -> u64) {
        self.listener.limit_sources(source_of);
    }

    /// Returns contiguous unread bytes of `sender`, in order. Empty only if no byte is unread.
    pub fn data(&self, sender: impl Into<SenderId<P>>) -> &[u8] {
        match sender.into() {
            SenderId::Address(address) => self.listener.data(address),
            sender @ SenderId::Connection(_) => self.connection(sender).map_or(&[], Connection::data),
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
            SenderId::Address(address) => self.listener.refuse(address, reason),
            SenderId::Connection(id) => self.with(now, id, |connection| connection.abort(now, reason)),
        }
        self.absorb_events();
    }

    /// Removes all native senders with unfinished transfers and sends each a CLOSE, at shutdown.
    /// The CLOSEs bypass the links, because the program may end before links would deliver them.
    pub fn abort_unfinished(&mut self, now: Instant) {
        self.listener.refuse_unfinished(CloseReason::Aborted);
        let open = self.encrypted.as_ref().map(|encrypted| encrypted.open.clone());
        for id in open.into_iter().flatten() {
            self.with(now, id, |connection| connection.abort(now, CloseReason::Aborted));
        }
        self.absorb_events();
    }

    /// Rejects new senders from now on. Existing senders stay connected.
    pub fn refuse_new(&mut self) {
        self.listener.refuse_new();
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.set.refuse_new();
        }
    }

    /// Returns the number of senders. An encrypted one counts until its transfer is confirmed.
    pub fn active(&self) -> usize {
        self.listener.active() + self.encrypted.as_ref().map_or(0, |encrypted| encrypted.open.len())
    }

    /// True if any sender has an unfinished transfer that was reported.
    pub fn has_unfinished(&self) -> bool {
        self.listener.has_unfinished()
            || self.encrypted.as_ref().is_some_and(|encrypted| !encrypted.open.is_empty())
    }

    /// Returns the time until which `sender` may still retransmit a packet whose answer was lost.
    /// Its first timeout is three RTTs, or `spare` on a path without delay. `None` if the sender is
    /// unknown.
    pub fn quiet_at(&self, sender: impl Into<SenderId<P>>, spare: Duration) -> Option<Instant> {
        let sender = sender.into();
        let rtt = self.links.paths.get(&sender).map_or(Duration::ZERO, |p| p.rtt);
        let last_active = match sender {
            SenderId::Address(address) => self.listener.last_active(address),
            SenderId::Connection(id) => self.encrypted.as_ref()?.set.last_active(id),
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
        let encrypted = self.encrypted.as_ref().map_or(0, |encrypted| encrypted.set.memory());
        self.listener.memory() + encrypted + self.links.memory
    }

    /// Calls `act` on an encrypted connection.
    fn with(&mut self, now: Instant, id: ConnectionId, act: impl FnOnce(&mut Connection)) {
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.set.with(now, id, act);
            self.absorb_connections(now);
        }
    }

    /// Lets each of the listener and the set count what the other uses of the shared limits.
    fn share_limits(&mut self) {
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.set.set_beside(self.listener.load());
            self.listener.set_beside(encrypted.set.load());
        }
    }

    /// Pushes a datagram of an unencrypted sender into its forward link. The SYN of a new one
    /// creates its path.
    fn enter(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &[u8], seed: u64) {
        let sender = SenderId::Address(peer);
        let Some(packet) = self.listener.inspect(now, peer, bytes) else {
            // The listener may have answered with a stateless reply.
            return self.route_replies(now);
        };
        if let FromSender::Syn(open) = packet {
            let admission = self.listener.admit(now, peer, &open);
            // Removes the path of a half-open peer at this address before the new one is added.
            self.absorb_events();
            match admission {
                Admission::New => {
                    let is_half_open = self.listener.is_half_open(peer);
                    self.links.admit(now, sender, open.link, seed, is_half_open);
                }
                Admission::Known => {}
                // An address that is not connected has no path, so the reply bypasses the links.
                Admission::Refused | Admission::Unproven => return self.route_replies(now),
            }
        }
        if !self.links.contains(sender) {
            self.listener.deliver(now, peer, ecn, &packet);
            self.absorb_events();
            return self.route_replies(now);
        }
        self.listener.touch(now, peer);
        self.links.push(now, sender, &Datagram { peer, ecn, bytes }, Direction::Forward);
    }

    /// Handles datagrams of version 2: pushes those of a connection with a path into its forward
    /// link, and delivers the others.
    fn enter_encrypted(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &mut [u8], stride: usize) -> usize {
        let is_emulating = self.is_emulating();
        let Some(encrypted) = &mut self.encrypted else { return 0 };
        let (set, links) = (&mut encrypted.set, &mut self.links);
        if is_emulating && bytes.len() > stride {
            // A packet of a handshake may add a path, which the next datagrams then enter.
            let is_direct =
                |datagram| set.find(datagram).is_some_and(|id| !links.contains(SenderId::Connection(id)));
            if !bytes.chunks(stride).all(is_direct) {
                return one_by_one(self, now, peer, ecn, bytes, stride);
            }
        } else if let Some(id) = set.find(bytes).map(SenderId::Connection)
            && links.contains(id)
        {
            links.push(now, id, &Datagram { peer, ecn, bytes }, Direction::Forward);
            return 1;
        }
        let datagrams = set.handle_datagrams(now, peer, ecn, bytes, stride);
        self.absorb_connections(now);
        self.route_replies(now);
        datagrams
    }

    /// True for a datagram of version 2, if the server takes that version.
    fn is_encrypted(&self, datagram: &[u8]) -> bool {
        self.encrypted.is_some() && datagram.first() == Some(&sealed::FIRST_BYTE)
    }

    /// True if datagrams of `peer`, which is not encrypted, need not enter a link.
    fn is_direct(&self, peer: P) -> bool {
        let sender = SenderId::Address(peer);
        !self.is_emulating() || self.listener.wire(peer).is_some() && !self.links.contains(sender)
    }

    /// Handles all deliveries due by `now` in order, each with its due time as the current time.
    fn advance(&mut self, now: Instant) {
        while let Some((due, sender)) = self.links.first_wakeup()
            && due <= now
        {
            if self.is_silent(due, sender) {
                self.end_silent(due, sender);
                continue;
            }
            self.leave_forward(due, sender);
            self.leave_reverse(due, sender, now);
            self.links.schedule(sender);
        }
    }

    /// True if no packet has arrived from the sender for so long that its links must not keep it:
    /// a slow link may hold packets for years.
    fn is_silent(&self, now: Instant, sender: SenderId<P>) -> bool {
        let listener = &self.config.listener;
        let path = self.links.paths.get(&sender).filter(|_| !listener.receiver.faithful);
        path.is_some_and(|path| now.saturating_duration_since(path.last_arrival) > listener.native_idle)
    }

    fn end_silent(&mut self, now: Instant, sender: SenderId<P>) {
        match sender {
            SenderId::Address(peer) => self.listener.close(peer),
            SenderId::Connection(id) => {
                self.with(now, id, |connection| connection.abort(now, CloseReason::Idle));
            }
        }
        self.absorb_events();
        self.links.remove(sender);
    }

    fn leave_forward(&mut self, due: Instant, sender: SenderId<P>) {
        while let Some(Datagram { peer, ecn, mut bytes }) = self.links.pop(due, sender, Direction::Forward) {
            self.share_limits();
            match (sender, &mut self.encrypted) {
                (SenderId::Address(peer), _) => self.listener.deliver_datagram(due, peer, ecn, &bytes),
                (SenderId::Connection(_), Some(encrypted)) => {
                    encrypted.set.handle_datagram(due, peer, ecn, &mut bytes);
                    self.absorb_connections(due);
                }
                (SenderId::Connection(_), None) => {}
            }
            self.links.recycle(bytes);
            self.route_replies(due);
        }
    }

    fn leave_reverse(&mut self, due: Instant, sender: SenderId<P>, now: Instant) {
        while let Some(datagram) = self.links.pop(due, sender, Direction::Reverse) {
            if let SenderId::Address(peer) = sender {
                self.listener.touch(due, peer);
            }
            self.lateness.record(now.saturating_duration_since(due));
            self.outgoing.push(datagram, &mut self.links);
        }
    }

    /// Moves the replies of the listener and the set into the reverse links, or `outgoing` for
    /// senders without a path.
    fn route_replies(&mut self, now: Instant) {
        if !self.is_emulating() {
            return;
        }
        while self.listener.may_reply()
            && let Some((peer, bytes)) = self.listener.poll_reply(now)
        {
            // Sent as Not-ECT, because replies are not congestion-controlled.
            let reply = Datagram { peer, ecn: Ecn::NotEct, bytes };
            self.outgoing.route(now, Some(SenderId::Address(peer)), &reply, &mut self.links);
        }
        let Some(encrypted) = &mut self.encrypted else { return };
        let Encrypted { set, batch, .. } = &mut **encrypted;
        loop {
            batch.clear();
            let Some((peer, id)) = set.poll_connection(now, batch) else { break };
            for bytes in batch.datagrams() {
                let reply = Datagram { peer, ecn: batch.ecn(), bytes };
                self.outgoing.route(now, id.map(SenderId::Connection), &reply, &mut self.links);
            }
        }
        self.absorb_connections(now);
    }

    /// Moves events from the listener to `events`, and removes the paths of removed peers.
    #[inline]
    fn absorb_events(&mut self) {
        while let Some((peer, event)) = self.listener.poll_event() {
            self.absorb(SenderId::Address(peer), event);
        }
    }

    /// Moves events of encrypted connections to `events`. Adds the paths of new ones, and removes
    /// those of aborted ones.
    fn absorb_connections(&mut self, now: Instant) {
        while let Some(encrypted) = &mut self.encrypted
            && let Some((id, event)) = encrypted.poll_event(now)
        {
            let sender = SenderId::Connection(id);
            match event {
                ReceiverEvent::Connected => {
                    if let LinkMode::Emulated { seed } = self.config.link {
                        let wanted = encrypted.set.get(id).and_then(Connection::link_request);
                        self.links.admit(now, sender, wanted.map(LinkWanted::Bytes), seed, false);
                    }
                }
                ReceiverEvent::Closed { unfinished: false } if self.links.contains(sender) => {
                    // The link carries the FIN-ACK, and its repetitions.
                    encrypted.ended.insert(id);
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

    /// Removes the paths of finished connections that repeat no more answers.
    fn remove_ended_paths(&mut self) {
        let Some(encrypted) = &mut self.encrypted else { return };
        let Encrypted { set, ended, .. } = &mut **encrypted;
        ended.retain(|id| {
            let is_kept = set.address(*id).is_some();
            if !is_kept {
                self.links.remove(SenderId::Connection(*id));
            }
            is_kept
        });
    }

    /// Fills a batch of the listener or the set, which take turns.
    fn poll_either(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        self.share_limits();
        let Some(encrypted) = &mut self.encrypted else { return self.listener.poll_transmit(now, out) };
        let is_first = std::mem::take(&mut encrypted.is_next);
        if is_first && let Some(peer) = encrypted.set.poll_transmit(now, out) {
            self.absorb_connections(now);
            return Some(peer);
        }
        if let Some(peer) = self.listener.poll_transmit(now, out) {
            encrypted.is_next = true;
            return Some(peer);
        }
        let peer = if is_first { None } else { encrypted.set.poll_transmit(now, out) };
        self.absorb_connections(now);
        peer
    }
}

impl<P: Copy + Ord + Debug> Outgoing<P> {
    fn push(&mut self, datagram: Datagram<P, Vec<u8>>, links: &mut Links<P>) {
        if self.queue.len() < MAX_OUTGOING {
            self.queue.push_back(datagram);
        } else {
            self.dropped += 1;
            links.recycle(datagram.bytes);
        }
    }

    /// Pushes a reply into the reverse link of its sender, or queues it if there is none.
    fn route(
        &mut self,
        now: Instant,
        sender: Option<SenderId<P>>,
        reply: &Datagram<P, &[u8]>,
        links: &mut Links<P>,
    ) {
        if let Some(sender) = sender.filter(|sender| links.contains(*sender)) {
            links.push(now, sender, reply, Direction::Reverse);
        } else {
            let bytes = links.copy(reply.bytes);
            self.push(Datagram { peer: reply.peer, ecn: reply.ecn, bytes }, links);
        }
    }

    /// Moves datagrams for one peer to `out`, and returns the peer.
    fn poll(&mut self, out: &mut TransmitBuf, links: &mut Links<P>) -> Option<P> {
        let &Datagram { peer, ecn, .. } = self.queue.front()?;
        let before = out.segments();
        out.set_ecn(ecn);
        while let Some(next) = self.queue.front()
            && (next.peer, next.ecn) == (peer, ecn)
            && let Some(slot) = out.slot(next.bytes.len())
        {
            slot.copy_from_slice(&next.bytes);
            if let Some(next) = self.queue.pop_front() {
                links.recycle(next.bytes);
            }
        }
        (out.segments() > before).then_some(peer)
    }
}

impl<P: Copy + Ord + Debug + Hash> Endpoint for Server<P> {
    type Peer = P;
    type Event = (SenderId<P>, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        self.share_limits();
        if self.is_encrypted(datagram) {
            self.enter_encrypted(now, peer, ecn, datagram, datagram.len());
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
        let is_encrypted = self.is_encrypted(bytes);
        let is_mixed = self.encrypted.is_some()
            && bytes.chunks(stride).any(|datagram| self.is_encrypted(datagram) != is_encrypted);
        if is_mixed {
            return one_by_one(self, now, peer, ecn, bytes, stride);
        }
        if is_encrypted {
            self.share_limits();
            return self.enter_encrypted(now, peer, ecn, bytes, stride);
        }
        if self.is_direct(peer) {
            self.share_limits();
            return self.listener.handle_datagrams(now, peer, ecn, bytes, stride);
        }
        one_by_one(self, now, peer, ecn, bytes, stride)
    }

    fn handle_overflow(&mut self, messages: u64) {
        self.listener.handle_overflow(messages);
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.set.handle_overflow(messages);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.listener.handle_timeout(now);
        self.absorb_events();
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.set.handle_timeout(now);
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
        let encrypted = self.encrypted.as_ref().and_then(|encrypted| encrypted.set.poll_timeout());
        [wakeup, self.listener.poll_timeout(), encrypted].into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<(SenderId<P>, ReceiverEvent)> {
        self.absorb_events();
        self.events.pop_front()
    }
}

#[cfg(test)]
mod encrypted_tests;
#[cfg(test)]
mod tests;
