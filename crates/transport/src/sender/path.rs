//! Path to the receiver: RTT, path MTU and ECN.

use std::time::{Duration, Instant};

use super::SenderConfig;
use super::ecn::PathEcn;
use super::path_mtu::PathMtu;
use super::way_back::WayBack;
use crate::recovery::{Rtt, RttQuality};
use crate::wire::Codec;

/// RTT assumed before the first sample (RFC 9002, section 6.2.2).
pub(crate) const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Delay of the newest ACK from which on the way back counts as a bottleneck: a full packet at 2.4
/// Mbit/s, so that the jitter of a wireless or a busy host is none.
const SLOW_RETURN_DELAY: Duration = Duration::from_millis(5);
/// The delay is at least one part in this many of the minimum RTT, too.
const SLOW_RETURN_PART_OF_RTT: u32 = 4;

pub(super) struct Path {
    /// First packet number on this path. Earlier packets give no RTT samples, and mean nothing to
    /// the congestion controller.
    pub(super) first_number: u64,
    pub(super) rtt: Rtt,
    /// Estimate from the same samples less the delay of the way back, for congestion control.
    /// `None` before an ACK waited there: it is `rtt`.
    forward: Option<Box<Rtt>>,
    /// Moving average, with a gain of 1/16, of the RTT samples less the delay of the way back.
    pub(super) mean_rtt: Option<Duration>,
    pub(super) way_back: WayBack,
    /// Path MTU discovery (native).
    pub(super) mtu: Option<PathMtu>,
    pub(super) ecn: PathEcn,
    /// Payload of a full packet, bytes.
    pub(super) mss: usize,
    /// Length of a data packet's header, bytes.
    pub(super) header: usize,
    /// Length of a data packet's trailer, bytes.
    pub(super) trailer: usize,
}

impl Path {
    /// Returns the initial state.
    pub(super) fn new(config: &SenderConfig, codec: &Codec) -> Self {
        Self {
            first_number: 0,
            rtt: Rtt::new(config.rto),
            forward: None,
            mean_rtt: None,
            way_back: WayBack::default(),
            mtu: config.path_mtu(),
            ecn: PathEcn::new(config.uses_ecn()),
            mss: config.first_payload_size(),
            header: codec.data_header(),
            trailer: codec.data_trailer(),
        }
    }

    /// Forgets the RTT and validates ECN again: the path changes before transmission `next_number`,
    /// and `largest_acked` is the newest one that is acknowledged.
    pub(super) fn restart(&mut self, config: &SenderConfig, next_number: u64, largest_acked: Option<u64>) {
        self.first_number = next_number;
        self.ecn.restart(next_number, largest_acked);
        self.mean_rtt = None;
        self.way_back = WayBack::default();
        (self.rtt, self.forward) = (Rtt::new(config.rto), None);
        self.rtt.on_handshake(INITIAL_RTT, config.min_rto, RttQuality::Provisional);
    }

    /// Measures the way back of an ACK with this send time. It echoes a transmission that left at
    /// `echoed`, if that is known.
    pub(super) fn on_ack(&mut self, now: Instant, sent_us: Option<u32>, echoed: Option<Instant>) {
        let round_trip = echoed.map(|sent_at| now.saturating_duration_since(sent_at));
        self.way_back.on_ack(now, sent_us, round_trip, self.rtt.min_rtt.unwrap_or_default());
    }

    /// True if this transmission left before the path changed.
    pub(super) fn is_older(&self, packet_number: u64) -> bool {
        packet_number < self.first_number
    }

    /// Processes a valid RTT sample, one of about `samples` per RTT.
    pub(super) fn on_sample(&mut self, sample: Duration, samples: u32) {
        self.split_way_back();
        self.rtt.on_sample(sample, samples);
        let without = self.without_way_back(sample);
        if let Some(forward) = &mut self.forward {
            forward.on_sample(without, samples);
        }
        let mean = self.mean_rtt.unwrap_or(without);
        self.mean_rtt = Some((mean * 15 + without) / 16);
    }

    /// Handles a spurious timeout: the original's ACK arrived after `sample`.
    pub(super) fn on_spurious_timeout(&mut self, sample: Duration) {
        self.split_way_back();
        self.rtt.on_spurious_timeout(sample);
        let without = self.without_way_back(sample);
        if let Some(forward) = &mut self.forward {
            forward.on_spurious_timeout(without);
        }
    }

    /// Begins the estimate without the way back, once an ACK waited there.
    fn split_way_back(&mut self) {
        if self.forward.is_none() && !self.way_back.delay.is_zero() {
            self.forward = Some(Box::new(self.rtt.clone()));
        }
    }

    /// Returns the smoothed RTT without the delay of the way back.
    pub(super) fn forward_srtt(&self) -> Duration {
        self.forward.as_deref().unwrap_or(&self.rtt).srtt()
    }

    /// Subtracts the delay of the way back from the RTT sample of an ACK, but leaves no less than
    /// the minimum RTT.
    pub(super) fn without_way_back(&self, rtt: Duration) -> Duration {
        rtt.saturating_sub(self.way_back.delay).max(self.rtt.min_rtt.unwrap_or_default())
    }

    /// True if ACKs wait so long on the way back that it is presumably the bottleneck.
    pub(super) fn has_slow_return(&self) -> bool {
        let delay = self.way_back.delay;
        let min_rtt = self.rtt.min_rtt.unwrap_or_default();
        delay >= SLOW_RETURN_DELAY && delay * SLOW_RETURN_PART_OF_RTT >= min_rtt
    }

    /// Subtracts the receiver's ACK delay from an RTT sample, unless the result is below the
    /// minimum RTT (RFC 9002, section 5.3).
    pub(super) fn without_delay(&self, rtt: Duration, delay: Duration) -> Duration {
        let without = rtt.saturating_sub(delay);
        let plausible = without >= self.rtt.min_rtt.unwrap_or_default() && !without.is_zero();
        if plausible { without } else { rtt }
    }

    /// Returns the packet number of the path MTU probe in flight.
    pub(super) fn mtu_probe(&self) -> Option<u64> {
        self.mtu.as_ref().and_then(PathMtu::probe)
    }

    /// Handles the loss or the retransmission of transmission `packet_number`.
    pub(super) fn on_lost(&mut self, packet_number: u64) {
        if let Some(mtu) = &mut self.mtu {
            mtu.on_lost(packet_number);
        }
    }

    /// Returns the bytes of a data packet besides its payload.
    pub(super) fn overhead(&self) -> usize {
        self.header + self.trailer
    }

    /// Adopts the confirmed datagram size and returns it.
    pub(super) fn resize(&mut self) -> Option<usize> {
        let size = self.mtu.as_ref()?.size();
        self.mss = size - self.overhead();
        Some(size)
    }
}
