//! One transfer of `rdt-send`, whatever carries it: the receiver's addresses in turn, the lines
//! while it runs, its end.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_program::{Failure, Stop};
use rdt_transport::{Closed, InitiatorConfig, Phase, SenderStats, TransferError};
use rdt_trust::{ADDRESS_GIVE_UP, Attempt, AttemptEnd, Candidates, ChangedKeyProof};
use rdt_udp::clock;
use serde_json::Value;

use crate::args::SendArgs;
use crate::exit::{Broken, transfer_failure};
use crate::host::Found;
use crate::lines::Lines;
use crate::output::limit::Limited;
use crate::output::qlog_file::or_unwritten;
use crate::output::receiver_report::ReceiverReport;
use crate::parallel::Ended;
use crate::source::{DwordArray, Source};

/// What carries a transfer: packets of rdt, or a transport of the kernel.
pub(crate) trait Carrier {
    /// Opens the transfer to an address, with other `keys` if there are any, and runs it.
    fn run(&mut self, watch: &mut Watch, attempt: Attempt, keys: Option<InitiatorConfig>) -> Outcome;

    /// Returns the counts so far in the fields of a native sender. A transfer that is open has the
    /// round trip of its handshake.
    fn stats(&self) -> SenderStats;

    /// Returns the counts of the measured part.
    fn counted(&self, lines: &Lines) -> SenderStats {
        lines.measure.counted(self.stats())
    }

    /// Returns the failure of [`Outcome::Failed`].
    fn failed(&self, _: &Watch, phase: Phase, error: TransferError) -> Failure {
        let sentence = error.to_string();
        transfer_failure(phase, error, sentence)
    }

    /// Returns phase and failure of [`Outcome::Closed`].
    fn closed(&self, watch: &Watch, closed: &Closed) -> (Phase, Failure);

    /// Prints the last lines of a complete transfer. Fails if `crc`, the receiver's checksum, is
    /// not that of the data.
    fn finished(&self, lines: &Lines, counted: &SenderStats, crc: Option<u32>) -> Option<Failure>;

    /// Completes output files, and returns the failure of the transfer.
    fn finish_files(&mut self, failure: Option<Failure>) -> Option<Failure> {
        failure
    }

    fn limited(&self, counted: &SenderStats) -> Option<Limited>;

    /// Prints remarks after the last lines.
    fn remark(&self, lines: &Lines, end: &End<'_>);

    fn summary(&self, lines: &Lines, end: &End<'_>) -> Value;
}

/// How a transfer ended.
pub(crate) struct End<'a> {
    /// Counts of the measured part.
    pub(crate) counted: &'a SenderStats,
    pub(crate) limited: Option<Limited>,
    pub(crate) failure: Option<&'a Failure>,
    /// True if the receiver has confirmed the transfer.
    pub(crate) is_confirmed: bool,
    /// CRC-32 of its FIN-ACK, in a format that has one.
    pub(crate) crc: Option<u32>,
    /// Report of the embedded receiver; `None` unless HOST is `local`.
    pub(crate) receiver: Option<&'a ReceiverReport>,
}

/// Outcome of an attempt.
pub(crate) enum Outcome {
    /// Confirmed by the receiver, with the CRC-32 of its FIN-ACK in a format that has one.
    Finished {
        crc: Option<u32>,
    },
    Failed {
        phase: Phase,
        error: TransferError,
    },
    /// The connection of rdt ended before the transfer was confirmed.
    Closed(Closed),
    /// The transfer failed. `end` says what that means for other addresses, if it was not open.
    Lost {
        end: AttemptEnd,
        failure: Failure,
    },
    Unreadable(io::Error),
    Interrupted,
}

impl Outcome {
    /// Returns the outcome of a transfer to a receiver that answered.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(result: Result<(), Failure>) -> Self {
        match result {
            Ok(()) => Self::Finished { crc: None },
            Err(failure) if failure.is_interrupted() => Self::Interrupted,
            Err(failure) => Self::Lost { end: AttemptEnd::Final, failure },
        }
    }

    fn attempt_end(&self) -> AttemptEnd {
        match self {
            Self::Closed(closed) => AttemptEnd::of(closed),
            Self::Lost { end, .. } => *end,
            _ => AttemptEnd::Final,
        }
    }

    fn closed(&self) -> Option<&Closed> {
        match self {
            Self::Closed(closed) => Some(closed),
            _ => None,
        }
    }
}

impl From<Failure> for Outcome {
    /// Without an answer, as in a family of addresses that this host lacks, another one is tried.
    fn from(failure: Failure) -> Self {
        let end = match failure.cause::<Broken>().map(|broken| &broken.error) {
            Some(TransferError::Gone | TransferError::FailedSend(_)) => AttemptEnd::NoProgram,
            _ => AttemptEnd::Final,
        };
        if failure.is_interrupted() { Self::Interrupted } else { Self::Lost { end, failure } }
    }
}

/// What a running transfer shows, reads and obeys.
pub(crate) struct Watch {
    pub(crate) lines: Lines,
    /// Data to send; `None` after its end, and where the receiver sends.
    pub(crate) source: Option<Box<dyn Source>>,
    pub(crate) stop: Stop,
    /// The receiver is in this process.
    pub(crate) is_local: bool,
}

impl Watch {
    pub(crate) fn new(lines: Lines, found: &Found, stop: &Stop) -> Self {
        Self { lines, source: None, stop: stop.clone(), is_local: found.local.is_some() }
    }

    /// Records that the handshake begins.
    pub(crate) fn opened(&mut self, now: Instant) {
        self.lines.opened(now, self.is_local);
    }

    /// Prints and measures what is due. Returns true if the data ended by time, and fails at
    /// Ctrl-C.
    pub(crate) fn step(&mut self, now: Instant, stats: impl Fn() -> SenderStats) -> Result<bool, Failure> {
        if self.stop.is_set() {
            return Err(Failure::interrupted());
        }
        let is_over = self.lines.measure.poll(now, &stats);
        if is_over && self.source.is_some() {
            self.source = Some(Box::new(DwordArray::new(0)));
        }
        self.lines.print(now, stats);
        Ok(is_over)
    }
}

pub(crate) struct Transfer<'a, C> {
    found: &'a Found,
    candidates: Candidates<Outcome>,
    carrier: C,
    watch: Watch,
    /// Name of the source.
    input: String,
    /// One of several transfers, of which the sum has the receiver's report.
    is_part: bool,
}

impl<'a, C: Carrier> Transfer<'a, C> {
    /// Prepares a transfer to one of `addresses`, which have `give_up` to answer together.
    pub(crate) fn new(
        (args, found): (&SendArgs, &'a Found),
        (addresses, give_up): (&[SocketAddr], Duration),
        carrier: C,
        (watch, input): (Watch, String),
    ) -> Result<Self, Failure> {
        let candidates = Candidates::new(clock::now(), addresses, give_up)
            .ok_or_else(|| Failure::usage("the receiver has no address"))?;
        Ok(Self { found, candidates, carrier, watch, input, is_part: args.parallel > 1 })
    }

    /// Runs the transfer, and prints its last lines.
    pub(crate) fn run(mut self) -> Result<Ended, Failure> {
        let outcome = self.try_addresses();
        let receiver = match &self.found.local {
            Some(local) if !self.is_part => local.finish()?,
            _ => None,
        };
        Ok(self.end(outcome, receiver.as_ref()))
    }

    /// Tries the addresses until one answers. The last one may get a further attempt
    /// ([`ChangedKeyProof`]).
    fn try_addresses(&mut self) -> Outcome {
        let mut key_proof = ChangedKeyProof::default();
        let (mut attempt, mut keys) = (self.candidates.current(), None);
        loop {
            self.watch.lines.address = attempt.address;
            let mut outcome = self.carrier.run(&mut self.watch, attempt, keys.take());
            if self.carrier.stats().handshake_rtt.is_some() {
                // The address answered, and may have data of the source.
                return outcome;
            }
            if !key_proof.has_begun() {
                match self.candidates.next(clock::now(), outcome.attempt_end(), outcome) {
                    Ok(next) => {
                        attempt = next;
                        continue;
                    }
                    Err(last) => (self.watch.lines.address, outcome) = last,
                }
            }
            if outcome.closed().is_none() {
                return outcome;
            }
            match key_proof.next(self.found.dialer.as_deref(), outcome, Outcome::closed) {
                Ok(of_proof) => {
                    attempt = Attempt { address: self.watch.lines.address, give_up: ADDRESS_GIVE_UP };
                    keys = Some(of_proof);
                }
                Err(outcome) => return outcome,
            }
        }
    }

    fn end(mut self, outcome: Outcome, receiver: Option<&ReceiverReport>) -> Ended {
        let (is_confirmed, crc) = match outcome {
            Outcome::Finished { crc } => (true, crc),
            _ => (false, None),
        };
        self.watch.lines.show(None);
        let (all, counted) = (self.carrier.stats(), self.carrier.counted(&self.watch.lines));
        let failure = self.failure(outcome, &all, &counted);
        let failure = self.carrier.finish_files(failure);
        let written = self.watch.lines.status.finish_csv(clock::now(), &all);
        let failure = or_unwritten(failure, written);
        let limited = self.carrier.limited(&counted);
        let end = End { counted: &counted, limited, failure: failure.as_ref(), is_confirmed, crc, receiver };
        let lines = &self.watch.lines;
        let has_run = all.handshake_rtt.is_some() || receiver.is_some();
        if has_run && !lines.status.is_quiet() {
            self.carrier.remark(lines, &end);
        }
        let summary = self.carrier.summary(lines, &end);
        lines.status.summary(summary.clone());
        let rtt = lines.measure.rtt().quantiles();
        Ended { counted, limited, rtt, summary, failure }
    }

    /// Prints the last lines of an outcome, and returns its failure; `None` for success.
    fn failure(&mut self, outcome: Outcome, all: &SenderStats, counted: &SenderStats) -> Option<Failure> {
        let lines = &mut self.watch.lines;
        match outcome {
            Outcome::Finished { crc } => self.carrier.finished(lines, counted, crc),
            Outcome::Interrupted => {
                // The line counts from the line before it, the omitted start included.
                lines.status.interrupted(clock::now(), all);
                Some(Failure::interrupted())
            }
            Outcome::Unreadable(error) => Some(Failure::input(&self.input, &error)),
            Outcome::Lost { failure, .. } => {
                if let Some(broken) = failure.cause::<Broken>() {
                    lines.status.failed(broken.phase, &failure);
                }
                Some(failure)
            }
            Outcome::Failed { phase, error } => {
                let failure = self.carrier.failed(&self.watch, phase, error);
                self.watch.lines.status.failed(phase, &failure);
                Some(failure)
            }
            Outcome::Closed(closed) => {
                let (phase, failure) = self.carrier.closed(&self.watch, &closed);
                self.watch.lines.status.failed(phase, &failure);
                Some(failure)
            }
        }
    }
}
