//! A waiter in virtual time: how often it looks, and for how long it sleeps.

use std::collections::VecDeque;

use super::*;

/// What a look takes.
const LOOK: Duration = Duration::from_micros(50);
/// What it takes if somebody else gets the processor meanwhile.
const LOST: Duration = Duration::from_millis(3);

/// A system where packets come and the processor is lost at these times after the beginning. Who sleeps without an end
/// when nothing comes any more is asked to end.
struct Script {
    begin: Instant,
    now: Instant,
    packets: VecDeque<Instant>,
    losses: VecDeque<Instant>,
    stop: Option<Instant>,
    /// Looks that did not wait.
    looks: u32,
    /// When sleep began, and for how long it was to be.
    sleeps: Vec<(Duration, Option<Duration>)>,
}

impl Script {
    fn new(packets: &[Duration], losses: &[Duration]) -> Self {
        let begin = clock::now();
        let at = |times: &[Duration]| times.iter().map(|time| begin + *time).collect();
        let (packets, losses) = (at(packets), at(losses));
        Self { begin, now: begin, packets, losses, stop: None, looks: 0, sleeps: Vec::new() }
    }

    fn waiter(self, waiting: Waiting) -> Waiter<Self> {
        Waiter { look: self, prompt: true, vigil: Some(Vigil::new(waiting)) }
    }
}

impl Look for Script {
    fn look(&mut self, timeout: Option<Duration>) -> io::Result<Seen> {
        if timeout == Some(Duration::ZERO) {
            self.looks += 1;
            self.now += LOOK;
            if came(&mut self.losses, self.now) {
                self.now += LOST;
            }
        } else {
            self.sleeps.push((self.now - self.begin, timeout));
            let end = timeout.map(|timeout| self.now + timeout);
            let Some(wake) = self.packets.front().copied().into_iter().chain(end).min() else {
                return Ok(Seen::Stop);
            };
            self.now = self.now.max(wake);
        }
        if self.stop.is_some_and(|at| at <= self.now) {
            return Ok(Seen::Stop);
        }
        Ok(if came(&mut self.packets, self.now) { Seen::Packet } else { Seen::Nothing })
    }

    fn now(&self) -> Instant {
        self.now
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Takes the first of these times, if it has come.
fn came(times: &mut VecDeque<Instant>, now: Instant) -> bool {
    let came = times.front().is_some_and(|at| *at <= now);
    if came {
        times.pop_front();
    }
    came
}

/// Waits to the end, with no deadline.
fn to_the_end(script: Script, waiting: Waiting) -> Script {
    let mut waiter = script.waiter(waiting);
    while waiter.wait(None).unwrap() {}
    waiter.look
}

/// About so many looks take this time.
fn assert_looked(script: &Script, time: Duration) {
    let looked = LOOK * script.looks;
    assert!((time..time + ms(1)).contains(&looked), "{looked:?}");
}

#[test]
fn one_who_is_to_spin_looks_while_packets_pass_and_sleeps_2_s_after_the_last() {
    let script = to_the_end(Script::new(&[ms(1), ms(1000)], &[]), Waiting::Spin);
    let [first, last] = script.sleeps[..] else { panic!("{:?}", script.sleeps) };
    assert!(first.0 < ms(1) && last.0 >= ms(3000), "{first:?} {last:?}");
    assert_eq!((first.1, last.1), (None, None));
    assert_looked(&script, ms(2999));
}

#[test]
fn one_who_may_sleep_sleeps_between_packets() {
    let script = to_the_end(Script::new(&[ms(1), ms(1000)], &[]), Waiting::Sleep);
    assert_eq!(script.sleeps.len(), 3);
    assert_looked(&script, LOOK);
}

#[test]
fn one_who_lost_the_processor_rests_for_50_ms_and_looks_on_though_nothing_comes() {
    let script = to_the_end(Script::new(&[ms(1)], &[ms(1000)]), Waiting::Spin);
    let [_, rests @ .., last] = &script.sleeps[..] else { panic!("{:?}", script.sleeps) };
    let slept: Duration = rests.iter().filter_map(|rest| rest.1).sum();
    assert_eq!(slept, ms(50), "{rests:?}");
    assert!(rests.iter().all(|(at, _)| (ms(1000)..ms(1060)).contains(at)), "{rests:?}");
    assert!(last.0 > ms(2000) && last.1.is_none(), "{last:?}");
    assert_looked(&script, ms(1950).saturating_sub(LOST));
}

#[test]
fn one_who_loses_it_when_nobody_is_waited_for_much_longer_sleeps_on() {
    let late = ms(1981);
    let script = to_the_end(Script::new(&[ms(1)], &[late]), Waiting::Spin);
    let [_, (at, None)] = script.sleeps[..] else { panic!("{:?}", script.sleeps) };
    assert!(at >= late, "{at:?}");
}

#[test]
fn a_deadline_ends_looking_and_resting() {
    for losses in [&[][..], &[ms(10)]] {
        let mut waiter = Script::new(&[ms(1)], losses).waiter(Waiting::Spin);
        assert!(waiter.wait(None).unwrap(), "a packet");
        let deadline = waiter.look.begin + ms(30);
        while waiter.look.now + SPIN < deadline {
            assert!(waiter.wait(Some(deadline)).unwrap());
        }
        assert!(waiter.look.now <= deadline, "{:?} late", waiter.look.now - deadline);
        assert_eq!(waiter.look.sleeps.len() > 1, !losses.is_empty(), "{:?}", waiter.look.sleeps);
    }
}

#[test]
fn the_end_is_seen_awake() {
    let script = Script { stop: Some(clock::now() + ms(1000)), ..Script::new(&[ms(1)], &[]) };
    let script = to_the_end(script, Waiting::Spin);
    assert_eq!(script.sleeps.len(), 1, "before the packet");
}
