//! The serialiser: sends one packet at a time, at a fixed or varying rate.
//!
//! All times are model times: the service of a packet starts when that of the previous packet
//! ended, so a late call does not slow the link down.

#![expect(clippy::inline_always, reason = "for every packet of a drop-tail link; the other callers are rare")]

mod steps;
mod trace;

use std::time::{Duration, Instant};

use crate::bitrate::Bitrate;
use crate::draw::Direction;
use crate::mtu::Frames;
use crate::packet::Service;
use crate::schedule::Schedule;
use crate::time::saturating_add;
use crate::wifi::{Medium, WifiConfig};
use steps::Steps;

pub use trace::{TRACE_OPPORTUNITY_BYTES, Trace};

/// A rate that varies with time, counted from the start of the link
/// ([`Link::start`](crate::Link::start)). The whole course of the rate is known beforehand, so that
/// the due time of a packet is known when the packet arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum VaryingRate {
    /// Rates in steps (`None`: no limit). A packet in service continues at the new rate.
    Steps(Schedule<Option<Bitrate>>),
    /// Recorded delivery opportunities of a fixed number of bytes each; see [`Trace`].
    Trace(Trace),
    /// Airtime in an 802.11 cell; see [`WifiConfig`]. A frame in the air keeps its bit rate. All
    /// values of the schedule have the [`back_off`](WifiConfig::back_off) of the first.
    Wifi(Schedule<WifiConfig>),
}

impl VaryingRate {
    /// Returns the highest rate at any time: for a trace, the highest over one second; for 802.11,
    /// the highest throughput of 1500-byte packets. `None` if no step limits the rate.
    pub(crate) fn highest(&self) -> Option<Bitrate> {
        match self {
            Self::Steps(steps) => steps.values().flatten().max(),
            Self::Trace(trace) => Some(trace.highest_rate()),
            Self::Wifi(cells) => cells.values().map(|cell| cell.throughput(1_500)).max(),
        }
    }
}

/// Serialiser of one link, of fixed or varying rate or without a limit.
#[derive(Debug, Clone)]
pub(crate) struct Serialiser {
    /// `None`: serialisation takes no time.
    rate: Option<Bitrate>,
    /// End of the last packet's service, rounded down to a nanosecond. `None` before the first.
    busy_until: Option<Instant>,
    /// Fraction that the rounding of `busy_until` cut off; unit of [`Bitrate::transmit_time`].
    remainder: u64,
    /// Rate that varies with time, which replaces `rate`. `None`: the rate is constant.
    varying: Option<Box<Varying>>,
}

#[derive(Debug, Clone)]
enum Varying {
    Steps(Steps),
    Trace(trace::Reader),
    Medium(Medium),
}

impl Serialiser {
    pub(crate) const fn new(rate: Option<Bitrate>) -> Self {
        Self { rate, busy_until: None, remainder: 0, varying: None }
    }

    /// Sets a varying rate, if there is one. `seed` and `direction` determine 802.11 back-offs.
    pub(crate) fn varying(self, varying: Option<VaryingRate>, seed: u64, direction: Direction) -> Self {
        let varying = varying.map(|varying| {
            Box::new(match varying {
                VaryingRate::Steps(schedule) => Varying::Steps(Steps::new(schedule)),
                VaryingRate::Trace(trace) => Varying::Trace(trace::Reader::new(trace)),
                VaryingRate::Wifi(cells) => Varying::Medium(Medium::new(&cells, seed, direction)),
            })
        });
        Self { varying, ..self }
    }

    /// Sets the origin of the times of a varying rate. Must be called before the first packet.
    pub(crate) fn start(&mut self, at: Instant) {
        match self.varying.as_deref_mut() {
            None => {}
            Some(Varying::Medium(air)) => air.start(at),
            Some(Varying::Steps(steps)) => steps.start(at),
            Some(Varying::Trace(reader)) => reader.start(at),
        }
    }

    /// Changes the rate at `now`. Packets already served keep their times, and the next one starts
    /// after them. `origin` is the start of the link.
    pub(crate) fn change(
        &mut self,
        now: Instant,
        rate: Option<Bitrate>,
        varying: Option<VaryingRate>,
        origin: Option<Instant>,
    ) {
        let busy_until = self.next_start(now);
        // No 802.11 cell, so neither seed nor direction matters.
        *self = Self::new(rate).varying(varying, 0, Direction::Forward);
        if let Some(origin) = origin {
            self.start(origin);
        }
        match self.varying.as_deref_mut() {
            None => self.busy_until = Some(busy_until),
            Some(Varying::Steps(steps)) => steps.begin_at(busy_until),
            Some(Varying::Trace(reader)) => reader.begin_at(busy_until),
            Some(Varying::Medium(_)) => {}
        }
    }

    /// Returns when the service of a packet that enters at `now` would start.
    #[inline]
    pub(crate) fn next_start(&self, now: Instant) -> Instant {
        if let Some(varying) = &self.varying {
            return varying.next_start(now);
        }
        self.busy_until.map_or(now, |end| end.max(now))
    }

    /// Serialises the frames of a packet that enters at `now`, one after the other.
    #[inline(always)]
    pub(crate) fn serve_all(&mut self, now: Instant, frames: Frames) -> Service {
        let start = self.next_start(now);
        let before = frames.before_last().map(|bytes| self.serve(now, bytes).busy);
        let before = before.fold(Duration::ZERO, Duration::saturating_add);
        let last = self.serve(now, frames.last());
        Service { start, end: last.end, busy: last.busy.saturating_add(before) }
    }

    /// Serialises a frame of `bytes` bytes on the wire that enters at `now`.
    #[inline(always)]
    pub(crate) fn serve(&mut self, now: Instant, bytes: usize) -> Service {
        if let Some(varying) = &mut self.varying {
            return varying.serve(now, bytes);
        }
        let start = self.next_start(now);
        let Some(rate) = self.rate else {
            return Service { start, end: start, busy: Duration::ZERO };
        };
        // After an idle time service starts at a whole nanosecond, so there is no remainder.
        if self.busy_until.is_none_or(|end| end < now) {
            self.remainder = 0;
        }
        let busy = rate.transmit_time(bytes, &mut self.remainder);
        let end = saturating_add(start, busy);
        self.busy_until = Some(end);
        Service { start, end, busy }
    }
}

/// Coordination of the 802.11 medium, which both directions of a path share.
impl Serialiser {
    pub(crate) fn is_wifi(&self) -> bool {
        matches!(self.varying.as_deref(), Some(Varying::Medium(_)))
    }

    /// Returns the medium of an 802.11 cell. `None` for other links.
    pub(crate) fn medium_mut(&mut self) -> Option<&mut Medium> {
        if let Some(Varying::Medium(air)) = self.varying.as_deref_mut() { Some(air) } else { None }
    }
}

/// Cold, so that the code of links with a fixed rate stays compact.
impl Varying {
    #[cold]
    fn next_start(&self, now: Instant) -> Instant {
        match self {
            Self::Steps(steps) => steps.next_start(now),
            Self::Trace(reader) => reader.next_start(now),
            Self::Medium(air) => air.next_start(now),
        }
    }

    #[cold]
    fn serve(&mut self, now: Instant, bytes: usize) -> Service {
        match self {
            Self::Steps(steps) => steps.serve(now, bytes),
            Self::Trace(reader) => reader.serve(now, bytes),
            Self::Medium(air) => air.serve(now, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{epoch, ms, ns};

    fn serialiser(bps: u64) -> Serialiser {
        Serialiser::new(Some(Bitrate::from_bps(bps)))
    }

    #[test]
    fn first_packet_takes_its_own_time() {
        let now = epoch();
        let service = serialiser(1_000_000).serve(now, 500);
        assert_eq!(service, Service { start: now, end: now + ms(4), busy: ms(4) });
    }

    #[test]
    fn service_starts_at_previous_end() {
        let now = epoch();
        let mut wire = serialiser(1_000_000);
        wire.serve(now, 500);
        let service = wire.serve(now + ms(1), 250);
        assert_eq!((service.start, service.end), (now + ms(4), now + ms(6)));
    }

    #[test]
    fn an_idle_wire_starts_at_once() {
        let now = epoch();
        let mut wire = serialiser(1_000_000);
        wire.serve(now, 500);
        let service = wire.serve(now + ms(9), 500);
        assert_eq!((service.start, service.end), (now + ms(9), now + ms(13)));
    }

    #[test]
    fn remainder_carries_back_to_back_only() {
        // A byte takes 2 + 2/3 s at 3 bit/s.
        let now = epoch();
        let mut wire = serialiser(3);
        assert_eq!(wire.serve(now, 1).end, now + ns(2_666_666_666));
        assert_eq!(wire.serve(now, 1).end, now + ns(5_333_333_333));
        // Service ends a third of a nanosecond later, so the next packet continues the exact sum.
        let service = wire.serve(now + ns(5_333_333_333), 1);
        assert_eq!((service.start, service.end), (now + ns(5_333_333_333), now + ms(8_000)));

        assert_eq!(wire.serve(now, 1).end, now + ns(10_666_666_666));
        let later = now + ns(10_666_666_667);
        assert_eq!(wire.serve(later, 3).end, later + ms(8_000));
    }

    #[test]
    fn million_packets_end_at_exact_time() {
        const RATE: u64 = 999_999_937;
        const BYTES: u64 = 1_472;

        let start = epoch();
        let mut wire = serialiser(RATE);
        for n in 1..=1_000_000_u64 {
            let exact = u128::from(n) * u128::from(BYTES) * 8 * 1_000_000_000 / u128::from(RATE);
            let end = wire.serve(start, 1_472).end;
            assert_eq!((end - start).as_nanos(), exact, "packet {n}");
        }
    }

    #[test]
    fn service_without_rate_takes_no_time() {
        let now = epoch();
        let mut wire = Serialiser::new(None);
        for _ in 0..3 {
            assert_eq!(wire.serve(now, 65_535), Service { start: now, end: now, busy: Duration::ZERO });
        }
    }

    #[test]
    fn times_saturate_at_last_instant() {
        let now = epoch();
        let mut wire = Serialiser::new(Some(Bitrate::from_bps(0)));
        let mut last = now;
        for _ in 0..3 {
            let service = wire.serve(now, usize::MAX);
            assert!(service.start >= last && service.end >= service.start);
            last = service.end;
        }
    }
}
