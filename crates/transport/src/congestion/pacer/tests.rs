//! Pacer: its schedule in exact numbers, and against a naive model.

use super::*;
use rdt_testing::{epoch, random};

const MSS: u64 = 1472;
const BATCH: u64 = 44 * MSS;

fn paced(now: Instant, rate: u64) -> Pacer {
    let mut pacer = Pacer::new(MSS, None);
    pacer.set_rate(now, Some(rate));
    pacer
}

#[test]
fn burst_is_two_batches_or_millisecond() {
    let now = epoch();
    for (rate, burst) in [
        (1, 2944),
        (1_000_000, 2944),
        (2_944_000, 2944),
        (3_000_000, 3000),
        (50_000_000, 50_000),
        (64_768_000, BATCH),
        (129_536_000, 2 * BATCH),
        (10_000_000_000, 2 * BATCH),
    ] {
        assert_eq!(paced(now, rate).burst(), burst, "{rate} bytes/s");
    }
    assert_eq!(Pacer::new(MSS, None).burst(), u64::MAX);
    let mut pacer = paced(now, 10_000_000_000);
    pacer.set_sizes(1000, 16_000);
    assert_eq!(pacer.burst(), 32_000);
}

/// Waiting for a batch at 200 MB/s, then 30 MB/s: a burst of 1 ms remains.
#[test]
fn lower_rate_keeps_one_burst() {
    let mut pacer = paced(epoch(), 200_000_000);
    let mut now = epoch() + Duration::from_secs(1);
    pacer.on_sent(now, pacer.burst());
    pacer.on_stopped(now, true);
    now += Duration::from_micros(300);
    pacer.set_rate(now, Some(30_000_000));
    assert_eq!(pacer.allows(now, MSS, u64::MAX), 30_000 / MSS);
    // Tokens beyond a burst are lateness, which is as long at the lower rate.
    let mut pacer = paced(epoch(), 200_000_000);
    pacer.on_stopped(epoch(), true);
    now = epoch() + Duration::from_millis(2);
    let late = 2 * MSS + 400_000 - pacer.burst();
    pacer.set_rate(now, Some(30_000_000));
    assert_eq!(pacer.allows(now, MSS, u64::MAX), (30_000 + late * 3 / 20) / MSS);
}

#[test]
fn fast_rate_sends_whole_batches() {
    // A batch takes BATCH nanoseconds.
    let mut pacer = paced(epoch(), 1_000_000_000);
    let mut now = epoch() + Duration::from_secs(1);
    assert_eq!(pacer.allows(now, MSS, u64::MAX), 88);
    pacer.on_sent(now, 88 * MSS);
    for late in [0, 40_000, 10_000, BATCH] {
        let due = now + Duration::from_nanos(BATCH);
        assert_eq!(pacer.next_send_at(now, MSS), Some(due));
        let early = now + Duration::from_nanos(BATCH - 1);
        assert_eq!(pacer.allows(early, MSS, 9), 0);
        // Time that a wake-up comes late is not lost.
        now = due + Duration::from_nanos(late);
        assert_eq!(pacer.allows(now, MSS, u64::MAX), 44 + late / MSS);
        pacer.on_sent(now, BATCH + late);
    }
}

#[test]
fn bucket_with_rate_begins_full() {
    let now = epoch();
    let mut pacer = Pacer::new(MSS, Some(1_472_000));
    assert_eq!(pacer.allows(now, MSS, 9), 2);
    pacer.on_sent(now, 2 * MSS);
    assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(1)));
}

#[test]
fn unpaced_sending_never_waits() {
    let now = epoch();
    let mut pacer = Pacer::new(MSS, None);
    for _ in 0..1000 {
        assert_eq!(pacer.next_send_at(now, 1_000_000), None);
        pacer.on_sent(now, 1_000_000);
    }
    // Unpaced sending leaves no debt.
    pacer.set_rate(now, Some(1_000_000));
    assert_eq!(pacer.next_send_at(now, 2 * MSS), None);
}

#[test]
fn segments_follow_burst_at_rate() {
    // 1472 bytes at 1,472,000 bytes/s: one segment per millisecond.
    let now = epoch();
    let mut pacer = paced(now, 1_472_000);
    for _ in 0..2 {
        assert_eq!(pacer.next_send_at(now, MSS), None);
        pacer.on_sent(now, MSS);
    }
    for i in 1..=100 {
        let due = now + Duration::from_millis(i);
        let early = now + Duration::from_micros(1000 * i - 400);
        assert_eq!(pacer.next_send_at(early, MSS), Some(due));
        assert_eq!(pacer.next_send_at(due, MSS), None);
        pacer.on_sent(due, MSS);
    }
}

#[test]
fn idle_time_saves_one_burst() {
    let begin = epoch();
    let mut pacer = paced(begin, 1_472_000);
    let now = begin + Duration::from_secs(1_000_000);
    pacer.on_sent(now, 2 * MSS);
    assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(1)));
}

#[test]
fn late_wake_ups_keep_rate() {
    let rate = 12_500_000;
    let mut pacer = Pacer::new(MSS, Some(rate));
    let (mut now, mut sent) = (epoch(), 0);
    for _ in 0..250 {
        let count = pacer.allows(now, MSS, u64::MAX);
        pacer.on_sent(now, count * MSS);
        pacer.on_stopped(now, true);
        sent += count * MSS;
        now += Duration::from_millis(4);
    }
    assert!(sent > rate * 99 / 100, "{sent} bytes");
}

#[test]
fn catch_up_is_limited_to_wait_for_tokens() {
    // Segments that leave at once, by rate, reason to stop, and wait in ms.
    for (rate, is_awaited, millis, segments) in [
        (14_720_000, true, 5, 50),
        (14_720_000, true, 10, 100),
        (14_720_000, true, 1000, 100),
        (14_720_000, false, 1000, 10),
        (1_472_000, true, 1000, 10),
        (1_472_000, false, 1000, 2),
    ] {
        let mut pacer = Pacer::new(MSS, Some(rate));
        let now = epoch();
        pacer.on_sent(now, pacer.burst());
        pacer.on_stopped(now, is_awaited);
        let now = now + Duration::from_millis(millis);
        assert_eq!(pacer.allows(now, MSS, u64::MAX), segments, "{rate} {is_awaited} {millis}");
        // The window is full before the credit is used up.
        pacer.on_stopped(now, false);
        assert!(pacer.allows(now, MSS, u64::MAX) <= pacer.burst() / MSS);
    }
}

#[test]
fn debt_is_paid_at_next_rate() {
    let now = epoch();
    let mut pacer = paced(now, 1_472_000);
    // Ten segments at once with tokens for two: a debt of eight before the next one.
    assert_eq!(pacer.next_send_at(now, 10 * MSS), None);
    pacer.on_sent(now, 10 * MSS);
    assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(9)));
    // Half of the wait, then twice the rate, then unpaced.
    let now = now + Duration::from_millis(4);
    pacer.set_rate(now, Some(2 * 1_472_000));
    assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_micros(2500)));
    pacer.set_rate(now, None);
    let now = now + Duration::from_secs(1);
    pacer.set_rate(now, Some(1_472_000));
    assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(5)));
}

#[test]
fn interval_carries_rate_plus_burst_at_most() {
    // Sizes and waits from a xorshift; the sender follows the pacer exactly.
    for seed in 1..=40_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut below = |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % end
        };
        let magnitude = 10 + below(22);
        let rate = 1 + below(1 << magnitude);
        let mut now = epoch();
        let mut pacer = paced(now, rate);
        let burst = pacer.burst();
        let begin = now;
        // (when, bytes sent before it)
        let mut log = vec![];
        let mut sent = 0;
        for _ in 0..400 {
            let bytes = 1 + below(burst);
            if let Some(due) = pacer.next_send_at(now, bytes) {
                now = due + Duration::from_nanos(if below(3) == 0 { below(2_000_000) } else { 0 });
            }
            log.push((now.duration_since(begin).as_nanos(), sent));
            pacer.on_sent(now, bytes);
            sent += bytes;
            let end = now.duration_since(begin).as_nanos();
            for (from, before) in log.iter().rev().step_by(7) {
                let allowed = u128::from(rate) * (end - from) + u128::from(burst) * u128::from(NANO);
                let got = u128::from(sent - before) * u128::from(NANO);
                assert!(got <= allowed, "seed {seed}, rate {rate}: {got} of {allowed} after {end} ns");
            }
        }
    }
}

#[test]
fn allowance_of_run_equals_single_segments() {
    for seed in 1..=400_u64 {
        let mut below = random(seed);
        let mut now = epoch();
        let mut by_run = Pacer::new(1 + below(9000), None);
        let mut by_one = by_run.clone();
        for step in 0..200 {
            match below(8) {
                0 => {
                    let magnitude = 1 + below(50);
                    let rate = (below(5) > 0).then_some(below(1 << magnitude));
                    by_run.set_rate(now, rate);
                    by_one.set_rate(now, rate);
                }
                1 => {
                    let (mss, batch) = (below(9000), below(70_000));
                    by_run.set_sizes(mss, batch);
                    by_one.set_sizes(mss, batch);
                }
                _ => {}
            }
            // A clock may step back.
            let magnitude = 1 + below(34);
            let wait = Duration::from_nanos(below(1 << magnitude));
            now = if below(20) == 0 { now.checked_sub(wait).unwrap() } else { now + wait };
            let longest = if below(10) == 0 { 200_000 } else { 9000 };
            let (len, most) = (below(longest), below(200));
            // Runs are of full segments, where the rate demands whole batches.
            let len = if by_run.refill().is_some() { len.max(by_run.mss) } else { len };
            let mut expected = 0;
            while expected < most && by_one.next_send_at(now, len).is_none() {
                by_one.on_sent(now, len);
                expected += 1;
            }
            let count = by_run.allows(now, len, most);
            assert_eq!(count, expected, "seed {seed} step {step}: {len} bytes, of {most}");
            if count > 0 {
                by_run.on_sent(now, count * len);
            }
            let books = |pacer: &Pacer| (pacer.level, pacer.updated, pacer.next_send_at(now, len));
            assert_eq!(books(&by_run), books(&by_one), "seed {seed} step {step}");
        }
    }
}

#[test]
fn hour_at_odd_rate_is_exact() {
    for rate in [1, 999, 7919, 123_457, 1_234_567] {
        let begin = epoch();
        let mut pacer = paced(begin, rate);
        let mut now = begin;
        let mut sent = 0;
        while now < begin + Duration::from_secs(3600) {
            if let Some(due) = pacer.next_send_at(now, MSS) {
                now = due;
            } else {
                pacer.on_sent(now, MSS);
                sent += MSS;
            }
        }
        // One hour at the rate, plus the initial burst of two segments.
        let expected = 3600 * rate + 2 * MSS;
        assert!(sent.abs_diff(expected) <= MSS, "{rate} bytes/s: {sent} instead of {expected}");
    }
}

#[test]
fn extreme_rates_and_times_do_not_overflow() {
    let begin = epoch();
    let far = begin + Duration::from_secs(100 * 365 * 86_400);
    let mut fastest = paced(begin, u64::MAX);
    fastest.on_sent(begin, u64::MAX);
    assert!(fastest.next_send_at(begin, MSS).is_some());
    assert_eq!(fastest.next_send_at(far, MSS), None);
    assert_eq!((fastest.allows(begin, MSS, 9), fastest.allows(far, 1, u64::MAX)), (0, 2 * BATCH));
    let mut slowest = paced(begin, 0);
    slowest.on_sent(begin, u64::MAX);
    assert!(slowest.next_send_at(begin, MSS).is_some());
    // A clock that steps back adds and removes no tokens.
    let mut pacer = paced(far, 1_472_000);
    pacer.on_sent(far, 2 * MSS);
    pacer.on_sent(begin, 0);
    assert_eq!(pacer.next_send_at(far, MSS), Some(far + Duration::from_millis(1)));
}
