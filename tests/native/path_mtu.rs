//! The largest datagram of a path that changes in mid-transfer.

use rdt::emulator::Mtu;

use super::*;

#[test]
fn a_path_that_grows_is_found_out_ten_minutes_after_the_search() {
    // 1472 bytes and headers; from 100 s on 4000 of them.
    let mtu = Mtu::new(1500).then(secs(100), 4028);
    let config = SenderConfig { packet_size: 8972, window: 1000, ..native(Algorithm::Cubic) };
    let run = Run::new(500_000, ms(50)).config(config).forward(|link| link.overhead(IP_UDP).mtu(mtu));
    let before = run.run_for(secs(590));
    assert_eq!(before.stats.packet_size, 1472, "{:?}", before.stats);
    let after = run.run_for(secs(660));
    assert!((3968..=4000).contains(&after.stats.packet_size), "{:?}", after.stats);
    assert_eq!(after.stats.timeouts, 0, "{:?}", after.stats);
}
