//! Statistical tests of the hash with fixed inputs. The bounds are about five standard deviations,
//! so a good hash is within them for practically any inputs.

use super::*;

const SEEDS: [u64; 6] = [0, 1, 2, 0xdead_beef, u64::MAX - 1, u64::MAX];
const DRAWS: u64 = 65_536;

fn forward(seed: u64, index: u64) -> u64 {
    draw(seed, Direction::Forward, Stage::Loss, index)
}

fn reverse(seed: u64, index: u64) -> u64 {
    draw(seed, Direction::Reverse, Stage::Loss, index)
}

/// Returns how many standard deviations Pearson's statistic of equal cells is above its mean.
fn chi_square_deviation(counts: &[u32]) -> f64 {
    let cells = f64::from(u32::try_from(counts.len()).unwrap());
    let mean = f64::from(counts.iter().sum::<u32>()) / cells;
    let statistic: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
    let freedom = cells - 1.0;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

/// Asserts that `a(n)` and `b(n)` are independent: the pairs of their top four bits, and of their
/// bottom four bits, are uniform over a table of 16 by 16 cells.
fn assert_independent(name: &str, a: impl Fn(u64) -> u64, b: impl Fn(u64) -> u64) {
    for shift in [60, 0] {
        let mut table = vec![0; 256];
        for n in 0..DRAWS {
            let cell = ((a(n) >> shift) & 15) << 4 | ((b(n) >> shift) & 15);
            table[usize::try_from(cell).unwrap()] += 1;
        }
        let deviation = chi_square_deviation(&table);
        assert!(deviation.abs() < 5.0, "{name}, bits from {shift}: {deviation} sigma");
    }
}

#[test]
fn draws_are_the_same_for_ever() {
    let (f, r) = (Direction::Forward, Direction::Reverse);
    let draws = [
        draw(0, f, Stage::Loss, 0),
        draw(0, r, Stage::Loss, 0),
        draw(1, f, Stage::Loss, 2),
        child_seed(0, 0),
    ];
    assert_eq!(
        draws,
        [0xa75b_d3de_edb9_aa8a, 0x6aa9_8fe4_fc45_1c82, 0xb7b3_9358_8352_6d67, 0xa1f7_cd6c_9dd4_1e5f]
    );
}

#[test]
fn draws_are_uniform_in_every_byte() {
    for seed in SEEDS {
        for byte in 0..8 {
            let mut counts = vec![0; 256];
            for n in 0..DRAWS {
                counts[usize::from(forward(seed, n).to_le_bytes()[byte])] += 1;
            }
            let deviation = chi_square_deviation(&counts);
            assert!(deviation.abs() < 5.0, "seed {seed}, byte {byte}: {deviation} sigma");
        }
    }
}

#[test]
fn directions_draw_independently() {
    for seed in SEEDS {
        assert_independent(&format!("seed {seed}"), |n| forward(seed, n), |n| reverse(seed, n));
    }
}

#[test]
fn neighbouring_seeds_draw_independently() {
    for seed in SEEDS {
        let next = seed.wrapping_add(1);
        assert_independent(&format!("seed {seed}"), |n| forward(seed, n), |n| forward(next, n));
    }
}

#[test]
fn neighbouring_packets_draw_independently() {
    for seed in SEEDS {
        assert_independent(&format!("seed {seed}"), |n| forward(seed, n), |n| forward(seed, n + 1));
    }
}

#[test]
fn successive_seeds_draw_independently() {
    assert_independent("packet 0", |seed| forward(seed, 0), |seed| forward(seed + 1, 0));
    assert_independent("packet 0 and 1", |seed| forward(seed, 0), |seed| forward(seed, 1));
}

#[test]
fn child_seeds_are_independent() {
    for seed in SEEDS {
        assert_independent(
            &format!("siblings of {seed}"),
            |n| child_seed(seed, n),
            |n| child_seed(seed, n + 1),
        );
        assert_independent(&format!("child of {seed}"), |n| child_seed(seed, n), |n| forward(seed, n));
        assert_independent(
            &format!("draws below {seed}"),
            |n| forward(child_seed(seed, n), 0),
            |n| forward(seed, n),
        );
    }
}

#[test]
fn stages_draw_independently() {
    // Further pairs of stages, because the stage is only part of one input word of the hash.
    for stage in 1..4 {
        assert_independent(
            &format!("stage {stage}"),
            |n| forward(9, n),
            |n| hash(9, PURPOSE_PACKET_DRAW | stage << 1, n),
        );
    }
}

#[test]
fn each_input_bit_flips_half_the_output() {
    const SEED: u64 = 0x4d;

    let flips = |change: &dyn Fn(u64) -> u64| -> f64 {
        let flipped: u32 = (0..1_000).map(|n| (forward(SEED, n) ^ change(n)).count_ones()).sum();
        f64::from(flipped) / 64_000.0
    };
    // The share of ones in 64,000 random bits has a standard deviation of 0.002.
    for bit in 0..64 {
        let by_seed = flips(&|n| forward(SEED ^ (1 << bit), n));
        let by_index = flips(&|n| forward(SEED, n ^ (1 << bit)));
        assert!((by_seed - 0.5).abs() < 0.01, "seed bit {bit}: {by_seed}");
        assert!((by_index - 0.5).abs() < 0.01, "index bit {bit}: {by_index}");
    }
}
