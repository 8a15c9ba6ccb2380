//! Application of a sender: reads the source, prints status lines and records the outcome.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_endpoint::thread::{Application, Flow};
use rdt_program::{Stop, talk};
use rdt_transport::{Closed, Phase, TransferError};

use super::sending::{Progress, Sending};
use crate::args::SendArgs;
use crate::args::target::Target;
use crate::measure::Measure;
use crate::output::status::{STATUS_INTERVAL, Status, next_line};
use crate::output::transfer_bar::{TransferBar, UPDATE_INTERVAL};
use crate::source::{DwordArray, Source};

pub(crate) enum Outcome {
    /// `crc` is the CRC-32 of the receiver, in a format that has one.
    Finished {
        crc: Option<u32>,
    },
    Failed {
        phase: Phase,
        error: TransferError,
    },
    Closed(Closed),
    Unreadable(io::Error),
    Interrupted,
}

pub(crate) struct SenderApp {
    pub(crate) host: String,
    pub(crate) source: Option<Box<dyn Source>>,
    pub(crate) stop: Stop,
    pub(crate) status: Status,
    pub(crate) start: Instant,
    pub(crate) opened_at: Instant,
    /// Address that the handshake goes to.
    pub(crate) receiver: SocketAddr,
    /// Time at which a line says that the receiver has not answered; `None` once it is printed or
    /// the receiver has answered.
    pub(crate) waiting_line: Option<Instant>,
    /// True if the receiver runs in this process.
    pub(crate) is_local: bool,
    /// Number of SYNs sent until one was answered.
    pub(crate) syns: u64,
    /// Time between two status lines, or updates of the bar.
    pub(crate) interval: Duration,
    /// Measured part of the transfer.
    pub(crate) measure: Measure,
    /// Bar that is shown instead of status lines.
    pub(crate) bar: Option<TransferBar>,
    pub(crate) next_line: Option<Instant>,
    pub(crate) end: Option<Outcome>,
}

/// Time without an answer after which the sender says what it waits for. Handshakes over most paths
/// are shorter.
const SILENCE: Duration = Duration::from_secs(1);

impl SenderApp {
    pub(crate) fn new(
        args: &SendArgs,
        host: &str,
        receiver: SocketAddr,
        (measure, source): (Measure, Box<dyn Source>),
        (status, start, stop): (Status, Instant, Stop),
    ) -> Self {
        Self {
            host: host.into(),
            source: Some(source),
            measure,
            stop,
            status,
            start,
            opened_at: start,
            receiver,
            waiting_line: None,
            is_local: args.host.as_ref().is_some_and(|host| host.value == Target::Local),
            syns: 0,
            interval: args.interval.unwrap_or(STATUS_INTERVAL),
            bar: None,
            next_line: None,
            end: None,
        }
    }

    /// Shows a bar instead of status lines, if there is one.
    pub(crate) fn show(&mut self, bar: Option<TransferBar>) {
        if bar.is_some() {
            (self.bar, self.interval) = (bar, UPDATE_INTERVAL);
        }
    }

    /// Records that the handshake with an address begins.
    pub(crate) fn opened(&mut self, now: Instant, receiver: SocketAddr) {
        self.opened_at = now;
        self.receiver = receiver;
        self.waiting_line = (!self.is_local && !self.status.is_quiet()).then_some(now + SILENCE);
    }

    fn on_progress(&mut self, now: Instant, sender: &impl Sending, progress: Progress) {
        match progress {
            Progress::Connected { rtt } => {
                self.waiting_line = None;
                self.next_line = Some(now + self.interval);
                self.syns = sender.syns();
                let took = rtt.unwrap_or_else(|| now.saturating_duration_since(self.opened_at));
                self.measure.on_connected(now);
                self.status.connected(now, &self.host, took, sender.protection());
            }
            Progress::Finished { crc } => {
                self.bar = None;
                self.status.fin_ack(now, &sender.stats(), crc);
                self.end = Some(Outcome::Finished { crc });
            }
            Progress::Failed { phase, error } => self.end = Some(Outcome::Failed { phase, error }),
            Progress::Closed(closed) => self.end = Some(Outcome::Closed(closed)),
        }
    }
}

impl<S: Sending> Application<S> for SenderApp {
    fn pump(&mut self, now: Instant, sender: &mut S) -> Flow {
        while self.end.is_none()
            && let Some(progress) = sender.progress()
        {
            self.on_progress(now, sender, progress);
        }
        if self.end.is_none() && self.stop.is_set() {
            self.end = Some(Outcome::Interrupted);
        }
        if self.measure.poll(now, || sender.stats()) && self.source.is_some() {
            self.source = Some(Box::new(DwordArray::new(0)));
        }
        if self.end.is_none()
            && let Err(error) = sender.fill(now, &mut self.source)
        {
            self.end = Some(Outcome::Unreadable(error));
        }
        if self.end.is_some() {
            self.bar = None;
            // In these two outcomes the receiver does not know that the transfer has ended, so send
            // a CLOSE.
            if matches!(self.end, Some(Outcome::Interrupted | Outcome::Unreadable(_))) {
                sender.abort(now);
            }
            return Flow::Done;
        }
        if self.waiting_line.is_some_and(|at| at <= now) {
            self.waiting_line = None;
            talk(&format!("rdt-send: waiting for a receiver at {}", self.receiver));
        }
        if let Some(next) = self.next_line
            && next <= now
        {
            match &self.bar {
                Some(bar) => bar.show(sender.stats().bytes_acked),
                None => self.status.interval(now, &sender.stats()),
            }
            self.next_line = Some(next_line(next, self.interval, now));
        }
        let line = self.waiting_line.or(self.next_line);
        Flow::Wait(line.into_iter().chain(self.measure.deadline()).min())
    }
}
