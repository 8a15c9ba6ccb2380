//! Path probes and their answers, which the peer can only seal if it received the probe.

use std::time::{Duration, Instant};

use crate::wire::native::Probe;

/// Probes to send, and those that wait for an answer.
#[derive(Debug)]
pub(super) struct PathProbes {
    /// Probe to send, or answer to one.
    next: Option<Probe>,
    /// Random number of the newest probe of an address that is not validated. Other probes differ.
    random: Option<u64>,
    /// Earliest time of the next probe that asks for a proof of the peer's key phase.
    key_probe_at: Instant,
}

impl PathProbes {
    pub(super) fn new(now: Instant) -> Self {
        Self { next: None, random: None, key_probe_at: now }
    }

    /// Allows a probe for the peer's key phase at once, because the keys are new.
    pub(super) fn restart(&mut self, now: Instant) {
        self.key_probe_at = now;
    }

    /// Sends a probe, unless another one or an answer is to be sent.
    pub(super) fn ask(&mut self, probe: Probe) {
        self.next.get_or_insert(probe);
    }

    /// Sends a probe for the peer's key phase, at most once in an RTO.
    pub(super) fn ask_for_key_phase(&mut self, now: Instant, rto: Duration, probe: impl FnOnce() -> Probe) {
        if now >= self.key_probe_at {
            self.key_probe_at = now + rto;
            self.ask(probe());
        }
    }

    pub(super) fn answer(&mut self, random: u64) {
        self.next = Some(Probe { is_response: true, random });
    }

    pub(super) fn take(&mut self) -> Option<Probe> {
        self.next.take()
    }

    /// Records the number of a probe to an address that is not validated.
    pub(super) fn asked_for(&mut self, random: u64) {
        self.random = Some(random);
    }

    /// True if this is the answer to the newest probe of an address that is not validated.
    pub(super) fn has_asked_for(&self, random: u64) -> bool {
        self.random == Some(random)
    }
}
