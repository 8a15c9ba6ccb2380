//! How far a sender's window was reduced at each loss.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rdt_transport::congestion::Cause;
use rdt_transport::{Observer, Trace};

#[derive(Debug, Default)]
struct Seen {
    cwnd: u64,
    /// The window that a recovery began with, until its threshold is known.
    began: Option<u64>,
    ratios: Vec<f64>,
}

/// Observer of `ssthresh / cwnd` at each reduction for a loss. Clones share the figures: one is the sender's, one is
/// read.
#[derive(Debug, Clone, Default)]
pub struct Reductions(Arc<Mutex<Seen>>);

impl Reductions {
    /// The ratio of every reduction so far, in order.
    pub fn ratios(&self) -> Vec<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ratios.clone()
    }

    /// Mean of the ratios; `None` if there was no reduction.
    #[allow(clippy::cast_precision_loss, reason = "a count of reductions")]
    pub fn mean(&self) -> Option<f64> {
        let ratios = self.ratios();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }
}

impl Observer for Reductions {
    #[allow(clippy::cast_precision_loss, reason = "windows are far below 2^53 bytes")]
    fn on(&mut self, _: Instant, trace: &Trace) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match trace {
            Trace::RecoveryBegan { cause: Cause::Loss } => seen.began = Some(seen.cwnd),
            Trace::MetricsUpdated(metrics) => {
                if let (Some(before), Some(ssthresh)) = (seen.began.take(), metrics.ssthresh) {
                    seen.ratios.push(ssthresh as f64 / before as f64);
                }
                seen.cwnd = metrics.cwnd;
            }
            _ => {}
        }
    }
}
