//! Tokens: stateless resets, and cookies that save a round trip at the next connection.
//!
//! The cookie of a RETRY, which needs no key of a connection, is in `rdt-transport`.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::schedule::{keyed, prf};
use crate::{Entropy, StaticKey};

/// Makes the reset tokens of one side.
///
/// A token made from the static key is the same after a restart. So a program that lost its
/// connections can end those of its peers at once. Sockets that share a static key need different
/// scopes: a socket answers packets of unknown connections with their tokens, so it would tell an
/// attacker the tokens of the other one's connections (RFC 9000, section 21.11).
pub struct ResetKey(Zeroizing<[u8; 32]>);

impl ResetKey {
    /// Returns the scope of a socket: the first 8 bytes of the SHA-256 of its host, address and
    /// index as text, little-endian. `host` distinguishes hosts that share the static key and bind
    /// a wildcard address, `index` sockets that share the address (`SO_REUSEPORT`).
    pub fn scope(host: &str, local: SocketAddr, index: usize) -> u64 {
        let hash = Sha256::digest(format!("{host} {local} {index}"));
        u64::from_le_bytes(std::array::from_fn(|i| hash[i]))
    }

    /// Derives the key: HMAC-SHA-256 of "rdt2 reset" by the static key, then of the scope by that.
    pub fn of(key: &StaticKey, scope: u64) -> Self {
        let of_identity = key.derive(b"rdt2 reset");
        Self(prf(&*of_identity, &[&scope.to_le_bytes()]))
    }

    /// Draws a key, for a side without a static key. Its tokens do not outlive the program.
    pub fn generate(entropy: &mut Entropy) -> Self {
        Self(Zeroizing::new(entropy.array()))
    }

    /// Returns a connection's token: the first 16 bytes of HMAC-SHA-256 of its ID, little-endian.
    pub fn token(&self, connection_id: u64) -> ResetToken {
        let hash = prf(&*self.0, &[&connection_id.to_le_bytes()]);
        ResetToken(std::array::from_fn(|i| hash[i]))
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetKey").finish_non_exhaustive()
    }
}

/// Token that a peer learns in the handshake and accepts later as the end of the connection.
/// Comparisons take constant time.
#[derive(Clone, Copy, Eq)]
pub struct ResetToken([u8; 16]);

impl ResetToken {
    /// Returns the token of a side that has forgotten the handshake before it was complete, so that
    /// nothing can have arrived: the first 16 bytes of HMAC-SHA-256 of "rdt2 half-open" under this
    /// token.
    #[must_use]
    pub fn of_half_open(&self) -> Self {
        let hash = prf(&self.0, &[b"rdt2 half-open"]);
        Self(std::array::from_fn(|i| hash[i]))
    }

    /// Takes the bytes of a packet.
    pub const fn from_wire(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes for a packet.
    pub const fn to_wire(self) -> [u8; 16] {
        self.0
    }
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetToken").finish_non_exhaustive()
    }
}

/// Bytes of a resumption cookie: issue time in seconds, random number, HMAC of both and address.
pub const RESUMPTION_COOKIE_BYTES: usize = 48;
/// Resumption cookie in a packet. Opaque to the initiator.
pub type ResumptionCookie = [u8; RESUMPTION_COOKIE_BYTES];

/// Makes resumption cookies, and takes each of them once.
///
/// An initiator that returns its cookie has proved that it received at its address before. Its
/// first message needs no RETRY then. The key comes from the static key, so cookies outlive the
/// program. The memory of used cookies does not: after a restart a cookie may be used once more,
/// which costs the responder one handshake.
pub struct ResumptionJar {
    mac: Hmac<Sha256>,
    /// Random numbers of used cookies, by the parity of the period in which they were issued.
    used: [BTreeSet<u64>; 2],
    /// Latest period in which a cookie was made or returned.
    period: u64,
}

impl ResumptionJar {
    /// Length of a period, seconds. A cookie is valid in its period and in the next: 12 to 24 h.
    const PERIOD_S: u64 = 12 * 3600;
    /// Used cookies that are remembered for each period, about 1 MiB. Further ones are refused, so
    /// their initiators are asked to prove their address as usual.
    const MAX_USED: usize = 1 << 15;

    /// Derives the jar's key from a static key: HMAC-SHA-256 of "rdt2 resume".
    pub fn new(key: &StaticKey) -> Self {
        let mac = keyed(&*key.derive(b"rdt2 resume"), &[]);
        Self { mac, used: [BTreeSet::new(), BTreeSet::new()], period: 0 }
    }

    /// Returns a cookie for a peer that has proved its address. `now_s` is the time in seconds
    /// since 1970, because a cookie may be returned to a later run of the program. Port and IPv6
    /// interface (the low 64 bits) do not count.
    pub fn issue(&mut self, now_s: u64, address: IpAddr, entropy: &mut Entropy) -> ResumptionCookie {
        let random = u64::from_le_bytes(entropy.array());
        let mut cookie = [0; RESUMPTION_COOKIE_BYTES];
        cookie[..8].copy_from_slice(&now_s.to_le_bytes());
        cookie[8..16].copy_from_slice(&random.to_le_bytes());
        let mac = self.mac_of(&cookie[..16], address).finalize().into_bytes();
        cookie[16..].copy_from_slice(&mac);
        cookie
    }

    /// Takes a cookie. True once for each cookie that [`issue`](Self::issue) made for this address
    /// in this period or the one before. `now_s` as there.
    pub fn redeem(&mut self, cookie: &ResumptionCookie, now_s: u64, address: IpAddr) -> bool {
        if self.mac_of(&cookie[..16], address).verify_slice(&cookie[16..]).is_err() {
            return false;
        }
        let [issued_s, random] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| cookie[at + i])));
        let issued = issued_s / Self::PERIOD_S;
        let now = now_s / Self::PERIOD_S;
        self.forget_before(now);
        // A clock that was set back must not bring back what was forgotten.
        if issued > now || issued + 1 < now.max(self.period) {
            return false;
        }
        let used = &mut self.used[(issued % 2) as usize];
        used.len() < Self::MAX_USED && used.insert(random)
    }

    /// Begins a period in the set of the period before the last one, whose cookies have expired.
    fn forget_before(&mut self, now: u64) {
        while self.period < now {
            // After a pause of two periods or more, both sets are old.
            self.period = if self.period + 2 < now { now - 2 } else { self.period };
            self.period += 1;
            self.used[(self.period % 2) as usize].clear();
        }
    }

    /// The address comes last, with 4 bytes or 8: what precedes it has a fixed length.
    fn mac_of(&self, clear: &[u8], address: IpAddr) -> Hmac<Sha256> {
        let mac = self.mac.clone().chain_update(b"r2").chain_update(clear);
        match address.to_canonical() {
            IpAddr::V4(address) => mac.chain_update(address.octets()),
            IpAddr::V6(address) => mac.chain_update(&address.octets()[..8]),
        }
    }
}

impl fmt::Debug for ResumptionJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.used[0].len() + self.used[1].len();
        f.debug_struct("ResumptionJar").field("used", &used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    const PERIOD_S: u64 = ResumptionJar::PERIOD_S;
    const NOW_S: u64 = 40_000 * PERIOD_S;

    fn key() -> StaticKey {
        StaticKey::from_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A jar, and a function that makes cookies for 192.0.2.1.
    fn jar() -> (ResumptionJar, impl FnMut(&mut ResumptionJar, u64) -> ResumptionCookie) {
        let mut entropy = Entropy::from_seed([1; 32]);
        (ResumptionJar::new(&key()), move |jar, now_s| jar.issue(now_s, address("192.0.2.1"), &mut entropy))
    }

    /// Computed with Python's `hmac`: static key 00 to 1f, scope 22345, id 0x0807060504030201.
    #[test]
    fn reset_token_meets_its_vector() {
        let token = ResetKey::of(&key(), 22_345).token(0x0807_0605_0403_0201);
        assert_eq!(token.to_wire(), hex::array("25df0150fe8167d39c55317e2f711e9e"));
        assert_eq!(ResetToken::from_wire(token.to_wire()), token);
        assert_ne!(ResetKey::of(&key(), 22_345).token(1), token);
        assert_ne!(ResetKey::of(&key(), 22_346).token(0x0807_0605_0403_0201), token);
        assert_ne!(ResetKey::generate(&mut Entropy::from_seed([1; 32])).token(0x0807_0605_0403_0201), token);
    }

    /// Computed with Python's `hmac`: time 1,728,000,000 s, the first 8 bytes of the entropy.
    #[test]
    fn cookie_meets_its_vector() {
        let (mut jar, mut issue) = jar();
        assert_eq!(
            issue(&mut jar, NOW_S),
            hex::array(
                "0030ff6600000000953a64d0163d0ece558d4ea8181b06f5c9f4129e34332b477962ba42be86d355abfc6470203db05a"
            )
        );
    }

    #[test]
    fn cookie_is_taken_once() {
        let (mut jar, mut issue) = jar();
        let [one, other] = [(); 2].map(|()| issue(&mut jar, NOW_S));
        assert!(jar.redeem(&one, NOW_S, address("192.0.2.1")));
        assert!(!jar.redeem(&one, NOW_S, address("192.0.2.1")));
        assert!(!jar.redeem(&one, NOW_S + 2 * PERIOD_S - 1, address("192.0.2.1")));
        assert!(jar.redeem(&other, NOW_S, address("::ffff:192.0.2.1")), "the same address in IPv6");
    }

    #[test]
    fn cookie_is_valid_for_two_periods() {
        for age in
            [0, 1, PERIOD_S - 1, PERIOD_S, 2 * PERIOD_S - 1, 2 * PERIOD_S, 9 * PERIOD_S, u64::MAX - NOW_S]
        {
            let (mut jar, mut issue) = jar();
            let cookie = issue(&mut jar, NOW_S);
            let good = age < 2 * PERIOD_S;
            assert_eq!(jar.redeem(&cookie, NOW_S + age, address("192.0.2.1")), good, "{age} s old");
            // It stays used, whatever the clock says next.
            for back in [NOW_S, NOW_S + PERIOD_S] {
                assert!(age < PERIOD_S || !jar.redeem(&cookie, back, address("192.0.2.1")), "{age} s old");
            }
        }
        let (mut jar, mut issue) = jar();
        let future = issue(&mut jar, NOW_S + PERIOD_S);
        assert!(!jar.redeem(&future, NOW_S, address("192.0.2.1")));
    }

    /// A cookie may be used at each moment of its validity; each later use is refused.
    #[test]
    fn used_cookies_are_remembered_until_they_expire() {
        for used_at in (0..2 * PERIOD_S).step_by(3600) {
            let (mut jar, mut issue) = jar();
            let cookie = issue(&mut jar, NOW_S);
            assert!(jar.redeem(&cookie, NOW_S + used_at, address("192.0.2.1")));
            for later in (used_at..4 * PERIOD_S).step_by(1800) {
                let fresh = issue(&mut jar, NOW_S + later);
                assert!(jar.redeem(&fresh, NOW_S + later, address("192.0.2.1")));
                assert!(!jar.redeem(&cookie, NOW_S + later, address("192.0.2.1")), "{used_at} {later}");
            }
        }
    }

    #[test]
    fn cookie_is_bound_to_address_and_key() {
        let (mut jar, mut issue) = jar();
        let cookie = issue(&mut jar, NOW_S);
        for other in ["192.0.2.2", "2001:db8::1", "c000:201::"] {
            assert!(!jar.redeem(&cookie, NOW_S, address(other)), "{other}");
        }
        assert!(!ResumptionJar::new(&StaticKey::from_bytes([1; 32])).redeem(
            &cookie,
            NOW_S,
            address("192.0.2.1")
        ));
        for bit in 0..cookie.len() * 8 {
            let mut changed = cookie;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!jar.redeem(&changed, NOW_S, address("192.0.2.1")), "bit {bit}");
        }
        assert!(jar.redeem(&cookie, NOW_S, address("192.0.2.1")));
        let cookie = jar.issue(NOW_S, address("2001:db8::1"), &mut Entropy::from_seed([2; 32]));
        assert!(!jar.redeem(&cookie, NOW_S, address("2001:db8:0:1::1")), "another network");
        assert!(jar.redeem(&cookie, NOW_S, address("2001:db8::ffff")), "another interface");
    }

    #[test]
    fn full_memory_refuses_cookies() {
        let (mut jar, mut issue) = jar();
        for _ in 0..ResumptionJar::MAX_USED {
            let cookie = issue(&mut jar, NOW_S);
            assert!(jar.redeem(&cookie, NOW_S, address("192.0.2.1")));
        }
        let cookie = issue(&mut jar, NOW_S);
        assert!(!jar.redeem(&cookie, NOW_S, address("192.0.2.1")));
        let next = issue(&mut jar, NOW_S + PERIOD_S);
        assert!(jar.redeem(&next, NOW_S + PERIOD_S, address("192.0.2.1")), "the next period has room");
    }

    #[test]
    fn secrets_are_not_printed() {
        let key = ResetKey::of(&key(), 0);
        let printed = format!("{key:?} {:?} {:?}", key.token(1), jar().0);
        assert_eq!(printed, "ResetKey { .. } ResetToken { .. } ResumptionJar { used: 0, .. }");
    }
}
