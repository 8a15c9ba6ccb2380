//! The longest packet that a link takes.
//!
//! Owns the comparison of a packet's size on the wire with a limit that may change in time, as it
//! does when a route changes. Nothing is fragmented and nobody is told: the sender has to notice, as
//! where the ICMP messages of RFC 1191 and RFC 8201 are filtered (a black hole in the words of
//! RFC 8899).

use std::time::Duration;

use crate::schedule::Schedule;

/// The longest packet in bytes on the wire (payload and overhead). The default is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mtu(Schedule<Option<u32>>);

impl Mtu {
    /// At most `bytes` bytes on the wire.
    pub const fn new(bytes: u32) -> Self {
        Self(Schedule::constant(Some(bytes)))
    }

    /// No limit at first.
    pub const fn unlimited() -> Self {
        Self(Schedule::constant(None))
    }

    /// The same until `at` after the start of the link, and from then on `bytes` bytes on the wire, or
    /// no limit with `None`.
    #[must_use]
    pub fn then(self, at: Duration, bytes: impl Into<Option<u32>>) -> Self {
        Self(self.0.then(at, bytes.into()))
    }

    /// Whether a packet of `wire_size` bytes on the wire may pass `elapsed` after the start.
    pub fn passes(&self, elapsed: Duration, wire_size: usize) -> bool {
        self.0.at(elapsed).is_none_or(|limit| wire_size as u64 <= u64::from(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{just_before, ms};

    #[test]
    fn the_limit_itself_passes() {
        assert!(Mtu::new(1_500).passes(ms(0), 1_500));
        assert!(!Mtu::new(1_500).passes(ms(0), 1_501));
        assert!(Mtu::default().passes(ms(0), usize::MAX));
        assert_eq!(Mtu::default(), Mtu::unlimited());
    }

    #[test]
    fn a_change_holds_for_what_arrives_at_its_time() {
        let mtu = Mtu::new(1_500).then(ms(10), 1_280).then(ms(20), None);
        let passes = [just_before(ms(10)), ms(10), ms(20)].map(|at| mtu.passes(at, 1_400));
        assert_eq!(passes, [true, false, true]);
    }
}
