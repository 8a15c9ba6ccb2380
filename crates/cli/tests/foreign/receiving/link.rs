//! The emulated link in real time. A busy host only adds delay, so lower bounds are exact, and
//! upper bounds only exclude other rules.

use std::thread;
use std::time::Duration;

use rdt_udp::clock;

use crate::mode::Mode;
use crate::process::Recv;
use crate::raw::Raw;
use crate::wire::{Link, data, fin, syn};

const MODE: Mode = Mode::Reference;

#[test]
fn burst_keeps_buffer_plus_one_packets() {
    // Packets in propagation count towards the buffer: a place becomes free after half the RTT, or
    // after 0.2 s of transmission at the low rate.
    let cases = [(1.0, 1e10, 1), (1.0, 1e10, 10), (0.0, 4000.0, 1), (0.0, 4000.0, 10)];
    let recv = MODE.start();
    let mut beat = MODE.metronome(&recv);
    let payload = [7; 92];
    let mut paths: Vec<_> = cases
        .iter()
        .map(|&(rtt, speed, buffer)| (Raw::to(recv.address), Link { rtt, speed, loss: [0.0; 2], buffer }))
        .collect();
    for (raw, link) in &mut paths {
        raw.send(&link.syn(0));
    }
    for (raw, _) in &mut paths {
        raw.expect(&MODE.syn_ack(0));
    }
    for (raw, _) in &mut paths {
        for seq in 0..1000 {
            raw.send(&data(seq, &payload));
            if seq % 100 == 99 {
                beat.beat();
            }
        }
    }
    for (raw, link) in &mut paths {
        let kept = link.buffer + 1;
        for seq in 0..kept {
            raw.expect(&MODE.ack(seq + 1));
        }
        raw.quiet(Duration::from_millis(20));
        raw.send(&fin(kept));
    }
    for (raw, link) in &mut paths {
        let kept = link.buffer + 1;
        raw.expect(&MODE.fin_ack(kept, &payload.repeat(kept as usize)));
    }
}

#[test]
fn packets_and_replies_are_serialized_without_headers() {
    let recv = MODE.start();
    let mut raw = Raw::to(recv.address);
    let between = |raw: &mut Raw, packets: &[Vec<u8>], replies: &[Vec<u8>], ms: std::ops::Range<u64>| {
        let start = clock::now();
        for packet in packets {
            raw.send(packet);
        }
        for reply in replies {
            raw.expect(reply);
        }
        let time = clock::now() - start;
        let bounds = Duration::from_millis(ms.start)..Duration::from_millis(ms.end);
        raw.check(bounds.contains(&time), || format!("it took {time:?}, not {bounds:?}"));
    };
    // The SYN of 28 bytes at 500 bit/s and the SYN-ACK of 12 bytes: 448 ms + 192 ms + RTT. If IP
    // and UDP headers (28 bytes) counted, 896 ms more.
    let link = Link { rtt: 0.1, speed: 500.0, ..Link::CLEAR };
    between(&mut raw, &[link.syn(0)], &[MODE.syn_ack(0)], 739..1350);
    // One packet of 8 bytes, 128 ms, then three ACKs of 192 ms one after another. If headers
    // counted, and ACKs had 40 bytes, 1.9 s more.
    let packets = [data(0, b""), data(1, b""), data(2, b"")];
    let replies = [MODE.ack(1), MODE.ack(2), MODE.ack(3)];
    between(&mut raw, &packets, &replies, 803..1900);
}

#[test]
fn each_direction_delays_half_rtt() {
    // With a buffer of 1, two packets fill the path until the first is delivered.
    let recv = MODE.start();
    let mut raw = Raw::to(recv.address);
    let mut beat = MODE.metronome(&recv);
    raw.ask(&Link { rtt: 1.0, buffer: 1, ..Link::CLEAR }.syn(0), &MODE.syn_ack(0));
    for seq in 0..3 {
        raw.send(&data(seq, b"at once"));
    }
    beat.beat();
    raw.quiet(Duration::from_millis(250));
    raw.send(&data(3, b"after a quarter"));
    beat.beat();
    raw.quiet(Duration::from_millis(400));
    raw.send(&data(2, b"after more than half"));
    for seq in 0..3 {
        raw.expect(&MODE.ack(seq + 1));
    }
    raw.quiet(Duration::from_millis(100));
}

#[test]
fn loss_rate_is_accurate_and_repeats_with_seed() {
    // Every kind of packet is subject to loss.
    let packets = [syn(0), data(0, b"drawn for"), fin(0)];
    thread::scope(|scope| {
        for (packet, loss) in packets.iter().flat_map(|packet| [(packet, [0.3, 0.0]), (packet, [0.0, 0.3])]) {
            scope.spawn(move || {
                let count = replies_to_1000("7", loss, packet);
                // Expected are 700 of 1000, with a standard deviation of 14.5.
                assert!((642..=758).contains(&count), "{count} replies with loss {loss:?} to {packet:02x?}");
                assert_eq!(replies_to_1000("7", loss, packet), count, "with loss {loss:?} to {packet:02x?}");
            });
        }
    });
}

/// Returns the number of replies to 1000 copies of a packet, over a link with this loss probability
/// in forward and reverse direction.
fn replies_to_1000(seed: &str, loss: [f32; 2], packet: &[u8]) -> usize {
    let recv = Recv::start(&["--seed", seed]);
    let mut beat = MODE.metronome(&recv);
    let mut raw = Raw::to(recv.address);
    // Five copies each, of which one should be delivered. FINs that arrive before the first reply
    // share that reply, so they are sent one at a time.
    for first in [&Link { loss, ..Link::CLEAR }.syn(0), packet] {
        for _ in 0..5 {
            raw.send(first);
            beat.beat();
        }
    }
    let pause = Duration::from_millis(2);
    raw.drain(Duration::from_millis(100));
    let mut replies = 0;
    for _ in 0..20 {
        for _ in 0..50 {
            raw.send(packet);
        }
        beat.beat();
        replies += raw.drain(pause).len();
    }
    replies + raw.drain(Duration::from_millis(200)).len()
}

#[test]
fn no_link_neither_delays_nor_loses() {
    for mode in [Mode::NoLink, Mode::Dummy] {
        let recv = mode.start();
        let mut raw = Raw::to(recv.address);
        let worst = Link { rtt: 29.0, speed: 1.0, loss: [0.9999, 0.9999], buffer: 1 };
        raw.ask(&worst.syn(0), &mode.syn_ack(0));
        for burst in 0..5 {
            let burst = burst * 20..burst * 20 + 20;
            burst.clone().for_each(|seq| raw.send(&data(seq, b"at once")));
            burst.for_each(|seq| raw.expect(&mode.ack(seq + 1)));
        }
    }
}

#[test]
fn each_connection_has_own_link() {
    let recv = MODE.start();
    let (mut slow, mut fast) = (Raw::to(recv.address), Raw::to(recv.address));
    slow.send(&Link { rtt: 0.5, ..Link::CLEAR }.syn(0));
    fast.ask(&syn(0), &MODE.syn_ack(0));
    fast.ask(&data(0, b"fast"), &MODE.ack(1));
    slow.expect(&MODE.syn_ack(0));
}
