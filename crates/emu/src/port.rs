//! Ports, the two ends of a path where real packets enter and leave, and their packet buffers.

use std::io;
use std::time::Instant;

use rdt_emulator::{Delivery, MIN_PACKET_CHARGE_BYTES, Packet};

/// One end of the path. No call blocks.
pub(crate) trait Port {
    /// Reads about `budget` packets, and calls `take` for each. Returns the number read; fewer than
    /// `budget` means that no more packets wait. Coalesced packets (GRO) may exceed `budget` by up
    /// to 63.
    ///
    /// An error ends the relay; a packet that the system refuses is no error.
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize>;

    /// Sends a packet, or queues it until the next [`flush`](Self::flush). May exchange its buffer.
    fn send(&mut self, packet: &mut Delivery) -> io::Result<Sent>;

    /// Sends the queued packets, and returns the number that the system refused since the last
    /// flush. Called when no more packets are due.
    fn flush(&mut self) -> io::Result<u64> {
        Ok(0)
    }

    /// Returns the tag of a removed client, once for each client. The port drops packets to that
    /// client from then on, and does not give the tag to another client before all other tags.
    fn poll_gone(&mut self, _now: Instant) -> Option<u32> {
        None
    }

    /// Returns by when [`poll_gone`](Self::poll_gone) must be called even without packets.
    fn next_check(&self) -> Option<Instant> {
        None
    }
}

/// Callback for each packet that a port receives, with the buffer pool and the arrival time.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&mut Buffers, Instant, Packet);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Sent, or queued until [`Port::flush`].
    Taken,
    /// Refused: the port is full, or the packet is malformed (say, after a bit flip).
    Refused,
}

/// Buffer pool, so that in steady state no packet allocates memory.
///
/// A link counts the length of a packet towards its memory limit, so no buffer is larger than twice
/// its packet. Otherwise 40-byte packets in 60 kB buffers could exceed the limit.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Free buffers by size class: [`MIN_BUFFER_BYTES`], twice that, and so on.
    free: [Vec<Vec<u8>>; SIZE_CLASSES],
    /// Total capacity of the free buffers, bytes.
    free_bytes: usize,
}

/// Smallest buffer, bytes: equal to the minimum that a link counts for a packet.
const MIN_BUFFER_BYTES: usize = 64;
const _: () = assert!(MIN_BUFFER_BYTES as u64 == MIN_PACKET_CHARGE_BYTES);
/// Number of size classes. The largest is 65,536 bytes, more than any packet.
const SIZE_CLASSES: usize = 11;
/// Limit on the total capacity of free buffers, bytes; more are deallocated.
const MAX_FREE_BYTES: usize = 16 << 20;

impl Buffers {
    /// Returns an empty buffer with a capacity of at least `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let size = bytes.next_power_of_two().max(MIN_BUFFER_BYTES);
        let Some(mut buffer) = place(size).and_then(|place| self.free[place].pop()) else {
            return Vec::with_capacity(size);
        };
        self.free_bytes -= buffer.capacity();
        buffer.clear();
        buffer
    }

    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if let Some(place) = place(bytes)
            && self.free_bytes + bytes <= MAX_FREE_BYTES
        {
            self.free_bytes += bytes;
            self.free[place].push(buffer);
        }
    }
}

/// Returns the size class of a buffer of this capacity. `None` if no class has it, as for buffers
/// that a link allocated for copies of a packet.
fn place(bytes: usize) -> Option<usize> {
    let place = (bytes / MIN_BUFFER_BYTES).checked_ilog2()? as usize;
    (bytes.is_power_of_two() && place < SIZE_CLASSES).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_buffer_is_empty() {
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
                    (small..=2 * small.max(MIN_BUFFER_BYTES)).contains(&buffer.capacity()),
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
        assert_eq!(kept, MAX_FREE_BYTES);
    }
}
