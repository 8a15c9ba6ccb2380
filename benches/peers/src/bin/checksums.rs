//! Compares CRC-32 libraries (ISO-HDLC, as in Ethernet and zlib): one thread, input in cache.
//!
//! Prints a Markdown table. All libraries must compute the same checksums.

#[path = "../locked.rs"]
mod locked;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rscrypto::checksum::{Checksum as _, Crc32};

/// Input lengths, bytes: some short ones, the payloads of datagrams of 1472 and 7472 bytes, and a
/// batch.
const LENGTHS: [usize; 7] = [16, 64, 256, 1452, 1464, 7464, 65_536];

/// Turns of each library at each length, of which the fastest counts, because other processes use
/// the host too.
const ROUNDS: u32 = 15;

/// Shortest duration of a turn.
const TURN: Duration = Duration::from_millis(4);

static TABLE: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISO_HDLC);

struct Library {
    name: &'static str,
    /// Function used, if the library has several.
    how: &'static str,
    checksum: fn(&[u8]) -> u32,
}

const LIBRARIES: [Library; 6] = [
    Library { name: "crc32fast", how: "", checksum: crc32fast::hash },
    Library { name: "rscrypto", how: "", checksum: Crc32::checksum },
    Library { name: "crc-fast", how: "", checksum: crc_fast::crc32_iso_hdlc },
    Library { name: "zlib-rs", how: "", checksum: |bytes| zlib_rs::crc32::crc32(0, bytes) },
    Library { name: "libdeflater", how: "", checksum: libdeflater::crc32 },
    Library { name: "crc", how: ", `Table<16>`", checksum: |bytes| TABLE.checksum(bytes) },
];

fn main() -> Result<()> {
    print!("| bytes |");
    for Library { name, how, .. } in &LIBRARIES {
        print!(" {name} {}{how} |", locked::version(name)?);
    }
    println!("\n|---{}|", "|---".repeat(LIBRARIES.len()));
    for length in LENGTHS {
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect();
        print!("| {length} |");
        for ns in best(&bytes)? {
            #[expect(clippy::cast_precision_loss, reason = "lengths are small")]
            let gigabytes_per_s = length as f64 / ns;
            print!(" {ns:.1} ns, {gigabytes_per_s:.1} GB/s |");
        }
        println!();
    }
    Ok(())
}

/// Returns the nanoseconds per call of each library. The libraries take turns.
fn best(bytes: &[u8]) -> Result<[f64; LIBRARIES.len()]> {
    let expected = (LIBRARIES[0].checksum)(bytes);
    for library in &LIBRARIES {
        ensure!((library.checksum)(bytes) == expected, "{} disagrees at {} bytes", library.name, bytes.len());
    }
    let mut best = [f64::INFINITY; LIBRARIES.len()];
    for _ in 0..ROUNDS {
        for (library, best) in LIBRARIES.iter().zip(&mut best) {
            *best = best.min(turn(library.checksum, bytes));
        }
    }
    Ok(best)
}

/// Returns the mean nanoseconds per call over a turn. Shorter turns before determine the number of
/// calls.
fn turn(checksum: fn(&[u8]) -> u32, bytes: &[u8]) -> f64 {
    let mut calls = 1u32;
    loop {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(checksum(black_box(bytes)));
        }
        let time = start.elapsed();
        if time >= TURN {
            return time.as_secs_f64() * 1e9 / f64::from(calls);
        }
        calls *= 2;
    }
}
