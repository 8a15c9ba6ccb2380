//! Lines for users on the standard error, JSON on the standard output, and counters of all
//! connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rdt_program::{Console, Printer, talk, talk_in_background};
use rdt_transport::ConnectionStats;
use rdt_trust::Surroundings;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::args::OutputArgs;
use crate::copy::Counters;

/// Output of the program, shared by all connections.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    console: Console,
    /// Printer of remarks. They are made while the endpoint is locked, so a reader that pauses must
    /// not delay them.
    remarks: Printer,
    json: bool,
    quiet: bool,
    totals: Arc<Totals>,
    started_at: Instant,
}

#[derive(Debug, Default)]
struct Totals {
    connections: AtomicU64,
    finished: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// Connection in progress.
#[derive(Debug)]
pub(crate) struct Opened {
    number: u64,
    opened_at: Instant,
}

impl Report {
    pub(crate) fn new(console: Console, output: &OutputArgs) -> Self {
        let remarks = talk_in_background().unwrap_or_else(|_| Printer::discard());
        Self::with_remarks(console, output, remarks)
    }

    /// Same as [`Report::new`], with another printer of remarks.
    pub(crate) fn with_remarks(console: Console, output: &OutputArgs, remarks: Printer) -> Self {
        let OutputArgs { quiet, json } = *output;
        Self { console, remarks, json, quiet, totals: Arc::default(), started_at: Instant::now() }
    }

    /// Prints a line for the user, unless `--quiet` was given. Does not wait for a slow reader.
    pub(crate) fn remark(&self, line: &str) {
        if !self.quiet {
            self.warn(line);
        }
    }

    /// Prints a line for the user, also with `--quiet`. Does not wait for a slow reader.
    pub(crate) fn warn(&self, line: &str) {
        self.remarks.print(&format!("rdt-tunnel: {line}"));
    }

    /// Prints the reason of the program's end, after all remarks.
    pub(crate) fn fail(&self, line: &str) {
        self.remarks.flush();
        talk(&format!("rdt-tunnel: {line}"));
    }

    /// Prints a result: with `--json` the event, else the line.
    pub(crate) fn result(&self, line: &str, event: impl FnOnce() -> Value) {
        if self.json {
            self.event(event);
        } else if !line.is_empty() {
            self.console.line(line);
        }
    }

    /// Prints a JSON object if `--json` was given.
    pub(crate) fn event(&self, event: impl FnOnce() -> Value) {
        if self.json {
            self.console.line(&event().to_string());
        }
    }

    /// Returns the connection of the trust options to this output and the system's clock.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let (say, warn) = (self.clone(), self.clone());
        Surroundings {
            say: Arc::new(move |line| say.remark(line)),
            warn: Arc::new(move |line| warn.warn(line)),
            unix_time_s: Arc::new(rdt_udp::clock::unix_time_s),
        }
    }

    /// Notes a connection. `local` is the TCP peer's address.
    pub(crate) fn opened(&self, local: &str, peer: Option<SocketAddr>) -> Opened {
        let number = self.totals.connections.fetch_add(1, Relaxed) + 1;
        self.event(|| json!({ "event": "opened", "connection": number, "tcp": local, "peer": peer.map(|peer| peer.to_string()) }));
        Opened { number, opened_at: Instant::now() }
    }

    /// Notes the end of a connection. `end` is `finished` or the word of a failure, `text` the
    /// failure in words.
    pub(crate) fn closed(
        &self,
        opened: &Opened,
        counters: &Counters,
        stats: Option<&ConnectionStats>,
        (end, text): (&str, Option<&str>),
    ) {
        let [sent, received] = [&counters.sent, &counters.received].map(|bytes| bytes.load(Relaxed));
        self.totals.sent.fetch_add(sent, Relaxed);
        self.totals.received.fetch_add(received, Relaxed);
        self.totals.finished.fetch_add(u64::from(end == "finished"), Relaxed);
        let sender = stats.map(|stats| &stats.sender);
        self.event(|| {
            json!({
                "event": "closed",
                "connection": opened.number,
                "end": end,
                "text": text,
                "sent_bytes": sent,
                "received_bytes": received,
                "elapsed_us": micros(opened.opened_at.elapsed()),
                "srtt_us": sender.and_then(|sender| sender.srtt).map(micros),
                "min_rtt_us": sender.and_then(|sender| sender.min_rtt).map(micros),
                "retransmitted_bytes": sender.map(|sender| sender.retransmitted_bytes),
                "lost": sender.map(|sender| sender.lost),
                "timeouts": sender.map(|sender| sender.timeouts),
            })
        });
    }

    /// Prints the summary, and waits for the reader of the output.
    pub(crate) fn summary(&self, exit_code: u8) -> std::io::Result<()> {
        let Totals { connections, finished, sent, received } = &*self.totals;
        self.event(|| {
            json!({
                "event": "summary",
                "exit_code": exit_code,
                "connections": connections.load(Relaxed),
                "finished": finished.load(Relaxed),
                "sent_bytes": sent.load(Relaxed),
                "received_bytes": received.load(Relaxed),
                "elapsed_us": micros(self.started_at.elapsed()),
            })
        });
        if let dropped @ 1.. = self.remarks.dropped() {
            self.fail(&format!(
                "{dropped} remarks are missing: the reader of the standard error was too slow"
            ));
        }
        self.remarks.flush();
        self.console.finish()
    }
}

/// Converts to microseconds; saturates after half a million years.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
