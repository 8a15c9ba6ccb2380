//! ECN marking above a threshold, and the congestion signals of a queue.

use crate::packet::Ecn;
use crate::queue::QueueLimit;

/// Marking of packets above a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// A packet that would exceed this, if it were the [`QueueLimit`], is marked
    /// [`Ecn::Ce`](crate::Ecn::Ce). This is the step of RFC 8257 (section 3.1). Unlike an average,
    /// it reflects the queue that the packet itself found.
    pub threshold: QueueLimit,
    /// Treatment of a packet that should be marked and is [`Ecn::NotEct`](crate::Ecn::NotEct).
    pub incapable: Incapable,
}

impl Marking {
    /// Marks above `threshold`. Packets that are not ECN-capable pass until the queue is full.
    pub const fn above(threshold: QueueLimit) -> Self {
        Self { threshold, incapable: Incapable::Pass }
    }

    /// The signal of a packet with this codepoint that exceeds the threshold.
    pub(super) const fn signal(self, ecn: Ecn) -> Option<Signal> {
        match (ecn.is_capable(), self.incapable) {
            (true, _) => Some(Signal::Mark),
            (false, Incapable::Drop) => Some(Signal::Drop),
            (false, Incapable::Pass) => None,
        }
    }

    /// Drops packets that are not ECN-capable instead of marking them (RFC 3168, section 5).
    #[must_use]
    pub const fn dropping_others(self) -> Self {
        Self { incapable: Incapable::Drop, ..self }
    }
}

/// Treatment of packets that are not ECN-capable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Incapable {
    /// They pass until the queue is full.
    #[default]
    Pass,
    /// They are dropped instead of marked.
    Drop,
}

/// Congestion signal to the sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Mark,
    Drop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incapable_packets_pass_or_drop_as_configured() {
        let marking = Marking::above(QueueLimit::packets(1));
        assert_eq!([Ecn::Ect0, Ecn::Ect1, Ecn::Ce].map(|ecn| marking.signal(ecn)), [Some(Signal::Mark); 3]);
        assert_eq!(marking.signal(Ecn::NotEct), None);
        assert_eq!(marking.dropping_others().signal(Ecn::NotEct), Some(Signal::Drop));
    }
}
