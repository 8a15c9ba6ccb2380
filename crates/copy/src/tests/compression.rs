//! Compressed copies, and peers that misuse compression.

use std::fs;

use super::hostile::{after_want, data, message, source_says};
use super::support::{Folder, bytes, failures, listing, plant, pulled, pushed, write};
use crate::protocol::FromSource;
use crate::{Compression, Request, SourceOptions, Summary};

async fn copied(folder: &Folder, compression: Compression, is_push: bool) -> Summary {
    let source = SourceOptions { compression, ..SourceOptions::default() };
    let request = Request { source, ..folder.request() };
    let summary = if is_push { pushed(request).await } else { pulled(request).await }.unwrap();
    assert_eq!(failures(&summary), [].into());
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
    summary
}

/// Fills a folder with a tree of small files that resemble each other.
fn plant_texts(folder: &Folder) {
    for number in 0..300 {
        let lines = (0..20).map(|line| format!("fn function_{number}_{line}(argument: u64) -> u64 {{}}\n"));
        write(folder.src().join(format!("{number}.rs")), lines.collect::<String>().as_bytes());
    }
}

#[tokio::test]
async fn small_files_are_compressed_together() {
    for (compression, is_push) in
        [(Compression::Auto, true), (Compression::Level(9), true), (Compression::Level(1), false)]
    {
        let folder = Folder::new();
        plant_texts(&folder);
        let summary = copied(&folder, compression, is_push).await;
        assert!(summary.sent_bytes > 250_000 && summary.uncompressed_bytes > 250_000, "{summary:?}");
        // Each alone, they become a third.
        assert!(summary.compressed_bytes < 60_000, "{summary:?}");
    }
}

#[tokio::test]
async fn off_compresses_nothing() {
    let folder = Folder::new();
    plant_texts(&folder);
    let summary = copied(&folder, Compression::Off, true).await;
    assert_eq!((summary.uncompressed_bytes, summary.compressed_bytes), (0, 0));
}

#[tokio::test]
async fn every_kind_of_entry_arrives_compressed() {
    for is_push in [true, false] {
        let folder = Folder::new();
        plant(&folder.src());
        write(folder.src().join("noise"), &noise(12 << 20));
        super::support::set_mode(&folder.src().join("deep/er"), 0o755);
        let summary = copied(&folder, Compression::Level(3), is_push).await;
        assert!(summary.uncompressed_bytes > summary.compressed_bytes, "{summary:?}");
    }
}

/// Returns bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    noise
}

#[tokio::test]
async fn noise_is_not_compressed_for_long() {
    let folder = Folder::new();
    write(folder.src().join("noise"), &noise(100 << 20));
    let summary = copied(&folder, Compression::Level(3), true).await;
    assert!(summary.uncompressed_bytes < 20 << 20, "{summary:?}");
    assert_eq!(fs::metadata(folder.dst().join("src/noise")).unwrap().len(), 100 << 20);
}

/// Returns a compressed frame that declares `plain` bytes.
fn frame(plain: u32, compressed: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + compressed.len()).unwrap();
    [&[3], &length.to_le_bytes()[..], &plain.to_le_bytes(), compressed].concat()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

#[tokio::test]
async fn compressed_frames_are_read() {
    let folder = Folder::new();
    let root = *blake3::hash(b"HELLO").as_bytes();
    let plain = [data(1, 0, b"HELLO"), message(&FromSource::End { id: 1, root })].concat();
    let frames = vec![frame(length(&plain), &zstd(&plain))];
    assert_eq!(after_want(&folder.dst(), 5, frames).await.unwrap().files, 1);
}

#[tokio::test]
async fn bombs_and_damage_end_copy() {
    let folder = Folder::new();
    let hello = data(1, 0, b"HELLO");
    let zeros = zstd(&vec![0; 64 << 20]);
    let wide = {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
        encoder.window_log(27).unwrap();
        encoder.include_contentsize(false).unwrap();
        std::io::Write::write_all(&mut encoder, &noise(8 << 20)).unwrap();
        encoder.finish().unwrap()
    };
    let nested = frame(length(&hello), &zstd(&hello));
    let mut damaged = zstd(&bytes(10_000, 1));
    damaged[20] ^= 0x55;
    for (name, frames) in [
        ("more than declared", frame(length(&hello), &zeros)),
        ("more by one", frame(length(&hello) - 1, &zstd(&hello))),
        ("less than declared", frame(length(&hello) + 1, &zstd(&hello))),
        ("more than a batch", frame(64 << 20, &zeros)),
        ("nothing", frame(0, &zstd(b""))),
        ("window", frame(1 << 20, &wide[..1 << 16])),
        ("nested", frame(length(&nested), &zstd(&nested))),
        ("cut frame", frame(length(&hello[..20]), &zstd(&hello[..20]))),
        ("damaged", frame(10_000, &damaged)),
        ("no zstd", frame(5, b"HELLO")),
        ("too long", [&[3][..], &(2u32 << 20).to_le_bytes()].concat()),
        ("empty", frame(1, b"")),
    ] {
        let error = source_says(&folder.dst(), vec![frames], false).await.unwrap_err();
        assert!(error.to_string().contains("protocol"), "{name}: {error}");
    }
    assert!(listing(&folder.dst()).is_empty());
}
