//! An end of the path in the real world: where packets come from and go to. And the buffers that
//! they use.

use std::io;
use std::time::Instant;

use rdt_emulator::{Delivery, MIN_PACKET_CHARGE_BYTES, Packet};

/// One end of the path. It never blocks.
pub trait Port {
    /// Reads what has come, about `budget` packets, and hands each to `take` with the time at which
    /// it arrived. Gives the number read; less than `budget` means that nothing is left for now. It
    /// is more by up to 63 where the system has joined packets.
    ///
    /// Buffers come from `buffers`.
    ///
    /// An error that ends this port. A packet that the system refuses is none.
    fn receive(
        &mut self,
        budget: usize,
        buffers: &mut Buffers,
        take: &mut dyn FnMut(&mut Buffers, Instant, Packet),
    ) -> io::Result<usize>;

    /// Hands a packet to the system, or keeps it until the next [`flush`](Self::flush). The buffer
    /// stays with `packet` or is another in its place.
    ///
    /// # Errors
    /// An error that ends this port.
    fn send(&mut self, packet: &mut Delivery) -> io::Result<Sent>;

    /// Hands over whatever [`send`](Self::send) kept, and gives the number of those that the system
    /// did not take after all. It is called when no more packets are due.
    ///
    /// # Errors
    /// An error that ends this port.
    fn flush(&mut self) -> io::Result<u64> {
        Ok(0)
    }

    /// Returns a tag that this port no longer uses, because its client is gone. Packets on the way
    /// to that client are refused, and the tag is not used again.
    fn poll_gone(&mut self, _now: Instant) -> Option<u32> {
        None
    }

    /// When [`poll_gone`](Self::poll_gone) is to be asked even if no packet calls for a turn.
    fn next_check(&self) -> Option<Instant> {
        None
    }
}

/// Result of sending a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It did, or will on [`Port::flush`].
    Taken,
    /// It has no room, or the packet is none to it (say, because a bit was flipped).
    Refused,
}

/// Buffers that have been used and are used again: in steady state no packet allocates memory.
///
/// A link charges a packet its length, so no packet gets a buffer of more than twice that: one that
/// once carried 60 kB would otherwise come to hold 40 bytes, and many of these more memory than the
/// link's limit.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Buffers of each size class: [`SMALLEST`], twice that and so on.
    free: [Vec<Vec<u8>>; SIZES],
    /// Bytes that all of them have room for.
    free_bytes: usize,
}

/// Bytes of the smallest buffers: the least that a packet is charged.
const SMALLEST: usize = 64;
const _: () = assert!(SMALLEST as u64 == MIN_PACKET_CHARGE_BYTES);
/// The largest buffers have 65,536 bytes, more than any packet.
const SIZES: usize = 11;
/// Bytes that are kept for packets to come; what is beyond goes back to the system.
const MOST_FREE: usize = 16 << 20;

impl Buffers {
    /// An empty buffer with room for `bytes`.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let size = bytes.next_power_of_two().max(SMALLEST);
        let Some(mut buffer) = place(size).and_then(|place| self.free[place].pop()) else {
            return Vec::with_capacity(size);
        };
        self.free_bytes -= buffer.capacity();
        buffer.clear();
        buffer
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if let Some(place) = place(bytes)
            && self.free_bytes + bytes <= MOST_FREE
        {
            self.free_bytes += bytes;
            self.free[place].push(buffer);
        }
    }
}

/// Returns the size class of a buffer of this length, if any: the copies that a link makes have
/// other sizes.
fn place(bytes: usize) -> Option<usize> {
    let place = (bytes / SMALLEST).checked_ilog2()? as usize;
    (bytes.is_power_of_two() && place < SIZES).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_comes_empty() {
        let mut buffers = Buffers::default();
        let mut first = buffers.take(1500);
        first.extend_from_slice(b"old");
        let place = first.as_ptr();
        buffers.give(first);
        let second = buffers.take(1100);
        assert_eq!((second.as_ptr(), second.len()), (place, 0));
        assert!(buffers.take(9000).capacity() >= 9000);
    }

    #[test]
    fn buffers_are_at_most_twice_the_charge() {
        let mut buffers = Buffers::default();
        for large in [0, 64, 127, 128, 2000, 2048, 60_000, 65_536, 70_000] {
            buffers.give(Vec::with_capacity(large));
            for small in [0, 40, 65, 1030, 65_535, 70_000] {
                let buffer = buffers.take(small);
                assert!(
                    (small..=2 * small.max(SMALLEST)).contains(&buffer.capacity()),
                    "{large}, then {small}"
                );
                buffers.give(buffer);
            }
        }
    }

    #[test]
    fn excess_buffers_are_freed() {
        let mut buffers = Buffers::default();
        let many: Vec<_> = (0..400).map(|_| buffers.take(60_000)).collect();
        for buffer in many {
            buffers.give(buffer);
        }
        let kept: usize = buffers.free.iter().flatten().map(Vec::capacity).sum();
        assert_eq!(kept, MOST_FREE);
    }
}
