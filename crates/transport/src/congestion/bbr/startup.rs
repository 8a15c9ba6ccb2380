//! "Startup" and "Drain": double the rate each round until the pipe is full, then let the queue go.
//!
//! A deviation, switched by [`BbrConfig::brisk_startup`](super::BbrConfig): until the first sign of a full pipe
//! the rate triples. On a long fat path the search is most of a transfer: from ten segments to 250 Mbit/s at
//! 600 ms it is 10.6 rounds by doubling and 6.7 by tripling, more than two seconds less. Gains that keep up a
//! growth of x a round follow from the draft's own derivation: the measured bandwidth is the average over the
//! round before last, (1/x - 1/x^2) / ln x of the rate, so the pacing gain is the inverse, 4.94 for x = 3
//! (2.77 for 2); and (1 - 1/x) / ln x of a round's worth is in flight, 3 of these bandwidths (2 for x = 2),
//! for which the window must grow by twice what is acknowledged.
//!
//! That holds for a flow that fills its round trips. A first flight of ten segments does not: ACKs come in the first
//! part of each round trip, and a sample of the bandwidth that spans the pause after them is up to a third low.
//! With gains of 4.94 and 3 the rounds grew by 2.2 to 2.8. So the gains are 6 and 4, which leaves it to the window's
//! growth, and that is three at most.
//!
//! A queue of 1/64 of the round trip is the sign, seen a round and a sixth after the rate passed the
//! bottleneck's. By then 2.2 bandwidth-delay products are in flight where the draft's window allows 2. That is
//! the price: about a fifth of one is dropped once if the queue holds one. From there on the draft's gains hold.

use std::time::Duration;

use super::full_bw::Verdict;
use super::{Ack, AckEvent, Bbr, State};

/// Segments that one ACK must tell to be lost before the start is taken to have gone too far: a few are chance.
const OVERSHOT: u64 = 16;
/// How much longer than the smallest a round trip must be to show a queue: 1 / 64 ...
const QUEUE_SEEN: u32 = 64;
/// ... and this much, for a burst of our own and the clocks of hosts come to as much.
const NOISE: Duration = Duration::from_millis(1);
/// Rounds after which a `Drain` that does not get there is given up.
const DRAIN_ROUNDS: u64 = 3;

impl Bbr {
    /// `EnterStartup`.
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    /// `CheckFullBWReached`.
    pub(super) fn check_full_bw_reached(&mut self, ack: &Ack<'_>) {
        if self.rounds.starts() {
            if ack.sample.app_limited {
                self.full_bw.on_limited_round();
            } else {
                self.full_bw.on_round(ack.sample.delivery_rate);
            }
            if self.state == State::Startup {
                self.base_loss.on_startup_round(self.grows(), self.config.mss);
            }
        }
        if self.fills_what_trains_told(ack.event) {
            self.full_bw.set_reached(true);
        }
        if self.brisk() {
            self.look_for_full_pipe(ack.event);
        }
    }

    /// The round trip is longer than the smallest by more than the segments that left with this one explain.
    pub(super) fn shows_queue(&self, event: &AckEvent) -> bool {
        let rtts = event.latest_rtt.zip(self.min_rtt.get());
        rtts.is_some_and(|(rtt, min_rtt)| {
            rtt > min_rtt + (min_rtt / QUEUE_SEEN).max(NOISE) + self.train_time()
        })
    }

    /// `CheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, ack: &Ack<'_>) {
        if self.state != State::Startup {
            return;
        }
        if self.startup_loss_is_high(ack) || self.overshot(ack.event) {
            self.undo.state = Some(State::Startup);
            self.full_bw.set_reached(true);
            self.bounds.inflight_longterm = self.bdp(self.bw).max(self.loss_round.latest().inflight);
        }
        if self.full_bw.reached() {
            self.state = State::Drain;
            self.drain_start_round = self.rounds.count();
            self.base_loss.on_startup_done();
        }
    }

    /// `CheckStartupHighLoss`: three criteria, and one more where a base loss rate is kept. That rate is barely
    /// known so early, but a pipe whose delivery rate has just grown by a quarter was not full.
    fn startup_loss_is_high(&self, ack: &Ack<'_>) -> bool {
        self.loss_round.persistent()
            && self.is_inflight_too_high(ack.sample.lost, ack.sample.tx_in_flight)
            && !(self.config.base_loss && self.grows())
    }

    /// What tripling cost is told by one ACK: much of what was in flight is lost, and the delivery rate has ceased to
    /// grow. The draft waits for a whole round in recovery; but what is sent again at more than the path's rate
    /// overflows the queue that is still full, and that costs another round trip.
    fn overshot(&self, event: &AckEvent) -> bool {
        let much = event.lost > self.tolerated_loss(event.in_flight + event.lost)
            && event.lost >= OVERSHOT * self.config.mss;
        self.config.brisk_startup && !self.brisk_startup && !self.grows() && much
    }

    /// The last round grew by a quarter.
    fn grows(&self) -> bool {
        self.full_bw.last() == Some(Verdict::Growing)
    }

    /// `CheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, event: &AckEvent) {
        if self.state == State::Drain
            && (event.in_flight <= self.inflight(self.bw)
                || self.rounds.count() > self.drain_start_round + DRAIN_ROUNDS)
        {
            self.start_probe_bw_down(event.now);
        }
    }

    /// The rate is to triple.
    pub(super) fn brisk(&self) -> bool {
        self.brisk_startup && self.state == State::Startup
    }

    /// Ends the brisk part at the first sign of a full pipe: a queue, a mark, a round that did not grow, or
    /// one that lost much. What is in flight is enough then.
    fn look_for_full_pipe(&mut self, event: &AckEvent) {
        let queue = self.shows_queue(event);
        let flat = self.rounds.starts() && self.full_bw.last() == Some(Verdict::Flat);
        let tally = self.loss_round.tally();
        let loss = self.loss_round.many() && tally.lost > self.tolerated_loss(tally.acked + tally.lost);
        if queue || flat || loss || self.loss_round.marked {
            self.brisk_startup = false;
            self.cwnd = self.cwnd.min(self.max_inflight());
            self.pacing_rate = 0;
        } else if self.rounds.starts() {
            self.raise_ceiling();
        }
    }
}
