//! The SYN that leaves again although the transfer is open: another answer opened it, and the one
//! that says what the receiver takes and how long it waits may be lost. Nothing waits for it
//! meanwhile.

use std::time::Instant;

use super::{Sender, State};
use crate::{PacketKind, Trace, TransmitBuf};

/// The share of a round trip that the answer to the SYN may come later than that to what followed
/// it, one over: as much as reordering is given (RFC 8985, section 6.2).
const SYN_ACK_DELAY: u32 = 4;
/// After so many in vain the transfer goes on with what holds for a receiver that says nothing:
/// where half of all questions and answers are lost, that is one in thirty.
const MOST: u32 = 5;

/// What the receiver says of itself is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asking {
    /// SYNs sent since the transfer is open.
    attempts: u32,
    /// One is to leave.
    send: bool,
}

impl Sender {
    /// Another answer than the SYN's opened the transfer.
    pub(super) fn await_params(&mut self, now: Instant) {
        if self.closing.is_none() {
            self.asking = Some(Asking { attempts: 0, send: false });
            self.control_at = Some(now + self.rtt.srtt() / SYN_ACK_DELAY);
        }
    }

    /// The receiver said what it had to say, or it matters no more.
    pub(super) fn stop_asking(&mut self) {
        if self.asking.take().is_some() {
            self.control_at = None;
        }
    }

    /// The SYN is to leave again.
    pub(super) fn asks(&self) -> bool {
        self.state == State::Open && self.asking.is_some_and(|asking| asking.send)
    }

    /// The answer to the SYN did not come in time.
    pub(super) fn on_params_timeout(&mut self) {
        self.asking =
            self.asking.filter(|asking| asking.attempts < MOST).map(|asking| Asking { send: true, ..asking });
    }

    /// The same bytes as before, so that the receiver takes it for a copy.
    pub(super) fn transmit_question(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let asking = self.asking?;
        self.codec.encode_syn(out.slot(self.codec.syn_len())?);
        let attempt = asking.attempts + 1;
        // It backs off (RFC 6298, section 5.5).
        let rto = self.rtt.rto().saturating_mul(1 << (attempt - 1).min(MOST));
        self.asking = Some(Asking { attempts: attempt, send: false });
        self.control_at = Some(now + rto);
        self.trace_sent(now, PacketKind::Syn, u64::from(attempt), 0, None);
        self.trace(now, &Trace::SynSent { seq: 0, attempt, of: MOST, rto });
        Some(())
    }
}
