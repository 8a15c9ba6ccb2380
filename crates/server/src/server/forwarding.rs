//! Ways of datagrams: from the socket through the forward link to the listener or the set of
//! connections, and of the replies through the reverse link to the socket.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use rdt_emulator::Direction;
use rdt_transport::wire::FromSender;
use rdt_transport::wire::native::{self, CloseReason};
use rdt_transport::{Admission, Ecn, Endpoint, one_by_one};

use super::{SenderId, Server};
use crate::links::Datagram;
use crate::native::Native;
use crate::path::LinkWanted;

impl<P: Copy + Ord + Debug + Hash> Server<P> {
    /// Pushes a datagram of a classic sender into its forward link. The SYN of a new one
    /// creates its path.
    pub(super) fn enter(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &[u8], seed: u64) {
        let sender = SenderId::Address(peer);
        let Some(packet) = self.listener.inspect(peer, bytes) else { return };
        if let FromSender::Syn(open) = packet {
            let admission = self.listener.admit(now, peer);
            // Removes the path of a half-open peer at this address before the new one is added.
            self.absorb_events();
            match admission {
                Admission::New => {
                    let is_half_open = self.listener.is_half_open(peer);
                    self.links.admit(now, sender, Some(LinkWanted::Classic(open.link)), seed, is_half_open);
                }
                Admission::Known => {}
                Admission::Refused => return,
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

    /// Handles native datagrams: pushes those of a connection with a path into its forward
    /// link, and delivers the others.
    pub(super) fn enter_native(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        let is_emulating = self.is_emulating();
        let Some(native) = &mut self.native else { return 0 };
        let (set, links) = (&mut native.set, &mut self.links);
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

    /// True for a native datagram of any version, if the server takes native connections.
    pub(super) fn is_native(&self, datagram: &[u8]) -> bool {
        self.native.is_some() && native::recognize(datagram)
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
        let is_faithful = self.config.listener.receiver.faithful;
        let path = self.links.paths.get(&sender).filter(|_| !is_faithful);
        path.is_some_and(|path| now.saturating_duration_since(path.last_arrival) > self.config.native_idle)
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
            match (sender, &mut self.native) {
                (SenderId::Address(peer), _) => self.listener.deliver_datagram(due, peer, ecn, &bytes),
                (SenderId::Connection(_), Some(native)) => {
                    native.set.handle_datagram(due, peer, ecn, &mut bytes);
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
            && let Some((peer, bytes)) = self.listener.poll_reply()
        {
            // Sent as Not-ECT, because replies are not congestion-controlled.
            let reply = Datagram { peer, ecn: Ecn::NotEct, bytes: &bytes[..] };
            self.outgoing.route(now, Some(SenderId::Address(peer)), &reply, &mut self.links);
        }
        let Some(native) = &mut self.native else { return };
        let Native { set, batch, .. } = &mut **native;
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

    /// Removes the paths of finished connections that repeat no more answers.
    pub(super) fn remove_ended_paths(&mut self) {
        let Some(native) = &mut self.native else { return };
        let Native { set, ended, removed_before, .. } = &mut **native;
        if std::mem::replace(removed_before, set.removed()) == set.removed() {
            return;
        }
        ended.retain(|id| {
            let is_kept = set.address(*id).is_some();
            if !is_kept {
                self.links.remove(SenderId::Connection(*id));
            }
            is_kept
        });
    }
}
