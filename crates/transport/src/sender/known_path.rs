//! What a sender learns of its path, for later connections to the same host (RFC 9040).

use std::time::Duration;

use super::Sender;
use super::path_mtu::PathMtu;

/// Path to a host, as a connection measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownPath {
    /// Smoothed RTT.
    pub(crate) rtt: Duration,
    /// Largest number of bytes that were delivered in one round trip, at most the congestion
    /// window.
    pub(crate) window: u64,
    /// Largest datagram confirmed by path MTU discovery, bytes.
    pub(crate) packet_size: usize,
    /// True if ECN validation failed.
    pub(crate) refuses_ecn: bool,
    /// True if packets were lost: the window is not only what the application needed. Lost probes
    /// of the path MTU do not count.
    pub(crate) has_lost: bool,
}

impl Sender {
    /// Returns what is known of the path. `None` without an RTT sample, and behind an emulated link
    /// that this side requested, because it is this connection's alone.
    pub(crate) fn known_path(&self) -> Option<KnownPath> {
        let is_measured = self.path.rtt.is_measured() && self.config.link_request.is_none();
        let rtt = self.path.rtt.sampled().filter(|_| is_measured)?;
        let min_rtt = self.path.rtt.min_rtt().unwrap_or(rtt).as_nanos();
        let delivered = u128::from(self.congestion.fastest) * min_rtt / 1_000_000_000;
        let delivered = u64::try_from(delivered).unwrap_or(u64::MAX);
        Some(KnownPath {
            rtt,
            window: delivered.min(self.congestion.cwnd),
            packet_size: self.path.mtu.as_ref().map_or(0, PathMtu::size),
            refuses_ecn: self.path.ecn.state().failure().is_some(),
            has_lost: self.congestion.has_lost,
        })
    }

    /// True if data is in flight.
    pub(crate) fn is_sending(&self) -> bool {
        self.flight.board.in_flight() > 0
    }
}
