//! ACK frequency: requests a few ACKs per RTT, whatever the number of packets. Every packet carries
//! the request, so the receiver needs no state, and a lost packet does not matter.

use std::time::Duration;

use super::congestion::CongestionControl;
use super::path::Path;
use crate::wire::native::MAX_ACK_EVERY;

/// ACKs per window of data for window-based controllers (Reno, CUBIC): a sixteenth of the window
/// stays unused until the next ACK.
const ACKS_PER_WINDOW: u64 = 16;
/// ACKs per window of data for rate-based controllers (BBR), whose window exceeds the
/// bandwidth-delay product. With 32, BBR reaches 12 Mbit/s on a path of 100 Mbit/s with 0.25 Mbit/s
/// for ACKs, since up to 128 packets in flight every second one is acknowledged.
const ACKS_PER_WINDOW_BBR: u64 = 8;
/// ACKs per window of data while packet trains are measured: four ACKs show the dispersion of a
/// train of 16 packets. With one ACK per two packets, a return path of 3 Mbit/s would spread the
/// ACKs more than a forward path of 250 Mbit/s spreads the packets.
const ACKS_PER_WINDOW_TRAINS: u64 = 64;
/// Smallest request, packets per ACK. Below it the ACK frequency agreed in the handshake applies:
/// there is little to save.
const MIN_PACKETS_PER_ACK: u64 = 4;
/// Congestion window below which every packet is acknowledged at once: with a window of ten, an ACK
/// that waits for a second packet delays the next packets by a twentieth of an RTT.
const SMALL_WINDOW_PACKETS: u64 = 16;
/// Largest request, packets per ACK: with packets of 1500 bytes and ACKs of 65, the return path
/// needs 1/1400 of the forward rate. With 256, BBR's start over 250 Mbit/s and 600 ms lost 1,836
/// packets instead of 789.
const MAX_PACKETS_PER_ACK: u64 = 64;
/// ACKs per window of data while the way back is the bottleneck (RFC 3449, section 5.2): as many as
/// `HyStart++` needs RTT samples in a round.
const ACKS_PER_WINDOW_SLOW_RETURN: u64 = 8;
/// Largest request while the way back is the bottleneck, packets per ACK.
const MAX_PACKETS_PER_ACK_SLOW_RETURN: u64 = 128;
/// Smallest request while the way back is the bottleneck, packets per ACK. It applies from
/// `ACKS_PER_WINDOW_SLOW_RETURN` times as many packets in flight on.
const MIN_PACKETS_PER_ACK_SLOW_RETURN: u64 = 2;
const _: () = assert!(MAX_PACKETS_PER_ACK_SLOW_RETURN <= MAX_ACK_EVERY as u64);
/// Smallest RTT with requests. On shorter paths the receiver processes more packets in one turn
/// than a request would name.
const MIN_REQUEST_RTT: Duration = Duration::from_millis(1);

/// Request of packets per ACK, as a function of the data in flight. By default there is none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckFrequency {
    /// Bytes in flight below which every packet is acknowledged at once.
    ack_each_below: u64,
    /// Bytes in flight from which on fewer ACKs are requested.
    request_from: u64,
    /// Bytes in flight per requested packet per ACK: ACKs per window times the MSS. 0 for no
    /// request.
    bytes_per_packet_per_ack: u64,
    /// Smallest and largest request, packets per ACK.
    limits: (u64, u64),
}

impl AckFrequency {
    /// Returns the request of a packet sent with `in_flight` bytes in flight before it. 0 stands
    /// for the ACK frequency agreed in the handshake.
    #[inline]
    pub(super) fn packets_per_ack(self, in_flight: u64) -> u16 {
        if self.bytes_per_packet_per_ack == 0 {
            return 0;
        }
        if in_flight < self.request_from {
            return u16::from(in_flight < self.ack_each_below);
        }
        let (least, most) = self.limits;
        let packets = (in_flight / self.bytes_per_packet_per_ack).clamp(least, most);
        u16::try_from(packets).unwrap_or(MAX_ACK_EVERY)
    }

    /// Returns the request of this number of ACKs for each window of segments of `mss` bytes.
    fn of(acks_per_window: u64, mss: u64, limits: (u64, u64)) -> Self {
        let bytes_per_packet_per_ack = acks_per_window * mss;
        let request_from = limits.0 * bytes_per_packet_per_ack;
        Self { ack_each_below: 0, request_from, bytes_per_packet_per_ack, limits }
    }

    /// Returns the ACK frequency for the packets sent now.
    ///
    /// Returns no request without SACK (duplicate ACKs must be counted) and without pacing (each
    /// ACK releases a burst). Does not reduce the ACKs while the controller lacks RTT samples:
    /// `HyStart++` needs eight in a round (RFC 9406, section 4.3). With 16 ACKs a window they would
    /// come when half of it is sent. If the way back is the bottleneck, more ACKs would only wait
    /// there.
    pub(super) fn choose(path: &Path, congestion: &CongestionControl, uses_sack: bool) -> Self {
        if congestion.pacer.is_none() || !uses_sack {
            return Self::default();
        }
        let mss = path.mss as u64;
        let controller = &congestion.controller;
        let by_window = controller.pacing_rate().is_none();
        // Heavy loss with a controller that does not reduce its window for it.
        let lossy = !by_window && congestion.recent_loss.is_heavy();
        let trains = controller.train() > 0;
        // Trains are used on long paths only, as known from the handshake RTT; there is no other
        // sample in the first flight.
        let long = trains || path.rtt.sampled().is_some_and(|srtt| srtt >= MIN_REQUEST_RTT);
        if !long || lossy {
            return Self::default();
        }
        let limits = (MIN_PACKETS_PER_ACK, MAX_PACKETS_PER_ACK);
        if trains {
            let request_from = MIN_PACKETS_PER_ACK * mss;
            return Self { request_from, ..Self::of(ACKS_PER_WINDOW_TRAINS, mss, limits) };
        }
        if path.has_slow_return() {
            let limits = (MIN_PACKETS_PER_ACK_SLOW_RETURN, MAX_PACKETS_PER_ACK_SLOW_RETURN);
            return Self::of(ACKS_PER_WINDOW_SLOW_RETURN, mss, limits);
        }
        let requested = Self::of(if by_window { ACKS_PER_WINDOW } else { ACKS_PER_WINDOW_BBR }, mss, limits);
        let is_small = by_window && congestion.cwnd < SMALL_WINDOW_PACKETS * mss;
        let ack_each_below = if is_small { u64::MAX } else { 0 };
        let request_from = if controller.lacks_rtt_samples() { u64::MAX } else { requested.request_from };
        Self { ack_each_below, request_from, ..requested }
    }
}
