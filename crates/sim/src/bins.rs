//! Bytes counted in bins of time.

use std::time::Duration;

/// Bytes by time. Bin i contains the bytes from time i * width on, until before (i + 1) * width. No
/// byte is divided between bins, so the sum of the bins is the number of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    width: Duration,
    bytes: Vec<u64>,
}

impl Bins {
    /// Creates empty bins.
    ///
    /// # Panics
    /// If the width is zero.
    pub fn new(width: Duration) -> Self {
        assert!(!width.is_zero(), "the width of a bin is not zero");
        Self { width, bytes: Vec::new() }
    }

    /// Counts bytes at a virtual time.
    pub fn add(&mut self, at: Duration, bytes: u64) {
        let bin = usize::try_from(at.as_nanos() / self.width.as_nanos()).unwrap_or(usize::MAX);
        if bin >= self.bytes.len() {
            self.bytes.resize(bin + 1, 0);
        }
        self.bytes[bin] += bytes;
    }

    /// Returns the width of each bin.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// Returns the bytes of each bin from time 0 on, up to the last one that is not empty.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// Returns the sum of all bins, bytes.
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{just_before, ms};

    #[test]
    fn bin_starts_at_multiple_of_width() {
        let mut bins = Bins::new(ms(25));
        for (at, bytes) in [(ms(0), 1), (just_before(ms(25)), 2), (ms(25), 4), (ms(99), 8)] {
            bins.add(at, bytes);
        }
        assert_eq!((bins.bytes(), bins.total()), (&[3, 4, 0, 8][..], 15));
    }
}
