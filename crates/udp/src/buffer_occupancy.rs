//! Back-pressure between two sockets of one process. UDP has none: a sender that runs for a few
//! milliseconds without the receiver overflows a default receive buffer, a loss that no network
//! causes.

use std::sync::atomic::{AtomicI64, Ordering};

/// Upper bound of the kernel memory charged for a datagram (truesize) beyond its payload, bytes:
/// 1472 bytes are charged as 2304, a few bytes as 768.
const OVERHEAD: usize = 900;

/// Estimated truesize of the datagrams in a receive buffer, bytes.
#[derive(Debug)]
pub struct BufferOccupancy {
    waiting: AtomicI64,
    limit: i64,
}

impl BufferOccupancy {
    /// Creates the estimate for a receive buffer of `buffer` bytes. Only half of the buffer is
    /// used, so that one more batch always fits.
    pub(crate) fn new(buffer: usize) -> Self {
        Self { waiting: AtomicI64::new(0), limit: i64::try_from(buffer / 2).unwrap_or(i64::MAX) }
    }

    /// Returns true if the sender must wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > self.limit
    }

    pub(crate) fn add(&self, datagrams: usize, bytes: usize) {
        self.waiting.fetch_add(charge(datagrams, bytes), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, datagrams: usize, bytes: usize) {
        self.waiting.fetch_sub(charge(datagrams, bytes), Ordering::Relaxed);
    }

    /// Resets the estimate when the reader finds the buffer empty, as lost datagrams are never
    /// subtracted. It may miss some sent at this moment, for which the unused half has room.
    pub(crate) fn on_empty(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }
}

fn charge(datagrams: usize, bytes: usize) -> i64 {
    i64::try_from(bytes + datagrams * OVERHEAD).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_at_half_and_empties_when_read() {
        let occupancy = BufferOccupancy::new(212_992);
        let mut sent = 0;
        while !occupancy.is_full() {
            occupancy.add(1, 1472);
            sent += 1;
        }
        assert!((40..=92).contains(&sent), "{sent} datagrams of 2304 bytes fit in the buffer");
        occupancy.remove(sent, sent * 1472);
        assert!(!occupancy.is_full());
        occupancy.add(1000, 1_472_000);
        occupancy.on_empty();
        assert!(!occupancy.is_full(), "what was lost on the way does not block for ever");
    }
}
