//! Lines of one transfer of `rdt-send` while it runs, whatever sends it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_program::talk;
use rdt_transport::SenderStats;
use rdt_udp::clock;

use crate::args::{Given, SendArgs};
use crate::connection::Protection;
use crate::measure::{Measure, Wanted};
use crate::output::status::{STATUS_INTERVAL, Status, next_line};
use crate::output::transfer_bar::{TransferBar, UPDATE_INTERVAL};

/// Silence after which a line names the address: handshakes over most paths are shorter.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

pub(crate) struct Lines {
    pub(crate) host: String,
    /// Address that the handshake goes to.
    pub(crate) address: SocketAddr,
    pub(crate) status: Status,
    /// Measured part of the transfer. Over TCP of the kernel, its round trips are samples of the
    /// smoothed RTT.
    pub(crate) measure: Measure,
    /// Bar that is shown instead of status lines.
    bar: Option<TransferBar>,
    /// Time between two status lines, or updates of the bar.
    interval: Duration,
    opened_at: Instant,
    /// Time of the line about a receiver without an answer, until it is printed or not needed.
    waiting_line: Option<Instant>,
    next_line: Option<Instant>,
}

impl Lines {
    pub(crate) fn new(args: &SendArgs, address: SocketAddr, status: Status) -> Self {
        Self {
            host: args.host.as_ref().map(Given::name).unwrap_or_default(),
            address,
            status,
            measure: Measure::new(Wanted::of(args)),
            bar: None,
            interval: args.interval.unwrap_or(STATUS_INTERVAL),
            opened_at: clock::now(),
            waiting_line: None,
            next_line: None,
        }
    }

    /// Shows a bar instead of status lines, or removes it.
    pub(crate) fn show(&mut self, bar: Option<TransferBar>) {
        if bar.is_some() {
            self.interval = UPDATE_INTERVAL;
        }
        self.bar = bar;
    }

    /// Records that the handshake begins. `is_local`: no line says that there is no answer.
    pub(crate) fn opened(&mut self, now: Instant, is_local: bool) {
        self.opened_at = now;
        self.waiting_line = (!is_local && !self.status.is_quiet()).then_some(now + SILENCE);
    }

    /// Records the end of the handshake, which `took` so long if it was measured.
    pub(crate) fn connected(&mut self, now: Instant, took: Option<Duration>, protection: Option<Protection>) {
        self.waiting_line = None;
        let took = took.unwrap_or_else(|| now.saturating_duration_since(self.opened_at));
        self.status.connected(now, &self.host, took, protection);
        self.begin(now);
    }

    /// Begins the times of the status lines and of the measured part, or begins them again.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.status.begin(now);
        self.next_line = Some(now + self.interval);
        self.measure.on_connected(now);
    }

    /// Prints what is due.
    pub(crate) fn print(&mut self, now: Instant, stats: impl FnOnce() -> SenderStats) {
        if self.waiting_line.take_if(|at| *at <= now).is_some() {
            talk(&format!("rdt-send: waiting for a receiver at {}", self.address));
        }
        if let Some(next) = self.next_line.filter(|at| *at <= now) {
            match &self.bar {
                Some(bar) => bar.show(stats().bytes_acked),
                None => self.status.interval(now, &stats()),
            }
            self.next_line = Some(next_line(next, self.interval, now));
        }
    }

    /// Returns the time of the next line, or of the next step of the measured part.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let line = self.waiting_line.or(self.next_line);
        line.into_iter().chain(self.measure.deadline()).min()
    }
}
