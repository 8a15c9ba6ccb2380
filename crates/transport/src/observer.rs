//! The facts a sender tells an observer as they happen: for per-packet logs and tests. Time is
//! passed in, so a trace is right in virtual time too.

use std::time::{Duration, Instant};

use crate::Blocked;
use crate::congestion::Cause;

/// Sees every fact. Without one, a machine pays a single branch.
pub trait Observer: Send {
    /// Called once per fact, in order.
    fn on(&mut self, now: Instant, trace: &Trace);

    /// Events that this observer needs; the sender may tell it of others.
    fn interest(&self) -> Interest {
        Interest::Everything
    }
}

/// Which facts an observer wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// [`Trace::AckReceived`] alone, for its sample: the sender then need not stop at each packet
    /// or look for what changed.
    RoundTrips,
    /// All of them.
    Everything,
}

/// Tells all of them, in their order.
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

/// Why a packet was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// The retransmission timer fired.
    Timeout,
    /// The third duplicate ACK arrived.
    DupAcks,
    /// The loss detector gave it up.
    Lost,
    /// ACKs stopped coming: a probe (RFC 8985, section 7).
    Probe,
}

/// Kind of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "these are the names of the packets in docs/PROTOCOL.md")]
pub enum PacketKind {
    Syn,
    Data,
    KeepAlive,
    Fin,
    SynAck,
    Retry,
    Ack,
    FinAck,
    Close,
}

/// By which rule a packet was declared lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossTrigger {
    /// One that left later was delivered, and it had had its time (RFC 8985, section 6).
    TimeThreshold,
    /// Enough was selectively acknowledged above it (RFC 6675, section 4).
    SackThreshold,
    /// The third duplicate ACK, or a partial one (RFC 6582).
    DupAcks,
    /// The retransmission timer fired.
    Timeout,
}

/// Timer of a sender, beside that of the pacer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The retransmission timer of data (RFC 6298).
    Retransmission,
    /// The tail loss probe (RFC 8985, section 7).
    Probe,
    /// The time that reordering may take is over (RFC 8985, section 6.2).
    Reordering,
    /// The SYN or the FIN is sent again.
    Control,
}

impl Timer {
    /// All of them, each at its [`Timer::index`].
    pub(crate) const ALL: [Self; 4] = [Self::Retransmission, Self::Probe, Self::Reordering, Self::Control];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// How a sender stands. Times are zero before the first sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes, where there is one.
    pub ssthresh: Option<u64>,
    /// Bytes believed to be in the network (`pipe` of RFC 6675).
    pub in_flight: u64,
    /// The receiver's window, in the wire's numbers from the oldest one not acknowledged on.
    pub snd_wnd: u64,
    /// Smoothed round-trip time (RFC 6298); zero until it was measured on the path as it is, as are
    /// the next two.
    pub srtt: Duration,
    /// Its mean deviation (RFC 6298).
    pub rttvar: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// The newest round-trip sample.
    pub latest_rtt: Option<Duration>,
    /// Bytes per second at which packets leave; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// Bytes per second, the newest sample (draft-cheng-iccrg-delivery-rate-estimation).
    pub delivery_rate: Option<u64>,
}

/// One fact. Sequence numbers and windows are in the wire's numbers: packets or bytes.
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
        wnd: u64,
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
    /// The base moved. `deadline` is `None` when nothing is outstanding any more; `sample` is the
    /// round trip of the last packet acknowledged, unless Karn's rule forbids it.
    AckReceived {
        ack: u64,
        wnd: u64,
        rto: Duration,
        deadline: Option<Instant>,
        sample: Option<Duration>,
    },
    DupAckReceived {
        ack: u64,
        wnd: u64,
        dup_acks: u32,
    },
    /// New data leaves at `rate` bytes of payload per second at most from now on.
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
    /// A datagram of `length` bytes left, with `len` bytes of the stream from `offset` on. `number`
    /// is that of the transmission; where the wire numbers none, that of the packet, or of the
    /// attempt for a SYN.
    PacketSent {
        kind: PacketKind,
        number: u64,
        offset: u64,
        len: u32,
        length: usize,
        resend: Option<Resend>,
    },
    /// A datagram of `length` bytes arrived that is a packet; what it meant follows.
    PacketReceived {
        kind: PacketKind,
        length: usize,
    },
    /// A datagram arrived that is none.
    PacketDropped {
        length: usize,
    },
    /// Part of the ACK whose [`Trace::AckProcessed`] follows: a segment is newly known to be
    /// delivered. `tx` is its last transmission, where the wire numbers them.
    PacketAcked {
        tx: Option<u64>,
        offset: u64,
        len: u32,
    },
    /// The scoreboard took an ACK: `bytes` newly acknowledged, in `blocks` selective blocks and
    /// below `ack`; `delay` is the receiver's.
    AckProcessed {
        ack: u64,
        wnd: u64,
        bytes: u64,
        blocks: u32,
        largest_tx: Option<u64>,
        delay: Option<Duration>,
        sample: Option<Duration>,
    },
    /// A segment was declared lost; `tx` as in [`Trace::PacketAcked`].
    PacketLost {
        tx: Option<u64>,
        offset: u64,
        len: u32,
        trigger: LossTrigger,
    },
    /// An episode of recovery begins.
    RecoveryBegan {
        cause: Cause,
    },
    /// The episode is over; if it was spurious, nothing had been lost and its reduction is undone.
    RecoveryEnded {
        spurious: bool,
    },
    /// A probe repaired a loss that nothing else had noticed; the window is reduced.
    ProbeRepaired,
    /// At least one of them changed in the call that ends here.
    MetricsUpdated(Metrics),
    /// The congestion controller went into another phase
    /// ([`Controller::phase`](crate::congestion::Controller)).
    PhaseChanged {
        old: Option<&'static str>,
        new: &'static str,
    },
    /// Nothing leaves, for another reason than last time.
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
