//! Explicit congestion notification: a queue that marks instead of dropping, and paths that break
//! ECN.

use rdt::emulator::{Marking, QueueLimit};
use rdt::transport::{Ecn, EcnFailure, EcnState};

use super::*;

/// 20 Mbps, 40 ms: a bandwidth-delay product of 68 packets. A queue of 300 packets, marked from the
/// 69th on.
fn marking() -> Run {
    let marking = Marking::above(QueueLimit::packets(68));
    Run::new(20_000_000, ms(40)).queue(300).forward(|link| link.marking(marking))
}

/// Transfers over a path that rewrites codepoints.
fn remarked(run: &Run, remark: fn(Duration, Ecn) -> Option<Ecn>) -> Done {
    let mut running = run.start();
    running.simulation.rewrite_ecn(remark);
    assert!(running.simulation.run_senders(run.limit), "not over after {:?}", run.limit);
    let (done, outcome) = running.done();
    assert!(outcome.is_finished(), "{outcome:?}: {:?}", done.stats);
    assert_eq!(done.received.bytes, run.bytes);
    done
}

#[test]
fn marking_queue_is_filled_without_loss() {
    for (congestion, share) in [(Algorithm::Reno, 0.93), (Algorithm::Cubic, 0.93), (Algorithm::Bbr, 0.9)] {
        let done = marking().bytes(60_000_000).config(native(congestion)).run();
        let used = done.goodput() / 20e6;
        let stats = &done.stats;
        eprintln!("{congestion}: {used:.3}, {} marks, {} answers", stats.ce_marks, stats.ecn_reductions);
        assert_eq!((done.forward.dropped_queue, stats.lost, stats.retransmitted), (0, 0, 0), "{congestion}");
        assert_eq!((stats.ecn, stats.ce_marks), (EcnState::On, done.forward.marked), "{congestion}");
        assert!(stats.ecn_reductions > 0 && stats.ecn_reductions <= stats.ce_marks, "{congestion}");
        assert!(used >= share, "{congestion}: {used}");
    }
}

#[test]
fn base_only_recovery_responds_to_marks() {
    let config = SenderConfig { recovery: LossDetection::BaseOnly, ..native(Algorithm::Cubic) };
    let done = marking().bytes(20_000_000).config(config).run();
    let stats = &done.stats;
    assert_eq!((stats.ecn, stats.retransmitted, stats.lost), (EcnState::On, 0, 0), "{stats:?}");
    assert!(stats.ecn_reductions > 0 && stats.ecn_reductions <= stats.ce_marks, "{stats:?}");
}

#[test]
fn without_ecn_same_queue_drops() {
    for (congestion, ecn) in [(Algorithm::Cubic, false), (Algorithm::Fixed(500), true)] {
        let run = marking().bytes(20_000_000).config(SenderConfig { ecn, ..native(congestion) });
        let done = run.run();
        assert_eq!((done.stats.ecn, done.forward.marked), (EcnState::Off, 0), "{congestion}");
        assert!(done.forward.dropped_queue > 0, "{congestion}: {:?}", done.stats);
    }
}

#[test]
fn bleaching_path_disables_ecn() {
    let run = marking().config(native(Algorithm::Cubic));
    for from in [secs(0), secs(1)] {
        let done = match from {
            Duration::ZERO => remarked(&run, |_, _| Some(Ecn::NotEct)),
            _ => remarked(&run, |at, ecn| Some(if at < secs(1) { ecn } else { Ecn::NotEct })),
        };
        assert_eq!(done.stats.ecn, EcnState::Failed(EcnFailure::Bleached), "{from:?}");
        assert_eq!(done.stats.timeouts, 0, "{:?}", done.stats);
    }
}

#[test]
fn ect1_rewrite_keeps_ecn_on() {
    let done = remarked(&marking(), |_, ecn| Some(if ecn == Ecn::Ect0 { Ecn::Ect1 } else { ecn }));
    assert_eq!(done.stats.ecn, EcnState::On);
}

#[test]
fn black_hole_for_ect_disables_ecn() {
    let run = Run { limit: secs(30), ..marking().config(native(Algorithm::Cubic)) };
    let drops = |_, ecn| Some(ecn).filter(|ecn| *ecn == Ecn::NotEct);
    for bytes in [1000, 10_000_000] {
        let done = remarked(&run.clone().bytes(bytes), drops);
        eprintln!("{bytes}: {:?}, {} timeouts", done.took, done.stats.timeouts);
        assert_eq!(done.stats.ecn, EcnState::Failed(EcnFailure::BlackHole));
    }
    // ECN packets are dropped from 1 s on.
    let done = remarked(&run, |at, ecn| Some(ecn).filter(|ecn| *ecn == Ecn::NotEct || at < secs(1)));
    eprintln!("from 1 s on: {:?}, {} timeouts", done.took, done.stats.timeouts);
    assert_eq!((done.stats.ecn, done.stats.timeouts), (EcnState::Failed(EcnFailure::BlackHole), 3));
}
