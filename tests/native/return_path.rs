//! Paths with a slow reverse link: the ACK frequency adapts to it.

use rdt::emulator::{Bitrate, QueueLimit};

use super::*;

/// 100 Mbit/s forward and `back` bit/s reverse, 40 ms, with the headers of IP and UDP. The reverse
/// queue holds 50 ms, at least 20 ACKs.
fn thin(back: u64, congestion: Algorithm) -> Run {
    let mut run = Run::new(100_000_000, ms(40)).bytes(100_000_000).config(native(congestion));
    run.path.forward.overhead = IP_UDP;
    run.path.reverse.overhead = IP_UDP;
    run.path.reverse.rate = Some(Bitrate::from_bps(back));
    run.path.reverse.queue = QueueLimit::bytes((back / 8 / 20).max(2000));
    run
}

#[test]
fn slow_reverse_link_carries_acks() {
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        for back in [1_330_000, 330_000] {
            let done = thin(back, congestion).run();
            let (there, back) = (done.forward.sent, done.reverse.sent);
            eprintln!("{congestion}: {:.1} Mbit/s, {there} packets and {back} back", done.goodput() / 1e6);
            assert!(done.goodput() > 90e6, "{congestion}: {}", done.goodput());
            assert!(back * 20 < there, "{congestion}: {back} for {there}");
            assert_eq!((done.stats.timeouts, done.stats.spurious), (0, 0), "{congestion}: {:?}", done.stats);
        }
    }
}

#[test]
fn losses_do_not_flood_reverse_link() {
    let run = thin(1_330_000, Algorithm::Bbr).loss(Loss::every_nth(64));
    let done = run.run();
    eprintln!("{:.1} Mbit/s, {:?}", done.goodput() / 1e6, done.reverse);
    assert!(done.goodput() > 90e6, "{}", done.goodput());
    assert_eq!(done.reverse.dropped_queue, 0, "{:?}", done.reverse);
    assert_eq!(done.stats.retransmitted, done.forward.dropped_loss + done.forward.dropped_queue);
}

#[test]
fn fixed_window_gets_few_acks_per_rtt() {
    let done = thin(250_000, Algorithm::Fixed(430)).run();
    let round_trips = done.took.as_secs_f64() / 0.04;
    let acks = done.reverse.sent as f64 / round_trips;
    eprintln!("{acks:.1} ACKs a round trip, {:.1} Mbit/s", done.goodput() / 1e6);
    assert!((12.0..24.0).contains(&acks), "{acks}");
    assert!(done.goodput() > 90e6, "{}", done.goodput());
}
