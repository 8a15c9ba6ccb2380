//! Handshake of the side that opens a connection: SYN, SYN-ACK; between them RETRY and a SYN with
//! its cookie, if the responder asks for a proof of the address.

use std::time::{Duration, Instant};

use rdt_crypto::{Aead, Entropy, Initiator, Keys, Pattern, PublicKey, StaticKey, aes_hardware};

use super::ConnectionEnv;
use super::config::{ConnectionConfig, InitiatorConfig};
use super::events::{Closed, RefuseReason};
use super::proof::KeyProof;
use super::refusals::Refusals;
use super::streams::Established;
use super::syns::Syns;
use super::within::REFUSED_OPEN;
use crate::receiver::Offer;
use crate::wire::native::{
    Clear, Hello, Instead, Params, Proof, Reply, SYN_MIN, Syn, Versions, Welcome, encode_auth, encode_syn,
    prologue, syn_len,
};
use crate::{ConfigError, Service, Trace, TransmitBuf};

/// Shortest time after which a SYN is repeated: a busy responder needs some for its answer.
const MIN_SYN_TIMEOUT: Duration = Duration::from_millis(50);
/// Doublings after which that time exceeds the one for an unknown host.
const MAX_DOUBLINGS: u32 = 6;
/// Bits of the AEADs that a SYN offers.
const ALL_AEADS: u8 = 0b111;
/// Bit of a SYN that offers packets without encryption.
const UNENCRYPTED: u8 = aead_bit(Aead::None);
/// Bit of a SYN that says that the initiator has instructions for AES.
const AES_HARDWARE: u8 = 1 << 7;

/// Connection before its SYN-ACK.
pub(super) struct Opening {
    /// Configuration for the open phase.
    pub(super) config: ConnectionConfig,
    keys: InitiatorConfig,
    /// Static key that the application gave.
    pub(super) own_key: Option<PublicKey>,
    /// Environment of the open phase.
    pub(super) env: ConnectionEnv,
    pub(super) offer: Offer,
    pattern: Pattern,
    /// Proof of the address in the next SYN.
    proof: Proof,
    /// `None` after the handshake.
    noise: Option<Initiator>,
    /// First message of the Noise handshake.
    first: Vec<u8>,
    /// For the random numbers of a later step.
    entropy: Entropy,
    refused_open: Option<RefusedOpen>,
    syns: Syns,
    started_at: Option<Instant>,
    /// SYNs since the last answer.
    attempts: u32,
    is_due: bool,
    at: Option<Instant>,
    /// Refusals of SYNs since the last RETRY, without a proof.
    refusals: Refusals,
}

/// OPEN that the responder refused.
struct RefusedOpen {
    instead: Instead,
    /// Time when it was sent first.
    sent_at: Instant,
    /// Time since then in which the clock stood still.
    suspended: Duration,
}

/// Result of a handshake that a SYN-ACK completed.
pub(super) struct Opened {
    pub(super) established: Established,
    pub(super) proof: KeyProof,
    pub(super) peer: PublicKey,
    /// False if the responder proves the shared secret only by its first sealed packet: in XX, the
    /// secret is mixed in by message 3 (`XXpsk3`).
    pub(super) is_proven: bool,
    pub(super) resumption: Option<rdt_crypto::ResumptionCookie>,
}

/// Effect of a packet on the handshake.
pub(super) enum Progress {
    /// The packet changed nothing, or another SYN is due.
    Pending,
    Opened(Box<Opened>),
    Failed(Closed),
}

impl Opening {
    pub(super) fn new(
        config: ConnectionConfig,
        (mut keys, own_key): (InitiatorConfig, Option<PublicKey>),
        env: ConnectionEnv,
        mut entropy: Entropy,
        offer: Offer,
    ) -> Result<Self, ConfigError> {
        config.sender.validate()?;
        let pattern = match (&keys.remote, &keys.local) {
            (None, _) => Pattern::Xx,
            (Some(_), None) => Pattern::Nk,
            (Some(_), Some(_)) => Pattern::Ik,
        };
        if pattern == Pattern::Xx && keys.local.is_none() {
            keys.local = Some(StaticKey::generate(&mut entropy).into());
        }
        let proof = keys.resumption.map_or(Proof::None, Proof::Resumption);
        let mut opening = Self {
            config,
            keys,
            own_key,
            env,
            offer,
            pattern,
            proof,
            noise: None,
            first: Vec::new(),
            entropy,
            refused_open: None,
            syns: Syns::default(),
            started_at: None,
            attempts: 0,
            is_due: true,
            at: None,
            refusals: Refusals::default(),
        };
        opening.start_noise(None)?;
        Ok(opening)
    }

    /// Writes message 1 of a new Noise handshake.
    fn start_noise(&mut self, now: Option<Instant>) -> Result<(), ConfigError> {
        // A SYN-ACK that comes later than the next SYN cannot be read.
        let instead = self.refused_open.as_ref().zip(now).map(|(open, now)| {
            let age = now.saturating_duration_since(open.sent_at).saturating_add(open.suspended);
            let age = age.saturating_add(self.syn_timeout());
            Instead { age_ms: u32::try_from(age.as_millis() + 1).unwrap_or(u32::MAX), ..open.instead }
        });
        let hello = Hello { instead, ..self.hello() };
        let payload = if self.pattern == Pattern::Xx { Vec::new() } else { hello.encode() };
        let mut packet = [0; SYN_MIN];
        encode_syn(self.env.local_id, &clear_syn(self.pattern, &self.keys, &self.config), &mut packet);
        let psk = self.keys.secret.as_ref().map(|secret| secret.psk());
        let keys = Keys { local: self.keys.local.as_deref(), remote: self.keys.remote, psk: psk.as_ref() };
        let (noise, first) =
            Initiator::start(self.pattern, keys, &prologue(&packet), self.entropy.child(), &payload)
                .map_err(|_| ConfigError::Keys)?;
        (self.noise, self.first) = (Some(noise), first);
        Ok(())
    }

    /// Returns the first words of the initiator.
    pub(super) fn hello(&self) -> Hello {
        Hello {
            window: self.offer.window,
            reset_token: self.env.reset,
            params: params_of(&self.config, &self.offer, self.keys.service),
            name: self.config.sender.name.clone(),
            instead: None,
        }
    }

    /// Starts again after a SYN-ACK: the responder has forgotten the handshake. The SYN leaves when
    /// it would have been repeated. Returns false without a key, which [`new`](Self::new) excludes.
    pub(super) fn restart(&mut self, now: Instant) -> bool {
        // A cookie that no SYN has carried, because an OPEN was refused, is still good.
        if self.syns.newest().is_some() {
            self.proof = Proof::None;
        }
        self.refusals.restart(0);
        self.is_due = false;
        let next = self.syns.newest().map_or(now, |at| at + self.syn_timeout());
        self.at = Some(next.max(now));
        self.start_noise(Some(now)).is_ok()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.at
    }

    /// Handles the timer of the SYN. Returns true if the responder is given up.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.at = None;
        self.is_due = true;
        self.give_up_at().is_some_and(|at| at <= now)
    }

    /// Notes that an OPEN leaves, which the responder may refuse.
    pub(super) fn begin_open(&mut self, now: Instant, instead: Instead) {
        self.started_at = Some(now);
        self.refused_open = Some(RefusedOpen { instead, sent_at: now, suspended: Duration::ZERO });
    }

    pub(super) fn on_suspended(&mut self, time: Duration) {
        if let Some(open) = &mut self.refused_open {
            open.suspended = open.suspended.saturating_add(time);
        }
    }

    pub(super) fn give_up_at(&self) -> Option<Instant> {
        self.started_at?.checked_add(self.config.sender.handshake_give_up)
    }

    /// Appends the SYN to the empty batch `out`, if it is due.
    pub(super) fn transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> bool {
        if !self.is_due {
            return false;
        }
        // The age of the refused OPEN is sealed in message 1.
        if self.refused_open.is_some() && self.start_noise(Some(now)).is_err() {
            return false;
        }
        let syn = Syn {
            proof: self.proof,
            attempt: self.syns.next(),
            noise: &self.first,
            ..clear_syn(self.pattern, &self.keys, &self.config)
        };
        let Some(slot) = out.slot(syn_len(&syn)) else { return false };
        encode_syn(self.env.local_id, &syn, slot);
        self.syns.on_sent(now);
        self.started_at.get_or_insert(now);
        self.attempts += 1;
        self.is_due = false;
        let next = now + self.syn_timeout();
        self.at = Some(self.give_up_at().map_or(next, |at| at.min(next)));
        true
    }

    /// Returns the time after which the newest SYN is repeated: three times the known round trip,
    /// doubled each time, but at most as long as to an unknown host.
    fn syn_timeout(&self) -> Duration {
        let most = self.config.sender.syn_timeout(self.attempts);
        let doublings = self.attempts.saturating_sub(1).min(MAX_DOUBLINGS);
        let known = self.keys.rtt.map(|rtt| (3 * rtt).max(MIN_SYN_TIMEOUT) * (1 << doublings));
        known.map_or(most, |known| known.min(most))
    }

    pub(super) fn syn_trace(&self, now: Instant) -> Trace {
        let rto = self.at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        Trace::SynSent { seq: 0, attempt: self.attempts, of: u32::MAX, rto }
    }

    /// Handles a refusal without a proof: an ICMP error, or an answer. True if it is believed.
    pub(super) fn on_refused(&mut self, now: Instant) -> bool {
        self.refusals.on_refused(now, self.attempts)
    }

    pub(super) fn handle(&mut self, now: Instant, packet: &Clear<'_>) -> Progress {
        match packet {
            Clear::Retry(cookie) => self.on_retry(cookie),
            Clear::SynAck { attempt, noise } => self.on_syn_ack(now, *attempt, noise),
            // A responder refuses an OPEN before there is a SYN.
            Clear::Refuse(REFUSED_OPEN) => Progress::Pending,
            Clear::Refuse(code) if self.attempts > 0 => match RefuseReason::from_code(*code) {
                reason if reason.is_proved() => Progress::Pending,
                reason => self.refused(now, Closed::Refused(reason)),
            },
            // A list with the version of the SYN contradicts itself.
            Clear::Versions(versions) if self.attempts > 0 && !versions.contains_ours() => {
                self.refused(now, Closed::Version(*versions))
            }
            _ => Progress::Pending,
        }
    }

    /// Handles an answer that ends the handshake and is not authentic.
    fn refused(&mut self, now: Instant, closed: Closed) -> Progress {
        if self.on_refused(now) { Progress::Failed(closed) } else { Progress::Pending }
    }

    /// Takes the cookie of a RETRY. The first one is used at once. A later one replaces a cookie
    /// that has expired, or that the responder forgot in a restart: it leaves with the next
    /// repetition, so that forged or repeated RETRYs cause no packets.
    fn on_retry(&mut self, cookie: &crate::cookie::Cookie) -> Progress {
        let proof = Proof::Retry(*cookie);
        if self.attempts == 0 || self.proof == proof {
            return Progress::Pending;
        }
        self.refusals.restart(self.attempts);
        let is_first = !matches!(self.proof, Proof::Retry(_));
        self.proof = proof;
        if is_first {
            self.attempts = 0;
            self.refusals.restart(0);
            self.is_due = true;
            self.at = None;
        }
        Progress::Pending
    }

    fn on_syn_ack(&mut self, now: Instant, attempt: u8, noise: &[u8]) -> Progress {
        let Some(state) = &mut self.noise else { return Progress::Pending };
        let Ok(reply) = state.read_second(noise) else { return Progress::Pending };
        // The message is authentic, so its author has the key.
        let welcome = match Reply::decode(&reply) {
            Ok(Reply::Accepted(welcome)) => welcome,
            // The responder may have opened the connection by its OPEN, so nothing is sent again.
            Ok(Reply::Refused(code)) if u16::from(code) == REFUSED_OPEN => {
                return Progress::Failed(Closed::Reset);
            }
            Ok(Reply::Refused(code)) => {
                return Progress::Failed(Closed::Refused(RefuseReason::from_code(u16::from(code))));
            }
            Ok(Reply::OtherService(service)) => return other_service(service),
            Err(error) => return Progress::Failed(Closed::ProtocolBroken(error)),
        };
        // First, so that no key is trusted, and learned, as that of another program.
        if welcome.params.service != self.keys.service {
            return other_service(welcome.params.service);
        }
        let Some(peer) = state.peer() else { return Progress::Failed(Closed::Handshake) };
        let is_trusted =
            self.keys.remote.is_some() || self.keys.trust.as_ref().is_none_or(|trust| trust(&peer));
        if !is_trusted {
            return Progress::Failed(Closed::NotTrusted(peer));
        }
        match self.complete(now, attempt, &welcome, peer) {
            Some(opened) => Progress::Opened(Box::new(opened)),
            None => Progress::Failed(Closed::Handshake),
        }
    }

    fn complete(&mut self, now: Instant, attempt: u8, welcome: &Welcome, peer: PublicKey) -> Option<Opened> {
        let offered = offered_aeads(&self.config);
        let aead = Aead::from_number(welcome.aead).filter(|aead| offered & aead_bit(*aead) != 0)?;
        let mut noise = self.noise.take()?;
        let auth = if self.pattern == Pattern::Xx {
            let third = noise.write_third(&self.hello().encode()).ok()?;
            encode_auth(welcome.connection_id, &third)
        } else {
            Vec::new()
        };
        let rtt = self.syns.sent_at(attempt).map(|at| now.saturating_duration_since(at));
        let random = u64::from_le_bytes(self.entropy.array());
        let proof = KeyProof::new(auth, Some(random), rtt, self.give_up_at());
        Some(Opened {
            established: Established {
                local_id: self.env.local_id,
                remote_id: welcome.connection_id,
                is_initiator: true,
                secrets: noise.finish().ok()?,
                aead,
                window: welcome.window,
                params: welcome.params,
                name: None,
                peer_reset: welcome.reset_token,
                rtt,
                is_remembered: false,
                // The responder learns the window at its arrival, half of a round trip before.
                offered_at: self.syns.sent_at(1).unwrap_or(now),
            },
            proof,
            peer,
            is_proven: self.pattern != Pattern::Xx || self.keys.secret.is_none(),
            resumption: welcome.resumption,
        })
    }
}

fn other_service(service: Service) -> Progress {
    Progress::Failed(Closed::Refused(RefuseReason::OtherService(service)))
}

/// Returns a SYN with the fields that no attempt changes.
fn clear_syn(pattern: Pattern, keys: &InitiatorConfig, config: &ConnectionConfig) -> Syn<'static> {
    Syn {
        proof: Proof::None,
        attempt: 1,
        pattern: pattern.number(keys.secret.is_some()),
        aeads: offered_aeads(config),
        versions: Versions::OURS,
        secret_id: keys.secret.as_ref().map_or(0, |secret| secret.id().to_wire()),
        noise: &[],
    }
}

const fn aead_bit(aead: Aead) -> u8 {
    1 << (aead as u8 - 1)
}

/// Returns the AEADs of a SYN with its hint about the processor. Packets without encryption are
/// offered alone or not at all: an initiator that encrypts never gets them.
fn offered_aeads(config: &ConnectionConfig) -> u8 {
    if config.dangerously_unencrypted {
        UNENCRYPTED
    } else {
        ALL_AEADS | if aes_hardware() { AES_HARDWARE } else { 0 }
    }
}

/// Returns the AEAD for a connection: the one that either side prefers, if the initiator offers it;
/// else AES-128-GCM if both sides have instructions for it, else ChaCha20-Poly1305. No encryption
/// only if nothing else is offered and the responder allows it. `None` if all offers are refused.
pub(crate) fn choose_aead(offered: u8, initiator: u8, responder: &ConnectionConfig) -> Option<Aead> {
    let is_offered = |aead: &Aead| offered & aead_bit(*aead) != 0;
    let fastest =
        if offered & AES_HARDWARE != 0 && aes_hardware() { Aead::Aes128Gcm } else { Aead::ChaCha20Poly1305 };
    let preferred = [responder.aead, Aead::from_number(initiator), Some(fastest)];
    let mut encrypted = preferred.into_iter().flatten().chain(Aead::ALL).filter(|aead| aead.is_encrypted());
    let unencrypted = responder.dangerously_unencrypted.then_some(Aead::None);
    encrypted.find(is_offered).or(unencrypted.filter(is_offered))
}

pub(crate) fn params_of(config: &ConnectionConfig, offer: &Offer, service: Service) -> Params {
    let wanted = config.sender.wanted_params();
    Params {
        link: wanted.link,
        overflow: wanted.overflow,
        wanted_ack_delay_us: wanted.wanted_ack_delay_us,
        wanted_ack_every: wanted.wanted_ack_every,
        is_one_way: config.one_way,
        aead: config.aead.filter(|aead| aead.is_encrypted()).map_or(0, |aead| aead as u8),
        service,
        ..offer.params
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aead_is_preferred_one_if_offered() {
        let aes = if aes_hardware() { Aead::Aes128Gcm } else { Aead::ChaCha20Poly1305 };
        let choose = |offered, initiator, aead| {
            choose_aead(offered, initiator, &ConnectionConfig { aead, ..ConnectionConfig::default() })
        };
        assert_eq!(choose(ALL_AEADS | AES_HARDWARE, 0, None), Some(aes));
        assert_eq!(choose(ALL_AEADS, 0, None), Some(Aead::ChaCha20Poly1305));
        assert_eq!(choose(ALL_AEADS, 2, None), Some(Aead::Aes256Gcm));
        assert_eq!(choose(ALL_AEADS, 2, Some(Aead::Aes128Gcm)), Some(Aead::Aes128Gcm));
        assert_eq!(choose(0b010, 3, Some(Aead::Aes128Gcm)), Some(Aead::Aes256Gcm));
        assert_eq!(choose(0, 0, None), None);
    }

    #[test]
    fn no_encryption_needs_both_sides() {
        for preferred in [None, Some(Aead::None), Some(Aead::Aes256Gcm)] {
            for initiator in 0..=4 {
                let careful = ConnectionConfig { aead: preferred, ..ConnectionConfig::default() };
                let open = ConnectionConfig { dangerously_unencrypted: true, ..careful.clone() };
                let case = format!("{preferred:?} {initiator}");
                assert_eq!(choose_aead(UNENCRYPTED, initiator, &careful), None, "{case}");
                assert_eq!(choose_aead(UNENCRYPTED, initiator, &open), Some(Aead::None), "{case}");
                for config in [&careful, &open] {
                    for others in 1..=ALL_AEADS {
                        let chosen = choose_aead(UNENCRYPTED | others, initiator, config);
                        assert!(chosen.is_some_and(Aead::is_encrypted), "{case} {others}: {chosen:?}");
                    }
                }
                assert_eq!(choose_aead(0, initiator, &open), None, "{case}");
            }
        }
    }
}
