//! Lines for users on the standard error, JSON on the standard output, and counters of all
//! connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdt_program::json::{EventStamp, nanos};
use rdt_program::metrics::{self, MetricsArgs, Samples};
use rdt_program::{Console, Failure, Printer, talk, talk_in_background};
use rdt_transport::ConnectionStats;
use rdt_trust::Surroundings;
use rdt_udp::clock;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::args::OutputArgs;
use crate::copy::Counters;

/// Lines in a second that peers may cause.
const MAX_PEER_LINES: u32 = 10;

/// Limit of the lines that peers cause, so that no peer fills the log.
#[derive(Debug, Default)]
struct LineLimit {
    /// Second since 1970 of the newest line.
    second: u64,
    /// Lines printed in that second.
    printed: u32,
    /// Lines left out since the last one printed.
    left_out: u64,
}

impl LineLimit {
    /// Returns the number of lines left out before this one, or `None` to leave this one out.
    fn take(&mut self, second: u64) -> Option<u64> {
        if self.second != second {
            (self.second, self.printed) = (second, 0);
        }
        if self.printed == MAX_PEER_LINES {
            self.left_out += 1;
            return None;
        }
        self.printed += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Output of the program, shared by all connections.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    console: Console,
    /// Printer of remarks. They are made while the endpoint is locked, so a reader that pauses must
    /// not delay them.
    remarks: Printer,
    limit: Arc<Mutex<LineLimit>>,
    json: bool,
    quiet: bool,
    totals: Arc<Totals>,
    started_at: Instant,
    stamp: EventStamp,
}

#[derive(Debug, Default)]
struct Totals {
    connections: AtomicU64,
    finished: AtomicU64,
    /// Bytes of the connections that have ended.
    sent: AtomicU64,
    received: AtomicU64,
    /// Counters of the open connections, by number.
    open: Mutex<BTreeMap<u64, Arc<Counters>>>,
}

/// Connection in progress.
#[derive(Debug)]
pub(crate) struct Opened {
    number: u64,
    since: Instant,
    /// Bytes moved so far.
    pub(crate) counters: Arc<Counters>,
}

impl Totals {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Counters>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_to(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let (count, [sent, received]) = {
            let open = self.open();
            let sum =
                |of: fn(&Counters) -> &AtomicU64| open.values().map(|it| of(it).load(Relaxed)).sum::<u64>();
            let ended = [&self.sent, &self.received].map(|bytes| bytes.load(Relaxed));
            (open.len(), [ended[0] + sum(|it| &it.sent), ended[1] + sum(|it| &it.received)])
        };
        #[expect(clippy::cast_precision_loss, reason = "a number of connections")]
        samples.gauge("rdt_tunnel_open_connections", "Connections open now", count as f64)?;
        let connections = self.connections.load(Relaxed);
        samples.counter("rdt_tunnel_connections", "Connections opened", connections)?;
        let finished = self.finished.load(Relaxed);
        samples.counter("rdt_tunnel_finished_connections", "Connections that finished", finished)?;
        samples.counter("rdt_tunnel_sent_bytes", "Bytes from the TCP side to the peer", sent)?;
        samples.counter("rdt_tunnel_received_bytes", "Bytes from the peer to the TCP side", received)
    }
}

impl Report {
    pub(crate) fn new(console: Console, output: &OutputArgs) -> Self {
        let remarks = talk_in_background().unwrap_or_else(|_| Printer::discard());
        Self::with_remarks(console, output, remarks)
    }

    /// Same as [`Report::new`], with another printer of remarks.
    pub(crate) fn with_remarks(console: Console, output: &OutputArgs, remarks: Printer) -> Self {
        let OutputArgs { quiet, json } = *output;
        let stamp = EventStamp::new(clock::now());
        let (limit, totals) = (Arc::default(), Arc::default());
        Self { console, remarks, limit, json, quiet, totals, started_at: Instant::now(), stamp }
    }

    /// Prints a line for the user, unless `--quiet` was given. Does not wait for a slow reader.
    pub(crate) fn remark(&self, line: &str) {
        if !self.quiet {
            self.warn(line);
        }
    }

    /// Prints a line that a peer has caused, unless there were [`MAX_PEER_LINES`] in this second:
    /// then lines are counted, and the next one that is printed follows their number.
    pub(crate) fn remark_on_peer(&self, line: &str) {
        let Some(left_out) = self.limit().take(clock::unix_time_s()) else { return };
        self.remark_left_out(left_out);
        self.remark(line);
    }

    fn remark_left_out(&self, lines: u64) {
        if lines > 0 {
            self.remark(&format!(
                "{lines} log lines about peers were left out: at most {MAX_PEER_LINES} a second are printed"
            ));
        }
    }

    fn limit(&self) -> MutexGuard<'_, LineLimit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.console.line(&self.stamp.now(event()).to_string());
        }
    }

    /// Returns the connection of the trust options to this output and the system's clock.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let (say, warn) = (self.clone(), self.clone());
        Surroundings {
            say: Arc::new(move |line| say.remark(line)),
            warn: Arc::new(move |line| warn.warn(line)),
            unix_time_s: Arc::new(clock::unix_time_s),
        }
    }

    /// Notes a connection. `local` is the TCP peer's address.
    pub(crate) fn opened(&self, local: &str, peer: Option<SocketAddr>) -> Opened {
        let number = self.totals.connections.fetch_add(1, Relaxed) + 1;
        self.event(|| json!({ "event": "opened", "connection": number, "tcp": local, "peer": peer.map(|peer| peer.to_string()) }));
        let counters = Arc::<Counters>::default();
        self.totals.open().insert(number, Arc::clone(&counters));
        Opened { number, since: Instant::now(), counters }
    }

    /// Notes the end of a connection. `end` is `finished` or the word of a failure, `text` the
    /// failure in words.
    pub(crate) fn closed(
        &self,
        opened: &Opened,
        stats: Option<&ConnectionStats>,
        (end, text): (&str, Option<&str>),
    ) {
        let Counters { sent, received, .. } = &*opened.counters;
        let [sent, received] = [sent, received].map(|bytes| bytes.load(Relaxed));
        {
            // Under the lock, so that a scrape counts the bytes once.
            let mut open = self.totals.open();
            open.remove(&opened.number);
            self.totals.sent.fetch_add(sent, Relaxed);
            self.totals.received.fetch_add(received, Relaxed);
        }
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
                "elapsed_ns": nanos(opened.since.elapsed()),
                "srtt_ns": sender.and_then(|sender| sender.srtt).map(nanos),
                "min_rtt_ns": sender.and_then(|sender| sender.min_rtt).map(nanos),
                "retransmitted_bytes": sender.map(|sender| sender.retransmitted_bytes),
                "lost": sender.map(|sender| sender.lost),
                "timeouts": sender.map(|sender| sender.timeouts),
            })
        });
    }

    /// Serves the metrics if the option is given, and returns their address.
    pub(crate) fn serve_metrics(&self, args: &MetricsArgs) -> Result<Option<SocketAddr>, Failure> {
        let Some(address) = args.metrics else { return Ok(None) };
        let totals = Arc::clone(&self.totals);
        let bound = metrics::serve(address, move |samples| totals.add_to(samples))
            .map_err(|error| Failure::bind(address, &error))?;
        self.remark(&format!("metrics at http://{bound}/metrics"));
        Ok(Some(bound))
    }

    /// Prints the summary, and waits for the reader of the output.
    pub(crate) fn summary(&self, exit_code: u8) -> std::io::Result<()> {
        let Totals { connections, finished, sent, received, .. } = &*self.totals;
        self.event(|| {
            json!({
                "event": "summary",
                "exit_code": exit_code,
                "connections": connections.load(Relaxed),
                "finished": finished.load(Relaxed),
                "sent_bytes": sent.load(Relaxed),
                "received_bytes": received.load(Relaxed),
                "elapsed_ns": nanos(self.started_at.elapsed()),
            })
        });
        self.remark_left_out(std::mem::take(&mut self.limit().left_out));
        if let dropped @ 1.. = self.remarks.dropped() {
            self.fail(&format!(
                "{dropped} log lines were dropped because standard error was read too slowly"
            ));
        }
        self.remarks.flush();
        self.console.finish(self.json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_cause_ten_lines_a_second() {
        let mut limit = LineLimit::default();
        let printed =
            |limit: &mut LineLimit, second| (0..1000).filter_map(|_| limit.take(second)).collect::<Vec<_>>();
        assert_eq!(printed(&mut limit, 5), [0; 10]);
        let after = printed(&mut limit, 6);
        assert_eq!((after.len(), after[0], after[1]), (10, 990, 0));
    }
}
