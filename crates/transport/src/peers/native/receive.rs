//! Incoming datagrams: delivery by connection ID. Coalesced sealed packets of one connection (GRO)
//! are a run, for which the connection is looked up and its limits are computed once.
//!
//! Stateless resets: a packet of an unknown connection is answered by a RESET, so that its sender
//! fails at once after this side restarted. A RESET proves itself by a token that its receiver
//! learned in the handshake.

use std::time::Instant;

use rdt_crypto::Space;

use super::{AddressKey, ConnectionSet};
use crate::connection::Connection;
use crate::wire::native::{
    Clear, DATA_HEADER, FIN_LEN, RESET_LEN, TAG, VERSIONS_LEN, Versions, connection_id, encode_reset,
    encode_versions, other_version, peek,
};
use crate::{Ecn, PacketKind};

/// Largest number of connections whose peers chose the same ID and that are searched for the token.
const MAX_SEARCHED: usize = 8;

impl<P: AddressKey> ConnectionSet<P> {
    /// Delivers the leading datagrams of `bytes`, each `stride` bytes long, that are sealed, of one
    /// kind, and belong to the same connection. Returns their bytes.
    pub(in crate::peers) fn deliver_run(
        &mut self,
        now: Instant,
        from: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        let Some(first) = peek(&bytes[..stride.min(bytes.len())]) else { return 0 };
        let (id, is_data) = (first.connection_id, first.kind == PacketKind::Data);
        let overflow = self.overflow();
        let Some(entry) = self.native.connections.get_mut(&id) else { return 0 };
        let allowance = self.memory.allowance(entry.account.memory);
        entry.connection.set_overflow(overflow);
        if is_data {
            if let Some(share) = self.memory.share_on_data(now, &mut entry.account) {
                entry.connection.set_share(share);
            }
            // A keep-alive is an empty DATA packet.
            entry.is_active |= stride.min(bytes.len()) > DATA_HEADER + TAG;
        }
        let arrival = entry.connection.handle_run(now, ecn, bytes, stride, allowance);
        self.native.stats.unauthentic += arrival.unauthentic;
        if arrival.authentic > 0 {
            if from != entry.peer {
                self.on_other_address(now, id, from, &arrival);
            } else if arrival.is_newest {
                // Equal addresses may differ in the local address to which the packet was sent. The
                // own sender then has a new path, too (RFC 9000, section 9.4).
                if self.config.has_other_local_ip(&from, &entry.peer) {
                    entry.connection.on_path_changed(now);
                }
                entry.peer = from;
            }
            if is_data {
                self.memory.budget.on_bytes(arrival.authentic);
            }
            // Also for ACKs: a side that sends has no less to do than one that receives.
            self.answers.limit.on_data(now);
        }
        self.note_delivery(now, id);
        self.process_input(id);
        arrival.taken
    }

    /// Handles a datagram that is not a sealed packet of a connection.
    pub(in crate::peers) fn handle_other(&mut self, now: Instant, from: P, ecn: Ecn, datagram: &mut [u8]) {
        let Some(id) = connection_id(datagram) else { return self.on_foreign(from, datagram) };
        if let Some(header) = peek(datagram) {
            if self.acceptor.half_open.contains(id) {
                self.on_first_sealed(now, from, ecn, id, datagram);
            } else if let Some(fin_ack) = self.native.fin_acks.get(id).copied() {
                // Never in answer to a FIN-ACK: the peer may have removed the connection, too. Nor
                // to a packet shorter than a FIN, so the answer is at most a byte longer.
                if header.space() == Space::Data && datagram.len() >= FIN_LEN {
                    self.answer_unknown(now, from, &fin_ack);
                }
            } else {
                self.reset(now, from, id);
            }
            return;
        }
        match Clear::decode(datagram) {
            Ok(Clear::Syn(syn)) => self.on_syn(now, from, id, datagram, &syn),
            Ok(Clear::Open(open)) => self.on_open(now, from, id, &open),
            Ok(Clear::Auth { noise }) => self.on_auth(now, from, id, noise),
            Ok(Clear::Reset(_)) => self.on_reset(now, id, datagram),
            Ok(Clear::Retry(_) | Clear::SynAck { .. } | Clear::Refuse(_) | Clear::Versions(_)) => {
                self.on_responder_packet(now, from, id, datagram);
            }
            Err(_) => self.native.stats.malformed += 1,
        }
    }

    /// Handles a datagram of another version or format. A SYN of another version is answered by the
    /// list of those that this side speaks.
    fn on_foreign(&mut self, from: P, datagram: &[u8]) {
        match other_version(datagram).filter(|_| self.acceptor.responder.is_some()) {
            Some(id) => {
                let encode = |out: &mut [u8]| encode_versions(id, Versions::OURS, out);
                let is_queued = self.answers.push(from, false, VERSIONS_LEN, encode);
                self.native.stats.other_versions += u64::from(is_queued);
            }
            None => self.native.stats.malformed += 1,
        }
    }

    /// Delivers a handshake packet to the connection that this side opened to the packet's source.
    fn on_responder_packet(&mut self, now: Instant, from: P, id: u64, datagram: &[u8]) {
        let Some(entry) = self.native.connections.get_mut(&id).filter(|entry| entry.peer == from) else {
            self.native.stats.unknown += 1;
            return;
        };
        let was_opening = entry.connection.is_opening();
        entry.connection.handle_clear(now, datagram);
        match (was_opening, entry.connection.is_opening()) {
            (true, false) => self.remember_path(now, id),
            // The OPEN was refused.
            (false, true) => {
                if let Some(association) = entry.association.take() {
                    self.native.held.remove(association);
                }
                self.native.opening.insert(id);
            }
            _ => {}
        }
        self.process_output(id);
    }

    /// Answers a sealed packet with the unknown ID `id`.
    pub(super) fn reset(&mut self, now: Instant, peer: P, id: u64) {
        self.native.stats.unknown += 1;
        let mut reset = [0; RESET_LEN];
        let token = self.resets.key.token(id);
        // Nothing of the connection can have arrived, so its initiator may start again.
        let is_forgotten = self.acceptor.responder.is_some() && self.acceptor.half_open.has_forgotten(id);
        encode_reset(id, &if is_forgotten { token.of_half_open() } else { token }, &mut reset);
        let is_sent = self.answer_unknown(now, peer, &reset);
        self.native.stats.resets_sent += u64::from(is_sent);
        if is_sent {
            self.resets.on_told(id);
        }
    }

    /// Answers a sealed packet that no connection takes. Packets that arrive together get one
    /// answer. Returns true if it is queued.
    fn answer_unknown(&mut self, now: Instant, peer: P, answer: &[u8]) -> bool {
        !self.answers.ends_with(peer, answer)
            && self.resets.limit.take(now)
            && self.answers.push(peer, false, answer.len(), |out| out.copy_from_slice(answer))
    }

    /// Handles a RESET: `remote_id` is an ID that the peer does not know.
    pub(super) fn on_reset(&mut self, now: Instant, remote_id: u64, datagram: &[u8]) {
        let with_id = self.native.by_remote.range((remote_id, 0)..=(remote_id, u64::MAX));
        let candidates: Vec<u64> = with_id.map(|(_, id)| *id).take(MAX_SEARCHED).collect();
        for id in candidates {
            let Some(entry) = self.native.connections.get_mut(&id) else { continue };
            let is_reset =
                |connection: &Connection| connection.closed().is_some() || connection.is_reopening();
            let was_reset = is_reset(&entry.connection);
            entry.connection.handle_clear(now, datagram);
            if !was_reset && is_reset(&entry.connection) {
                if entry.connection.is_reopening() {
                    self.native.opening.insert(id);
                }
                self.native.stats.resets_received += 1;
                return self.process_output(id);
            }
        }
        self.native.stats.unauthentic += 1;
    }
}
