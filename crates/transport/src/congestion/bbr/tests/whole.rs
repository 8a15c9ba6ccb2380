//! Whole flows through the path model. Bytes are payload: a utilization of 1 means a link that is
//! never idle.

use std::fmt::Write;
use std::time::Duration;

use super::path::{MSS, Path, World};
use super::rival::PlainCubic;
use crate::congestion::bbr::{Bbr, BbrConfig};

fn bbr(path: &Path) -> BbrConfig {
    BbrConfig { initial_rtt: Some(path.rtt), ..BbrConfig::new(MSS, 10 * MSS, 7) }
}

fn world(path: Path, config: BbrConfig) -> World {
    let mut world = World::new(path);
    world.add(Box::new(Bbr::new(config)));
    world
}

/// Link utilization over `span`, thousandths.
fn permille(bytes: u64, path: &Path, span: Duration) -> u64 {
    bytes * 1_000_000 / path.rate / u64::try_from(span.as_millis()).unwrap()
}

fn probe_rtts(world: &World) -> Vec<Duration> {
    let phases = world.flows[0].phases.iter();
    phases.filter(|phase| phase.name == "probe_rtt").map(|phase| phase.at).collect()
}

/// Runs for `secs`, including one RTT for the handshake; checks utilization and bytes sent.
fn assert_share(path: Path, secs: u64, least: u64) {
    let span = Duration::from_secs(secs);
    let mut world = world(path, bbr(&path));
    world.run_until(Duration::from_secs(3).min(span / 2));
    world.max_queue = 0;
    world.run_until(span.saturating_sub(path.rtt));
    let flow = &world.flows[0];
    let share = permille(flow.delivered(), &path, span);
    assert!(share >= least, "{path:?}: {share} of {least} thousandths");
    let needed = flow.delivered() * 1_000_000 / (1_000_000 - path.loss);
    assert!(flow.sent < needed * 11 / 10, "{path:?}: {} sent, {needed} needed", flow.sent);
    assert!(world.max_queue <= path.bdp() * 3 / 2, "{path:?}: queue of {}", world.max_queue);
}

#[test]
fn random_loss_keeps_utilization_above_95_percent() {
    for loss in [0, 1000, 10_000, 50_000] {
        assert_share(Path::new(100, 100, loss), 60, 950);
        assert_share(Path { queue: 10_000_000, ..Path::new(100, 100, loss) }, 30, 950);
    }
    assert_share(Path::new(1000, 20, 1000), 10, 950);
}

#[test]
fn jitter_and_loss_position_keep_utilization() {
    let jitter = Duration::from_millis(2);
    for (loss, possible) in [(0, 1000), (1000, 999), (10_000, 990), (50_000, 950)] {
        let path = Path::new(100, 100, loss);
        assert_share(Path { jitter, ..path }, 30, 950);
        assert_share(Path { loses_behind: true, ..path }, 30, possible * 95 / 100);
    }
}

#[test]
fn startup_costs_little_of_thirteen_seconds() {
    for (loss, least) in [(0, 915), (1000, 908), (10_000, 895), (50_000, 822)] {
        for seed in 1..4 {
            assert_share(Path { seed, ..Path::new(100, 100, loss) }, 13, least);
        }
    }
}

#[test]
fn long_fat_path_startup_is_fast_despite_loss() {
    for (loss, most) in [(0, 9), (15_625, 11)] {
        let path = Path::new(250, 600, loss);
        let mut world = world(path, bbr(&path));
        world.run_while(Duration::from_secs(60), |world| world.flows[0].delivered() < 100_000_000);
        let taken = world.now() + path.rtt;
        assert!(taken <= Duration::from_secs(most), "{path:?}: {taken:?} with the handshake");
        let lost = world.flows[0].lost();
        assert!(lost < 10_000_000, "{path:?}: {lost} lost");
    }
}

#[test]
fn short_queue_is_not_flooded() {
    for queue in [62_500, 125_000, 312_500] {
        for loss in [0, 10_000] {
            let path = Path { queue, ..Path::new(100, 100, loss) };
            assert_share(path, 30, 870);
        }
    }
}

#[test]
fn shares_link_with_cubic() {
    for seed in 1..4 {
        let path = Path { queue: 25 * MSS, seed, ..Path::new(10, 30, 0) };
        let mut world = world(path, BbrConfig { seed, ..bbr(&path) });
        world.add(Box::new(PlainCubic::new(1200.0)));
        let span = Duration::from_secs(60);
        world.run_until(span);
        let share = permille(world.flows[0].delivered(), &path, span);
        assert!((350..=650).contains(&share), "seed {seed}: {share} thousandths");
        let rival = permille(world.flows[1].delivered(), &path, span);
        assert!(share + rival > 950, "seed {seed}: {share} and {rival} thousandths");
    }
}

#[test]
fn shares_link_with_bbr() {
    for loss in [0, 10_000] {
        // The share of one seed has a standard deviation of 30 to 60 thousandths.
        let late = (90..98).map(|seed| {
            let path = Path { seed, ..Path::new(50, 40, loss) };
            let mut world = world(path, bbr(&path));
            world.run_until(Duration::from_secs(7));
            world.add(Box::new(Bbr::new(BbrConfig { seed, ..bbr(&path) })));
            world.run_until(Duration::from_secs(30));
            let before = world.flows[1].delivered();
            world.run_until(Duration::from_secs(90));
            let late = permille(world.flows[1].delivered() - before, &path, Duration::from_secs(60));
            assert!((200..=800).contains(&late), "seed {seed}: {late} thousandths");
            late
        });
        let mean = late.sum::<u64>() / 8;
        assert!((300..=700).contains(&mean), "the one that came later has {mean} thousandths");
    }
}

#[test]
fn follows_changing_link_rate() {
    for loss in [0, 10_000] {
        let path = Path::new(100, 50, loss);
        let mut world = world(path, bbr(&path));
        let mut measure = |rate, from, to| {
            world.set_rate(rate);
            world.run_until(Duration::from_secs(from));
            let before = world.flows[0].delivered();
            world.run_until(Duration::from_secs(to));
            permille(world.flows[0].delivered() - before, &path, Duration::from_secs(to - from))
        };
        assert!(measure(path.rate, 5, 15) > 950);
        assert!(measure(path.rate / 10, 17, 35) > 90);
        let after = measure(path.rate, 40, 50);
        assert!(after > 950, "loss {loss}: {after} thousandths five seconds after it is fast again");
    }
}

#[test]
fn draft_probes_rtt_every_five_seconds() {
    let path = Path::new(20, 50, 0);
    let mut world = world(path, bbr(&path).without_deviations());
    world.run_until(Duration::from_secs(21));
    let probes = probe_rtts(&world);
    assert_eq!(probes.len(), 4, "{probes:?}");
    for pair in probes.windows(2) {
        let apart = pair[1].saturating_sub(pair[0]);
        // 5 s after the end of the last probe, which takes 200 ms and one or two RTTs.
        assert!((5200..5500).contains(&apart.as_millis()), "{probes:?}");
    }
}

#[test]
fn standing_queue_triggers_probe_rtt() {
    let path = Path::new(20, 50, 0);
    let mut alone = world(path, bbr(&path));
    alone.run_until(Duration::from_secs(21));
    assert_eq!(probe_rtts(&alone), [], "it sees the empty path in every cycle");

    let mut longer = world(path, bbr(&path));
    longer.run_until(Duration::from_secs(10));
    longer.set_rtt(path.rtt * 2);
    longer.run_until(Duration::from_secs(40));
    let probes = probe_rtts(&longer);
    assert!((10_000..16_000).contains(&probes[0].as_millis()), "{probes:?}");
    let before = longer.flows[0].delivered();
    longer.run_until(Duration::from_secs(50));
    let share = permille(longer.flows[0].delivered() - before, &path, Duration::from_secs(10));
    assert!(share > 950, "{share} thousandths with the new round trip learned");
}

#[test]
fn app_limited_flow_keeps_bandwidth_estimate() {
    let path = Path::new(100, 40, 0);
    let mut world = world(path, bbr(&path));
    world.run_until(Duration::from_secs(5));
    let before = world.flows[0].controller.pacing_rate().unwrap();
    world.offer(path.rate / 20);
    world.run_until(Duration::from_secs(25));
    assert!(world.flows[0].rate_limited(), "a twentieth of the link is all that is offered");
    let pacing = world.flows[0].controller.pacing_rate().unwrap();
    assert!(pacing >= before * 8 / 10, "{before} bytes a second before, {pacing} after twenty seconds");
    let sent = world.flows[0].delivered();
    world.offer(path.rate * 2);
    world.run_until(Duration::from_secs(26));
    let share = permille(world.flows[0].delivered() - sent, &path, Duration::from_secs(1));
    assert!(share > 900, "{share} thousandths in the first second of plenty");
}

#[test]
fn phases_follow_state_transition_diagram() {
    let path = Path::new(10, 40, 0);
    let mut world = world(path, bbr(&path));
    world.run_until(Duration::from_secs(5));
    let mut table = String::from("   ms  in flight  queue  phase\n");
    for phase in &world.flows[0].phases {
        let (in_flight, queue) = (phase.in_flight / MSS, phase.queue / MSS);
        writeln!(table, "{:5}  {in_flight:9}  {queue:5}  {}", phase.at.as_millis(), phase.name).unwrap();
    }
    assert_eq!(table, include_str!("phases.txt"), "\n{table}");
}

#[test]
fn flow_is_deterministic_per_seed() {
    let run = |seed| {
        let path = Path::new(50, 100, 10_000);
        let mut world = world(path, BbrConfig { seed, ..bbr(&path) });
        world.run_until(Duration::from_secs(12));
        let starts: Vec<Duration> = world.flows[0].phases.iter().map(|phase| phase.at).collect();
        (world.flows[0].delivered(), starts)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1);
}

/// Number of times that `Startup` ran in 5 s.
fn startups(path: Path) -> usize {
    let mut world = world(path, BbrConfig { seed: path.seed, ..bbr(&path) });
    world.run_until(Duration::from_secs(5));
    world.flows[0].phases.iter().filter(|phase| phase.name == "startup").count()
}

#[test]
fn full_pipe_resumes_no_startup() {
    for (seed, queue) in (1..=5).flat_map(|seed| [(seed, 10 * MSS), (seed, 600 * MSS)]) {
        let path = Path { queue, seed, ..Path::new(100, 100, 0) };
        assert_eq!(startups(path), 1, "queue of {queue} bytes, seed {seed}");
    }
}
