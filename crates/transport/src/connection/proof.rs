//! Last step of the initiator's handshake: packets that prove its keys, repeated until the
//! responder's first sealed packet shows that one of them arrived. If the responder has forgotten
//! the handshake meanwhile, because it was restarted or its table was full, the handshake starts
//! again.

use std::time::{Duration, Instant};

use super::initiator::Opening;
use super::keys::SealingKeys;
use super::streams::seal_slot;
use crate::TransmitBuf;
use crate::wire::native::{self, Probe};

/// Upper limit of the time between two repetitions.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Lower limit of the first one, as for the RTO (RFC 6298 has 1 s, Linux 200 ms).
pub(crate) const MIN_PROOF_INTERVAL: Duration = Duration::from_millis(200);

/// AUTH, if the Noise pattern has one, and a path probe, which the responder answers.
pub(super) struct KeyProof {
    /// Handshake so far, with its keys.
    handshake: Option<Box<Opening>>,
    /// True while the handshake takes place again.
    is_restarted: bool,
    /// Connection ID of the responder.
    remote_id: u64,
    /// Message 3 of XX; empty in other patterns.
    auth: Vec<u8>,
    /// Random number of the probe.
    random: u64,
    /// Packets that are due.
    auth_due: bool,
    probe_due: bool,
    at: Option<Instant>,
    interval: Duration,
    give_up_at: Option<Instant>,
}

impl KeyProof {
    /// Creates a proof that leaves at once. The handshake took `rtt`.
    pub(super) fn new(
        remote_id: u64,
        auth: Vec<u8>,
        random: u64,
        rtt: Option<Duration>,
        give_up_at: Option<Instant>,
    ) -> Self {
        let interval = rtt.map_or(MAX_INTERVAL, |rtt| (2 * rtt).max(MIN_PROOF_INTERVAL));
        let auth_due = !auth.is_empty();
        Self {
            handshake: None,
            is_restarted: false,
            remote_id,
            auth,
            random,
            auth_due,
            probe_due: true,
            at: None,
            interval,
            give_up_at,
        }
    }

    /// Keeps the handshake, to start it again.
    pub(super) fn keep(&mut self, handshake: Box<Opening>) {
        self.handshake = Some(handshake);
    }

    /// Starts the handshake again. Returns false if that is not possible.
    pub(super) fn restart(&mut self, now: Instant) -> bool {
        self.is_restarted = self.handshake.as_mut().is_some_and(|handshake| handshake.restart(now));
        self.is_restarted
    }

    /// Returns the handshake while it takes place again.
    pub(super) fn restarted(&self) -> Option<&Opening> {
        self.handshake.as_deref().filter(|_| self.is_restarted)
    }

    /// As [`restarted`](Self::restarted).
    pub(super) fn restarted_mut(&mut self) -> Option<&mut Opening> {
        self.handshake.as_deref_mut().filter(|_| self.is_restarted)
    }

    /// Returns the handshake that took place again.
    pub(super) fn into_handshake(self) -> Option<Box<Opening>> {
        self.handshake
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Handles the timer if it is due. Returns true if the responder is given up.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.at = None;
        self.auth_due = !self.auth.is_empty();
        self.probe_due = true;
        self.give_up_at.is_some_and(|at| at <= now)
    }

    /// Appends the next packet to the empty batch `out`, if one is due.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        sealing: &mut SealingKeys,
        out: &mut TransmitBuf,
    ) -> bool {
        if std::mem::take(&mut self.auth_due)
            && let Some(slot) = out.slot(native::auth_len(&self.auth))
        {
            native::encode_auth(self.remote_id, &self.auth, slot);
            return true;
        }
        if !std::mem::take(&mut self.probe_due) {
            return false;
        }
        self.at = Some(now + self.interval);
        self.interval = (2 * self.interval).min(MAX_INTERVAL.max(self.interval));
        let probe = Probe { is_response: false, random: self.random };
        seal_slot(sealing, native::PATH_LEN, out, |header, packet| {
            native::encode_path(header, &probe, packet);
        })
    }
}
