//! Paths whose way back is thin: ACKs follow it.

use rdt::emulator::{Bitrate, QueueLimit};

use super::*;

/// 100 Mbit/s there and so many back, 40 ms, with the headers of IP and UDP; 50 ms of queue back, and 20 ACKs at least.
fn thin(back: u64, congestion: Algorithm) -> Run {
    let mut run = Run::new(100_000_000, ms(40)).bytes(100_000_000).config(native(congestion));
    run.path.forward.overhead = IP_UDP;
    run.path.reverse.overhead = IP_UDP;
    run.path.reverse.rate = Some(Bitrate::from_bps(back));
    run.path.reverse.queue = QueueLimit::bytes((back / 8 / 20).max(2000));
    run
}

#[test]
fn a_thin_way_back_carries_the_acks() {
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        for back in [1_000_000, 250_000] {
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
fn losses_do_not_flood_a_thin_way_back() {
    let run = thin(1_000_000, Algorithm::Bbr).loss(Loss::every_nth(64));
    let done = run.run();
    eprintln!("{:.1} Mbit/s, {:?}", done.goodput() / 1e6, done.reverse);
    assert!(done.goodput() > 90e6, "{}", done.goodput());
    assert_eq!(done.reverse.dropped_queue, 0, "{:?}", done.reverse);
    assert_eq!(done.stats.retransmitted, done.forward.dropped_loss + done.forward.dropped_queue);
}

#[test]
fn a_fixed_window_is_acknowledged_a_few_times_a_round_trip() {
    let done = thin(250_000, Algorithm::Fixed(430)).run();
    let round_trips = done.took.as_secs_f64() / 0.04;
    let acks = done.reverse.sent as f64 / round_trips;
    eprintln!("{acks:.1} ACKs a round trip, {:.1} Mbit/s", done.goodput() / 1e6);
    assert!((12.0..24.0).contains(&acks), "{acks}");
    assert!(done.goodput() > 90e6, "{}", done.goodput());
}
