//! Static keys of X25519, their public halves, and secrets that two sides share beforehand.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::Entropy;
use crate::base32::{self, Base32Error};
use crate::schedule::prf;

/// Bytes of a private or public key.
const KEY_BYTES: usize = 32;
/// Bytes of SHA-256 after a public key in its text, which find 65,535 of 65,536 typing errors.
const CHECK_BYTES: usize = 2;
/// Characters of a fingerprint: 80 bits of the key.
const FINGERPRINT_CHARACTERS: usize = 16;
/// Least length of a shared secret, bytes.
const SECRET_MIN_BYTES: usize = 16;

/// Error of a key or secret, or of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not base32.
    #[error("no base32: {0}")]
    Base32(#[from] Base32Error),
    /// The text has another number of bytes than a key.
    #[error("{found} bytes where a key has {expected}: is the text complete?")]
    Length {
        /// Bytes that the text has.
        found: usize,
        /// Bytes that it needs.
        expected: usize,
    },
    /// The check bytes at the end of a public key do not fit.
    #[error("the check characters at the end do not fit: a character is wrong")]
    Check,
    /// The bytes are no public key of an X25519 private key: not reduced modulo 2^255 - 19, or a
    /// point of low order, with which every private key computes the same secret.
    #[error("no public key of X25519")]
    NoPoint,
    /// A shared secret is shorter than 16 bytes.
    #[error("a secret of {found} bytes; it needs at least {SECRET_MIN_BYTES} random bytes")]
    SecretTooShort {
        /// Bytes that the secret has.
        found: usize,
    },
    /// All bytes of a shared secret are equal.
    #[error("a secret of one repeated byte; it needs at least {SECRET_MIN_BYTES} random bytes")]
    SecretRepeats,
}

fn x25519(private: &[u8; KEY_BYTES]) -> Box<dyn Dh> {
    let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("snow is built with curve25519");
    dh.set(private);
    dh
}

/// Long-lived private key of X25519, with its public key. Erased from memory when dropped.
///
/// `snow` keeps copies of the key while a handshake runs and does not erase them.
pub struct StaticKey {
    private: Zeroizing<[u8; KEY_BYTES]>,
    public: PublicKey,
}

impl StaticKey {
    /// Draws a key.
    pub fn generate(entropy: &mut Entropy) -> Self {
        Self::from_bytes(entropy.array())
    }

    /// Takes a private key: any 32 bytes (RFC 7748, section 5). Computes the public key in 0.02 ms.
    pub fn from_bytes(private: [u8; KEY_BYTES]) -> Self {
        let mut public = [0; KEY_BYTES];
        public.copy_from_slice(x25519(&private).pubkey());
        Self { private: Zeroizing::new(private), public: PublicKey(public) }
    }

    /// Returns the bytes of the private key, to store them.
    pub fn to_bytes(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        self.private.clone()
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Derives a key for another use, such as resets: HMAC-SHA-256 of the label.
    pub(crate) fn derive(&self, label: &[u8]) -> Zeroizing<[u8; KEY_BYTES]> {
        prf(&*self.private, &[label])
    }

    /// Copies the key for a handshake that may have to be computed again.
    pub(crate) fn duplicate(&self) -> Self {
        Self { private: self.private.clone(), public: self.public }
    }

    pub(crate) fn private(&self) -> &[u8; KEY_BYTES] {
        &self.private
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Public key of X25519: the identity of a peer.
///
/// Its text has 55 characters of base32: the key and two check bytes. `Debug` gives the
/// fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// Takes the bytes of a key.
    ///
    /// # Errors
    /// [`KeyError::NoPoint`] for bytes that no private key has as its public key in this form. So a
    /// key has one form, and two keys that differ belong to different private keys.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Result<Self, KeyError> {
        if is_reduced(&bytes) && !has_low_order(&bytes) { Ok(Self(bytes)) } else { Err(KeyError::NoPoint) }
    }

    /// Returns the bytes of the key.
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Returns the first 16 characters of the text in groups of 4, for people to compare. A second
    /// key with the same fingerprint takes about 2^80 attempts.
    pub fn fingerprint(&self) -> String {
        let text = base32::encode(&self.0[..FINGERPRINT_CHARACTERS * 5 / 8]);
        [0, 4, 8, 12].map(|at| &text[at..at + 4]).join(" ")
    }

    fn check(key: &[u8]) -> [u8; CHECK_BYTES] {
        let hash = Sha256::new_with_prefix("rdt-key-1").chain_update(key).finalize();
        [hash[0], hash[1]]
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base32::encode(&[&self.0[..], &Self::check(&self.0)].concat()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = base32::decode(text)?;
        let length = KeyError::Length { found: bytes.len(), expected: KEY_BYTES + CHECK_BYTES };
        let (key, check) = bytes.split_first_chunk::<KEY_BYTES>().ok_or(length)?;
        if check.len() != CHECK_BYTES {
            return Err(length);
        }
        if check != Self::check(key) {
            return Err(KeyError::Check);
        }
        Self::from_bytes(*key)
    }
}

/// Returns whether the number, little-endian, is below the field's prime 2^255 - 19.
fn is_reduced(bytes: &[u8; KEY_BYTES]) -> bool {
    bytes[31] < 0x7f
        || bytes[31] == 0x7f && (bytes[0] < 0xed || bytes[1..31].iter().any(|&byte| byte != 0xff))
}

/// Points of order 8, one on the curve and one on its twist (<https://cr.yp.to/ecdh.html>).
const ORDER_8: [[u8; KEY_BYTES]; 2] = [
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
        0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04,
        0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
];

/// Returns whether a reduced key is 0, 1, -1 or a point of order 8. Only then the result of
/// Diffie-Hellman is zero, for all private keys, because X25519 makes each of them a multiple of 8
/// (RFC 7748, section 6.1). Public keys are no secrets, so this may end early.
fn has_low_order(bytes: &[u8; KEY_BYTES]) -> bool {
    let (first, last) = (bytes[0], bytes[KEY_BYTES - 1]);
    let middle_is = |value| bytes[1..KEY_BYTES - 1].iter().all(|byte| *byte == value);
    let is_zero_or_one = first <= 1 && middle_is(0) && last == 0;
    let is_minus_one = first == 0xec && middle_is(0xff) && last == 0x7f;
    is_zero_or_one || is_minus_one || ORDER_8.contains(bytes)
}

/// Secret that both sides know beforehand, from a file or a ticket. Erased from memory when
/// dropped.
///
/// It must be random. A captured handshake names its [`id`](Self::id), with which guesses of a
/// passphrase could be tested without asking a peer.
pub struct SharedSecret(Zeroizing<Vec<u8>>);

impl SharedSecret {
    /// Takes the bytes of a secret.
    ///
    /// # Errors
    /// [`KeyError::SecretTooShort`] below 16 bytes, [`KeyError::SecretRepeats`] for zeros and the
    /// like.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        if bytes.len() < SECRET_MIN_BYTES {
            return Err(KeyError::SecretTooShort { found: bytes.len() });
        }
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            return Err(KeyError::SecretRepeats);
        }
        Ok(Self(bytes.to_vec().into()))
    }

    /// Takes a secret whose length, at least 16 bytes, is known to the compiler.
    pub fn from_array<const N: usize>(bytes: &[u8; N]) -> Self {
        const { assert!(N >= SECRET_MIN_BYTES, "a secret needs at least 16 bytes") };
        Self(bytes.to_vec().into())
    }

    /// Returns the bytes of the secret, to store them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the number by which a responder finds the secret: the first 8 bytes of
    /// HMAC-SHA-256 of "rdt2 id", little-endian.
    pub fn id(&self) -> SecretId {
        let hash = prf(&self.0, &[b"rdt2 id"]);
        let id = u64::from_le_bytes(std::array::from_fn(|i| hash[i]));
        SecretId(id.max(1))
    }

    /// Returns the pre-shared key of the handshake: HMAC-SHA-256 of "rdt2 psk".
    pub fn psk(&self) -> Psk {
        Psk(prf(&self.0, &[b"rdt2 psk"]))
    }
}

impl PartialEq for SharedSecret {
    /// Takes a time that does not depend on the bytes.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

impl Eq for SharedSecret {}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedSecret({:?})", self.id())
    }
}

/// Public name of a [`SharedSecret`], sent in the clear. Never 0, which stands for "no secret".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretId(u64);

impl SecretId {
    /// Takes a number from a packet; `None` for 0.
    pub const fn from_wire(id: u64) -> Option<Self> {
        if id == 0 { None } else { Some(Self(id)) }
    }

    /// Returns the number for a packet.
    pub const fn to_wire(self) -> u64 {
        self.0
    }
}

/// Pre-shared key of a handshake, derived from a [`SharedSecret`]. Erased from memory when dropped.
#[derive(Clone)]
pub struct Psk(Zeroizing<[u8; 32]>);

impl Psk {
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    /// Alice of RFC 7748, section 6.1.
    fn alice() -> StaticKey {
        StaticKey::from_bytes(hex::array("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    }

    #[test]
    fn public_key_meets_rfc_vector() {
        let public = hex::array("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        assert_eq!(alice().public().as_bytes(), &public);
        assert_eq!(*StaticKey::from_bytes(*alice().to_bytes()).to_bytes(), *alice().to_bytes());
    }

    #[test]
    fn public_key_has_one_text() {
        let text = alice().public().to_string();
        assert_eq!(text, "quqpacmjgctvi5elpxolipxxlig36oqney4bv5hlusuy5ku3jzvd5na");
        assert_eq!(text.parse(), Ok(alice().public()));
        assert_eq!(text.to_uppercase().parse(), Ok(alice().public()));
        assert_eq!(alice().public().fingerprint(), "quqp acmj gctv i5el");
        assert_eq!(format!("{:?}", alice().public()), "PublicKey(quqp acmj gctv i5el)");
    }

    #[test]
    fn changed_characters_are_found() {
        let text = alice().public().to_string();
        for (i, found) in text.char_indices() {
            for digit in "abcdefghijklmnopqrstuvwxyz234567".chars().filter(|&digit| digit != found) {
                let changed = format!("{}{digit}{}", &text[..i], &text[i + 1..]);
                let error = changed.parse::<PublicKey>().unwrap_err();
                assert!(matches!(error, KeyError::Check | KeyError::Base32(_)), "{changed}: {error}");
            }
        }
        let error = |text: &str| text.parse::<PublicKey>().unwrap_err().to_string();
        assert_eq!(error(&text[..48]), "30 bytes where a key has 34: is the text complete?");
        assert_eq!(error(""), "0 bytes where a key has 34: is the text complete?");
        assert_eq!(
            error(&format!("{text}aaaaaaaa")[..56]),
            "35 bytes where a key has 34: is the text complete?"
        );
        assert_eq!(error("0"), "no base32: character 1 is '0'; allowed are a to z and 2 to 7");
    }

    /// All points of low order (<https://cr.yp.to/ecdh.html>, "validate") and their other forms.
    #[test]
    fn keys_of_low_order_are_refused() {
        let mut order_8 = hex::array("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800");
        let other = hex::array("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157");
        let mut one = [0; 32];
        one[0] = 1;
        assert!(PublicKey::from_bytes([1; 32]).is_ok() && PublicKey::from_bytes([0x7f; 32]).is_ok());
        let mut minus_one = [0xff; 32];
        (minus_one[0], minus_one[31]) = (0xec, 0x7f);
        for point in [[0; 32], one, minus_one, order_8, other] {
            let mut shared = [1; 32];
            x25519(&[8; 32]).dh(&point, &mut shared).unwrap();
            assert_eq!(shared, [0; 32], "{point:x?}");
            assert_eq!(PublicKey::from_bytes(point), Err(KeyError::NoPoint), "{point:x?}");
        }
        order_8[31] ^= 0x80;
        assert_eq!(PublicKey::from_bytes(order_8), Err(KeyError::NoPoint));
        order_8[31] ^= 0x81;
        assert!(PublicKey::from_bytes(order_8).is_ok(), "another point");
    }

    #[test]
    fn unreduced_keys_are_refused() {
        let mut nine = [0; 32];
        nine[0] = 9;
        assert!(PublicKey::from_bytes(nine).is_ok());
        nine[31] = 0x80;
        assert_eq!(PublicKey::from_bytes(nine), Err(KeyError::NoPoint), "bit 255, which X25519 ignores");
        let mut nine_more = [0xff; 32];
        (nine_more[0], nine_more[31]) = (0xed + 9, 0x7f);
        assert_eq!(PublicKey::from_bytes(nine_more), Err(KeyError::NoPoint), "9 + 2^255 - 19");
        nine_more[1] = 0xfe;
        assert!(PublicKey::from_bytes(nine_more).is_ok(), "below the prime");
    }

    #[test]
    fn secret_has_id_and_psk() {
        let secret = SharedSecret::new(b"sixteen bytes 16").unwrap();
        assert_eq!(secret.id().to_wire(), 0x959b_d6fc_b198_9343);
        assert_eq!(
            *secret.psk().bytes(),
            hex::array("6710b33677286ec9af9fb6120dabf3971206679abd2810d4fc2111a953c831c4")
        );
        assert_eq!(SecretId::from_wire(secret.id().to_wire()), Some(secret.id()));
        assert_eq!(SecretId::from_wire(0), None);
        assert_eq!(
            SharedSecret::new(&[0; 15]).unwrap_err().to_string(),
            "a secret of 15 bytes; it needs at least 16 random bytes"
        );
        assert_eq!(SharedSecret::new(&[0; 32]), Err(KeyError::SecretRepeats));
        assert_ne!(secret, SharedSecret::new(b"sixteen bytes 17").unwrap());
        assert_ne!(secret, SharedSecret::new(b"sixteen bytes 16 and more").unwrap());
    }

    #[test]
    fn private_parts_are_not_printed() {
        let printed = format!("{:?} {:?}", alice(), SharedSecret::from_array(&[9; 16]).psk());
        assert_eq!(printed, "StaticKey { public: PublicKey(quqp acmj gctv i5el), .. } Psk { .. }");
    }
}
