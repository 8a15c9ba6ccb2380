//! Second half of a peer's handshake: AUTH (XX) or the first sealed packet (IK, NK) proves that the
//! initiator is there and has its keys. Only then the connection exists.

use std::time::Instant;

use rdt_crypto::{Aead, Secrets, Space};

use super::half_open::{AwaitedAuth, Candidate, HalfOpen, Stage};
use super::{AddressKey, ConnectionId, ConnectionSet, ResponderConfig};
use crate::Ecn;
use crate::connection::{
    Connection, ConnectionEnv, ConnectionEvent, Established, MIN_PROOF_INTERVAL, RefuseReason,
};
use crate::peers::Admittee;
use crate::wire::native::{Close, CloseReason, ControlHeader, Hello, close_len, encode_close, peek};

impl<P: AddressKey> ConnectionSet<P> {
    /// Handles AUTH, which has message 3.
    pub(super) fn on_auth(&mut self, now: Instant, from: P, id: u64, noise: &[u8]) {
        let Some(entry) = self.acceptor.half_open.get_mut(id) else {
            // A copy of the AUTH that opened the connection is no error.
            self.native.stats.unknown += u64::from(!self.native.connections.contains_key(&id));
            return;
        };
        let payload = match &mut entry.stage {
            Stage::Auth(awaited) if awaited.noise.is_spoiled() && !self.acceptor.rebuilds.take(now) => {
                self.native.stats.unauthentic += 1;
                return;
            }
            Stage::Auth(awaited) => awaited.noise.read_third(noise),
            Stage::Refused(_) => return self.repeat_refusal(now, from, id),
            Stage::Sealed(_) => return,
        };
        let Ok(payload) = payload else {
            self.native.stats.unauthentic += 1;
            return;
        };
        // The message is authentic. A repeated AUTH arrives later, and measures no RTT (Karn).
        let rtt = entry.rtt(now).filter(|rtt| *rtt < MIN_PROOF_INTERVAL);
        let Some(mut half_open) = self.acceptor.half_open.remove(id) else { return };
        let stage = std::mem::take(&mut half_open.stage);
        let Stage::Auth(awaited) = stage else { return };
        let AwaitedAuth { noise, aead, secret, offered_at, share } = *awaited;
        let peer = noise.peer();
        let (Ok(hello), Ok(secrets)) = (Hello::decode(&payload), noise.finish()) else {
            self.native.stats.malformed += 1;
            return;
        };
        let ids = (id, half_open.remote_id);
        let established = Established { rtt, ..Established::of_hello(ids, secrets, aead, hello, offered_at) };
        let admitted = self.acceptor.responder.as_ref().map_or(Ok(()), |responder| {
            if established.params.service != responder.service {
                return Err(RefuseReason::OtherService(responder.service));
            }
            (responder.admit)(Admittee { peer, secret, aead })
        });
        match admitted {
            Err(reason) => self.refuse(now, half_open, &established, reason),
            Ok(()) => self.complete(now, half_open, Candidate { established, peer, secret, share }),
        }
    }

    /// Handles a sealed packet for a half-open connection.
    pub(super) fn on_first_sealed(&mut self, now: Instant, from: P, ecn: Ecn, id: u64, datagram: &mut [u8]) {
        let Some(entry) = self.acceptor.half_open.get_mut(id) else { return };
        match &entry.stage {
            // It overtook the AUTH. Its sender repeats both.
            Stage::Auth(_) => return,
            Stage::Refused(_) => return self.repeat_refusal(now, from, id),
            Stage::Sealed(candidate) => {
                let Established { secrets, aead, .. } = &candidate.established;
                if !is_authentic(secrets, *aead, datagram, &mut self.native.scratch) {
                    self.native.stats.unauthentic += 1;
                    return;
                }
            }
        }
        // Control packet 0 is the first probe of the proof, which leaves at once. A packet with
        // another number may be its repetition, which measures no RTT (Karn), or later data.
        let is_first = peek(datagram).is_some_and(|head| head.space() == Space::Control && head.number == 0);
        let rtt = entry.rtt(now).filter(|_| is_first);
        let Some(mut half_open) = self.acceptor.half_open.remove(id) else { return };
        let stage = std::mem::take(&mut half_open.stage);
        let Stage::Sealed(mut candidate) = stage else { return };
        candidate.established.rtt = rtt;
        self.complete(now, half_open, *candidate);
        let len = datagram.len();
        self.deliver_run(now, from, ecn, datagram, len);
    }

    /// Opens the connection of an initiator with proved keys, if its secret and a slot are free.
    fn complete(&mut self, now: Instant, half_open: HalfOpen<P>, candidate: Candidate) {
        let Some(responder) = self.acceptor.responder.clone() else { return };
        let Candidate { established, peer, secret, .. } = &candidate;
        let address = half_open.peer;
        if !self.make_slot_for(now, &address) {
            return self.refuse(now, half_open, established, RefuseReason::Busy);
        }
        if secret.is_some_and(|id| !responder.secrets.complete(id, *peer)) {
            return self.refuse(now, half_open, established, RefuseReason::Secret);
        }
        let association = self.grant(now, address, &candidate);
        // A full table forgets digests whose cookies are valid. A replay of such a SYN gets no
        // further than a half-open connection, because the responder's part of the keys is new.
        self.acceptor.opened.insert(now, half_open.syn);
        self.accept(now, &responder, address, candidate, association);
    }

    /// Opens the connection of a peer that has proved its keys and address.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        responder: &ResponderConfig,
        address: P,
        Candidate { established, peer, secret, share }: Candidate,
        association: Option<u64>,
    ) {
        let id = established.local_id;
        let reset = self.resets.key.token(id);
        let skip_seed = u64::from_le_bytes(self.entropy.array());
        let (known, memory) = (self.path_of_new(now, &address), self.native.pools.clone());
        let env = ConnectionEnv { local_id: id, reset, share, memory, known, skip_seed };
        let accepted = Connection::accepted(now, &responder.config, established, (peer, secret), env);
        let Ok(connection) = accepted else {
            self.native.stats.refused += 1;
            return;
        };
        self.native.stats.accepted += 1;
        let connected = ConnectionEvent::Connected { peer, resumption: None };
        self.native.events.push_back((ConnectionId(id), connected));
        let slot = self.slots.take(self.config.source_of(&address));
        self.insert(id, address, connection, slot, association);
    }

    /// Refuses an initiator with proved keys by a CLOSE, which the table keeps to repeat it.
    fn refuse(
        &mut self,
        now: Instant,
        half_open: HalfOpen<P>,
        established: &Established,
        reason: RefuseReason,
    ) {
        self.native.stats.refused += 1;
        let close = refusal(established, reason);
        let HalfOpen { peer, remote_id, syn, second, .. } = half_open;
        // Its keys prove its address.
        let entry = HalfOpen::new(now, (peer, remote_id, syn), true, second.into(), Stage::Refused(close));
        let source = self.config.source_of(&peer);
        self.acceptor.half_open.insert(established.local_id, source, entry);
        self.repeat_refusal(now, peer, established.local_id);
    }

    /// Answers a packet of an initiator that was refused.
    fn repeat_refusal(&mut self, now: Instant, from: P, id: u64) {
        let Some(entry) = self.acceptor.half_open.get_mut(id).filter(|entry| entry.peer == from) else {
            return;
        };
        let is_due = entry.on_answer(now);
        if let Stage::Refused(close) = &entry.stage
            && !close.is_empty()
            && is_due
        {
            self.answers.push(from, true, close.len(), |out| out.copy_from_slice(close));
        }
    }
}

/// Returns a sealed CLOSE, the only packet under the keys of a refused connection.
fn refusal(established: &Established, reason: RefuseReason) -> Box<[u8]> {
    let header = ControlHeader { connection_id: established.remote_id, phase: 0, number: 0 };
    let close = Close { reason: CloseReason::from_code(reason.code()), code: 0, text: "" };
    let mut packet = vec![0; close_len(close.text)].into_boxed_slice();
    encode_close(&header, &close, &mut packet);
    let key = established.secrets.from_responder.packet_key(established.aead);
    key.seal(Space::Control, header.number, &mut packet);
    packet
}

/// True if the initiator sealed the packet. It is opened as a copy, because opening a forged packet
/// overwrites it, and the connection opens it again.
fn is_authentic(secrets: &Secrets, aead: Aead, datagram: &[u8], scratch: &mut Vec<u8>) -> bool {
    let Some(header) = peek(datagram).filter(|header| header.phase() == 0) else { return false };
    scratch.clear();
    scratch.extend_from_slice(datagram);
    let key = secrets.from_initiator.packet_key(aead);
    key.open(header.space(), header.number.into(), scratch).is_ok()
}
