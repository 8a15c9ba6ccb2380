//! Cost of the emulator alone: packets pass one link that queues, delays and drops them, without
//! protocol endpoints. Counted by `.ci/instructions`. `cargo run --bin link`.

use std::time::Duration;

use rdt::emulator::{Bitrate, Direction, Link, LinkConfig, Loss, Probability};
use rdt::udp::clock;

const PACKETS: u32 = 100_000;
/// Bytes of a packet; the content is never read.
const SIZE: usize = 1472;
const RATE: Bitrate = Bitrate::from_bps(10_000_000_000);
const DELAY: Duration = Duration::from_millis(1);
/// Time between packets: slightly longer than a transmission, so that some packets queue and none
/// is dropped.
const INTERVAL: Duration = Duration::from_nanos(1200);
const BATCH: u32 = 44;

fn main() {
    let config = LinkConfig {
        loss: Loss::Bernoulli(Probability::new(0.001).expect("a probability")),
        rate: Some(RATE),
        delay: DELAY,
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1, Direction::Forward);
    // Start of virtual time.
    let mut now = clock::now();
    let (mut pool, mut delivered, mut dropped) = (Vec::new(), 0, 0);
    for packet in 0..PACKETS {
        if packet % BATCH == 0 {
            now += INTERVAL * BATCH;
        }
        if let Err(gone) = link.push(now, pool.pop().unwrap_or_else(|| vec![0; SIZE])) {
            dropped += 1;
            pool.push(gone.packet);
        }
        while let Some(delivery) = link.pop(now) {
            delivered += 1;
            pool.push(delivery.packet);
        }
    }
    println!("link: {PACKETS} packets, {delivered} delivered so far, {dropped} lost");
}
