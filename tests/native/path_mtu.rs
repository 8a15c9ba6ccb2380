//! Path MTU discovery on paths that change in mid-transfer.

use rdt::emulator::{Mtu, Outage};

use super::*;

#[test]
fn larger_mtu_is_found_after_ten_minutes() {
    // The path carries datagrams of 1472 bytes, and of 4000 from 100 s on.
    let mtu = Mtu::new(1500).then(secs(100), 4028);
    for congestion in [Algorithm::Cubic, Algorithm::Bbr] {
        let mut config = SenderConfig { packet_size: 8972, ..native(congestion) };
        config.window = config.largest_window();
        let run = Run::new(4_000_000, ms(100)).bytes(u64::MAX / 2).config(config);
        let receiver = ReceiverConfig { max_datagram: 8972, ..receiver() };
        let run = Run { receiver, ..run };
        let mut running = run.forward(|link| link.overhead(IP_UDP).mtu(mtu.clone())).start();
        running.simulation.run_until(secs(590));
        assert_eq!(running.simulation.sender(running.sender).stats().packet_size, 1472, "{congestion}");
        running.simulation.run_until(secs(660));
        let (done, _) = running.done();
        let size = done.stats.packet_size;
        assert!((3968..=4000).contains(&size), "{congestion}: {size} {:?}", done.stats);
        assert_eq!(done.stats.timeouts, 0, "{congestion}: {:?}", done.stats);
    }
}

/// Segments that were sent for the first time.
fn cut(log: &Log) -> u64 {
    log.sent().iter().filter(|leaving| leaving.data.is_some() && leaving.resend.is_none()).count() as u64
}

#[test]
fn heavy_loss_does_not_shrink_mtu() {
    let bytes = 500_000;
    for seed in seed()..seed() + 20 {
        let path = Run::new(1_000_000, ms(5)).queue(25).bytes(bytes).loss_both_ways(&bernoulli(0.2));
        let run = Run { seed, ..path }.config(native(Algorithm::Cubic));
        let log = Log::default();
        let done = run.run_observed(Some(log.observer()));
        let (sent, least) = (cut(&log), bytes.div_ceil(1432));
        assert!(
            sent <= least + least / 10,
            "seed {seed}: {sent} segments, {least} would do: {:?}",
            done.stats
        );
        let needed = done.stats.retransmitted.saturating_sub(done.forward.dropped_loss);
        assert!(needed <= done.reverse.dropped_loss, "seed {seed}: {:?}", done.stats);
    }
}

#[test]
fn outage_does_not_shrink_mtu() {
    let outage = Outage::periodic(secs(7), secs(2), secs(1));
    let run = Run::new(10_000_000, ms(30)).both_ways(|link| link.outage(outage.clone()));
    let done = run.run();
    assert_eq!(done.stats.packet_size, 1472, "{:?}", done.stats);
}

#[test]
fn smaller_mtu_is_found_within_seconds() {
    for congestion in [Algorithm::Cubic, Algorithm::Bbr] {
        let mtu = Mtu::new(1500).then(secs(2), 1400);
        let run = Run::new(10_000_000, ms(30)).config(native(congestion));
        let run = Run { limit: secs(14), ..run }.forward(|link| link.overhead(IP_UDP).mtu(mtu));
        let done = run.run();
        let size = done.stats.packet_size;
        assert!((1356..=1372).contains(&size), "{congestion}: {size} {:?}", done.stats);
        assert!(done.stats.timeouts <= 6, "{congestion}: {:?}", done.stats);
    }
}

#[test]
fn lost_syn_ack_still_delivers_transport_parameters() {
    // Reply 0 is the RETRY, reply 1 the SYN-ACK.
    for lost in [vec![1], vec![0], vec![1, 2, 3, 4, 5, 6, 7], vec![0, 2]] {
        for recovery in [LossDetection::Rack, LossDetection::BaseOnly] {
            let mut config = SenderConfig { packet_size: 8972, recovery, ..native(Algorithm::Cubic) };
            config.window = config.largest_window();
            let receiver = ReceiverConfig { max_datagram: 8972, ..receiver() };
            let run = Run { receiver, ..Run::new(100_000_000, ms(30)).config(config) };
            let done = run.both_ways(|link| link.overhead(IP_UDP)).replies_lost(&lost).run();
            let size = done.stats.packet_size;
            assert_eq!(size, 8972, "{recovery}, replies {lost:?} lost: {:?}", done.stats);
        }
    }
}
