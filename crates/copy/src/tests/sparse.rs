//! Files with holes: their length costs nothing.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use super::hostile::{after_want, data, message};
use super::resume::push_until;
use super::support::{Folder, Log, bytes, failures, pulled, pushed, set_time};
use crate::protocol::FromSource;
use crate::tree_hash::{GROUP_BYTES, TreeHash};
use crate::{DestinationOptions, Request};

const TERABYTE: u64 = 1 << 40;

/// Writes a file of this size that has pieces of data, and a time in the past.
fn plant(path: &Path, size: u64, pieces: &[(u64, &[u8])]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, piece) in pieces {
        file.write_all_at(piece, *offset).unwrap();
    }
    drop(file);
    set_time(path, 1_000_000_000);
}

fn assert_same(folder: &Folder, size: u64, pieces: &[(u64, &[u8])]) {
    let file = File::open(folder.dst().join("src/file")).unwrap();
    let meta = file.metadata().unwrap();
    let data: usize = pieces.iter().map(|(_, piece)| piece.len() + (64 << 10)).sum();
    assert_eq!(meta.size(), size);
    assert!(meta.blocks() * 512 <= data as u64 + (128 << 10), "{} blocks", meta.blocks());
    for (offset, piece) in pieces {
        let mut found = vec![1; piece.len() + 1];
        let end = usize::try_from(size - offset).unwrap_or(usize::MAX).min(found.len());
        file.read_exact_at(&mut found[..end], *offset).unwrap();
        assert!(found.starts_with(piece) && (end == piece.len() || found[piece.len()] == 0), "{offset}");
    }
}

#[tokio::test]
async fn terabytes_of_nothing_are_copied_at_once() {
    let piece = bytes(70_000, 5);
    let cases: [&[(u64, &[u8])]; 4] = [
        &[],
        &[(0, b"x")],
        &[(TERABYTE / 2 + 4096, b"x"), (TERABYTE - 1, b"y")],
        &[(3 * GROUP_BYTES - 4096, &piece), (TERABYTE / 3, &piece), (TERABYTE - GROUP_BYTES, b"y")],
    ];
    for (number, pieces) in cases.iter().enumerate() {
        let folder = Folder::new();
        plant(&folder.src().join("file"), TERABYTE, pieces);
        let request = folder.request();
        let summary = if number % 2 == 0 { pushed(request).await } else { pulled(request).await }.unwrap();
        assert_eq!((summary.files, summary.bytes, failures(&summary)), (1, TERABYTE, [].into()));
        assert!(summary.sent_bytes <= 300_000, "{}", summary.sent_bytes);
        assert_same(&folder, TERABYTE, pieces);
        let destination = DestinationOptions { checksum: true, ..DestinationOptions::default() };
        let again = pushed(Request { destination, ..folder.request() }).await.unwrap();
        assert_eq!((again.skipped, again.sent_bytes, again.failures), (1, 0, 0), "compared by content");
    }
}

#[tokio::test]
async fn hole_and_zeros_have_same_hash() {
    let folder = Folder::new();
    let size = 2 * GROUP_BYTES + 100_000;
    plant(&folder.src().join("file"), size, &[(GROUP_BYTES + 7, b"island")]);
    fs::create_dir(folder.dst().join("src")).unwrap();
    let zeros = vec![0; usize::try_from(size).unwrap()];
    plant(&folder.dst().join("src/file"), size, &[(0, &zeros), (GROUP_BYTES + 7, b"island")]);
    let destination = DestinationOptions { checksum: true, ..DestinationOptions::default() };
    let summary = pushed(Request { destination, ..folder.request() }).await.unwrap();
    assert_eq!((summary.skipped, summary.sent_bytes, summary.failures), (1, 0, 0));
}

#[tokio::test]
async fn interrupted_sparse_file_goes_on_with_its_holes() {
    let folder = Folder::new();
    let [first, second] = [1, 2].map(|seed| bytes(40 << 20, seed));
    let pieces: [(u64, &[u8]); 3] = [(TERABYTE / 4, &first), (TERABYTE / 2, &second), (TERABYTE - 1, b"z")];
    plant(&folder.src().join("file"), TERABYTE, &pieces);
    let log = Arc::new(Log::default());
    push_until(&folder, 60 << 20, &log).await[0].as_ref().unwrap_err();
    let [near, far] = push_until(&folder, u64::MAX, &log).await;
    let (near, far) = (near.unwrap(), far.unwrap());
    assert!(near.resumed_bytes > TERABYTE / 4 && far.files == 1, "{near:?}");
    assert!(near.sent_bytes < 60 << 20, "{near:?}");
    assert_same(&folder, TERABYTE, &pieces);
}

#[tokio::test]
async fn announced_holes_cost_no_more_than_messages() {
    let folder = Folder::new();
    // Exabytes in few bytes, and holes that begin and end inside of groups.
    let size = (1 << 43) + 5;
    let hole = |offset, len| message(&FromSource::Hole { id: 1, offset, len });
    let mut frames = Vec::new();
    let mut tree = TreeHash::new(size);
    for _ in 0..2000 {
        frames.push(data(1, tree.offset(), b"x"));
        tree.update(b"x");
        let (offset, len) = (tree.offset(), tree.room());
        frames.push(hole(offset, len));
        let chaining_value = tree.update_zeros(len).unwrap();
        frames.push(message(&FromSource::Group { id: 1, chaining_value }));
        frames.push(hole(tree.offset(), 3 * GROUP_BYTES));
        tree.update_zeros(3 * GROUP_BYTES);
    }
    let (offset, len) = (tree.offset(), size - tree.offset());
    frames.push(hole(offset, len));
    tree.update_zeros(len);
    frames.push(message(&FromSource::End { id: 1, root: tree.finish() }));
    let summary = after_want(&folder.dst(), size, frames).await.unwrap();
    assert_eq!((summary.files, summary.bytes, summary.sent_bytes), (1, size, 2000));
}

#[tokio::test]
async fn holes_at_wrong_places_end_copy() {
    let folder = Folder::new();
    let size = 5 * GROUP_BYTES;
    let hole = |offset, len| message(&FromSource::Hole { id: 1, offset, len });
    for frames in [
        vec![hole(0, 0)],
        vec![hole(1, 5)],
        vec![hole(0, GROUP_BYTES + 1)],
        vec![hole(0, size + 1)],
        vec![hole(0, u64::MAX)],
        vec![hole(0, 5), hole(5, GROUP_BYTES)],
        vec![hole(0, 5), hole(4, 5)],
        vec![hole(0, GROUP_BYTES), message(&FromSource::Group { id: 1, chaining_value: [0; 32] })],
    ] {
        let error = after_want(&folder.dst(), size, frames).await.unwrap_err();
        assert!(error.to_string().contains("protocol"), "{error}");
    }
}
