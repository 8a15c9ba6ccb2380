//! Configuration of a sender, and its validation.

use std::sync::Arc;
use std::time::Duration;

use super::path_mtu::PathMtu;
use crate::congestion::{Algorithm, Controller, ControllerFactory, Start};
use crate::recovery::{self, LossRecovery, Segment};
use crate::wire::native::{LinkRequest, Params};
use crate::wire::{Codec, LinkProperties, Numbering, Wire};
use crate::{ConfigError, LossDetection, MAX_DATAGRAM, Reordering, RtoPolicy};

/// Memory of a packet in flight beside its payload, bytes.
const RECORD: usize = size_of::<Segment>();

/// How often one packet is sent at most, the first time included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// SYN.
    pub syn: u32,
    /// Each data packet.
    pub data: u32,
    /// FIN.
    pub fin: u32,
}

impl Default for Attempts {
    /// The limits of the reference sender: 30, 50, 50.
    fn default() -> Self {
        Self { syn: 30, data: 50, fin: 50 }
    }
}

/// Parameters of one transfer.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The format.
    pub wire: Wire,
    /// Sender's window W in packets, at least 1. The window in force is min(W, receiver's window),
    /// or the congestion window if that is smaller.
    pub window: u32,
    /// Congestion control.
    pub congestion: Algorithm,
    /// A controller of the caller's own, used in place of `congestion`.
    pub controller_factory: Option<Arc<dyn ControllerFactory>>,
    /// The congestion controller's first window, packets (RFC 6928: 10).
    pub initial_window: u32,
    /// How losses are found and repaired.
    pub recovery: LossDetection,
    /// With [`LossDetection::Rack`]: whether segments get time to overtake each other from the
    /// beginning.
    pub reordering: Reordering,
    /// Packets leave at the pace of the congestion controller instead of as soon as the window has
    /// room.
    pub pacing: bool,
    /// The retransmission timeout.
    pub rto: RtoPolicy,
    /// A receiver that owed an answer to data or the FIN for this long is given up (RFC 1122,
    /// section 4.2.3.5: R2). The course's rules have no such limit and count attempts instead.
    pub give_up: Duration,
    /// As `give_up`, for the handshake: from the first SYN on.
    pub handshake_give_up: Duration,
    /// The link to ask the receiver for.
    pub link: LinkProperties,
    /// As `link`, in the native format, where a link need not be asked for.
    pub link_request: Option<LinkRequest>,
    /// Bytes of a full datagram, header included: 9 to 65,507. Where the format lets the sender
    /// look for the path's largest datagram, it begins with at most 1200 and goes no higher than
    /// this.
    pub packet_size: usize,
    /// Packets of data may leave with ECT(0), so that routers can mark them instead of dropping
    /// them. Only where the format reports marks and the congestion control answers them.
    pub ecn: bool,
    /// Attempt limits.
    pub attempts: Attempts,
    /// The timeout after the handshake, 3 R, is raised to this. The default, 40 ms, is what the
    /// formula for later timeouts gives at least. Zero is the reference's behaviour, in which a
    /// receiver that hesitates for 50 tiny timeouts at the start ends the transfer.
    pub min_rto: Duration,
    /// Bytes that packets in flight may take. A window that needs more is refused.
    pub memory_limit: u64,
}

impl SenderConfig {
    /// A transfer over `link` with window `window`, all else at its default: 1472-byte datagrams.
    pub fn new(window: u32, link: LinkProperties) -> Self {
        Self {
            wire: Wire::Classic,
            window,
            congestion: Algorithm::Fixed(window),
            controller_factory: None,
            initial_window: 10,
            recovery: LossDetection::BaseOnly,
            reordering: Reordering::UntilLoss,
            pacing: false,
            rto: RtoPolicy::Reference,
            give_up: Duration::MAX,
            handshake_give_up: Duration::MAX,
            link,
            link_request: None,
            packet_size: 1472,
            ecn: false,
            attempts: Attempts::default(),
            min_rto: Duration::from_millis(40),
            memory_limit: 1 << 30,
        }
    }

    /// A transfer in the native format that needs no tuning: BBR, RACK-TLP, pacing. `connection_id`
    /// is drawn at random by the caller.
    pub fn native(connection_id: u64) -> Self {
        let link =
            LinkProperties { rtt_s: 0.0, speed_bps: 1e10, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };
        let mut config = Self {
            wire: Wire::Native { connection_id },
            congestion: Algorithm::default(),
            recovery: LossDetection::Rack,
            pacing: true,
            ecn: true,
            rto: RtoPolicy::Rfc6298 { min: Duration::from_millis(200), backoff_max: Duration::from_secs(1) },
            // RFC 1122, section 4.2.3.5: at least 100 s, and 3 minutes for the SYN.
            give_up: Duration::from_secs(100),
            handshake_give_up: Duration::from_secs(180),
            attempts: Attempts { syn: u32::MAX, data: u32::MAX, fin: u32::MAX },
            ..Self::new(1, link)
        };
        config.window = config.largest_window();
        config
    }

    /// A window within W, and so small that its segments of `mss` bytes with their records are
    /// within the memory limit.
    pub(crate) fn within_memory(&self, cwnd: u64, mss: usize) -> u64 {
        let packets = self.memory_limit / (mss + RECORD) as u64;
        cwnd.min(u64::from(self.window) * self.payload_size() as u64).min(packets * mss as u64)
    }

    /// Packets in flight that the memory limit allows.
    pub fn largest_window(&self) -> u32 {
        let packets = self.memory_limit / (self.payload_size() + RECORD) as u64;
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// Bytes of payload in a full packet.
    pub fn payload_size(&self) -> usize {
        self.packet_size.saturating_sub(self.wire.data_header())
    }

    pub(crate) fn codec(&self) -> Codec {
        let max_datagram = u16::try_from(self.packet_size).unwrap_or(u16::MAX);
        Codec::new(
            self.wire,
            self.link,
            Params {
                max_datagram,
                ack_every: self.ack_every(),
                link: self.link_request,
                // Who emulates a link bounds no windows by its socket's buffer, and does not tell.
                overflow: self.link_request.is_none(),
                ..Params::default()
            },
        )
    }

    /// Packets after which the receiver is to acknowledge at the latest: 1 for a window of one
    /// packet, which no second one follows.
    fn ack_every(&self) -> u16 {
        let fixed = self.fixed_window().unwrap_or(u32::MAX);
        if self.window.min(fixed) > 1 { Params::default().ack_every } else { 1 }
    }

    /// True if packets of data leave with ECT(0) until the path fails validation. The controller
    /// must then answer CE marks (RFC 3168, section 6.1.2).
    pub(crate) fn uses_ecn(&self) -> bool {
        self.ecn && self.fixed_window().is_none() && self.wire.numbering() == Numbering::Bytes
    }

    /// The search for the path's MTU, where segments can be cut again: `packet_size` is then its
    /// ceiling.
    pub(crate) fn path_mtu(&self) -> Option<PathMtu> {
        match self.wire.numbering() {
            Numbering::Packets => None,
            Numbering::Bytes => Some(PathMtu::new(self.packet_size)),
        }
    }

    /// Bytes of payload in a full packet before anything is known of the path.
    pub(crate) fn first_payload_size(&self) -> usize {
        self.path_mtu().map_or(self.packet_size, |mtu| mtu.size()).saturating_sub(self.wire.data_header())
    }

    /// A controller in its initial state; `rtt` is the handshake's.
    pub(crate) fn controller(&self, rtt: Option<Duration>, mss: usize) -> Box<dyn Controller> {
        let start = Start {
            mss: mss as u64,
            initial_window: self.initial_window,
            paced: self.pacing,
            rtt,
            // The connection's number is random already.
            seed: self.wire.connection_id().unwrap_or(0),
        };
        match &self.controller_factory {
            Some(factory) => factory.build(start),
            None => self.congestion.build(start),
        }
    }

    /// Packets of a constant congestion window, if there is no congestion control.
    fn fixed_window(&self) -> Option<u32> {
        match self.congestion {
            Algorithm::Fixed(packets) if self.controller_factory.is_none() => Some(packets),
            _ => None,
        }
    }

    /// Loss recovery in its initial state. In the classic format the course's variant declares
    /// nothing lost.
    pub(crate) fn loss_recovery(&self) -> Box<dyn LossRecovery> {
        let reference = self.wire.numbering() == Numbering::Packets;
        recovery::build(self.recovery, self.reordering, reference, self.attempts.data)
    }

    /// How long to wait for the SYN-ACK: max(1 s, 2 RTT), with the RTT that the link is asked for.
    ///
    /// In the native format 1 s, doubled up to 2 s.
    pub(crate) fn syn_timeout(&self, attempt: u32) -> Duration {
        if let RtoPolicy::Rfc6298 { .. } = self.rto {
            return doubled(Duration::from_secs(1), attempt, MAX_SYN_TIMEOUT);
        }
        let two_rtt = Duration::try_from_secs_f32(2.0 * self.link.rtt_s).unwrap_or_default();
        two_rtt.max(Duration::from_secs(1))
    }

    /// How long to wait for the FIN-ACK.
    pub(crate) fn fin_timeout(&self, rto: Duration, attempt: u32) -> Duration {
        match self.rto {
            RtoPolicy::Reference => rto,
            RtoPolicy::Rfc6298 { backoff_max, .. } => doubled(rto, attempt, backoff_max),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that no transfer can be run with.
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
        if self.attempts.syn == 0 || self.attempts.data == 0 || self.attempts.fin == 0 {
            return Err(ConfigError::ZeroAttempts);
        }
        if let Some(link) = &self.link_request {
            link.validate().map_err(ConfigError::Link)?;
        }
        self.link.validate()
    }
}

/// Longest time between two attempts of a SYN that backs off.
const MAX_SYN_TIMEOUT: Duration = Duration::from_secs(2);

/// `first`, doubled with each attempt after the first, up to `longest`, unless `first` is longer.
fn doubled(first: Duration, attempt: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest.max(first))
}
