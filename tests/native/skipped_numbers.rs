//! Skipped packet numbers, against receivers that acknowledge early, cost honest transfers nothing.

use super::*;

#[test]
fn skipped_numbers_cost_honest_transfers_nothing() {
    // 0.4 ms: the sender leaves the ACK frequency to the receiver, which acknowledges every second
    // packet. A skipped number is no hole that needs an ACK of its own.
    for (rtt, most) in [(Duration::from_micros(400), 0.505), (ms(50), 0.1)] {
        let done = Run::new(100_000_000, rtt).queue(5000).bytes(30_000_000).run();
        let acks = done.stats.datagrams_received as f64 / done.stats.datagrams_sent as f64;
        eprintln!("{rtt:?}: {acks:.4} ACKs a packet, {:.2} Mbps", done.goodput() / 1e6);
        assert!(acks <= most, "{rtt:?}: {acks}");
        assert_eq!((done.stats.retransmitted, done.stats.timeouts), (0, 0), "{:?}", done.stats);
    }
}
