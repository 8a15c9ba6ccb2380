//! Controlled Delay: RFC 8289.
//!
//! CoDel decides when the serialiser is free: it drops a departing packet if the queueing delay has
//! stayed above a target for an interval.

use std::time::{Duration, Instant};

use crate::queue::aqm::{Aqm, Departure};
use crate::queue::fifo::{Fifo, QueuedPacket};
use crate::queue::notation::Parameters;
use crate::time::{nanos, saturating_add};
use crate::units::{NotationError, parse_duration, write_duration};

/// Settings of CoDel. The defaults are those of RFC 8289, sections 4.2 and 4.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelConfig {
    /// Target queueing delay: 5 ms by default.
    pub target: Duration,
    /// Time for which the queueing delay may stay above the target before packets are dropped: 100
    /// ms by default, about the longest round-trip time expected.
    pub interval: Duration,
    /// True if ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

impl CoDelConfig {
    /// Returns these settings changed by `parameters`.
    pub(super) fn read(mut self, parameters: &mut Parameters<'_>) -> Result<Self, NotationError> {
        parameters.quantity("target", parse_duration, &mut self.target)?;
        parameters.quantity("interval", parse_duration, &mut self.interval)?;
        parameters.flag("ecn", &mut self.ecn)?;
        for (name, time) in [("target", self.target), ("interval", self.interval)] {
            if time.is_zero() {
                return Err(parameters.refuse(name, "it must be more than zero"));
            }
        }
        Ok(self)
    }

    /// Returns the text of all parameters.
    pub(super) fn write(&self) -> String {
        let ecn = if self.ecn { ",ecn" } else { "" };
        let [target, interval] = [self.target, self.interval].map(write_duration);
        format!("target={target},interval={interval}{ecn}")
    }
}

/// State variables of RFC 8289, section 5.2, under their names there.
#[derive(Debug)]
pub(super) struct CoDel {
    config: CoDelConfig,
    /// Time at which the queueing delay will have been above the target for an interval. `None`
    /// while the delay is below the target.
    first_above: Option<Instant>,
    dropping: bool,
    /// In the drop state, time of the next drop. Afterwards, when the next drop would have been.
    /// `None` before the first drop state.
    drop_next: Option<Instant>,
    /// Packets dropped or marked in the current or last drop state; it may start above 1.
    count: u32,
    /// Value of `count` at the start of the current or last drop state.
    last_count: u32,
}

struct Head {
    packet: QueuedPacket,
    ok_to_drop: bool,
}

/// A drop state that starts later than this after the last one begins with the lowest drop rate.
const COUNT_MEMORY_INTERVALS: u32 = 16;

impl CoDel {
    pub(super) const fn new(config: CoDelConfig) -> Self {
        Self { config, first_above: None, dropping: false, drop_next: None, count: 0, last_count: 0 }
    }

    /// Removes the oldest packet, and checks whether the queueing delay has been above the target
    /// for an interval (`dodequeue` in section 5.6).
    ///
    /// If at most one packet of the largest size remains in the queue, the delay counts as below
    /// the target. The last packet of the queue is therefore never dropped. The RFC uses the MTU as
    /// that size; the largest packet so far needs no configuration.
    fn take(&mut self, now: Instant, queue: &mut Fifo) -> Option<Head> {
        let Some(packet) = queue.pop() else {
            self.first_above = None;
            return None;
        };
        let sojourn = now.saturating_duration_since(packet.enters);
        let is_good = sojourn < self.config.target || queue.bytes() <= queue.largest();
        let ok_to_drop = !is_good && self.first_above.is_some_and(|at| at <= now);
        if is_good {
            self.first_above = None;
        } else if self.first_above.is_none() {
            self.first_above = Some(saturating_add(now, self.config.interval));
        }
        Some(Head { packet, ok_to_drop })
    }

    fn schedule_next(&mut self, now: Instant) {
        self.drop_next = Some(control_law(self.drop_next.unwrap_or(now), self.config.interval, self.count));
    }

    /// Enters the drop state. Continues with about the drop rate of the last drop state if that was
    /// recent (section 5.5).
    fn enter_drop_state(&mut self, now: Instant) {
        self.dropping = true;
        let memory = self.config.interval.saturating_mul(COUNT_MEMORY_INTERVALS);
        let is_recent = self.drop_next.is_some_and(|at| now.saturating_duration_since(at) < memory);
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if is_recent && delta > 1 { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = Some(control_law(now, self.config.interval, self.count));
    }

    fn marks(&self, packet: &QueuedPacket) -> bool {
        self.config.ecn && packet.packet.ecn.is_capable()
    }
}

impl Aqm for CoDel {
    /// `deque` of RFC 8289, section 5.6.
    fn on_dequeue(
        &mut self,
        now: Instant,
        queue: &mut Fifo,
        drop: &mut dyn FnMut(QueuedPacket),
    ) -> Option<Departure> {
        let mut head = self.take(now, queue)?;
        let mut is_marked = false;
        if self.dropping {
            self.dropping = head.ok_to_drop;
            // Several drops can be due at the same time.
            while self.dropping && self.drop_next.is_none_or(|at| at <= now) {
                // Counts before `dodequeue`, so that the drop that ends the drop state counts too:
                // the next drop state derives its start value from `count`.
                self.count = self.count.saturating_add(1);
                if self.marks(&head.packet) {
                    is_marked = true;
                    self.schedule_next(now);
                    break;
                }
                drop(head.packet);
                head = self.take(now, queue)?;
                self.dropping = head.ok_to_drop;
                if self.dropping {
                    self.schedule_next(now);
                }
            }
        } else if head.ok_to_drop {
            is_marked = self.marks(&head.packet);
            if !is_marked {
                drop(head.packet);
                head = self.take(now, queue)?;
            }
            self.enter_drop_state(now);
        }
        Some(Departure { packet: head.packet, is_marked })
    }
}

/// Returns the time of the next drop: `at` plus the interval divided by the square root of `count`.
/// TCP's throughput then decreases linearly with time (section 5.6).
fn control_law(at: Instant, interval: Duration, count: u32) -> Instant {
    #[expect(clippy::cast_precision_loss, reason = "an interval is far below 2^53 ns, which is 104 days")]
    let spacing = nanos(interval) as f64 / f64::from(count).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let spacing = Duration::from_nanos(spacing.round() as u64);
    saturating_add(at, spacing)
}

#[cfg(test)]
mod tests;
