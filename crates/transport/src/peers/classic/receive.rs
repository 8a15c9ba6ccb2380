//! Incoming datagrams: decoding and delivery to the peer's receiver. Coalesced data of one peer
//! (GRO) is a run, for which the peer is looked up and its limits are computed once.

use std::time::Instant;

use super::{Admission, Entry};
use crate::Ecn;
use crate::peers::{AddressKey, ConnectionSet};
use crate::wire::FromSender;

impl<P: AddressKey> ConnectionSet<P> {
    /// Decodes a classic datagram without delivering it. An undeliverable one is counted. Sequence
    /// numbers of a peer without a transfer are unwrapped near 0.
    pub fn inspect_classic<'d>(&mut self, peer: P, datagram: &'d [u8]) -> Option<FromSender<'d>> {
        let classic = &mut self.classic;
        classic.stats.received += 1;
        if datagram.len() > classic.max_datagram() {
            classic.stats.too_long += 1;
            return None;
        }
        // `get_mut` caches the slot, which saves the lookups of this peer's next datagrams.
        let near = classic.table.get_mut(&peer).map(|entry| entry.receiver.rcv_nxt());
        match FromSender::decode(datagram, near.unwrap_or(0)) {
            Ok(packet) if near.is_some() || matches!(packet, FromSender::Syn(_)) => Some(packet),
            Ok(_) => {
                classic.stats.no_connection += 1;
                None
            }
            Err(_) => {
                classic.stats.malformed += 1;
                None
            }
        }
    }

    /// Delivers an inspected packet to its receiver, if that still exists.
    pub fn deliver_classic(&mut self, now: Instant, peer: P, ecn: Ecn, packet: &FromSender<'_>) {
        if self.classic.table.get_mut(&peer).is_some() {
            self.deliver_latest(now, peer, ecn, packet);
        } else {
            self.classic.stats.no_connection += 1;
        }
    }

    /// Delivers a datagram that was inspected when it entered an emulated link and leaves it now.
    pub fn deliver_classic_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(entry) = self.classic.table.get_mut(&peer) else {
            self.classic.stats.no_connection += 1;
            return;
        };
        match FromSender::decode(datagram, entry.receiver.rcv_nxt()) {
            Ok(packet) => self.deliver_latest(now, peer, ecn, &packet),
            Err(_) => self.classic.stats.malformed += 1,
        }
    }

    /// Handles a classic datagram. A SYN of a new peer adds it.
    pub(in crate::peers) fn handle_classic(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(packet) = self.inspect_classic(peer, datagram) else { return };
        let is_known = !matches!(packet, FromSender::Syn(_));
        if is_known || self.admit_classic(now, peer) != Admission::Refused {
            self.deliver_classic(now, peer, ecn, &packet);
        }
    }

    fn deliver_latest(&mut self, now: Instant, peer: P, ecn: Ecn, packet: &FromSender<'_>) {
        let is_faithful = self.classic.is_faithful();
        let Some(entry) = self.classic.table.latest_mut() else { return };
        entry.last_active = now;
        let share = if matches!(packet, FromSender::Data(_)) {
            if !entry.is_half_open {
                self.answers.limit.on_data(now);
            }
            self.memory.share_on_data(now, &mut entry.account)
        } else {
            self.memory.share(&entry.account)
        };
        entry.set_share(share);
        if matches!(packet, FromSender::Syn(_)) {
            entry.on_syn(is_faithful);
        }
        let allowance = self.latest_allowance();
        let Some(entry) = self.classic.table.latest_mut() else { return };
        entry.receiver.handle(now, packet, ecn, allowance);
        self.process_classic(peer);
    }

    fn latest_allowance(&mut self) -> u64 {
        let Some(Entry { account, is_half_open, .. }) = self.classic.table.latest_mut() else { return 0 };
        let most = self.memory.allowance(account.memory);
        if *is_half_open { most.min(self.classic.half_open.allowance(account.memory)) } else { most }
    }

    /// Delivers the leading datagrams of `bytes`, each `stride` bytes long, that carry data of the
    /// peer's transfer. Returns their bytes; the rest begins with another kind of packet.
    pub(in crate::peers) fn deliver_classic_run(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &[u8],
        stride: usize,
    ) -> usize {
        if self.classic.table.get_mut(&peer).is_none() {
            return 0;
        }
        let (allowance, most) = (self.latest_allowance(), self.classic.max_datagram());
        let Some(entry) = self.classic.table.latest_mut() else { return 0 };
        let (held, mut taken, mut peak) = (entry.account.memory, 0, 0);
        for datagram in bytes.chunks(stride).take_while(|datagram| datagram.len() <= most) {
            let decoded = FromSender::decode(datagram, entry.receiver.rcv_nxt());
            let Ok(packet @ FromSender::Data(_)) = &decoded else { break };
            self.classic.stats.received += 1;
            if taken == 0 {
                let share = self.memory.share_on_data(now, &mut entry.account);
                entry.set_share(share);
            }
            entry.receiver.handle(now, packet, ecn, allowance);
            taken += datagram.len();
            peak = peak.max(entry.receiver.memory());
        }
        if taken > 0 {
            entry.last_active = now;
            if !entry.is_half_open {
                self.answers.limit.on_data(now);
            }
            self.memory.budget.on_bytes(taken);
            self.memory.max = self.memory.max.max(self.memory.total - held + peak);
            self.process_classic(peer);
        }
        taken
    }
}
