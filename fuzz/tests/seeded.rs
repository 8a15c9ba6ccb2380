//! Every fuzz target on a stable compiler: seeded random inputs, and mutations of inputs that were
//! accepted before. `RDT_FUZZ_SECONDS` is the time for each target (default 1), `RDT_FUZZ_SEED` the
//! first seed (default 1).

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// xorshift64*: enough for inputs, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn bytes(&mut self) -> Vec<u8> {
        let longest = [64, 512, 4096][self.below(3)];
        let len = self.below(longest);
        // Small values make enum variants and lengths that lead further.
        let small = self.below(2) == 0;
        (0..len).map(|_| if small { self.next() as u8 % 16 } else { self.next() as u8 }).collect()
    }

    fn mutate(&mut self, input: &[u8]) -> Vec<u8> {
        let mut input = input.to_vec();
        for _ in 0..=self.below(8) {
            let at = self.below(input.len());
            match self.below(4) {
                0 if !input.is_empty() => input[at] = self.next() as u8,
                1 if !input.is_empty() => input[at] ^= 1 << self.below(8),
                2 => input.insert(at, self.next() as u8),
                _ => input.truncate(at.max(8)),
            }
        }
        input
    }
}

fn search(name: &str, target: fn(&[u8]), seeds: &[&[u8]]) {
    let number = |key: &str, default| env::var(key).map_or(default, |text| text.parse().expect("a number"));
    let mut random = Random(number("RDT_FUZZ_SEED", 1) | 1 << 40);
    let until = Instant::now() + Duration::from_secs(number("RDT_FUZZ_SECONDS", 1));
    let mut corpus: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    let mut executions = 0_u64;
    while Instant::now() < until {
        let input = if corpus.is_empty() || random.below(2) == 0 {
            random.bytes()
        } else {
            let at = random.below(corpus.len());
            random.mutate(&corpus[at])
        };
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            panic!("{name} failed on {input:?}");
        }
        executions += 1;
        // Without coverage the corpus is a random sample of bounded size.
        if corpus.len() < 256 {
            corpus.push(input);
        } else {
            let at = random.below(corpus.len() * 64);
            if let Some(place) = corpus.get_mut(at) {
                *place = input;
            }
        }
    }
    println!("{name}: {executions} executions");
}

#[test]
fn decode_classic() {
    search("decode_classic", rdt_fuzz::decode_classic::run, &[]);
}

#[test]
fn decode_native() {
    search("decode_native", rdt_fuzz::decode_native::run, &[]);
}

#[test]
fn sender_machine() {
    search("sender_machine", rdt_fuzz::sender_machine::run, &[]);
}

#[test]
fn receiver_machine() {
    search("receiver_machine", rdt_fuzz::receiver_machine::run, &[]);
}

#[test]
fn scoreboard_ops() {
    search("scoreboard_ops", rdt_fuzz::scoreboard_ops::run, &[]);
}

#[test]
fn path_spec() {
    let seed = b"rate = \"10mbit\"\nloss = \"gilbert-elliott p=1% r=25%\"\nqueue = \"1bdp\"\n\
        discipline = \"codel:target=5ms\"\nrtt = \"100ms\"\n[reverse]\noutage = \"1s every 3s\"\n";
    let flags = b"forward rate=0s:10mbit,5s:2mbit\nreverse jitter=normal 2ms\nmtu=1500 fragment\nmark=20p\n";
    search("path_spec", rdt_fuzz::path_spec::run, &[seed, flags]);
}

#[test]
fn capture() {
    let seed = include_bytes!("../../crates/lab/tests/data/trace/wrapped.pcap");
    let sections = include_bytes!("../../crates/lab/tests/data/trace/loss.pcapng");
    let tunnels = rdt_fuzz::capture::tunnels();
    let trace = rdt_lab::trace::analyse(std::io::Cursor::new(tunnels.clone()), None).expect("a capture");
    let packets: u64 = trace.connections.iter().flat_map(|it| &it.directions).map(|it| it.packets).sum();
    assert!(packets >= 8, "{packets} packets of TCP: plain, in six tunnels, and of two fragments");
    search("capture", rdt_fuzz::capture::run, &[&seed[..2000], &sections[..2000], &tunnels]);
}

#[test]
fn handshake() {
    search("handshake", rdt_fuzz::handshake::run, &[]);
}

#[test]
fn open_sealed() {
    search("open_sealed", rdt_fuzz::open_sealed::run, &[]);
}

/// Returns the bytes from which `arbitrary` makes variant `index` of an enum with `count` variants.
fn variant(index: u64, count: u64) -> [u8; 4] {
    ((index << 32) / count + 1).to_le_bytes()[..4].try_into().expect("four bytes")
}

/// A connection that is not encrypted, data in both directions, and a forged packet of each type.
fn forging_peer() -> Vec<u8> {
    const OPS: u64 = 18;
    const TYPES: u64 = 7;
    let op = |index: u64, fields: &[u8]| [&[1][..], &variant(index, OPS), fields].concat();
    let deliver_all = op(2, &[]);
    let near = [&variant(0, 2)[..], &[0]].concat();
    let ack = [&near[..], &[9, 0], &near, &[0, 9, 0, 0, 0, 0, 0, 0], &[1, 1, 0, 0], &[1, 3, 0, 9, 0, 0, 0]]
        .concat();
    let bodies = [
        [&near[..], &[100, 0, 1, 0, 0, 0]].concat(),
        ack,
        [&near[..], &[0]].concat(),
        [&near[..], &[0]].concat(),
    ];
    let mut input = vec![1 | 2 | 64];
    (0..6).for_each(|_| input.extend(&deliver_all));
    for (kind, body) in (0..).zip(bodies) {
        input.extend(op(16, &[50, 0]));
        input.extend(op(10, &[0, 0, 0, 40]));
        input.extend(op(10, &[1, 0, 0, 40]));
        input.extend(op(7, &[&[0, 100][..], &variant(kind, TYPES), &body].concat()));
        (0..3).for_each(|_| input.extend(&deliver_all));
    }
    input
}

#[test]
fn connection_machine() {
    search("connection_machine", rdt_fuzz::connection_machine::run, &[&forging_peer()]);
}
