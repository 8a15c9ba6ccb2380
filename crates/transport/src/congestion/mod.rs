//! Congestion control: one event in, a window and a pacing rate out. A controller sees no packets,
//! no sequence numbers and no clock; it owns all of its state. Byte counts are of stream payload.

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
pub(crate) use cubic::{Cubic, SlowStart};
pub(crate) use delivery_rate::{DeliveryRate, SentState};
pub(crate) use fixed::Fixed;
pub(crate) use pacer::Pacer;
pub(crate) use prr::{Prr, PrrAck};
pub(crate) use reno::Reno;
pub use trains::TrainRate;

/// Effects of one ACK, after the scoreboard and loss detection.
#[derive(Debug, Clone, Copy)]
pub struct AckEvent {
    /// When the ACK arrived.
    pub now: Instant,
    /// Bytes newly known to be delivered, in order or by SACK.
    pub acked: u64,
    /// Bytes newly declared lost since the event before.
    pub lost: u64,
    /// Bytes in flight before this ACK (`pipe` of RFC 6675).
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// The window was in full use since the ACK before: only then may it grow (RFC 7661, RFC 9438
    /// section 5.8).
    pub cwnd_limited: bool,
    /// Cause of the current recovery, if one is on.
    pub episode: Option<Cause>,
    /// The newest round-trip sample that this ACK gave, without the receiver's delay.
    pub latest_rtt: Option<Duration>,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Smallest round-trip time of the connection.
    pub min_rtt: Duration,
    /// Bytes delivered since the connection began, this ACK included.
    pub delivered: u64,
    /// The delivery rate, where a sample could be taken.
    pub rate: Option<RateSample>,
}

impl AckEvent {
    /// A loss that ACKs told of is being repaired. What a timeout gave up is not: the window grows
    /// meanwhile.
    pub fn in_recovery(&self) -> bool {
        self.episode == Some(Cause::Loss)
    }
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes per second; 0 if the interval was too short to tell, and only the other fields hold.
    pub delivery_rate: u64,
    /// Over this time.
    pub interval: Duration,
    /// Bytes delivered in it.
    pub delivered: u64,
    /// Bytes lost in it.
    pub lost: u64,
    /// Bytes that had been delivered when the sampled packet was sent.
    pub prior_delivered: u64,
    /// Bytes in flight when it was sent, itself included.
    pub tx_in_flight: u64,
    /// The application, not the network, limited the rate at that time.
    pub app_limited: bool,
}

/// Why a controller is told to slow down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Loss was detected: the first of an episode of recovery.
    Loss,
    /// The network marked packets as having met congestion (RFC 3168): at most once a round trip.
    Ecn,
    /// The retransmission timer fired (RFC 5681, section 3.1, equation 4).
    Timeout,
}

/// A reason to slow down.
#[derive(Debug, Clone, Copy)]
pub struct CongestionEvent {
    /// When it was noticed.
    pub now: Instant,
    /// Signal of congestion.
    pub cause: Cause,
    /// `FlightSize` just before it was noticed, bytes, those now lost included: the window if it
    /// was in full use, else what was in flight (RFC 5681, section 3.1; RFC 9438, section 4.6).
    /// Never more than the window.
    pub flight_size: u64,
}

/// One packet that was declared lost, as model-based controllers want it.
#[derive(Debug, Clone, Copy)]
pub struct LostPacket {
    /// When it was declared lost.
    pub now: Instant,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes in flight when it was sent, itself included.
    pub tx_in_flight: u64,
    /// Bytes lost since it was sent, itself included.
    pub lost_since_sent: u64,
    /// The application limited the rate when it was sent.
    pub app_limited: bool,
}

/// An algorithm. Calls come in the order of the facts: `on_packet_lost` for each packet,
/// `on_congestion` if an episode begins, then `on_ack`.
pub trait Controller: Debug + Send {
    /// Bytes left; `in_flight` counts them already. `app_limited` as of this packet.
    fn on_sent(&mut self, _now: Instant, _bytes: u64, _in_flight: u64, _app_limited: bool) {}

    /// An ACK arrived.
    fn on_ack(&mut self, ack: &AckEvent);

    /// A bottleneck rate measured by trains; called before `on_ack` of the same ACK.
    fn on_train(&mut self, _rate: TrainRate) {}

    /// One packet is lost.
    fn on_packet_lost(&mut self, _lost: &LostPacket) {}

    /// An episode of congestion begins.
    fn on_congestion(&mut self, event: &CongestionEvent);

    /// The last episode was a mistake: nothing was lost (RFC 4015). What it took away is given
    /// back.
    fn on_spurious(&mut self, _now: Instant) {}

    /// What was just given back may not be used at once, as nothing paces it: the window is `cwnd`
    /// bytes and slow start brings the rest (RFC 4015, section 3.2, step 8).
    fn reopen_from(&mut self, _cwnd: u64) {}

    /// Full segments carry this many bytes from now on.
    fn on_mss(&mut self, mss: u64);

    /// Congestion window, bytes.
    fn cwnd(&self) -> u64;

    /// Slow-start threshold, bytes; `None` before the first congestion and where there is none.
    fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// Bytes per second at which to send; `None` leaves it to the sender: a multiple of cwnd /
    /// srtt.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Bytes that should leave together so that the dispersion of their ACKs can be measured; 0 for
    /// none.
    fn train(&self) -> u64 {
        0
    }

    /// True if the window during recovery is left to proportional rate reduction (RFC 9937): false
    /// for controllers that have a model of their own for it.
    fn uses_prr(&self) -> bool {
        true
    }

    /// The phase, for traces: `slow_start`, `congestion_avoidance`, ...
    fn phase(&self) -> &'static str;
}
