//! `Startup` that ended too early, and is resumed. A deviation: the draft has nothing like it.
//!
//! On a path that loses packets at random, `Startup` may end far below the rate of the path: three
//! rounds in a row lose so much that their rate does not grow, or a round loses more than 2 %
//! before the base loss rate is known, or lost packets make the trains of a long path look slow.
//! `ProbeBW` then takes seconds to find the rate, by a quarter each round after a wait of 2 to 3 s.
//!
//! A pipe that was full has a queue, which the RTT shows, or it drops packets for want of one. The
//! base loss rate is known one or two rounds after the end of `Startup`. If it explains all loss
//! since, the bounds that loss has set are void. If besides no RTT was longer than the minimum by
//! a part in [`QUEUE_RTT_DIVISOR`], `Startup` is resumed and doubles the rate. A further resumption
//! needs growth by [`GROWTH_PERMILLE`] since the one before. A resumed `Startup` ends at the first
//! queue of an eighth of the RTT, before it overflows one.
//!
//! Switch: `base_loss` of [`BbrConfig`](super::BbrConfig).

use super::base_loss::{Tally, queue_is_empty};
use super::bounds::Bounds;
use super::math::gain;
use super::startup::RTT_NOISE;
use super::{Ack, Bbr, State};

/// The pipe was full if the RTT exceeded `min_rtt` by one part in this many and by the noise.
const QUEUE_RTT_DIVISOR: u32 = 32;
/// Growth of the bandwidth between two resumptions, thousandths.
const GROWTH_PERMILLE: u64 = 1250;

/// Doubts about the end of `Startup`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Resume {
    /// True while the end of `Startup` may turn out to be wrong.
    is_open: bool,
    /// True if the RTT showed a queue: the pipe was full.
    had_queue: bool,
    /// True while `Startup` runs again.
    pub(super) is_resumed: bool,
    /// Bandwidth at the end of `Startup` before the newest resumption, bytes per second.
    bw: u64,
    /// Bytes delivered and lost in the last round of `Startup` and since.
    tally: Tally,
    /// Bytes lost in all of the current `Startup`. Its last round may have lost nothing.
    pub(super) lost_in_startup: u64,
}

impl Bbr {
    /// Notes the end of `Startup`.
    pub(super) fn doubt_end_of_startup(&mut self) {
        let bw = self.max_bw.max();
        let has_grown = bw >= gain(self.resume.bw, GROWTH_PERMILLE);
        self.resume = Resume {
            is_open: self.config.base_loss && self.resume.lost_in_startup > 0 && !self.loss_round.marked,
            had_queue: !has_grown,
            is_resumed: false,
            bw,
            tally: self.loss_round.tally,
            lost_in_startup: 0,
        };
    }

    /// Resumes `Startup` if it ended too early.
    pub(super) fn check_end_of_startup(&mut self, ack: &Ack<'_>) {
        if !self.resume.is_open || !self.full_bw.reached {
            return;
        }
        let Some((rtt, min_rtt)) = ack.event.latest_rtt.zip(self.min_rtt.get()) else { return };
        self.resume.had_queue |= rtt > min_rtt + (min_rtt / QUEUE_RTT_DIVISOR).max(RTT_NOISE);
        if self.loss_round.marked || self.state.probes_bandwidth() {
            self.resume.is_open = false;
            return;
        }
        if !self.loss_round.over || self.state == State::Drain {
            return;
        }
        let tally = self.loss_round.tally;
        self.resume.tally.add(tally.acked, tally.lost);
        if self.base_loss.is_known(self.config.mss) && self.state != State::ProbeRtt {
            self.resume.is_open = false;
            if self.resume.tally.lost > self.tolerated_loss(self.resume.tally.sent()) {
                return;
            }
            // The bounds that loss has set mean nothing.
            self.bounds = Bounds::default();
            if !self.resume.had_queue {
                self.resume_startup();
            }
        }
    }

    fn resume_startup(&mut self) {
        self.resume.is_resumed = true;
        // Trains gave a wrong rate.
        self.start.trains.on = false;
        self.full_bw.reset(self.max_bw.max());
        self.full_bw.reached = false;
        self.state = State::Startup;
    }

    /// True if the resumed `Startup` has filled the pipe.
    pub(super) fn resumed_startup_has_queue(&self, ack: &Ack<'_>) -> bool {
        let rtts = ack.event.latest_rtt.zip(self.min_rtt.get());
        self.resume.is_resumed && rtts.is_some_and(|(rtt, min_rtt)| !queue_is_empty(rtt, min_rtt))
    }
}
