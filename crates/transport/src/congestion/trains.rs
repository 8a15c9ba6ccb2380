//! Packet trains: segments sent back to back arrive spaced by the bottleneck's transmission time.
//! The dispersion of their ACKs gives the bottleneck rate after one RTT, independent of the sending
//! rate (RFC 6349; Jain and Dovrolis, "Packet-Dispersion Techniques and a Capacity-Estimation
//! Methodology", 2004).
//!
//! The result is the capacity of the link, not the share available to this flow. Hosts that
//! coalesce packets inflate it. It therefore bounds the rate of `Startup` and is no delivery-rate
//! sample. Owns the current train and the last results.

use super::delivery_rate::bytes_per_second;

/// ACKs of a train needed for a result; the first starts the interval.
const MIN_ACKS: u32 = 4;
/// Consecutive trains compared for a steady result.
const STEADY_TRAINS: usize = 3;
/// Consecutive trains are steady if their rates differ by at most 1/4 of the lowest.
const RATE_SPREAD_DIVISOR: u64 = 4;
/// Consecutive trains are steady if their RTTs differ by at most 1/64 of the lowest; a larger
/// difference shows a queue.
const QUEUE_RTT_DIVISOR: u64 = 64;

/// Bottleneck rate as measured by trains of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainRate {
    /// Lowest rate of the last trains, bytes per second.
    pub rate: u64,
    /// True if the last three trains agree in rate and RTT.
    pub steady: bool,
}

/// Segments sent at the same time. Times are nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Train {
    sent_at: u64,
    first_ack_at: u64,
    /// Total bytes delivered at the first ACK.
    delivered: u64,
    /// Total bytes delivered at the last counted ACK.
    last_delivered: u64,
    /// Bytes acknowledged by the second ACK; 0 before it.
    step: u64,
    acks: u32,
    /// Rate at the last counted ACK, bytes per second.
    rate: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Trains {
    current: Option<Train>,
    /// Rate and RTT of the last completed trains, oldest first.
    last: Vec<(u64, u64)>,
}

impl Trains {
    /// Processes an ACK at `now` of a segment sent at `sent_at`; `delivered` is the total so far.
    pub(super) fn on_ack(&mut self, now: u64, sent_at: u64, delivered: u64) {
        match &mut self.current {
            // Skip an ACK of fewer bytes than `step`: the delayed-ACK timer sent it, so its time is
            // not the path's.
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
                    train.rate = bytes_per_second(delivered - train.delivered, interval);
                }
            }
            Some(train) if train.sent_at > sent_at => {}
            current => {
                if let Some(train) = current.filter(|train| train.acks >= MIN_ACKS && train.rate > 0) {
                    if self.last.len() == STEADY_TRAINS {
                        self.last.remove(0);
                    }
                    // An ACK is stamped by the kernel, a segment by the sender's clock, which is
                    // read later.
                    self.last.push((train.rate, train.first_ack_at.saturating_sub(train.sent_at)));
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

    /// Returns the current estimate; `None` before the first completed train.
    pub(super) fn rate(&self) -> Option<TrainRate> {
        let rates = || self.last.iter().map(|(rate, _)| *rate);
        let rtts = || self.last.iter().map(|(_, rtt)| *rtt);
        let (rate, fastest) = (rates().min()?, rates().max()?);
        let (rtt, longest) = (rtts().min()?, rtts().max()?);
        let steady = self.last.len() == STEADY_TRAINS
            && fastest - rate <= rate / RATE_SPREAD_DIVISOR
            && longest - rtt <= rtt / QUEUE_RTT_DIVISOR;
        Some(TrainRate { rate, steady })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Runs trains of ten 1000-byte segments, one each 50 ms, acknowledged in pairs after `rtt` ms.
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
    fn trains_with_growing_queue_are_not_steady() {
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
    fn ack_stamped_before_send_time_has_zero_rtt() {
        let mut trains = Trains::default();
        for train in 1..=2 {
            let sent_at = train * 50 * MS;
            for pair in 1..=5 {
                trains.on_ack(sent_at - 9 * MS + pair * MS, sent_at, train * 10_000 + pair * 2000);
            }
        }
        assert_eq!(trains.last, [(2_000_000, 0)]);
    }

    #[test]
    fn segments_acknowledged_together_give_no_rate() {
        let mut trains = Trains::default();
        run(&mut trains, 6, 0, |_| 600);
        assert_eq!(trains.rate(), None);
    }
}
