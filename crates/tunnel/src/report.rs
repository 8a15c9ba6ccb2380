//! Lines for users on the standard error, JSON on the standard output, and counters of all
//! connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdt_program::json::nanos;
use rdt_program::metrics::{self, MetricsArgs, Samples};
use rdt_program::{Console, Failure, Output, Remarks, Shown};
use rdt_transport::ConnectionStats;
use rdt_trust::Surroundings;
use rdt_trust::services::TUNNELS;
use serde_json::json;
use tokio::time::Instant;

use crate::args::OutputArgs;
use crate::copy::Counters;

/// Output of the program, shared by all connections.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    output: Output,
    totals: Arc<Totals>,
    started_at: Instant,
}

impl Deref for Report {
    type Target = Output;

    fn deref(&self) -> &Output {
        &self.output
    }
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

#[derive(Debug)]
pub(crate) struct Opened {
    number: u64,
    since: Instant,
    pub(crate) counters: Arc<Counters>,
}

impl Totals {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Counters>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_to(&self, samples: &mut Samples) {
        let (count, [sent, received]) = {
            let open = self.open();
            let sum =
                |of: fn(&Counters) -> &AtomicU64| open.values().map(|it| of(it).load(Relaxed)).sum::<u64>();
            let ended = [&self.sent, &self.received].map(|bytes| bytes.load(Relaxed));
            (open.len(), [ended[0] + sum(|it| &it.sent), ended[1] + sum(|it| &it.received)])
        };
        samples.gauge("rdt_tunnel_open_connections", "TCP connections that are open", count);
        let connections = self.connections.load(Relaxed);
        samples.counter("rdt_tunnel_connections", "TCP connections that were opened", connections);
        let finished = self.finished.load(Relaxed);
        samples.counter("rdt_tunnel_finished_connections", "TCP connections that finished", finished);
        samples.counter("rdt_tunnel_sent_bytes", "Bytes from the TCP side to the peer", sent);
        samples.counter("rdt_tunnel_received_bytes", "Bytes from the peer to the TCP side", received);
    }
}

impl Report {
    /// Creates the output. Remarks are made while the endpoint is locked, so a reader that pauses
    /// must not delay them.
    pub(crate) fn new(console: Console, output: &OutputArgs, remarks: Remarks) -> Self {
        let output = Output::new("rdt-tunnel", (output.quiet, output.json), console, remarks);
        Self { output, totals: Arc::default(), started_at: Instant::now() }
    }

    /// Returns the connection of the trust options to this output and the system's clock.
    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings::of(TUNNELS, &self.output)
    }

    /// Notes a connection. `local` is the TCP peer's address.
    pub(crate) fn opened(&self, local: &str, peer: Option<SocketAddr>) -> Opened {
        let number = self.totals.connections.fetch_add(1, Relaxed) + 1;
        self.event(|| json!({ "event": "opened", "connection": number, "tcp": local, "peer": peer.map(|peer| Shown(peer).to_string()) }));
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
            .map_err(|error| Failure::bind(address, error))?;
        self.remark(&format!("metrics at http://{}/metrics", Shown(bound)));
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
        self.finish()
    }
}
