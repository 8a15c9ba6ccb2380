//! Configuration of a sender, and its validation.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::path_mtu::PathMtu;
use crate::congestion::{Algorithm, Controller, ControllerFactory, Start};
use crate::recovery::{BaseOnly, Engine, LossRecovery, Segment, doubled};
use crate::wire::native::{LinkRequest, Params};
use crate::wire::{LinkProperties, Numbering, Wire};
use crate::{ConfigError, LossDetection, MAX_DATAGRAM, Reordering, RtoPolicy, StreamName};

/// Memory of a packet in flight in addition to its payload, bytes.
const RECORD: usize = size_of::<Segment>();

/// Limits of transmissions of one packet, the first one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// Limit for a SYN.
    pub syn: u32,
    /// Limit for each data packet.
    pub data: u32,
    /// Limit for a FIN.
    pub fin: u32,
}

impl Default for Attempts {
    /// Returns the limits of the reference sender: 30, 50, 50.
    fn default() -> Self {
        Self { syn: 30, data: 50, fin: 50 }
    }
}

/// Congestion window after a retransmission timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LossWindow {
    /// One segment (RFC 5681, section 3.1).
    #[default]
    One,
    /// The initial window, as in some simulators.
    Initial,
}

impl FromStr for LossWindow {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" => Ok(Self::One),
            "initial" => Ok(Self::Initial),
            _ => Err("must be 1 or initial"),
        }
    }
}

/// Parameters of one stream.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The format.
    pub wire: Wire,
    /// Sender's window W in packets, at least 1. The window in force is min(W, receiver's window),
    /// or the congestion window if that is smaller.
    pub window: u32,
    /// Congestion control. A classic sender measures no delivery rate and reports no ACK to the
    /// controller: only [`Algorithm::Fixed`] is of use there, any other keeps its initial window.
    pub congestion: Algorithm,
    /// Factory of the caller's own controller, used instead of `congestion`.
    pub controller_factory: Option<Arc<dyn ControllerFactory>>,
    /// Initial congestion window, packets (RFC 6928: 10).
    pub initial_window: u32,
    /// Congestion window after a retransmission timeout, for Reno, CUBIC and a caller's own
    /// controller; with [`LossDetection::Tahoe`] also after three duplicate ACKs.
    pub loss_window: LossWindow,
    /// Rule of loss recovery.
    pub recovery: LossDetection,
    /// With [`LossDetection::Rack`]: reordering window before any reordering was seen.
    pub reordering: Reordering,
    /// True to send packets at the controller's pacing rate instead of as soon as the window has
    /// room.
    pub pacing: bool,
    /// Upper limit of the sending rate, bytes of the stream per second: headers do not count,
    /// retransmissions do. It holds for every controller and format, with or without `pacing`.
    /// `None` for no limit.
    pub max_rate: Option<u64>,
    /// Rule of the retransmission timeout.
    pub rto: RtoPolicy,
    /// Give-up time: the transfer is aborted after this time without an answer to data or the FIN
    /// (RFC 1122, section 4.2.3.5: R2). The reference sender has no such limit and counts attempts
    /// instead.
    pub give_up: Duration,
    /// Time after which the transfer is aborted if the receiver answers, but acknowledges no byte,
    /// such as one that keeps its window closed. Checked at each answer.
    pub no_progress: Duration,
    /// Give-up time of the handshake, from the first SYN.
    pub handshake_give_up: Duration,
    /// Emulated link to request from the receiver (classic).
    pub link: LinkProperties,
    /// Emulated link to request from the receiver (native); `None` for no emulation.
    pub link_request: Option<LinkRequest>,
    /// Size of a full datagram with header, 9 to 65,507 bytes. Native: the upper limit of path MTU
    /// discovery, which begins with at most 1200 bytes.
    pub packet_size: usize,
    /// True to send data with ECT(0), so that routers can mark packets instead of dropping them.
    /// Only in the native format, with congestion control.
    pub ecn: bool,
    /// Attempt limits.
    pub attempts: Attempts,
    /// Secret seed that chooses which packet numbers are skipped (native); `None` to skip none. An
    /// ACK of a skipped number ends the transfer: it shows that the receiver acknowledges packets
    /// before they arrive, to be sent more than its path carries. A connection draws its own.
    pub skip_seed: Option<u64>,
    /// Seed of the times of BBR's probes (native). A connection draws its own, except in the
    /// simulator.
    pub seed: u64,
    /// Lower limit of the first timeout of data, which is three handshake RTTs. The default of 40
    /// ms is the minimum of later timeouts. The reference sender has 0, and so fails if the
    /// receiver pauses for 50 tiny timeouts at the start.
    pub min_rto: Duration,
    /// Name that the sender suggests for the stream (native).
    pub name: Option<StreamName>,
    /// Memory limit of packets in flight, bytes. [`SenderConfig::validate`] rejects a window that
    /// needs more.
    pub memory_limit: u64,
}

impl SenderConfig {
    /// Returns the configuration of a classic transfer over `link` with window `window`: datagrams
    /// of 1472 bytes, all else at its default.
    pub fn new(window: u32, link: LinkProperties) -> Self {
        Self {
            wire: Wire::Classic,
            window,
            congestion: Algorithm::Fixed(window),
            controller_factory: None,
            initial_window: 10,
            loss_window: LossWindow::One,
            recovery: LossDetection::BaseOnly,
            reordering: Reordering::UntilLoss,
            pacing: false,
            max_rate: None,
            rto: RtoPolicy::Reference,
            give_up: Duration::MAX,
            no_progress: Duration::MAX,
            handshake_give_up: Duration::MAX,
            link,
            link_request: None,
            packet_size: 1472,
            ecn: false,
            attempts: Attempts::default(),
            skip_seed: None,
            seed: 0,
            min_rto: Duration::from_millis(40),
            name: None,
            memory_limit: 1 << 30,
        }
    }

    /// Returns the configuration of a stream of a native connection without tuning: BBR, RACK-TLP,
    /// pacing. `seed` must be random.
    pub fn native(seed: u64) -> Self {
        let link =
            LinkProperties { rtt_s: 0.0, speed_bps: 1e10, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };
        let mut config = Self {
            wire: Wire::Native,
            seed,
            congestion: Algorithm::default(),
            recovery: LossDetection::Rack,
            pacing: true,
            ecn: true,
            rto: RtoPolicy::Rfc6298 { min: Duration::from_millis(200), backoff_max: Duration::from_secs(1) },
            // RFC 1122, section 4.2.3.5: at least 100 s, and 3 minutes for the SYN.
            give_up: Duration::from_secs(100),
            no_progress: Duration::from_secs(300),
            handshake_give_up: Duration::from_secs(180),
            attempts: Attempts { syn: u32::MAX, data: u32::MAX, fin: u32::MAX },
            ..Self::new(1, link)
        };
        config.window = config.largest_window();
        config
    }

    /// Limits a congestion window to W and to the memory limit, for segments of `mss` bytes.
    pub(crate) fn within_memory(&self, cwnd: u64, mss: usize) -> u64 {
        let packets = self.memory_limit / (mss + RECORD) as u64;
        cwnd.min(u64::from(self.window) * self.payload_size() as u64).min(packets * mss as u64)
    }

    /// Returns the largest window that the memory limit allows, packets.
    pub fn largest_window(&self) -> u32 {
        let packets = self.memory_limit / (self.payload_size() + RECORD) as u64;
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// Returns this configuration for a stream of a connection, whatever its format is.
    pub(crate) fn of_connection(&self) -> Self {
        Self { wire: Wire::Native, ..self.clone() }
    }

    /// Returns the payload of a full packet, bytes.
    pub fn payload_size(&self) -> usize {
        self.packet_size.saturating_sub(self.wire.overhead())
    }

    /// Returns the transport parameters by which this side requests ACKs and a link.
    pub(crate) fn wanted_params(&self) -> Params {
        Params {
            wanted_ack_every: self.ack_every(),
            link: self.link_request,
            overflow: self.wants_overflow(),
            ..Params::default()
        }
    }

    /// True if this side requests the count of socket drops. Behind an emulated link the receiver's
    /// socket buffer limits no window, and drops are not reported.
    pub(crate) fn wants_overflow(&self) -> bool {
        self.link_request.is_none()
    }

    /// Returns the number of packets per ACK to request: 1 for a window of one packet, else the
    /// default.
    fn ack_every(&self) -> u16 {
        let fixed = self.fixed_window().unwrap_or(u32::MAX);
        if self.window.min(fixed) > 1 { Params::default().wanted_ack_every } else { 1 }
    }

    /// True if data is sent with ECT(0) until validation fails. The controller must respond to CE
    /// marks (RFC 3168, section 6.1.2).
    pub(crate) fn uses_ecn(&self) -> bool {
        self.ecn && self.fixed_window().is_none() && self.wire.numbering() == Numbering::Bytes
    }

    /// Returns path MTU discovery up to `packet_size` (native).
    pub(crate) fn path_mtu(&self) -> Option<PathMtu> {
        match self.wire.numbering() {
            Numbering::Packets => None,
            Numbering::Bytes => Some(PathMtu::new(self.packet_size)),
        }
    }

    /// Returns the initial payload of a full packet, bytes.
    pub(crate) fn first_payload_size(&self) -> usize {
        self.path_mtu().map_or(self.packet_size, |mtu| mtu.size()).saturating_sub(self.wire.overhead())
    }

    /// Returns a controller in its initial state; `rtt` is the handshake RTT, and `known_window`
    /// the window that an earlier connection found, 0 for none.
    pub(crate) fn controller(
        &self,
        rtt: Option<Duration>,
        known_window: u64,
        mss: usize,
    ) -> Box<dyn Controller> {
        let start = Start {
            mss: mss as u64,
            initial_window: self.initial_window,
            loss_window: self.loss_window(),
            paced: self.pacing,
            rtt,
            known_window,
            seed: self.seed,
        };
        match &self.controller_factory {
            Some(factory) => factory.build(start),
            None => self.congestion.build(start),
        }
    }

    /// Returns the window after a timeout, packets.
    fn loss_window(&self) -> u32 {
        match self.loss_window {
            LossWindow::One => 1,
            LossWindow::Initial => self.initial_window.max(1),
        }
    }

    /// Returns the constant congestion window in packets, if there is no congestion control.
    fn fixed_window(&self) -> Option<u32> {
        match self.congestion {
            Algorithm::Fixed(packets) if self.controller_factory.is_none() => Some(packets),
            _ => None,
        }
    }

    /// Returns loss recovery in its initial state. Classic uses the variant of the reference
    /// sender.
    pub(crate) fn loss_recovery(&self) -> Box<dyn LossRecovery> {
        let reference = self.wire.numbering() == Numbering::Packets;
        match self.recovery {
            LossDetection::BaseOnly => Box::new(BaseOnly::new(reference, self.attempts.data)),
            rule => Box::new(Engine::new(rule, self.reordering, self.loss_window())),
        }
    }

    /// Returns the timeout of SYN number `attempt`, from 1: max(1 s, 2 RTT) with the requested RTT
    /// (classic), or 1 s, doubled after the first [`LINEAR_SYNS`] (native).
    pub(crate) fn syn_timeout(&self, attempt: u32) -> Duration {
        if let RtoPolicy::Rfc6298 { .. } = self.rto {
            return doubled(Duration::from_secs(1), attempt.saturating_sub(LINEAR_SYNS + 1), MAX_SYN_TIMEOUT);
        }
        let two_rtt = Duration::try_from_secs_f32(2.0 * self.link.rtt_s).unwrap_or_default();
        two_rtt.max(Duration::from_secs(1))
    }

    /// Returns the timeout of a FIN.
    pub(crate) fn fin_timeout(&self, rto: Duration, attempt: u32) -> Duration {
        match self.rto {
            RtoPolicy::Reference => rto,
            RtoPolicy::Rfc6298 { backoff_max, .. } => doubled(rto, attempt.saturating_sub(1), backoff_max),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.window == 0 {
            return Err(ConfigError::ZeroWindow);
        }
        let least = self.wire.smallest_packet();
        if !(least..=MAX_DATAGRAM).contains(&self.packet_size) {
            return Err(ConfigError::PacketSize { least, size: self.packet_size });
        }
        let needed = u64::from(self.window) * (self.payload_size() + RECORD) as u64;
        if needed > self.memory_limit {
            return Err(ConfigError::WindowTooLarge {
                window: self.window,
                needed,
                limit: self.memory_limit,
            });
        }
        if self.max_rate == Some(0) {
            return Err(ConfigError::ZeroRate);
        }
        if self.attempts.syn == 0 || self.attempts.data == 0 || self.attempts.fin == 0 {
            return Err(ConfigError::ZeroAttempts);
        }
        let own_window = matches!(self.congestion, Algorithm::Fixed(_) | Algorithm::Bbr);
        if self.loss_window != LossWindow::One && self.controller_factory.is_none() && own_window {
            return Err(ConfigError::LossWindow(self.congestion));
        }
        if let Some(link) = &self.link_request {
            link.validate().map_err(ConfigError::Link)?;
        }
        self.link.validate()
    }
}

/// Retransmissions of a SYN before its back-off begins, as in Linux 6.5 and later
/// (`tcp_syn_linear_timeouts`). One SYN a second is no load, and lost SYNs are the longest delay of
/// a start under random loss.
const LINEAR_SYNS: u32 = 4;
/// Upper limit of the back-off of a SYN.
const MAX_SYN_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_syn_backs_off_after_fifth() {
        let config = SenderConfig::native(7);
        let timeouts = [1, 2, 4, 5, 6, 7, 60].map(|attempt| config.syn_timeout(attempt).as_secs());
        assert_eq!(timeouts, [1, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn native_gives_up_as_rfc_1122_has_it() {
        let config = SenderConfig::native(7);
        let limits = [config.give_up, config.handshake_give_up, config.no_progress];
        assert_eq!(limits.map(|limit| limit.as_secs()), [100, 180, 300]);
    }
}
