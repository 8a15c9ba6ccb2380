//! Copies that are interrupted and go on.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rdt_testing::Numbers;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, copy, duplex, split,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::support::{Folder, Log, PIPE_BYTES, bytes, listing, pushed, write};
use crate::frame::{FrameReader, control_frame};
use crate::name::{Temporary, is_temporary};
use crate::protocol::{
    Answer, Entry, EntryKind, FromDestination, FromSource, Hello, MAGIC, VERSION, WireRequest,
};
use crate::{
    CopyError, DestinationOptions, Event, Existing, Observer, Permission, Request, Root, Summary, push, serve,
};

/// Stream that breaks after a number of bytes written.
struct Breaking {
    stream: DuplexStream,
    left: Arc<AtomicU64>,
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl AsyncRead for Breaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return Poll::Ready(Err(broken()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Breaking {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Ready(Err(broken()));
        }
        let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(n)) = result {
            self.left.fetch_sub(n as u64, Ordering::Relaxed);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Pushes over a stream that breaks after a number of bytes of the source. Returns the results of
/// both sides.
pub(super) async fn push_until(
    folder: &Folder,
    bytes: u64,
    log: &Arc<Log>,
) -> [Result<Summary, CopyError>; 2] {
    let (near, far) = duplex(PIPE_BYTES);
    let near = Breaking { stream: near, left: Arc::new(AtomicU64::new(bytes)) };
    let request = folder.request_with(Existing::Overwrite);
    let root = Root::whole().unwrap();
    let (near, far) = tokio::join!(push(near, request, log.clone()), serve(far, root, Arc::new(())));
    [near, far]
}

/// Checks that every file with a final name is complete. Returns the number of files in progress.
fn check_names(src: &Path, dst: &Path) -> usize {
    let mut parts = 0;
    for (path, _) in listing(dst) {
        let name = path.file_name().unwrap().as_encoded_bytes();
        if is_temporary(name) {
            parts += 1;
        } else if dst.join(&path).is_file() {
            let same = fs::read(dst.join(&path)).unwrap() == fs::read(src.join(&path)).unwrap();
            assert!(same, "{path:?} has its final name and is wrong");
        }
    }
    parts
}

#[tokio::test]
async fn large_file_goes_on_where_it_broke() {
    let folder = Folder::new();
    let size = 100 << 20;
    write(folder.src().join("large"), &bytes(size, 9));
    let log = Arc::new(Log::default());
    let [near, far] = push_until(&folder, 75 << 20, &log).await;
    assert!(matches!(near, Err(CopyError::Stream(_))) && matches!(far, Err(CopyError::Stream(_))));
    assert_eq!(check_names(&folder.src(), &folder.dst().join("src")), 2, "part and journal");
    let [near, far] = push_until(&folder, u64::MAX, &log).await;
    let (near, far) = (near.unwrap(), far.unwrap());
    assert!(near.resumed_bytes >= 74 << 20, "{near:?}");
    assert_eq!(near.resumed_bytes + near.sent_bytes, size as u64);
    assert_eq!((near.resumed_bytes, far.files), (far.resumed_bytes, 1));
    assert_eq!(check_names(&folder.src(), &folder.dst().join("src")), 0);
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
    let events = log.0.lock().unwrap();
    assert!(events.iter().any(|event| event.starts_with("Resumed")), "{events:?}");
}

#[tokio::test]
async fn changed_source_starts_again() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(50 << 20, 9));
    let log = Arc::new(Log::default());
    push_until(&folder, 40 << 20, &log).await[0].as_ref().unwrap_err();
    write(folder.src().join("large"), &bytes(50 << 20, 10));
    let summary = pushed(folder.request()).await.unwrap();
    assert_eq!((summary.resumed_bytes, summary.files, summary.failures), (0, 1, 0));
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
}

#[tokio::test]
async fn damaged_journal_or_part_starts_again() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(50 << 20, 9));
    let log = Arc::new(Log::default());
    let damages: [fn(&Path); 3] = [
        |journal| fs::write(journal, b"nonsense").unwrap(),
        |journal| fs::File::options().write(true).open(journal).unwrap().set_len(4100).unwrap(),
        |journal| {
            let part = journal.with_extension("part");
            fs::File::options().write(true).open(part).unwrap().set_len(1000).unwrap();
        },
    ];
    for damage in damages {
        push_until(&folder, 40 << 20, &log).await[0].as_ref().unwrap_err();
        let dst = folder.dst().join("src");
        let journal = listing(&dst).into_keys().find(|path| path.extension() == Some("journal".as_ref()));
        damage(&dst.join(journal.unwrap()));
        let summary = pushed(folder.request()).await.unwrap();
        assert_eq!((summary.resumed_bytes, summary.files, summary.failures), (0, 1, 0));
        assert_eq!(listing(&dst), listing(&folder.src()));
        fs::remove_file(dst.join("large")).unwrap();
    }
}

#[tokio::test]
async fn file_that_cannot_go_on_is_not_counted() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(50 << 20, 9));
    let log = Arc::new(Log::default());
    push_until(&folder, 40 << 20, &log).await[0].as_ref().unwrap_err();
    let names = Temporary::of(b"large");
    let journal = folder.dst().join("src").join(OsStr::from_bytes(&names.journal));
    // A journal with a second name is not written to.
    fs::hard_link(&journal, folder.path("second name")).unwrap();
    let log = Arc::new(Log::default());
    let [near, far] = push_until(&folder, u64::MAX, &log).await.map(Result::unwrap);
    assert_eq!((near.resumed_bytes, far.resumed_bytes), (0, 0));
    assert_eq!((near.failures, far.failures), (1, 1));
    let events = log.0.lock().unwrap();
    assert!(!events.iter().any(|event| event.starts_with("Resumed")), "{events:?}");
}

#[tokio::test]
async fn part_goes_when_file_is_complete() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(50 << 20, 9));
    let (dst, log) = (folder.dst().join("src"), Arc::new(Log::default()));
    push_until(&folder, 40 << 20, &log).await[0].as_ref().unwrap_err();
    write(dst.join("large"), &bytes(50 << 20, 9));
    let dry_run = DestinationOptions { dry_run: true, ..DestinationOptions::default() };
    pushed(Request { destination: dry_run, ..folder.request() }).await.unwrap();
    assert_eq!(check_names(&folder.src(), &dst), 2, "part and journal");
    let summary = pushed(folder.request()).await.unwrap();
    assert_eq!((summary.skipped, summary.failures), (1, 0));
    assert_eq!(check_names(&folder.src(), &dst), 0);
}

#[tokio::test]
async fn breaks_at_random_points_lose_little() {
    let folder = Folder::new();
    let mut random = Numbers::new(11);
    let mut total = 0;
    for (name, size) in [("a", 30 << 20), ("b", 70 << 20), ("c", 100), ("d", 1 << 20), ("e", 0)] {
        write(folder.src().join(name), &bytes(size, 5));
        total += size as u64;
    }
    let log = Arc::new(Log::default());
    let (mut sent, mut breaks) = (0, 0);
    loop {
        let limit = if breaks == 12 { u64::MAX } else { random.below(40 << 20) + 1 };
        let [near, far] = push_until(&folder, limit, &log).await;
        check_names(&folder.src(), &folder.dst().join("src"));
        match near {
            Ok(summary) => {
                sent += summary.sent_bytes;
                assert!(summary.is_complete() && far.unwrap().is_complete());
                break;
            }
            Err(_) => sent += limit,
        }
        breaks += 1;
    }
    // At each break: the rest of a group, a batch in the pipe, and a small file.
    assert!(sent <= total + breaks * (2 << 20), "{sent} bytes of {total} with {breaks} breaks");
    assert_eq!(check_names(&folder.src(), &folder.dst().join("src")), 0);
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
}

#[tokio::test]
async fn marker_stays_until_source_has_ended() {
    let folder = Folder::new();
    let new = folder.dst().join("new");
    let options = DestinationOptions::default().into();
    let dest = new.as_os_str().as_bytes().into();
    let first_name = b"src".into();
    let request = WireRequest::Push { dest, sources: 1, first_name, options, command: [0; 32] };
    let kind = EntryKind::Directory;
    let entry = Entry { id: 1, name: b"src".into(), kind, mode: 0o755, mtime: 1, mtime_nanos: 2 };
    let frames = [
        control_frame(&Hello { magic: MAGIC, version: VERSION, request }),
        control_frame(&FromSource::Entry(entry)),
        control_frame(&FromSource::Leave { id: 1 }),
        control_frame(&FromSource::Total { files: 0, bytes: 0 }),
    ];
    let (near, far) = duplex(PIPE_BYTES);
    let talk = async {
        let (read, mut write) = split(near);
        let mut reader = FrameReader::new(read);
        for frame in frames {
            write.write_all(&frame.unwrap()).await.unwrap();
        }
        assert!(matches!(reader.message().await, Ok(Some(Answer::Accepted { .. }))));
        let mut reply = reader.message::<FromDestination>().await.unwrap();
        assert_eq!(reply, Some(FromDestination::Done { id: 1, name: None }));
        while reply != Some(FromDestination::Finished) {
            reply = reader.message().await.unwrap();
        }
        // Killed here, the source says nothing of its success.
        (reader, write)
    };
    tokio::select! {
        _ = serve(far, Root::whole().unwrap(), Arc::new(())) => panic!("it waits for the source"),
        _ends = talk => {}
    }
    assert!(pushed(Request { dest: new.clone(), ..folder.request() }).await.unwrap().is_complete());
    assert!(!new.join("src").exists());
    assert_eq!(listing(&folder.dst()).len(), 1, "the source has ended");
}

#[tokio::test]
async fn two_copies_of_one_file_exclude_each_other() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(20 << 20, 9));
    let (near, far) = duplex(PIPE_BYTES);
    let (root, request) = (Root::whole().unwrap(), folder.request());
    let first = tokio::spawn(push(near, request, Arc::new(())));
    let log = Arc::new(Log::default());
    let serving = tokio::spawn(serve(far, root, log.clone()));
    while !log.0.lock().unwrap().iter().any(|event| event.starts_with("FileStarted")) {
        tokio::task::yield_now().await;
    }
    let second = pushed(folder.request()).await.unwrap();
    let (first, serving) = (first.await.unwrap().unwrap(), serving.await.unwrap().unwrap());
    assert!(first.is_complete() && serving.is_complete());
    assert_eq!(second.files, 0, "{second:?}");
    assert!(second.failures == 0 || second.failed[0].text.contains("in progress"), "{second:?}");
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
}

/// Starts a push of which some bytes arrive, and no end, as of a client that is as good as dead.
/// Returns the tasks of both sides after these bytes.
async fn stalled_push(
    request: Request,
    root: Root,
    bytes: u64,
    observer: Arc<dyn Observer>,
) -> [JoinHandle<Result<Summary, CopyError>>; 2] {
    let (near, relay) = duplex(PIPE_BYTES);
    let (link, far) = duplex(PIPE_BYTES);
    let ((relay_read, mut relay_write), (mut link_read, mut link_write)) = (split(relay), split(link));
    let sides = [tokio::spawn(push(near, request, observer)), tokio::spawn(serve(far, root, Arc::new(())))];
    let (arrived, has_arrived) = oneshot::channel();
    tokio::spawn(async move {
        let mut arriving = relay_read.take(bytes);
        copy(&mut arriving, &mut link_write).await.unwrap();
        arrived.send(()).unwrap();
        // Keeps the stream open.
        std::future::pending::<()>().await;
        drop((arriving, link_write));
    });
    tokio::spawn(async move { copy(&mut link_read, &mut relay_write).await });
    has_arrived.await.unwrap();
    sides
}

/// Observer that counts bytes of progress.
#[derive(Default)]
struct Count(AtomicU64);

impl Observer for Count {
    fn event(&self, event: &Event<'_>) {
        if let Event::Progress { bytes } = event {
            self.0.fetch_add(*bytes, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn progress_of_source_is_what_was_written() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(40 << 20, 9));
    let count = Arc::new(Count::default());
    // Two frames of 1 MiB and a part of the third.
    let root = Root::whole().unwrap();
    let sides = stalled_push(folder.request(), root, (5 << 20) / 2, count.clone()).await;
    let mut bytes = 0;
    while bytes < 2 << 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        bytes = count.0.load(Ordering::Relaxed);
    }
    assert_eq!(bytes, 2 << 20);
    sides.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn copy_waits_for_files_of_killed_one() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(40 << 20, 9));
    let root = Root::whole().unwrap();
    let killed = stalled_push(folder.request(), root, 30 << 20, Arc::new(())).await;
    let kill = async {
        // Time for the next copy to find the lock.
        tokio::time::sleep(Duration::from_millis(200)).await;
        killed.iter().for_each(JoinHandle::abort);
    };
    let (next, ()) = tokio::join!(pushed(folder.request()), kill);
    let next = next.unwrap();
    assert!(next.is_complete() && next.resumed_bytes >= 16 << 20, "{next:?}");
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
}

#[tokio::test]
async fn same_push_of_client_replaces_first() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(40 << 20, 9));
    let root = Root::confined(&folder.dst(), Permission::WriteOnly).unwrap().for_peer("anna");
    let request = || Request { dest: "/new".into(), ..folder.request() };
    let [client, first] = stalled_push(request(), root.for_peer("anna"), 30 << 20, Arc::new(())).await;
    let (other_near, far) = duplex(PIPE_BYTES);
    let other = push(other_near, request(), Arc::new(()));
    let (other, second) = tokio::join!(other, serve(far, root.for_peer("anna"), Arc::new(())));
    assert!(matches!(first.await.unwrap(), Err(CopyError::Replaced)));
    let (other, second) = (other.unwrap(), second.unwrap());
    assert!(other.is_complete() && second.resumed_bytes >= 16 << 20, "{second:?}");
    assert_eq!(listing(&folder.dst().join("new")), listing(&folder.src()));
    client.abort();
}

#[tokio::test]
async fn other_commands_of_client_leave_first() {
    let folder = Folder::new();
    let (here, other) = (folder.path("here"), folder.path("other"));
    for (path, size) in [(&here, 40 << 20), (&other, 1000)] {
        fs::create_dir(path).unwrap();
        write(path.join(format!("{size} bytes")), &bytes(size, 9));
    }
    let root = Root::confined(&folder.dst(), Permission::WriteOnly).unwrap();
    let request = |source: &Path, destination| Request {
        sources: vec![source.join(".")],
        dest: "/".into(),
        destination,
        ..folder.request()
    };
    let default = DestinationOptions::default();
    let anna = || root.for_peer("anna");
    let [client, first] = stalled_push(request(&here, default), anna(), 30 << 20, Arc::new(())).await;
    let dry_run = DestinationOptions { dry_run: true, ..default };
    for (source, options) in [(&here, dry_run), (&other, default)] {
        let (near, far) = duplex(PIPE_BYTES);
        let other = push(near, request(source, options), Arc::new(()));
        let (other, served) = tokio::join!(other, serve(far, anna(), Arc::new(())));
        assert!(other.unwrap().is_complete() && served.unwrap().is_complete());
        assert!(!first.is_finished());
    }
    client.abort();
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn client_without_request_is_ended() {
    let (_near, far) = duplex(PIPE_BYTES);
    let served = serve(far, Root::whole().unwrap(), Arc::new(())).await;
    assert!(matches!(served, Err(CopyError::NoRequest)));
}
