//! Measured transfer of `rdt-send`: its request, and the counts of both sides.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_program::{Failure, talk};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Closed, InitiatorConfig, Phase, SenderConfig, SenderStats, TransferError};
use rdt_trust::{Attempt, AttemptEnd};
use rdt_udp::clock;
use serde_json::Value;

use super::message::{Report, Request, Verdict};
use super::native_client::ReversePackets;
use super::stream::Incoming;
use super::{Wire, native_client, tcp_client, udp_client};
use crate::args::SendArgs;
use crate::connection::Protection;
use crate::exit::transfer_failure;
use crate::host::Found;
use crate::lines::Lines;
use crate::output::limit::Limited;
use crate::packets::Machine as _;
use crate::transfer::{Carrier, End, Outcome, Watch};

/// One measured transfer at `rdt-send`.
pub(super) struct MeasuredTransfer<'a> {
    pub(super) args: &'a SendArgs,
    pub(super) wire: Wire,
    /// `None` if the receiver was not found.
    pub(super) found: Option<&'a Found>,
    pub(super) request: Request,
    pub(super) input: String,
    pub(super) config: SenderConfig,
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
    /// Congestion control of the side that sends, as the kernel names it.
    pub(super) congestion: Option<String>,
    /// Encryption of the connection, once it is open.
    pub(super) protection: Option<Protection>,
    /// Over rdt: socket and connection.
    pub(super) packets: Option<Box<ReversePackets>>,
}

impl<'a> MeasuredTransfer<'a> {
    pub(super) fn new(
        args: &'a SendArgs,
        wire: Wire,
        found: Option<&'a Found>,
        (request, config): (Request, SenderConfig),
    ) -> Self {
        Self {
            args,
            wire,
            found,
            request,
            input: String::new(),
            config,
            stats: SenderStats::default(),
            report: None,
            packet_size: args.packet_size,
            sent_datagrams: None,
            refused: 0,
            sent_bps: None,
            congestion: None,
            protection: None,
            packets: None,
        }
    }

    /// Records that the receiver has taken the transfer. `payload`: bytes of a full packet.
    pub(super) fn connected(&mut self, watch: &mut Watch, took: Duration, payload: usize) {
        self.stats.handshake_rtt = Some(took);
        self.stats.packet_size = payload;
        watch.lines.status.set_packet(payload);
        watch.lines.connected(clock::now(), Some(took), None);
    }

    /// Records what has arrived, with the sender's report if it is complete.
    pub(super) fn received(&mut self, incoming: &Incoming) {
        self.stats = incoming.stats(&self.stats);
        let Some(report) = incoming.report() else { return };
        self.stats.retransmitted = report.retransmitted;
        self.stats.retransmitted_bytes = report.retransmitted_bytes;
        self.stats.timeouts = report.timeouts.unwrap_or(0);
        self.stats.srtt = Some(report.srtt).filter(|srtt| !srtt.is_zero());
        self.stats.min_rtt = Some(report.min_rtt).filter(|rtt| !rtt.is_zero());
        self.stats.cwnd = report.cwnd;
        self.congestion = report.congestion.map(str::to_owned);
        self.report = Some(report);
    }

    /// Runs a transfer over rdt.
    fn run_packets(&mut self, watch: &mut Watch, attempt: Attempt, keys: Option<InitiatorConfig>) -> Outcome {
        let Some(mut packets) = self.packets.take() else { return Outcome::Interrupted };
        let ended = packets.run(watch, attempt, keys, None);
        let (machine, role) = (&packets.machine, &packets.machine.role);
        if let Some(incoming) = &role.incoming {
            self.stats.handshake_rtt = machine.stats().handshake_rtt;
            self.protection = machine.protection();
            self.received(incoming);
        }
        let is_open = role.connected_at.is_some();
        self.packets = Some(packets);
        let outcome = ended.unwrap_or_else(|error| Outcome::Lost {
            end: AttemptEnd::Final,
            failure: lost(Phase::Send, format!("the connection ended: {error}")),
        });
        match outcome {
            // This address has answered.
            Outcome::Closed(closed) if is_open => {
                let (_, failure) = self.closed(watch, &closed);
                Outcome::Lost { end: AttemptEnd::Final, failure }
            }
            outcome => outcome,
        }
    }
}

impl Carrier for MeasuredTransfer<'_> {
    fn run(&mut self, watch: &mut Watch, attempt: Attempt, keys: Option<InitiatorConfig>) -> Outcome {
        match self.wire {
            Wire::Tcp => tcp_client::run(self, watch, attempt.give_up),
            Wire::Udp => udp_client::run(self, watch, attempt.give_up),
            Wire::Native => self.run_packets(watch, attempt, keys),
        }
    }

    fn stats(&self) -> SenderStats {
        self.stats.clone()
    }

    fn counted(&self, lines: &Lines) -> SenderStats {
        self.counted_by_receiver(lines)
    }

    fn closed(&self, watch: &Watch, closed: &Closed) -> (Phase, Failure) {
        native_client::closed(self, (&watch.lines.host, watch.lines.address), closed)
    }

    fn finished(&self, lines: &Lines, counted: &SenderStats, _: Option<u32>) -> Option<Failure> {
        let (remark, line) = self.last_lines(lines, counted);
        lines.status.finished_as(counted, &remark, &line);
        None
    }

    fn limited(&self, counted: &SenderStats) -> Option<Limited> {
        let is_sender = self.wire == Wire::Tcp && !self.args.reverse;
        let is_open = self.stats.handshake_rtt.is_some();
        Limited::of(&self.config, counted).filter(|_| is_open && is_sender)
    }

    fn remark(&self, _: &Lines, end: &End<'_>) {
        if let Some(limited) = &end.limited {
            talk(&limited.sentence_of_kernel());
        }
    }

    fn summary(&self, lines: &Lines, end: &End<'_>) -> Value {
        self.summary_of(lines, end.counted, end.failure)
    }
}

/// Fails unless the receiver takes the transfer.
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

/// Returns the failure of a transfer whose peer answers something else.
pub(super) fn foreign() -> Failure {
    transfer_failure(
        Phase::Connect,
        TransferError::Protocol,
        "the program at this address is no rdt-recv of measurements",
    )
}

/// Returns the failure of a request without an answer.
pub(super) fn unanswered(address: SocketAddr, why: impl Display) -> Failure {
    let hint = "it may have too many peers, or does not measure";
    lost(Phase::Connect, format!("{address} did not answer the request ({why}): {hint}"))
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
