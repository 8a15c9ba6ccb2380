//! An end of the path in the real world: where packets come from and go to. And the buffers that they use.

use std::io;
use std::time::Instant;

use rdt_emulator::{Delivery, Packet};

/// One end of the path. It never blocks.
pub trait Port {
    /// Reads what has come, about `budget` packets, and hands each to `take` with the time at which it arrived.
    /// Gives the number read; less than `budget` means that nothing is left for now. It is more by up to 63 where
    /// the system has joined packets.
    ///
    /// Buffers come from `buffers`.
    ///
    /// # Errors
    /// What ends this port. A packet that the system refuses to hand over is none.
    fn receive(
        &mut self,
        budget: usize,
        buffers: &mut Buffers,
        take: &mut dyn FnMut(&mut Buffers, Instant, Packet),
    ) -> io::Result<usize>;

    /// Hands a packet to the system, or keeps it until the next [`flush`](Self::flush). The buffer stays with
    /// `packet` or is another in its place.
    ///
    /// # Errors
    /// What ends this port.
    fn send(&mut self, packet: &mut Delivery) -> io::Result<Sent>;

    /// Hands over whatever [`send`](Self::send) kept, and gives the number of those that the system did not take
    /// after all. It is called when no more packets are due.
    ///
    /// # Errors
    /// What ends this port.
    fn flush(&mut self) -> io::Result<u64> {
        Ok(0)
    }

    /// A tag of which this port will have no more packets: whoever it stands for is gone. The packets that are
    /// still on the way to him are refused, and the tag is not used again.
    fn poll_gone(&mut self, _now: Instant) -> Option<u32> {
        None
    }
}

/// Whether the system took a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It did, or will on [`Port::flush`].
    Taken,
    /// It has no room, or the packet is none to it (say, because a bit was flipped).
    Refused,
}

/// Buffers that have been used and are used again: in steady state no packet allocates memory.
#[derive(Debug, Default)]
pub struct Buffers {
    free: Vec<Vec<u8>>,
}

impl Buffers {
    /// An empty buffer with room for `bytes`.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.clear();
        buffer.reserve(bytes);
        buffer
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        self.free.push(buffer);
    }
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
        let second = buffers.take(1000);
        assert_eq!((second.as_ptr(), second.len()), (place, 0));
        assert!(buffers.take(9000).capacity() >= 9000);
    }
}
