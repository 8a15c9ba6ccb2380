//! Data in flight: outstanding segments, the transmissions that carried them, and the delivery rate
//! measured from both. The classic format does not number transmissions, so it has segments only.

use std::ops::Range;
use std::time::Instant;

use super::scoreboard::Acked;
use super::{AckOutcome, Fate, Lost, Scoreboard, Segment, SegmentRun, SentPacket, SentPackets};
use crate::LossTrigger;
use crate::congestion::DeliveryRate;
use crate::wire::Numbering;

#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) board: Scoreboard,
    pub(crate) sent: SentPackets,
    /// `None` before the handshake completes, and in the classic format.
    pub(crate) rate: Option<DeliveryRate>,
    /// True if the format has packet numbers (native).
    numbered: bool,
    /// Largest packet number that arrived, as reported by the receiver.
    pub(crate) largest_acked: Option<u64>,
    /// End of the data that duplicate ACKs have reported, stream offset.
    reported_end: u64,
    /// True to process segments one by one, never as a run.
    #[cfg(test)]
    pub(crate) one_by_one: bool,
}

impl Flight {
    /// Returns an empty flight; the first transmission will have number `first_number`.
    pub(crate) fn new(numbering: Numbering, first_number: u64) -> Self {
        Self {
            board: Scoreboard::new(numbering),
            sent: SentPackets::new(first_number),
            rate: None,
            numbered: numbering == Numbering::Bytes,
            largest_acked: None,
            reported_end: 0,
            #[cfg(test)]
            one_by_one: false,
        }
    }

    /// Skips some packet numbers, chosen by the secret `seed` (native).
    pub(crate) fn skip_numbers(&mut self, seed: u64) {
        if self.numbered {
            self.sent.skip_numbers(seed);
        }
    }

    /// Starts to measure the delivery rate. Returns false if the format does not allow it.
    pub(crate) fn measure_from(&mut self, now: Instant) -> bool {
        self.rate = self.numbered.then(|| DeliveryRate::new(now));
        self.numbered
    }

    /// Releases memory that is needed only for data in flight.
    pub(crate) fn shrink(&mut self) {
        self.board.shrink();
        self.sent.shrink();
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.sent.next_number()
    }

    /// Returns the difference between the numbers of consecutive transmissions: 0 without numbers.
    pub(crate) fn number_step(&self) -> u64 {
        u64::from(self.numbered)
    }

    /// Records a batch of `count` transmissions of `len` stream bytes each, from `offset` on;
    /// `None` for packets without stream bytes. Call before the scoreboard records new segments.
    pub(crate) fn on_transmitted(&mut self, now: Instant, offset: Option<u64>, len: u64, count: u64) {
        if let Some(rate) = &mut self.rate {
            let state = rate.on_sent(now, len, self.board.in_flight());
            self.sent.push_run(SentPacket { offset, state }, len, count);
        }
    }

    /// Records the first transmission of the next `count` segments of `len` bytes each.
    pub(crate) fn push_run(&mut self, now: Instant, len: u32, count: u64) {
        let (packet_number, step) = (self.next_number(), self.number_step());
        self.on_transmitted(now, Some(self.board.next_offset()), u64::from(len), count);
        self.board.push_run(now, len, count, |n| packet_number + n * step);
    }

    /// Returns the send time of packet `packet_number`, if recorded.
    pub(crate) fn sent_at(&self, packet_number: u64) -> Option<Instant> {
        Some(self.rate.as_ref()?.sent_at(&self.sent.state_of(packet_number)?))
    }

    /// Applies a cumulative ACK; see [`Scoreboard::acknowledge`]. The segments before and after a
    /// skipped number are two runs.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        ack: u64,
        mut on_delivered: impl FnMut(&SegmentRun<'_>),
    ) -> Acked {
        let skip = if self.numbered { self.board.skip_below(ack) } else { None };
        let Some(skip) = skip else { return self.acknowledge_run(now, ack, on_delivered) };
        let before = self.acknowledge_run(now, skip, &mut on_delivered);
        let after = self.acknowledge_run(now, ack, on_delivered);
        Acked { bytes: before.bytes + after.bytes, karn: before.karn.and(after.karn), ..after }
    }

    fn acknowledge_run(
        &mut self,
        now: Instant,
        ack: u64,
        mut on_delivered: impl FnMut(&SegmentRun<'_>),
    ) -> Acked {
        #[cfg(test)]
        let one_by_one = self.one_by_one;
        #[cfg(not(test))]
        let one_by_one = false;
        let Self { board, sent, rate, .. } = self;
        let (measured, sent) = (rate.is_some(), &*sent);
        // If an earlier ACK ended inside the first segment, the record is longer than what is left
        // of the segment.
        let whole = |first: &Segment| {
            sent.get(first.packet_number).is_some_and(|packet| packet.offset == Some(first.offset))
        };
        let recorded =
            |run: &SegmentRun<'_>| !measured || (whole(run.first) && sent.has(&run.packet_numbers()));
        let together = |run: &SegmentRun<'_>| !one_by_one && recorded(run);
        board.acknowledge(ack, together, |run| {
            measure(now, rate.as_mut(), sent, run);
            on_delivered(run);
        })
    }

    /// Applies a SACK block; see [`Scoreboard::sack`].
    pub(crate) fn sack(
        &mut self,
        now: Instant,
        block: &Range<u64>,
        mut on_delivered: impl FnMut(&SegmentRun<'_>),
    ) -> u64 {
        let Self { board, sent, rate, .. } = self;
        board.sack(block, |run| {
            measure(now, rate.as_mut(), sent, run);
            on_delivered(run);
        })
    }

    /// Declares the segments in flight lost for which `lost` is true. Forgets what duplicate ACKs
    /// showed to be delivered, because no segment is known to be.
    pub(super) fn mark_all_lost(
        &mut self,
        trigger: LossTrigger,
        lost: impl Fn(&Segment) -> bool,
    ) -> Vec<Lost> {
        let in_flight = self.board.segments().filter(|segment| segment.fate == Fate::InFlight);
        let as_lost =
            |segment: &Segment| Lost::new(segment, self.sent.state_of(segment.packet_number), trigger);
        let marked: Vec<_> = in_flight.filter(|segment| lost(segment)).map(as_lost).collect();
        for lost in &marked {
            self.board.mark_lost(lost.offset);
        }
        self.board.forget_assumed(u64::MAX);
        self.sent.forget_resolved(&self.board);
        marked
    }

    /// Measures deliveries by duplicate ACKs, for rules without SACK
    /// (draft-cheng-iccrg-delivery-rate-estimation, "TCP Connections without SACK"). Otherwise
    /// the ACK that fills a hole would count as the delivery of all data beyond it, within the
    /// RTT of one retransmission. The rate would be several times too high.
    pub(crate) fn measure_duplicates(&mut self, ack: &AckOutcome) {
        let Self { board, sent, rate: Some(rate), reported_end, .. } = self else { return };
        if ack.moved {
            // If data beyond the next hole was reported, only the filled hole is new.
            let all = board.una_offset() >= *reported_end;
            rate.on_reported_acked(if all { ack.bytes } else { ack.bytes.saturating_sub(ack.mss) });
        } else if ack.repeats
            && let Some(packet) = ack.largest_acked.and_then(|number| sent.get(number))
            && let Some(segment) = packet.offset.and_then(|offset| board.find(offset))
        {
            rate.on_reported(ack.now, &packet.state, u64::from(segment.len));
            *reported_end = segment.end().max(*reported_end);
        }
    }

    /// Removes the oldest records whose segments are delivered or retransmitted.
    pub(crate) fn forget_resolved(&mut self) {
        if self.numbered {
            self.sent.forget_resolved(&self.board);
        }
    }
}

/// Reports the delivery of `run` to the delivery-rate estimator.
fn measure(now: Instant, rate: Option<&mut DeliveryRate>, sent: &SentPackets, run: &SegmentRun<'_>) {
    let Some(rate) = rate else { return };
    if run.count > 1 {
        for (bytes, state) in sent.together(run.packet_numbers()) {
            rate.on_delivered(now, &state, bytes);
        }
    } else if let Some(packet) = sent.get(run.first.packet_number) {
        rate.on_delivered(now, &packet.state, u64::from(run.first.len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four segments of 100 bytes, sent together.
    fn flight(now: Instant) -> Flight {
        let mut flight = Flight::new(Numbering::Bytes, 0);
        flight.measure_from(now);
        flight.push_run(now, 100, 4);
        flight
    }

    #[test]
    fn delivery_rate_counts_all_bytes_of_run() {
        let now = rdt_testing::epoch();
        for (ack, delivered) in [(100, 100), (400, 400)] {
            let mut flight = flight(now);
            flight.acknowledge(now, ack, |_| {});
            assert_eq!(flight.rate.as_ref().map(DeliveryRate::delivered), Some(delivered));
        }
    }

    /// Echoes the transmissions `echoed` by duplicate ACKs, then applies each cumulative ACK.
    /// Returns the delivered bytes after each of both.
    fn measured(echoed: &[u64], acks: &[u64]) -> Vec<u64> {
        let now = rdt_testing::epoch();
        let mut flight = flight(now);
        let delivered = |flight: &mut Flight, outcome: &AckOutcome| {
            flight.measure_duplicates(outcome);
            let rate = flight.rate.as_mut().unwrap();
            rate.newly_delivered(outcome.bytes);
            rate.delivered()
        };
        let no_ack = AckOutcome::none(now, 100, 0, true);
        let duplicate = |number: &u64| AckOutcome { repeats: true, largest_acked: Some(*number), ..no_ack };
        let mut all: Vec<_> =
            echoed.iter().map(|number| delivered(&mut flight, &duplicate(number))).collect();
        for ack in acks {
            let bytes = flight.acknowledge(now, *ack, |_| {}).bytes;
            all.push(delivered(&mut flight, &AckOutcome { moved: true, bytes, ..no_ack }));
        }
        all
    }

    #[test]
    fn duplicate_acks_measure_each_delivery_once() {
        assert_eq!(measured(&[1, 2, 3], &[400]), [100, 200, 300, 400]);
        assert_eq!(measured(&[1, 3], &[200, 400]), [100, 200, 300, 400], "two holes");
        assert_eq!(measured(&[3], &[400]), [100, 400], "two duplicate ACKs were lost");
        assert_eq!(measured(&[9], &[400]), [0, 400], "no such transmission");
    }

    #[test]
    fn reported_segment_without_record_counts_once() {
        let now = rdt_testing::epoch();
        let mut flight = flight(now);
        let no_ack = AckOutcome::none(now, 100, 0, true);
        flight.measure_duplicates(&AckOutcome { repeats: true, largest_acked: Some(1), ..no_ack });
        assert_eq!(flight.rate.as_mut().unwrap().newly_delivered(0), 100);
        for offset in [0, 100, 200, 300] {
            flight.board.mark_lost(offset);
        }
        flight.forget_resolved();
        let bytes = flight.acknowledge(now, 400, |_| {}).bytes;
        flight.measure_duplicates(&AckOutcome { moved: true, bytes, ..no_ack });
        let rate = flight.rate.as_mut().unwrap();
        assert_eq!((rate.newly_delivered(bytes), rate.delivered()), (300, 100));
    }

    #[test]
    fn skipped_number_divides_ack_into_two_runs() {
        let now = rdt_testing::epoch();
        let mut flight = Flight::new(Numbering::Bytes, 0);
        flight.measure_from(now);
        flight.skip_numbers(1);
        let mut first = 0;
        while flight.next_number() == first {
            flight.push_run(now, 100, 3);
            first += 3;
        }
        flight.push_run(now, 100, 5);
        let mut runs = Vec::new();
        let acked = flight.acknowledge(now, (first + 5) * 100, |run| runs.push(run.packet_numbers()));
        assert_eq!(runs, [0..=first - 1, first + 1..=first + 5]);
        assert_eq!((acked.bytes, acked.moved), ((first + 5) * 100, true));
        assert!(flight.board.is_empty());
        assert_eq!(flight.rate.as_ref().map(DeliveryRate::delivered), Some((first + 5) * 100));
    }

    #[test]
    fn lost_segments_lose_their_records() {
        let mut flight = flight(rdt_testing::epoch());
        flight.board.mark_lost(0);
        flight.forget_resolved();
        assert_eq!(flight.sent.first().map(|(number, _)| number), Some(1));
    }
}
