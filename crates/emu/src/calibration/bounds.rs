//! Bounds of the highest rate that the host sustains in one mode.

use serde_json::Value;

/// Highest sustained and lowest failed rate, bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bounds {
    /// Highest rate that was sustained; `None` if every rate failed.
    pub(crate) held_bps: Option<f64>,
    /// Lowest rate that failed, above `held_bps`; `None` if no rate failed.
    pub(crate) failed_bps: Option<f64>,
}

impl Bounds {
    #[cfg(target_os = "linux")]
    pub(super) fn json(&self) -> Value {
        serde_json::json!({ "held_bps": self.held_bps, "failed_bps": self.failed_bps })
    }

    pub(super) fn parse(value: &Value) -> Option<Self> {
        let rate = |key: &str| match value.get(key)? {
            Value::Null => Some(None),
            rate => rate.as_f64().filter(|bps| *bps > 0.0).map(Some),
        };
        let bounds = Self { held_bps: rate("held_bps")?, failed_bps: rate("failed_bps")? };
        let is_ordered =
            bounds.failed_bps.is_none_or(|failed| bounds.held_bps.is_none_or(|held| held < failed));
        is_ordered.then_some(bounds)
    }

    /// Describes the bounds, `None` without any. `place` names the mode.
    pub(super) fn found(&self, place: &str) -> Option<String> {
        match (self.held_bps.map(mbps), self.failed_bps.map(mbps)) {
            (Some(held), Some(failed)) => {
                Some(format!("this host held {held} Mbit/s {place} and did not hold {failed} Mbit/s"))
            }
            (Some(held), None) => {
                Some(format!("this host held {held} Mbit/s {place}, the highest rate that was tried"))
            }
            (None, Some(failed)) => Some(format!(
                "this host did not hold {failed} Mbit/s {place}, the lowest rate that was tried"
            )),
            (None, None) => None,
        }
    }

    /// Returns true if this rate, or a higher one, was sustained.
    pub(super) fn hold(&self, bps: f64) -> bool {
        self.held_bps.is_some_and(|held| bps <= held)
    }

    /// Returns true if this rate, or a lower one, failed.
    pub(super) fn rule_out(&self, bps: f64) -> bool {
        self.failed_bps.is_some_and(|failed| bps >= failed)
    }
}

/// Converts to Mbit/s for display, unrounded, because a message may compare similar rates.
pub(crate) fn mbps(bps: f64) -> f64 {
    bps / 1e6
}
