//! For how long a waiter looks again and again before it sleeps.
//!
//! Knows times only: neither what is looked at nor how. Measured: docs/PERFORMANCE.md, "The emulator for other programs".

use std::mem;
use std::time::{Duration, Instant};

/// How a relay spends the time between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Waiting {
    /// Stay awake on a processor of its own while packets pass, so that none is late by a wake-up of this host
    #[default]
    Spin,
    /// Sleep, and leave the processor to others: packets may be late by what a wake-up takes
    Sleep,
}

/// How long one who may sleep looks first: going to sleep and being woken takes about as long. See
/// `rdt_udp::Waiter`.
const BUSY: Duration = Duration::from_micros(20);
/// Waits that sleep at once after looking was in vain.
const SLEEPS: u32 = 16;
/// How long after the last packet one stays awake who is to spin: longer than a ping's second.
const AWAKE: Duration = Duration::from_secs(2);
/// Who gets no look in for so long has lost the processor to somebody else, who has more use for it.
const GAP: Duration = Duration::from_micros(200);
/// How long one who lost the processor sleeps at least: whoever runs beside him would delay him by a time slice again.
const SHORTEST_REST: Duration = Duration::from_millis(50);
/// And at most, if he loses it each time that he tries again.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// When to look and when to sleep.
#[derive(Debug)]
pub(crate) struct Vigil {
    waiting: Waiting,
    /// Waits that are to sleep at once.
    sleeps: u32,
    /// A packet has come since the last wait.
    packet: bool,
    /// One who is to spin does so until then.
    awake_until: Option<Instant>,
    /// And sleeps until then, for so long.
    rest_until: Option<Instant>,
    rest: Duration,
}

impl Vigil {
    pub(crate) fn new(waiting: Waiting) -> Self {
        Self { waiting, sleeps: 0, packet: false, awake_until: None, rest_until: None, rest: SHORTEST_REST }
    }

    /// A wait begins: until when to look before sleeping.
    pub(crate) fn look_until(&mut self, now: Instant) -> Instant {
        if mem::take(&mut self.packet) && self.waiting == Waiting::Spin {
            self.awake_until = Some(now + AWAKE);
        }
        if let Some(awake_until) = self.awake_until
            && self.rest_until.is_none_or(|rest_until| rest_until <= now)
            && now < awake_until
        {
            return awake_until;
        }
        if self.sleeps > 0 {
            self.sleeps -= 1;
            return now;
        }
        now + BUSY
    }

    /// Sleep begins: when it is to end even if nothing comes, because it is a rest of one who is to look on.
    pub(crate) fn awake_at(&self, now: Instant) -> Option<Instant> {
        let awake_until = self.awake_until?;
        self.rest_until.filter(|rest_until| now < *rest_until && *rest_until < awake_until)
    }

    /// There is a packet.
    pub(crate) fn on_packet(&mut self) {
        self.packet = true;
    }

    /// Looking was in vain, and sleep follows.
    pub(crate) fn on_vain(&mut self) {
        self.sleeps = SLEEPS;
    }

    /// A look has followed on another. True if somebody else had the processor in between, and it is better to sleep.
    pub(crate) fn is_in_the_way(&mut self, before: Instant, now: Instant) -> bool {
        if now.saturating_duration_since(before) < GAP {
            return false;
        }
        let soon = self.rest_until.is_some_and(|rest_until| now < rest_until + self.rest);
        self.rest = if soon { (self.rest * 2).min(LONGEST_REST) } else { SHORTEST_REST };
        self.rest_until = Some(now + self.rest);
        true
    }
}

#[cfg(test)]
mod tests {
    use rdt_udp::clock;

    use super::*;

    const MOMENT: Duration = Duration::from_micros(1);

    #[test]
    fn one_who_may_sleep_looks_for_a_moment_and_after_that_was_in_vain_not_for_some_waits() {
        let mut vigil = Vigil::new(Waiting::Sleep);
        let now = clock::now();
        vigil.on_packet();
        assert_eq!(vigil.look_until(now), now + BUSY);
        vigil.on_vain();
        for _ in 0..SLEEPS {
            assert_eq!(vigil.look_until(now), now);
        }
        assert_eq!(vigil.look_until(now), now + BUSY);
    }

    #[test]
    fn one_who_is_to_spin_stays_awake_while_packets_pass_and_sleeps_when_none_do() {
        let mut vigil = Vigil::new(Waiting::Spin);
        let now = clock::now();
        assert_eq!(vigil.look_until(now), now + BUSY, "no packet has come yet");
        vigil.on_vain();
        vigil.on_packet();
        assert_eq!(vigil.look_until(now), now + AWAKE);
        let ping = now + Duration::from_secs(1);
        assert_eq!(vigil.look_until(ping), now + AWAKE);
        assert_eq!(vigil.look_until(now + AWAKE), now + AWAKE, "it sleeps at once");
    }

    #[test]
    fn one_who_loses_the_processor_sleeps_for_longer_each_time_until_he_has_kept_it() {
        let mut vigil = Vigil::new(Waiting::Spin);
        let mut now = clock::now();
        let mut lose = |vigil: &mut Vigil, after: Duration| {
            let before = now + after;
            now = before + GAP;
            vigil.on_packet();
            vigil.on_vain();
            assert!(vigil.look_until(before) > before);
            assert!(vigil.is_in_the_way(before, now));
            assert_eq!(vigil.look_until(now), now);
            vigil.rest
        };
        assert_eq!(lose(&mut vigil, Duration::ZERO), SHORTEST_REST);
        assert_eq!(lose(&mut vigil, SHORTEST_REST), 2 * SHORTEST_REST);
        assert_eq!(lose(&mut vigil, 2 * SHORTEST_REST), 4 * SHORTEST_REST);
        assert_eq!(lose(&mut vigil, 9 * SHORTEST_REST), SHORTEST_REST);
        assert!(!vigil.is_in_the_way(now + MOMENT, now + GAP));
    }
}
