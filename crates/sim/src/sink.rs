//! Sink of datagrams: what arrived of each source, and when.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rdt_datagram::Jitter;

use crate::bins::Bins;
use crate::node_id::NodeId;
use crate::source::{STAMP_BYTES, Source};

/// Limit on incomplete datagrams that are kept. Of the others no piece is expected.
const MAX_INCOMPLETE: usize = 64;

/// Datagrams of one source that arrived at its sink. Second copies count, too.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrived {
    /// Number of datagrams.
    pub packets: u64,
    /// Payload, bytes.
    pub bytes: u64,
    /// Number of datagrams with a lower number than an earlier one.
    pub reordered: u64,
    /// Virtual time of the first arrival.
    pub first_at: Option<Duration>,
    /// Virtual time of the last arrival.
    pub last_at: Option<Duration>,
    /// Longest time between two arrivals in succession.
    pub longest_gap: Duration,
    /// Interarrival jitter.
    pub jitter: Jitter,
    /// Shortest time from sending to arrival; zero before the first arrival.
    pub min_delay: Duration,
    /// Longest time from sending to arrival.
    pub max_delay: Duration,
    /// Sum of the times from sending to arrival.
    pub total_delay: Duration,
    /// Payload by the time of arrival. `None` without
    /// [`Simulation::record_arrivals`](crate::Simulation::record_arrivals).
    pub goodput: Option<Bins>,
    /// Bytes of each datagram that are not payload.
    header: usize,
    /// Number of pieces of a datagram. 0 and 1: it arrives whole.
    pieces: usize,
    /// Pieces that arrived of the newest datagrams that are not complete: number, pieces and bytes.
    incomplete: VecDeque<(u32, usize, usize)>,
    /// Highest number of a datagram so far.
    highest: Option<u32>,
}

impl Arrived {
    fn add(&mut self, at: Duration, datagram: &[u8]) {
        let Some((number, sent_at)) = stamp(datagram) else { return };
        let Some(length) = self.reassemble(number, datagram.len()) else { return };
        self.count(at, number, sent_at, length.saturating_sub(self.header) as u64);
    }

    /// Counts a datagram by its number, the time at which it was sent and its payload, bytes.
    pub fn count(&mut self, at: Duration, number: u32, sent_at: Duration, payload: u64) {
        self.packets += 1;
        self.bytes += payload;
        self.reordered += u64::from(self.highest.is_some_and(|highest| number < highest));
        self.highest = self.highest.max(Some(number));
        let gap = at.saturating_sub(self.last_at.unwrap_or(at));
        self.longest_gap = self.longest_gap.max(gap);
        self.first_at.get_or_insert(at);
        self.last_at = Some(at);
        let transit = at.saturating_sub(sent_at);
        self.jitter.add(transit);
        self.min_delay = if self.packets == 1 { transit } else { self.min_delay.min(transit) };
        self.max_delay = self.max_delay.max(transit);
        self.total_delay += transit;
        if let Some(goodput) = &mut self.goodput {
            goodput.add(at, payload);
        }
    }

    /// Counts a piece of a datagram. Returns the length of the datagram once it is complete. A
    /// second copy of a piece counts as another piece.
    fn reassemble(&mut self, number: u32, length: usize) -> Option<usize> {
        if self.pieces < 2 {
            return Some(length);
        }
        let place = self.incomplete.iter().position(|it| it.0 == number).unwrap_or_else(|| {
            if self.incomplete.len() == MAX_INCOMPLETE {
                self.incomplete.pop_front();
            }
            self.incomplete.push_back((number, 0, 0));
            self.incomplete.len() - 1
        });
        let (_, pieces, bytes) = &mut self.incomplete[place];
        (*pieces, *bytes) = (*pieces + 1, *bytes + length);
        if *pieces < self.pieces {
            return None;
        }
        self.incomplete.remove(place).map(|it| it.2)
    }

    /// Returns the mean time from sending to arrival. `None` if nothing arrived.
    pub fn mean_delay(&self) -> Option<Duration> {
        let mean = self.total_delay.as_nanos().checked_div(self.packets.into())?;
        u64::try_from(mean).ok().map(Duration::from_nanos)
    }
}

/// Returns the number of a datagram and the virtual time at which it was sent.
fn stamp(datagram: &[u8]) -> Option<(u32, Duration)> {
    let (number, time) = datagram.get(..STAMP_BYTES)?.split_at(4);
    let number = u32::from_le_bytes(number.try_into().ok()?);
    Some((number, Duration::from_nanos(u64::from_le_bytes(time.try_into().ok()?))))
}

/// A sink and what arrived at it.
#[derive(Debug)]
pub struct SinkNode {
    /// Datagrams of each source. Other datagrams are dropped.
    pub sources: BTreeMap<NodeId, Arrived>,
    epoch: Instant,
}

impl SinkNode {
    pub(crate) fn new(epoch: Instant) -> Self {
        Self { sources: BTreeMap::new(), epoch }
    }

    pub(crate) fn expect(&mut self, source: NodeId, config: &Source) {
        let pieces = config.pieces().count();
        self.sources.insert(source, Arrived { header: config.header, pieces, ..Arrived::default() });
    }

    pub(crate) fn record(&mut self, width: Duration) {
        for arrived in self.sources.values_mut() {
            arrived.goodput = Some(Bins::new(width));
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, from: NodeId, datagram: &[u8]) {
        if let Some(arrived) = self.sources.get_mut(&from) {
            arrived.add(now.saturating_duration_since(self.epoch), datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::ms;

    fn datagram(number: u32, sent_ms: u64) -> Vec<u8> {
        let mut bytes = vec![0; 100];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes[4..12].copy_from_slice(&(sent_ms * 1_000_000).to_le_bytes());
        bytes
    }

    #[test]
    fn jitter_gap_and_order_follow_arrivals() {
        let mut arrived = Arrived { header: 28, goodput: Some(Bins::new(ms(25))), ..Arrived::default() };
        for (number, sent, at) in [(0, 0, 10), (1, 20, 30), (3, 60, 86), (2, 40, 87)] {
            arrived.add(ms(at), &datagram(number, sent));
        }
        // Transit times 10, 10, 26 and 47 ms: differences 0, 16 and 21 ms.
        let jitter = 1.0 + (21.0 - 1.0) / 16.0;
        assert!((arrived.jitter.seconds() * 1e3 - jitter).abs() < 1e-9, "{arrived:?}");
        assert_eq!((arrived.packets, arrived.bytes, arrived.reordered), (4, 288, 1));
        assert_eq!(
            (arrived.longest_gap, arrived.first_at, arrived.last_at),
            (ms(56), Some(ms(10)), Some(ms(87)))
        );
        assert_eq!((arrived.min_delay, arrived.max_delay), (ms(10), ms(47)));
        assert_eq!(arrived.mean_delay(), Some(Duration::from_micros(23_250)));
        assert_eq!(arrived.goodput.map(|bins| bins.bytes().to_vec()), Some(vec![72, 72, 0, 144]));
    }
}
