//! Internal part of rdt: cryptography of native connections.
//!
//! `rdt-transport` builds connections on it. `docs/PROTOCOL.md`, N1 and N6, has the formats.
//!
//! The crate does no I/O, reads no clock and draws no random number. Times are arguments, and
//! randomness comes from an [`Entropy`] that the caller seeds. Equal seeds and calls give equal
//! bytes, which makes connections in virtual time reproducible.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | packet key | `aead.rs` | one key of one direction: seals and opens packets in place |
//! | traffic secret | `schedule.rs` | the secret behind a packet key, and the step to the next |
//! | association | `association.rs` | secret of two sides, for the keys of further connections |
//! | handshake | `noise.rs` | Noise XX, NK, IK, each with or without a pre-shared secret |
//! | entropy | `entropy.rs` | seeded random bytes |
//! | keys | `keys.rs`, `base32.rs` | static keys, public keys, shared secrets, and their text |
//! | tokens | `token.rs` | stateless resets; cookies that save a round trip later |
//! | replay window | `replay.rs` | packet numbers that were received |
//!
//! ```
//! use rdt_crypto::{Aead, Entropy, Initiator, Keys, Pattern, Responder, Space, StaticKey};
//!
//! let mut entropy = Entropy::from_seed([7; 32]); // of the operating system, in a program
//! let (ours, theirs) = (StaticKey::generate(&mut entropy), StaticKey::generate(&mut entropy));
//!
//! // IK: the initiator knows the key of the responder. Two messages.
//! let prologue = b"what both sides saw before";
//! let keys = Keys { local: Some(&ours), remote: Some(theirs.public()), psk: None };
//! let (mut initiator, first) =
//!     Initiator::start(Pattern::Ik, keys, prologue, entropy.child(), b"hello")?;
//! let keys = Keys { local: Some(&theirs), ..Keys::default() };
//! let (mut responder, hello) =
//!     Responder::accept(Pattern::Ik, keys, prologue, entropy.child(), &first)?;
//! let second = responder.write_second(b"welcome")?;
//! assert_eq!((&*hello, &*initiator.read_second(&second)?), (&b"hello"[..], &b"welcome"[..]));
//! assert_eq!(responder.peer(), Some(ours.public()));
//!
//! // Both sides have the same secrets, and so the same keys.
//! let (here, there) = (initiator.finish()?, responder.finish()?);
//! let sealing = here.from_initiator.packet_key(Aead::Aes128Gcm);
//! let opening = there.from_initiator.packet_key(Aead::Aes128Gcm);
//! let mut packet = *b"a header: 16 B. textroom for the tag";
//! sealing.seal(Space::Data, 0, &mut packet);
//! assert_eq!(opening.open(Space::Data, 0, &mut packet)?, b"text");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod aead;
mod association;
pub mod base32;
mod entropy;
mod keys;
mod noise;
mod replay;
mod schedule;
#[cfg(test)]
mod tests;
mod token;

pub use aead::{Aead, HEADER_BYTES, PacketKey, Space, TAG_BYTES, aes_hardware, crc32};
pub use association::{AssociatedSecrets, AssociationSecret};
pub use entropy::Entropy;
pub use keys::{KeyError, Psk, PublicKey, SecretId, SharedSecret, StaticKey};
pub use noise::{Initiator, Keys, NoiseError, Pattern, Responder};
pub use replay::{Received, ReplayWindow};
pub use schedule::{Secrets, TrafficSecret};
pub use token::{RESUMPTION_COOKIE_BYTES, ResetKey, ResetToken, ResumptionCookie, ResumptionJar};

/// Hidden hook of tests: not covered by semantic versioning.
#[doc(hidden)]
pub use aead::reused_nonces;

/// Error of a packet that was changed, cut, or sealed with another key, number or space. It says no
/// more on purpose: a reason would help only the one who changed the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the packet is not authentic")]
pub struct Forged;

/// Bytes of test vectors, from and to hexadecimal digits.
#[cfg(test)]
mod hex {
    pub(crate) fn decode(digits: &str) -> Vec<u8> {
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    pub(crate) fn array<const N: usize>(digits: &str) -> [u8; N] {
        decode(digits).try_into().unwrap()
    }
}
