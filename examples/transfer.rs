//! One transfer of 4 MiB over a lossy link in virtual time: the smallest program on the library, and the one
//! whose instructions `.ci/instructions` counts.

use std::time::Duration;

use rdt::sim::{Outcome, Scenario};

fn main() {
    let scenario = Scenario {
        window: 256,
        rtt_s: 0.05,
        speed_bps: 1e9,
        loss_forward: 0.001,
        loss_reverse: 0.01,
        buffer: 306,
        bytes: 4 << 20,
        ..Scenario::default()
    };
    let report = scenario.run(Duration::from_secs(1000));
    assert!(matches!(report.outcome, Outcome::Finished { .. }), "{:?}", report.outcome);
    println!("{} datagrams in {:?} of virtual time, {}", report.datagrams, report.elapsed, report.hash);
}
