//! Events that a sender reports to an observer, for logs, qlog and tests.

use std::time::{Duration, Instant};

use crate::Blocked;
use crate::congestion::Cause;
use crate::wire::PacketKind;

/// Receives the events of a sender. Observing changes nothing in the transfer. Called while the
/// sender or the set of connections is locked: must not wait, and must not call them.
pub trait Observer: Send {
    /// Called once for each event, in order.
    fn on(&mut self, now: Instant, trace: &Trace);

    /// Returns the events that this observer needs. The sender may report others, too.
    fn interest(&self) -> Interest {
        Interest::Everything
    }
}

/// Events that an observer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// Only the RTT samples in [`Trace::AckReceived`]. The cheapest: the sender neither reports
    /// single packets nor compares its metrics.
    RoundTrips,
    /// All events.
    Everything,
}

/// Reports each event to every observer of the vector.
impl Observer for Vec<Box<dyn Observer>> {
    fn on(&mut self, now: Instant, trace: &Trace) {
        for observer in self {
            observer.on(now, trace);
        }
    }

    fn interest(&self) -> Interest {
        self.iter().map(|observer| observer.interest()).max().unwrap_or(Interest::RoundTrips)
    }
}

/// Reason for a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// The retransmission timer fired.
    Timeout,
    /// The third duplicate ACK arrived.
    DupAcks,
    /// Loss detection declared the packet lost.
    Lost,
    /// Tail loss probe: no ACK arrived for one or two RTTs (RFC 8985, section 7).
    Probe,
}

/// Rule by which a packet was declared lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossTrigger {
    /// A packet sent later was delivered, and the reordering window is over (RFC 8985, section 6).
    TimeThreshold,
    /// Three segments above it were selectively acknowledged (RFC 6675, section 4).
    SackThreshold,
    /// The third duplicate ACK, or a partial one (RFC 6582).
    DupAcks,
    /// The retransmission timer fired.
    Timeout,
}

/// Timer of a sender. The pacer's is not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The retransmission timer of data (RFC 6298).
    Retransmission,
    /// The tail loss probe (RFC 8985, section 7).
    Probe,
    /// End of the reordering window (RFC 8985, section 6.2).
    Reordering,
    /// Retransmission of the SYN or the FIN.
    Control,
}

impl Timer {
    /// All timers, in the order in which [`Sender`](crate::Sender) lists deadlines.
    pub(crate) const ALL: [Self; 4] = [Self::Retransmission, Self::Probe, Self::Reordering, Self::Control];
}

/// State of a sender. Times are zero before the first RTT sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` before the first congestion event, and for controllers
    /// without one.
    pub ssthresh: Option<u64>,
    /// Estimate of the bytes in the network (`pipe` of RFC 6675).
    pub in_flight: u64,
    /// Receive window, counted from the oldest unacknowledged number: packets (classic) or bytes
    /// (native).
    pub snd_wnd: u64,
    /// Smoothed RTT (RFC 6298). A sample of the handshake through a cookie exchange does not count.
    pub srtt: Duration,
    /// Mean deviation of the RTT (RFC 6298).
    pub rttvar: Duration,
    /// Smallest RTT of the transfer.
    pub min_rtt: Duration,
    /// Newest RTT sample.
    pub latest_rtt: Option<Duration>,
    /// Pacing rate in bytes of payload per second; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// Newest sample of the delivery rate, bytes per second
    /// (draft-cheng-iccrg-delivery-rate-estimation).
    pub delivery_rate: Option<u64>,
}

/// One event. Sequence numbers and windows count packets (classic) or bytes (native).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields carry the words of RFC 9293 and 6298")]
pub enum Trace {
    SynSent {
        seq: u64,
        attempt: u32,
        of: u32,
        rto: Duration,
    },
    SynAckReceived {
        ack: u64,
        window: u64,
        rto: Duration,
    },
    DataSent {
        seq: u64,
        attempt: u32,
        of: u32,
        rto: Duration,
        deadline: Instant,
        resend: Option<Resend>,
    },
    /// The cumulative ACK advanced. `deadline` is that of the retransmission timer, `None` if all
    /// data is acknowledged. `sample` is the RTT of the last packet acknowledged, `None` if Karn's
    /// rule forbids it.
    AckReceived {
        ack: u64,
        window: u64,
        rto: Duration,
        deadline: Option<Instant>,
        sample: Option<Duration>,
    },
    DupAckReceived {
        ack: u64,
        window: u64,
        dup_acks: u32,
    },
    /// The pacing rate changed to `rate` bytes of payload per second.
    Paced {
        rate: u64,
    },
    AttemptsExhausted {
        seq: u64,
    },
    FinSent {
        seq: u64,
        attempt: u32,
        of: u32,
        rto: Duration,
    },
    FinAckReceived {
        ack: u64,
        crc: u32,
    },
    /// A datagram of `length` bytes was sent, with `len` bytes of the stream from `offset` on.
    /// `number` is the packet number (native), the sequence number (classic), or the attempt (SYN).
    PacketSent {
        kind: PacketKind,
        number: u64,
        offset: u64,
        len: u32,
        length: usize,
        resend: Option<Resend>,
    },
    /// A valid packet of `length` bytes arrived. Events of its effects follow.
    PacketReceived {
        kind: PacketKind,
        length: usize,
    },
    /// An invalid datagram of `length` bytes arrived.
    PacketDropped {
        length: usize,
    },
    /// A segment was newly acknowledged; [`Trace::AckProcessed`] of the same ACK follows.
    /// `packet_number` is its last packet number (native).
    PacketAcked {
        packet_number: Option<u64>,
        offset: u64,
        len: u32,
    },
    /// The scoreboard processed an ACK up to `ack` with `blocks` SACK blocks, which newly
    /// acknowledged `bytes`. `delay` is the receiver's ACK delay.
    AckProcessed {
        ack: u64,
        window: u64,
        bytes: u64,
        blocks: u32,
        largest_acked: Option<u64>,
        delay: Option<Duration>,
        sample: Option<Duration>,
    },
    /// A segment was declared lost; `packet_number` as in [`Trace::PacketAcked`].
    PacketLost {
        packet_number: Option<u64>,
        offset: u64,
        len: u32,
        trigger: LossTrigger,
    },
    /// A recovery episode began. Zero-window probes begin none.
    RecoveryBegan {
        cause: Cause,
    },
    /// The recovery episode ended. If it was spurious, nothing was lost, and its reduction is
    /// undone.
    RecoveryEnded {
        spurious: bool,
    },
    /// A tail loss probe repaired a loss that nothing else detected; the window is reduced (RFC
    /// 8985, section 7.4).
    ProbeRepaired,
    /// The congestion window was reduced because of CE marks.
    EcnReduced,
    /// At least one metric changed since the last such event.
    MetricsUpdated(Metrics),
    /// The phase of the congestion controller changed
    /// ([`Controller::phase`](crate::congestion::Controller)).
    PhaseChanged {
        old: Option<&'static str>,
        new: &'static str,
    },
    /// The reason for which the sender cannot send changed.
    Blocked {
        reason: Blocked,
    },
    TimerSet {
        timer: Timer,
        at: Instant,
    },
    TimerCancelled {
        timer: Timer,
    },
    TimerExpired {
        timer: Timer,
    },
}
