//! Last step of the initiator's handshake: packets that prove its keys, repeated until the
//! responder's first sealed packet shows that one of them arrived. If the responder has forgotten
//! the handshake meanwhile, because it was restarted or its table was full, the handshake starts
//! again.
//!
//! Within an association this is the only step: an OPEN, repeated until its OPEN-ACK arrives. If
//! the responder refuses it, a handshake follows.

use std::time::{Duration, Instant};

use super::initiator::Opening;
use super::keys::SealingKeys;
use super::refusals::Refusals;
use super::streams::seal_probe;
use crate::TransmitBuf;
use crate::wire::native::Probe;

/// Upper limit of the time between two repetitions.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Lower limit of the first one, as for the RTO (RFC 6298 has 1 s, Linux 200 ms).
pub(crate) const MIN_PROOF_INTERVAL: Duration = Duration::from_millis(200);
/// Lower limit of the first one of an OPEN, as for a SYN to a known host.
const MIN_OPEN_INTERVAL: Duration = Duration::from_millis(50);

/// AUTH, if the Noise pattern has one, and a path probe, which the responder answers; or an OPEN.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub(super) struct KeyProof {
    /// Handshake so far, with its keys.
    handshake: Option<Box<Opening>>,
    /// True while the handshake takes place again.
    is_restarted: bool,
    /// AUTH or OPEN; empty if there is neither.
    message: Vec<u8>,
    /// Random number of the probe; `None` with an OPEN, which has its own answer.
    random: Option<u64>,
    /// True if the responder has proved that it opened the connection.
    pub(super) is_answered: bool,
    /// Packets that are due.
    message_due: bool,
    probe_due: bool,
    at: Option<Instant>,
    interval: Duration,
    give_up_at: Option<Instant>,
    /// Number of times that the message was sent.
    sent: u32,
    /// ICMP errors that answered an OPEN.
    refusals: Refusals,
}

impl KeyProof {
    /// Creates a proof that leaves at once: AUTH, if there is one, and a probe with this `random`
    /// number; or an OPEN, without a number. The round trip was `rtt` lately.
    pub(super) fn new(
        message: Vec<u8>,
        random: Option<u64>,
        rtt: Option<Duration>,
        give_up_at: Option<Instant>,
    ) -> Self {
        let least = if random.is_some() { MIN_PROOF_INTERVAL } else { MIN_OPEN_INTERVAL };
        let interval = rtt.map_or(MAX_INTERVAL, |rtt| (2 * rtt).max(least));
        Self {
            message_due: !message.is_empty(),
            message,
            random,
            probe_due: true,
            interval,
            give_up_at,
            ..Self::default()
        }
    }

    /// Keeps the handshake, to start it again.
    pub(super) fn keep(&mut self, handshake: Box<Opening>) {
        self.handshake = Some(handshake);
    }

    /// True if this is an OPEN that the responder may have refused.
    pub(super) fn is_refusable(&self) -> bool {
        self.is_open() && !self.is_answered && !self.is_restarted
    }

    pub(super) fn is_open(&self) -> bool {
        self.random.is_none()
    }

    /// Notes an authentic packet. True if it completes the proof, as only an OPEN-ACK does an OPEN.
    pub(super) fn on_authentic(&mut self) -> bool {
        // The responder has opened the connection, so the handshake that began meanwhile fails.
        (self.is_answered, self.is_restarted) = (true, self.is_restarted && !self.is_open());
        !self.is_open()
    }

    pub(super) fn is_unanswered_open(&self) -> bool {
        self.is_open() && !self.is_answered
    }

    /// Handles an ICMP error that answers an OPEN. Returns true if it is believed.
    pub(super) fn on_refused(&mut self, now: Instant) -> bool {
        self.refusals.on_refused(now, self.sent)
    }

    pub(super) fn on_suspended(&mut self, time: Duration) {
        if let Some(handshake) = &mut self.handshake {
            handshake.on_suspended(time);
        }
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

    pub(super) fn restarted_mut(&mut self) -> Option<&mut Opening> {
        self.handshake.as_deref_mut().filter(|_| self.is_restarted)
    }

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
        self.message_due = !self.message.is_empty();
        self.probe_due = true;
        let is_given_up = self.give_up_at.is_some_and(|at| at <= now);
        if is_given_up && self.is_answered {
            // The connection goes on without an OPEN-ACK.
            (self.message_due, self.probe_due) = (false, false);
        }
        is_given_up && !self.is_answered
    }

    /// Appends the next packet to the empty batch `out`, if one is due.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        sealing: &mut SealingKeys,
        out: &mut TransmitBuf,
    ) -> bool {
        if std::mem::take(&mut self.message_due)
            && let Some(slot) = out.slot(self.message.len())
        {
            slot.copy_from_slice(&self.message);
            self.sent += 1;
            return true;
        }
        if !std::mem::take(&mut self.probe_due) {
            return false;
        }
        self.at = Some(now + self.interval);
        self.interval = (2 * self.interval).min(MAX_INTERVAL.max(self.interval));
        let Some(random) = self.random else { return false };
        seal_probe(sealing, Probe { is_response: false, random }, out)
    }
}
