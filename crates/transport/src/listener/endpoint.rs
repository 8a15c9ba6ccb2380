//! A listener's face towards whoever drives it: datagrams and time in, batches of replies and events out.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::{Admission, Listener};
use crate::wire::Packet;
use crate::{Ecn, Endpoint, ReceiverEvent, TransmitBuf};

impl<P: Copy + Ord + Debug + Hash> Endpoint for Listener<P> {
    type Peer = P;
    type Event = (P, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(packet) = self.inspect(now, peer, datagram) else { return };
        let Packet::Syn(open) = packet else {
            // Inspecting it found its peer.
            let connection = self.peers.latest_mut().and_then(|entry| entry.wire.connection_id());
            return self.deliver_latest(now, peer, connection, ecn, &packet);
        };
        if matches!(self.admit(now, peer, &open), Admission::New | Admission::Known) {
            self.deliver(now, peer, ecn, &packet);
        }
    }

    fn handle_datagrams(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &[u8], stride: usize) -> usize {
        if bytes.is_empty() {
            self.handle_datagram(now, peer, ecn, bytes);
            return 1;
        }
        let stride = stride.max(1);
        let mut rest = bytes;
        loop {
            rest = self.take_run(now, peer, ecn, rest, stride);
            if rest.is_empty() {
                return bytes.len().div_ceil(stride);
            }
            let (datagram, others) = rest.split_at(stride.min(rest.len()));
            self.handle_datagram(now, peer, ecn, datagram);
            rest = others;
        }
    }

    fn handle_overflow(&mut self, messages: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "counted modulo 2^32, as ACKs tell it")]
        let messages = messages as u32;
        self.overflow = self.overflow.wrapping_add(messages);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        while let Some(&(deadline, peer)) = self.idle.first()
            && deadline <= now
        {
            self.idle.pop_first();
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            let (last_active, wire) = (entry.last_active, entry.wire);
            let deadline = last_active + self.idle_limit(wire);
            if deadline <= now {
                self.close(peer);
            } else {
                if let Some(entry) = self.peers.get_mut(&peer) {
                    entry.idle_at = deadline;
                }
                self.idle.insert((deadline, peer));
            }
        }
        while let Some(&(due, peer)) = self.timers.first()
            && due <= now
        {
            self.timers.pop_first();
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            entry.timer = entry.receiver.deadline().filter(|deadline| *deadline > now);
            if let Some(deadline) = entry.timer {
                self.timers.insert((deadline, peer));
            }
            if entry.receiver.may_reply(now) && !entry.queued {
                entry.queued = true;
                self.ready.push_back(peer);
            }
        }
        self.set_deadline();
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        self.fill(now, out)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn poll_event(&mut self) -> Option<(P, ReceiverEvent)> {
        self.events.pop_front()
    }
}
