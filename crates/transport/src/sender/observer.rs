//! Observers of a sender: expands runs of packets and ACKs into single events, and reports changes
//! of the state since the previous call. Owns the state reported last.

use std::mem::{Discriminant, discriminant};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::Sender;
use crate::congestion::{Pacer, RateSample};
use crate::recovery::{AckOutcome, Lost, SegmentRun};
use crate::wire::{Ack, FromReceiver};
use crate::{Blocked, Interest, Metrics, Observer, PacketKind, Resend, Timer, Trace};

/// At most one observer, of all events or of RTT samples only.
#[derive(Default)]
pub(super) struct Observers {
    /// Boxed, because most senders have none.
    full: Option<Box<Observed>>,
    round_trips: Option<Box<dyn Observer>>,
    /// True if the format has packet numbers (native).
    numbered: bool,
}

/// Observer of all events, and the state reported last.
struct Observed {
    observer: Box<dyn Observer>,
    latest_rtt: Option<Duration>,
    delivery_rate: Option<u64>,
    metrics: Option<Metrics>,
    phase: Option<&'static str>,
    blocked: Option<Discriminant<Blocked>>,
    timers: [Option<Instant>; 4],
}

/// State of a sender after a call.
#[derive(Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) timers: [Option<Instant>; 4],
    pub(super) blocked: Option<Blocked>,
    pub(super) phase: &'static str,
    /// Without the newest samples, which [`Observers`] adds.
    pub(super) metrics: Metrics,
}

impl Snapshot {
    #[cold]
    pub(super) fn of(sender: &Sender) -> Self {
        let (rtt, controller) = (&sender.path.rtt, &sender.congestion.controller);
        let srtt = rtt.sampled();
        let metrics = Metrics {
            cwnd: controller.cwnd(),
            ssthresh: controller.ssthresh(),
            in_flight: sender.flight.board.in_flight(),
            snd_wnd: sender.peer.window.size,
            srtt: srtt.unwrap_or_default(),
            rttvar: srtt.map_or(Duration::ZERO, |_| rtt.rttvar()),
            min_rtt: rtt.min_rtt.unwrap_or_default(),
            latest_rtt: None,
            pacing_rate: sender.congestion.pacer.as_ref().and_then(Pacer::rate),
            delivery_rate: None,
        };
        Self { timers: sender.timers(), blocked: sender.blocked.reason(), phase: controller.phase(), metrics }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CoalescedAck {
    pub(super) ack: u64,
    pub(super) window: u64,
    /// Stream bytes newly acknowledged.
    pub(super) bytes: u64,
    /// Length of the datagram, bytes.
    pub(super) length: usize,
    pub(super) sample: Option<Duration>,
}

/// Run of data packets of one length with consecutive stream bytes.
#[derive(Debug, Clone)]
pub(super) struct DataRun {
    /// Sequence number of the first packet.
    pub(super) seq: u64,
    /// Packet number of the first packet.
    pub(super) packet_number: u64,
    /// Stream offsets of the payload.
    pub(super) bytes: Range<u64>,
    pub(super) count: u64,
    /// Bytes of each packet besides its payload.
    pub(super) overhead: usize,
    /// Attempt number of these transmissions, from 1, and the limit of attempts.
    pub(super) attempt: u32,
    pub(super) of: u32,
    pub(super) resend: Option<Resend>,
    pub(super) rto: Duration,
    /// Deadline of the retransmission timer after the first packet and after the others; `None` if
    /// it does not run.
    pub(super) deadlines: [Option<Instant>; 2],
}

impl Observers {
    /// Returns a list without observers; `numbered` is true if the format has packet numbers.
    pub(super) fn new(numbered: bool) -> Self {
        Self { numbered, ..Self::default() }
    }

    /// Attaches `observer` in place of an earlier one.
    pub(super) fn set(&mut self, observer: Box<dyn Observer>) {
        let interest = observer.interest();
        (self.full, self.round_trips) = match interest {
            Interest::Everything => (Some(Box::new(Observed::new(observer))), None),
            Interest::RoundTrips => (None, Some(observer)),
        };
    }

    /// True if there is an observer of all events, which needs a [`DataRun`] for data packets and a
    /// [`Snapshot`] after each call.
    pub(super) fn take_everything(&self) -> bool {
        self.full.is_some()
    }

    /// Returns these observers if there are any.
    pub(super) fn attached(&mut self) -> Option<&mut Self> {
        (self.full.is_some() || self.round_trips.is_some()).then_some(self)
    }

    /// Reports `trace` to an observer of all events.
    pub(super) fn on(&mut self, now: Instant, trace: &Trace) {
        if let Some(observed) = &mut self.full {
            observed.observer.on(now, trace);
        }
    }

    /// Reports an advance of `snd_una`. `trace` is called only if there is an observer.
    pub(super) fn on_moved(&mut self, now: Instant, trace: impl FnOnce() -> Trace) {
        if let Some(observer) = &mut self.round_trips {
            observer.on(now, &trace());
        } else if let Some(observed) = &mut self.full {
            observed.observer.on(now, &trace());
        }
    }

    /// Reports newly acknowledged segments (native).
    pub(super) fn on_acked(&mut self, now: Instant, run: &SegmentRun<'_>) {
        if let Some(observed) = self.full.as_mut().filter(|_| self.numbered) {
            for segment in run.segments() {
                let trace = Trace::PacketAcked {
                    packet_number: Some(segment.packet_number),
                    offset: segment.offset,
                    len: segment.len,
                };
                observed.observer.on(now, &trace);
            }
        }
    }

    pub(super) fn on_lost(&mut self, now: Instant, lost: &Lost) {
        let Lost { offset, packet_number, bytes: len, trigger, .. } = *lost;
        let packet_number = self.numbered.then_some(packet_number);
        self.on(now, &Trace::PacketLost { packet_number, offset, len, trigger });
    }

    pub(super) fn on_rate(&mut self, rate: Option<RateSample>) {
        if let Some(observed) = &mut self.full {
            let known = rate.map(|rate| rate.delivery_rate).filter(|rate| *rate > 0);
            observed.delivery_rate = known.or(observed.delivery_rate);
        }
    }

    /// Reports a packet without stream bytes; `seq` is its sequence number, `offset` the stream
    /// offset of the next new byte.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        kind: PacketKind,
        (packet_number, seq): (u64, u64),
        offset: u64,
        length: usize,
    ) {
        let number = if kind == PacketKind::Syn || self.numbered { packet_number } else { seq };
        self.on(now, &Trace::PacketSent { kind, number, offset, len: 0, length, resend: None });
    }

    /// Reports each data packet of a run.
    pub(super) fn on_data_sent(&mut self, now: Instant, run: &DataRun) {
        let Some(observed) = &mut self.full else { return };
        let DataRun { attempt, of, resend, rto, .. } = *run;
        // A packet's payload is at most 65,499 bytes.
        let len = u32::try_from((run.bytes.end - run.bytes.start) / run.count).unwrap_or(u32::MAX);
        for n in 0..run.count {
            let seq = run.seq + n * if self.numbered { u64::from(len) } else { 1 };
            let number = if self.numbered { run.packet_number + n } else { seq };
            let (offset, length) = (run.bytes.start + n * u64::from(len), run.overhead + len as usize);
            let kind = PacketKind::Data;
            observed.observer.on(now, &Trace::PacketSent { kind, number, offset, len, length, resend });
            let deadline = run.deadlines[usize::from(n > 0)].unwrap_or(now);
            observed.observer.on(now, &Trace::DataSent { seq, attempt, of, rto, deadline, resend });
        }
    }

    pub(super) fn on_received(&mut self, now: Instant, reply: Option<&FromReceiver<'_>>, length: usize) {
        let received = |reply: &FromReceiver<'_>| Trace::PacketReceived { kind: reply.kind(), length };
        self.on(now, &reply.map_or(Trace::PacketDropped { length }, received));
    }

    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, outcome: &AckOutcome) {
        let Some(observed) = &mut self.full else { return };
        observed.latest_rtt = outcome.latest_rtt.or(observed.latest_rtt);
        let trace = Trace::AckProcessed {
            ack: ack.ack,
            window: ack.window,
            bytes: outcome.bytes,
            blocks: u32::try_from(ack.sack.iter().count()).unwrap_or(u32::MAX),
            largest_acked: outcome.largest_acked,
            delay: ack.echo.map(|echo| echo.delay),
            sample: outcome.latest_rtt,
        };
        observed.observer.on(now, &trace);
    }

    #[cold]
    pub(super) fn on_coalesced_ack(&mut self, now: Instant, coalesced: &CoalescedAck, rto: Duration) {
        let CoalescedAck { ack, window, bytes, length, sample } = *coalesced;
        if let Some(observed) = &mut self.full {
            observed.latest_rtt = sample.or(observed.latest_rtt);
            let observer = &mut observed.observer;
            observer.on(now, &Trace::PacketReceived { kind: PacketKind::Ack, length });
            let (blocks, largest_acked, delay) = (0, None, None);
            observer
                .on(now, &Trace::AckProcessed { ack, window, bytes, blocks, largest_acked, delay, sample });
        }
        self.on_moved(now, || Trace::AckReceived { ack, window, rto, deadline: Some(now + rto), sample });
    }

    pub(super) fn on_timers_due(&mut self, now: Instant, timers: [Option<Instant>; 4]) {
        for (timer, deadline) in Timer::ALL.into_iter().zip(timers) {
            if deadline.is_some_and(|at| at <= now) {
                self.on(now, &Trace::TimerExpired { timer });
            }
        }
    }

    /// Reports the differences to the previous snapshot.
    #[cold]
    pub(super) fn on_snapshot(&mut self, now: Instant, snapshot: Snapshot) {
        let Some(observed) = &mut self.full else { return };
        let Snapshot { timers, blocked, phase, metrics } = snapshot;
        if observed.phase != Some(phase) {
            let old = observed.phase.replace(phase);
            observed.observer.on(now, &Trace::PhaseChanged { old, new: phase });
        }
        let metrics =
            Metrics { latest_rtt: observed.latest_rtt, delivery_rate: observed.delivery_rate, ..metrics };
        if observed.metrics.replace(metrics) != Some(metrics) {
            observed.observer.on(now, &Trace::MetricsUpdated(metrics));
        }
        let before = std::mem::replace(&mut observed.timers, timers);
        for ((timer, before), after) in Timer::ALL.into_iter().zip(before).zip(timers) {
            if before != after {
                let trace = after.map_or(Trace::TimerCancelled { timer }, |at| Trace::TimerSet { timer, at });
                observed.observer.on(now, &trace);
            }
        }
        let kind = blocked.as_ref().map(discriminant);
        if std::mem::replace(&mut observed.blocked, kind) != kind
            && let Some(reason) = blocked
        {
            observed.observer.on(now, &Trace::Blocked { reason });
        }
    }
}

impl Observed {
    fn new(observer: Box<dyn Observer>) -> Self {
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
}
