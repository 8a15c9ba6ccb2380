//! Test vectors of `docs/PROTOCOL.md`, damaged packets, and tests of wrapped numbers.

use std::cell::RefCell;

use rand::RngExt;
use rand::rngs::SmallRng;

use super::*;

const DOCUMENT: &str = include_str!("../../vectors/protocol.txt");

/// Returns the bytes that the document gives under this name in the section with this heading.
pub(super) fn vector(heading: &str, name: &str) -> Vec<u8> {
    let (_, section) = DOCUMENT.split_once(heading).unwrap();
    let block = section.split("```").nth(1).unwrap();
    let mut lines = block.lines().skip_while(|line| line.split(' ').next() != Some(name));
    let first = lines.next().unwrap_or_else(|| panic!("no vector {name}")).strip_prefix(name).unwrap();
    let lines = std::iter::once(first).chain(lines.take_while(|line| line.starts_with(' ')));
    let mut bytes = Vec::new();
    for line in lines.map(|line| line.split(';').next().unwrap()) {
        let (hex, zeros) = line.split_once('(').unwrap_or((line, "0 zeros)"));
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        bytes.extend(digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()));
        let zeros = zeros.trim_end().strip_suffix(" zeros)").unwrap().trim().parse::<usize>().unwrap();
        bytes.resize(bytes.len() + zeros, 0);
    }
    bytes
}

/// Same as [`vector`], for tests that read a vector 200,000 times.
pub(super) fn cached(heading: &str, name: &str) -> Vec<u8> {
    thread_local!(static VECTORS: RefCell<Vec<(String, Vec<u8>)>> = const { RefCell::new(Vec::new()) });
    let key = format!("{heading} {name}");
    VECTORS.with_borrow_mut(|vectors| {
        if let Some((_, bytes)) = vectors.iter().find(|(known, _)| *known == key) {
            return bytes.clone();
        }
        let bytes = vector(heading, name);
        vectors.push((key, bytes.clone()));
        bytes
    })
}

/// Changes a packet at random: its length, bytes or bits.
pub(super) fn damage(packet: &mut Vec<u8>, rng: &mut SmallRng) {
    for _ in 0..rng.random_range(1..4) {
        match rng.random_range(0..8) {
            0 => packet.truncate(rng.random_range(0..=packet.len())),
            1 => packet.resize(packet.len() + rng.random_range(0..64), rng.random()),
            _ if packet.is_empty() => {}
            2..5 => {
                let at = rng.random_range(0..packet.len());
                packet[at] = [0, 1, 0x7F, 0x80, 0xFF, rng.random()][rng.random_range(0..6)];
            }
            _ => {
                let at = rng.random_range(0..packet.len());
                packet[at] ^= 1 << rng.random_range(0..8);
            }
        }
    }
}

#[test]
fn unwrap_inverts_wrap_near_reference() {
    let wrap_at = 1_u64 << 32;
    for near in [100_000, wrap_at - 3, wrap_at, wrap_at + 5, 7 * wrap_at + 123] {
        for seq in near - 90_000..near + 90_000 {
            assert_eq!(unwrap_near(wrap(seq), near), Some(seq));
        }
    }
}

#[test]
fn numbers_before_the_start_are_none() {
    assert_eq!(unwrap_near(u32::MAX, 10), None);
    assert_eq!(unwrap_near(0, 10), Some(0));
    assert_eq!(unwrap_near(80_010, 10), Some(80_010));
}
