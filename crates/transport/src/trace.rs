//! The facts a sender tells an observer as they happen: for per-packet logs and tests. Time is passed in,
//! so a trace is right in virtual time too.

use std::time::{Duration, Instant};

/// Sees every fact. Without one, a machine pays a single branch.
pub trait Observer: Send {
    /// Called once per fact, in order.
    fn on(&mut self, now: Instant, trace: &Trace);
}

/// Why a packet was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// The retransmission timer fired.
    Timeout,
    /// The third duplicate ACK arrived.
    DupAcks,
}

/// One fact. Sequence numbers and windows are in packets.
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
        wnd: u32,
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
    /// The base moved. `deadline` is `None` when nothing is outstanding any more; `sample` is the round trip
    /// of the last packet acknowledged, unless Karn's rule forbids it.
    AckReceived {
        ack: u64,
        wnd: u32,
        rto: Duration,
        deadline: Option<Instant>,
        sample: Option<Duration>,
    },
    DupAckReceived {
        ack: u64,
        wnd: u32,
        dup_acks: u32,
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
}
