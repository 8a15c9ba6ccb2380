//! CRC-32 of classic streams, and of handshake packets. libdeflate is the fastest library at the
//! size of packets (docs/measurements/2026-11-22-crc32.md).

use std::fmt;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use libdeflater::Crc as Register;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use portable::Register;

/// Incremental CRC-32 (IEEE 802.3).
pub(crate) struct Crc32(Register);

impl Crc32 {
    pub(crate) fn new() -> Self {
        Self(Register::new())
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn sum(&self) -> u32 {
        self.0.sum()
    }
}

impl fmt::Debug for Crc32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crc32({:08x})", self.sum())
    }
}

/// Implementation in Rust, for platforms where libdeflate was not measured.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod portable {
    use std::sync::LazyLock;

    use crc32fast::Hasher;

    /// Initial state. Its construction detects CPU features, which costs as much as 200 bytes.
    static EMPTY: LazyLock<Hasher> = LazyLock::new(Hasher::new);

    pub(super) struct Register(Hasher);

    impl Register {
        pub(super) fn new() -> Self {
            Self(EMPTY.clone())
        }

        pub(super) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(super) fn sum(&self) -> u32 {
            self.0.clone().finalize()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_agree_on_pieces_of_any_length() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5_000).collect();
        for length in (0..200).chain([255, 256, 257, 1464, 2047, 2048, 4096, 5000]) {
            let mut crc = Crc32::new();
            bytes[..length].chunks(1 + length / 3).for_each(|piece| crc.update(piece));
            assert_eq!(crc.sum(), crc32fast::hash(&bytes[..length]), "{length} bytes in pieces");
        }
    }
}
