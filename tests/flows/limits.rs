use super::*;
use rdt::emulator::Outage;
use rdt::sim::Limits;

/// Limits of a flow over `path` until its end, or for 60 s.
fn limits(
    path: PathConfig,
    config: SenderConfig,
    receiver: ReceiverConfig,
    application: Application,
) -> Limits {
    let mut shared = Shared::with_receiver(path, receiver);
    let sender = shared.add(config, application);
    let recorder = shared.simulation.measure_limits(sender);
    shared.simulation.sender_mut(sender).observe(Box::new(recorder.clone()));
    shared.simulation.run_senders(Duration::from_secs(60));
    shared.simulation.run_until(shared.simulation.elapsed());
    let limits = shared.simulation.limits(sender, &recorder);
    let node = shared.simulation.sender(sender);
    let end = node.ended_at.unwrap_or(shared.simulation.epoch() + shared.simulation.elapsed());
    assert_eq!(
        Some(limits.life()),
        end.checked_duration_since(node.opened_at.unwrap()),
        "seed {}",
        shared.seed
    );
    assert_eq!(limits.host, Duration::ZERO);
    limits
}

fn assert_share(limits: Limits, part: impl Fn(&Limits) -> Duration) {
    let share = part(&limits).as_secs_f64() / limits.life().as_secs_f64();
    assert!(share >= 0.9, "{share}: {limits:?}, seed {}", seed());
}

fn dead(from: u64, to: u64) -> PathConfig {
    let mut path = path(10_000_000, ms(50));
    path.forward.outage = Outage::once(ms(from), ms(to));
    path
}

#[test]
fn lost_handshake_limits_by_recovery() {
    let start = ms(100);
    let application = Application { start, ..Application::transfer(10_000) };
    let limits = limits(dead(0, 10_000), reno(), ReceiverConfig::reference(), application);
    assert_share(limits, |limits| limits.recovery);
}

#[test]
fn slow_application_limits() {
    let application = Application { rate: Some(1_000_000), ..Application::default() };
    let limits = limits(path(10_000_000, ms(20)), reno(), ReceiverConfig::reference(), application);
    assert_share(limits, |limits| limits.application);
}

#[test]
fn outage_limits_by_recovery() {
    let application = Application { stop: Some(ms(2000)), ..Application::default() };
    let limits = limits(dead(500, 40_000), reno(), ReceiverConfig::reference(), application);
    assert_share(limits, |limits| limits.recovery);
}

#[test]
fn small_receive_window_limits() {
    let mut receiver = ReceiverConfig::reference();
    receiver.stream_window.initial = 16 << 10;
    receiver.stream_window.max = 16 << 10;
    let limits = limits(path(100_000_000, ms(50)), reno(), receiver, Application::default());
    assert_share(limits, |limits| limits.peer_window);
}

#[test]
fn receive_window_beyond_full_link_does_not_limit() {
    let mut receiver = ReceiverConfig::reference();
    receiver.stream_window.initial = 64 << 10;
    receiver.stream_window.max = 64 << 10;
    let limits = limits(path(10_000_000, ms(20)), reno(), receiver, Application::default());
    assert_share(limits, |limits| limits.link);
}

#[test]
fn small_congestion_window_limits() {
    for pacing in [false, true] {
        let config = SenderConfig { congestion: "fixed:30".parse().unwrap(), pacing, ..reno() };
        let limits =
            limits(path(20_000_000, ms(50)), config, ReceiverConfig::reference(), Application::default());
        assert_share(limits, |limits| limits.cwnd);
    }
}

#[test]
fn full_link_limits() {
    for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
        let config = SenderConfig { congestion: algorithm, ..reno() };
        let limits =
            limits(path(10_000_000, ms(20)), config, ReceiverConfig::reference(), Application::default());
        assert_share(limits, |limits| limits.link);
    }
}
