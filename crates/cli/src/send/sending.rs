//! Sender of one transfer in each format, as the application drives it.

use std::io;
use std::time::{Duration, Instant};

use rdt_transport::{
    Closed, Endpoint, InitiatorConfig, Observer, Phase, Sender, SenderEvent, SenderStats, TransferError,
};

use crate::connection::Protection;
use crate::source::{Sink, Source, fill};

pub(crate) trait Sending: Endpoint<Peer = ()> {
    fn observe(&mut self, observer: Box<dyn Observer>);

    /// Opens the transfer to another address or with other `keys`, `give_up` to answer.
    fn open_again(&mut self, now: Instant, give_up: Duration, keys: Option<InitiatorConfig>);

    fn progress(&mut self) -> Option<Progress>;

    /// Reads from `source` what fits. At its end, ends the stream and sets `source` to `None`.
    fn fill(&mut self, now: Instant, source: &mut Option<Box<dyn Source>>) -> io::Result<()>;

    /// Ends the transfer. A native receiver gets a CLOSE.
    fn abort(&mut self, now: Instant);

    fn syns(&self) -> u64;

    fn stats(&self) -> SenderStats;

    /// Returns how the transfer is protected; `None` for a classic one, and before the handshake.
    fn protection(&self) -> Option<Protection>;
}

pub(crate) enum Progress {
    /// The handshake is complete. `rtt`, if given, is printed as the handshake's duration.
    Connected {
        rtt: Option<Duration>,
    },
    Ended(Outcome),
}

/// End of a transfer.
pub(crate) enum Outcome {
    /// Confirmed by the receiver, with the CRC-32 of its FIN-ACK in a format that has one.
    Finished {
        crc: Option<u32>,
    },
    Failed {
        phase: Phase,
        error: TransferError,
    },
    /// The connection ended before the transfer was confirmed.
    Closed(Closed),
    Unreadable(io::Error),
    Interrupted,
}

impl Sending for Sender {
    fn observe(&mut self, observer: Box<dyn Observer>) {
        Self::observe(self, observer);
    }

    fn open_again(&mut self, _: Instant, _: Duration, _: Option<InitiatorConfig>) {
        debug_assert!(false, "one address is tried in the classic format");
    }

    fn progress(&mut self) -> Option<Progress> {
        Some(match self.poll_event()? {
            // The RTT of the last SYN is printed, as by the reference sender.
            SenderEvent::Connected { rtt } => Progress::Connected { rtt: Some(rtt) },
            SenderEvent::Finished { crc } => Progress::Ended(Outcome::Finished { crc: Some(crc) }),
            SenderEvent::Failed { phase, error } => Progress::Ended(Outcome::Failed { phase, error }),
        })
    }

    fn fill(&mut self, _: Instant, source: &mut Option<Box<dyn Source>>) -> io::Result<()> {
        fill(source, Sink::Sender(self))
    }

    fn abort(&mut self, _: Instant) {
        Self::abort(self);
    }

    fn syns(&self) -> u64 {
        Self::stats(self).datagrams_sent
    }

    fn stats(&self) -> SenderStats {
        Self::stats(self)
    }

    fn protection(&self) -> Option<Protection> {
        None
    }
}
