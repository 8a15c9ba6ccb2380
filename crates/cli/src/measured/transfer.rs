//! Progress of one measured transfer at `rdt-send`: status lines, counts and deadlines.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_program::Failure;
use rdt_program::Stop;
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Phase, SenderConfig, SenderStats, TransferError};
use rdt_trust::{AttemptEnd, Candidates};
use rdt_udp::clock;

use super::message::{Report, Verdict};
use crate::args::SendArgs;
use crate::connection::Protection;
use crate::exit::{Broken, transfer_failure};
use crate::lines::Lines;

/// One measured transfer at `rdt-send`: its options, status lines, and counts of both sides.
pub(super) struct MeasuredTransfer<'a> {
    pub(super) args: &'a SendArgs,
    pub(super) lines: Lines,
    pub(super) input: String,
    pub(super) config: SenderConfig,
    pub(super) stop: Stop,
    /// Newest counts of the sending side, in the fields of a native sender.
    pub(super) stats: SenderStats,
    /// Counts of the other side; `None` until they have arrived.
    pub(super) report: Option<Report>,
    pub(super) packet_size: usize,
    /// UDP: datagrams sent after `--omit`, as the sending side counted them; `None` until known.
    pub(super) sent_datagrams: Option<u64>,
    /// UDP: of these, those that the local host refused to send.
    pub(super) refused: u64,
    /// UDP, reverse: rate at which the receiver sent, by its time stamps, bits per second.
    pub(super) sent_bps: Option<f64>,
    /// TCP: congestion control of the side that sends, as the kernel names it.
    pub(super) congestion: Option<String>,
    /// Encryption of the connection, once it is open.
    pub(super) protection: Option<Protection>,
}

impl<'a> MeasuredTransfer<'a> {
    pub(super) fn new(args: &'a SendArgs, config: SenderConfig, lines: Lines, stop: Stop) -> Self {
        Self {
            args,
            lines,
            input: String::new(),
            config,
            stop,
            stats: SenderStats::default(),
            report: None,
            packet_size: args.packet_size,
            sent_datagrams: None,
            refused: 0,
            sent_bps: None,
            congestion: None,
            protection: None,
        }
    }

    /// Connects to the first of `addresses` that answers, within the time limit of each attempt.
    pub(super) fn connect_any<T>(
        &mut self,
        addresses: &[SocketAddr],
        mut connect: impl FnMut(&mut Self, Duration) -> Result<T, NotConnected>,
    ) -> Result<T, Failure> {
        let mut candidates = Candidates::new(clock::now(), addresses, self.config.handshake_give_up)
            .ok_or_else(|| lost(Phase::Connect, "the receiver has no address"))?;
        let mut attempt = candidates.current();
        loop {
            self.lines.address = attempt.address;
            let NotConnected { end, failure } = match connect(self, attempt.give_up) {
                Ok(connected) => return Ok(connected),
                Err(failed) => failed,
            };
            attempt = candidates.next(clock::now(), end, failure).map_err(|(address, failure)| {
                self.lines.address = address;
                failure
            })?;
        }
    }

    /// Records that the receiver has taken the transfer. `payload`: bytes of a full packet.
    pub(super) fn connected(&mut self, now: Instant, took: Duration, payload: usize) {
        self.stats.handshake_rtt = Some(took);
        self.stats.packet_size = payload;
        self.lines.status.set_packet(payload);
        self.lines.connected(now, Some(took), None);
    }

    /// Prints and measures what is due. Returns true if the data must end now.
    pub(super) fn step(
        &mut self,
        now: Instant,
        stats: impl FnOnce(&SenderStats) -> SenderStats,
    ) -> Result<bool, Failure> {
        if self.stop.is_set() {
            return Err(Failure::interrupted());
        }
        if self.lines.deadline().is_none_or(|at| at > now) {
            return Ok(false);
        }
        self.stats = stats(&self.stats);
        let is_over = self.lines.measure.poll(now, || self.stats.clone());
        self.lines.print(now, || self.stats.clone());
        Ok(is_over)
    }

    pub(super) fn refused_by(verdict: Verdict) -> Result<(), Failure> {
        match verdict {
            Verdict::Accepted => Ok(()),
            _ => Err(transfer_failure(
                Phase::Connect,
                TransferError::Closed(CloseReason::Refused),
                verdict.sentence(),
            )),
        }
    }
}

pub(super) struct NotConnected {
    pub(super) end: AttemptEnd,
    pub(super) failure: Failure,
}

impl From<Failure> for NotConnected {
    /// Without an answer, as in a family of addresses that this host lacks, another one is tried.
    fn from(failure: Failure) -> Self {
        let end = match failure.cause::<Broken>().map(|broken| &broken.error) {
            Some(TransferError::Gone | TransferError::FailedSend(_)) => AttemptEnd::NoProgram,
            _ => AttemptEnd::Final,
        };
        Self { end, failure }
    }
}

/// Returns the failure of a connection that ended before its time, or of a peer that is silent.
pub(super) fn lost(phase: Phase, sentence: impl Display) -> Failure {
    transfer_failure(phase, TransferError::Gone, sentence)
}

/// Returns the failure of a system call, of which `what` says more.
pub(super) fn system(phase: Phase, what: impl Display, error: &io::Error) -> Failure {
    transfer_failure(phase, TransferError::FailedSend(error.raw_os_error().unwrap_or(0)), what)
}

/// Returns the counts of data that has no ACKs of its own: `bytes` until `last_at`.
pub(super) fn one_way_stats(
    before: &SenderStats,
    begun_at: Instant,
    (last_at, bytes): (Instant, u64),
) -> SenderStats {
    SenderStats {
        snd_una: bytes,
        snd_nxt: bytes,
        bytes_acked: bytes,
        bytes_written: bytes,
        first_data_at: Some(begun_at),
        last_ack_at: Some(last_at),
        ..before.clone()
    }
}
