//! `--pcapng`: a capture file of every packet as it enters and leaves the link.
//!
//! The file has two interfaces for each path, its near and its far end. A delivered packet appears
//! twice: on one interface when it arrives, on the other when it departs. A dropped packet appears
//! once, with the cause as its comment.
//!
//! Writing never blocks the relay. If the disk is too slow, packets are omitted and counted as
//! missed. So are late drops (of packets that the link had accepted) beyond `MAX_LATE_DROPS` per
//! turn of the relay.

mod block;
pub(crate) mod frame;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rdt_emulator::{Delivery, Direction, LateDrop, Packet};
use rdt_udp::clock;

use crate::account::DestinationName;
use crate::relay::{Event, Observer};
use block::{About, Way};
use frame::{Carried, Frame};
use writer::{CHUNK_BYTES, Chunk, Writer};

/// Longest time that packets are buffered before they are written.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(200);
/// Limit on the late drops recorded per turn: more than one turn of the relay can cause, unless
/// packets are tiny.
const MAX_LATE_DROPS: usize = 4096;

pub(crate) struct Capture<F> {
    path: PathBuf,
    frame: F,
    /// True if the tag of a packet is the number of its path. Otherwise there is one path.
    tags_are_paths: bool,
    /// Limit on the bytes kept of each packet.
    limit: Option<u32>,
    clocks: Clocks,
    writer: Writer,
    chunk: Chunk,
    /// Offset of the last block in `chunk`.
    last: usize,
    /// Time at which `chunk` is written; `None` while it is empty.
    write_at: Option<Instant>,
    /// Packets added to the capture or omitted.
    total: u64,
}

#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) path: PathBuf,
    /// Packets in the file; a delivered packet counts twice.
    pub(crate) packets: u64,
    /// Packets that are missing from the file, for any reason.
    pub(crate) missed: u64,
    /// Write error that ended the capture, if any.
    pub(crate) error: Option<io::Error>,
}

impl Captured {
    pub(crate) const fn is_incomplete(&self) -> bool {
        self.missed > 0 || self.error.is_some()
    }

    /// Returns a warning about missing packets with the reason; `None` if none are missing.
    pub(crate) fn warning(&self) -> Option<String> {
        let Self { path, packets, missed, error } = self;
        let path = path.display();
        match error {
            Some(error) => {
                Some(format!("{path}: {error}: it has the first {packets} packets, {missed} are missing"))
            }
            None if *missed > 0 => Some(format!(
                "{path}: {missed} packets are missing among the {packets}: the disk or this host is too slow"
            )),
            None => None,
        }
    }
}

impl<F: Frame> Capture<F> {
    /// Starts a capture to `file`, whose path is `path`. It keeps the first `limit` bytes of each
    /// packet. `comment` describes the capture. `destinations` has the paths in the order of their
    /// numbers, if the tag of a packet is that number; otherwise it is empty.
    pub(crate) fn start(
        (path, file): (&Path, File),
        frame: F,
        limit: Option<u32>,
        comment: &str,
        destinations: &[DestinationName],
    ) -> Self {
        let writer = Writer::start(path, file);
        let mut chunk = Chunk::default();
        block::section(&mut chunk.bytes, &format!("rdt-emu {}", rdt_program::VERSION), comment);
        let mut interface = |name: &str, text: &str| block::interface(&mut chunk.bytes, name, text, limit);
        if destinations.is_empty() {
            interface("near", "where the path begins");
            interface("far", "where the path ends");
        }
        for DestinationName { name, to, .. } in destinations {
            let to = to.as_deref().unwrap_or("all other destinations");
            interface(&format!("near:{name}"), &format!("where the path to {to} begins"));
            interface(&format!("far:{name}"), &format!("where the path to {to} ends"));
        }
        let clocks = Clocks::read();
        Self {
            path: path.to_owned(),
            frame,
            tags_are_paths: !destinations.is_empty(),
            limit,
            clocks,
            writer,
            chunk,
            last: 0,
            write_at: Some(clocks.now),
            total: 0,
        }
    }

    pub(crate) fn finish(mut self) -> Captured {
        self.hand_over();
        let written = self.writer.finish();
        let missed = self.total.saturating_sub(written.packets);
        Captured { path: self.path, packets: written.packets, missed, error: written.error }
    }

    /// Adds a packet. Returns true if the link set CE on the packet.
    fn add(&mut self, way: Way, at: Instant, packet: Carried<'_>) -> bool {
        if self.chunk.bytes.len() >= CHUNK_BYTES {
            self.hand_over();
        }
        self.last = self.chunk.bytes.len();
        let path = if self.tags_are_paths { packet.tag } else { 0 };
        let interface = 2 * path + end(packet.direction, way);
        let about = About { interface, time_ns: self.clocks.time_ns(at), way };
        let frame = &self.frame;
        let is_marked =
            block::packet(&mut self.chunk.bytes, about, self.limit, |out| frame.write(packet, out));
        self.chunk.packets += 1;
        self.total += 1;
        is_marked
    }

    fn comment(&mut self, text: &str) {
        block::comment(&mut self.chunk.bytes, self.last, text);
    }

    fn hand_over(&mut self) {
        self.writer.write(&mut self.chunk);
        self.write_at = None;
    }
}

impl<F: Frame> Observer for Capture<F> {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Arrival(direction, at, &Packet { ref bytes, ecn, tag }) => {
                self.add(Way::In, at, Carried { direction, bytes, ecn, tag });
            }
            Event::Drop(dropped) => self.comment(&format!("dropped: {}", dropped.cause)),
            Event::LateDrop(direction, &LateDrop { at, cause, ref packet, is_copy }) => {
                let Packet { ref bytes, ecn, tag } = *packet;
                self.add(Way::In, at, Carried { direction, bytes, ecn, tag });
                let which = if is_copy { "second copy dropped" } else { "dropped after it had been let in" };
                self.comment(&format!("{which}: {cause}"));
            }
            Event::FreedDrops(packets) => self.total += packets,
            Event::Delivery(direction, at, delivery) => {
                let Delivery { packet: ref bytes, ecn, tag, is_copy, is_corrupted, .. } = *delivery;
                let is_marked = self.add(Way::Out, at, Carried { direction, bytes, ecn, tag });
                let comments =
                    [(is_copy, "second copy"), (is_corrupted, "bit flipped"), (is_marked, "marked CE")];
                for (_, text) in comments.into_iter().filter(|(happened, _)| *happened) {
                    self.comment(text);
                }
            }
            Event::Turn(at, _) => {
                if !self.chunk.bytes.is_empty() && at >= *self.write_at.get_or_insert(at + MAX_WRITE_DELAY) {
                    self.hand_over();
                }
            }
            Event::Change(_) => {}
        }
    }

    fn late_drops(&self) -> usize {
        MAX_LATE_DROPS
    }

    fn next_turn(&self) -> Option<Instant> {
        self.write_at
    }
}

/// Returns the end at which a packet enters or leaves: 0 is near, 1 far.
const fn end(direction: Direction, way: Way) -> u32 {
    match (direction, way) {
        (Direction::Forward, Way::In) | (Direction::Reverse, Way::Out) => 0,
        (Direction::Forward, Way::Out) | (Direction::Reverse, Way::In) => 1,
    }
}

/// Monotonic clock and wall clock, both read at the start.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    now: Instant,
    /// Wall clock: time since 1970.
    system: Duration,
}

impl Clocks {
    #[expect(
        clippy::disallowed_methods,
        reason = "a capture tells the time of day, and decides nothing by it"
    )]
    fn read() -> Self {
        let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { now: clock::now(), system }
    }

    /// Converts a time to wall-clock time, nanoseconds since 1970. Ignores changes of the system
    /// clock since the start.
    fn time_ns(&self, at: Instant) -> u64 {
        let time = match at.checked_duration_since(self.now) {
            Some(later) => self.system.saturating_add(later),
            None => self.system.saturating_sub(self.now.saturating_duration_since(at)),
        };
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}
