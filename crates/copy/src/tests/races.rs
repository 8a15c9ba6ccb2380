//! Names that another copy or program takes while a copy runs.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::duplex;

use super::support::{Folder, PIPE_BYTES, bytes, failures, listing, pulled, pushed, set_time, write};
use crate::protocol::MAX_CONTENTS_BYTES;
use crate::{DestinationOptions, Event, Existing, Observer, Request, Root, Summary, push, serve};

/// Observer of a source that acts when a file is read, after the destination has asked for it.
struct AtStart<F>(F);

impl<F: Fn() + Send + Sync> Observer for AtStart<F> {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::FileStarted { .. }) {
            (self.0)();
        }
    }
}

/// Observer that sums up bytes of progress, and those of failed files that are missing.
#[derive(Default)]
struct Bytes([AtomicU64; 2]);

impl Observer for Bytes {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Progress { bytes } => self.0[0].fetch_add(*bytes, Relaxed),
            Event::Failed { missing_bytes, .. } => self.0[1].fetch_add(*missing_bytes, Relaxed),
            _ => 0,
        };
    }
}

#[tokio::test]
async fn progress_and_missing_bytes_are_whole() {
    let folder = Folder::new();
    let changing = folder.src().join("changing");
    write(&changing, &bytes(40 << 20, 9));
    write(folder.src().join("there"), b"source");
    fs::create_dir(folder.dst().join("src")).unwrap();
    write(folder.dst().join("src/there"), b"destination");
    let counts = [Arc::new(Bytes::default()), Arc::new(Bytes::default())];
    let (near, far) = duplex(PIPE_BYTES);
    let pushing = push(near, folder.request(), counts[0].clone());
    let serving = serve(far, Root::whole().unwrap(), counts[1].clone());
    let change = async {
        while counts[1].0[0].load(Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        write(&changing, b"changed");
    };
    let (near, far, ()) = tokio::join!(pushing, serving, change);
    assert_eq!((near.unwrap().failures, far.unwrap().failures), (2, 2));
    for Bytes([written, missing]) in counts.iter().map(AsRef::as_ref) {
        let (written, missing) = (written.load(Relaxed), missing.load(Relaxed));
        assert_eq!(written + missing, (40 << 20) + 6, "{written} written, {missing} missing");
    }
}

/// Pushes, and calls `act` when the first file is read.
async fn pushed_while(request: Request, act: impl Fn() + Send + Sync + 'static) -> Summary {
    let (near, far) = duplex(PIPE_BYTES);
    let pushing = push(near, request, Arc::new(AtStart(act)));
    let (near, far) = tokio::join!(pushing, serve(far, Root::whole().unwrap(), Arc::new(())));
    assert_eq!(near.as_ref().unwrap().failures, far.unwrap().failures);
    near.unwrap()
}

/// Size of a file that does not leave with its entry.
const BYTES: usize = MAX_CONTENTS_BYTES + 1;

#[tokio::test]
async fn file_of_equal_copy_is_skipped() {
    for (existing, checksum) in
        [(Existing::Refuse, false), (Existing::Refuse, true), (Existing::KeepBoth, false)]
    {
        let folder = Folder::new();
        let (source, file) = (folder.src().join("file"), folder.dst().join("file"));
        write(&source, &bytes(BYTES, 1));
        let destination = DestinationOptions { existing, checksum, ..DestinationOptions::default() };
        let request = Request { sources: vec![source], destination, ..folder.request() };
        let summary = pushed_while(request, move || write(&file, &bytes(BYTES, 1))).await;
        assert_eq!(
            (summary.files, summary.skipped, summary.failures),
            (0, 1, 0),
            "{existing:?}: {summary:?}"
        );
        assert_eq!(listing(&folder.dst()), listing(&folder.src()));
    }
}

#[tokio::test]
async fn time_put_back_hides_no_change() {
    let folder = Folder::new();
    let file = folder.src().join("file");
    write(&file, &bytes(20 << 20, 1));
    let changed = |file: &Path| {
        let found = fs::metadata(file).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let before = changed(&file);
    let overwrite = move || {
        // The clock of inodes has steps of some milliseconds.
        while changed(&file) == before {
            let open = fs::File::options().write(true).open(&file).unwrap();
            open.write_all_at(b"new", 19 << 20).unwrap();
            set_time(&file, 1_000_000_000);
        }
    };
    let summary = pushed_while(folder.request(), overwrite).await;
    assert_eq!(failures(&summary)["src/file"], "changed while it was read");
    assert!(!folder.dst().join("src/file").exists());
}

#[tokio::test]
async fn other_file_that_takes_name_stays() {
    for (size, seconds, checksum) in
        [(5, 1_000_000_000, false), (BYTES, 5, false), (BYTES, 1_000_000_000, true)]
    {
        let folder = Folder::new();
        let (source, file) = (folder.src().join("file"), folder.dst().join("file"));
        write(&source, &bytes(BYTES, 1));
        let destination = DestinationOptions { checksum, ..DestinationOptions::default() };
        let request = Request { sources: vec![source], destination, ..folder.request() };
        let act = move || {
            write(&file, &bytes(size, 2));
            set_time(&file, seconds);
        };
        let summary = pushed_while(request, act).await;
        assert!(failures(&summary)["file"].contains("--overwrite"), "{summary:?}");
        assert_eq!(fs::read(folder.dst().join("file")).unwrap(), bytes(size, 2));
        assert_eq!(listing(&folder.dst()).len(), 1);
    }
}

#[tokio::test]
async fn verified_data_outlive_taken_name() {
    let folder = Folder::new();
    let (source, file) = (folder.src().join("large"), folder.dst().join("large"));
    write(&source, &bytes(40 << 20, 9));
    // The part must be opened again although it has had the mode of the source.
    super::support::set_mode(&source, 0o444);
    let request = |existing| Request { sources: vec![source.clone()], ..folder.request_with(existing) };
    let act = {
        let file = file.clone();
        move || write(&file, b"of another program")
    };
    let summary = pushed_while(Request { dest: folder.dst(), ..request(Existing::Refuse) }, act).await;
    assert!(failures(&summary)["large"].contains("--overwrite"), "{summary:?}");
    let again = pushed(Request { dest: folder.dst(), ..request(Existing::Overwrite) }).await.unwrap();
    assert!(again.is_complete() && again.resumed_bytes >= 32 << 20, "{again:?}");
    assert_eq!(listing(&folder.dst()), listing(&folder.src()));
}

// Other systems have no identity of directories.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn copy_into_own_source_ends() {
    for is_push in [true, false] {
        for dest in ["src/sub", "src/sub/new/", "src/sub/new"] {
            let folder = Folder::new();
            fs::create_dir(folder.src().join("sub")).unwrap();
            // More than one batch, so that the walk meets what the destination makes.
            for number in 0..1000 {
                write(folder.src().join(format!("{number:0200}")), b"");
            }
            let request = Request { dest: folder.path(dest), ..folder.request() };
            let summary = if is_push { pushed(request).await } else { pulled(request).await }.unwrap();
            let failed = failures(&summary);
            let text = failed.values().next().unwrap();
            assert!(failed.len() == 1 && text.contains("goes into it"), "{dest}: {failed:?}");
            let nested = listing(&folder.src()).into_keys().filter(|path| path.ends_with("sub"));
            assert!(nested.count() <= 2, "{dest}");
        }
    }
}

#[tokio::test]
async fn link_of_equal_copy_is_skipped() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        fs::create_dir(folder.path(name)).unwrap();
        symlink("target", folder.path(name).join("link")).unwrap();
    }
    let request = |name: &str| Request { sources: vec![folder.path(name).join(".")], ..folder.request() };
    let (one, two) = tokio::join!(pushed(request("a")), pushed(request("b")));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.links + two.links, one.failures + two.failures), (1, 0), "{one:?} {two:?}");
}
