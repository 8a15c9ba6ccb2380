//! Cryptography of encrypted connections: version 2 of the native format.
//!
//! Nothing in this workspace uses the crate yet: `rdt-send` and `rdt-recv` speak version 1, which
//! is neither encrypted nor authenticated. The crate is complete by itself, so that version 2 can
//! be built on it.
//!
//! The crate does no I/O, reads no clock and draws no random number. Times are arguments, and
//! randomness comes from an [`Entropy`] that the caller seeds. Equal seeds and calls give equal
//! bytes, which makes connections in virtual time reproducible.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | packet key | `aead.rs` | one key of one direction: seals and opens packets in place |
//! | traffic secret | `schedule.rs` | the secret behind a packet key, and the step to the next |
//! | entropy | `entropy.rs` | seeded random bytes |
//! | keys | `keys.rs`, `base32.rs` | static keys, public keys, shared secrets, and their text |
//! | tokens | `token.rs` | stateless resets; cookies that save a round trip later |
#![forbid(unsafe_code)]

mod aead;
pub mod base32;
mod entropy;
mod keys;
mod schedule;
mod token;

pub use aead::{Aead, HEADER_BYTES, PacketKey, Space, TAG_BYTES, aes_hardware};
pub use entropy::Entropy;
pub use keys::{KeyError, Psk, PublicKey, SecretId, SharedSecret, StaticKey};
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
