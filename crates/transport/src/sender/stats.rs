//! What a sender counted: plain numbers, incremented where the fact occurs, read as a snapshot.

use std::time::{Duration, Instant};

/// A sender's counters and gauges.
#[derive(Debug, Clone, Default)]
pub struct SenderStats {
    /// Base: number of the oldest packet not acknowledged.
    pub snd_una: u64,
    /// Number of the next new packet.
    pub snd_nxt: u64,
    /// Window in force, min(W, receiver's window), in packets.
    pub window: u32,
    /// Smoothed round-trip time; zero before the handshake.
    pub srtt: Duration,
    /// Retransmission timeout in force.
    pub rto: Duration,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes written by the application so far.
    pub bytes_written: u64,
    /// CRC-32 of the bytes written so far.
    pub crc: u32,
    /// Packets sent again because the timer fired.
    pub timeouts: u64,
    /// Packets sent again because of three duplicate ACKs.
    pub fast_retransmits: u64,
    /// Reminders sent while there was nothing to send.
    pub keep_alives: u64,
    /// Datagrams handed out, every kind and every attempt.
    pub datagrams_sent: u64,
    /// Datagrams taken in, good or bad.
    pub datagrams_received: u64,
    /// ACKs that repeated the base while packets were outstanding.
    pub dup_acks: u64,
    /// ACKs below the base, and replies that this state has no use for.
    pub stale: u64,
    /// ACKs of packets that were never sent; dropped.
    pub acks_beyond: u64,
    /// Datagrams that are no packet of a receiver; dropped.
    pub malformed: u64,
    /// Round-trip time of the handshake, from the last SYN sent.
    pub handshake_rtt: Option<Duration>,
    /// When the first data packet was first sent.
    pub first_data_at: Option<Instant>,
    /// When the base last moved.
    pub last_ack_at: Option<Instant>,
}

impl SenderStats {
    /// From the first data packet to the last ACK that moved the base; no SYN, no FIN.
    pub fn elapsed(&self) -> Duration {
        match (self.first_data_at, self.last_ack_at) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        }
    }
}
