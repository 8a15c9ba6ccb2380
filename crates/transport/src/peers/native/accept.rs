//! First half of a peer's handshake: from its SYN to the SYN-ACK. A peer that has not proved its
//! address gets one only while [`RetryPolicy`](super::retry::RetryPolicy) allows it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use rdt_crypto::{Aead, Keys, Pattern, Responder, SecretId};
use sha2::{Digest, Sha256};

use super::half_open::{AwaitedAuth, Candidate, HalfOpen, OwnId, Stage};
use super::{Acceptor, AddressKey, ConnectionSet, ResponderConfig};
use crate::connection::{Established, RefuseReason, choose_aead, params_of};
use crate::peers::Admittee;
use crate::peers::answers::Answers;
use crate::receiver::{BufferShare, Offer};
use crate::wire::native::{
    Hello, Params, Proof, REFUSE_LEN, RETRY_LEN, Reply, SYN_MIN, Syn, Versions, Welcome, encode_refuse,
    encode_retry, encode_syn_ack, prologue, syn_ack_len,
};

/// SYN of an initiator, to be answered.
struct AdmittedSyn<'a, P> {
    peer: P,
    /// Connection ID of the initiator.
    remote_id: u64,
    packet: &'a [u8; SYN_MIN],
    syn: &'a Syn<'a>,
}

/// Message 2, and what is expected next. Without a message 2, message 1 was invalid.
#[derive(Default)]
struct Answered {
    second: Vec<u8>,
    stage: Stage,
}

impl<P: AddressKey> ConnectionSet<P> {
    pub(super) fn on_syn(&mut self, now: Instant, peer: P, remote_id: u64, datagram: &[u8], syn: &Syn<'_>) {
        self.native.stats.syns += 1;
        let Some(packet) = datagram.first_chunk() else { return };
        let Some(responder) = self.acceptor.responder.clone() else { return };
        if self.native.connections.contains_key(&remote_id) {
            // An own SYN that was sent back: answering it would connect the set to itself, and the
            // application would take its own key for the peer's.
            self.native.stats.unauthentic += 1;
            return;
        }
        let digest = self.digest(peer, packet, syn.noise);
        if self.answer_again(now, (peer, remote_id), digest, syn) {
            return;
        }
        if self.acceptor.opened.contains(now, digest) {
            self.native.stats.replayed += 1;
            return;
        }
        let source = self.config.source_of(&peer);
        let is_proven = self.is_proven(now, peer, remote_id, &syn.proof);
        if !is_proven && self.needs_proof(now, source) {
            return self.retry(now, peer, remote_id);
        }
        // A SYN without a proof was counted by `needs_proof`.
        if is_proven && !self.has_half_open_room(now, source) {
            self.native.stats.source_limited += 1;
            return;
        }
        let own = self.draw_id();
        let syn = AdmittedSyn { peer, remote_id, packet, syn };
        match self.answer(now, &responder, own, &syn) {
            Ok(Answered { second, stage }) => {
                // An invalid SYN takes an entry, too, and counts against the limit of its host: it
                // has cost as much as a valid one.
                self.native.stats.unauthentic += u64::from(second.is_empty());
                let mut entry = HalfOpen::new(now, (peer, remote_id, digest), is_proven, second, stage);
                push_syn_ack(&mut self.answers, now, &mut entry, syn.syn.attempt);
                let had_room = self.acceptor.half_open.insert(own.id, source, entry);
                self.native.stats.half_open_dropped += u64::from(!had_room);
            }
            Err(reason) => {
                self.native.stats.refused += 1;
                self.answers
                    .push(peer, false, REFUSE_LEN, |out| encode_refuse(remote_id, reason.code(), out));
            }
        }
    }

    /// True if a SYN of this host, which proved its address, may make a half-open connection.
    fn has_half_open_room(&mut self, now: Instant, source: Option<u64>) -> bool {
        let is_busy = self.answers.limit.is_busy(now);
        let Acceptor { half_open, evictions, .. } = &mut self.acceptor;
        half_open.has_room_for(source) && (!half_open.is_full() || evictions.take(now, is_busy))
    }

    /// Answers a SYN that made a half-open connection before. Returns false if none did.
    fn answer_again(
        &mut self,
        now: Instant,
        (peer, remote_id): (P, u64),
        digest: u64,
        syn: &Syn<'_>,
    ) -> bool {
        let Some(entry) = self.acceptor.half_open.find_syn(digest) else { return false };
        // The first SYN had no cookie, and its answer was lost.
        if !entry.is_proven
            && matches!(syn.proof, Proof::Retry(_))
            && self.is_proven(now, peer, remote_id, &syn.proof)
        {
            self.acceptor.half_open.prove(digest, now);
        }
        if let Some(entry) = self.acceptor.half_open.find_syn(digest) {
            push_syn_ack(&mut self.answers, now, entry, syn.attempt);
        }
        true
    }

    /// Reads message 1 and writes message 2. An error is sent as a REFUSE, without a message 2.
    fn answer(
        &mut self,
        now: Instant,
        responder: &Arc<ResponderConfig>,
        own: OwnId,
        syn: &AdmittedSyn<'_, P>,
    ) -> Result<Answered, RefuseReason> {
        if !self.may_have_slot_for(now, &syn.peer) {
            return Err(RefuseReason::Busy);
        }
        let Some((pattern, secret)) = pattern_of(syn.syn) else { return Ok(Answered::default()) };
        let psk = match secret {
            Some(id) => Some(responder.secrets.psk(id).ok_or(RefuseReason::Secret)?),
            None => None,
        };
        let keys = Keys { local: Some(&responder.identity), remote: None, psk: psk.as_ref() };
        let answered = self
            .read_first(pattern, keys, syn)
            .and_then(|first| self.write_second(now, responder, (own, secret), syn, first));
        Ok(answered.unwrap_or_default())
    }

    /// Reads message 1, which has no Hello in XX: message 3 has it. `None` if it is invalid.
    fn read_first(
        &mut self,
        pattern: Pattern,
        keys: Keys<'_>,
        syn: &AdmittedSyn<'_, P>,
    ) -> Option<(Responder, Option<Hello>)> {
        let (prologue, entropy) = (prologue(syn.packet), self.entropy.child());
        let (noise, payload) = Responder::accept(pattern, keys, &prologue, entropy, syn.syn.noise).ok()?;
        let hello = match pattern {
            Pattern::Xx => None,
            Pattern::Nk | Pattern::Ik => Some(Hello::decode(&payload).ok()?),
        };
        Some((noise, hello))
    }

    /// Writes message 2, which accepts or refuses. `None` if message 1 turns out to be invalid.
    fn write_second(
        &mut self,
        now: Instant,
        responder: &Arc<ResponderConfig>,
        (own, secret): (OwnId, Option<SecretId>),
        syn: &AdmittedSyn<'_, P>,
        (mut noise, hello): (Responder, Option<Hello>),
    ) -> Option<Answered> {
        let preferred = hello.as_ref().map_or(0, |hello| hello.params.aead);
        let aead = choose_aead(syn.syn.aeads, preferred, &responder.config).ok_or(RefuseReason::Unencrypted);
        let admitted = aead.and_then(|aead| match &hello {
            Some(hello) if hello.params.service != responder.service => {
                Err(RefuseReason::OtherService(responder.service))
            }
            Some(hello) => (responder.admit)(Admittee { peer: noise.peer(), secret, aead })
                .and_then(|()| self.may_replace_open(now, hello, aead)),
            None => Ok(aead),
        });
        let aead = match admitted {
            Ok(aead) => aead,
            Err(reason) => {
                let is_unencrypted = reason == RefuseReason::Unencrypted;
                self.native.stats.unencrypted += u64::from(is_unencrypted);
                self.native.stats.refused += u64::from(!is_unencrypted);
                let second = noise.write_second(&refusal(reason).encode()).ok()?;
                return Some(Answered { second, stage: Stage::default() });
            }
        };
        let share = self.memory.budget.share_of_new();
        let welcome = self.welcome(now, responder, own, syn.peer, (aead, share));
        let second = noise.write_second(&Reply::Accepted(welcome).encode()).ok()?;
        let Some(hello) = hello else {
            let awaited = AwaitedAuth { noise, aead, secret, offered_at: now, share };
            return Some(Answered { second, stage: Stage::Auth(Box::new(awaited)) });
        };
        let peer = noise.peer();
        let ids = (own.id, syn.remote_id);
        let established = Established::of_hello(ids, noise.finish().ok()?, aead, hello, now);
        let candidate = Candidate { established, peer, secret, share };
        Some(Answered { second, stage: Stage::Sealed(Box::new(candidate)) })
    }

    /// Returns the payload of a message 2 that accepts.
    fn welcome(
        &mut self,
        now: Instant,
        responder: &ResponderConfig,
        own: OwnId,
        peer: P,
        (aead, share): (Aead, Option<BufferShare>),
    ) -> Welcome {
        let config = &responder.config;
        let offer = Offer::new(now, config.receiver, config.idle_timeout, share);
        let takes_opens = aead.is_encrypted() && self.acceptor.associations.is_enabled();
        let associations = if takes_opens { self.association_scope() } else { 0 };
        Welcome {
            aead: aead as u8,
            versions: Versions::OURS,
            connection_id: own.id,
            reset_token: own.reset_token,
            window: offer.window,
            params: Params { associations, ..params_of(config, &offer, responder.service) },
            resumption: self.mint_resumption(now, peer),
        }
    }

    /// True if the SYN proves the address, whose bytes `digest` has collected.
    fn is_proven(&mut self, now: Instant, peer: P, remote_id: u64, proof: &Proof) -> bool {
        match proof {
            Proof::None => false,
            Proof::Retry(cookie) => {
                let now_s = self.cookie_time(now);
                self.acceptor.cookies.verify(cookie, now_s, &self.acceptor.address.0, remote_id)
            }
            Proof::Resumption(cookie) => self.redeem(now, peer, cookie),
        }
    }

    /// True if a SYN without a proof gets no SYN-ACK.
    fn needs_proof(&mut self, now: Instant, source: Option<u64>) -> bool {
        if self.acceptor.half_open.is_full() {
            return true;
        }
        let (unproven, of_source) = self.acceptor.half_open.unproven(source);
        let is_busy = self.answers.limit.is_busy(now);
        let was_required = self.acceptor.retry.is_required();
        let needs_proof = self.acceptor.retry.needs_proof(now, unproven, of_source, is_busy);
        self.native.stats.retry_periods += u64::from(!was_required && self.acceptor.retry.is_required());
        needs_proof
    }

    /// Requests a SYN with a cookie.
    fn retry(&mut self, now: Instant, peer: P, remote_id: u64) {
        if !self.answers.reserve() {
            return;
        }
        let now_s = self.cookie_time(now);
        // `digest` has collected the bytes of this address.
        let cookie = self.acceptor.cookies.issue(now_s, &self.acceptor.address.0, remote_id);
        self.answers.push(peer, false, RETRY_LEN, |out| encode_retry(remote_id, &cookie, out));
        self.native.stats.retries += 1;
    }

    /// Returns the seconds since the first SYN.
    fn cookie_time(&mut self, now: Instant) -> u64 {
        let epoch = *self.acceptor.cookie_epoch.get_or_insert(now);
        now.saturating_duration_since(epoch).as_secs()
    }

    /// Uses the cookie of an earlier connection up.
    fn redeem(&mut self, now: Instant, peer: P, cookie: &rdt_crypto::ResumptionCookie) -> bool {
        let Some((unix_s, address)) = self.dated_address(now, peer) else { return false };
        let is_valid =
            self.acceptor.resumptions.as_mut().is_some_and(|jar| jar.redeem(cookie, unix_s, address));
        self.native.stats.resumed += u64::from(is_valid);
        is_valid
    }

    fn mint_resumption(&mut self, now: Instant, peer: P) -> Option<rdt_crypto::ResumptionCookie> {
        let (unix_s, address) = self.dated_address(now, peer)?;
        Some(self.acceptor.resumptions.as_mut()?.issue(unix_s, address, &mut self.entropy))
    }

    /// Returns the seconds since 1970, and the address of a peer.
    fn dated_address(&self, now: Instant, peer: P) -> Option<(u64, IpAddr)> {
        let (at, unix_s) = self.config.unix_time?;
        let address = (self.config.ip_of?)(&peer);
        Some((unix_s + now.saturating_duration_since(at).as_secs(), address))
    }

    /// Returns the digest of the parts of a SYN that its copies share, and collects the bytes of
    /// the address. SHA-256, so that the SYN of another peer cannot be given the same digest.
    fn digest(&mut self, peer: P, packet: &[u8; SYN_MIN], noise: &[u8]) -> u64 {
        self.acceptor.address.0.clear();
        peer.hash(&mut self.acceptor.address);
        let fields = Sha256::new_with_prefix(prologue(packet)).chain_update(noise);
        let hash =
            Sha256::new_with_prefix(fields.finalize()).chain_update(&self.acceptor.address.0).finalize();
        u64::from_le_bytes(std::array::from_fn(|i| hash[i]))
    }
}

/// Queues the SYN-ACK of a half-open connection, for the SYN with this attempt number, or a REFUSE
/// if message 1 was invalid, unless one left a moment ago. Unproved addresses share a limit.
fn push_syn_ack<P: Copy + PartialEq>(
    answers: &mut Answers<P>,
    now: Instant,
    entry: &mut HalfOpen<P>,
    attempt: u8,
) {
    if !(entry.is_proven || answers.reserve()) || !entry.on_answer(now) {
        return;
    }
    let reason = RefuseReason::WrongKey.code();
    let is_invalid = entry.second.is_empty();
    let len = if is_invalid { REFUSE_LEN } else { syn_ack_len(&entry.second) };
    let encode = |out: &mut [u8]| {
        if is_invalid {
            encode_refuse(entry.remote_id, reason, out);
        } else {
            encode_syn_ack(entry.remote_id, attempt, &entry.second, out);
        }
    };
    answers.push(entry.peer, entry.is_proven, len, encode);
}

/// Returns the payload of a message 2 that refuses.
fn refusal(reason: RefuseReason) -> Reply {
    match reason {
        RefuseReason::OtherService(service) => Reply::OtherService(service),
        reason => Reply::Refused(u8::try_from(reason.code()).unwrap_or(u8::MAX).max(1)),
    }
}

/// Returns the Noise pattern of a SYN and the secret that it mixes in. `None` for an unknown
/// pattern, and if pattern and secret contradict each other.
fn pattern_of(syn: &Syn<'_>) -> Option<(Pattern, Option<SecretId>)> {
    let (pattern, has_psk) = Pattern::from_number(syn.pattern)?;
    let secret = SecretId::from_wire(syn.secret_id);
    (secret.is_some() == has_psk).then_some((pattern, secret))
}
