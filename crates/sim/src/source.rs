//! Source of datagrams without feedback, for example UDP at a constant rate.

use std::time::{Duration, Instant};

use rdt_emulator::child_seed;
use rdt_transport::TransmitBuf;

use crate::network::Network;
use crate::node_id::NodeId;

/// Bytes at the start of each datagram: its number (4) and the time at which it was sent (8).
pub(crate) const STAMP_BYTES: usize = 12;
/// Bits of a byte times nanoseconds of a second.
pub(crate) const BIT_NANOS_PER_BYTE: u128 = 8_000_000_000;

/// Times at which a source sends. Rates are bits of payload per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps between datagrams.
    Constant {
        /// Rate.
        bps: u64,
    },
    /// Gaps of a Poisson process.
    Poisson {
        /// Mean rate.
        bps: u64,
        /// Seed of the gaps.
        seed: u64,
    },
    /// Equal gaps in active periods, and none in the pauses between them. A source starts with an
    /// active period.
    OnOff {
        /// Rate in the active periods.
        bps: u64,
        /// Length of an active period.
        on: Duration,
        /// Length of a pause.
        off: Duration,
    },
}

impl Arrivals {
    fn check(self) {
        let (Self::Constant { bps } | Self::Poisson { bps, .. } | Self::OnOff { bps, .. }) = self;
        assert!(bps > 0, "the rate of a source is not zero");
        let runs = !matches!(self, Self::OnOff { on: Duration::ZERO, .. });
        assert!(runs, "the active periods of a source are not empty");
    }

    /// Returns the time of datagram `n` since the start, nanoseconds. Datagrams have `payload`
    /// bytes, and `before` is the time of the previous one.
    pub fn time_of(self, n: u64, payload: u64, before: u64) -> u64 {
        let spacing =
            |n: u64, bps: u64| u128::from(n) * u128::from(payload) * BIT_NANOS_PER_BYTE / u128::from(bps);
        let time = match self {
            Self::Constant { bps } => spacing(n, bps),
            Self::OnOff { bps, on, off } => {
                let active = spacing(n, bps);
                active + active / on.as_nanos() * off.as_nanos()
            }
            Self::Poisson { .. } if n == 0 => 0,
            Self::Poisson { bps, seed } => {
                #[expect(clippy::cast_precision_loss, reason = "a mean gap is far below 2^53 ns")]
                let gap = spacing(1, bps) as f64 * negative_log(child_seed(seed, n));
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
                u128::from(before.saturating_add(gap.round() as u64))
            }
        };
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

/// Returns -ln(u) for u = (draw + 1/2) / 2^64. The function of the standard library may differ
/// between platforms in the last bit; sums and products do not.
fn negative_log(draw: u64) -> f64 {
    let draw = draw | 1;
    let shift = draw.leading_zeros();
    // In [1/2, 1], exact but for the bits below 2^-53.
    #[expect(clippy::cast_precision_loss, reason = "the lowest bits of a draw do not matter")]
    let fraction = (draw << shift) as f64 / 2f64.powi(64);
    // ln(f) = 2 artanh(z), with |z| <= 1/3.
    let z = (fraction - 1.0) / (fraction + 1.0);
    let (mut power, mut log) = (z, 0.0);
    for n in 0..20 {
        log += power / f64::from(2 * n + 1);
        power *= z * z;
    }
    f64::from(shift) * std::f64::consts::LN_2 - 2.0 * log
}

/// Configuration of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Virtual time of the first datagram. In the past: immediately.
    pub start: Duration,
    /// Virtual time from which on no datagram is sent. `None`: the source does not stop.
    pub stop: Option<Duration>,
    /// Limit on the number of datagrams. `None`: there is none.
    pub packets: Option<u64>,
    /// Payload of a datagram, bytes.
    pub payload: usize,
    /// Bytes that wires count for a datagram besides its payload. Links that add the headers of IP
    /// and UDP themselves ([`LinkConfig::overhead`](rdt_emulator::LinkConfig)) need 0 here.
    pub header: usize,
    /// Times of the datagrams.
    pub arrivals: Arrivals,
    /// Size of the socket's send buffer, datagrams. The source blocks while that number of them is
    /// inside the first wire of its route, and then sends what is overdue as soon as there is room.
    /// `None`: it never blocks.
    pub send_buffer: Option<u64>,
    /// Length of the pieces in which a datagram leaves, bytes: all but the last have it, and each
    /// is a packet of its own, as an IPv6 host sends fragments. The datagram arrives with its last
    /// piece, if all arrive. `None`: datagrams leave whole.
    pub piece: Option<usize>,
}

impl Source {
    /// Returns a source of datagrams of `payload` bytes with equal gaps, from the start of virtual
    /// time on, at `bps` bits of payload per second.
    pub const fn constant(bps: u64, payload: usize) -> Self {
        Self {
            start: Duration::ZERO,
            stop: None,
            packets: None,
            payload,
            header: 0,
            arrivals: Arrivals::Constant { bps },
            send_buffer: None,
            piece: None,
        }
    }

    /// Returns the lengths of the packets of a datagram, bytes. The last piece is the rest.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = usize> + use<> {
        let whole = self.payload + self.header;
        let piece = self.piece.unwrap_or(whole);
        (0..whole).step_by(piece).map(move |from| piece.min(whole - from))
    }

    pub(crate) fn check(&self) {
        self.arrivals.check();
        assert!(self.payload > 0, "a datagram of a source is not empty");
        assert!(self.piece != Some(0), "pieces of a datagram are not empty");
        assert!(self.pieces().all(|it| it >= STAMP_BYTES), "each packet has room for its stamp");
        assert!(self.payload + self.header <= 65_507, "a datagram fits into an IPv4 packet");
    }
}

/// A source with its counters.
#[derive(Debug)]
pub struct SourceNode {
    /// Number of datagrams sent.
    pub sent: u64,
    /// Time for which datagrams were due and the send buffer was full.
    pub blocked: Duration,
    config: Source,
    sink: NodeId,
    epoch: Instant,
    /// Time of the next datagram since the start of the source, nanoseconds.
    due: u64,
    /// Time since which the send buffer is full and a datagram is due.
    blocked_since: Option<Instant>,
    /// True once the source was woken at or after `stop`: a datagram that was due before, but had
    /// no room in the send buffer, is not sent.
    has_stopped: bool,
}

impl SourceNode {
    pub(crate) fn new(config: Source, sink: NodeId, epoch: Instant) -> Self {
        Self {
            sent: 0,
            blocked: Duration::ZERO,
            config,
            sink,
            epoch,
            due: 0,
            blocked_since: None,
            has_stopped: false,
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Source {
        &self.config
    }

    /// Returns the number of payload bytes sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent * self.config.payload as u64
    }

    /// Returns the virtual time of the next datagram. `None` if there is none.
    fn next(&self) -> Option<Duration> {
        let time = self.config.start + Duration::from_nanos(self.due);
        let is_left = self.config.packets.is_none_or(|packets| self.sent < packets);
        let is_active = !self.has_stopped && self.config.stop.is_none_or(|stop| time < stop);
        (is_left && is_active).then_some(time)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.blocked_since.is_some() { None } else { self.next().map(|time| self.epoch + time) }
    }

    pub(crate) fn send(&mut self, now: Instant, id: NodeId, network: &mut Network, batch: &mut TransmitBuf) {
        let elapsed = now.saturating_duration_since(self.epoch);
        let end = self.config.stop.map_or(now, |stop| now.min(self.epoch + stop));
        if let Some(since) = self.blocked_since.take() {
            self.blocked += end.saturating_duration_since(since);
        }
        self.has_stopped = self.config.stop.is_some_and(|stop| stop <= elapsed);
        while self.next().is_some_and(|time| time <= elapsed) {
            if self.config.send_buffer.is_some_and(|limit| !network.has_room((id, self.sink), limit)) {
                self.blocked_since = Some(now);
                return;
            }
            let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            for length in self.config.pieces() {
                batch.clear();
                let Some(packet) = batch.slot(length) else { return };
                packet.fill(0);
                #[expect(clippy::cast_possible_truncation, reason = "datagrams are numbered modulo 2^32")]
                packet[..4].copy_from_slice(&(self.sent as u32).to_le_bytes());
                packet[4..STAMP_BYTES].copy_from_slice(&nanos.to_le_bytes());
                network.send(now, id, self.sink, batch);
            }
            self.sent += 1;
            self.due = self.config.arrivals.time_of(self.sent, self.config.payload as u64, self.due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_agrees_with_standard_library() {
        for draw in (0..64).map(|n| u64::MAX >> n).chain((0..1000).map(|n| child_seed(5, n))) {
            #[allow(clippy::cast_precision_loss, reason = "the reference is as inexact")]
            let expected = -((draw | 1) as f64 / 2f64.powi(64)).ln();
            assert!((negative_log(draw) - expected).abs() <= 1e-14 * (1.0 + expected), "{draw:x}");
        }
    }

    #[test]
    #[allow(clippy::cast_precision_loss, reason = "sums of gaps, which are far below 2^53 ns")]
    fn poisson_gaps_have_mean_and_deviation() {
        let arrivals = Arrivals::Poisson { bps: 8_000_000, seed: 1 };
        let mut times = vec![0];
        for n in 1..=100_000 {
            times.push(arrivals.time_of(n, 1000, times[times.len() - 1]));
        }
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn pauses_shift_later_datagrams() {
        let arrivals =
            Arrivals::OnOff { bps: 8_000_000, on: Duration::from_millis(2), off: Duration::from_millis(10) };
        let times: Vec<u64> = (0..6).map(|n| arrivals.time_of(n, 1000, 0) / 1_000_000).collect();
        assert_eq!(times, [0, 1, 12, 13, 24, 25]);
    }
}
