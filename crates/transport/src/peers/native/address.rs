//! Addresses of peers that change, because a NAT binding expired or a host moved. The connection
//! goes on with the proved address until the peer has answered a PATH probe from the new one. Until
//! then, the new address gets at most three times the bytes that came from it (RFC 9000, section
//! 8.1), so a forged source address makes no amplifier.

use std::time::{Duration, Instant};

use super::{AddressKey, ConnectionSet};
use crate::TransmitBuf;
use crate::connection::{Arrival, Connection};
use crate::wire::native::PATH_LEN;

/// Time until the second attempt; doubles with every further one.
const PROBE_INTERVAL: Duration = Duration::from_millis(333);
/// Attempts to probe one address, which takes 5 s. A later packet from there starts again.
const ATTEMPT_LIMIT: u32 = 4;
/// Attempts after which another address may replace this one: 1 s without an answer. Without it,
/// packets that come from two new addresses in turn would prove neither.
const KEPT_ATTEMPTS: u32 = 2;
/// Bytes that may be sent for each byte received from an unproved address.
const AMPLIFICATION: u64 = 3;

/// New address of a peer that is being proved.
#[derive(Debug)]
pub(super) struct PathProbe<P> {
    peer: P,
    /// Number in the probe, which the answer repeats.
    random: u64,
    /// Bytes of authentic datagrams from the address.
    received: u64,
    /// Bytes sent to the address.
    sent: u64,
    /// Times at which a probe was due, whether it was sent or held back by [`AMPLIFICATION`].
    attempts: u32,
    is_due: bool,
    /// Time of the next attempt, or of giving up; `None` while an attempt is due.
    at: Option<Instant>,
}

impl<P> PathProbe<P> {
    fn new(peer: P, random: u64) -> Self {
        Self { peer, random, received: 0, sent: 0, attempts: 0, is_due: true, at: None }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// True if another address may be probed instead of this one.
    fn is_replaceable(&self) -> bool {
        self.attempts > KEPT_ATTEMPTS
    }

    /// Handles the timer if it is due. Returns true if the address is given up.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.at = None;
        self.is_due = true;
        self.attempts >= ATTEMPT_LIMIT
    }

    /// Appends a probe to the empty batch `out` if one is due and allowed, and returns its address.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        out: &mut TransmitBuf,
    ) -> Option<P>
    where
        P: Copy,
    {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        // The timer runs also for a probe that is held back, so that no address stays for ever.
        self.at = Some(now + PROBE_INTERVAL * (1 << self.attempts));
        self.attempts += 1;
        let len = PATH_LEN as u64;
        if self.sent + len > AMPLIFICATION * self.received {
            return None;
        }
        self.sent += len;
        connection.poll_path_probe(self.random, out).then_some(self.peer)
    }
}

impl<P: AddressKey> ConnectionSet<P> {
    /// Handles authentic packets from an unproved address for the connection looked up last.
    pub(super) fn on_other_address(&mut self, now: Instant, id: u64, from: P, arrival: &Arrival) {
        let random = self.entropy.array();
        let Some(entry) = self.native.connections.latest_mut() else { return };
        if entry.probe.as_ref().is_none_or(|probe| probe.peer != from) {
            // An old packet says nothing about the present address.
            if !arrival.is_newest || entry.probe.as_ref().is_some_and(|probe| !probe.is_replaceable()) {
                return;
            }
            entry.probe = Some(Box::new(PathProbe::new(from, u64::from_le_bytes(random))));
        }
        let Some(probe) = &mut entry.probe else { return };
        probe.received += arrival.authentic as u64;
        if arrival.path_answer != Some(probe.random) {
            return;
        }
        // A NAT that changes the port alone leaves the path as it was (RFC 9000, section 9.4).
        let is_other_host = self.config.ip_of.is_none_or(|ip_of| ip_of(&from) != ip_of(&entry.peer));
        if is_other_host || self.config.has_other_local_ip(&from, &entry.peer) {
            entry.connection.on_path_changed(now);
        }
        let before = std::mem::replace(&mut entry.peer, from);
        entry.probe = None;
        if let Some(ip_of) = self.config.ip_of.filter(|_| is_other_host) {
            self.native.by_host.remove(ip_of(&before), id);
            self.native.by_host.insert(ip_of(&from), id);
        }
        if let Some(association) = entry.association {
            self.acceptor.associations.on_moved(association, from);
        }
        self.native.stats.moved += 1;
    }
}
