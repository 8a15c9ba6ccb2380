//! "Startup" and "Drain": doubles the rate each round until the pipe is full, then drains the
//! queue.
//!
//! Deviation, switched by [`BbrConfig::fast_startup`](super::BbrConfig): the rate triples until the
//! first sign of a full pipe. On a long fat path, `Startup` is most of a transfer. From ten
//! segments to 250 Mbit/s at 600 ms takes 10.6 rounds by doubling and 6.7 by tripling: over 2 s
//! less.
//!
//! The gains for growth by x per round follow from the draft's derivation. The measured bandwidth
//! is the average over the round before last, (1/x - 1/x^2) / ln x of the rate. The pacing gain is
//! the inverse: 4.94 for x = 3 (2.77 for x = 2). The data in flight is (1 - 1/x) / ln x of a
//! round's data, or 3 measured bandwidth-delay products (2 for x = 2), so the window must grow by
//! twice the acknowledged bytes.
//!
//! This assumes that data is in flight during the whole RTT. With an initial window of ten
//! segments, ACKs arrive in the first part of each RTT only. A bandwidth sample across the
//! following gap is up to a third too low: with gains of 4.94 and 3 the rounds grew by 2.2 to 2.8.
//! The gains are therefore 6 and 4, so that window growth is the limit: at most threefold per
//! round.
//!
//! The sign of a full pipe is a queueing delay of 1/64 of the RTT, seen 1.17 rounds after the rate
//! passed that of the bottleneck. 2.2 bandwidth-delay products (BDPs) are then in flight; the
//! draft's window allows 2. The price: about 0.2 BDP is dropped once if the queue holds 1 BDP.
//! After that the draft's gains apply.

use std::time::Duration;

use super::long_start::LongStart;
use super::{Ack, AckEvent, Bbr, BbrConfig, State};

/// Lost segments reported by one ACK that end `Startup` as an overshoot; fewer may be random loss.
const OVERSHOOT_SEGMENTS: u64 = 16;
/// A queue is detected if the RTT exceeds `min_rtt` by one part in this many and by [`RTT_NOISE`].
const QUEUE_RTT_DIVISOR: u32 = 64;
/// RTT variation caused by the sender's own bursts and by host clocks.
pub(super) const RTT_NOISE: Duration = Duration::from_millis(1);
/// Rounds after which `Drain` ends even if the queue has not drained.
const MAX_DRAIN_ROUNDS: u64 = 3;

/// State of the first phases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// True until `Startup` stops tripling the rate.
    pub(super) triples: bool,
    pub(super) trains: LongStart,
    /// `BBR.drain_start_round`.
    drain_start_round: u64,
}

impl Start {
    pub(super) fn new(config: &BbrConfig) -> Self {
        let &BbrConfig { fast_startup, long_start, initial_rtt, .. } = config;
        let trains = LongStart::new(long_start && fast_startup, initial_rtt);
        Self { triples: fast_startup, trains, drain_start_round: 0 }
    }
}

impl Bbr {
    pub(super) fn check_full_bw_reached(&mut self, ack: &Ack<'_>) {
        if self.rounds.starts {
            if ack.sample.app_limited {
                self.full_bw.grew = None;
            } else {
                self.full_bw.on_round(ack.sample.delivery_rate);
            }
            if self.state == State::Startup {
                self.base_loss.on_startup_round(self.grows(), self.config.mss);
            }
        }
        if self.fills_train_estimate(ack.event) || self.resumed_startup_has_queue(ack) {
            self.full_bw.reached = true;
        }
        if self.triples() {
            self.look_for_full_pipe(ack.event);
        }
    }

    /// True if the RTT shows a queue beyond the packet train that this segment was sent in.
    pub(super) fn shows_queue(&self, event: &AckEvent) -> bool {
        let rtts = event.latest_rtt.zip(self.min_rtt.get());
        rtts.is_some_and(|(rtt, min_rtt)| {
            rtt > min_rtt + (min_rtt / QUEUE_RTT_DIVISOR).max(RTT_NOISE) + self.train_time()
        })
    }

    pub(super) fn check_startup_done(&mut self, ack: &Ack<'_>) {
        if self.state != State::Startup {
            return;
        }
        if self.startup_loss_is_high(ack) || self.overshot(ack.event) {
            self.undo.state = Some(State::Startup);
            self.full_bw.reached = true;
            self.bounds.inflight_longterm = self.bdp(self.bw).max(self.loss_round.latest.inflight);
        }
        if self.full_bw.reached {
            self.doubt_end_of_startup();
            self.state = State::Drain;
            self.start.drain_start_round = self.rounds.count;
            self.base_loss.on_startup_done();
        }
    }

    /// `CheckStartupHighLoss`: the draft's three criteria, and one more if the base loss rate is
    /// estimated. The estimate is poor so early, but a pipe whose delivery rate just grew by 25 %
    /// was not full.
    fn startup_loss_is_high(&self, ack: &Ack<'_>) -> bool {
        self.loss_round.persistent()
            && self.is_inflight_too_high(ack.sample.lost, ack.sample.tx_in_flight)
            && !(self.config.base_loss && self.grows())
    }

    /// True if one ACK shows that tripling overshot: much of the flight is lost and the delivery
    /// rate no longer grows. The draft waits for a whole round in recovery. Until then,
    /// retransmissions above the path's rate would overflow the full queue again and cost another
    /// RTT.
    fn overshot(&self, event: &AckEvent) -> bool {
        let much = event.lost > self.tolerated_loss(event.in_flight + event.lost)
            && event.lost >= OVERSHOOT_SEGMENTS * self.config.mss;
        self.config.fast_startup && !self.start.triples && !self.grows() && much
    }

    /// True if the delivery rate grew by 25 % in the last round.
    fn grows(&self) -> bool {
        self.full_bw.grew == Some(true)
    }

    pub(super) fn check_drain_done(&mut self, event: &AckEvent) {
        if self.state == State::Drain
            && (event.in_flight <= self.inflight(self.bw)
                || self.rounds.count > self.start.drain_start_round + MAX_DRAIN_ROUNDS)
        {
            self.start_probe_bw_down(event.now);
        }
    }

    /// True while the rate triples each round.
    pub(super) fn triples(&self) -> bool {
        self.start.triples && self.state == State::Startup
    }

    /// Ends tripling at the first sign of a full pipe: a queue, a CE mark, a round without growth,
    /// or a round with much loss. Caps the window at the model's limit.
    fn look_for_full_pipe(&mut self, event: &AckEvent) {
        let queue = self.shows_queue(event);
        let flat = self.rounds.starts && self.full_bw.grew == Some(false);
        let tally = self.loss_round.tally;
        let loss = self.loss_round.many() && tally.lost > self.tolerated_loss(tally.sent());
        if queue || flat || loss || self.loss_round.marked {
            self.start.triples = false;
            self.cwnd = self.cwnd.min(self.max_inflight());
            self.pacing_rate = 0;
        } else if self.rounds.starts {
            self.raise_ceiling();
        }
    }
}
