//! Handshakes of the Noise protocol framework, revision 34, computed by `snow`.
//!
//! The algorithms are `25519_ChaChaPoly_BLAKE2s`. Bytes that each message adds to its payload:
//!
//! | pattern | message 1 | message 2 | message 3 |
//! |---|---|---|---|
//! | XX | 32, with a secret 48; no payload | 96 | 64 |
//! | NK | 48 | 48 | |
//! | IK | 96 | 48 | |
//!
//! Neither `snow` nor this module was audited. `snow` does not erase the keys that it holds.

use std::fmt;

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use crate::entropy::SeededResolver;
use crate::{Entropy, Psk, PublicKey, Secrets, StaticKey, TrafficSecret};

/// Largest number of bytes that a message adds to its payload: two keys and two tags.
const OVERHEAD_BYTES: usize = 96;
/// Largest payload, bytes. Noise limits a message to 65,535 bytes.
const MAX_PAYLOAD_BYTES: usize = 65_535 - OVERHEAD_BYTES;
/// Knowledge of static keys before the handshake. The discriminant is the number of the pattern
/// in a packet, to which a pre-shared secret adds 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Neither side. Both keys are exchanged, and each side decides whether to trust the other's.
    Xx = 1,
    /// The initiator knows the responder's key and has none itself.
    Nk = 2,
    /// The initiator knows the responder's key, and sends its own in the first message.
    Ik = 3,
}

impl Pattern {
    /// Bit of a pattern's number that says that a secret is mixed in.
    const PSK_BIT: u8 = 0x10;

    /// Returns the pattern with this number in a packet, and whether a secret is mixed in.
    pub fn from_number(number: u8) -> Option<(Self, bool)> {
        let pattern =
            [Self::Xx, Self::Nk, Self::Ik].into_iter().find(|p| *p as u8 == number & !Self::PSK_BIT)?;
        Some((pattern, number & Self::PSK_BIT != 0))
    }

    /// Returns the number in a packet.
    pub const fn number(self, psk: bool) -> u8 {
        self as u8 | if psk { Self::PSK_BIT } else { 0 }
    }

    /// Returns the number of messages: 2 or 3.
    pub const fn messages(self) -> u8 {
        if matches!(self, Self::Xx) { 3 } else { 2 }
    }

    /// Place of the secret: the end of the last message. At the start of the first one, an observer
    /// could test guesses of the secret against the message.
    const fn psk_place(self) -> u8 {
        self.messages()
    }

    /// Returns the name of the protocol in the Noise framework.
    pub const fn name(self, psk: bool) -> &'static str {
        match (self, psk) {
            (Self::Xx, false) => "Noise_XX_25519_ChaChaPoly_BLAKE2s",
            (Self::Nk, false) => "Noise_NK_25519_ChaChaPoly_BLAKE2s",
            (Self::Ik, false) => "Noise_IK_25519_ChaChaPoly_BLAKE2s",
            (Self::Xx, true) => "Noise_XXpsk3_25519_ChaChaPoly_BLAKE2s",
            (Self::Nk, true) => "Noise_NKpsk2_25519_ChaChaPoly_BLAKE2s",
            (Self::Ik, true) => "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s",
        }
    }
}

/// Keys of one side before a handshake. Keys that the pattern does not use are ignored.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keys<'a> {
    /// Local key. Required, except for the initiator of NK.
    pub local: Option<&'a StaticKey>,
    /// Key of the responder. Required for the initiator of NK and IK.
    pub remote: Option<PublicKey>,
    /// Pre-shared secret. Both sides have it, or neither.
    pub psk: Option<&'a Psk>,
}

/// Error of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoiseError {
    /// The peer's message was changed, or made with other keys, another prologue or another secret.
    /// There is one error for all of these on purpose: a peer must not learn which.
    #[error("the handshake message is not authentic")]
    Forged,
    /// The pattern needs a key that the caller did not give.
    #[error("this handshake needs a key that was not given")]
    MissingKey,
    /// The caller read or wrote a message that is not the next one.
    #[error("this is not the next message of the handshake")]
    OutOfTurn,
    /// The payload is longer than 65,439 bytes, or would be readable: message 1 of XX has none.
    #[error("the handshake message cannot carry this payload")]
    Payload,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Initiator,
    Responder,
}

fn state(
    pattern: Pattern,
    side: Side,
    keys: Keys<'_>,
    prologue: &[u8],
    entropy: Entropy,
) -> Result<HandshakeState, NoiseError> {
    let params: NoiseParams = pattern.name(keys.psk.is_some()).parse().expect("snow knows the pattern");
    let (has_local, knows_remote) = match (pattern, side) {
        (Pattern::Nk, Side::Initiator) => (false, true),
        (Pattern::Ik, Side::Initiator) => (true, true),
        _ => (true, false),
    };
    let local = keys.local.filter(|_| has_local);
    let remote = keys.remote.filter(|_| knows_remote);
    if local.is_some() != has_local || remote.is_some() != knows_remote {
        return Err(NoiseError::MissingKey);
    }
    let build = || {
        let resolver = SeededResolver(entropy);
        let mut builder = Builder::with_resolver(params, Box::new(resolver)).prologue(prologue)?;
        if let Some(key) = local {
            builder = builder.local_private_key(key.private())?;
        }
        if let Some(key) = &remote {
            builder = builder.remote_public_key(key.as_bytes())?;
        }
        if let Some(psk) = keys.psk {
            builder = builder.psk(pattern.psk_place(), psk.bytes())?;
        }
        match side {
            Side::Initiator => builder.build_initiator(),
            Side::Responder => builder.build_responder(),
        }
    };
    // snow fails only if a key is missing or given twice.
    build().map_err(|_| NoiseError::MissingKey)
}

fn write(state: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, NoiseError> {
    if !state.is_my_turn() || state.is_handshake_finished() {
        return Err(NoiseError::OutOfTurn);
    }
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(NoiseError::Payload);
    }
    let mut message = vec![0; payload.len() + OVERHEAD_BYTES];
    let length = state.write_message(payload, &mut message).map_err(|_| NoiseError::OutOfTurn)?;
    message.truncate(length);
    Ok(message)
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, NoiseError> {
    if state.is_my_turn() || state.is_handshake_finished() {
        return Err(NoiseError::OutOfTurn);
    }
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload).map_err(|_| NoiseError::Forged)?;
    payload.truncate(length);
    Ok(payload)
}

/// Returns the peer's static key after a message that proved it.
///
/// # Errors
/// [`NoiseError::Forged`] for a key of low order: every private key computes the same secret with
/// it, so it would prove nothing.
fn peer_key(state: &HandshakeState) -> Result<Option<PublicKey>, NoiseError> {
    let Some(bytes) = state.get_remote_static() else { return Ok(None) };
    let bytes = bytes.try_into().map_err(|_| NoiseError::Forged)?;
    PublicKey::from_bytes(bytes).map(Some).map_err(|_| NoiseError::Forged)
}

fn finish(mut state: HandshakeState) -> Result<Secrets, NoiseError> {
    if !state.is_handshake_finished() {
        return Err(NoiseError::OutOfTurn);
    }
    let handshake_hash = state.get_handshake_hash().try_into().map_err(|_| NoiseError::OutOfTurn)?;
    let (from_initiator, from_responder) = state.dangerously_get_raw_split();
    Ok(Secrets {
        from_initiator: TrafficSecret::new(from_initiator),
        from_responder: TrafficSecret::new(from_responder),
        handshake_hash,
    })
}

/// Side of a handshake that sends the first message.
pub struct Initiator {
    state: HandshakeState,
    peer: Option<PublicKey>,
}

impl Initiator {
    /// Begins a handshake and returns its first message. `prologue` is what both sides saw before:
    /// the handshake fails if it differs. `entropy` must be used for nothing else.
    ///
    /// An observer can replay message 1, so its payload must change nothing lasting at the
    /// responder.
    ///
    /// # Errors
    /// [`NoiseError::MissingKey`], and [`NoiseError::Payload`].
    pub fn start(
        pattern: Pattern,
        keys: Keys<'_>,
        prologue: &[u8],
        entropy: Entropy,
        payload: &[u8],
    ) -> Result<(Self, Vec<u8>), NoiseError> {
        if pattern == Pattern::Xx && !payload.is_empty() {
            return Err(NoiseError::Payload);
        }
        let mut state = state(pattern, Side::Initiator, keys, prologue, entropy)?;
        let message = write(&mut state, payload)?;
        Ok((Self { state, peer: None }, message))
    }

    /// Reads message 2 and returns its payload. A message that is not authentic changes nothing:
    /// the genuine one can follow.
    ///
    /// # Errors
    /// [`NoiseError::Forged`], and [`NoiseError::OutOfTurn`] after the genuine message 2.
    pub fn read_second(&mut self, message: &[u8]) -> Result<Vec<u8>, NoiseError> {
        let payload = read(&mut self.state, message)?;
        self.peer = peer_key(&self.state)?;
        Ok(payload)
    }

    /// Returns message 3 of XX. Before, the caller decides whether to trust [`peer`](Self::peer):
    /// message 3 shows the local key.
    ///
    /// # Errors
    /// [`NoiseError::OutOfTurn`] in other patterns and before message 2, and
    /// [`NoiseError::Payload`].
    pub fn write_third(&mut self, payload: &[u8]) -> Result<Vec<u8>, NoiseError> {
        if self.peer.is_none() {
            return Err(NoiseError::OutOfTurn);
        }
        write(&mut self.state, payload)
    }

    /// Returns the responder's key, once message 2 has proved that it holds the private key.
    pub fn peer(&self) -> Option<PublicKey> {
        self.peer
    }

    /// Returns the secrets of the connection.
    ///
    /// # Errors
    /// [`NoiseError::OutOfTurn`] before the last message.
    pub fn finish(self) -> Result<Secrets, NoiseError> {
        if self.peer.is_none() {
            return Err(NoiseError::OutOfTurn);
        }
        finish(self.state)
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Side of a handshake that answers.
pub struct Responder {
    state: HandshakeState,
    peer: Option<PublicKey>,
    /// XX only.
    recording: Option<Box<Recording>>,
}

/// Inputs of a responder up to message 2, from which the state before message 3 is computed again.
///
/// `snow` 0.10 restores only a part of its state after a message that it refuses. If the static key
/// in message 3 is genuine and the payload was changed, then the cipher keeps a wrong key, and the
/// genuine message would be refused too.
struct Recording {
    local: StaticKey,
    psk: Option<Psk>,
    prologue: Vec<u8>,
    entropy: Entropy,
    first: Vec<u8>,
    second_payload: Zeroizing<Vec<u8>>,
    spoiled: bool,
}

impl Recording {
    /// Returns the state after message 2. Equal entropy gives an equal message 2.
    fn rebuild(&self) -> Result<HandshakeState, NoiseError> {
        let keys = Keys { local: Some(&self.local), remote: None, psk: self.psk.as_ref() };
        let mut state = state(Pattern::Xx, Side::Responder, keys, &self.prologue, self.entropy.duplicate())?;
        read(&mut state, &self.first)?;
        write(&mut state, &self.second_payload)?;
        Ok(state)
    }
}

impl Responder {
    /// Reads message 1 and returns its payload. `entropy` must be used for nothing else.
    ///
    /// In IK, [`peer`](Self::peer) is known afterwards. Message 1 may be a replay, so only the
    /// first packet under the new keys proves that the initiator is present.
    ///
    /// # Errors
    /// [`NoiseError::Forged`], and [`NoiseError::MissingKey`].
    pub fn accept(
        pattern: Pattern,
        keys: Keys<'_>,
        prologue: &[u8],
        entropy: Entropy,
        message: &[u8],
    ) -> Result<(Self, Vec<u8>), NoiseError> {
        let mut state = state(pattern, Side::Responder, keys, prologue, entropy.duplicate())?;
        let payload = read(&mut state, message)?;
        if pattern == Pattern::Xx && !payload.is_empty() {
            return Err(NoiseError::Forged);
        }
        let peer = peer_key(&state)?;
        let recording = keys.local.filter(|_| pattern == Pattern::Xx).map(|local| {
            Box::new(Recording {
                local: local.duplicate(),
                psk: keys.psk.cloned(),
                prologue: prologue.to_vec(),
                entropy,
                first: message.to_vec(),
                second_payload: Zeroizing::default(),
                spoiled: false,
            })
        });
        Ok((Self { state, peer, recording }, payload))
    }

    /// Returns message 2.
    ///
    /// # Errors
    /// [`NoiseError::OutOfTurn`] the second time, and [`NoiseError::Payload`].
    pub fn write_second(&mut self, payload: &[u8]) -> Result<Vec<u8>, NoiseError> {
        let message = write(&mut self.state, payload)?;
        if let Some(recording) = &mut self.recording {
            recording.second_payload = payload.to_vec().into();
        }
        Ok(message)
    }

    /// Reads message 3 of XX and returns its payload. After a message that is not authentic the
    /// genuine one can still follow.
    ///
    /// # Errors
    /// [`NoiseError::Forged`], and [`NoiseError::OutOfTurn`] in other patterns, before message 2
    /// and after the genuine message 3.
    pub fn read_third(&mut self, message: &[u8]) -> Result<Vec<u8>, NoiseError> {
        let recording = self.recording.as_mut().ok_or(NoiseError::OutOfTurn)?;
        if recording.spoiled {
            self.state = recording.rebuild()?;
        }
        let result = read(&mut self.state, message).and_then(|payload| Ok((payload, peer_key(&self.state)?)));
        // If the static key is forged, `snow` restores its state and has set no peer key.
        recording.spoiled = result == Err(NoiseError::Forged) && self.state.get_remote_static().is_some();
        let (payload, peer) = result?;
        self.peer = peer;
        Ok(payload)
    }

    /// True if the last message 3 had the genuine static key and a changed payload. The next one
    /// then costs two Diffie-Hellman operations and a key pair more, about 0.2 ms, so a caller
    /// limits how often it reads.
    pub fn is_spoiled(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.spoiled)
    }

    /// Returns the initiator's key, once a message proved that the initiator has its private key:
    /// message 1 of IK, message 3 of XX. Never in NK.
    pub fn peer(&self) -> Option<PublicKey> {
        self.peer
    }

    /// Returns the secrets of the connection.
    ///
    /// # Errors
    /// [`NoiseError::OutOfTurn`] before the last message.
    pub fn finish(self) -> Result<Secrets, NoiseError> {
        if self.is_spoiled() {
            return Err(NoiseError::OutOfTurn);
        }
        finish(self.state)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
