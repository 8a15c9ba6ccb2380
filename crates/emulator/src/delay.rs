//! Propagation: how long a bit travels once it is on the wire.
//!
//! Owns the delay between the end of serialisation and the arrival. It knows nothing of rates or
//! queues, and holds no packets. A fixed delay keeps them in order.

use std::time::{Duration, Instant};

use crate::time::saturating_add;

/// A wire of fixed length.
#[derive(Debug, Clone)]
pub(crate) struct Delay {
    propagation: Duration,
}

impl Delay {
    pub(crate) const fn new(propagation: Duration) -> Self {
        Self { propagation }
    }

    /// When the last bit arrives, if it left at `sent_at`.
    pub(crate) fn arrival(&self, sent_at: Instant) -> Instant {
        saturating_add(sent_at, self.propagation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms, ns};

    #[test]
    fn every_bit_travels_for_the_delay() {
        let now = epoch();
        assert_eq!(Delay::new(ms(50)).arrival(now), now + ms(50));
    }

    #[test]
    fn an_endless_wire_saturates_in_order() {
        let now = epoch();
        let wire = Delay::new(Duration::MAX);
        assert!(wire.arrival(now) <= wire.arrival(now + ns(1)));
    }
}
