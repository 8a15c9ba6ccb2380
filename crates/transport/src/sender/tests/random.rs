//! Random scripts: whatever arrives, the sender neither panics nor leaves its bounds.

use super::*;

/// Marsaglia's 64-bit xorshift; prints its seed when the test fails.
struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { seed, state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % end
    }

    fn size(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }

    /// Returns a window: often one of the small numbers at a limit, else any number.
    fn window(&mut self) -> u32 {
        match self.below(4) {
            0 => 0,
            1 => u32::try_from(self.below(4)).unwrap(),
            2 => u32::try_from(self.below(100)).unwrap(),
            _ => u32::try_from(self.below(1 << 32)).unwrap(),
        }
    }

    /// Returns a number around the flight, else any number.
    fn ack(&mut self, stats: &SenderStats) -> u64 {
        match self.below(8) {
            0 => self.below(1 << 32),
            1 => stats.snd_nxt + self.below(3),
            2 => stats.snd_una.saturating_sub(self.below(3)),
            3 => stats.snd_una,
            _ => stats.snd_una + self.below(stats.snd_nxt - stats.snd_una + 1),
        }
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the failing seed is {}", self.seed);
        }
    }
}

fn reply(random: &mut Random, script: &mut Script) {
    let number = random.ack(&script.stats());
    let window = random.window();
    let reply = match random.below(16) {
        0 => syn_ack(window),
        1 => FromReceiver::SynAck { ack: number, window: u64::from(window) },
        2 => fin_ack(number, window),
        _ => ack(number, window),
    };
    let mut datagram = encoded(&reply).to_vec();
    match random.below(20) {
        0 => datagram[random.size(REPLY_LEN)] ^= 1 << random.below(8),
        1 => datagram.truncate(random.size(REPLY_LEN)),
        2 => datagram = (0..random.below(100)).map(|_| random.below(256).to_le_bytes()[0]).collect(),
        _ => {}
    }
    script.recv_bytes(&datagram);
}

/// True if the largest window that was ever in force was respected.
fn run(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let window = 1 + u32::try_from(random.below(40)).unwrap();
    let packet_size = [9, 108, 1472][random.size(3)];
    let attempts = Attempts { syn: 3, data: 50, fin: 50 };
    let mut script = Script::new(SenderConfig { packet_size, attempts, ..config(window) });
    let mut clock = Duration::ZERO;
    let (mut allowed, mut una, mut ended) = (0, 0, 0);
    for step in 0..4000 {
        match random.below(12) {
            0..=5 => reply(&mut random, &mut script),
            6 | 7 => {
                let bytes = pattern(script.written, random.size(3000));
                script.written += script.sender.write(&bytes).unwrap();
            }
            8 => script.sender.push(),
            9 => {
                clock += ms(random.below(50));
                script.at_exactly(clock);
            }
            // Waiting for every timer would make each sample, and with it the next timer, longer.
            10 if script.timer().is_some_and(|due| due < clock + ms(5000)) => {
                clock = clock.max(script.expire());
            }
            11 if step > 3000 && random.below(50) == 0 => script.sender.finish().unwrap(),
            _ => {
                script.sent();
            }
        }
        let stats = script.stats();
        allowed = allowed.max(u64::from(stats.window));
        assert!(allowed <= u64::from(window), "step {step}");
        assert!(una <= stats.snd_una && stats.snd_una <= stats.snd_nxt, "step {step}: {stats:?}");
        assert!(stats.snd_nxt <= stats.snd_una + allowed, "step {step}: {stats:?}");
        assert!(stats.bytes_acked <= stats.bytes_written, "step {step}: {stats:?}");
        una = stats.snd_una;
        let last = |event: &SenderEvent| !matches!(event, SenderEvent::Connected { .. });
        ended += script.events().iter().filter(|event| last(event)).count();
        assert!(ended <= 1, "step {step}: a transfer ends once");
        if ended == 1 {
            assert_eq!((script.timer(), script.sent()), (None, vec![]), "step {step}");
        }
    }
    let sent = script.payloads.concat();
    assert!(sent == pattern(0, sent.len()), "the packets are the stream");
    assert_eq!(script.stats().crc, crc32fast::hash(&pattern(0, script.written)));
    una > 0
}

#[test]
fn no_sequence_of_replies_breaks_the_sender() {
    let moved = (1..=150).filter(|seed| run(*seed)).count();
    assert!(moved > 75, "only {moved} runs acknowledged anything");
}
