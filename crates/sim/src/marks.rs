//! Events of a sender with their times, for marks in a diagram.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_transport::congestion::Cause;
use rdt_transport::{Observer, Timer, Trace};

/// Event of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A recovery episode began because ACKs showed a loss: fast retransmit.
    FastRetransmit,
    /// A recovery episode began because the retransmission timer fired.
    TimeoutRecovery,
    /// The retransmission timer fired, whatever followed. It also times zero-window probes.
    Timeout,
    /// The recovery episode ended with all losses repaired.
    Recovered,
    /// The recovery episode was spurious, and its reduction of the window was undone.
    SpuriousUndone,
    /// A tail loss probe repaired a loss that nothing else detected.
    ProbeRepaired,
    /// The congestion window was reduced because of CE marks.
    EcnReduced,
    /// A packet was retransmitted.
    Retransmission,
}

/// Observer that records the [`Mark`]s of a sender. Clones share them, so one clone observes the
/// sender and another returns the marks.
#[derive(Debug, Clone)]
pub struct Marks {
    epoch: Instant,
    marks: Arc<Mutex<Vec<(Duration, Mark)>>>,
}

impl Marks {
    /// Creates an observer without marks. `epoch` is
    /// [`Simulation::epoch`](crate::Simulation::epoch).
    pub fn new(epoch: Instant) -> Self {
        Self { epoch, marks: Arc::default() }
    }

    /// Returns the marks so far with their virtual times, in order.
    pub fn marks(&self) -> Vec<(Duration, Mark)> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Marks {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mark = match trace {
            Trace::RecoveryBegan { cause: Cause::Loss } => Mark::FastRetransmit,
            Trace::RecoveryBegan { cause: Cause::Timeout } => Mark::TimeoutRecovery,
            Trace::TimerExpired { timer: Timer::Retransmission } => Mark::Timeout,
            Trace::RecoveryEnded { spurious: false } => Mark::Recovered,
            Trace::RecoveryEnded { spurious: true } => Mark::SpuriousUndone,
            Trace::ProbeRepaired => Mark::ProbeRepaired,
            Trace::EcnReduced => Mark::EcnReduced,
            Trace::PacketSent { resend: Some(_), .. } => Mark::Retransmission,
            _ => return,
        };
        let time = now.saturating_duration_since(self.epoch);
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).push((time, mark));
    }
}
