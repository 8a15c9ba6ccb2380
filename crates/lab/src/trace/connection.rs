//! Connections of a capture, and their segments over time.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::capture::{Frame, Note};
use super::direction::{Direction, Kind, Sent};
use super::packet::Segment;
use super::sequence::Ack;

/// A segment after a longer pause begins a new connection: 4 minutes, as in tcptrace.
const IDLE_TIMEOUT_NS: u64 = 240_000_000_000;
/// Limits that bound the memory for a large file.
pub(super) const MAX_CONNECTIONS: usize = 100_000;
pub(super) const MAX_EVENTS: usize = 2_000_000;

/// A segment, with unwrapped sequence numbers.
#[derive(Debug, Clone)]
pub struct Event {
    /// Time since the epoch, nanoseconds.
    pub at_ns: u64,
    /// Sender: 0 is the end that sent the first packet.
    pub from: usize,
    /// Sequence number of the first byte of data.
    pub start: u64,
    /// Sequence number after the last byte of data.
    pub end: u64,
    /// Kind of the segment.
    pub kind: Kind,
    /// True if the flag PSH is set.
    pub pushed: bool,
    /// True for SYN, FIN and RST.
    pub control: bool,
    /// Acknowledgement number, in the peer's unwrapped numbers.
    pub ack: Option<u64>,
    /// Meaning of the acknowledgement.
    pub meaning: Ack,
    /// Advertised window, scaled, bytes.
    pub window: u32,
    /// SACK blocks `[start, end)`, in the peer's unwrapped numbers.
    pub sack: Vec<(u64, u64)>,
}

/// Connection at one interface.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Addresses of the ends. The first one sent the first packet.
    pub ends: [SocketAddr; 2],
    /// Index in [`Extent::interfaces`](super::Extent::interfaces).
    pub interface: usize,
    /// Counts of what each end sent.
    pub directions: [Direction; 2],
    /// Time of the first packet since the epoch, nanoseconds.
    pub first_ns: u64,
    /// Time of the last packet since the epoch, nanoseconds.
    pub last_ns: u64,
    /// Segments in the order of the file.
    pub events: Vec<Event>,
    /// Segments that are counted in `directions`, but beyond the limit on events.
    pub omitted: u64,
}

/// Interface and [`unordered`] addresses.
type Key = (usize, [SocketAddr; 2]);

/// All connections of a file.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Connections in the order of their first packets.
    pub(super) connections: Vec<Connection>,
    /// Index of the latest connection of each pair of addresses.
    open: BTreeMap<Key, usize>,
    /// Number of events of all connections.
    events: usize,
    /// Segments of connections beyond the limit.
    pub(super) ignored: u64,
}

impl Table {
    /// Adds a segment.
    pub(super) fn add(&mut self, frame: &Frame<'_>, segment: &Segment) {
        if frame.note == Note::DroppedLater {
            // The packet was counted at its arrival.
            self.note_drop(frame, segment);
            return;
        }
        let key = key(frame, segment);
        let open = self.open.get(&key).copied();
        let open = open.filter(|index| !self.connections[*index].is_succeeded_by(frame.at_ns, segment));
        let index = match open {
            Some(index) => index,
            None if self.connections.len() >= MAX_CONNECTIONS => {
                self.ignored += 1;
                return;
            }
            None => {
                self.connections.push(Connection::new(frame, segment));
                self.open.insert(key, self.connections.len() - 1);
                self.connections.len() - 1
            }
        };
        let connection = &mut self.connections[index];
        let event = connection.add(frame, segment);
        if self.events < MAX_EVENTS {
            self.events += 1;
            connection.events.push(event);
        } else {
            connection.omitted += 1;
        }
        if frame.note == Note::Dropped {
            self.note_drop(frame, segment);
        }
    }

    fn note_drop(&mut self, frame: &Frame<'_>, segment: &Segment) {
        let Some(index) = self.open.get(&key(frame, segment)) else { return };
        let connection = &mut self.connections[*index];
        let from = usize::from(segment.source != connection.ends[0]);
        let is_sequenced = segment.data > 0 || segment.header.syn || segment.header.fin;
        connection.directions[from].dropped += u64::from(is_sequenced);
    }

    /// Ends the analysis: open connections are idle until the last packet of the file.
    pub(super) fn finish(&mut self, last_ns: u64) {
        for connection in &mut self.connections {
            let [a, b] = &connection.directions;
            if a.fins + b.fins >= 2 || a.resets + b.resets > 0 {
                continue;
            }
            for direction in &mut connection.directions {
                if let Some(last) = direction.last_ns {
                    direction.idle_ns = direction.idle_ns.max(last_ns.saturating_sub(last));
                }
            }
        }
    }
}

fn key(frame: &Frame<'_>, segment: &Segment) -> Key {
    (frame.interface, unordered([segment.source, segment.target]))
}

/// Returns addresses in ascending order, so that both directions have one key.
pub(super) fn unordered(mut ends: [SocketAddr; 2]) -> [SocketAddr; 2] {
    ends.sort();
    ends
}

/// True if `a` is after `b` in sequence numbers that wrap.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

impl Connection {
    /// Returns the index of the end that sent more data.
    pub fn sender(&self) -> usize {
        usize::from(self.directions[1].unique_bytes > self.directions[0].unique_bytes)
    }

    /// Returns the time of the first data of the end that sent more.
    pub(super) fn data_begins_ns(&self) -> u64 {
        self.directions[self.sender()].first_data_ns.unwrap_or(self.first_ns)
    }

    fn new(frame: &Frame<'_>, segment: &Segment) -> Self {
        Self {
            ends: [segment.source, segment.target],
            interface: frame.interface,
            directions: Default::default(),
            first_ns: frame.at_ns,
            last_ns: frame.at_ns,
            events: Vec::new(),
            omitted: 0,
        }
    }

    /// True if a segment begins a new connection between the same ends.
    fn is_succeeded_by(&self, at_ns: u64, segment: &Segment) -> bool {
        let from = usize::from(segment.source != self.ends[0]);
        let (mine, peer) = (&self.directions[from], &self.directions[1 - from]);
        let is_closed = mine.fins + peer.fins + mine.resets + peer.resets > 0;
        #[expect(clippy::cast_possible_truncation, reason = "the sequence number on the wire")]
        let first = mine.syn.map(|syn| syn as u32);
        let is_elsewhere = is_after(segment.header.sequence_number, peer.window_end)
            || first.is_some_and(|first| is_after(first, segment.header.sequence_number));
        let other_syn = mine.syns > 1 && first.is_some_and(|first| first != segment.header.sequence_number);
        at_ns.saturating_sub(self.last_ns) > IDLE_TIMEOUT_NS
            || (segment.header.syn && ((is_closed && is_elsewhere) || other_syn))
    }

    /// Counts a segment, and returns it with unwrapped numbers.
    fn add(&mut self, frame: &Frame<'_>, segment: &Segment) -> Event {
        let from = usize::from(segment.source != self.ends[0]);
        let [a, b] = &mut self.directions;
        let (mine, peer) = if from == 0 { (a, b) } else { (b, a) };
        self.last_ns = self.last_ns.max(frame.at_ns);
        let flags = &segment.header;
        mine.frame_bytes += u64::from(frame.length);
        mine.syns += u64::from(flags.syn);
        mine.fins += u64::from(flags.fin);
        mine.resets += u64::from(flags.rst);
        let (window, scales) = mine.scaled(segment, peer);
        let start = mine.numbers.at(segment.header.sequence_number);
        let end = start + u64::from(segment.data);
        if flags.syn {
            mine.syn = Some(start);
            peer.last_ack = Some(start);
        }
        if flags.fin {
            mine.fin = Some(end);
        }
        if flags.ack {
            mine.window_end = segment.header.acknowledgment_number.wrapping_add(window);
        }
        let sent = Sent { at_ns: frame.at_ns, segment, start, end, window, scales };
        mine.count(&sent);
        if !flags.syn && (mine.scale.is_none() || peer.scale.is_none()) {
            // Windows are scaled only if both SYN asked for it (RFC 7323, section 2.2).
            (mine.scale, peer.scale) = (mine.scale.and(Some(0)), peer.scale.and(Some(0)));
        }
        let kind = mine.classify(&sent, peer);
        // The first number, if the capture begins with the ACK. Later ACKs do not move the peer's
        // numbers, because they may acknowledge data that the capture lacks.
        if flags.ack && peer.numbers.is_new() {
            peer.numbers.at(segment.header.acknowledgment_number);
        }
        let ack = flags.ack.then(|| peer.numbers.near(segment.header.acknowledgment_number));
        let meaning = ack.map_or(Ack::Old, |ack| peer.acknowledged(ack, &sent, mine));
        let sack: Vec<(u64, u64)> =
            segment.sack.iter().map(|(a, b)| (peer.numbers.near(*a), peer.numbers.near(*b))).collect();
        if flags.rst {
            mine.acks += u64::from(flags.ack);
        } else {
            mine.answer(&sent, ack.unwrap_or(0), &sack);
            peer.was_acked |= ack.is_some_and(|ack| peer.syn.is_none_or(|syn| syn + 1 != ack));
            mine.outstanding(&sent, kind, peer.last_ack);
        }
        let control = flags.syn || flags.fin || flags.rst;
        let (at_ns, pushed) = (frame.at_ns, flags.psh);
        Event { at_ns, from, start, end, kind, pushed, control, ack, meaning, window, sack }
    }
}
