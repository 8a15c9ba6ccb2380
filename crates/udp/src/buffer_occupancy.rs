//! How full a socket's receive buffer is, as far as a sender in the same process can know it. UDP has no
//! back-pressure: without this, a sender that gets the processor for a few milliseconds fills the small buffer
//! that an ordinary user is granted, and what follows is lost in the host, where no model has it.

use std::sync::atomic::{AtomicI64, Ordering};

/// What the kernel charges for a datagram beyond its bytes, at most: 1472 bytes count as 2304, a few as 768.
const OVERHEAD: usize = 900;

/// Bytes, as the kernel charges them, that were sent to a socket and not yet read from it.
#[derive(Debug)]
pub struct BufferOccupancy {
    waiting: AtomicI64,
    limit: i64,
}

impl BufferOccupancy {
    /// For a receive buffer of this many bytes, of which half is used, so that a whole batch fits in the rest.
    pub(crate) fn new(buffer: usize) -> Self {
        Self { waiting: AtomicI64::new(0), limit: i64::try_from(buffer / 2).unwrap_or(i64::MAX) }
    }

    /// True if the sender had better wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > self.limit
    }

    pub(crate) fn add(&self, datagrams: usize, bytes: usize) {
        self.waiting.fetch_add(charge(datagrams, bytes), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, datagrams: usize, bytes: usize) {
        self.waiting.fetch_sub(charge(datagrams, bytes), Ordering::Relaxed);
    }

    /// The reader found nothing: whatever was counted and never came is forgotten. What is sent at this very
    /// moment may be forgotten with it; the half of the buffer that is kept free has room for it.
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
    fn it_is_full_at_half_the_buffer_and_empties_as_it_is_read() {
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
