//! Congestion control of one transfer: the controller, its reductions, and the window and pacing
//! rate that follow from it.

use std::time::{Duration, Instant};

use super::SenderConfig;
use super::blocked::BlockedTime;
use crate::MAX_DATAGRAM;
use crate::congestion::{Controller, LostPacket, Pacer, Prr, PrrAck};
use crate::recovery::Scoreboard;

/// Largest number of segments in one send call.
const MAX_BATCH_SEGMENTS: usize = 64;

/// State just before an ACK or a timeout, from which window reductions are computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prior {
    /// Bytes in flight (`pipe` of RFC 6675).
    pub(super) in_flight: u64,
    /// `RecoverFS`, bytes: outstanding, less what SACK or duplicate ACKs already reported as
    /// delivered (RFC 9937, section 6).
    pub(super) recover_fs: u64,
    /// Receive window, packets (classic) or bytes (native).
    pub(super) window: u64,
    /// Bytes that duplicate ACKs show to be delivered, without naming the segments.
    pub(super) assumed: u64,
}

impl Prior {
    /// Returns the state before the next ACK or timeout.
    pub(super) fn of(board: &Scoreboard, window: u64) -> Self {
        Self {
            in_flight: board.in_flight(),
            recover_fs: board.undelivered(),
            window,
            assumed: board.assumed(),
        }
    }
}

pub(super) struct CongestionControl {
    pub(super) controller: Box<dyn Controller>,
    /// The controller's window, limited by the sender's window W and memory, bytes.
    pub(super) cwnd: u64,
    /// Proportional rate reduction, during recovery.
    pub(super) prr: Option<Prr>,
    pub(super) pacer: Option<Pacer>,
    /// Bytes declared lost since the last `on_ack` of the controller.
    lost_since_ack: u64,
    /// True if the latest recovery began with a response of the controller, which can be undone.
    /// False if a path MTU probe or a zero-window probe was overdue: the window did not change, so
    /// the controller would undo an earlier recovery.
    pub(super) undoable: bool,
}

impl CongestionControl {
    /// Returns the initial state, before the handshake, for segments of `mss` bytes.
    pub(super) fn new(config: &SenderConfig, mss: usize) -> Self {
        let controller = config.controller(None, mss);
        Self {
            cwnd: config.within_memory(controller.cwnd(), mss),
            controller,
            prr: None,
            pacer: config.pacing.then(|| Pacer::new(mss as u64)),
            lost_since_ack: 0,
            undoable: false,
        }
    }

    /// True if the sender is cwnd-limited.
    pub(super) fn is_limiting(&self, blocked: &BlockedTime) -> bool {
        blocked.used_cwnd(self.cwnd, self.controller.pacing_rate().is_none())
    }

    /// Returns `FlightSize` for a reduction, bytes: cwnd if the sender is cwnd-limited, else
    /// min(cwnd, `pipe`). So data that is selectively acknowledged or was sent by limited transmit
    /// does not count (RFC 5681, section 3.2, step 2; RFC 6675, section 5, step 4.2).
    pub(super) fn flight_size(&self, prior: &Prior, blocked: &BlockedTime) -> u64 {
        if self.is_limiting(blocked) { self.cwnd } else { self.cwnd.min(prior.in_flight) }
    }

    /// Returns the bytes that the window allows with `in_flight` bytes in flight.
    pub(super) fn room(&self, in_flight: u64) -> u64 {
        match &self.prr {
            Some(prr) => prr.sndcnt(),
            None => self.cwnd.saturating_sub(in_flight),
        }
    }

    /// True if the window allows `len` bytes with `in_flight` bytes in flight.
    pub(super) fn allows(&self, in_flight: u64, len: usize) -> bool {
        in_flight == 0 || len as u64 <= self.room(in_flight)
    }

    /// Returns the time at which the pacer allows `bytes`; `None` if it does now.
    pub(super) fn paced_until(&self, now: Instant, bytes: u64) -> Option<Instant> {
        self.pacer.as_ref()?.next_send_at(now, bytes).filter(|at| *at > now)
    }

    /// Returns how many of `count` segments of `len` bytes the pacer allows now.
    pub(super) fn paced(&self, now: Instant, len: usize, count: u64) -> u64 {
        self.pacer.as_ref().map_or(count, |pacer| pacer.allows(now, len as u64, count))
    }

    /// Records the transmission of `bytes`, after which `in_flight` bytes are in flight.
    /// `app_limited` is `None` in the classic format, which reports nothing to the controller.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64, app_limited: Option<bool>) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, bytes);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(bytes);
        }
        if let Some(app_limited) = app_limited {
            self.controller.on_sent(now, bytes, in_flight, app_limited);
        }
    }

    /// Records a loss of `bytes` in the network; `packet` describes the transmission, if recorded.
    pub(super) fn on_lost(&mut self, bytes: u64, packet: Option<&LostPacket>) {
        self.lost_since_ack += bytes;
        if let Some(packet) = packet {
            self.controller.on_packet_lost(packet);
        }
    }

    /// Returns and clears the bytes declared lost since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost_since_ack)
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost_since_ack > 0
    }

    /// Updates PRR with an ACK, after which `pipe` bytes are in flight.
    pub(super) fn on_ack_in_recovery(&mut self, delivered: u64, pipe: u64, safe: bool) {
        if let Some(prr) = &mut self.prr {
            let ssthresh = self.controller.ssthresh().unwrap_or(u64::MAX);
            prr.on_ack(&PrrAck { delivered, pipe, ssthresh, safe });
        }
    }

    /// Adapts to datagrams of `size` bytes with `mss` bytes of payload.
    pub(super) fn resize(&mut self, config: &SenderConfig, size: usize, mss: usize) {
        self.controller.on_mss(mss as u64);
        self.cwnd = config.within_memory(self.controller.cwnd(), mss);
        if let Some(pacer) = &mut self.pacer {
            let batch = (MAX_DATAGRAM / size).min(MAX_BATCH_SEGMENTS) * mss;
            pacer.set_sizes(mss as u64, batch as u64);
        }
    }

    /// Adopts window and pacing rate of the controller. Returns the pacing rate, bytes per second.
    /// For a controller without a rate it is cwnd / `srtt`, times 2 in slow start and 1.2
    /// afterwards (as in Linux).
    pub(super) fn follow_controller(
        &mut self,
        now: Instant,
        config: &SenderConfig,
        mss: usize,
        srtt: Duration,
    ) -> Option<u64> {
        self.cwnd = config.within_memory(self.controller.cwnd(), mss);
        let pacer = self.pacer.as_mut()?;
        let srtt = srtt.max(Duration::from_micros(1));
        let rate = self.controller.pacing_rate().unwrap_or_else(|| {
            let cwnd = self.controller.cwnd();
            let slow_start = self.controller.ssthresh().is_none_or(|ssthresh| cwnd < ssthresh);
            let gain = if slow_start { 20 } else { 12 };
            let per_second = u128::from(cwnd) * 1_000_000_000 * gain / (10 * srtt.as_nanos());
            u64::try_from(per_second).unwrap_or(u64::MAX)
        });
        pacer.set_train(self.controller.train());
        pacer.set_rate(now, Some(rate));
        Some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Algorithm, Cause, CongestionEvent};
    use rdt_testing::{epoch, ms};

    fn reno() -> (SenderConfig, CongestionControl) {
        let config = SenderConfig { congestion: Algorithm::Reno, ..SenderConfig::native(7) };
        let control = CongestionControl::new(&config, config.first_payload_size(&config.codec()));
        (config, control)
    }

    #[test]
    fn lost_bytes_are_taken_once() {
        let (_, mut control) = reno();
        assert!(!control.has_lost());
        control.on_lost(100, None);
        control.on_lost(50, None);
        assert!(control.has_lost());
        assert_eq!((control.take_lost(), control.take_lost()), (150, 0));
        assert!(!control.has_lost());
    }

    #[test]
    fn pace_is_two_or_1_2_windows_per_rtt() {
        let ((config, mut control), now) = (reno(), epoch());
        let cwnd = control.controller.cwnd();
        assert_eq!(control.follow_controller(now, &config, 1444, ms(100)), Some(cwnd * 20));
        let flight_size = cwnd;
        control.controller.on_congestion(&CongestionEvent { now, cause: Cause::Loss, flight_size });
        let cwnd = control.controller.cwnd();
        assert_eq!(control.controller.ssthresh(), Some(cwnd), "slow start is over");
        assert_eq!(control.follow_controller(now, &config, 1444, ms(100)), Some(cwnd * 12));
    }

    #[test]
    fn burst_is_two_datagrams_of_offload() {
        for (size, packets) in [(1200, 54), (8972, 7), (600, 64)] {
            let ((config, mut control), now) = (reno(), epoch());
            let mss = size - 100;
            control.resize(&config, size, mss);
            let pacer = control.pacer.as_mut().unwrap();
            pacer.set_rate(now, Some(10_000_000_000));
            assert_eq!(pacer.burst(), 2 * packets * mss as u64, "{size}");
        }
    }
}
