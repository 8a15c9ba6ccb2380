//! What a sender learns of its path, for later connections to the same host (RFC 9040).

use std::time::{Duration, Instant};

use super::Sender;
use super::path_mtu::PathMtu;
use crate::congestion::volume;

/// Loss above which the window was more than the path had room for, thousandths
/// (draft-ietf-ccwg-bbr, `BBR.LossThresh`).
const TOLERATED_LOSS: u64 = 20;

/// Path to a host, as a connection measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownPath {
    /// Smoothed RTT.
    pub(crate) rtt: Duration,
    /// Largest number of bytes that were delivered in one round trip, at most the congestion
    /// window.
    pub(crate) window: u64,
    /// Part of the window that a connection may use before its peer has acknowledged anything in
    /// it, bytes; the initial window at least.
    pub(crate) early: u64,
    /// Largest datagram confirmed by path MTU discovery, bytes.
    pub(crate) packet_size: usize,
    /// True if ECN validation failed.
    pub(crate) refuses_ecn: bool,
    /// Loss of the bytes sent, thousandths. Lost probes of the path MTU do not count.
    pub(crate) loss: u64,
}

impl KnownPath {
    /// True if so much was lost that the window was more than the path had room for.
    pub(crate) fn was_congested(&self) -> bool {
        self.loss > TOLERATED_LOSS
    }
}

impl Sender {
    /// Returns what is known of the path. `None` without an RTT sample, and behind an emulated link
    /// that this side requested, because it is this connection's alone.
    pub(crate) fn known_path(&self) -> Option<KnownPath> {
        let is_measured = self.path.rtt.is_measured() && self.config.link_request.is_none();
        let rtt = self.path.rtt.sampled().filter(|_| is_measured)?;
        let delivered = volume(self.congestion.fastest, self.path.rtt.min_rtt.unwrap_or(rtt));
        Some(KnownPath {
            rtt,
            window: delivered.min(self.congestion.cwnd),
            early: 0,
            packet_size: self.path.mtu.as_ref().map_or(0, PathMtu::size),
            refuses_ecn: self.path.ecn.state.failure().is_some(),
            loss: (1000 * self.congestion.lost).div_ceil((self.congestion.lost + self.acknowledged()).max(1)),
        })
    }

    /// Returns the rate of the path, bytes per second, if this sender filled it and has now nothing
    /// more to send. Only once, until it fills the path again.
    pub(crate) fn leave_rate(&mut self) -> Option<u64> {
        let is_idle = self.congestion.newest > 0
            && self.acknowledged() == self.stream.end()
            && self.config.link_request.is_none();
        is_idle.then(|| std::mem::take(&mut self.congestion.newest))
    }

    /// Adds the rate that another connection to the same host has left, bytes per second. Without
    /// pacing it would leave as a burst.
    pub(crate) fn take_over(&mut self, now: Instant, rate: u64) {
        if self.congestion.pacer.is_some() {
            self.congestion.controller.take_over(rate, self.path.rtt.srtt());
            self.pace(now);
        }
    }

    /// True if data is in flight.
    pub(crate) fn is_sending(&self) -> bool {
        self.flight.board.in_flight() > 0
    }
}
