//! Ways of datagrams through the forward link to the set of peers, and of replies back.

use std::time::Instant;

use rdt_emulator::Direction;
use rdt_transport::wire::FromSender;
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{AddressKey, Admission, ConnectionId, Ecn, Endpoint, one_by_one};

use super::Server;
use crate::SenderId;
use crate::links::Datagram;
use crate::path::LinkWanted;
use crate::transfers::Transfers;

impl<P: AddressKey> Server<P> {
    /// Pushes a classic datagram into its forward link. The SYN of a new sender creates its path.
    pub(super) fn enter_classic(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &[u8], seed: u64) {
        let sender = SenderId::Address(peer);
        let Some(packet) = self.peers.inspect_classic(peer, bytes) else { return };
        if let FromSender::Syn(open) = packet {
            let admission = self.peers.admit_classic(now, peer);
            // Removes the path of a half-open peer at this address before the new one is added.
            self.absorb_events();
            match admission {
                Admission::New => {
                    let is_half_open = self.classic().is_half_open(peer);
                    self.links.admit(now, sender, Some(LinkWanted::Classic(open.link)), seed, is_half_open);
                }
                Admission::Known => {}
                Admission::Refused => return,
            }
        }
        if !self.links.contains(sender) {
            self.peers.deliver_classic(now, peer, ecn, &packet);
            self.absorb_events();
            return self.route_replies(now);
        }
        self.peers.touch_classic(now, peer);
        self.links.push(now, sender, &Datagram { peer, ecn, bytes }, Direction::Forward);
    }

    /// Pushes native datagrams of a connection with a path into its link; delivers the others.
    pub(super) fn enter_native(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        let (set, links) = (&mut self.peers, &mut self.links);
        if bytes.len() > stride {
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

    /// Handles all deliveries due by `now` in order, each with its due time as the current time.
    pub(super) fn advance(&mut self, now: Instant) {
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
        let is_faithful = self.config.receiver.faithful;
        let path = self.links.paths.get(&sender).filter(|_| !is_faithful);
        path.is_some_and(|path| now.saturating_duration_since(path.last_arrival) > self.config.native_idle)
    }

    fn end_silent(&mut self, now: Instant, sender: SenderId<P>) {
        match sender {
            SenderId::Address(peer) => self.peers.close_classic(peer),
            SenderId::Connection(id) => {
                self.with(now, id, |connection| connection.abort(now, CloseReason::Idle));
            }
        }
        self.absorb_events();
        self.links.remove(sender);
    }

    fn leave_forward(&mut self, due: Instant, sender: SenderId<P>) {
        while let Some(Datagram { peer, ecn, mut bytes }) = self.links.pop(due, sender, Direction::Forward) {
            match sender {
                SenderId::Address(peer) => self.peers.deliver_classic_datagram(due, peer, ecn, &bytes),
                SenderId::Connection(_) => {
                    self.peers.handle_datagram(due, peer, ecn, &mut bytes);
                    self.absorb_connections(due);
                }
            }
            self.links.recycle(bytes);
            self.route_replies(due);
        }
    }

    fn leave_reverse(&mut self, due: Instant, sender: SenderId<P>, now: Instant) {
        while let Some(datagram) = self.links.pop(due, sender, Direction::Reverse) {
            if let SenderId::Address(peer) = sender {
                self.peers.touch_classic(due, peer);
            }
            self.lateness.record(now.saturating_duration_since(due));
            self.outgoing.push(datagram, &mut self.links);
        }
    }

    /// Moves the replies of all peers into the reverse links, or to `outgoing` if there is no path.
    pub(super) fn route_replies(&mut self, now: Instant) {
        if !self.is_emulating() {
            return;
        }
        loop {
            self.batch.clear();
            let Some((peer, sender)) = self.peers.poll_peer(now, &mut self.batch) else { break };
            for bytes in self.batch.datagrams() {
                let reply = Datagram { peer, ecn: self.batch.ecn(), bytes };
                self.outgoing.route(now, sender, &reply, &mut self.links);
            }
        }
        self.absorb_connections(now);
    }

    /// Removes the paths of connections that repeat no more answers, once their links are empty.
    pub(super) fn remove_ended_paths(&mut self) {
        let removed = self.peers.removed();
        let Transfers { ended, draining, removed_before, .. } = &mut self.transfers;
        if std::mem::replace(removed_before, removed) != removed {
            let is_kept = |id: &ConnectionId| self.peers.address(*id).is_some();
            let (kept, mut over) = std::mem::take(ended).into_iter().partition(is_kept);
            *ended = kept;
            draining.append(&mut over);
        }
        draining.retain(|id| {
            let is_kept = self.links.has_packets(SenderId::Connection(*id));
            if !is_kept {
                self.links.remove(SenderId::Connection(*id));
            }
            is_kept
        });
    }
}
