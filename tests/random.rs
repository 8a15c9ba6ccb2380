//! Transfers over random links: every byte once and in order, or the documented failure.
//! `RDT_TRANSFERS` is the number of transfers (default 200), `RDT_SEED` runs a single one.

use std::env;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rdt::Phase;
use rdt::sim::payload;
use rdt::sim::{Outcome, Report, Scenario};
use rdt::transport::TransferError;

const TRANSFERS: u64 = 200;
const LIMIT: Duration = Duration::from_secs(1_000_000);

fn scenario(seed: u64) -> Scenario {
    let mut rng = SmallRng::seed_from_u64(seed);
    let loss = |rng: &mut SmallRng| if rng.random_bool(0.3) { 0.0 } else { rng.random_range(0.0..0.3_f32) };
    let window = 1 << rng.random_range(0..10_u32);
    let packet_size = match rng.random_range(0..4) {
        0 => rng.random_range(9..200),
        1 => rng.random_range(200..9000),
        _ => 1472,
    };
    let packets = rng.random_range(0..400_u64);
    Scenario {
        window: rng.random_range(1..=window),
        rtt_s: if rng.random_bool(0.1) { 0.0 } else { rng.random_range(0.0..2.0) },
        // 10 kbit/s to 10 Gbit/s, log-uniform.
        speed_bps: 10_f32.powf(rng.random_range(4.0..10.0)),
        loss_forward: loss(&mut rng),
        loss_reverse: loss(&mut rng),
        buffer: rng.random_range(1..=2 * window),
        bytes: packets * (packet_size as u64 - 8) + rng.random_range(0..packet_size as u64),
        packet_size,
        seed,
        ..Scenario::default()
    }
}

fn crc_of_array(bytes: u64) -> u32 {
    let mut data = vec![0; usize::try_from(bytes).unwrap()];
    payload::fill(0, &mut data);
    crc32fast::hash(&data)
}

/// Checks one report; returns true if the transfer finished.
fn check(scenario: &Scenario, report: &Report) -> bool {
    let (sender, received) = (&report.sender, &report.received);
    assert!(received.intact, "a byte is wrong, missing or twice");
    assert!(report.server.forward.balances() && report.server.reverse.balances(), "the ledger balances");
    assert!(sender.bytes_acked <= received.bytes, "what was acknowledged was delivered");
    match &report.outcome {
        Outcome::Finished { crc: Some(crc) } => {
            assert_eq!(received.bytes, scenario.bytes);
            assert_eq!(*crc, crc_of_array(scenario.bytes));
            assert_eq!((received.crc, sender.crc), (Some(*crc), *crc));
            true
        }
        Outcome::Failed { phase, error: TransferError::Timeout { attempts, .. } } => {
            let limit = match phase {
                Phase::Connect => scenario.attempts.syn,
                Phase::Send => scenario.attempts.data,
                Phase::Close => scenario.attempts.fin,
            };
            assert_eq!(*attempts, limit, "it gave up after {phase}'s attempts");
            false
        }
        other => panic!("neither finished nor out of attempts: {other:?}"),
    }
}

#[test]
fn random_links_deliver_everything_or_hit_attempt_limit() {
    let only: Option<u64> = env::var("RDT_SEED").ok().and_then(|s| s.parse().ok());
    let count = env::var("RDT_TRANSFERS").ok().and_then(|s| s.parse().ok()).unwrap_or(TRANSFERS);
    let seeds = only.map_or(0..count, |seed| seed..seed + 1);
    let mut finished = 0;
    for seed in seeds.clone() {
        let scenario = scenario(seed);
        let result = std::panic::catch_unwind(|| check(&scenario, &scenario.run(LIMIT)));
        match result {
            Ok(done) => finished += u64::from(done),
            Err(panic) => {
                eprintln!("seed {seed}: {scenario:#?}\nagain: RDT_SEED={seed} cargo test --test main random");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // Three SYN attempts can fail at up to 30 % loss each way; most transfers must finish.
    assert!(
        only.is_some() || finished * 10 > (seeds.end - seeds.start) * 8,
        "{finished} of {count} finished"
    );
}
