//! Counters of a sender, incremented where the event occurs and read as a snapshot.

use std::time::{Duration, Instant};

use super::blocked::Waited;
use super::ecn::EcnState;

/// A sender's counters and gauges.
#[derive(Debug, Clone, Default)]
pub struct SenderStats {
    /// Base: number of the oldest packet not acknowledged.
    pub snd_una: u64,
    /// Number of the next new packet.
    pub snd_nxt: u64,
    /// Window in force, min(W, receiver's window), in full packets.
    pub window: u32,
    /// Largest datagram that the path is known to carry, bytes; 0 if that is not looked for.
    pub packet_size: usize,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes, where there is one.
    pub ssthresh: Option<u64>,
    /// Bytes believed to be in the network (`pipe` of RFC 6675).
    pub in_flight: u64,
    /// Smoothed round-trip time, once it was measured on the path as it is.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time, once there was a valid sample.
    pub min_rtt: Option<Duration>,
    /// Retransmission timeout in force.
    pub rto: Duration,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes written by the application so far.
    pub bytes_written: u64,
    /// CRC-32 of the bytes written so far; where packets have a check of their own, of those that
    /// left at least once, acknowledged or not. It is that of the stream once all of it left, and
    /// says nothing of what arrived: that is [`SenderEvent::Finished`](crate::SenderEvent)'s.
    pub crc: u32,
    /// Times that the retransmission timer fired and something was sent again.
    pub timeouts: u64,
    /// Packets sent again because ACKs told of their loss, or that a receiver which had no room for
    /// them has some now.
    pub fast_retransmits: u64,
    /// Packets sent again, for any reason.
    pub retransmitted: u64,
    /// Their payload, bytes.
    pub retransmitted_bytes: u64,
    /// Packets declared lost, one as often as it was.
    pub lost: u64,
    /// Lost packets put down to drops in the receiver's socket, which are no reason to slow down. 0
    /// where the format does not tell.
    pub lost_to_socket: u64,
    /// Episodes of recovery that ACKs began.
    pub recoveries: u64,
    /// Packets that arrived with the mark CE.
    pub ce_marks: u64,
    /// Times that the congestion control slowed down for marks: at most once a round trip.
    pub ecn_reductions: u64,
    /// How ECN stands.
    pub ecn: EcnState,
    /// Of all episodes, those in which nothing had been lost.
    pub spurious: u64,
    /// Probes sent when ACKs stopped coming.
    pub probes: u64,
    /// For how long what held the sender up.
    pub waited: Waited,
    /// Reminders sent while there was nothing to send.
    pub keep_alives: u64,
    /// Datagrams handed out, every kind and every attempt.
    pub datagrams_sent: u64,
    /// Datagrams taken in, good or bad.
    pub datagrams_received: u64,
    /// ACKs that repeated the base while packets were outstanding; in the native format, the window
    /// with it, which has room for a packet.
    pub dup_acks: u64,
    /// ACKs below the base, and replies that this state has no use for.
    pub stale: u64,
    /// ACKs, and SACK blocks, of what was never sent; dropped.
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
