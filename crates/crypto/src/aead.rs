//! Packet protection by an AEAD (authenticated encryption with associated data, RFC 5116).
//!
//! A sealed packet has a clear header of 16 bytes, which are the associated data, then the sealed
//! body, then the tag of 16 bytes. Sealing and opening happen in place and allocate nothing.

mod checksum;

use std::fmt;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use crate::Forged;
pub use checksum::crc32;

/// Bytes of the clear header at the start of a sealed packet. All of them are authenticated.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the tag at the end of a sealed packet.
pub const TAG_BYTES: usize = 16;
/// Bytes of a nonce, for all algorithms that encrypt.
const NONCE_BYTES: usize = 12;

/// AEAD algorithm. The discriminant is its number in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-128 in Galois/counter mode: the fastest where the processor has AES instructions.
    Aes128Gcm = 1,
    /// AES-256 in Galois/counter mode: takes about 11 % longer than AES-128.
    Aes256Gcm = 2,
    /// ChaCha20-Poly1305 (RFC 8439): the fastest on processors without AES instructions. With them
    /// it has a quarter to a third of the speed of AES-128-GCM.
    ChaCha20Poly1305 = 3,
    /// No encryption and no authentication: the tag is a CRC-32 of header and body, and 12 zeros.
    /// It finds every damage of up to 3 bits in packets up to 11 KiB, and all but one of 2^32
    /// others, but stops no attacker. For teaching, simulations and measurements.
    None = 4,
}

impl Aead {
    /// All algorithms, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::None];

    /// Returns the algorithm with this number in the handshake, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|aead| *aead as u8 == number)
    }

    /// Returns the name in options, logs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::None => "none",
        }
    }

    /// Returns whether packets are encrypted and authenticated: false for [`Self::None`] alone.
    pub const fn is_encrypted(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the length of a key in bytes: 16 or 32; 0 without encryption.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
            Self::None => 0,
        }
    }
}

/// Returns whether this processor has instructions for AES and for the multiplication of GCM.
/// Where one side of a connection lacks them, ChaCha20-Poly1305 is faster.
pub fn aes_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes"); // PMULL, too
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Number space of packets. Each direction counts the packets of each space from 0 and never starts
/// again, not even with a new key. The space is part of the nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Packets that carry the stream and are retransmitted when lost: data, end of stream.
    Data = 0,
    /// All other packets: acknowledgements, close, checks of a path.
    Control = 1,
}

/// Key of one direction for one key phase. Seals packets at the sender, opens them at the receiver.
pub struct PacketKey {
    /// `None` without encryption.
    key: Option<LessSafeKey>,
    iv: [u8; NONCE_BYTES],
    #[cfg(debug_assertions)]
    sealed: SealedNumbers,
}

impl PacketKey {
    /// Creates a key from its bytes and the vector that masks the nonces. Connections use
    /// [`TrafficSecret::packet_key`](crate::TrafficSecret::packet_key); this function is for test
    /// vectors and benches.
    ///
    /// # Panics
    /// If `key` has another length than [`Aead::key_bytes`].
    pub fn new(aead: Aead, key: &[u8], iv: [u8; NONCE_BYTES]) -> Self {
        let algorithm = match aead {
            Aead::Aes128Gcm => Some(&AES_128_GCM),
            Aead::Aes256Gcm => Some(&AES_256_GCM),
            Aead::ChaCha20Poly1305 => Some(&CHACHA20_POLY1305),
            Aead::None => None,
        };
        let key = algorithm
            .map(|algorithm| UnboundKey::new(algorithm, key).expect("the key has the algorithm's length"));
        Self {
            key: key.map(LessSafeKey::new),
            iv,
            #[cfg(debug_assertions)]
            sealed: SealedNumbers::default(),
        }
    }

    /// Seals a packet in place: 16 bytes of clear header, the plaintext, 16 bytes of room for the
    /// tag.
    ///
    /// The numbers of a space must ascend: two packets under one number would give away both
    /// plaintexts and the key of the tags. Debug builds check the order.
    ///
    /// # Panics
    /// If `packet` has less than 32 bytes, and in debug builds if `number` does not ascend.
    #[inline]
    pub fn seal(&self, space: Space, number: u64, packet: &mut [u8]) {
        #[cfg(debug_assertions)]
        self.sealed.take(space, number);
        let Some(key) = &self.key else { return checksum::seal(packet) };
        let (header, rest) = packet.split_at_mut(HEADER_BYTES);
        let (body, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let nonce = Nonce::assume_unique_for_key(self.nonce(space, number));
        let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(header), body);
        let sealed = sealed.expect("a datagram is shorter than the limit of the algorithm, 64 GiB");
        tag.copy_from_slice(sealed.as_ref());
    }

    /// Opens a packet in place and returns its plaintext.
    ///
    /// # Errors
    /// [`Forged`] if the packet has less than 32 bytes or its tag is wrong. The body's contents are
    /// undefined then, so no other key can be tried on the same bytes.
    #[inline]
    pub fn open<'a>(&self, space: Space, number: u64, packet: &'a mut [u8]) -> Result<&'a mut [u8], Forged> {
        let Some(key) = &self.key else { return checksum::open(packet) };
        let (header, body) = packet.split_at_mut_checked(HEADER_BYTES).ok_or(Forged)?;
        let nonce = Nonce::assume_unique_for_key(self.nonce(space, number));
        key.open_in_place(nonce, Aad::from(header), body).map_err(|_| Forged)
    }

    /// Returns the nonce: the vector, masked with the space in byte 0 and the number in bytes 4
    /// to 11, little-endian.
    #[inline]
    fn nonce(&self, space: Space, number: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        nonce[0] ^= space as u8;
        for (byte, mask) in nonce[4..].iter_mut().zip(number.to_le_bytes()) {
            *byte ^= mask;
        }
        nonce
    }
}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketKey").finish_non_exhaustive()
    }
}

/// Violations of the order of numbers since the start of the process.
#[cfg(debug_assertions)]
static REUSED_NONCES: AtomicU64 = AtomicU64::new(0);

/// Returns how often [`PacketKey::seal`] was asked for a number that did not ascend, by any key of
/// this process. Tests of whole connections read it, because a thread may hide a panic. Always 0 in
/// release builds, which do not check.
#[doc(hidden)]
pub fn reused_nonces() -> u64 {
    #[cfg(debug_assertions)]
    return REUSED_NONCES.load(Relaxed);
    #[cfg(not(debug_assertions))]
    return 0;
}

/// Least number that each space may use next.
#[cfg(debug_assertions)]
#[derive(Default)]
struct SealedNumbers {
    next: [AtomicU64; 2],
}

#[cfg(debug_assertions)]
impl SealedNumbers {
    fn take(&self, space: Space, number: u64) {
        let next = self.next[space as usize].fetch_max(number.saturating_add(1), Relaxed);
        if number < next {
            REUSED_NONCES.fetch_add(1, Relaxed);
            panic!("packet {number} of {space:?} was sealed after packet {}: nonce reuse", next - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    fn key(aead: Aead) -> PacketKey {
        PacketKey::new(aead, &[0x5a; 32][..aead.key_bytes()], [9; NONCE_BYTES])
    }

    fn packet(payload: usize) -> Vec<u8> {
        (0..HEADER_BYTES + payload + TAG_BYTES).map(|i| u8::try_from(i % 251).unwrap()).collect()
    }

    /// Reads a column of the vectors, in which `-` stands for no bytes.
    fn column(text: &str) -> Vec<u8> {
        hex::decode(text.trim_start_matches('-'))
    }

    #[test]
    fn published_vectors_are_met() {
        let mut counts = [0; 2];
        let vectors = include_str!("../vectors/aead.txt");
        for line in vectors.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<_> = line.split(' ').collect();
            let &[name, _, result, ref values @ ..] = &columns[..] else { panic!("{line}") };
            let aead = match name {
                "aes128" => Aead::Aes128Gcm,
                "aes256" => Aead::Aes256Gcm,
                _ => Aead::ChaCha20Poly1305,
            };
            let [key, nonce, header, plain, sealed, tag] = [0, 1, 2, 3, 4, 5].map(|i| column(values[i]));
            let nonce: [u8; NONCE_BYTES] = nonce.try_into().unwrap();
            let good = result == "valid";
            let key = PacketKey::new(aead, &key, nonce).key.unwrap();
            let nonce = || Nonce::assume_unique_for_key(nonce);
            let mut body = plain.clone();
            let made = key.seal_in_place_separate_tag(nonce(), Aad::from(&header), &mut body).unwrap();
            assert_eq!((&body, made.as_ref() == tag), (&sealed, good), "{line}");
            let mut body = [sealed.clone(), tag.clone()].concat();
            let opened = key.open_in_place(nonce(), Aad::from(&header), &mut body);
            assert_eq!(opened.is_ok_and(|text| text == plain), good, "{line}");
            counts[usize::from(good)] += 1;
        }
        assert_eq!(counts, [114, 116], "invalid and valid vectors");
    }

    /// A vector of Wycheproof whose associated data have the length of a header, as a packet: with
    /// space and number 0 the nonce is the vector that masks it.
    #[test]
    fn packet_layout_is_header_body_tag() {
        let vectors = include_str!("../vectors/aead.txt");
        let mut met = 0;
        for line in vectors.lines().filter(|line| line.starts_with("chacha20") && line.contains(" valid ")) {
            let columns: Vec<_> = line.split(' ').collect();
            let [key, nonce, header, plain, sealed, tag] = [3, 4, 5, 6, 7, 8].map(|i| column(columns[i]));
            if header.len() != HEADER_BYTES {
                continue;
            }
            let key = PacketKey::new(Aead::ChaCha20Poly1305, &key, nonce.try_into().unwrap());
            let mut packet = [&header[..], &plain, &[0; TAG_BYTES]].concat();
            key.seal(Space::Data, 0, &mut packet);
            assert_eq!(packet, [header, sealed, tag].concat(), "{line}");
            assert_eq!(key.open(Space::Data, 0, &mut packet).unwrap(), plain);
            met += 1;
        }
        assert!(met > 10, "{met} vectors");
    }

    #[test]
    fn nonce_has_space_and_number() {
        let key = PacketKey::new(Aead::Aes128Gcm, &[0; 16], [0xff; NONCE_BYTES]);
        let nonce = key.nonce(Space::Control, 0x0807_0605_0403_0201);
        assert_eq!(nonce, [0xfe, 0xff, 0xff, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf7]);
        assert_eq!(key.nonce(Space::Data, 0), [0xff; NONCE_BYTES]);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for aead in Aead::ALL {
            let key = key(aead);
            let mut sealed = packet(40);
            key.seal(Space::Data, 3, &mut sealed);
            for bit in 0..sealed.len() * 8 {
                let mut changed = sealed.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.open(Space::Data, 3, &mut changed), Err(Forged), "{aead:?}, bit {bit}");
            }
            for (space, number) in [(Space::Control, 3), (Space::Data, 2), (Space::Data, 3 + (1 << 32))] {
                // Without encryption, only the header tells packets apart.
                let opened = key.open(space, number, &mut sealed.clone()).is_ok();
                assert_eq!(opened, !aead.is_encrypted(), "{aead:?} {space:?} {number}");
            }
            assert_eq!(key.open(Space::Data, 3, &mut sealed).unwrap(), &packet(40)[HEADER_BYTES..][..40]);
        }
    }

    #[test]
    fn short_packets_are_forged() {
        for aead in Aead::ALL {
            let key = key(aead);
            for length in 0..HEADER_BYTES + TAG_BYTES {
                assert_eq!(key.open(Space::Data, 0, &mut vec![0; length]), Err(Forged), "{length} bytes");
            }
            let mut empty = packet(0);
            key.seal(Space::Data, 0, &mut empty);
            assert_eq!(key.open(Space::Data, 0, &mut empty).unwrap(), b"");
        }
    }

    #[test]
    fn largest_datagram_is_sealed() {
        for aead in Aead::ALL {
            let mut largest = packet(65_507 - HEADER_BYTES - TAG_BYTES);
            let plain = largest.clone();
            key(aead).seal(Space::Data, u64::MAX, &mut largest);
            let opened = key(aead).open(Space::Data, u64::MAX, &mut largest).unwrap().to_vec();
            assert_eq!(opened, plain[HEADER_BYTES..plain.len() - TAG_BYTES]);
        }
    }

    #[cfg(debug_assertions)]
    #[test]
    fn reused_numbers_panic_and_are_counted() {
        let key = key(Aead::Aes128Gcm);
        key.seal(Space::Data, 5, &mut packet(8));
        key.seal(Space::Control, 5, &mut packet(8));
        let before = reused_nonces();
        for number in [5, 4, 0] {
            let again = std::panic::AssertUnwindSafe(|| key.seal(Space::Data, number, &mut packet(8)));
            assert!(std::panic::catch_unwind(again).is_err(), "{number}");
        }
        assert_eq!(reused_nonces() - before, 3);
        key.seal(Space::Data, 6, &mut packet(8));
    }

    #[test]
    fn algorithms_keep_their_numbers() {
        for (number, name) in (1..).zip(["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "none"]) {
            assert_eq!(Aead::from_number(number).map(Aead::name), Some(name));
        }
        assert_eq!([0, 5, 255].map(Aead::from_number), [None; 3]);
    }

    #[test]
    fn key_is_not_printed() {
        assert_eq!(format!("{:?}", key(Aead::Aes256Gcm)), "PacketKey { .. }");
    }
}
