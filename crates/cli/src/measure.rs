//! Measured part of a transfer: probes of the idle path before the data, a start that is left out,
//! and an end by time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rdt_transport::{SenderStats, Spare};

use crate::args::SendArgs;
use crate::output::rtt_histogram::{RttHistogram, RttQuantiles};
use crate::source::{Fill, Source};

/// Bytes of a probe: a word of the array.
const PROBE_BYTES: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Time to send for, after the omitted start.
    pub(crate) time: Option<Duration>,
    pub(crate) omit: Duration,
    pub(crate) idle_probes: u32,
}

impl Wanted {
    pub(crate) fn of(args: &SendArgs) -> Self {
        Self { time: args.time, omit: args.omit.unwrap_or_default(), idle_probes: args.idle_rtt.unwrap_or(0) }
    }
}

/// Measured part of a transfer (`--time`, `--omit`).
#[derive(Debug)]
pub(crate) struct Measure {
    wanted: Wanted,
    gate: Gate,
    /// Histogram of the RTT samples; it is emptied when another part begins.
    rtt: RttHistogram,
    /// Probes to come, the one that is under way included.
    probes_left: u32,
    probed: u64,
    idle: Option<RttQuantiles>,
    /// Time at which the counts begin; `None` once they have.
    counts_at: Option<Instant>,
    ends_at: Option<Instant>,
    /// End of the start that is left out of the counts, and its counts.
    omitted: Option<(Instant, SenderStats)>,
}

impl Measure {
    pub(crate) fn new(wanted: Wanted) -> Self {
        let gate = Gate::default();
        gate.allow(if wanted.idle_probes > 0 { 0 } else { usize::MAX });
        let probes_left = wanted.idle_probes;
        Self {
            wanted,
            gate,
            rtt: RttHistogram::default(),
            probes_left,
            probed: 0,
            idle: None,
            counts_at: None,
            ends_at: None,
            omitted: None,
        }
    }

    /// Returns `source`, held back while the idle path is probed.
    pub(crate) fn gated(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        if self.wanted.idle_probes == 0 {
            return source;
        }
        Box::new(Gated { source, gate: self.gate.clone() })
    }

    pub(crate) fn on_connected(&mut self, now: Instant) {
        if self.probes_left > 0 {
            self.gate.allow(PROBE_BYTES);
        } else {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Instant) {
        self.gate.allow(usize::MAX);
        self.counts_at = (!self.wanted.omit.is_zero()).then(|| now + self.wanted.omit);
        self.ends_at = self.wanted.time.map(|time| now + self.wanted.omit + time);
    }

    /// Takes the next step if it is due. Returns true if the data must end now.
    pub(crate) fn poll(&mut self, now: Instant, stats: impl Fn() -> SenderStats) -> bool {
        if self.probes_left > 0 && self.gate.is_used() {
            self.poll_probe(now, &stats());
        }
        if self.counts_at.is_some_and(|at| at <= now) {
            self.counts_at = None;
            self.omitted = Some((now, stats()));
            self.rtt.clear();
        }
        self.ends_at.take_if(|at| *at <= now).is_some()
    }

    /// Sends the next probe once the last one is acknowledged; after the last one, the data.
    fn poll_probe(&mut self, now: Instant, stats: &SenderStats) {
        if stats.bytes_acked < self.probed + PROBE_BYTES as u64 {
            return;
        }
        self.probed += PROBE_BYTES as u64;
        self.probes_left -= 1;
        if self.probes_left > 0 {
            return self.gate.allow(PROBE_BYTES);
        }
        self.idle = self.rtt.quantiles();
        self.rtt.clear();
        self.begin(now);
        // The probes are no part of the load.
        if self.counts_at.is_none() {
            self.omitted = Some((now, stats.clone()));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.counts_at.into_iter().chain(self.ends_at).min()
    }

    pub(crate) fn rtt(&self) -> &RttHistogram {
        &self.rtt
    }

    pub(crate) fn idle(&self) -> Option<RttQuantiles> {
        self.idle
    }

    pub(crate) fn omitted_bytes(&self) -> u64 {
        self.omitted.as_ref().map_or(0, |(_, stats)| stats.bytes_acked)
    }

    /// Returns the counts after the omitted start: zero if the transfer ended within it.
    pub(crate) fn counted(&self, stats: SenderStats) -> SenderStats {
        match &self.omitted {
            Some((at, before)) => since(&stats, before, *at),
            None => match stats.last_ack_at.filter(|_| self.counts_at.is_some()) {
                Some(at) => since(&stats, &stats, at),
                None => stats,
            },
        }
    }
}

/// Returns `stats` less the counts `before`, which were read at `at`.
fn since(stats: &SenderStats, before: &SenderStats, at: Instant) -> SenderStats {
    let mut waited = stats.waited;
    // The kernel's times of a TCP connection may step back by a tick.
    waited.cwnd = waited.cwnd.saturating_sub(before.waited.cwnd);
    waited.peer_window = waited.peer_window.saturating_sub(before.waited.peer_window);
    waited.pacing = waited.pacing.saturating_sub(before.waited.pacing);
    waited.application = waited.application.saturating_sub(before.waited.application);
    waited.last_acks = waited.last_acks.saturating_sub(before.waited.last_acks);
    SenderStats {
        snd_una: stats.snd_una - before.snd_una,
        snd_nxt: stats.snd_nxt - before.snd_nxt,
        bytes_acked: stats.bytes_acked - before.bytes_acked,
        bytes_written: stats.bytes_written - before.bytes_written,
        timeouts: stats.timeouts - before.timeouts,
        fast_retransmits: stats.fast_retransmits - before.fast_retransmits,
        retransmitted: stats.retransmitted - before.retransmitted,
        retransmitted_bytes: stats.retransmitted_bytes - before.retransmitted_bytes,
        lost: stats.lost - before.lost,
        lost_to_socket: stats.lost_to_socket - before.lost_to_socket,
        recoveries: stats.recoveries - before.recoveries,
        ce_marks: stats.ce_marks - before.ce_marks,
        ecn_reductions: stats.ecn_reductions - before.ecn_reductions,
        spurious: stats.spurious - before.spurious,
        probes: stats.probes - before.probes,
        dup_acks: stats.dup_acks - before.dup_acks,
        datagrams_sent: stats.datagrams_sent - before.datagrams_sent,
        datagrams_received: stats.datagrams_received - before.datagrams_received,
        keep_alives: stats.keep_alives - before.keep_alives,
        stale: stats.stale - before.stale,
        malformed: stats.malformed - before.malformed,
        acks_beyond: stats.acks_beyond - before.acks_beyond,
        waited,
        first_data_at: stats.first_data_at.map(|first| first.max(at)),
        ..stats.clone()
    }
}

/// Number of bytes that a source may still supply, `usize::MAX` for no limit.
#[derive(Debug, Clone, Default)]
struct Gate(Arc<AtomicUsize>);

impl Gate {
    fn allow(&self, bytes: usize) {
        self.0.store(bytes, Relaxed);
    }

    fn is_used(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}

struct Gated {
    source: Box<dyn Source>,
    gate: Gate,
}

impl Source for Gated {
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill> {
        let allowed = self.gate.0.load(Relaxed);
        if allowed == usize::MAX {
            return self.source.read(out);
        }
        let n = out.len().min(allowed);
        if n == 0 {
            return Ok(Fill::Pending);
        }
        let fill = self.source.read(&mut out[..n])?;
        if let Fill::Bytes(n) = fill {
            self.gate.allow(allowed - n);
        }
        Ok(fill)
    }

    fn read_into(&mut self, mut out: Spare<'_>) -> io::Result<Fill> {
        if self.gate.0.load(Relaxed) == usize::MAX {
            return self.source.read_into(out);
        }
        match out.next() {
            Some(piece) => self.read(piece),
            None => Ok(Fill::Pending),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::DwordArray;
    use rdt_transport::Waited;
    use rdt_udp::clock;

    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn acked(now: Instant, bytes: u64) -> SenderStats {
        SenderStats {
            bytes_acked: bytes,
            bytes_written: bytes,
            snd_una: bytes,
            snd_nxt: bytes,
            first_data_at: Some(now),
            last_ack_at: Some(now + ms(bytes)),
            waited: Waited { pacing: ms(bytes), ..Waited::default() },
            ..SenderStats::default()
        }
    }

    #[test]
    fn omitted_start_is_left_out_and_time_ends_data() {
        let now = clock::now();
        let wanted = Wanted { time: Some(ms(300)), omit: ms(100), idle_probes: 0 };
        let mut measure = Measure::new(wanted);
        measure.on_connected(now);
        assert_eq!(measure.deadline(), Some(now + ms(100)));
        assert!(!measure.poll(now + ms(99), || panic!("not due")));
        assert_eq!(measure.counted(acked(now, 50)).bytes_acked, 0, "ended within the start");
        assert!(!measure.poll(now + ms(100), || acked(now, 100)));
        assert_eq!(measure.deadline(), Some(now + ms(400)));
        assert!(measure.poll(now + ms(400), || panic!("not due")));
        assert!(!measure.poll(now + ms(500), || panic!("once")));
        let counted = measure.counted(acked(now, 410));
        assert_eq!((counted.bytes_acked, counted.elapsed(), counted.waited.pacing), (310, ms(310), ms(310)));
        assert_eq!(measure.omitted_bytes(), 100);
    }

    #[test]
    fn idle_path_is_probed_before_data() {
        let now = clock::now();
        let wanted = Wanted { time: Some(ms(100)), omit: Duration::ZERO, idle_probes: 2 };
        let mut measure = Measure::new(wanted);
        let mut source = measure.gated(Box::new(DwordArray::new(1000)));
        let mut bytes = [0; 100];
        assert_eq!(source.read(&mut bytes).unwrap(), Fill::Pending, "before the handshake");
        measure.on_connected(now);
        for probe in 1..=2 {
            assert_eq!(source.read(&mut bytes).unwrap(), Fill::Bytes(4));
            assert_eq!(source.read(&mut bytes).unwrap(), Fill::Pending);
            assert!(!measure.poll(now + ms(probe), || acked(now, 4 * probe - 1)));
            assert_eq!(source.read(&mut bytes).unwrap(), Fill::Pending, "not acknowledged yet");
            assert!(!measure.poll(now + ms(probe), || acked(now, 4 * probe)));
        }
        assert_eq!(source.read(&mut bytes).unwrap(), Fill::Bytes(100));
        assert_eq!(measure.deadline(), Some(now + ms(102)), "the time begins after the probes");
        assert_eq!(measure.counted(acked(now, 108)).bytes_acked, 100);
    }
}
