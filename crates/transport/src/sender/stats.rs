//! Counters of a sender, incremented where the event occurs and read as a snapshot.

use std::time::{Duration, Instant};

use super::Sender;
use super::blocked::Waited;
use super::ecn::EcnState;

/// A sender's counters and gauges.
#[derive(Debug, Clone, Default)]
pub struct SenderStats {
    /// Base: number of the oldest unacknowledged packet.
    pub snd_una: u64,
    /// Number of the next new packet.
    pub snd_nxt: u64,
    /// Window in force, min(W, receiver's window), in full packets.
    pub window: u32,
    /// Largest datagram confirmed by path MTU discovery, bytes; 0 without discovery.
    pub packet_size: usize,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` before the first congestion event, and for controllers
    /// without one.
    pub ssthresh: Option<u64>,
    /// Estimate of the bytes in the network (`pipe` of RFC 6675).
    pub in_flight: u64,
    /// Smoothed RTT; `None` before the first valid sample.
    pub srtt: Option<Duration>,
    /// Smallest RTT of the transfer; `None` before the first valid sample.
    pub min_rtt: Option<Duration>,
    /// Retransmission timeout, back-off included.
    pub rto: Duration,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes written by the application so far.
    pub bytes_written: u64,
    /// CRC-32 of the bytes written so far (classic); 0 if it is not computed. The receiver's CRC-32
    /// is in [`SenderEvent::Finished`](crate::SenderEvent).
    pub crc: u32,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Packets retransmitted because ACKs showed their loss, or because a receiver that had dropped
    /// them for lack of room reopened its window.
    pub fast_retransmits: u64,
    /// Packets retransmitted, for any reason.
    pub retransmitted: u64,
    /// Payload of the retransmitted packets, bytes.
    pub retransmitted_bytes: u64,
    /// Packets declared lost, counted for each transmission.
    pub lost: u64,
    /// Lost packets attributed to drops in the receiver's socket, which are no sign of congestion;
    /// 0 in the classic format.
    pub lost_to_socket: u64,
    /// Recovery episodes that ACKs began.
    pub recoveries: u64,
    /// Packets that arrived with a CE mark.
    pub ce_marks: u64,
    /// Reductions of the congestion window because of CE marks: at most one per RTT.
    pub ecn_reductions: u64,
    /// State of ECN validation.
    pub ecn: EcnState,
    /// Spurious recovery episodes and timeouts: nothing was lost.
    pub spurious: u64,
    /// Tail loss probes sent.
    pub probes: u64,
    /// Time that the sender waited, by reason.
    pub waited: Waited,
    /// Keep-alives sent.
    pub keep_alives: u64,
    /// Datagrams sent, of any kind.
    pub datagrams_sent: u64,
    /// Datagrams received, valid or not.
    pub datagrams_received: u64,
    /// Duplicate ACKs while packets were outstanding. Classic counts every ACK that repeats the
    /// base; native as RFC 5681 defines them.
    pub dup_acks: u64,
    /// ACKs below the base, and replies that do not fit the state.
    pub stale: u64,
    /// ACKs and SACK blocks for data that was never sent; dropped.
    pub acks_beyond: u64,
    /// Invalid datagrams; dropped.
    pub malformed: u64,
    /// Handshake RTT; see [`SenderEvent::Connected`](crate::SenderEvent).
    pub handshake_rtt: Option<Duration>,
    /// Time of the first data packet.
    pub first_data_at: Option<Instant>,
    /// Time of the last ACK that advanced the base.
    pub last_ack_at: Option<Instant>,
}

/// Counters that a sender increments; the other fields of [`SenderStats`] are computed.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    pub(super) packet_size: usize,
    pub(super) bytes_acked: u64,
    pub(super) timeouts: u64,
    pub(super) fast_retransmits: u64,
    pub(super) retransmitted: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) lost: u64,
    pub(super) lost_to_socket: u64,
    pub(super) recoveries: u64,
    pub(super) ce_marks: u64,
    pub(super) ecn_reductions: u64,
    pub(super) spurious: u64,
    pub(super) probes: u64,
    pub(super) keep_alives: u64,
    pub(super) datagrams_sent: u64,
    pub(super) datagrams_received: u64,
    pub(super) dup_acks: u64,
    pub(super) stale: u64,
    pub(super) acks_beyond: u64,
    pub(super) malformed: u64,
    pub(super) handshake_rtt: Option<Duration>,
    pub(super) first_data_at: Option<Instant>,
    pub(super) last_ack_at: Option<Instant>,
}

impl From<&Counters> for SenderStats {
    fn from(counters: &Counters) -> Self {
        Self {
            packet_size: counters.packet_size,
            bytes_acked: counters.bytes_acked,
            timeouts: counters.timeouts,
            fast_retransmits: counters.fast_retransmits,
            retransmitted: counters.retransmitted,
            retransmitted_bytes: counters.retransmitted_bytes,
            lost: counters.lost,
            lost_to_socket: counters.lost_to_socket,
            recoveries: counters.recoveries,
            ce_marks: counters.ce_marks,
            ecn_reductions: counters.ecn_reductions,
            spurious: counters.spurious,
            probes: counters.probes,
            keep_alives: counters.keep_alives,
            datagrams_sent: counters.datagrams_sent,
            datagrams_received: counters.datagrams_received,
            dup_acks: counters.dup_acks,
            stale: counters.stale,
            acks_beyond: counters.acks_beyond,
            malformed: counters.malformed,
            handshake_rtt: counters.handshake_rtt,
            first_data_at: counters.first_data_at,
            last_ack_at: counters.last_ack_at,
            ..Self::default()
        }
    }
}

impl SenderStats {
    pub(super) fn of(sender: &Sender) -> Self {
        let (board, rtt) = (&sender.flight.board, &sender.path.rtt);
        Self {
            snd_una: board.snd_una(),
            snd_nxt: board.snd_nxt(),
            window: sender.window_packets(),
            cwnd: sender.congestion.controller.cwnd(),
            ssthresh: sender.congestion.controller.ssthresh(),
            in_flight: board.in_flight(),
            srtt: rtt.sampled(),
            min_rtt: rtt.min_rtt,
            rto: rtt.rto(),
            bytes_written: sender.stream.end(),
            crc: sender.stream.buffer.crc(),
            waited: sender.blocked.total,
            ecn: sender.path.ecn.state,
            ..Self::from(&sender.stats)
        }
    }

    /// Returns the time from the first data packet to the last ACK that advanced the base, without
    /// SYN and FIN.
    pub fn elapsed(&self) -> Duration {
        match (self.first_data_at, self.last_ack_at) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        }
    }
}
