//! Incoming datagrams: decoding and delivery to the peer's receiver. Data of one peer that arrives
//! coalesced (GRO) is delivered as a run: the peer is looked up and its limits are computed once
//! for all packets of the run.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::stateless::Stateless;
use super::{Listener, NO_TRANSFER};
use crate::Ecn;
use crate::wire::FromSender;
use crate::wire::native::{self, CloseReason, Versions};

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Decodes a datagram without delivering it. An undeliverable one is counted and may be
    /// answered statelessly. Sequence numbers of a peer without a transfer are unwrapped near 0.
    pub fn inspect<'d>(&mut self, now: Instant, peer: P, datagram: &'d [u8]) -> Option<FromSender<'d>> {
        self.stats.received += 1;
        if datagram.len() > self.config.receiver.max_datagram {
            self.stats.too_long += 1;
            return None;
        }
        if !self.config.versions.contains_ours() {
            self.stats.unencrypted += 1;
            self.answer_versions(peer, datagram);
            return None;
        }
        // `get_mut` caches the slot, which saves the lookups of this peer's next datagrams.
        let entry = self.peers.get_mut(&peer);
        let (near, wire) = entry.map_or((NO_TRANSFER, None), |e| (e.receiver.near(), Some(e.wire)));
        let connection = native::connection_id(datagram);
        match FromSender::decode(datagram, near) {
            Ok(packet @ FromSender::Syn(_)) => Some(packet),
            Ok(packet) if wire.is_some_and(|wire| wire.connection_id() == connection) => Some(packet),
            Ok(packet) => {
                self.stats.no_connection += 1;
                if let (None, Some(connection_id), Some(packet_number)) =
                    (wire, connection, packet.packet_number())
                {
                    self.reset(now, peer, connection_id, packet_number);
                }
                None
            }
            Err(_) => {
                self.stats.malformed += 1;
                self.answer_versions(peer, datagram);
                None
            }
        }
    }

    /// Answers a SYN of a version that the socket does not take with the list of those that it
    /// takes. The answer is shorter than the SYN.
    fn answer_versions(&mut self, peer: P, datagram: &[u8]) {
        let versions = self.config.versions;
        if let Some(connection_id) = native::other_version(versions, datagram) {
            let queued = self.stateless.push(peer, connection_id, Stateless::Versions(versions));
            self.stats.other_versions += u64::from(queued);
        }
    }

    /// Sets the versions that the socket takes
    /// ([`ListenerConfig::versions`](super::ListenerConfig::versions)).
    pub fn set_versions(&mut self, versions: Versions) {
        self.config.versions = versions;
    }

    /// Delivers an inspected packet to its receiver, if that still exists.
    pub fn deliver(&mut self, now: Instant, peer: P, ecn: Ecn, packet: &FromSender<'_>) {
        match self.peers.get_mut(&peer).map(|entry| entry.wire.connection_id()) {
            Some(connection) => self.deliver_latest(now, peer, connection, ecn, packet),
            None => self.stats.no_connection += 1,
        }
    }

    /// Delivers a packet of `connection` to the peer looked up last. The receiver may still be at
    /// the previous transfer, if the SYN was lost or reordered; then the packet is dropped.
    pub(super) fn deliver_latest(
        &mut self,
        now: Instant,
        peer: P,
        connection: Option<u64>,
        ecn: Ecn,
        packet: &FromSender<'_>,
    ) {
        let Some(entry) = self.peers.latest_mut() else { return };
        if !matches!(packet, FromSender::Syn(_)) && entry.receiver.connection_id() != connection {
            self.stats.no_connection += 1;
            return;
        }
        if matches!(packet, FromSender::Close(_)) {
            return self.close(peer);
        }
        entry.last_active = now;
        match packet {
            FromSender::Data(_) => {
                entry.claim_on_data(now, &mut self.budget);
                self.stateless.limit().on_data(now);
            }
            FromSender::Syn(open) => {
                entry.on_syn(open, self.config.receiver.faithful);
                entry.set_share(&self.budget);
            }
            _ => entry.set_share(&self.budget),
        }
        let (state, held) = (entry.state, entry.memory);
        let (allowance, overflow) = (self.allowance(state, held), self.overflow());
        self.with_latest(peer, |receiver| {
            receiver.set_overflow(overflow);
            receiver.handle(now, packet, ecn, allowance);
        });
        self.refuse_if_broken(peer);
    }

    /// Removes the peer looked up last if its stream does not match the checksum of its FIN.
    fn refuse_if_broken(&mut self, peer: P) {
        if self.peers.latest_mut().is_some_and(|entry| entry.receiver.is_broken()) {
            self.refuse(peer, CloseReason::Checksum);
        }
    }

    /// Delivers a datagram that was inspected when it entered an emulated link and leaves it now.
    pub fn deliver_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(entry) = self.peers.get_mut(&peer) else {
            self.stats.no_connection += 1;
            return;
        };
        match FromSender::decode(datagram, entry.receiver.near()) {
            Ok(packet) => {
                self.deliver_latest(now, peer, native::connection_id(datagram), ecn, &packet);
            }
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Delivers the leading datagrams of `bytes`, each `stride` bytes long, that carry data of the
    /// peer's transfer. Returns their bytes; the rest begins with another kind of packet.
    pub(super) fn deliver_run(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &[u8],
        stride: usize,
    ) -> usize {
        let Some(entry) = self.peers.get_mut(&peer) else { return 0 };
        let (state, held) = (entry.state, entry.memory);
        let allowance = self.allowance(state, held);
        let most = self.config.receiver.max_datagram;
        let Some(entry) = self.peers.latest_mut() else { return 0 };
        let connection = entry.wire.connection_id();
        let (mut taken, mut peak) = (0, 0);
        for datagram in bytes.chunks(stride).take_while(|datagram| datagram.len() <= most) {
            // Matched in place: moving the packet out would copy the largest variant, a SYN.
            let decoded = FromSender::decode(datagram, entry.receiver.near());
            let Ok(packet @ FromSender::Data(_)) = &decoded else { break };
            if native::connection_id(datagram) != connection || entry.receiver.connection_id() != connection {
                break;
            }
            self.stats.received += 1;
            if taken == 0 {
                entry.claim_on_data(now, &mut self.budget);
            }
            entry.receiver.handle(now, packet, ecn, allowance);
            taken += datagram.len();
            peak = peak.max(entry.receiver.memory());
            if entry.receiver.is_broken() {
                break;
            }
        }
        if taken > 0 {
            entry.last_active = now;
            self.budget.on_bytes(taken);
            self.stateless.limit().on_data(now);
            self.stats.max_memory = self.stats.max_memory.max(self.memory - held + peak);
            self.process_output(peer);
            self.refuse_if_broken(peer);
        }
        taken
    }
}
