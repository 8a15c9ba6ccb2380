//! Controlled Delay: RFC 8289.
//!
//! Owns the decision that is made whenever the serialiser asks for a packet: whether the time that
//! packets waited stayed above a target for so long that some have to go, and how soon the next one
//! after that. It holds no packets and does not know why they wait.

use std::time::{Duration, Instant};

use crate::bitrate::Bitrate;
use crate::queue::aqm::{Aqm, Departure, ManagedQueue};
use crate::queue::fifo::{Fifo, QueuedPacket};
use crate::queue::notation::{DisciplineConfig, Parameters, Time};
use crate::queue::{Discipline, DisciplineError};
use crate::time::{nanos, saturating_add};
use crate::units::parse_duration;

/// What CoDel is told; the default is that of RFC 8289, sections 4.2 and 4.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelConfig {
    /// The waiting time that is acceptable for long: 5 ms unless configured.
    pub target: Duration,
    /// How long the waiting time may stay above the target: about the longest usual round-trip time, 100 ms
    /// unless configured.
    pub interval: Duration,
    /// Whether packets that can be marked are marked where others are dropped.
    pub ecn: bool,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

impl DisciplineConfig for CoDelConfig {
    fn name(&self) -> &'static str {
        "codel"
    }

    fn parameters(&self) -> &'static str {
        "target, interval and ecn"
    }

    fn read(&self, parameters: &mut Parameters<'_>) -> Result<Discipline, DisciplineError> {
        let mut config = *self;
        parameters.quantity("target", parse_duration, &mut config.target)?;
        parameters.quantity("interval", parse_duration, &mut config.interval)?;
        parameters.flag("ecn", &mut config.ecn)?;
        for (name, time) in [("target", config.target), ("interval", config.interval)] {
            if time.is_zero() {
                return Err(parameters.refuse(name, "it is more than zero".to_owned()));
            }
        }
        Ok(Discipline::CoDel(config))
    }

    fn write(&self) -> String {
        let ecn = if self.ecn { ",ecn" } else { "" };
        format!("target={},interval={}{ecn}", Time(self.target), Time(self.interval))
    }

    fn build(&self, _: Option<Bitrate>) -> Option<ManagedQueue> {
        Some(ManagedQueue::on_departure(CoDel::new(*self)))
    }
}

/// The state of section 5.2; names as there.
#[derive(Debug)]
struct CoDel {
    config: CoDelConfig,
    /// When the waiting time will have been above the target for an interval, or `None` while it is below.
    first_above: Option<Instant>,
    /// Whether the machine is in drop state.
    dropping: bool,
    /// When to drop next, while dropping, and for some time afterwards a memory of when that was.
    drop_next: Option<Instant>,
    /// Packets dropped since the drop state was entered.
    count: u32,
    /// What `count` was set to when the drop state was entered last.
    last_count: u32,
}

/// A packet taken off the fifo, and whether it may be dropped.
struct Head {
    packet: QueuedPacket,
    ok_to_drop: bool,
}

/// After a pause of so many intervals the rate of dropping is found anew.
const COUNT_MEMORY_INTERVALS: u32 = 16;

impl CoDel {
    const fn new(config: CoDelConfig) -> Self {
        Self { config, first_above: None, dropping: false, drop_next: None, count: 0, last_count: 0 }
    }

    /// Takes the first packet and judges whether the queue has been bad for an interval (`dodequeue` in
    /// section 5.6).
    ///
    /// While one packet of the largest size or less is left behind, the queue is good however long its
    /// packets wait, so nobody is dropped who leaves nobody behind. The RFC has the MTU for that size; what
    /// has been seen needs no configuration.
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

    /// Starts to drop, at the rate that was right the last time if that was not long ago (section 5.5).
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
    /// `deque` in section 5.6.
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
            // A large backlog can ask for several drops at one time.
            while self.dropping && self.drop_next.is_none_or(|at| at <= now) {
                // Every drop counts, the last one before the state is left as well: the next state begins with it.
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

/// When to drop after `at`: an interval later, divided by the square root of the drops so far, so that the
/// throughput of TCP falls in proportion to the time (section 5.6).
fn control_law(at: Instant, interval: Duration, count: u32) -> Instant {
    #[expect(clippy::cast_precision_loss, reason = "an interval is far below 2^53 ns, which is 104 days")]
    let spacing = nanos(interval) as f64 / f64::from(count).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let spacing = Duration::from_nanos(spacing.round() as u64);
    saturating_add(at, spacing)
}

#[cfg(test)]
mod tests;
