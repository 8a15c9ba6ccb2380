//! Interarrival jitter of datagrams that carry the time at which they were sent, for measurements.

use std::time::Duration;

/// Interarrival jitter (RFC 3550, section 6.4.1): smoothed change of the transit time. The clocks
/// of both ends need no common zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Jitter {
    seconds: f64,
    transit: Option<Duration>,
}

impl Jitter {
    /// Adds a datagram whose transit time, with any constant offset, was `transit`.
    pub fn add(&mut self, transit: Duration) {
        if let Some(before) = self.transit.replace(transit) {
            self.seconds += (transit.abs_diff(before).as_secs_f64() - self.seconds) / 16.0;
        }
    }

    /// Returns the jitter, seconds; 0 before the second datagram.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_smooths_changes_of_transit() {
        let mut jitter = Jitter::default();
        for ms in [10, 10, 26, 47] {
            jitter.add(Duration::from_millis(ms));
        }
        assert!((jitter.seconds() * 1e3 - (1.0 + (21.0 - 1.0) / 16.0)).abs() < 1e-9, "{jitter:?}");
    }
}
