//! Sequence space of one direction: bytes sent and acknowledged, and round-trip times. The rules
//! are those of tcptrace 6.6.7, so that its figures are the same.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Count, mean, standard deviation and extremes of times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    /// Number of values.
    pub count: u64,
    sum: f64,
    squares: f64,
    least: u64,
    most: u64,
}

impl Moments {
    /// Adds a time in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        let s = seconds(ns);
        self.count += 1;
        self.sum += s;
        self.squares += s * s;
        // tcptrace takes a smallest time of 0 for none.
        if self.least == 0 || ns < self.least {
            self.least = ns;
        }
        self.most = self.most.max(ns);
    }

    /// Returns the smallest value in seconds, 0 without values.
    pub fn least(&self) -> f64 {
        seconds(self.least)
    }

    /// Returns the largest value in seconds, 0 without values.
    pub fn most(&self) -> f64 {
        seconds(self.most)
    }

    /// Returns the mean in seconds, 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / number(self.count) }
    }

    /// Returns the standard deviation in seconds. It is 0 with two values or fewer, as in tcptrace.
    pub fn deviation(&self) -> f64 {
        if self.count <= 2 {
            return 0.0;
        }
        let n = number(self.count);
        ((self.squares - self.sum * self.sum / n) / (n - 1.0)).max(0.0).sqrt()
    }
}

/// Converts nanoseconds to seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    number(ns) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "counts and times of captures are below 2^53")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

/// Unwraps sequence numbers: converts numbers modulo 2^32 to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unwrapped {
    latest: Option<u64>,
}

impl Unwrapped {
    /// Returns the unwrapped number that is nearest to the largest so far.
    pub fn at(&mut self, number: u32) -> u64 {
        let at = self.near(number);
        self.latest = Some(self.latest.map_or(at, |latest| latest.max(at)));
        at
    }

    /// Returns the same as `at`, but does not raise the largest number.
    pub fn near(&self, number: u32) -> u64 {
        // 2^32 more, so that numbers below the first one are not negative.
        let Some(latest) = self.latest else { return u64::from(number) + (1 << 32) };
        #[expect(clippy::cast_possible_truncation, reason = "the number on the wire")]
        let ahead = number.wrapping_sub(latest as u32).cast_signed();
        latest.saturating_add_signed(i64::from(ahead))
    }

    /// True before the first number.
    pub fn is_new(&self) -> bool {
        self.latest.is_none()
    }
}

/// Segment that is not acknowledged, without its first sequence number.
#[derive(Debug, Clone, Copy)]
struct Sent {
    end: u64,
    /// Time of the last transmission.
    at_ns: u64,
    retransmissions: u32,
}

/// Meaning of an acknowledgement number for round-trip times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Acknowledges nothing new, and is no duplicate ACK.
    Old,
    /// Acknowledges up to the end of a segment that was sent once. The value is the round-trip
    /// time, nanoseconds.
    Sample(u64),
    /// Acknowledges up to the end of a segment that was retransmitted, so Karn's algorithm takes no
    /// sample.
    Ambiguous,
    /// Acknowledges up to the end of a segment that was sent before a retransmission of an older
    /// one. The ACK waited for the retransmission, so it gives no sample.
    AfterLoss,
    /// Acknowledges segments, but names the end of none.
    Cumulative,
    /// Duplicate ACK, with its number among equal ones.
    Duplicate(u32),
}

/// Relation of a transmission to earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sending {
    /// Bytes that were sent before.
    pub repeated: u64,
    /// True if it fills a hole below data that was sent before.
    pub out_of_order: bool,
}

/// Sequence space of one direction. An interval is `[start, end)`.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    /// Segments by their first sequence number.
    unacked: BTreeMap<u64, Sent>,
    /// Ends of acknowledged intervals by their starts.
    acked: BTreeMap<u64, u64>,
    /// Time of the latest transmission of acknowledged data.
    acked_sent_ns: u64,
    /// Number of ACKs that named the end of the latest acknowledged segment.
    equal_acks: u32,
    /// Round-trip times by Karn's algorithm (RFC 6298, section 3).
    pub rtt: Moments,
    /// Round-trip times of segments of the largest size so far.
    pub full: Moments,
    full_size: u64,
    /// Times from the last transmission of retransmitted segments to their ACKs.
    pub ambiguous: Moments,
    /// ACKs of segments that were sent before a retransmission of older ones.
    pub after_loss: u64,
    /// Segments that were acknowledged by an ACK of later data.
    pub cumulative: u64,
    /// Duplicate ACKs.
    pub duplicate_acks: u64,
    /// ACKs that were the third duplicate.
    pub triple_duplicates: u64,
    /// Largest number of retransmissions of a segment.
    pub most_retransmissions: u32,
    /// Times from a transmission to the next one of the same segment.
    pub retransmission_times: Moments,
}

impl Sequence {
    /// Adds the transmission of `[start, end)`.
    pub fn sent(&mut self, mut start: u64, end: u64, at_ns: u64) -> Sending {
        let mut sending = Sending::default();
        let mut timed = false;
        while start < end {
            let Some((first, last, is_acked)) = self.known_after(start) else { break };
            if start < first {
                // tcptrace calls data out of order if it ends before the end of the next segment.
                sending.out_of_order |= end < last;
                self.unacked.insert(start, Sent { end: end.min(first), at_ns, retransmissions: 0 });
                if end <= first {
                    return sending;
                }
                start = first;
            }
            self.repeat(first, is_acked, !timed, at_ns);
            timed = true;
            let covered = end.min(last);
            sending.repeated += covered - start;
            start = covered;
        }
        if start < end {
            self.unacked.insert(start, Sent { end, at_ns, retransmissions: 0 });
        }
        sending
    }

    /// Returns the lowest interval that ends after `at`, and whether it is acknowledged.
    fn known_after(&self, at: u64) -> Option<(u64, u64, bool)> {
        let unacked = |(start, sent): (&u64, &Sent)| (*start, sent.end, false);
        let acked = |(start, end): (&u64, &u64)| (*start, *end, true);
        let pairs = [
            self.unacked.range(..=at).next_back().map(unacked),
            self.unacked.range((Excluded(at), Unbounded)).next().map(unacked),
            self.acked.range(..=at).next_back().map(acked),
            self.acked.range((Excluded(at), Unbounded)).next().map(acked),
        ];
        pairs.into_iter().flatten().filter(|(_, end, _)| *end > at).min()
    }

    /// Counts a retransmission of the segment at `first`. Times are taken for the first segment of
    /// a packet only.
    fn repeat(&mut self, first: u64, is_acked: bool, is_first: bool, at_ns: u64) {
        if is_acked {
            if is_first {
                self.acked_sent_ns = self.acked_sent_ns.max(at_ns);
            }
            return;
        }
        let Some(sent) = self.unacked.get_mut(&first) else { return };
        sent.retransmissions += 1;
        if is_first {
            self.most_retransmissions = self.most_retransmissions.max(sent.retransmissions);
            self.retransmission_times.add(at_ns.saturating_sub(sent.at_ns));
            sent.at_ns = at_ns;
        }
    }

    /// Returns the number of ranges that are remembered.
    pub fn ranges(&self) -> usize {
        self.unacked.len() + self.acked.len()
    }

    /// Takes the oldest segment, or the lowest hole, for acknowledged. Returns false if one range
    /// at most is left of each.
    pub fn forget(&mut self) -> bool {
        if self.acked.len() > 1 {
            let lowest = self.acked.pop_first().zip(self.acked.pop_first());
            if let Some(((start, end), (_, last))) = lowest {
                self.acked.insert(start, end.max(last));
            }
            return true;
        }
        if self.unacked.len() < 2 {
            return false;
        }
        if let Some((start, sent)) = self.unacked.pop_first() {
            self.add_acked(start, sent.end);
        }
        true
    }

    /// Applies an acknowledgement. `may_be_duplicate` is true for an ACK without data that repeats
    /// the number and the window of the latest one.
    pub fn acknowledged(&mut self, ack: u64, at_ns: u64, may_be_duplicate: bool) -> Ack {
        let mut result = self.duplicate(ack, may_be_duplicate);
        let mut newest = self.acked_sent_ns;
        while let Some((&start, &sent)) = self.unacked.range(..ack).next() {
            self.unacked.remove(&start);
            newest = newest.max(sent.at_ns);
            self.equal_acks = 1;
            if sent.end == ack {
                result = self.sample(start, sent, newest, at_ns);
            } else {
                self.cumulative += 1;
                result = Ack::Cumulative;
            }
            self.add_acked(start, sent.end);
        }
        self.acked_sent_ns = newest;
        result
    }

    /// Counts an ACK that names the end of data that is acknowledged already.
    fn duplicate(&mut self, ack: u64, may_be_duplicate: bool) -> Ack {
        let ends_here = self.acked.range(..ack).next_back().is_some_and(|(_, end)| *end == ack);
        if !(ends_here && may_be_duplicate) {
            if self.acked.range(..ack).next().is_some() {
                self.equal_acks = 1;
            }
            return Ack::Old;
        }
        self.duplicate_acks += 1;
        self.equal_acks += 1;
        if self.equal_acks == 4 {
            self.triple_duplicates += 1;
        }
        Ack::Duplicate(self.equal_acks - 1)
    }

    fn sample(&mut self, start: u64, sent: Sent, newest_ns: u64, at_ns: u64) -> Ack {
        let rtt_ns = at_ns.saturating_sub(sent.at_ns);
        if newest_ns > sent.at_ns {
            self.after_loss += 1;
            return Ack::AfterLoss;
        }
        if sent.retransmissions > 0 {
            self.ambiguous.add(rtt_ns);
            return Ack::Ambiguous;
        }
        self.rtt.add(rtt_ns);
        let size = sent.end - start;
        if size > self.full_size {
            self.full_size = size;
            self.full = Moments::default();
        }
        if size == self.full_size {
            self.full.add(rtt_ns);
        }
        Ack::Sample(rtt_ns)
    }

    fn add_acked(&mut self, mut start: u64, mut end: u64) {
        if let Some((&before, &joined)) = self.acked.range(..start).next_back()
            && joined == start
        {
            start = before;
        }
        if let Some(&after) = self.acked.get(&end) {
            self.acked.remove(&end);
            end = after;
        }
        self.acked.insert(start, end);
    }
}
