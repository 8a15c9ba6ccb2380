//! All connections of a file, each once although several interfaces may have its packets.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;

use super::capture::{Frame, Note};
use super::connection::Connection;
use super::direction::Direction;
use super::packet::Segment;

/// Limits that bound the memory for a large file.
pub(super) const MAX_CONNECTIONS: usize = 100_000;
pub(super) const MAX_EVENTS: usize = 2_000_000;
const MAX_RANGES: usize = 4_000_000;
/// Number of latest packets among which those of other interfaces are recognized.
const MAX_SEEN: usize = 1 << 18;

/// Longest time from one interface to another, nanoseconds: two minutes, TCP's maximum segment
/// lifetime (RFC 9293, section 3.4.1).
const MAX_DELAY_NS: u64 = 120_000_000_000;

/// Addresses in ascending order, so that both directions have one key.
type Ends = [SocketAddr; 2];

/// A connection as each interface has it.
#[derive(Debug)]
struct Flow {
    /// Packets of one interface each.
    views: Vec<Connection>,
    /// Packets of all interfaces, each once. `None` while one interface has all.
    union: Option<Connection>,
}

/// All connections of a file.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Connections in the order of their first packets.
    all: Vec<Flow>,
    /// Index of the latest connection between two ends, at each interface and at all.
    open: BTreeMap<(Option<usize>, Ends), usize>,
    seen: Seen,
    /// Number of views of all connections.
    views: usize,
    /// Number of events of all connections.
    events: usize,
    /// Number of ranges of sequence numbers that all connections remember.
    ranges: usize,
    /// Segments of connections beyond the limit.
    pub(super) ignored: u64,
}

/// Connections of a file, each once.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) connections: Vec<Connection>,
    /// Views that are left out, because another interface has the same packets.
    pub(super) hidden: u64,
}

impl Flows {
    /// Adds a segment.
    pub(super) fn add(&mut self, frame: &Frame<'_>, segment: &Segment) {
        let ends = unordered(segment);
        let keys = [(Some(frame.interface), ends), (None, ends)];
        if frame.note == Note::DroppedLater {
            // The packet was counted at its arrival.
            if let Some(index) = keys.iter().find_map(|key| self.open.get(key)) {
                self.all[*index].note_drop(frame.interface, segment);
            }
            return;
        }
        let Some(index) = self.place(frame, segment, keys) else {
            self.ignored += 1;
            return;
        };
        let is_repeat = frame.interfaces > 1 && self.seen.is_repeat(frame.interface, segment);
        let Some(view) = self.view(index, frame, segment) else {
            self.ignored += 1;
            return;
        };
        let flow = &mut self.all[index];
        let union = flow.union.as_mut().filter(|_| !is_repeat);
        for connection in [Some(&mut flow.views[view]), union].into_iter().flatten() {
            let before = connection.ranges();
            let event = connection.add(frame, segment);
            if self.events < MAX_EVENTS {
                self.events += 1;
                connection.events.push(event);
            } else {
                connection.omitted += 1;
            }
            self.ranges = self.ranges + connection.ranges() - before;
            if self.ranges > MAX_RANGES {
                self.ranges -= connection.forget(before);
            }
        }
        if frame.note == Note::Dropped {
            flow.note_drop(frame.interface, segment);
        }
    }

    /// Returns the index of the view that a connection has at the interface of a packet. The second
    /// view begins the union, with the packets of the first one. `None` beyond the limit on views.
    fn view(&mut self, index: usize, frame: &Frame<'_>, segment: &Segment) -> Option<usize> {
        let flow = &mut self.all[index];
        let known = flow.views.iter().position(|it| it.interfaces == [frame.interface]);
        if known.is_some() || self.views >= MAX_CONNECTIONS {
            return known;
        }
        if let [first] = &flow.views[..] {
            let mut union = first.clone();
            if self.events + union.events.len() > MAX_EVENTS {
                union.omitted += union.events.len() as u64;
                union.events.clear();
            }
            self.events += union.events.len();
            self.ranges += union.ranges();
            flow.union = Some(union);
        }
        self.views += 1;
        flow.views.push(Connection::new(frame, segment));
        Some(flow.views.len() - 1)
    }

    /// Returns the index of the connection that a segment belongs to. An interface may still have
    /// packets of a connection after another one has those of the next.
    fn place(
        &mut self,
        frame: &Frame<'_>,
        segment: &Segment,
        keys: [(Option<usize>, Ends); 2],
    ) -> Option<usize> {
        let [here, anywhere] = keys.map(|key| self.open.get(&key).copied());
        // Only an interface that had the first SYN of a connection has that of the next one too.
        let here = here.filter(|index| self.all[*index].begins_at(frame.interface));
        let fits = |index: &usize| !self.all[*index].views[0].is_succeeded_by(segment);
        let known = [here, anywhere].into_iter().flatten().find(fits);
        let index = match known {
            Some(index) => index,
            None if self.views >= MAX_CONNECTIONS => return None,
            None => {
                self.views += 1;
                self.all.push(Flow { views: vec![Connection::new(frame, segment)], union: None });
                self.open.insert(keys[1], self.all.len() - 1);
                self.all.len() - 1
            }
        };
        if frame.interfaces > 1 {
            self.open.insert(keys[0], index);
        }
        Some(index)
    }

    /// Returns the connections, each once. Open ones are idle until the last packet of the file.
    pub(super) fn finish(self, last_ns: u64) -> Chosen {
        let mut out = Chosen::default();
        for flow in self.all {
            let (mut connection, hidden) = flow.choose();
            connection.finish(last_ns);
            out.connections.push(connection);
            out.hidden += hidden;
        }
        out
    }
}

impl Flow {
    /// True if an interface had the first SYN.
    fn begins_at(&self, interface: usize) -> bool {
        let mut views = self.views.iter().filter(|it| it.interfaces == [interface]);
        // The first SYN is the one without an acknowledgement number.
        views.any(|it| it.directions.iter().any(|it| it.syns > 0 && it.packets > it.acks))
    }

    fn note_drop(&mut self, interface: usize, segment: &Segment) {
        let views = self.views.iter_mut().filter(|it| it.interfaces == [interface]);
        for connection in views.chain(&mut self.union) {
            connection.note_drop(segment);
        }
    }

    /// Returns the connection at the interface next to the end that sent more data, and the number
    /// of views that are left out. If no interface has all of it, returns the union.
    fn choose(mut self) -> (Connection, u64) {
        let Some(mut union) = self.union.take() else { return (self.views.swap_remove(0), 0) };
        let whole = |view: &&Connection| view.interfaces.len() == 1 && self.has_all(view, &union);
        let first = self.views.iter().filter(whole).min_by_key(|it| it.data_begins_ns());
        if let Some(view) = first {
            return (view.clone(), self.views.len() as u64 - 1);
        }
        union.interfaces = self.views.iter().map(|it| it.interfaces[0]).collect();
        (union, 0)
    }

    /// True if a view has a connection's packets of both directions. It may lack a few that other
    /// interfaces have, such as ACKs that were lost on the way to it, if these have most of its own
    /// packets too. Otherwise they have a part of the connection for themselves.
    fn has_all(&self, view: &Connection, union: &Connection) -> bool {
        // Packets without data, and data: segmentation offload may cut data elsewhere at each.
        let amounts: [fn(&Direction) -> u64; 2] = [|it| it.packets - it.data_packets, |it| it.unique_bytes];
        let is_apart = |it: &Connection| {
            it.first_ns > view.last_ns.saturating_add(MAX_DELAY_NS)
                || view.first_ns > it.last_ns.saturating_add(MAX_DELAY_NS)
        };
        let is_whole = |end: usize, amount: fn(&Direction) -> u64| {
            // The first packet that an interface has may be of either end.
            let of = |it: &Connection| {
                let turned = usize::from(it.ends[0] != union.ends[0]);
                amount(&it.directions[end ^ turned])
            };
            let missing = of(union).saturating_sub(of(view));
            let all: u64 = self.views.iter().map(of).sum();
            missing == 0 || all.saturating_sub(of(view)) > 2 * missing
        };
        !self.views.iter().any(is_apart)
            && amounts.into_iter().all(|amount| is_whole(0, amount) && is_whole(1, amount))
    }
}

fn unordered(segment: &Segment) -> Ends {
    let mut ends = [segment.source, segment.target];
    ends.sort();
    ends
}

/// Latest packets of a file with several interfaces.
#[derive(Debug, Default)]
struct Seen {
    /// Number of times that each interface had a packet.
    counts: BTreeMap<u64, Vec<(usize, u32)>>,
    /// Packets in the order of their first appearance.
    order: VecDeque<u64>,
}

impl Seen {
    /// Counts a packet. Returns true if another interface had it as often before: a packet that the
    /// sender repeats appears on each interface once more.
    fn is_repeat(&mut self, interface: usize, segment: &Segment) -> bool {
        let mut hasher = DefaultHasher::new();
        let header = &segment.header;
        (segment.source, segment.target, segment.ip_id, segment.data).hash(&mut hasher);
        (header.sequence_number, header.acknowledgment_number, header.window_size).hash(&mut hasher);
        (header.syn, header.fin, header.rst, header.psh, header.ack, &segment.sack).hash(&mut hasher);
        segment.timestamp.hash(&mut hasher);
        let name = hasher.finish();
        let order = &mut self.order;
        let counts = self.counts.entry(name).or_insert_with(|| {
            order.push_back(name);
            Vec::new()
        });
        let place = counts.iter().position(|(it, _)| *it == interface).unwrap_or_else(|| {
            counts.push((interface, 0));
            counts.len() - 1
        });
        counts[place].1 += 1;
        let count = counts[place].1;
        let is_repeat = counts.iter().any(|(it, other)| *it != interface && *other >= count);
        if self.order.len() > MAX_SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.counts.remove(&oldest);
        }
        is_repeat
    }
}
