//! Loss recovery without idle time: many losses in a window cost one recovery, lost retransmissions
//! and tail losses need no RTO, and packets that were not lost are not sent again.

use rdt::emulator::Jitter;

use super::*;

/// 10 Mbps and 100 ms are 85 packets. The window is slightly larger, so the link is never idle.
fn path(recovery: LossDetection) -> Run {
    let config = SenderConfig { recovery, ..native(Algorithm::Fixed(100)) };
    Run::new(10_000_000, ms(100)).bytes(3_000_000).config(config)
}

/// Index of the first lost packet, in mid-transfer.
const MIDDLE: u64 = 600;

#[test]
fn losses_in_one_window_cost_one_recovery() {
    for rule in [LossDetection::Rack, LossDetection::Sack] {
        let clean = path(rule).run();
        assert_eq!((clean.stats.retransmitted, clean.stats.recoveries), (0, 0), "{:?}", clean.stats);
        for apart in [1, 4] {
            for count in [1, 2, 5, 20] {
                let lost = (0..count).map(|i| MIDDLE + i * apart);
                let done = path(rule).loss(Loss::script(lost)).run();
                let stats = &done.stats;
                let more = done.took.saturating_sub(clean.took);
                eprintln!("{rule}: {count} lost, {apart} apart: {more:?} longer");
                assert_eq!((stats.recoveries, stats.timeouts), (1, 0), "{rule}, {count}: {stats:?}");
                assert_eq!((stats.retransmitted, stats.spurious), (count, 0), "{rule}, {count}: {stats:?}");
                // Retransmissions take serialisation time and nothing else.
                let carried = Duration::from_micros(1200) * u32::try_from(count).unwrap();
                assert!(more <= carried + ms(15), "{rule}, {count}: {more:?} longer");
            }
        }
    }
}

#[test]
fn reno_halves_once_for_losses_of_window() {
    let run = |count| {
        let lost = (0..count).map(|i| MIDDLE + 3 * i);
        let config = SenderConfig { congestion: Algorithm::Reno, ..path(LossDetection::Rack).config };
        path(LossDetection::Rack).config(config).queue(1000).loss(Loss::script(lost)).run()
    };
    let one = run(1);
    assert_eq!(one.stats.recoveries, 1, "{:?}", one.stats);
    for count in [2, 5, 20] {
        let many = run(count);
        assert_eq!((many.stats.recoveries, many.stats.timeouts), (1, 0), "{:?}", many.stats);
        let ratio = many.stats.ssthresh.unwrap() as f64 / one.stats.ssthresh.unwrap() as f64;
        assert!((0.9..1.1).contains(&ratio), "{count}: {ratio}");
    }
}

#[test]
fn base_only_reports_losses_and_timeouts_to_controller() {
    let run = |lost: &[u64]| {
        let recovery = LossDetection::BaseOnly;
        // Window small enough that recovery ends before the RTO.
        let config = SenderConfig { congestion: Algorithm::Reno, window: 100, ..path(recovery).config };
        path(recovery).config(config).queue(1000).loss(Loss::script(lost.to_vec())).run().stats
    };
    let clean = run(&[]);
    assert_eq!((clean.recoveries, clean.timeouts, clean.ssthresh), (0, 0, None), "{clean:?}");
    assert!(clean.cwnd > 90 * 1432, "it grows by slow start: {clean:?}");
    let one = run(&[MIDDLE]);
    assert_eq!((one.recoveries, one.timeouts, one.lost, one.retransmitted), (1, 0, 1, 1), "{one:?}");
    let half = one.ssthresh.unwrap() as f64 / f64::from(50 * 1432);
    assert!((0.9..1.1).contains(&half), "half of the hundred that were out: {half}");
    // The second hole of a flight waits for the RTO, which is a second congestion event.
    let two = run(&[MIDDLE, MIDDLE + 3]);
    assert_eq!((two.recoveries, two.timeouts, two.lost), (1, 1, 2), "{two:?}");
    assert!(two.ssthresh.unwrap() < one.ssthresh.unwrap() && two.cwnd < one.cwnd, "{two:?}");
}

#[test]
fn reno_and_tahoe_finish_at_any_loss() {
    let mean = |recovery, loss| {
        let config = SenderConfig { recovery, pacing: false, ..native(Algorithm::Reno) };
        let run = Run::new(8_000_000, ms(10)).queue(50).bytes(1_000_000).config(config);
        let runs = (0..20).map(|n| Run { seed: seed() + n, ..run.clone() }.loss(bernoulli(loss)).run());
        let done: Vec<Done> = runs.collect();
        assert!(done.iter().all(|done| done.stats.spurious == 0), "no undo");
        let mbps = done.iter().map(Done::goodput).sum::<f64>() / 1e6 / done.len() as f64;
        let timeouts = done.iter().map(|done| done.stats.timeouts).sum::<u64>();
        let recoveries = done.iter().map(|done| done.stats.recoveries).sum::<u64>();
        eprintln!("{recovery}, {loss}: {mbps:.3} Mbps, {timeouts} timeouts, {recoveries} recoveries");
        (mbps, timeouts)
    };
    for loss in [0.001, 0.01, 0.025, 0.1] {
        let (reno, tahoe) = (mean(LossDetection::Reno, loss), mean(LossDetection::Tahoe, loss));
        let newreno = mean(LossDetection::NewReno, loss);
        if (0.01..0.1).contains(&loss) {
            assert!(reno.0 <= newreno.0 && tahoe.0 <= newreno.0, "{reno:?}, {tahoe:?}, {newreno:?}");
            assert!(reno.1 >= newreno.1, "a second hole costs Reno a timeout: {reno:?}, {newreno:?}");
        }
    }
}

#[test]
fn one_packet_window_avoids_delayed_ack() {
    let config = SenderConfig { packet_size: 1200, ..native(Algorithm::Fixed(1)) };
    let done = Run::new(100_000_000, ms(10)).queue(10).bytes(100 * 1160).config(config).run();
    assert!(done.took < ms(110 * 10) + ms(100), "a round trip a packet: {:?}", done.took);
    assert_eq!((done.stats.probes, done.stats.retransmitted), (0, 0), "{:?}", done.stats);
}

#[test]
fn lost_retransmission_is_repaired_without_rto() {
    let mut lost = vec![MIDDLE];
    let mut took = path(LossDetection::Rack).run().took;
    for again in 1..=4 {
        let log = Log::default();
        let done =
            path(LossDetection::Rack).loss(Loss::script(lost.clone())).run_observed(Some(log.observer()));
        let stats = &done.stats;
        eprintln!("lost {lost:?}: {:?}", done.took);
        assert_eq!((stats.timeouts, stats.retransmitted), (0, again), "{stats:?}");
        assert!(done.took <= took + ms(150), "lost {again} times: {:?} after {took:?}", done.took);
        took = done.took;
        lost.push(*log.resent().last().unwrap());
    }
}

#[test]
fn tail_loss_is_repaired_by_probe() {
    for controller in [Algorithm::Fixed(100), Algorithm::Bbr, Algorithm::Cubic] {
        let run = path(LossDetection::Rack).config(native(controller)).queue(1000).bytes(500_000);
        let log = Log::default();
        let clean = run.run_observed(Some(log.observer()));
        // Last segment before the FIN.
        let last = log.sent().len() as u64 - 2;
        for count in [1, 2, 3, 10, 30] {
            let done = run.clone().loss(Loss::script(last + 1 - count..=last)).run();
            let stats = &done.stats;
            let more = done.took.saturating_sub(clean.took);
            // A reduced window grows again: one RTT for each doubling.
            let doublings = if controller == Algorithm::Cubic { (count + 1).ilog2() } else { 0 };
            let limit = (6 + doublings) * stats.srtt.unwrap();
            eprintln!("{controller}: the last {count} lost: {more:?} longer, {} probes", stats.probes);
            assert_eq!(stats.timeouts, 0, "{controller}, {count}: {stats:?}");
            assert!(stats.probes >= 1, "{controller}, {count}: {stats:?}");
            // Two RTTs until the probe, one for its ACK, one for the retransmission.
            assert!(more <= limit, "{controller}, {count}: {more:?} of {limit:?}");
        }
    }
}

const CONTROLLERS: [Algorithm; 4] =
    [Algorithm::Fixed(100), Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno];

/// Transfer with this controller and a queue that never overflows.
fn with(congestion: Algorithm) -> Run {
    path(LossDetection::Rack).config(native(congestion)).queue(1000)
}

#[test]
fn no_loss_means_no_retransmission() {
    let share = Probability::new(0.02).unwrap();
    for congestion in CONTROLLERS {
        for (name, run) in [
            ("clean", with(congestion)),
            ("jitter", with(congestion).both_ways(|link| link.jitter(Jitter::uniform(ms(5))))),
            ("copies", with(congestion).both_ways(|link| link.duplicate(share))),
            // Two packets overtake each delayed one.
            ("a little reordering", with(congestion).forward(|link| link.reorder(share, ms(2)))),
        ] {
            let done = run.run();
            assert_eq!(done.stats.retransmitted, 0, "{congestion}, {name}: {:?}", done.stats);
        }
    }
}

#[test]
fn reordering_within_quarter_rtt_is_not_loss() {
    let share = Probability::new(0.02).unwrap();
    for congestion in CONTROLLERS {
        for seed in seed()..seed() + 20 {
            let late = with(congestion).forward(|link| link.reorder(share, ms(24)));
            let done = Run { seed, ..late }.run();
            assert!(done.forward.reordered > 20, "{:?}", done.forward);
            assert_eq!(done.stats.retransmitted, 0, "{congestion}, seed {seed}: {:?}", done.stats);
        }
    }
}

#[test]
fn once_seen_mode_misjudges_only_first_reordering() {
    // RFC 8985, section 6.2: until reordering is seen, three segments acknowledged above are
    // enough. That can hit a few packets in the first RTTs, or none if fewer packets overtake the
    // first.
    let share = Probability::new(0.02).unwrap();
    for congestion in CONTROLLERS {
        let mut mistaken = 0;
        for seed in seed()..seed() + 10 {
            let config = SenderConfig { reordering: Reordering::OnceSeen, ..native(congestion) };
            let late = with(congestion).config(config).forward(|link| link.reorder(share, ms(24)));
            let done = Run { seed, ..late }.run();
            let stats = &done.stats;
            assert!(stats.retransmitted <= 5, "{congestion}, seed {seed}: {stats:?}");
            assert_eq!(stats.spurious, stats.recoveries, "{congestion}, seed {seed}: {stats:?}");
            mistaken += u32::from(stats.retransmitted > 0);
        }
        assert!(mistaken >= 5, "{congestion}: in {mistaken} of 10");
    }
}

#[test]
fn spurious_retransmissions_are_detected_and_undone() {
    // Initial datagram size and a window that fits the queue: reordering is the only impairment.
    let config = SenderConfig { packet_size: 1200, ..native(Algorithm::Reno) };
    let mut run = path(LossDetection::Rack).config(config).queue(1000).bytes(10_000_000);
    run.receiver.stream_window.initial = 1 << 20;
    run.receiver.stream_window.max = 1 << 20;
    let clean = run.run();
    let late = run.forward(|link| link.reorder(Probability::new(0.003).unwrap(), ms(60)));
    let done = late.run();
    let stats = &done.stats;
    eprintln!("{:?} instead of {:?}", done.took, clean.took);
    assert!(done.forward.reordered > 10, "{:?}", done.forward);
    assert!(stats.retransmitted > 0 && stats.spurious > 0, "{stats:?}");
    assert!(stats.spurious * 10 >= stats.recoveries * 9, "{stats:?}");
    assert!(done.took <= clean.took.mul_f64(1.1), "{:?} instead of {:?}", done.took, clean.took);
}

#[test]
fn newreno_timeout_resends_at_most_twice_losses() {
    for congestion in [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno] {
        for seed in seed()..seed() + 5 {
            let config = SenderConfig { recovery: LossDetection::NewReno, ..native(congestion) };
            let run = Run::new(50_000_000, ms(20)).queue(1000).bytes(5_000_000).config(config);
            let done = Run { seed, ..run.loss(bernoulli(0.01)) }.run();
            let (again, lost) =
                (done.stats.retransmitted, done.forward.dropped_loss + done.forward.dropped_queue);
            eprintln!("{congestion}, seed {seed}: {again} again for {lost} lost, {:?}", done.took);
            assert!(again <= 2 * lost, "{congestion}, seed {seed}: {again} for {lost}: {:?}", done.stats);
        }
    }
}
