//! Incoming datagrams: decoding and delivery to the peer's receiver. Data of one peer that arrives
//! coalesced (GRO) is delivered as a run: the peer is looked up and its limits are computed once
//! for all packets of the run.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::Listener;
use crate::Ecn;
use crate::wire::FromSender;

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Decodes a datagram without delivering it. An undeliverable one is counted. Sequence numbers
    /// of a peer without a transfer are unwrapped near 0.
    pub fn inspect<'d>(&mut self, peer: P, datagram: &'d [u8]) -> Option<FromSender<'d>> {
        self.stats.received += 1;
        if datagram.len() > self.config.receiver.max_datagram {
            self.stats.too_long += 1;
            return None;
        }
        // `get_mut` caches the slot, which saves the lookups of this peer's next datagrams.
        let near = self.peers.get_mut(&peer).map(|entry| entry.receiver.rcv_nxt());
        match FromSender::decode(datagram, near.unwrap_or(0)) {
            Ok(packet) if near.is_some() || matches!(packet, FromSender::Syn(_)) => Some(packet),
            Ok(_) => {
                self.stats.no_connection += 1;
                None
            }
            Err(_) => {
                self.stats.malformed += 1;
                None
            }
        }
    }

    /// Delivers an inspected packet to its receiver, if that still exists.
    pub fn deliver(&mut self, now: Instant, peer: P, ecn: Ecn, packet: &FromSender<'_>) {
        if self.peers.get_mut(&peer).is_some() {
            self.deliver_latest(now, peer, ecn, packet);
        } else {
            self.stats.no_connection += 1;
        }
    }

    /// Delivers a packet to the peer looked up last.
    pub(super) fn deliver_latest(&mut self, now: Instant, peer: P, ecn: Ecn, packet: &FromSender<'_>) {
        let Some(entry) = self.peers.latest_mut() else { return };
        entry.last_active = now;
        if matches!(packet, FromSender::Data(_)) {
            entry.claim_on_data(now, &mut self.budget);
        } else {
            entry.set_share(&self.budget);
        }
        if matches!(packet, FromSender::Syn(_)) {
            entry.on_syn(self.config.receiver.faithful);
        }
        let (is_half_open, held) = (entry.is_half_open, entry.memory);
        let allowance = self.allowance(is_half_open, held);
        self.with_latest(peer, |receiver| receiver.handle(now, packet, ecn, allowance));
    }

    /// Delivers a datagram that was inspected when it entered an emulated link and leaves it now.
    pub fn deliver_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(entry) = self.peers.get_mut(&peer) else {
            self.stats.no_connection += 1;
            return;
        };
        match FromSender::decode(datagram, entry.receiver.rcv_nxt()) {
            Ok(packet) => self.deliver_latest(now, peer, ecn, &packet),
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
        let (is_half_open, held) = (entry.is_half_open, entry.memory);
        let allowance = self.allowance(is_half_open, held);
        let most = self.config.receiver.max_datagram;
        let Some(entry) = self.peers.latest_mut() else { return 0 };
        let (mut taken, mut peak) = (0, 0);
        for datagram in bytes.chunks(stride).take_while(|datagram| datagram.len() <= most) {
            let decoded = FromSender::decode(datagram, entry.receiver.rcv_nxt());
            let Ok(packet @ FromSender::Data(_)) = &decoded else { break };
            self.stats.received += 1;
            if taken == 0 {
                entry.claim_on_data(now, &mut self.budget);
            }
            entry.receiver.handle(now, packet, ecn, allowance);
            taken += datagram.len();
            peak = peak.max(entry.receiver.memory());
        }
        if taken > 0 {
            entry.last_active = now;
            self.budget.on_bytes(taken);
            self.stats.max_memory = self.stats.max_memory.max(self.memory - held + peak);
            self.process_output(peer);
        }
        taken
    }
}
