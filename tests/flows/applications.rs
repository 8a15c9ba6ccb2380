use super::*;
use rdt::emulator::{Loss, Probability};
use rdt::sim::Source;

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn later_start_shifts_whole_transfer() {
    let run = |start| {
        let mut shared = Shared::new(path(10_000_000, ms(20)));
        let sender = shared.add(reno(), Application { start, ..Application::transfer(300_000) });
        shared.finish();
        assert_eq!(shared.delivered(sender), 300_000);
        let node = shared.simulation.sender(sender);
        let epoch = shared.simulation.epoch();
        let [opened, ended] = [node.opened_at, node.ended_at].map(|at| at.unwrap() - epoch);
        let transfer = &shared.simulation.server(shared.server).transfers[&sender];
        assert_eq!(opened, start);
        let first_byte = transfer.first_byte_at.unwrap();
        assert!(opened < first_byte && transfer.completed_at.unwrap() < ended);
        [first_byte, transfer.completed_at.unwrap(), ended].map(|at| at.checked_sub(opened))
    };
    assert_eq!(run(Duration::ZERO), run(ms(777)));
}

#[test]
fn stop_finishes_unbounded_transfer() {
    let mut config = path(10_000_000, ms(20));
    config.forward.loss = Loss::Bernoulli(Probability::new(0.01).unwrap());
    let mut shared = Shared::new(config);
    let stop = ms(3000);
    let sender = shared.add(reno(), Application { stop: Some(stop), ..Application::default() });
    shared.simulation.run_until(ms(2999));
    assert_eq!(shared.simulation.sender(sender).outcome, Outcome::Running);
    shared.finish();
    let bytes = shared.delivered(sender);
    assert!(bytes > 1_000_000, "{bytes}, seed {}", shared.seed);
    let took = shared.simulation.elapsed();
    assert!(took > stop && took < stop + ms(1000), "{took:?}, seed {}", shared.seed);
}

#[test]
fn stop_ends_limited_transfer_early() {
    let mut shared = Shared::new(path(1_000_000, ms(20)));
    let application = Application { stop: Some(ms(500)), ..Application::transfer(1 << 30) };
    let sender = shared.add(reno(), application);
    shared.finish();
    assert!(shared.delivered(sender) < 1 << 20);
}

#[test]
fn rate_limits_goodput_exactly() {
    for rate in [8_000, 1_000_000, 5_000_000] {
        let mut shared = Shared::new(path(10_000_000, ms(20)));
        let sender = shared.add(reno(), Application { rate: Some(rate), ..Application::default() });
        shared.simulation.run_until(LIMIT);
        let (from, to) = (Duration::from_secs(10), Duration::from_secs(24));
        let read = shared.read(sender, from, to);
        let expected = rate / 8 * 14;
        assert!(read.abs_diff(expected) <= 1400.max(rate / 8000 * 2), "{read} of {expected} at {rate} bit/s");
        assert_eq!(shared.simulation.sender(sender).stats().retransmitted, 0);
    }
}

#[test]
fn late_application_has_no_backlog() {
    let mut shared = Shared::new(path(10_000_000, ms(20)));
    shared.simulation.run_until(ms(5000));
    let sender = shared.add(reno(), Application { rate: Some(1_000_000), ..Application::default() });
    shared.simulation.run_until(ms(7000));
    assert!(shared.read(sender, ms(5000), ms(7000)) <= 250_000);
    let node = shared.simulation.sender(sender);
    assert_eq!(node.opened_at, Some(shared.simulation.epoch() + ms(5000)));

    let sink = shared.simulation.add_sink();
    let source = shared.simulation.add_source(Source::constant(1_000_000, 1250), sink);
    shared.simulation.run_until(ms(7995));
    assert_eq!(shared.simulation.sink(sink).sources[&source].packets, 100);
}

#[test]
fn pauses_leave_bins_empty() {
    for rate in [None, Some(4_000_000)] {
        let mut shared = Shared::new(path(10_000_000, ms(20)));
        let on_off = Some((ms(500), ms(1000)));
        let sender = shared.add(reno(), Application { rate, on_off, ..Application::default() });
        shared.simulation.run_until(LIMIT);
        for period in 0..10 {
            let on = ms(1500) * period;
            assert!(shared.read(sender, on, on + ms(500)) > 100_000, "{rate:?}");
            // The data of the last moment takes its time: a window at 10 Mbit/s.
            assert_eq!(shared.read(sender, on + ms(1000), on + ms(1500)), 0, "{rate:?}");
        }
        let cycle = shared.read(sender, ms(15_000), ms(16_500));
        assert!(rate.is_none_or(|rate| cycle.abs_diff(rate / 16) <= 1400), "{cycle}");
    }
}

#[test]
fn empty_transfer_starts_late_and_ends() {
    for application in [
        Application { start: ms(100), ..Application::transfer(0) },
        Application { start: ms(100), stop: Some(ms(50)), ..Application::default() },
    ] {
        let mut shared = Shared::new(path(10_000_000, ms(20)));
        let sender = shared.add(reno(), application);
        shared.finish();
        assert_eq!(shared.delivered(sender), 0);
        assert!(shared.simulation.elapsed() > ms(120));
    }
}
