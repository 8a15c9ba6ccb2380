//! One transfer with its sender, socket and application. Prints the last lines, and maps the
//! outcome to an exit code.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use rdt_driver::{Connected, SocketError, UdpIo, UdpOptions, Waiter, clock, run, send_memory, send_rest};
use rdt_program::{Console, Stop, talk};
use rdt_transport::{Observer, Phase, Sender, SenderConfig, SenderStats, TransferError};

use super::app::{Outcome, SenderApp};
use super::data::Data;
use super::error_text::ErrorContext;
use super::qlog_file::{self, QlogFile};
use crate::output::counters::{idle_line, idle_share};
use crate::output::format::megabytes;
use crate::output::packet_log::PacketLog;
use crate::output::receiver_report::ReceiverReport;
use crate::output::rtt_histogram::RttHistogram;
use crate::output::sockets::{sent_line, warnings};
use crate::output::status::Status;
use crate::output::summary::{ChecksumCheck, Summary};
use crate::socket::FLUSH_TIMEOUT;
use crate::{Failure, SendArgs, resources};

#[derive(Clone, Copy)]
pub(crate) struct Remote<'a> {
    pub(crate) host: &'a str,
    pub(crate) address: SocketAddr,
    pub(crate) options: UdpOptions,
}

pub(crate) struct Transfer {
    pub(crate) host: String,
    pub(crate) address: SocketAddr,
    pub(crate) sender: Sender,
    pub(crate) socket: Connected,
    waiter: Waiter,
    pub(crate) sending: SenderApp,
    input: String,
    /// Histogram of RTT samples; `None` without `--json`.
    pub(crate) rtt_histogram: Option<RttHistogram>,
    qlog: Option<QlogFile>,
}

impl Transfer {
    pub(crate) fn open(
        args: &SendArgs,
        remote: Remote<'_>,
        config: SenderConfig,
        data: Data,
        status: Status,
        start: Instant,
    ) -> Result<Self, Failure> {
        let Remote { host, address, options } = remote;
        let any: SocketAddr = if address.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let io = UdpIo::bind(any, options)?;
        let waiter = Waiter::new(io.socket(), Duration::ZERO).map_err(SocketError::Receive)?;
        let stop = Stop::default();
        stop.add(waiter.waker());
        stop.on_interrupt();
        let input = data.name();
        let source =
            data.source(waiter.waker()).map_err(|error| Failure::Input { name: input.clone(), error })?;
        let mut socket = Connected::new(io, address);
        let mut sender = Sender::with_memory(config, send_memory(&mut socket))?;
        let create = |path| QlogFile::create(path, args.force, start, address, sender.config());
        let qlog = args.qlog.as_deref().map(create).transpose()?;
        let rtt_histogram = args.json.then(RttHistogram::default);
        let packet_log = args.debug.then(|| PacketLog { console: Console::default(), start, peer: address });
        observe(&mut sender, packet_log, qlog.as_ref(), rtt_histogram.as_ref());
        let sending = SenderApp {
            host: host.into(),
            source: Some(source),
            stop,
            status,
            start,
            opened_at: start,
            syns: 0,
            interval: args.interval,
            next_line: None,
            end: None,
        };
        Ok(Self { host: host.into(), address, sender, socket, waiter, sending, input, rtt_histogram, qlog })
    }

    pub(crate) fn run(&mut self) -> Result<(), SocketError> {
        // Cannot fail: the sender was not opened before.
        let _ = self.sender.open();
        self.sending.opened_at = clock::now();
        run(&mut self.sender, &mut self.socket, &mut self.sending, &mut self.waiter)?;
        // Sends the CLOSE of an interrupted transfer even if the socket is full.
        send_rest(&mut self.sender, &mut self.socket, &mut self.waiter, FLUSH_TIMEOUT);
        Ok(())
    }

    /// Prints the last lines, and returns the failure that determines the exit code.
    pub(crate) fn conclude(
        &mut self,
        end: Result<(), SocketError>,
        receiver: Option<&ReceiverReport>,
    ) -> Result<(), Failure> {
        let stats = self.sender.stats();
        let end = match end {
            Ok(()) => self.sending.end.take().unwrap_or(Outcome::Interrupted),
            Err(error) => self.socket_failure(&error, &stats),
        };
        let crc_received = match end {
            Outcome::Finished { crc } => Some(crc),
            _ => None,
        };
        let failure = self.failure(end, &stats);
        let failure = qlog_file::finish(self.qlog.take(), failure);
        let ran = stats.handshake_rtt.is_some() || receiver.is_some();
        if ran && !self.sending.status.is_quiet() {
            self.print_report(&stats, receiver);
        }
        let summary = Summary {
            host: &self.host,
            address: self.address,
            config: self.sender.config(),
            stats: &stats,
            status: &self.sending.status,
            socket: &self.socket,
            rtt_histogram: self.rtt_histogram.as_ref(),
            failure: failure.as_ref(),
            crc_received,
            receiver,
        };
        self.sending.status.summary(&summary.json());
        failure.map_or(Ok(()), Err)
    }

    /// Prints the last lines of an outcome, and returns its failure; `None` for success.
    fn failure(&mut self, outcome: Outcome, stats: &SenderStats) -> Option<Failure> {
        match outcome {
            Outcome::Finished { crc } => {
                self.sending.status.finished(stats);
                match ChecksumCheck::of(stats.crc, crc) {
                    ChecksumCheck::Agreed => None,
                    ChecksumCheck::Unchecked => {
                        talk("the receiver did not check the data: it answered checksum 0");
                        None
                    }
                    ChecksumCheck::Wrong => Some(Failure::Checksum { ours: stats.crc, theirs: crc }),
                }
            }
            Outcome::Failed { phase, error } => {
                let sentence = self.error_context().sentence(&error);
                Some(self.sending.status.failed(phase, error, sentence))
            }
            Outcome::Unreadable(error) => Some(Failure::Input { name: self.input.clone(), error }),
            Outcome::Interrupted => {
                self.sending.status.interrupted(clock::now(), stats);
                Some(Failure::Interrupted)
            }
        }
    }

    fn print_report(&self, stats: &SenderStats, receiver: Option<&ReceiverReport>) {
        for line in receiver.map(ReceiverReport::lines).unwrap_or_default() {
            talk(&line);
        }
        let share = receiver.and_then(|end| idle_share(self.sender.config(), stats, &end.stats.forward));
        if let Some(share) = share {
            talk(&idle_line(share));
        }
        if let Some(peak) = resources::memory().peak {
            talk(&format!("peak memory of the process: {:.2} MB", megabytes(peak)));
        }
        let io = self.socket.io();
        let (stats, offload) = (io.stats(), io.offload());
        for line in warnings(&stats, &offload).into_iter().chain(sent_line(&stats, &offload)) {
            talk(&line);
        }
    }

    fn error_context(&self) -> ErrorContext<'_> {
        ErrorContext {
            host: &self.host,
            address: self.address,
            config: self.sender.config(),
            stats: self.sender.stats(),
            socket: self.socket.io().stats(),
            syns: self.sending.syns,
            all_read: self.sending.source.is_none(),
        }
    }

    fn socket_failure(&self, error: &SocketError, stats: &SenderStats) -> Outcome {
        let phase = match (stats.handshake_rtt, stats.snd_una == stats.snd_nxt) {
            (None, _) => Phase::Connect,
            (_, false) => Phase::Send,
            (_, true) => Phase::Close,
        };
        let number = |e: &io::Error| e.raw_os_error().unwrap_or(0);
        let (arrow, verb, error) = match error {
            SocketError::Send(e) => ("-->", "sendto", TransferError::FailedSend(number(e))),
            SocketError::Receive(e) => ("<--", "recvfrom", TransferError::FailedRecv(number(e))),
            other => unreachable!("a bound socket does not fail to bind: {other}"),
        };
        let time = clock::now().saturating_duration_since(self.sending.start).as_secs_f64();
        if let TransferError::FailedSend(number) | TransferError::FailedRecv(number) = error {
            self.sending.status.text(&format!("[{time:6.3}] {arrow} failed {verb} with {number}"));
        }
        Outcome::Failed { phase, error }
    }
}

fn observe(
    sender: &mut Sender,
    packet_log: Option<PacketLog>,
    qlog: Option<&QlogFile>,
    rtt_histogram: Option<&RttHistogram>,
) {
    let mut observers: Vec<Box<dyn Observer>> = Vec::new();
    if let Some(packet_log) = packet_log {
        observers.push(Box::new(packet_log));
    }
    observers.extend(qlog.map(QlogFile::observer));
    if let Some(rtt_histogram) = rtt_histogram {
        observers.push(Box::new(rtt_histogram.recorder()));
    }
    if !observers.is_empty() {
        sender.observe(Box::new(observers));
    }
}
