//! What an observer is told that is no step of the protocol: how the sender stands after each call,
//! as far as it changed. Owns what was told last. Without an observer each function is one branch.

use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use super::{Segment, Sender};
use crate::congestion::RateSample;
use crate::recovery::{AckOutcome, Lost};
use crate::wire::{Ack, DataHead, Reply};
use crate::{Blocked, Interest, Metrics, Observer, PacketKind, Resend, Timer, Trace};

/// An observer, and what it was told last.
pub(super) struct Observed {
    observer: Box<dyn Observer>,
    latest_rtt: Option<Duration>,
    delivery_rate: Option<u64>,
    metrics: Option<Metrics>,
    phase: Option<&'static str>,
    blocked: Option<Discriminant<Blocked>>,
    timers: [Option<Instant>; 4],
}

impl Observed {
    pub(super) fn new(observer: Box<dyn Observer>) -> Self {
        Self {
            observer,
            latest_rtt: None,
            delivery_rate: None,
            metrics: None,
            phase: None,
            blocked: None,
            timers: [None; 4],
        }
    }

    pub(super) fn on_acked(&mut self, now: Instant, segment: &Segment, numbered: bool) {
        let Segment { offset, len, tx, .. } = *segment;
        self.observer.on(now, &Trace::PacketAcked { tx: numbered.then_some(tx), offset, len });
    }

    pub(super) fn on_lost(&mut self, now: Instant, lost: &Lost, numbered: bool) {
        let Lost { offset, tx, bytes: len, trigger, .. } = *lost;
        self.observer.on(now, &Trace::PacketLost { tx: numbered.then_some(tx), offset, len, trigger });
    }

    pub(super) fn note_rate(&mut self, rate: Option<RateSample>) {
        let known = rate.map(|rate| rate.delivery_rate).filter(|rate| *rate > 0);
        self.delivery_rate = known.or(self.delivery_rate);
    }

    fn on_timers(&mut self, now: Instant, timers: [Option<Instant>; 4]) {
        for timer in Timer::ALL {
            let (before, after) = (&mut self.timers[timer.index()], timers[timer.index()]);
            if *before != after {
                *before = after;
                let trace = after.map_or(Trace::TimerCancelled { timer }, |at| Trace::TimerSet { timer, at });
                self.observer.on(now, &trace);
            }
        }
    }

    fn on_blocked(&mut self, now: Instant, reason: Option<Blocked>) {
        let kind = reason.as_ref().map(discriminant);
        if self.blocked != kind {
            self.blocked = kind;
            if let Some(reason) = reason {
                self.observer.on(now, &Trace::Blocked { reason });
            }
        }
    }
}

impl Sender {
    /// Tells `observer` every fact that it is interested in from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        (self.observer, self.sampler) = match observer.interest() {
            Interest::Everything => (Some(Observed::new(observer)), None),
            Interest::RoundTrips => (None, Some(observer)),
        };
    }

    /// The cumulative edge moved, which is all that some want to hear.
    pub(super) fn trace_moved(&mut self, now: Instant, ack: &Ack<'_>, sample: Option<Duration>) {
        if self.observer.is_none() && self.sampler.is_none() {
            return;
        }
        let (rto, deadline) = (self.rtt.rto(), self.recovery.deadline());
        let trace = Trace::AckReceived { ack: ack.ack, wnd: ack.wnd, rto, deadline, sample };
        if let Some(sampler) = &mut self.sampler {
            sampler.on(now, &trace);
        }
        self.trace(now, &trace);
    }

    pub(super) fn trace(&mut self, now: Instant, trace: &Trace) {
        if let Some(observed) = &mut self.observer {
            observed.observer.on(now, trace);
        }
    }

    /// A packet without stream bytes left; `seq` is its sequence number.
    pub(super) fn trace_sent(
        &mut self,
        now: Instant,
        kind: PacketKind,
        tx: u64,
        seq: u64,
        resend: Option<Resend>,
    ) {
        if self.observer.is_none() {
            return;
        }
        let length = match kind {
            PacketKind::Syn => self.codec.syn_len(),
            PacketKind::Fin => self.codec.fin_len(self.closing.is_some_and(|closing| closing.is_repeated())),
            _ => self.codec.keep_alive_len(DataHead { seq, tx, asks: true, ack_every: 0 }),
        };
        let number = if kind == PacketKind::Syn || self.codec.numbers_transmissions() { tx } else { seq };
        let offset = self.board.next_offset();
        self.trace(now, &Trace::PacketSent { kind, number, offset, len: 0, length, resend });
    }

    /// `len` stream bytes from `offset` on left in packet `seq`, transmission `tx`.
    pub(super) fn trace_sent_data(
        &mut self,
        now: Instant,
        seq: u64,
        tx: u64,
        offset: u64,
        len: usize,
        resend: Option<Resend>,
    ) {
        if self.observer.is_none() {
            return;
        }
        let number = if self.codec.numbers_transmissions() { tx } else { seq };
        let length = self.config.wire.data_header() + len;
        // A packet's payload is at most 65,499 bytes.
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.trace(now, &Trace::PacketSent { kind: PacketKind::Data, number, offset, len, length, resend });
    }

    pub(super) fn trace_received(&mut self, now: Instant, reply: Option<&Reply<'_>>, length: usize) {
        if self.observer.is_none() {
            return;
        }
        let kind = match reply {
            Some(Reply::Ack(_)) => PacketKind::Ack,
            Some(Reply::SynAck { .. }) => PacketKind::SynAck,
            Some(Reply::Retry { .. }) => PacketKind::Retry,
            Some(Reply::FinAck { .. }) => PacketKind::FinAck,
            Some(Reply::Close { .. } | Reply::Versions(_)) => PacketKind::Close,
            None => return self.trace(now, &Trace::PacketDropped { length }),
        };
        self.trace(now, &Trace::PacketReceived { kind, length });
    }

    pub(super) fn trace_ack(&mut self, now: Instant, ack: &Ack<'_>, facts: &AckOutcome) {
        let Some(observed) = &mut self.observer else { return };
        observed.latest_rtt = facts.latest_rtt.or(observed.latest_rtt);
        let trace = Trace::AckProcessed {
            ack: ack.ack,
            wnd: ack.wnd,
            bytes: facts.bytes,
            blocks: u32::try_from(ack.sack.iter().count()).unwrap_or(u32::MAX),
            largest_tx: facts.largest_tx,
            delay: ack.echo.map(|echo| echo.delay),
            sample: facts.latest_rtt,
        };
        observed.observer.on(now, &trace);
    }

    /// Tells which timers are due.
    pub(super) fn trace_expired(&mut self, now: Instant) {
        if self.observer.is_none() {
            return;
        }
        let timers = self.timers();
        for timer in Timer::ALL {
            if timers[timer.index()].is_some_and(|at| at <= now) {
                self.trace(now, &Trace::TimerExpired { timer });
            }
        }
    }

    /// Tells what is different from when it was last called.
    pub(super) fn trace_state(&mut self, now: Instant) {
        if self.observer.is_some() {
            self.trace_changes(now);
        }
    }

    #[cold]
    fn trace_changes(&mut self, now: Instant) {
        let (timers, blocked, phase) = (self.timers(), self.waiting.reason(), self.congestion.phase());
        let metrics = self.metrics();
        let Some(observed) = &mut self.observer else { return };
        if observed.phase != Some(phase) {
            let old = observed.phase.replace(phase);
            observed.observer.on(now, &Trace::PhaseChanged { old, new: phase });
        }
        if observed.metrics != Some(metrics) {
            observed.metrics = Some(metrics);
            observed.observer.on(now, &Trace::MetricsUpdated(metrics));
        }
        observed.on_timers(now, timers);
        observed.on_blocked(now, blocked);
    }

    fn timers(&self) -> [Option<Instant>; 4] {
        let mut timers = self.recovery.timers();
        timers[Timer::Control.index()] = self.control_at;
        timers
    }

    fn metrics(&self) -> Metrics {
        let observed = self.observer.as_ref();
        let srtt = self.rtt.sampled();
        Metrics {
            cwnd: self.congestion.cwnd(),
            ssthresh: self.congestion.ssthresh(),
            in_flight: self.board.in_flight(),
            snd_wnd: self.snd_wnd.size(),
            srtt: srtt.unwrap_or_default(),
            rttvar: srtt.map_or(Duration::ZERO, |_| self.rtt.rttvar()),
            min_rtt: self.rtt.min_rtt().unwrap_or_default(),
            latest_rtt: observed.and_then(|observed| observed.latest_rtt),
            pacing_rate: self.pacer.as_ref().and_then(crate::congestion::Pacer::rate),
            delivery_rate: observed.and_then(|observed| observed.delivery_rate),
        }
    }
}
