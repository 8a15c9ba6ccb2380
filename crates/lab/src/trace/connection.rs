//! A connection, and its segments over time.

use std::net::SocketAddr;

use super::capture::Frame;
use super::direction::{Direction, Kind, Sent};
use super::packet::Segment;
use super::sequence::Ack;

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

/// Connection at one interface, or at several that each have a part of it.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Addresses of the ends. The first one sent the first packet.
    pub ends: [SocketAddr; 2],
    /// Indices in [`Extent::interfaces`](super::Extent::interfaces).
    pub interfaces: Vec<usize>,
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

impl Connection {
    /// Returns the index of the end that sent more data.
    pub fn sender(&self) -> usize {
        usize::from(self.directions[1].unique_bytes > self.directions[0].unique_bytes)
    }

    /// Returns the time of the first data of the end that sent more.
    pub(super) fn data_begins_ns(&self) -> u64 {
        self.directions[self.sender()].first_data_ns.unwrap_or(self.first_ns)
    }

    pub(super) fn new(frame: &Frame<'_>, segment: &Segment) -> Self {
        Self {
            ends: [segment.source, segment.target],
            interfaces: vec![frame.interface],
            directions: Default::default(),
            first_ns: frame.at_ns,
            last_ns: frame.at_ns,
            events: Vec::new(),
            omitted: 0,
        }
    }

    /// True if a segment begins a new connection between the same ends: a SYN with another sequence
    /// number, or any SYN after a FIN or RST. These are tshark's rules, which include tcptrace's.
    /// If the capture lacks the peer's SYN, a SYN-ACK with another number counts as well.
    pub(super) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        let from = self.from(segment);
        let (mine, peer) = (&self.directions[from], &self.directions[1 - from]);
        let flags = &segment.header;
        let is_elsewhere = mine.base.is_some_and(|base| base != flags.sequence_number);
        if flags.ack {
            return flags.syn && mine.syns > 0 && peer.syns == 0 && is_elsewhere;
        }
        let is_closed = mine.fins + peer.fins + mine.resets + peer.resets > 0;
        flags.syn && mine.base.is_some() && (is_elsewhere || is_closed)
    }

    /// Returns the end that sent a segment.
    pub(super) fn from(&self, segment: &Segment) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// Counts a segment, and returns it with unwrapped numbers.
    pub(super) fn add(&mut self, frame: &Frame<'_>, segment: &Segment) -> Event {
        let from = self.from(segment);
        let [a, b] = &mut self.directions;
        let (mine, peer) = if from == 0 { (a, b) } else { (b, a) };
        self.last_ns = self.last_ns.max(frame.at_ns);
        let flags = &segment.header;
        mine.frame_bytes += segment.frame_bytes;
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
        // As in tshark, a connection begins one before its first number, or at its SYN.
        let before = |number: u32| number.wrapping_sub(1);
        let first = segment.header.sequence_number;
        mine.base.get_or_insert(if flags.syn { first } else { before(first) });
        if flags.ack {
            peer.base.get_or_insert(before(segment.header.acknowledgment_number));
        }
        let sent = Sent { at_ns: frame.at_ns, segment, start, end, window, scales };
        mine.count(&sent);
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

    /// Counts a segment that the path dropped.
    pub(super) fn note_drop(&mut self, segment: &Segment) {
        let from = self.from(segment);
        let is_sequenced = segment.data > 0 || segment.header.syn || segment.header.fin;
        self.directions[from].dropped += u64::from(is_sequenced);
    }

    /// Ends the analysis of an open connection, which was idle until the last packet of the file.
    pub(super) fn finish(&mut self, last_ns: u64) {
        let [a, b] = &self.directions;
        if a.fins + b.fins >= 2 || a.resets + b.resets > 0 {
            return;
        }
        for direction in &mut self.directions {
            if let Some(last) = direction.last_ns {
                direction.idle_ns = direction.idle_ns.max(last_ns.saturating_sub(last));
            }
        }
    }

    /// Returns the number of ranges of sequence numbers that both directions remember.
    pub(super) fn ranges(&self) -> usize {
        self.directions.iter().map(|it| it.sequence.ranges()).sum()
    }

    /// Forgets the oldest ranges until at most this number is left, or two of each direction.
    /// Returns the number of those forgotten.
    pub(super) fn forget(&mut self, most: usize) -> usize {
        let before = self.ranges();
        while self.ranges() > most && self.directions.iter_mut().any(|it| it.sequence.forget()) {}
        before - self.ranges()
    }
}
