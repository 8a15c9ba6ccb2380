//! Time that a transfer waits for a reader, a path or an answer, and time until it resumes.

use rdt::Closed;
use rdt::emulator::{Mtu, Outage};

use super::*;

const RULES: [LossDetection; 4] =
    [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
const CONTROLLERS: [Algorithm; 3] = [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno];

fn pairs() -> impl Iterator<Item = (Algorithm, LossDetection)> {
    CONTROLLERS.into_iter().flat_map(|congestion| RULES.map(|recovery| (congestion, recovery)))
}

/// Runs until `at`, and then up to `limit` until a cumulative ACK advances. Returns the time that
/// this took.
fn progress_after(running: &mut Running, at: Duration, limit: Duration) -> Option<Duration> {
    running.simulation.run_until(at);
    let acked = |running: &Running| running.simulation.sender(running.sender).stats().bytes_acked;
    let before = acked(running);
    let ticks = (1..).map(|tick| ms(10) * tick).take_while(|time| *time <= limit);
    ticks.into_iter().find(|time| {
        running.simulation.run_until(at + *time);
        acked(running) > before
    })
}

#[test]
fn transfer_resumes_within_two_seconds_of_outage() {
    for (length, (congestion, recovery)) in [25, 60, 90, 30].into_iter().cycle().zip(pairs()) {
        let config = SenderConfig { recovery, ..native(congestion) };
        let outage = Outage::once(secs(3), secs(3 + length));
        let run = Run::new(5_000_000, ms(40)).bytes(u64::MAX / 2).config(config);
        let mut running = run.both_ways(|link| link.outage(outage.clone())).start();
        let took = progress_after(&mut running, secs(3 + length), secs(2));
        assert!(took.is_some(), "{congestion}, {recovery}, {length} s");
        // Path MTU and rate still hold after the outage. Base-only recovery sends one small segment
        // each timeout.
        running.simulation.run_until(secs(10 + length));
        let size = running.simulation.sender(running.sender).stats().packet_size;
        let repairs = recovery == LossDetection::BaseOnly;
        assert!(size == 1472 || repairs, "{congestion}, {recovery}: {size}");
    }
}

#[test]
fn fin_survives_outage() {
    // The stream arrives before 1 s; the outage drops the FIN-ACK. The receiver keeps it for 32 s
    // at least.
    for at in (300..520).step_by(20) {
        let outage = Outage::once(ms(at), secs(30));
        let run = Run::new(10_000_000, ms(100)).bytes(40_000);
        let done = run.both_ways(|link| link.outage(outage.clone())).run();
        assert!(done.took < secs(32), "{at} ms: {:?}", done.took);
    }
}

#[test]
fn all_combinations_survive_smaller_mtu() {
    for (mtu, (congestion, recovery)) in [1000, 600, 576].into_iter().cycle().zip(pairs()) {
        let config = SenderConfig { recovery, ..native(congestion) };
        let mtu_after = Mtu::new(1500).then(secs(1), mtu);
        let run = Run::new(10_000_000, ms(30)).bytes(1_500_000).config(config);
        let run = run.both_ways(|link| link.overhead(IP_UDP).mtu(mtu_after.clone()));
        let done = Run { limit: secs(120), ..run }.run();
        let size = done.stats.packet_size;
        let most = usize::try_from(mtu - IP_UDP).unwrap();
        assert!((548..=most).contains(&size), "{congestion}, {recovery}, {mtu}: {size}");
    }
}

/// Base-only recovery repairs one segment each timeout, so each drop in an overfilled queue costs
/// 0.2 s. If the ACK that fills a hole counts as the delivery of all data beyond it, BBR
/// overestimates the bandwidth and overfills the queue: 4700 drops, 1107 s (MTU 600).
#[test]
fn base_only_bbr_overfills_no_queue() {
    for mtu in [1000, 600, 576] {
        let config = SenderConfig { recovery: LossDetection::BaseOnly, ..native(Algorithm::Bbr) };
        let mtu_after = Mtu::new(1500).then(secs(2), mtu);
        let run = Run::new(10_000_000, ms(30)).bytes(5_000_000).config(config);
        let run = run.both_ways(|link| link.overhead(IP_UDP).mtu(mtu_after.clone()));
        let done = Run { limit: secs(120), ..run }.run();
        assert!(done.forward.dropped_queue < 300, "{mtu}: {:?}", done.forward);
    }
}

#[test]
fn mtu_of_576_bytes_is_found_at_start() {
    for congestion in CONTROLLERS {
        let run = Run::new(10_000_000, ms(30)).bytes(200_000).config(native(congestion));
        let done = run.both_ways(|link| link.overhead(IP_UDP).mtu(Mtu::new(576))).run();
        assert!(done.took < secs(15), "{congestion}: {:?}", done.took);
    }
}

/// Receiver with a window of at most 256 KiB.
fn small() -> ReceiverConfig {
    let mut receiver = receiver();
    receiver.stream_window.max = 256 << 10;
    receiver
}

#[test]
fn stalled_reader_gets_at_most_fifteen_probes() {
    let reading = ReadPolicy::Stalled { from: secs(1), length: secs(120) };
    for (congestion, recovery) in pairs() {
        let config = SenderConfig { recovery, ..native(congestion) };
        let run = Run::new(20_000_000, ms(100)).bytes(u64::MAX / 2).config(config);
        let mut running = Run { receiver: small(), reading: Some(reading), ..run }.start();
        let sent = |running: &Running| running.simulation.sender(running.sender).stats().datagrams_sent;
        // The window of 256 KiB is full 105 ms after the reader stops.
        running.simulation.run_until(ms(1300));
        let before = sent(&running);
        running.simulation.run_until(ms(120_990));
        let probes = sent(&running) - before;
        assert!((5..=15).contains(&probes), "{congestion}, {recovery}: {probes}");
        assert!(progress_after(&mut running, secs(121), ms(300)).is_some(), "{congestion}, {recovery}");
    }
}

#[test]
fn lost_window_update_is_repeated() {
    let reading = ReadPolicy::Stalled { from: secs(1), length: secs(60) };
    for lost_for in [ms(150), ms(500), ms(1500)] {
        let outage = Outage::once(ms(60_990), secs(61) + lost_for);
        let run = Run::new(20_000_000, ms(100)).bytes(u64::MAX / 2);
        let mut running = Run { receiver: small(), reading: Some(reading), ..run }
            .both_ways(|link| link.outage(outage.clone()))
            .start();
        let took = progress_after(&mut running, secs(61), 3 * lost_for + ms(500));
        assert!(took.is_some(), "lost for {lost_for:?}");
    }
}

#[test]
fn handshakes_finish_at_50_percent_loss() {
    for seed in seed()..seed() + 50 {
        let run = Run { seed, ..Run::new(50_000_000, ms(40)).bytes(1000) };
        let mut running = run.loss_both_ways(&bernoulli(0.5)).start();
        running.simulation.run_until(secs(60));
        let node = running.simulation.sender(running.sender);
        assert!(node.connection().aead.is_some(), "seed {seed}: {:?}", node.outcome);
    }
}

#[test]
fn silent_receiver_times_out_in_each_phase() {
    // RFC 1122, section 4.2.3.5: 3 minutes for the SYN, 100 s for data.
    for (dead_from, ends_at) in [(secs(0), 180), (secs(2), 102)] {
        let outage = Outage::once(dead_from, secs(1000));
        let run = Run::new(10_000_000, ms(40)).bytes(u64::MAX / 2);
        let mut running = run.both_ways(|link| link.outage(outage.clone())).start();
        assert!(running.simulation.run_senders(secs(1000)));
        let took = running.simulation.elapsed().as_secs_f64();
        assert!((took - f64::from(ends_at)).abs() < 0.2, "{took} s");
        let (_, outcome) = running.done();
        let closed = matches!(outcome, Outcome::Closed(Closed::TimedOut(_) | Closed::Idle));
        assert!(closed, "{outcome:?}");
    }
}
