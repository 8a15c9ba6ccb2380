//! Stateless cookies: a peer that returns its cookie has proved that it receives at its address. A
//! responder stores nothing for a peer before that (RFC 4987, section 3.6; RFC 9000, section 8.1).

use std::fmt;
use std::hash::Hasher;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Token of a RETRY that the next SYN repeats. Opaque to the sender.
pub(crate) type Cookie = [u8; 32];

/// HMAC key that issues and verifies cookies.
#[derive(Clone)]
pub struct CookieKey {
    /// Keyed with the secret; cloned for each cookie.
    mac: Hmac<Sha256>,
}

impl CookieKey {
    /// Length of a time slot, seconds. A cookie is valid in its slot and in the next: 15 to 30 s.
    pub const SLOT_S: u64 = 15;

    /// Uses this secret, which must be unpredictable. Receivers behind one address must share it.
    pub fn new(secret: [u8; 32]) -> Self {
        // Shorter keys are filled with zeros to the hash's block (RFC 2104, section 2).
        let mut block = [0; 64];
        block[..secret.len()].copy_from_slice(&secret);
        Self { mac: Hmac::new(&block.into()) }
    }

    /// Returns the cookie of a peer for a connection. `now_s` is in seconds since an epoch of the
    /// caller and never decreases; `peer` is the peer's address and port in bytes.
    pub fn issue(&self, now_s: u64, peer: &[u8], connection_id: u64) -> Cookie {
        self.mac_of(now_s / Self::SLOT_S, peer, connection_id).finalize().into_bytes().into()
    }

    /// True if [`issue`](Self::issue) made the cookie, or one that begins with it, for the same
    /// peer and connection in this slot or the one before. The comparison takes constant time.
    pub fn verify(&self, cookie: &[u8], now_s: u64, peer: &[u8], connection_id: u64) -> bool {
        let good = |slot| self.mac_of(slot, peer, connection_id).verify_truncated_left(cookie).is_ok();
        let slot = now_s / Self::SLOT_S;
        good(slot) || slot.checked_sub(1).is_some_and(good)
    }

    /// `peer` comes last because everything before it has a fixed length: different inputs give
    /// different bytes.
    fn mac_of(&self, slot: u64, peer: &[u8], connection_id: u64) -> Hmac<Sha256> {
        self.mac
            .clone()
            .chain_update(slot.to_le_bytes())
            .chain_update(connection_id.to_le_bytes())
            .chain_update(peer)
    }
}

/// Hasher that collects the bytes of a peer's address, for its cookie.
#[derive(Debug, Default)]
pub(crate) struct Address(pub(crate) Vec<u8>);

impl Hasher for Address {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns 0: the hash value is not used.
    fn finish(&self) -> u64 {
        0
    }
}

impl fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &[u8] = b"192.0.2.1:5000";
    const CID: u64 = 0x0807_0605_0403_0201;

    fn key() -> CookieKey {
        CookieKey::new(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    #[test]
    fn the_documented_cookie_is_made() {
        let document = include_str!("../vectors/protocol.txt");
        let (_, after) = document.split_once("Cookie, at 1000 s").unwrap();
        let hex = after.split('`').nth(3).unwrap();
        let bytes: Cookie = std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap());
        assert_eq!(key().issue(1000, PEER, CID), bytes);
        assert_eq!(hex.len(), 64);
    }

    #[test]
    fn cookie_is_valid_for_two_slots() {
        let key = key();
        for issued in [0, 14, 15, 1000, u64::MAX] {
            let cookie = key.issue(issued, PEER, CID);
            let slot = issued / CookieKey::SLOT_S;
            for now in issued.saturating_sub(40)..=issued.saturating_add(40) {
                let age = (now / CookieKey::SLOT_S).checked_sub(slot);
                let good = matches!(age, Some(0 | 1));
                assert_eq!(key.verify(&cookie, now, PEER, CID), good, "made at {issued}, checked at {now}");
            }
        }
    }

    #[test]
    fn a_cookie_is_good_for_nobody_else() {
        let key = key();
        let cookie = key.issue(1000, PEER, CID);
        assert!(key.verify(&cookie, 1000, PEER, CID));
        assert!(!key.verify(&cookie, 1000, b"192.0.2.1:5001", CID), "another port");
        assert!(!key.verify(&cookie, 1000, &PEER[1..], CID), "a part of the address");
        assert!(!key.verify(&cookie, 1000, PEER, CID + 1), "another connection");
        assert!(!CookieKey::new([0; 32]).verify(&cookie, 1000, PEER, CID), "another secret");
        for bit in 0..256 {
            let mut other = cookie;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verify(&other, 1000, PEER, CID), "bit {bit}");
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        assert_eq!(format!("{:?}", key()), "CookieKey { .. }");
    }
}
