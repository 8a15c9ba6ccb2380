//! Runs of data that arrive together from one peer, the usual case: what is done once for a peer, and not for each of
//! its packets, is done once for all of them.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::Listener;
use crate::Ecn;
use crate::wire::Packet;

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Takes the datagrams of `stride` bytes that `bytes` begins with as long as they are data of the transfer of
    /// `peer`; gives the rest, in which something else comes first.
    pub(super) fn take_run<'d>(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &'d [u8],
        stride: usize,
    ) -> &'d [u8] {
        let Some(held) = self.peers.get_mut(&peer).map(|entry| entry.memory) else { return bytes };
        let allowance = self.allowance(held);
        let most = self.config.receiver.max_datagram;
        let Some(entry) = self.peers.latest_mut() else { return bytes };
        let connection = entry.wire.connection_id();
        let (mut taken, mut peak) = (0, 0);
        for datagram in bytes.chunks(stride).take_while(|datagram| datagram.len() <= most) {
            // Looked at where it is: what opens a transfer is large, and so is what can hold it.
            let decoded = Packet::decode(datagram, entry.receiver.near());
            let Ok((of, packet @ Packet::Data(_))) = &decoded else { break };
            if *of != connection || entry.receiver.connection_id() != connection {
                break;
            }
            self.stats.received += 1;
            if taken == 0 {
                entry.claim_on_data(now, &mut self.shares);
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
            self.shares.on_bytes(taken);
            self.stats.max_memory = self.stats.max_memory.max(self.memory - held + peak);
            self.take_over(peer);
            self.refuse_if_broken(peer);
        }
        &bytes[taken..]
    }
}
