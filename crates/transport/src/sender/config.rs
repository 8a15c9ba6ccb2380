//! What a sender is told before it starts, and the checks on it.

use std::time::Duration;

use super::scoreboard::Segment;
use crate::wire::{DATA_HEADER, LinkProperties};
use crate::{ConfigError, MAX_DATAGRAM};

/// What a packet in flight takes beside its payload, bytes.
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
    /// The limits of the course's third part: 3, 50, 50.
    fn default() -> Self {
        Self { syn: 3, data: 50, fin: 50 }
    }
}

/// Parameters of one transfer.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// Sender's window W in packets, at least 1. The window in force is min(W, receiver's window).
    pub window: u32,
    /// The link to ask the receiver for.
    pub link: LinkProperties,
    /// Bytes of a full datagram, header included: 9 to 65,507.
    pub packet_size: usize,
    /// Attempt limits.
    pub attempts: Attempts,
    /// The timeout after the handshake, 3 R, is raised to this. The default, 40 ms, is what the formula for
    /// later timeouts gives at least. Zero is the reference's behaviour, in which a receiver that
    /// hesitates for 50 tiny timeouts at the start ends the transfer.
    pub min_rto: Duration,
    /// Bytes that packets in flight may take. A window that needs more is refused.
    pub memory_limit: u64,
}

impl SenderConfig {
    /// A transfer over `link` with window `window`, all else at its default: 1472-byte datagrams.
    pub fn new(window: u32, link: LinkProperties) -> Self {
        Self {
            window,
            link,
            packet_size: 1472,
            attempts: Attempts::default(),
            min_rto: Duration::from_millis(40),
            memory_limit: 1 << 30,
        }
    }

    /// Bytes of payload in a full packet.
    pub fn payload_size(&self) -> usize {
        self.packet_size - DATA_HEADER
    }

    /// How long to wait for the SYN-ACK: max(1 s, 2 RTT), with the RTT that the link is asked for.
    pub(crate) fn syn_timeout(&self) -> Duration {
        let two_rtt = Duration::try_from_secs_f32(2.0 * self.link.rtt_s).unwrap_or_default();
        two_rtt.max(Duration::from_secs(1))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that no transfer can be run with.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.window == 0 {
            return Err(ConfigError::ZeroWindow);
        }
        if !(DATA_HEADER + 1..=MAX_DATAGRAM).contains(&self.packet_size) {
            return Err(ConfigError::PacketSize(self.packet_size));
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
        self.link.validate()
    }
}
