//! A tree of everything that file systems have, copied in both directions.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rdt_program_testing::programs::output;

use super::home::{Home, args, noise};

/// Length of the sparse file, and of its one piece of data in the middle, bytes.
const SPARSE_BYTES: u64 = 64 << 20;
const PIECE_BYTES: usize = 4096;

/// Makes a tree with odd names, modes, times, links, holes and empty entries.
pub(crate) fn make(root: &Path) {
    let folders = ["empty folder", "deep/er/still", "shut"].map(|name| root.join(name));
    for folder in &folders {
        fs::create_dir_all(folder).unwrap();
    }
    let long = "n".repeat(255);
    let names: [&[u8]; 7] = [
        b"plain",
        b"deep/er/still/one",
        b"new\nline",
        b"\xff\xfe",
        long.as_bytes(),
        b"-dash",
        b"a:b 'c' \"d\" $e",
    ];
    for (index, name) in names.iter().enumerate() {
        let path = root.join(OsStr::from_bytes(name));
        fs::write(&path, noise(index as u64, 1 + index * 40_000)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        set_time(&path, 1_000_000_000 + index as u64, 123_456_789);
    }
    fs::write(root.join("empty"), "").unwrap();
    fs::write(root.join("run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("run"), Permissions::from_mode(0o755)).unwrap();
    symlink("plain", root.join("link")).unwrap();
    symlink("/nowhere/at all", root.join("broken link")).unwrap();
    let mut sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(SPARSE_BYTES).unwrap();
    sparse.seek(SeekFrom::Start(SPARSE_BYTES / 2)).unwrap();
    sparse.write_all(&noise(9, PIECE_BYTES)).unwrap();
    drop(sparse);
    fs::set_permissions(root.join("shut"), Permissions::from_mode(0o500)).unwrap();
    for folder in folders.iter().rev() {
        set_time(folder, 1_100_000_000, 5);
    }
}

fn set_time(path: &Path, seconds: u64, nanoseconds: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// Kind, mode and time of an entry; the length of a file, the target of a link.
type Entry = (String, u32, (i64, i64), Vec<u8>);

/// Returns all entries below a folder. Contents are compared by `diff`.
fn listing(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let about = if meta.is_symlink() {
                fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else {
                vec![]
            };
            // Links have no modes, and not every system sets their times.
            let (mode, time) = if meta.is_symlink() {
                (0, (0, 0))
            } else {
                (meta.mode() & 0o7777, (meta.mtime(), meta.mtime_nsec()))
            };
            let kind = format!("{:?} {}", meta.file_type(), if meta.is_file() { meta.len() } else { 0 });
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (kind, mode, time, about));
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// Asserts that two trees are the same, with names, modes, times, links and contents.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let (left, right) = (listing(one), listing(other));
    for (path, entry) in &left {
        assert_eq!(Some(entry), right.get(path), "{}", path.display());
    }
    assert_eq!(left.len(), right.len(), "{:?}", right.keys());
    output(Command::new("diff").args(["-r", "--no-dereference"]).args([one, other]));
}

fn assert_sparse(path: &Path) {
    let meta = path.metadata().unwrap();
    assert_eq!(meta.len(), SPARSE_BYTES);
    assert!(meta.blocks() * 512 < SPARSE_BYTES / 8, "{} blocks", meta.blocks());
}

#[test]
fn push_and_pull_by_ticket_keep_tree() {
    let home = Home::new();
    make(&home.folder("tree"));
    let serve = home.serve("store", &[]);
    let summary = home.copy(&["tree", &serve.tickets[0]]);
    assert_same(&home.path("tree"), &home.path("store/tree"));
    assert_sparse(&home.path("store/tree/sparse"));
    assert_eq!(
        (&summary["files"], &summary["links"], &summary["failures"]),
        (&10.into(), &2.into(), &0.into())
    );
    let (sent, bytes) = (summary["sent_bytes"].as_u64().unwrap(), summary["bytes"].as_u64().unwrap());
    assert!(bytes > SPARSE_BYTES && sent < SPARSE_BYTES / 8, "holes are not sent: {summary}");

    home.copy(&[&serve.at("tree"), "back"]);
    assert_same(&home.path("tree"), &home.path("back"));
    assert_sparse(&home.path("back/sparse"));
}

#[test]
fn push_and_pull_by_ssh_keep_tree() {
    let home = Home::new();
    make(&home.folder("tree"));
    home.folder("store");
    for listen_here in [&[][..], &["--listen-here", "--bind", "127.0.0.1"]] {
        let by_ssh = home.by_ssh();
        let options = [&args(&by_ssh), listen_here].concat();
        home.copy(&[&options[..], &["tree", "host:store"]].concat());
        assert_same(&home.path("tree"), &home.path("store/tree"));
        home.copy(&[&options[..], &["host:store/tree", "back"]].concat());
        assert_same(&home.path("tree"), &home.path("back"));
        for folder in ["store/tree", "back"] {
            fs::set_permissions(home.path(folder).join("shut"), Permissions::from_mode(0o700)).unwrap();
            fs::remove_dir_all(home.path(folder)).unwrap();
        }
    }
}

#[test]
fn second_copy_skips_everything() {
    let home = Home::new();
    make(&home.folder("tree"));
    let serve = home.serve("store", &[]);
    home.copy(&["tree", &serve.tickets[0]]);
    let again = home.copy(&["tree", &serve.tickets[0]]);
    assert_eq!(
        (&again["files"], &again["skipped"], &again["sent_bytes"]),
        (&0.into(), &12.into(), &0.into())
    );
    assert_same(&home.path("tree"), &home.path("store/tree"));
}
