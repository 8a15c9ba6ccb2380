//! Key schedule: from the secrets of a handshake to packet keys, and from each key to the next.
//!
//! With H(key, label) = HMAC-SHA-256, n counting the key updates of a direction from 0, and
//! secret 0 from the handshake:
//!
//! | value | derived as |
//! |---|---|
//! | key n | H(secret n, "rdt2 key"), the first 16 or 32 bytes; no byte without encryption |
//! | vector n | H(secret n, "rdt2 iv"), the first 12 bytes |
//! | secret n + 1 | H(secret n, "rdt2 next") |

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{Aead, PacketKey};

/// Returns HMAC-SHA-256 of the parts, one after the other. `key` has any length.
pub(crate) fn prf(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(keyed(key, parts).finalize().into_bytes().into())
}

/// Returns the state of HMAC-SHA-256 after the parts, to check a result in constant time.
pub(crate) fn keyed(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().fold(mac, Mac::chain_update)
}

/// Secret of one direction between two key updates. Erased from memory when dropped.
///
/// Drop it as soon as [`next`](Self::next) was called: a later copy of the memory cannot decrypt
/// packets of earlier keys then (forward secrecy).
pub struct TrafficSecret(Zeroizing<[u8; 32]>);

impl TrafficSecret {
    /// Takes the secret of a direction from a handshake.
    pub fn new(secret: [u8; 32]) -> Self {
        Self(Zeroizing::new(secret))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Derives the packet key of this secret: two HMACs, then an allocating key setup of 0.12 us.
    pub fn packet_key(&self, aead: Aead) -> PacketKey {
        let key = prf(&*self.0, &[b"rdt2 key"]);
        let vector = prf(&*self.0, &[b"rdt2 iv"]);
        let iv = std::array::from_fn(|i| vector[i]);
        PacketKey::new(aead, &key[..aead.key_bytes()], iv)
    }

    /// Derives the secret after the next key update.
    #[must_use]
    pub fn next(&self) -> Self {
        Self(prf(&*self.0, &[b"rdt2 next"]))
    }
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficSecret").finish_non_exhaustive()
    }
}

/// Result of a handshake, equal on both sides.
#[derive(Debug)]
pub struct Secrets {
    /// Protects packets that the initiator sends.
    pub from_initiator: TrafficSecret,
    /// Protects packets that the responder sends.
    pub from_responder: TrafficSecret,
    /// Hash of all handshake messages and the prologue: names the connection, and is no secret.
    pub handshake_hash: [u8; 32],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Space, hex};

    /// RFC 4231, test cases 2 and 3.
    #[test]
    fn hmac_meets_rfc_vectors() {
        assert_eq!(
            *prf(b"Jefe", &[b"what do ya want ", b"for nothing?"]),
            hex::array("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        );
        assert_eq!(
            *prf(&[0xaa; 20], &[&[0xdd; 50]]),
            hex::array("773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe")
        );
    }

    /// Computed with Python's `hmac` and `zlib`, and the packets with its `cryptography` package.
    #[test]
    fn schedule_meets_its_vector() {
        let secret = TrafficSecret::new(std::array::from_fn(|i| u8::try_from(i).unwrap()));
        assert_eq!(
            *secret.next().0,
            hex::array("152c2ec644e6e3b945a9c27b7eb39b1e386798a40dcf9e3374176b5075be0c53")
        );
        for (aead, expected) in Aead::ALL.into_iter().zip([
            "cf7e3320e5a426c68980645fcf0e59ac3c3f6d736f250156d077419ec43ea481",
            "1222cbbcbef8c46aa6a4d8bd494aefb2e023506ff92ac1bab2154bdd9530a2c2",
            "adf8d66ce35aac3ab5b2a7a9896efa2b1ff035acc8a257db93270c097b1109df",
            "74657874206f6620313620627974657335ce92e6000000000000000000000000",
        ]) {
            let mut packet = [*b"header, 16 bytes", *b"text of 16 bytes", [0; 16]].concat();
            secret.packet_key(aead).seal(Space::Control, 258, &mut packet);
            assert_eq!(packet[16..], hex::decode(expected), "{aead:?}");
        }
    }

    #[test]
    fn each_update_changes_the_key() {
        let first = TrafficSecret::new([1; 32]);
        let second = first.next();
        let mut packet = [7; 64];
        first.packet_key(Aead::Aes128Gcm).seal(Space::Data, 0, &mut packet);
        assert!(second.packet_key(Aead::Aes128Gcm).open(Space::Data, 0, &mut packet.clone()).is_err());
        assert_ne!(*second.next().0, *second.0);
        assert!(first.packet_key(Aead::Aes128Gcm).open(Space::Data, 0, &mut packet).is_ok());
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", TrafficSecret::new([0x5a; 32])), "TrafficSecret { .. }");
    }
}
