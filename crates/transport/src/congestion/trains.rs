//! Packet trains: segments that left together arrive as far apart as the bottleneck takes to send
//! them, so the ACKs of one train tell the bottleneck's rate after a round trip, whatever the rate
//! of sending was (RFC 6349 calls it dispersion; Jain and Dovrolis, "Packet-Dispersion Techniques
//! and a Capacity-Estimation Methodology", 2004).
//!
//! It is the rate of the link and not what other flows leave of it, and hosts that join packets
//! make it too high. So it bounds what a start may try and never counts as delivered. Owns the
//! train in hand and the last few results.

/// ACKs of one train that make a result: the first only begins the interval.
const MIN_ACKS: u32 = 4;
/// Trains that must agree.
const AGREEING: usize = 3;
/// How far apart the rates of trains that agree may be: a quarter of the smallest.
const SPREAD: u64 = 4;
/// The same for their round trips: 1/64 of the shortest, in which a queue would show.
const QUEUE_RTT_DIVISOR: u64 = 64;

/// Bottleneck rate as measured by trains of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainRate {
    /// Bytes per second, the least of the last trains.
    pub rate: u64,
    /// Several trains in a row had this rate and the same round trip.
    pub steady: bool,
}

/// The segments that left at one time. Times are nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Train {
    sent_at: u64,
    first_ack_at: u64,
    /// Bytes delivered in all when the first ACK came.
    delivered: u64,
    /// The same when the last counted ACK came, and the bytes that the second ACK added.
    last_delivered: u64,
    step: u64,
    acks: u32,
    /// Bytes per second as of the last ACK.
    rate: u64,
}

/// The estimator of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Trains {
    current: Option<Train>,
    /// Rate and round trip of the last ones that are over, the oldest first.
    last: Vec<(u64, u64)>,
}

impl Trains {
    /// An ACK at `now` told of a segment that left at `sent_at`; `delivered` bytes have arrived in
    /// all.
    pub(super) fn on_ack(&mut self, now: u64, sent_at: u64, delivered: u64) {
        match &mut self.current {
            // An ACK of fewer bytes was not due yet: the receiver's timer sent it, so its time says
            // nothing of the path.
            Some(train)
                if train.sent_at == sent_at
                    && delivered.saturating_sub(train.last_delivered) < train.step => {}
            Some(train) if train.sent_at == sent_at => {
                train.acks += 1;
                if train.step == 0 {
                    train.step = delivered - train.last_delivered;
                }
                train.last_delivered = delivered;
                if let Some(interval) = now.checked_sub(train.first_ack_at).filter(|interval| *interval > 0) {
                    let bytes = u128::from(delivered - train.delivered) * 1_000_000_000;
                    train.rate = u64::try_from(bytes / u128::from(interval)).unwrap_or(u64::MAX);
                }
            }
            Some(train) if train.sent_at > sent_at => {}
            current => {
                if let Some(train) = current.filter(|train| train.acks >= MIN_ACKS && train.rate > 0) {
                    if self.last.len() == AGREEING {
                        self.last.remove(0);
                    }
                    self.last.push((train.rate, train.first_ack_at - train.sent_at));
                }
                *current = Some(Train {
                    sent_at,
                    first_ack_at: now,
                    delivered,
                    last_delivered: delivered,
                    step: 0,
                    acks: 1,
                    rate: 0,
                });
            }
        }
    }

    /// The result so far.
    pub(super) fn rate(&self) -> Option<TrainRate> {
        let rates = || self.last.iter().map(|(rate, _)| *rate);
        let rtts = || self.last.iter().map(|(_, rtt)| *rtt);
        let (rate, fastest) = (rates().min()?, rates().max()?);
        let (rtt, longest) = (rtts().min()?, rtts().max()?);
        let steady = self.last.len() == AGREEING
            && fastest - rate <= rate / SPREAD
            && longest - rtt <= rtt / QUEUE_RTT_DIVISOR;
        Some(TrainRate { rate, steady })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Trains of ten segments of 1000 bytes, each 50 ms, acknowledged in pairs after `rtt` ms.
    fn run(trains: &mut Trains, count: u64, pair_ms: u64, rtt: impl Fn(u64) -> u64) {
        for train in 0..count {
            let sent_at = train * 50 * MS;
            for pair in 1..=5 {
                let now = sent_at + (rtt(train) + pair * pair_ms) * MS;
                trains.on_ack(now, sent_at, train * 10_000 + pair * 2000);
            }
        }
    }

    #[test]
    fn agreeing_trains_give_bottleneck_rate() {
        let mut trains = Trains::default();
        run(&mut trains, 2, 2, |_| 600);
        assert_eq!(trains.rate(), Some(TrainRate { rate: 1_000_000, steady: false }));
        run(&mut trains, 5, 2, |_| 600);
        assert_eq!(trains.rate(), Some(TrainRate { rate: 1_000_000, steady: true }));
    }

    #[test]
    fn trains_behind_a_growing_queue_are_not_steady() {
        let mut trains = Trains::default();
        run(&mut trains, 6, 2, |train| 600 + 5 * train);
        assert_eq!(trains.rate().map(|rate| rate.steady), Some(false));
    }

    #[test]
    fn delayed_ack_tail_is_ignored() {
        let mut trains = Trains::default();
        for train in 0..4 {
            let (sent_at, before) = (train * 50 * MS, train * 9000);
            for pair in 1..=4 {
                trains.on_ack(sent_at + (600 + pair * 2) * MS, sent_at, before + pair * 2000);
            }
            trains.on_ack(sent_at + 633 * MS, sent_at, before + 9000);
        }
        assert_eq!(trains.rate(), Some(TrainRate { rate: 1_000_000, steady: true }));
    }

    #[test]
    fn segments_acknowledged_together_tell_nothing() {
        let mut trains = Trains::default();
        run(&mut trains, 6, 0, |_| 600);
        assert_eq!(trains.rate(), None);
    }
}
