//! Metrics of `rdt-recv --metrics`: the threads publish copies of their counters, and a scrape adds
//! them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_program::metrics::{self, Samples};
use rdt_server::{Server, ServerStats};
use rdt_udp::Remote;

use crate::output::counters::dropped;

/// Interval at which a thread copies its counters: the age of a value at most.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) finished: u64,
    pub(crate) bytes: u64,
    pub(crate) not_stored: u64,
    /// Stored transfers whose directory could not be synced (`--sync`).
    pub(crate) not_synced: u64,
}

impl Totals {
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { finished, bytes, not_stored, not_synced } = other;
        self.finished += finished;
        self.bytes += bytes;
        self.not_stored += not_stored;
        self.not_synced += not_synced;
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Published(Arc<Vec<Mutex<Option<Counters>>>>);

#[derive(Debug, Clone)]
struct Counters {
    stats: ServerStats,
    totals: Totals,
    active: usize,
}

pub(crate) struct Publisher {
    published: Published,
    thread: usize,
    next: Instant,
}

impl Published {
    pub(crate) fn new(threads: usize) -> Self {
        Self(Arc::new((0..threads).map(|_| Mutex::new(None)).collect()))
    }

    pub(crate) fn publisher(&self, thread: usize, now: Instant) -> Publisher {
        Publisher { published: self.clone(), thread, next: now }
    }

    /// Serves the sums over all threads at `address`, and returns that address.
    pub(crate) fn serve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let published = self.clone();
        metrics::serve(address, move |samples| {
            if let Some(total) = published.total() {
                total.add_to(samples);
            }
        })
    }

    fn total(&self) -> Option<Counters> {
        let copies = self.0.iter().filter_map(|of| of.lock().unwrap_or_else(PoisonError::into_inner).clone());
        copies.reduce(|mut total, other| {
            total.stats.merge(&other.stats);
            total.totals.merge(other.totals);
            total.active += other.active;
            total
        })
    }
}

impl Publisher {
    /// Copies the counters if that is due. Returns the time of the next copy.
    pub(crate) fn publish(&mut self, now: Instant, server: &Server<Remote>, totals: Totals) -> Instant {
        if self.next <= now {
            self.next = now + INTERVAL;
            let counters = Counters { stats: server.stats(), totals, active: server.active() };
            let mut copy = self.published.0[self.thread].lock().unwrap_or_else(PoisonError::into_inner);
            *copy = Some(counters);
        }
        self.next
    }
}

impl Counters {
    fn add_to(&self, samples: &mut Samples) {
        samples.gauge("rdt_recv_active_senders", "Senders that are connected", self.active);
        for (name, help, value) in self.counters() {
            samples.counter(name, help, value);
        }
        let dropped = dropped(&self.stats).map(|(cause, count)| ([("cause", cause)], count));
        samples.counters(
            "rdt_recv_dropped_datagrams",
            "Datagrams that the receiver did not use, by cause",
            dropped,
        );
        self.add_links(samples);
    }

    /// Returns names, help and values of the counters without labels.
    fn counters(&self) -> [(&'static str, &'static str, u64); 15] {
        let Self { stats, totals, .. } = self;
        let receivers = &stats.receivers;
        [
            ("rdt_recv_senders", "Connections that senders opened", stats.senders()),
            ("rdt_recv_received_bytes", "Payload bytes received in order", receivers.bytes),
            ("rdt_recv_datagrams", "Datagrams received", stats.classic.received + stats.connections.received),
            ("rdt_recv_data_packets", "Data packets received", receivers.data),
            ("rdt_recv_duplicate_packets", "Data packets received before", receivers.duplicates),
            (
                "rdt_recv_out_of_order_packets",
                "Data packets that arrived before an earlier one",
                receivers.out_of_order,
            ),
            ("rdt_recv_ce_marked_packets", "Data packets with the congestion mark CE of ECN", receivers.ce),
            (
                "rdt_recv_socket_limited_round_trips",
                "Round trips in which the socket's buffer limited a window",
                receivers.socket_limited,
            ),
            (
                "rdt_recv_retry_periods",
                "Periods in which new senders had to prove their addresses",
                stats.connections.retry_periods,
            ),
            (
                "rdt_recv_opened_in_association",
                "Connections that opened without a handshake",
                stats.connections.opened,
            ),
            (
                "rdt_recv_refused_in_association",
                "Connections that needed a handshake although their side tried to open without one",
                stats.connections.opens_refused,
            ),
            ("rdt_recv_finished_transfers", "Transfers that arrived completely", totals.finished),
            ("rdt_recv_finished_bytes", "Payload bytes of finished transfers", totals.bytes),
            ("rdt_recv_not_stored_transfers", "Transfers that could not be stored", totals.not_stored),
            (
                "rdt_recv_not_synced_transfers",
                "Stored transfers whose folder could not be synced to the disk",
                totals.not_synced,
            ),
        ]
    }

    fn add_links(&self, samples: &mut Samples) {
        let directions = [("forward", &self.stats.forward), ("reverse", &self.stats.reverse)];
        let fates = directions.into_iter().flat_map(|(direction, ledger)| {
            [
                ("delivered", ledger.delivered),
                ("loss", ledger.dropped_loss),
                ("queue", ledger.dropped_queue),
                ("memory", ledger.dropped_memory),
            ]
            .map(|(fate, count)| ([("direction", direction), ("fate", fate)], count))
        });
        samples.counters(
            "rdt_recv_link_packets",
            "Packets that left emulated links, by direction and fate",
            fates,
        );
    }
}
