//! Random scripts: the set never panics and its accounting stays consistent.

use super::*;

/// A random datagram, mostly valid.
fn random_datagram(random: &mut impl FnMut(u64) -> u64, near: u64) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation, reason = "numbers of the wire are 32 bits")]
    let seq = match random(10) {
        0 => random(1 << 32),
        1 => near + 79_000 + random(2000),
        2 => near.saturating_sub(random(10)),
        _ => near + random(8),
    } as u32;
    let payload = vec![0x5a; usize::try_from(random(60)).unwrap()];
    let mut datagram = match random(12) {
        0 => syn(seq, LINK).to_vec(),
        1 => syn(0, LINK).to_vec(),
        2 => packet(0x80, seq, &[]),
        3 => packet(0x80, seq, &payload),
        4 => (0..random(64)).map(|_| random(256).to_le_bytes()[0]).collect(),
        5 => packet(0, seq, &[1; 1465]),
        _ => packet(0, seq, &payload),
    };
    if random(15) == 0 && !datagram.is_empty() {
        let at = usize::try_from(random(datagram.len() as u64)).unwrap();
        datagram[at] ^= 1 << random(8);
    }
    datagram
}

fn may_reply(set: &ConnectionSet<char>) -> bool {
    !set.ready.is_empty() || !set.answers.half_open.is_empty()
}

fn run(seed: u64) {
    let mut bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = move |end: u64| {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        (bits >> 11) % end
    };
    let (keeps, faithful) = (seed.is_multiple_of(2), !seed.is_multiple_of(3));
    let mut config = Config {
        max_peers: 4,
        memory_limit: 1_500_000,
        peer_memory_limit: 1_400_000,
        ..if keeps { keeping() } else { reference() }
    };
    config.receiver.faithful = faithful;
    let mut script = Script::new(config);
    let mut time = 0;
    for step in 0..3000 {
        let peer = ['a', 'b', 'c', 'd', 'e', 'f'][usize::try_from(random(6)).unwrap()];
        match random(20) {
            0 => script.set.confirm_classic(peer),
            1 => {
                let len = usize::try_from(random(200)).unwrap();
                script.set.consume_classic(peer, len);
            }
            2 if random(10) == 0 => script.set.close_classic(peer),
            3 => {
                time += random(2000);
                script.at(time);
            }
            4 => drop(script.replies()),
            5 => drop(script.events()),
            _ => {
                let near = script.set.classic.table.get(&peer).map_or(0, |entry| entry.receiver.rcv_nxt());
                script.recv(peer, &random_datagram(&mut random, near));
            }
        }
        if !may_reply(&script.set) {
            assert_eq!(script.replies(), [], "seed {seed} step {step}");
        }
        let set = &script.set;
        let sum: u64 = set.classic.table.values().map(|entry| entry.receiver.memory()).sum();
        assert_eq!(set.memory(), sum, "seed {seed} step {step}");
        assert!(set.classic().active() <= 4, "seed {seed} step {step}");
        assert!(set.stats().max_memory >= sum, "seed {seed} step {step}");
        // Unread bytes are exempt from the limit up to 128 KiB a peer.
        assert!(keeps || sum <= 1_500_000, "seed {seed} step {step}: {sum} bytes");
    }
    // A transfer that has arrived whole waits for its application.
    for peer in ['a', 'b', 'c', 'd', 'e', 'f'] {
        if script.set.classic.table.get(&peer).is_some_and(|entry| entry.receiver.awaits_confirmation()) {
            script.set.close_classic(peer);
        }
    }
    script.at(time + 25 * SECOND);
    assert_eq!((script.set.classic().active(), script.set.memory()), (0, 0), "seed {seed}");
    assert_eq!((script.replies(), script.set.poll_timeout()), (vec![], None), "seed {seed}");
    assert!(!may_reply(&script.set), "seed {seed}");
    let stats = script.stats();
    let sums = stats.receivers;
    assert!(sums.accepted > 100, "seed {seed}: {stats:?}");
    // Memory is short only if packets far beyond the window are accepted.
    assert!(!faithful || sums.no_memory > 0, "seed {seed}: {stats:?}");
    assert!(stats.malformed > 0 && stats.too_long > 0 && stats.refused > 0, "seed {seed}: {stats:?}");
}

#[test]
fn random_datagrams_leave_no_memory_behind() {
    for seed in 1..=100 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "the failing seed is {seed}");
    }
}
