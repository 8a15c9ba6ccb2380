//! The largest datagram of a path that changes in mid-transfer.

use rdt::emulator::Mtu;

use super::*;

#[test]
fn a_path_that_grows_is_found_out_ten_minutes_after_the_search() {
    // Datagrams of 1472 bytes; from 100 s on of 4000.
    let mtu = Mtu::new(1500).then(secs(100), 4028);
    for congestion in [Algorithm::Cubic, Algorithm::Bbr] {
        let mut config = SenderConfig { packet_size: 8972, ..native(congestion) };
        config.window = config.largest_window();
        let run = Run::new(4_000_000, ms(100)).bytes(u64::MAX / 2).config(config);
        let receiver = ReceiverConfig { max_datagram: 8972, ..receiver() };
        let run = Run { receiver, ..run };
        let mut running = run.forward(|link| link.overhead(IP_UDP).mtu(mtu.clone())).start();
        running.simulation.run_until(secs(590));
        assert_eq!(
            running.simulation.sender(running.sender).sender.stats().packet_size,
            1472,
            "{congestion}"
        );
        running.simulation.run_until(secs(660));
        let (done, _) = running.done();
        let size = done.stats.packet_size;
        assert!((3968..=4000).contains(&size), "{congestion}: {size} {:?}", done.stats);
        assert_eq!(done.stats.timeouts, 0, "{congestion}: {:?}", done.stats);
    }
}
