//! Records of sent packets by packet number: the segment that each carried, and the delivery-rate
//! state at that time. Packets of one batch share a record. Native format only.
//!
//! Some numbers between batches are skipped. A receiver that acknowledges packets before they
//! arrive must guess their numbers, and an ACK of a skipped one shows it (RFC 9000, section 21.4).

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::scoreboard::{Fate, Scoreboard};
use crate::congestion::SentState;
use sha2::{Digest as _, Sha256};

/// Smallest distance between two skipped packet numbers. A skipped number may cost an ACK, so the
/// average distance of 256 keeps the cost far below 1 %.
const MIN_SKIP_DISTANCE: u64 = 128;
/// Number of equally likely distances from [`MIN_SKIP_DISTANCE`] on.
const SKIP_DISTANCES: u64 = 256;

/// One transmission of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentPacket {
    /// Offset of the segment; `None` for a transmission without stream bytes.
    pub(crate) offset: Option<u64>,
    /// Delivery-rate state and send time.
    pub(crate) state: SentState,
}

/// Transmissions of one batch: same length, same time, consecutive segments.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Packet number of the first transmission.
    packet_number: u64,
    /// Count of transmissions, at least 1.
    count: u64,
    /// Stream bytes of each transmission.
    len: u64,
    first: SentPacket,
}

impl Run {
    /// Returns the record of packet `index`. For `index` = `count` it is the record that a further
    /// packet must have to extend the run.
    fn nth(&self, index: u64) -> SentPacket {
        let bytes = index * self.len;
        SentPacket {
            offset: self.first.offset.map(|offset| offset + bytes),
            state: self.first.state.after(bytes),
        }
    }

    fn end(&self) -> u64 {
        self.packet_number + self.count
    }

    /// Returns the run without its first `count` packets. `count` is less than the length.
    fn without(&self, count: u64) -> Self {
        Self {
            packet_number: self.packet_number + count,
            count: self.count - count,
            first: self.nth(count),
            ..*self
        }
    }
}

/// Choice of the packet numbers to skip, unpredictable without the seed.
#[derive(Debug)]
struct Skips {
    seed: u64,
    /// Number of skips chosen so far.
    count: u64,
    /// Earliest number to skip next: the skip falls between two batches.
    at: u64,
}

impl Skips {
    /// Chooses the next number to skip, after `last`.
    fn choose(&mut self, last: u64) {
        let hash = Sha256::new().chain_update(self.seed.to_le_bytes()).chain_update(self.count.to_le_bytes());
        let drawn = u64::from(hash.finalize()[0]) % SKIP_DISTANCES;
        self.count += 1;
        self.at = last + MIN_SKIP_DISTANCE + drawn;
    }
}

/// Records of the transmissions that may still be acknowledged or declared lost.
#[derive(Debug)]
pub(crate) struct SentPackets {
    /// Runs in ascending order of packet numbers. A gap between two runs is a skipped number.
    runs: VecDeque<Run>,
    next_number: u64,
    /// `None` if no number is skipped.
    skips: Option<Skips>,
}

impl SentPackets {
    /// Returns an empty record. The first packet number will be `first`.
    pub(crate) fn new(first: u64) -> Self {
        Self { runs: VecDeque::new(), next_number: first, skips: None }
    }

    /// Skips about one packet number in 256 from now on, chosen by the secret `seed`.
    pub(crate) fn skip_numbers(&mut self, seed: u64) {
        let mut skips = Skips { seed, count: 0, at: 0 };
        skips.choose(self.next_number);
        self.skips = Some(skips);
    }

    /// Releases memory beyond that of the records.
    pub(crate) fn shrink(&mut self) {
        self.runs.shrink_to_fit();
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Records a batch of `count` packets (at least one), each with the next `len` stream bytes;
    /// `first` is the record of the first.
    pub(crate) fn push_run(&mut self, first: SentPacket, len: u64, count: u64) {
        match self.runs.back_mut() {
            Some(run) if run.end() == self.next_number && run.len == len && run.nth(run.count) == first => {
                run.count += count;
            }
            _ => {
                // An idle connection has one record, that of the newest keep-alive.
                if self.runs.capacity() == 0 {
                    self.runs.reserve_exact(1);
                }
                self.runs.push_back(Run { packet_number: self.next_number, count, len, first });
            }
        }
        self.next_number += count;
        if let Some(skips) = &mut self.skips
            && self.next_number >= skips.at
        {
            skips.choose(self.next_number);
            self.next_number += 1;
        }
    }

    pub(crate) fn get(&self, packet_number: u64) -> Option<SentPacket> {
        let run = self.runs.get(self.index(packet_number)?).filter(|run| packet_number < run.end())?;
        Some(run.nth(packet_number - run.packet_number))
    }

    /// Returns the delivery-rate state at packet `packet_number`, if recorded.
    pub(crate) fn state_of(&self, packet_number: u64) -> Option<SentState> {
        self.get(packet_number).map(|packet| packet.state)
    }

    /// True if `packet_number` was skipped. False if the records before it are already removed.
    pub(crate) fn was_skipped(&self, packet_number: u64) -> bool {
        let before = self.index(packet_number).and_then(|index| self.runs.get(index));
        before.is_some_and(|run| run.end() <= packet_number)
    }

    /// True if all of `packet_numbers`, without a skipped one among them, are recorded.
    pub(crate) fn has(&self, packet_numbers: &RangeInclusive<u64>) -> bool {
        self.runs.front().is_some_and(|run| run.packet_number <= *packet_numbers.start())
            && *packet_numbers.end() < self.next_number
    }

    /// Iterates over the recorded transmissions of `packet_numbers`, batch by batch: the stream
    /// bytes of the batch, and the state of its last packet.
    pub(crate) fn together(
        &self,
        packet_numbers: RangeInclusive<u64>,
    ) -> impl Iterator<Item = (u64, SentState)> {
        let (oldest, newest) = packet_numbers.into_inner();
        let from = self.index(oldest).unwrap_or(self.runs.len());
        self.runs.range(from..).take_while(move |run| run.packet_number <= newest).map(move |run| {
            let (start, last) = (run.packet_number.max(oldest), (run.end() - 1).min(newest));
            ((last + 1 - start) * run.len, run.nth(last - run.packet_number).state)
        })
    }

    /// Returns the number and the record of the oldest transmission.
    pub(crate) fn first(&self) -> Option<(u64, SentPacket)> {
        self.runs.front().map(|run| (run.packet_number, run.first))
    }

    /// Removes the oldest records, up to number `before`, as long as their segments lie below
    /// offset `una`.
    pub(crate) fn forget_acknowledged(&mut self, una: u64, before: u64) {
        while let Some(run) = self.runs.front().filter(|run| run.packet_number < before) {
            let passed = match run.first.offset {
                Some(offset) if run.len > 0 => una.saturating_sub(offset) / run.len,
                _ => run.count,
            };
            let count = passed.min(before - run.packet_number);
            if count == 0 {
                return;
            }
            self.pop(count);
        }
    }

    /// Removes the oldest records as long as their segments are delivered or retransmitted.
    pub(crate) fn forget_resolved(&mut self, board: &Scoreboard) {
        if self.runs.is_empty() {
            return;
        }
        let open = |packet_number: u64, offset: u64| {
            offset >= board.una_offset()
                && board
                    .find(offset)
                    .is_some_and(|s| s.packet_number == packet_number && s.fate == Fate::InFlight)
        };
        self.forget_acknowledged(board.una_offset(), u64::MAX);
        while let Some((packet_number, packet)) = self.first()
            && !packet.offset.is_some_and(|offset| open(packet_number, offset))
        {
            self.pop(1);
        }
    }

    /// Removes `count` packets of the oldest run, or all of it.
    pub(crate) fn pop(&mut self, count: u64) {
        match self.runs.front_mut() {
            Some(run) if count < run.count => *run = run.without(count),
            _ => drop(self.runs.pop_front()),
        }
    }

    /// Returns the index of the run with packet `packet_number`.
    fn index(&self, packet_number: u64) -> Option<usize> {
        let oldest = self.runs.front().filter(|run| run.packet_number <= packet_number)?;
        if packet_number < oldest.end() {
            return Some(0);
        }
        (packet_number < self.next_number)
            .then(|| self.runs.partition_point(|run| run.packet_number <= packet_number) - 1)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::congestion::DeliveryRate;
    use rdt_testing::random;

    fn states() -> impl FnMut(u64, u64) -> SentState {
        let epoch = rdt_testing::epoch();
        let mut rate = DeliveryRate::new(epoch);
        move |now, in_flight| rate.on_sent(epoch + std::time::Duration::from_millis(now), 100, in_flight)
    }

    #[test]
    fn what_leaves_together_has_one_record() {
        let (mut sent_packets, mut state) = (SentPackets::new(5), states());
        let mut send = |sent_packets: &mut SentPackets, now, offset: u64| {
            let packet = SentPacket { offset: Some(offset), state: state(now, offset) };
            sent_packets.push_run(packet, 100, 1);
            packet
        };
        let sent: Vec<_> = (0..10).map(|n| send(&mut sent_packets, n / 8, n * 100)).collect();
        assert_eq!(sent_packets.runs.len(), 2, "at two times");
        for (packet_number, packet) in (5..).zip(&sent) {
            assert_eq!(sent_packets.get(packet_number), Some(*packet));
        }
        assert_eq!((sent_packets.get(4), sent_packets.get(15), sent_packets.next_number()), (None, None, 15));
        assert!(sent_packets.has(&(5..=14)) && !sent_packets.has(&(4..=14)) && !sent_packets.has(&(5..=15)));
        let together: Vec<_> = sent_packets.together(7..=13).collect();
        assert_eq!(together, [(600, sent[7].state), (100, sent[8].state)]);
        send(&mut sent_packets, 1, 2000);
        assert_eq!(sent_packets.runs.len(), 3, "another part of the stream");
        assert!(size_of::<Run>() <= 96, "{}", size_of::<Run>());
    }

    /// Compares with one record per transmission, whatever is sent and removed.
    #[test]
    fn runs_tell_what_single_records_would() {
        for seed in 0..200 {
            let (mut random, mut state) = (random(seed), states());
            let (mut sent_packets, mut single) = (SentPackets::new(7), VecDeque::new());
            let (mut first, mut next, mut in_flight, mut now) = (7, 0, 0, 0);
            for step in 0..300 {
                match random(6) {
                    0 => now += 1,
                    1 => {
                        sent_packets.push_run(
                            SentPacket { offset: None, state: state(now, in_flight) },
                            0,
                            1,
                        );
                        single.push_back((SentPacket { offset: None, state: state(now, in_flight) }, 0));
                    }
                    2 => {
                        sent_packets.pop(1);
                        first += u64::from(single.pop_front().is_some());
                    }
                    3 => {
                        let (una, before) = (random(next + 1), first + random(20));
                        sent_packets.forget_acknowledged(una, before);
                        while let Some((packet, len)) = single.front()
                            && first < before
                            && packet.offset.is_none_or(|offset| offset + len <= una)
                        {
                            single.pop_front();
                            first += 1;
                        }
                    }
                    kind => {
                        let (len, count) = ([100, 70][usize::from(random(8) == 0)], 1 + random(5));
                        let offset = if kind == 4 { next } else { random(next + 1) };
                        let at = |n: u64, state| SentPacket { offset: Some(offset + n * len), state };
                        sent_packets.push_run(at(0, state(now, in_flight)), len, count);
                        for n in 0..count {
                            single.push_back((at(n, state(now, in_flight).after(n * len)), len));
                        }
                        in_flight += count * len;
                        next = next.max(offset + count * len);
                    }
                }
                assert_eq!(
                    sent_packets.next_number(),
                    first + single.len() as u64,
                    "seed {seed} step {step}"
                );
                let all: Vec<_> =
                    (first..sent_packets.next_number()).map(|number| sent_packets.get(number)).collect();
                let expected: Vec<_> = single.iter().map(|(packet, _)| Some(*packet)).collect();
                assert_eq!(all, expected, "seed {seed} step {step}");
                let oldest = single.front().map(|(packet, _)| (first, *packet));
                assert_eq!(sent_packets.first(), oldest, "seed {seed} step {step}");
            }
        }
    }

    #[test]
    fn skipped_number_has_no_record() {
        let (mut sent_packets, mut state) = (SentPackets::new(0), states());
        sent_packets.skip_numbers(1);
        let mut sent = Vec::new();
        for batch in 0..1000 {
            // At one time, so that all would extend one run.
            let (offset, first) = (batch * 300, sent_packets.next_number());
            let packet = SentPacket { offset: Some(offset), state: state(0, offset).after(0) };
            sent_packets.push_run(packet, 100, 3);
            sent.extend(first..first + 3);
        }
        let end = sent_packets.next_number();
        let skipped: Vec<u64> = (0..end).filter(|number| sent_packets.was_skipped(*number)).collect();
        assert!((0..end).filter(|number| !sent.contains(number)).eq(skipped.iter().copied()));
        assert!(skipped.iter().all(|number| sent_packets.get(*number).is_none()));
        assert!(sent.iter().all(|number| sent_packets.get(*number).is_some()));
        let distances: Vec<u64> = skipped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            distances.len() >= 7 && distances.iter().all(|n| (128..128 + 256 + 3).contains(n)),
            "{distances:?}"
        );
        sent_packets.forget_acknowledged(u64::MAX, skipped[0] + 1);
        assert!(!sent_packets.was_skipped(skipped[0]) && sent_packets.was_skipped(skipped[1]));
        assert_eq!(sent_packets.first().map(|(number, _)| number), Some(skipped[0] + 1));
    }

    #[test]
    fn records_of_resent_or_lost_segments_are_forgotten() {
        let now = rdt_testing::epoch();
        let mut state = states();
        let mut board = Scoreboard::new(crate::wire::Numbering::Bytes);
        let mut sent_packets = SentPackets::new(0);
        for number in 0..4 {
            sent_packets.push_run(SentPacket { offset: Some(100 * number), state: state(number, 0) }, 100, 1);
            board.push(now, 100, number);
        }
        let mut oldest = |board: &Scoreboard| {
            sent_packets.forget_resolved(board);
            sent_packets.first().map(|(number, _)| number)
        };
        assert_eq!(oldest(&board), Some(0));
        board.mark_lost(0);
        assert_eq!(oldest(&board), Some(1), "the first is lost");
        board.mark_lost(100);
        board.resend(now, 100, 4);
        assert_eq!(oldest(&board), Some(2), "the second has a newer transmission");
        board.sack(&(200..300), |_| {});
        assert_eq!(oldest(&board), Some(3), "the third arrived");
    }
}
