//! ECN marking above a queue threshold, and the congestion signals of a queue.

use crate::Ecn;
use crate::queue::QueueLimit;

/// ECN marking of packets that arrive above a queue threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// A packet that the queue would drop if this were its [`QueueLimit`] is marked
    /// [`Ecn::Ce`](crate::Ecn::Ce). This is the step marking of RFC 8257 (section 3.1). It depends
    /// on the queue at the packet's arrival, not on an average.
    pub threshold: QueueLimit,
    /// Treatment of a packet above the threshold that is not ECN-capable
    /// ([`Ecn::NotEct`](crate::Ecn::NotEct)).
    pub incapable: Incapable,
}

impl Marking {
    /// Returns a marking above `threshold` that has no effect on packets that are not ECN-capable.
    pub const fn above(threshold: QueueLimit) -> Self {
        Self { threshold, incapable: Incapable::Pass }
    }

    /// Returns the signal for a packet above the threshold with this codepoint. `None` if the
    /// packet is admitted without a mark.
    pub(super) const fn signal(self, ecn: Ecn) -> Option<Signal> {
        match (ecn.is_capable(), self.incapable) {
            (true, _) => Some(Signal::Mark),
            (false, Incapable::Drop) => Some(Signal::Drop),
            (false, Incapable::Pass) => None,
        }
    }
}

/// Treatment of packets above the marking threshold that are not ECN-capable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Incapable {
    /// The packets are admitted without a mark until the queue is full.
    #[default]
    Pass,
    /// The packets are dropped (RFC 3168, section 5).
    Drop,
}

/// Congestion signal that a queue gives the sender of a packet: a CE mark or a drop.
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
        let marking = Marking { incapable: Incapable::Drop, ..marking };
        assert_eq!(marking.signal(Ecn::NotEct), Some(Signal::Drop));
    }
}
