//! Choice of the library that implements the AEADs. On Linux there are two with the same interface.
//! Which one is faster depends on the processor.
//!
//! | packet of 1472 bytes, AES-128-GCM, sealed | aws-lc-rs | ring |
//! |---|---|---|
//! | Emerald Rapids, which has AVX-512 | 161 ns | 196 ns |
//! | Zen 3, which has VAES for vectors of 256 bits alone | 438 ns | 262 ns |

use super::{Aead, NONCE_BYTES};
use crate::Forged;

/// Library that implements the AEADs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    /// Its C code needs a C compiler for the target, which Rust links with on Linux anyway.
    #[cfg(target_os = "linux")]
    AwsLc,
    Ring,
}

impl Library {
    #[cfg(all(test, target_os = "linux"))]
    pub(super) const ALL: [Self; 2] = [Self::AwsLc, Self::Ring];
    #[cfg(all(test, not(target_os = "linux")))]
    pub(super) const ALL: [Self; 1] = [Self::Ring];

    /// Returns the faster library for this processor.
    pub(super) fn fastest() -> Self {
        // The condition under which aws-lc-rs uses AVX-512. It has no code for VAES without it.
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        if !(std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512dq")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("vaes")
            && std::arch::is_x86_feature_detected!("vpclmulqdq"))
        {
            return Self::Ring;
        }
        #[cfg(target_os = "linux")]
        return Self::AwsLc;
        #[cfg(not(target_os = "linux"))]
        return Self::Ring;
    }
}

/// Key of either library.
#[allow(clippy::large_enum_variant, reason = "a box would cost each packet an indirection")]
pub(super) enum Key {
    #[cfg(target_os = "linux")]
    AwsLc(aws_lc::Key),
    Ring(ring::Key),
}

impl Key {
    /// Creates a key; `None` for [`Aead::None`].
    pub(super) fn new(library: Library, aead: Aead, key: &[u8]) -> Option<Self> {
        match library {
            #[cfg(target_os = "linux")]
            Library::AwsLc => aws_lc::Key::new(aead, key).map(Self::AwsLc),
            Library::Ring => ring::Key::new(aead, key).map(Self::Ring),
        }
    }

    #[inline]
    pub(super) fn seal(&self, nonce: [u8; NONCE_BYTES], header: &[u8], body: &mut [u8], tag: &mut [u8]) {
        match self {
            #[cfg(target_os = "linux")]
            Self::AwsLc(key) => key.seal(nonce, header, body, tag),
            Self::Ring(key) => key.seal(nonce, header, body, tag),
        }
    }

    #[inline]
    pub(super) fn open<'a>(
        &self,
        nonce: [u8; NONCE_BYTES],
        header: &[u8],
        body: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        match self {
            #[cfg(target_os = "linux")]
            Self::AwsLc(key) => key.open(nonce, header, body),
            Self::Ring(key) => key.open(nonce, header, body),
        }
    }
}

/// Defines a key by the interface that both libraries have.
macro_rules! key_of {
    ($module:ident, $library:ident) => {
        mod $module {
            use ::$library::aead::{
                AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
            };

            use super::{Aead, Forged, NONCE_BYTES};

            pub(in super::super) struct Key(LessSafeKey);

            impl Key {
                pub(super) fn new(aead: Aead, key: &[u8]) -> Option<Self> {
                    let algorithm = match aead {
                        Aead::Aes128Gcm => &AES_128_GCM,
                        Aead::Aes256Gcm => &AES_256_GCM,
                        Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
                        Aead::None => return None,
                    };
                    let key = UnboundKey::new(algorithm, key).expect("the key has the algorithm's length");
                    Some(Self(LessSafeKey::new(key)))
                }

                #[inline]
                pub(super) fn seal(
                    &self,
                    nonce: [u8; NONCE_BYTES],
                    header: &[u8],
                    body: &mut [u8],
                    tag: &mut [u8],
                ) {
                    let nonce = Nonce::assume_unique_for_key(nonce);
                    let sealed = self.0.seal_in_place_separate_tag(nonce, Aad::from(header), body);
                    let sealed =
                        sealed.expect("a datagram is shorter than the limit of the algorithm, 64 GiB");
                    tag.copy_from_slice(sealed.as_ref());
                }

                #[inline]
                pub(super) fn open<'a>(
                    &self,
                    nonce: [u8; NONCE_BYTES],
                    header: &[u8],
                    body: &'a mut [u8],
                ) -> Result<&'a mut [u8], Forged> {
                    let nonce = Nonce::assume_unique_for_key(nonce);
                    self.0.open_in_place(nonce, Aad::from(header), body).map_err(|_| Forged)
                }
            }
        }
    };
}

#[cfg(target_os = "linux")]
key_of!(aws_lc, aws_lc_rs);
key_of!(ring, ring);
