//! Congestion control: maps events to a window and a pacing rate. A controller sees no packets,
//! sequence numbers or clock, and owns all of its state. Byte counts are stream payload.

mod algorithm;
mod bbr;
mod cubic;
mod delivery_rate;
mod fixed;
mod hystart;
mod pacer;
mod prr;
mod reno;
#[cfg(test)]
mod tests;
mod trains;

use std::fmt::Debug;
use std::time::{Duration, Instant};

pub use algorithm::{Algorithm, AlgorithmError, ControllerFactory, Start};
pub(crate) use cubic::Cubic;
pub(crate) use delivery_rate::{DeliveryRate, SentState};
pub(crate) use fixed::Fixed;
pub(crate) use pacer::Pacer;
pub(crate) use prr::{Prr, PrrAck};
pub(crate) use reno::Reno;
pub use trains::TrainRate;

/// Effects of one ACK, after the scoreboard and loss detection.
#[derive(Debug, Clone, Copy)]
pub struct AckEvent {
    /// Arrival time of the ACK.
    pub now: Instant,
    /// Bytes newly delivered, by cumulative ACK or SACK. Without SACK a controller that does not
    /// [use PRR](Controller::uses_prr) gets the deliveries that duplicate ACKs show as they arrive.
    /// In slow start of one that does, the part by which the window shall grow: data whose ACK
    /// waited on the way back was in flight beside the window.
    pub acked: u64,
    /// Bytes declared lost since the previous event.
    pub lost: u64,
    /// Bytes in flight before this ACK (`pipe` of RFC 6675).
    pub prior_in_flight: u64,
    /// Bytes in flight after this ACK.
    pub in_flight: u64,
    /// True if the sender was cwnd-limited since the previous ACK: only then may the window grow
    /// (RFC 7661, RFC 9438 section 5.8).
    pub cwnd_limited: bool,
    /// Cause of the current recovery, if one is on.
    pub episode: Option<Cause>,
    /// Newest RTT sample of this ACK, without the receiver's ACK delay, and without
    /// [`way_back`](Self::way_back) if that leaves no less than [`min_rtt`](Self::min_rtt).
    pub latest_rtt: Option<Duration>,
    /// Time that the ACK took on its way back beyond the fastest one (native). It is no sign of a
    /// queue before the receiver.
    pub way_back: Duration,
    /// Smoothed RTT, without [`way_back`](Self::way_back).
    pub srtt: Duration,
    /// Minimum RTT of the connection.
    pub min_rtt: Duration,
    /// Bytes delivered since the connection began, including this ACK.
    pub delivered: u64,
    /// Delivery-rate sample, if this ACK gave one.
    pub rate: Option<RateSample>,
}

impl AckEvent {
    /// True in recovery from loss detected by ACKs. False after a timeout: the window grows then.
    pub fn in_recovery(&self) -> bool {
        self.episode == Some(Cause::Loss)
    }
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes per second; 0 if the interval was too short. The other fields are valid in either
    /// case.
    pub delivery_rate: u64,
    /// Sampling interval.
    pub interval: Duration,
    /// Bytes delivered in the interval.
    pub delivered: u64,
    /// Bytes lost in the interval.
    pub lost: u64,
    /// Bytes delivered before the sampled packet was sent.
    pub prior_delivered: u64,
    /// Bytes in flight when the sampled packet was sent, including it.
    pub tx_in_flight: u64,
    /// True if the sender was app-limited when the sampled packet was sent.
    pub app_limited: bool,
}

/// Cause of a congestion event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Loss detected by ACKs: once per recovery episode.
    Loss,
    /// CE marks (RFC 3168): at most once per RTT.
    Ecn,
    /// The retransmission timer fired (RFC 5681, section 3.1, equation 4).
    Timeout,
}

/// Congestion event: loss, CE mark or timeout.
#[derive(Debug, Clone, Copy)]
pub struct CongestionEvent {
    /// Time of detection.
    pub now: Instant,
    /// Signal of congestion.
    pub cause: Cause,
    /// `FlightSize` just before detection, bytes, including the lost ones: the window if the sender
    /// was cwnd-limited, else the bytes in flight (RFC 5681, section 3.1; RFC 9438, section 4.6).
    /// Never more than the window.
    pub flight_size: u64,
}

/// Lost packet, for model-based controllers.
#[derive(Debug, Clone, Copy)]
pub struct LostPacket {
    /// Time at which the packet was declared lost.
    pub now: Instant,
    /// Size of the packet, bytes.
    pub bytes: u64,
    /// Bytes in flight when the packet was sent, including it.
    pub tx_in_flight: u64,
    /// Bytes lost since the packet was sent, including it.
    pub lost_since_sent: u64,
    /// True if the sender was app-limited when the packet was sent.
    pub app_limited: bool,
}

/// Congestion control algorithm. Order of calls for an ACK: `on_packet_lost` for each lost packet,
/// `on_congestion` if an episode begins, then `on_ack`.
pub trait Controller: Debug + Send {
    /// Reports sent bytes, already included in `in_flight`, and whether the sender is app-limited.
    fn on_sent(&mut self, _now: Instant, _bytes: u64, _in_flight: u64, _app_limited: bool) {}

    /// Processes an ACK.
    fn on_ack(&mut self, ack: &AckEvent);

    /// Reports a bottleneck rate measured by packet trains; called before `on_ack` of the same ACK.
    fn on_train(&mut self, _rate: TrainRate) {}

    /// Reports a lost packet.
    fn on_packet_lost(&mut self, _lost: &LostPacket) {}

    /// Starts a congestion episode.
    fn on_congestion(&mut self, event: &CongestionEvent);

    /// Undoes the last congestion episode, which was spurious: no packet was lost (RFC 4015). Not
    /// called for a recovery that began without [`on_congestion`](Self::on_congestion).
    fn on_spurious(&mut self, _now: Instant) {}

    /// Limits the window to `cwnd` bytes if sending is not paced, to avoid a burst: after a window
    /// is restored (RFC 4015, section 3.2, step 8), and after a pause (RFC 5681, section 4.1). Slow
    /// start grows it back.
    fn reopen_from(&mut self, _cwnd: u64) {}

    /// Adds the rate that another connection to the same host has left, bytes per second (RFC
    /// 3124). Called only if sending is paced.
    fn take_over(&mut self, _rate: u64, _srtt: Duration) {}

    /// Changes the payload of a full segment, bytes.
    fn on_mss(&mut self, mss: u64);

    /// Returns the congestion window, bytes.
    fn cwnd(&self) -> u64;

    /// Returns the slow-start threshold, bytes; `None` before the first congestion or without a
    /// threshold.
    fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// Returns the pacing rate, bytes per second; `None` for the sender's default, a multiple of
    /// cwnd / srtt.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Returns the size of the packet trains to send, bytes; 0 for none.
    fn train(&self) -> u64 {
        0
    }

    /// True in slow start while this round has too few RTT samples to detect a growing queue.
    /// Packets sent meanwhile request more ACKs, which arrive early in the next round.
    fn lacks_rtt_samples(&self) -> bool {
        false
    }

    /// True if proportional rate reduction (RFC 9937) controls the window during recovery. False
    /// for controllers with their own recovery model.
    fn uses_prr(&self) -> bool {
        true
    }

    /// Returns the name of the phase in traces: `slow_start`, `congestion_avoidance`, ...
    fn phase(&self) -> &'static str;
}

/// Returns the bytes that `rate` bytes per second deliver in `time`.
pub(crate) fn volume(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate) * time.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Window growth per ACK in slow start, segments (`L` of RFC 3465, section 2.2).
const SLOW_START_LIMIT: u64 = 2;

/// Limit `L` while retransmissions of a timeout are acknowledged (RFC 3465, section 2.3).
const SLOW_START_LIMIT_AFTER_TIMEOUT: u64 = 1;

/// Returns the largest window growth per ACK in slow start, bytes. There is no limit with pacing,
/// also after a timeout: the limit prevents bursts, and a paced sender requests few ACKs.
fn slow_start_limit(paced: bool, episode: Option<Cause>, mss: u64) -> u64 {
    match episode {
        _ if paced => u64::MAX,
        Some(Cause::Timeout) => SLOW_START_LIMIT_AFTER_TIMEOUT * mss,
        _ => SLOW_START_LIMIT * mss,
    }
}
