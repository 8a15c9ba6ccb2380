//! Busy polling in virtual time: number of polls, and length of sleeps.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::*;

const POLL: Duration = Duration::from_micros(50);
const PREEMPTED_POLL: Duration = Duration::from_millis(3);

/// Host with packets and preemptions at given times. Ends the test when the thread sleeps without a
/// timeout after the last packet.
struct Script {
    begin: Instant,
    now: Instant,
    packets: VecDeque<Instant>,
    preemptions: VecDeque<Instant>,
    stopped: bool,
    polls: u32,
    /// Start of each sleep since the beginning of the test, and its timeout.
    sleeps: Vec<(Duration, Option<Duration>)>,
}

impl Script {
    fn new(packets: &[Duration], preemptions: &[Duration]) -> RefCell<Self> {
        let begin = clock::now();
        let at = |times: &[Duration]| times.iter().map(|time| begin + *time).collect();
        let (packets, preemptions) = (at(packets), at(preemptions));
        RefCell::new(Self {
            begin,
            now: begin,
            packets,
            preemptions,
            stopped: false,
            polls: 0,
            sleeps: Vec::new(),
        })
    }

    fn poll(&mut self, timeout: Option<Duration>) -> bool {
        if timeout == Some(Duration::ZERO) {
            self.polls += 1;
            self.now += POLL;
            if take_due(&mut self.preemptions, self.now) {
                self.now += PREEMPTED_POLL;
            }
        } else {
            self.sleeps.push((self.now - self.begin, timeout));
            let end = timeout.map(|timeout| self.now + timeout);
            let Some(wake) = self.packets.front().copied().into_iter().chain(end).min() else {
                self.stopped = true;
                return true;
            };
            self.now = self.now.max(wake);
        }
        take_due(&mut self.packets, self.now)
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Removes the first of `times` if it has passed; returns true if so.
fn take_due(times: &mut VecDeque<Instant>, now: Instant) -> bool {
    let due = times.front().is_some_and(|at| *at <= now);
    if due {
        times.pop_front();
    }
    due
}

fn busy_poll(policy: Policy) -> BusyPoll {
    BusyPoll { enabled: true, ..BusyPoll::new(policy) }
}

fn wait(busy_poll: &mut BusyPoll, script: &RefCell<Script>, deadline: Option<Instant>) {
    let now = script.borrow().now;
    let poll = |timeout| Ok(script.borrow_mut().poll(timeout));
    busy_poll.wait_by(|| script.borrow().now, now, deadline, poll).unwrap();
}

/// Waits without a deadline until the script stops.
fn run(script: RefCell<Script>, policy: Policy) -> Script {
    let mut busy_poll = busy_poll(policy);
    while !script.borrow().stopped {
        wait(&mut busy_poll, &script, None);
    }
    script.into_inner()
}

fn assert_polled(script: &Script, time: Duration) {
    let polled = POLL * script.polls;
    assert!((time..time + ms(1)).contains(&polled), "{polled:?}");
}

#[test]
fn brief_policy_polls_once_then_sleeps_16_waits() {
    let mut busy_poll = busy_poll(Policy::Brief);
    let script = Script::new(&[], &[]);
    let deadline = |script: &RefCell<Script>| Some(script.borrow().now + ms(1));
    for polls in [1, 2] {
        wait(&mut busy_poll, &script, deadline(&script));
        assert_eq!((script.borrow().polls, busy_poll.sleeps), (polls, SLEEPS_AFTER_POLL));
        for left in (0..SLEEPS_AFTER_POLL).rev() {
            wait(&mut busy_poll, &script, deadline(&script));
            assert_eq!((script.borrow().polls, busy_poll.sleeps), (polls, left));
        }
    }
}

#[test]
fn brief_policy_sleeps_between_packets() {
    let script = run(Script::new(&[ms(1), ms(1000)], &[]), Policy::Brief);
    assert_eq!(script.sleeps.len(), 3);
    assert_polled(&script, POLL);
}

#[test]
fn successful_poll_permits_next_poll() {
    let mut busy_poll = busy_poll(Policy::Brief);
    let script = Script::new(&[Duration::ZERO], &[]);
    wait(&mut busy_poll, &script, None);
    assert_eq!((script.borrow().polls, busy_poll.sleeps), (1, 0));
}

#[test]
fn single_processor_sleeps_at_once() {
    let mut busy_poll = BusyPoll { enabled: false, ..busy_poll(Policy::WhilePacketsPass) };
    let script = Script::new(&[ms(1)], &[]);
    for _ in 0..2 {
        wait(&mut busy_poll, &script, None);
    }
    assert_eq!((script.borrow().polls, script.borrow().sleeps.len()), (0, 2));
}

#[test]
fn awake_policy_polls_until_2_s_after_packet() {
    let script = run(Script::new(&[ms(1), ms(1000)], &[]), Policy::WhilePacketsPass);
    let [first, last] = script.sleeps[..] else { panic!("{:?}", script.sleeps) };
    assert!(first.0 < ms(1) && last.0 >= ms(3000), "{first:?} {last:?}");
    assert_eq!((first.1, last.1), (None, None));
    assert_polled(&script, ms(2999));
}

#[test]
fn preempted_thread_rests_50_ms_then_polls_on() {
    let script = run(Script::new(&[ms(1)], &[ms(1000)]), Policy::WhilePacketsPass);
    let [_, rests @ .., last] = &script.sleeps[..] else { panic!("{:?}", script.sleeps) };
    let slept: Duration = rests.iter().filter_map(|rest| rest.1).sum();
    assert_eq!(slept, ms(50), "{rests:?}");
    assert!(rests.iter().all(|(at, _)| (ms(1000)..ms(1060)).contains(at)), "{rests:?}");
    assert!(last.0 > ms(2000) && last.1.is_none(), "{last:?}");
    assert_polled(&script, ms(1950).saturating_sub(PREEMPTED_POLL));
}

#[test]
fn preemption_near_end_of_polling_sleeps_on() {
    let late = ms(1981);
    let script = run(Script::new(&[ms(1)], &[late]), Policy::WhilePacketsPass);
    let [_, (at, None)] = script.sleeps[..] else { panic!("{:?}", script.sleeps) };
    assert!(at >= late, "{at:?}");
}

#[test]
fn rest_doubles_until_processor_is_kept() {
    let mut busy_poll = busy_poll(Policy::WhilePacketsPass);
    let mut now = clock::now();
    let mut preempt = |after: Duration| {
        let before = now + after;
        now = before + PREEMPTION_GAP;
        assert!(busy_poll.was_preempted(before, now));
        busy_poll.rest
    };
    assert_eq!(preempt(Duration::ZERO), MIN_REST);
    assert_eq!(preempt(MIN_REST), 2 * MIN_REST);
    assert_eq!(preempt(2 * MIN_REST), 4 * MIN_REST);
    assert_eq!(preempt(9 * MIN_REST), MIN_REST);
    assert!(!busy_poll.was_preempted(now, now + PREEMPTION_GAP / 2));
}

#[test]
fn deadline_ends_polling_and_rest() {
    for preemptions in [&[][..], &[ms(10)]] {
        let script = Script::new(&[ms(1)], preemptions);
        let mut busy_poll = busy_poll(Policy::WhilePacketsPass);
        wait(&mut busy_poll, &script, None);
        let deadline = script.borrow().begin + ms(30);
        while script.borrow().now + POLL < deadline {
            wait(&mut busy_poll, &script, Some(deadline));
        }
        let script = script.into_inner();
        assert!(script.now <= deadline + 2 * POLL, "{:?} late", script.now - deadline);
        assert_eq!(script.sleeps.len() > 1, !preemptions.is_empty(), "{:?}", script.sleeps);
    }
}

#[test]
fn loop_polls_briefly_after_sixteen_waits() {
    let (mut busy_poll, now) = (BusyPoll::new(Policy::Brief), clock::now());
    busy_poll.enabled = true;
    for _ in 0..2 {
        assert!(busy_poll.should_poll(now));
        assert!(!busy_poll.should_poll(now + BRIEF_POLL));
        assert!((0..SLEEPS_AFTER_POLL).all(|_| !busy_poll.should_poll(now)));
    }
    // What was found begins a new time of polling.
    for later in [now, now + BRIEF_POLL] {
        assert!(busy_poll.should_poll(later));
        busy_poll.note_ready();
    }
}
