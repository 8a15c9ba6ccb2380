//! Coalesced datagrams (GRO) have the same effect as single ones.

use super::*;
use rdt_testing::random;

/// Returns all observable state of a listener and its output, as text.
fn observe(script: &mut Script) -> String {
    let mut replies = Vec::new();
    loop {
        script.batch.clear();
        let Some(peer) = script.set.poll_transmit(script.now, &mut script.batch) else { break };
        replies.extend(script.batch.datagrams().map(|datagram| (peer, datagram.to_vec())));
    }
    let (events, stats) = (script.events(), script.stats());
    let (memory, deadline) =
        ((script.set.memory(), script.set.stats().max_memory), script.set.poll_timeout());
    let wait = deadline.map(|deadline| deadline - script.now);
    let data = crc32fast::hash(script.set.classic().data('a').unwrap());
    format!("{replies:?} {events:?} {stats:?} {memory:?} {wait:?} {data}")
}

/// Delivers the datagrams that `next` makes, coalesced to one set and singly to the other. In
/// between the application reads and time passes.
fn compare(
    seed: u64,
    (mut coalesced, mut single): (Script, Script),
    random: &mut impl FnMut(u64) -> u64,
    mut next: impl FnMut(&mut dyn FnMut(u64) -> u64) -> Vec<u8>,
) {
    let mut time = 0;
    for step in 0..400 {
        let mut datagrams: Vec<_> = (0..=random(10)).map(|_| next(random)).collect();
        let stride = datagrams[0].len();
        if random(4) == 0
            && let Some(last) = datagrams.last_mut()
        {
            last.truncate(usize::try_from(random(stride as u64)).unwrap());
        }
        let bytes = datagrams.concat();
        let mut joined = bytes.clone();
        let count = coalesced.set.handle_datagrams(coalesced.now, 'a', Ecn::NotEct, &mut joined, stride);
        if bytes.is_empty() {
            single.recv('a', &[]);
        }
        for datagram in bytes.chunks(stride) {
            single.recv('a', datagram);
        }
        assert_eq!(count, bytes.len().div_ceil(stride).max(1));
        assert_eq!(observe(&mut coalesced), observe(&mut single), "seed {seed} step {step}");
        // Delayed replies are sent before the next datagrams arrive.
        let (read, pause) = (usize::try_from(random(2000)).unwrap(), random(30));
        time += pause;
        for script in [&mut coalesced, &mut single] {
            script.set.consume_classic('a', read);
            observe(script);
            script.at(time);
        }
        assert_eq!(observe(&mut coalesced), observe(&mut single), "seed {seed} step {step}, {time} ms");
    }
}

#[test]
fn coalesced_classic_packets_equal_single_ones() {
    for seed in 0..40 {
        let mut random = random(seed);
        let scripts = || Script::connected(keeping(), "a");
        let mut near = 0;
        compare(seed, (scripts(), scripts()), &mut random, |random| {
            let flags = if random(60) == 0 { 0x80 } else { 0 };
            let seq = if random(10) == 0 { near + random(6) } else { near };
            near += u64::from(random(8) > 0);
            let payload: Vec<u8> = (0..50).map(|n| n ^ seq.to_le_bytes()[0]).collect();
            let mut datagram = packet(flags, u32::try_from(seq).unwrap(), &payload);
            if random(30) == 0 {
                datagram[usize::try_from(random(58)).unwrap()] ^= 1;
            }
            datagram
        });
    }
}
