//! Trees of files, and copies between two tasks of a test.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio::io::duplex;

use crate::{
    Compression, CopyError, DestinationOptions, Event, Existing, Observer, Permission, Request, Root,
    SourceOptions, Summary, pull, push, serve,
};

/// Bytes in flight between both tasks.
pub(super) const PIPE_BYTES: usize = 256 << 10;

/// Folder with a source `src` and an empty destination `dst`.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.src()).unwrap();
        fs::create_dir(folder.dst()).unwrap();
        folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn src(&self) -> PathBuf {
        self.path("src")
    }

    pub(super) fn dst(&self) -> PathBuf {
        self.path("dst")
    }

    /// Returns the request to copy `src` into `dst`. Not compressed, so that bytes of the stream
    /// are bytes of files.
    pub(super) fn request(&self) -> Request {
        let source = SourceOptions { compression: Compression::Off, ..SourceOptions::default() };
        Request { sources: vec![self.src()], dest: self.dst(), source, ..Request::default() }
    }

    pub(super) fn request_with(&self, existing: Existing) -> Request {
        let destination = DestinationOptions { existing, ..DestinationOptions::default() };
        Request { destination, ..self.request() }
    }
}

/// Returns bytes that differ from place to place.
pub(super) fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 11).to_le_bytes()[0] ^ seed).collect()
}

/// Writes a file with a time in the past, so that a second write changes it.
pub(super) fn write(path: impl AsRef<Path>, content: &[u8]) {
    let path = path.as_ref();
    fs::write(path, content).unwrap();
    set_time(path, 1_000_000_000);
}

pub(super) fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Fills a directory with every kind of entry.
pub(super) fn plant(root: &Path) {
    for (name, size) in
        [("empty", 0), ("one", 1), ("page", 4096), ("mebi", (1 << 20) + 7), ("large", (9 << 20) + 1)]
    {
        write(root.join(name), &bytes(size, 3));
    }
    set_mode(&root.join("one"), 0o741);
    write(root.join(OsStr::from_bytes(b"not \xff utf-8")), b"raw");
    fs::create_dir_all(root.join("deep/er/est")).unwrap();
    write(root.join("deep/er/est/leaf"), b"leaf");
    fs::create_dir(root.join("hollow")).unwrap();
    symlink("deep/er", root.join("link")).unwrap();
    symlink("/nowhere/at all", root.join("dangling")).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"island", 20 << 20).unwrap();
    sparse.set_len(40 << 20).unwrap();
    drop(sparse);
    for name in ["sparse", "hollow", "deep/er/est", "deep/er", "deep"] {
        set_time(&root.join(name), 1_100_000_000);
    }
    set_mode(&root.join("deep/er"), 0o555);
    set_time(root, 1_200_000_000);
}

/// Returns what a directory contains: kind, mode, time, and content or target.
pub(super) fn listing(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    list(root, Path::new(""), &mut found);
    found
}

fn list(root: &Path, path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(root.join(path)).unwrap() {
        let path = path.join(entry.unwrap().file_name());
        let full = root.join(&path);
        let metadata = fs::symlink_metadata(&full).unwrap();
        let (mode, time) = (metadata.mode(), (metadata.mtime(), metadata.mtime_nsec()));
        let text = if metadata.is_symlink() {
            format!("link to {:?} {time:?}", fs::read_link(&full).unwrap())
        } else if metadata.is_dir() {
            list(root, &path, found);
            format!("directory {mode:o} {time:?}")
        } else {
            format!("file {mode:o} {time:?} {}", blake3::hash(&fs::read(&full).unwrap()))
        };
        found.insert(path, text);
    }
}

/// Observer that keeps the events as text.
#[derive(Debug, Default)]
pub(super) struct Log(pub(super) Mutex<Vec<String>>);

impl Observer for Log {
    fn event(&self, event: &Event<'_>) {
        if !matches!(event, Event::Progress { .. }) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }
}

pub(super) async fn pushed(request: Request) -> Result<Summary, CopyError> {
    pushed_to(request, Root::whole().unwrap()).await.0
}

/// Pushes to a server of that root. Returns the results of both sides.
pub(super) async fn pushed_to(
    request: Request,
    root: Root,
) -> (Result<Summary, CopyError>, Result<Summary, CopyError>) {
    let (near, far) = duplex(PIPE_BYTES);
    tokio::join!(push(near, request, Arc::new(())), serve(far, root, Arc::new(())))
}

pub(super) async fn pulled(request: Request) -> Result<Summary, CopyError> {
    pulled_from(request, Root::whole().unwrap()).await.0
}

pub(super) async fn pulled_from(
    request: Request,
    root: Root,
) -> (Result<Summary, CopyError>, Result<Summary, CopyError>) {
    let (near, far) = duplex(PIPE_BYTES);
    tokio::join!(pull(near, request, Arc::new(())), serve(far, root, Arc::new(())))
}

pub(super) fn confined(directory: &Path) -> Root {
    Root::confined(directory, Permission::ReadWrite).unwrap()
}

/// Returns the texts of failures by name.
pub(super) fn failures(summary: &Summary) -> BTreeMap<&str, &str> {
    summary.failed.iter().map(|failure| (failure.path.to_str().unwrap(), failure.text.as_str())).collect()
}
