//! What a server counted, and how late it was.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use rdt_emulator::Ledger;
use rdt_transport::ListenerStats;

/// Longest lateness told apart, in nanoseconds; longer ones count as this.
const MAX_LATENESS_NS: u64 = 60_000_000_000;

/// How long after its due time each packet left the emulated path.
#[derive(Clone)]
pub struct Lateness {
    histogram: Histogram<u64>,
}

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

impl Lateness {
    /// Of no packets yet.
    ///
    /// # Panics
    /// Never: the bounds are constant.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENESS_NS, 2).expect("constant bounds are valid");
        Self { histogram }
    }

    /// Counts a packet that left so long after its due time.
    pub fn record(&mut self, late: Duration) {
        self.histogram.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(MAX_LATENESS_NS));
    }

    fn merge(&mut self, other: &Self) {
        // Both were made with the same bounds.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Packets counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The lateness that the share `q` (0 to 1) of the packets does not exceed, to two digits; zero if
    /// there are none.
    pub fn quantile(&self, q: f64) -> Duration {
        // The histogram's smallest value is 1, which stands for "on time" too.
        Duration::from_nanos(if self.count() == 0 { 0 } else { self.histogram.value_at_quantile(q) })
    }

    /// Packets that were later than this, to two digits of it.
    pub fn later_than(&self, limit: Duration) -> u64 {
        let least = u64::try_from(limit.as_nanos()).unwrap_or(MAX_LATENESS_NS).saturating_add(1);
        self.histogram.count_between(least, u64::MAX)
    }

    /// The largest lateness.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .finish()
    }
}

/// A snapshot of everything a server counted.
#[derive(Debug, Clone)]
pub struct ServerStats {
    /// Datagrams and receivers.
    pub listener: ListenerStats,
    /// All forward links, those that are gone included.
    pub forward: Ledger,
    /// All reverse links, those that are gone included.
    pub reverse: Ledger,
    /// How late packets left the reverse links.
    pub lateness: Lateness,
    /// Largest memory that all links held together, in bytes.
    pub max_link_memory: u64,
    /// Replies thrown away because nobody took them fast enough.
    pub outgoing_dropped: u64,
}

impl ServerStats {
    /// Adds what another server counted; maxima of servers that ran at the same time are added up, which they
    /// may not have reached together.
    pub fn merge(&mut self, other: &Self) {
        self.listener.merge(&other.listener);
        self.forward.merge(&other.forward);
        self.reverse.merge(&other.reverse);
        self.lateness.merge(&other.lateness);
        self.max_link_memory += other.max_link_memory;
        self.outgoing_dropped += other.outgoing_dropped;
    }
}
