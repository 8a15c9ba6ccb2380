//! Progress of one measured transfer at `rdt-send`: status lines, counts and deadlines.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_program::{Stop, talk};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Phase, SenderConfig, SenderStats, TransferError};
use rdt_trust::{AttemptEnd, Candidates};
use rdt_udp::clock;

use super::message::{Report, Verdict};
use crate::Failure;
use crate::args::SendArgs;
use crate::connection::Protection;
use crate::exit::{Broken, transfer_failure};
use crate::measure::{Measure, Wanted};
use crate::output::status::STATUS_INTERVAL;
use crate::output::status::{Status, next_line};

/// Default of `--give-up`: that of native transfers.
const GIVE_UP: Duration = Duration::from_secs(100);
/// Default of `--connect-give-up`: that of native transfers.
const CONNECT_GIVE_UP: Duration = Duration::from_secs(180);
/// Time without an answer after which a line names the address that has not answered.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// One measured transfer at `rdt-send`: its options, status lines, and counts of both sides.
pub(super) struct MeasuredTransfer<'a> {
    pub(super) args: &'a SendArgs,
    pub(super) host: &'a str,
    pub(super) address: SocketAddr,
    /// Name of the data, for messages.
    pub(super) input: String,
    pub(super) config: SenderConfig,
    pub(super) status: Status,
    /// Measured part. TCP: its round trips are samples of the kernel's smoothed RTT, taken every
    /// `LOOK_INTERVAL`.
    pub(super) measure: Measure,
    pub(super) stop: Stop,
    /// Newest counts of the sending side, in the fields of a native sender.
    pub(super) stats: SenderStats,
    /// Counts of the other side; `None` until they have arrived.
    pub(super) report: Option<Report>,
    /// UDP: size of a datagram, bytes.
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
    next_line: Option<Instant>,
    interval: Duration,
}

impl<'a> MeasuredTransfer<'a> {
    pub(super) fn new(
        args: &'a SendArgs,
        host: &'a str,
        address: SocketAddr,
        config: SenderConfig,
        status: Status,
        stop: Stop,
    ) -> Self {
        Self {
            args,
            host,
            address,
            input: String::new(),
            config,
            status,
            measure: Measure::new(Wanted::of(args)),
            stop,
            stats: SenderStats::default(),
            report: None,
            packet_size: args.packet_size,
            sent_datagrams: None,
            refused: 0,
            sent_bps: None,
            congestion: None,
            protection: None,
            next_line: None,
            interval: args.interval.unwrap_or(STATUS_INTERVAL),
        }
    }

    /// Returns the longest silence of the receiver.
    pub(super) fn give_up(&self) -> Duration {
        self.args.native.give_up.unwrap_or(GIVE_UP)
    }

    /// Returns the longest wait for an answer to the first packets.
    pub(super) fn connect_give_up(&self) -> Duration {
        let native = &self.args.native;
        native.connect_give_up.or(native.give_up).unwrap_or(CONNECT_GIVE_UP)
    }

    /// Connects to the first of `addresses` that answers. `connect` is called with the time limit
    /// of the attempt; the address is in `self.address`.
    pub(super) fn connect_any<T>(
        &mut self,
        addresses: &[SocketAddr],
        mut connect: impl FnMut(&mut Self, Duration) -> Result<T, NotConnected>,
    ) -> Result<T, Failure> {
        let mut candidates = Candidates::new(clock::now(), addresses, self.connect_give_up())
            .ok_or_else(|| lost(Phase::Connect, "the receiver has no address"))?;
        let mut attempt = candidates.current();
        loop {
            self.address = attempt.address;
            let NotConnected { end, failure } = match connect(self, attempt.give_up) {
                Ok(connected) => return Ok(connected),
                Err(failed) => failed,
            };
            attempt = candidates.next(clock::now(), end, failure).map_err(|(address, failure)| {
                self.address = address;
                failure
            })?;
        }
    }

    /// Returns a function that prints once, after [`SILENCE`], which address has not answered.
    pub(super) fn waiting_line(&self) -> impl FnMut(Instant) + use<> {
        let address = self.address;
        let mut say_at = (!self.status.is_quiet()).then(|| clock::now() + SILENCE);
        move |now| {
            if say_at.take_if(|at| *at <= now).is_some() {
                talk(&format!("rdt-send: waiting for a receiver at {address}"));
            }
        }
    }

    /// Records that the receiver has taken the transfer. `payload`: bytes of a full packet.
    pub(super) fn connected(&mut self, now: Instant, took: Duration, payload: usize) {
        self.stats.packet_size = payload;
        self.status.set_packet(payload);
        self.connected_encrypted(now, took, Some(took), None);
    }

    /// Records the same of an encrypted transfer, whose packets have the size of native ones.
    /// `rtt`: from the last SYN to its answer.
    pub(super) fn connected_encrypted(
        &mut self,
        now: Instant,
        took: Duration,
        rtt: Option<Duration>,
        protection: Option<Protection>,
    ) {
        self.stats.handshake_rtt = rtt;
        self.protection = protection;
        self.status.connected(now, self.host, took, protection);
        self.begin(now);
    }

    /// Begins the times of the status lines and of the measured part, or begins them again.
    pub(super) fn begin(&mut self, now: Instant) {
        self.status.begin(now);
        self.next_line = Some(now + self.interval);
        self.measure.on_connected(now);
    }

    /// Prints and measures what is due, by the counts that `stats` reads. Returns true if the data
    /// must end now.
    pub(super) fn step(
        &mut self,
        now: Instant,
        stats: impl FnOnce(&SenderStats) -> SenderStats,
    ) -> Result<bool, Failure> {
        if self.stop.is_set() {
            return Err(Failure::interrupted());
        }
        if self.deadline().is_none_or(|at| at > now) {
            return Ok(false);
        }
        self.stats = stats(&self.stats);
        let stats = &self.stats;
        let is_over = self.measure.poll(now, || stats.clone());
        if let Some(next) = self.next_line.filter(|at| *at <= now) {
            self.status.interval(now, stats);
            self.next_line = Some(next_line(next, self.interval, now));
        }
        Ok(is_over)
    }

    /// Returns the time by which [`MeasuredTransfer::step`] must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.measure.deadline().into_iter().chain(self.next_line).min()
    }

    /// Returns the failure of a transfer that the receiver does not take.
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

/// Failed attempt to connect to one address.
pub(super) struct NotConnected {
    pub(super) end: AttemptEnd,
    pub(super) failure: Failure,
}

impl From<Failure> for NotConnected {
    /// Without an answer, such as in a family of addresses that this host does not have, another
    /// address is tried.
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

/// Returns the counts of data that was sent or received without ACKs of its own.
pub(super) fn one_way_stats(
    before: &SenderStats,
    begun_at: Instant,
    heard_at: Instant,
    received: u64,
) -> SenderStats {
    SenderStats {
        snd_una: received,
        snd_nxt: received,
        bytes_acked: received,
        bytes_written: received,
        first_data_at: Some(begun_at),
        last_ack_at: Some(heard_at),
        ..before.clone()
    }
}
