//! Associations: pairs of sides that completed a handshake, and open further connections without
//! one (`docs/PROTOCOL.md`, N6). The side that opened the first connection opens the others.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, AssociationSecret, PublicKey, Received, ReplayWindow, ResetToken, SecretId};

use super::granted::{Granted, LIFETIME};
use super::half_open::Candidate;
use super::{AddressKey, ConnectionSet, ResponderConfig};
use crate::connection::{
    Associated, ConnectionConfig, Established, InitiatorConfig, REFUSED_OPEN, RefuseReason, Within,
};
use crate::peers::Admittee;
use crate::sender::earlier;
use crate::wire::native::{Hello, Open, REFUSE_LEN, encode_refuse};

/// Largest number of connections of an association.
const MAX_CONNECTIONS: u64 = 1 << 16;
/// Bytes in all connections, both directions, after which the initiator stops using an association.
const MAX_BYTES: u64 = 1 << 38;
/// Largest number of associations that a side keeps as initiator: 0.5 MiB.
const MAX_HELD: usize = 1024;

/// Association of the initiator.
#[derive(Debug)]
struct Held<P> {
    peer: P,
    shared: Option<SecretId>,
    associated: Box<Associated>,
    /// Number of the next connection.
    next: u64,
    /// Connections that have not ended.
    open: u64,
    /// Bytes of the connections that have ended.
    bytes: u64,
}

/// Associations in which this side opens connections, the newest last.
#[derive(Debug)]
pub(super) struct HeldTable<P>(Vec<(u64, Held<P>)>);

impl<P> Default for HeldTable<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P: PartialEq> HeldTable<P> {
    /// Adds an association instead of an earlier one with the same keys. Returns its identifier.
    pub(super) fn insert(&mut self, peer: P, shared: Option<SecretId>, associated: Box<Associated>) -> u64 {
        let is_same = |held: &Held<P>| {
            held.peer == peer
                && held.shared == shared
                && held.associated.peer == associated.peer
                && held.associated.own_key == associated.own_key
        };
        self.0.retain(|(_, held)| !is_same(held));
        if self.0.len() >= MAX_HELD {
            self.0.remove(0);
        }
        let id = associated.secret.id();
        self.0.push((id, Held { peer, shared, associated, next: 0, open: 1, bytes: 0 }));
        id
    }

    /// Returns the identifier of the association for a connection to this peer with these keys.
    pub(super) fn find(
        &mut self,
        now: Instant,
        peer: &P,
        keys: &InitiatorConfig,
        config: &ConnectionConfig,
    ) -> Option<u64> {
        self.expire(now);
        let own_key = keys.local.as_ref().map(|key| key.public());
        let shared = keys.secret.as_ref().map(|secret| secret.id());
        let is_trusted = |key: &PublicKey| match (&keys.remote, &keys.trust) {
            (Some(remote), _) => remote == key,
            (None, trust) => trust.as_ref().is_none_or(|trust| trust(key)),
        };
        let is_for = |held: &Held<P>| {
            held.peer == *peer
                && held.shared == shared
                && held.associated.own_key == own_key
                && held.associated.allows(config, keys.service)
                && is_trusted(&held.associated.peer)
        };
        self.0.iter().rev().find(|(_, held)| is_for(held)).map(|(id, _)| *id)
    }

    /// Removes associations that are too old or have carried too much.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|(_, held)| {
            let age = now.saturating_duration_since(held.associated.made_at);
            age < LIFETIME && held.next < MAX_CONNECTIONS && held.bytes < MAX_BYTES
        });
    }

    /// Returns the time at which the oldest association expires.
    fn deadline(&self) -> Option<Instant> {
        self.0.first().map(|(_, held)| held.associated.made_at + LIFETIME)
    }

    /// Returns the next connection of an association.
    ///
    /// The responder divides its socket's buffer among all connections, and drops what it did not
    /// offer. So beside open connections the window is a part of the one that it offered to the
    /// first connection: half, because silent connections may reserve the other half, and of that
    /// an equal share.
    pub(super) fn next(&mut self, id: u64, rtt: Option<Duration>) -> Option<Within<'_>> {
        let (_, held) = self.0.iter_mut().find(|(held, _)| *held == id)?;
        let number = held.next;
        held.next += 1;
        held.open += 1;
        let shares = if held.open == 1 { 1 } else { 2 * held.open };
        let window = held.associated.window / shares;
        Some(Within { association: &held.associated, number, window, rtt })
    }

    /// Removes an association that the responder does not know.
    pub(super) fn remove(&mut self, id: u64) {
        self.0.retain(|(held, _)| *held != id);
    }

    pub(super) fn on_ended(&mut self, id: u64) {
        if let Some((_, held)) = self.0.iter_mut().find(|(held, _)| *held == id) {
            held.open = held.open.saturating_sub(1);
        }
    }

    /// Counts the bytes of a connection that has ended.
    pub(super) fn add_bytes(&mut self, id: u64, bytes: u64) {
        if let Some((_, held)) = self.0.iter_mut().find(|(held, _)| *held == id) {
            held.bytes = held.bytes.saturating_add(bytes);
        }
    }
}

/// Result of judging an OPEN.
enum Verdict {
    /// Opens a connection.
    New,
    /// Its connection is open.
    Repeated,
    Refused,
}

impl<P: AddressKey> ConnectionSet<P> {
    /// Accounts for `time` in which this host was suspended and its clock stood still. Associations
    /// end, because their ages are not known, and OPENs without an answer are older by this time.
    pub fn on_suspended(&mut self, time: Duration) {
        self.native.held.0.clear();
        self.acceptor.associations.clear();
        for id in &self.native.opening {
            if let Some(entry) = self.native.connections.get_mut(id) {
                entry.connection.on_suspended(time);
            }
        }
    }

    /// Returns the time at which the next association expires.
    pub(super) fn association_deadline(&self) -> Option<Instant> {
        earlier(self.native.held.deadline(), self.acceptor.associations.deadline())
    }

    /// Removes the associations that have expired, so that their secrets do not stay.
    pub(super) fn expire_associations(&mut self, now: Instant) {
        self.native.held.expire(now);
        self.acceptor.associations.expire(now);
    }

    /// Keeps the association of a connection that a peer opened by a handshake.
    pub(super) fn grant(
        &mut self,
        now: Instant,
        address: P,
        &Candidate { ref established, peer, secret: shared, .. }: &Candidate,
    ) -> Option<u64> {
        if !established.aead.is_encrypted() || !self.acceptor.associations.is_enabled() {
            return None;
        }
        let secret = AssociationSecret::of(&established.secrets);
        let id = secret.id();
        let granted = Granted {
            secret,
            aead: established.aead,
            source: self.config.source_of(&address),
            address,
            peer,
            shared,
            made_at: now,
            used_at: now,
            used: ReplayWindow::new(),
            given_up: BTreeSet::new(),
        };
        self.acceptor.associations.insert(id, granted);
        Some(id)
    }

    /// Returns the number by which peers tell this side from others with its identity; not 0.
    pub(super) fn association_scope(&self) -> u32 {
        let scope = self.config.reset_scope.to_le_bytes();
        let [low, high] = [0, 4].map(|at| u32::from_le_bytes(std::array::from_fn(|i| scope[at + i])));
        (low ^ high).max(1)
    }

    pub(super) fn on_open(&mut self, now: Instant, from: P, remote_id: u64, open: &Open<'_>) {
        self.native.stats.opens += 1;
        let Some(responder) = self.acceptor.responder.clone() else { return };
        let Some(granted) = self.acceptor.associations.get_mut(now, open.association) else {
            return self.refuse_open(from, remote_id);
        };
        let key = granted.secret.open(open.number).packet_key(granted.aead);
        let Ok(hello) = open.open_hello(remote_id, &key) else {
            self.native.stats.unauthentic += 1;
            return;
        };
        let id = granted.secret.connection(open.number).responder_id;
        if hello.params.service != responder.service {
            return self.refuse_open(from, remote_id);
        }
        match self.judge_open(now, &responder, (from, remote_id), open, id) {
            Verdict::New => self.accept_open(now, &responder, (from, remote_id), open, hello),
            Verdict::Repeated => {
                self.native.stats.replayed += 1;
                let token = self.token_of_opened(id);
                if let Some(entry) = self.native.connections.get_mut(&id)
                    && self.resets.limit.take(now)
                {
                    entry.connection.acknowledge_open(token);
                    self.process_output(id);
                }
            }
            Verdict::Refused => self.refuse_open(from, remote_id),
        }
    }

    /// Judges an authentic OPEN, whose connection has this ID.
    fn judge_open(
        &mut self,
        now: Instant,
        responder: &ResponderConfig,
        (from, remote_id): (P, u64),
        open: &Open<'_>,
        id: u64,
    ) -> Verdict {
        let open_with = self.native.connections.get(&id).map(|entry| entry.connection.remote_id());
        let Some(granted) = self.acceptor.associations.get_mut(now, open.association) else {
            return Verdict::Refused;
        };
        if granted.used.check(open.number) != Received::New {
            return if open_with == Some(Some(remote_id)) { Verdict::Repeated } else { Verdict::Refused };
        }
        let &mut Granted { aead, address, peer, shared, .. } = granted;
        // An address that the initiator has not proved could be another host's.
        let is_same_host = match self.config.ip_of {
            Some(ip_of) => ip_of(&address) == ip_of(&from),
            None => address == from,
        };
        let admitted = (responder.admit)(Admittee { peer, secret: shared, aead });
        let has_secret = shared.is_none_or(|shared| responder.secrets.psk(shared).is_some());
        let is_admitted = admitted.is_ok() && has_secret;
        if !is_admitted && admitted != Err(RefuseReason::Busy) {
            self.acceptor.associations.remove(open.association);
        }
        let is_free = open_with.is_none() && !self.acceptor.half_open.contains(id);
        let is_allowed = is_same_host && is_admitted && is_free && self.make_slot_for(now, &from);
        // Last, because it may use the secret up.
        let is_known = is_allowed && shared.is_none_or(|shared| responder.secrets.complete(shared, peer));
        if is_known { Verdict::New } else { Verdict::Refused }
    }

    fn accept_open(
        &mut self,
        now: Instant,
        responder: &ResponderConfig,
        (from, remote_id): (P, u64),
        open: &Open<'_>,
        hello: Hello,
    ) {
        let host = self.config.ip_of.map(|ip_of| ip_of(&from));
        let rtt = host.and_then(|host| self.native.known_paths.get(now, host)).map(|known| known.rtt);
        let Some(granted) = self.acceptor.associations.get_mut(now, open.association) else { return };
        granted.used.enter(open.number);
        let derived = granted.secret.connection(open.number);
        let (id, peer, secret) = (derived.responder_id, granted.peer, granted.shared);
        let established = Established::of_hello((id, remote_id), derived.secrets, granted.aead, hello, now);
        let established = Established { rtt, is_remembered: true, ..established };
        self.acceptor.associations.touch(now, open.association);
        let share = self.memory.budget.share_of_new();
        let candidate = Candidate { established, peer, secret, share };
        self.accept(now, responder, from, candidate, Some(open.association));
        let token = self.token_of_opened(id);
        self.resets.is_key_used = true;
        if let Some(entry) = self.native.connections.get_mut(&id) {
            self.native.stats.opened += 1;
            entry.connection.acknowledge_open(token);
            self.process_output(id);
        }
    }

    /// Returns the token of RESETs for an OPEN-ACK. If data overtook the OPEN, a RESET has told the
    /// true one to everyone on the path, so the connection gets one that no RESET has.
    fn token_of_opened(&mut self, id: u64) -> ResetToken {
        let token = self.resets.key.token(id);
        if self.resets.told.contains(&id) { token.of_half_open() } else { token }
    }

    /// Refuses an OPEN: a handshake follows.
    fn refuse_open(&mut self, from: P, remote_id: u64) {
        self.native.stats.opens_refused += 1;
        self.answers.push(from, false, REFUSE_LEN, |out| encode_refuse(remote_id, REFUSED_OPEN, out));
    }

    /// Returns `aead` unless the handshake replaces an OPEN that may have opened a connection.
    pub(super) fn may_replace_open(
        &mut self,
        now: Instant,
        hello: &Hello,
        aead: Aead,
    ) -> Result<Aead, RefuseReason> {
        let scope = self.association_scope();
        match &hello.instead {
            Some(instead) if !self.acceptor.associations.give_up(now, scope, instead) => {
                Err(RefuseReason::Other(REFUSED_OPEN))
            }
            _ => Ok(aead),
        }
    }
}
