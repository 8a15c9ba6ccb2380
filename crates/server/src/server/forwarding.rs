//! Ways of datagrams: from the socket through the forward link to the listener or the set of
//! connections, and of the replies through the reverse link to the socket.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use rdt_emulator::Direction;
use rdt_transport::wire::native::CloseReason;
use rdt_transport::wire::{FromSender, sealed};
use rdt_transport::{Admission, ConnectionId, Ecn, Endpoint, one_by_one};

use super::{SenderId, Server};
use crate::encrypted::Encrypted;
use crate::links::Datagram;

impl<P: Copy + Ord + Debug + Hash> Server<P> {
    /// Pushes a datagram of an unencrypted sender into its forward link. The SYN of a new one
    /// creates its path.
    pub(super) fn enter(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &[u8], seed: u64) {
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
    pub(super) fn enter_encrypted(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
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
    pub(super) fn is_encrypted(&self, datagram: &[u8]) -> bool {
        self.encrypted.is_some() && datagram.first() == Some(&sealed::FIRST_BYTE)
    }

    /// True if datagrams of `peer`, which is not encrypted, need not enter a link.
    pub(super) fn is_direct(&self, peer: P) -> bool {
        let sender = SenderId::Address(peer);
        !self.is_emulating() || self.listener.wire(peer).is_some() && !self.links.contains(sender)
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
    pub(super) fn route_replies(&mut self, now: Instant) {
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

    /// Removes the paths of finished connections that repeat no more answers, once the answers in
    /// their links have left.
    pub(super) fn remove_ended_paths(&mut self) {
        let Some(encrypted) = &mut self.encrypted else { return };
        let Encrypted { set, ended, draining, removed_before, .. } = &mut **encrypted;
        if std::mem::replace(removed_before, set.removed()) != set.removed() {
            let is_kept = |id: &ConnectionId| set.address(*id).is_some();
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
