//! Peers that break the rules, as raw frames.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex, split};

use super::support::{Folder, bytes, confined, failures, listing, pushed_to, write};
use crate::frame::{Batch, FrameReader, control_frame};
use crate::protocol::{
    Answer, Entry, EntryKind, FromDestination, FromSource, Hello, MAGIC, MAX_DEPTH, MAX_UNRESOLVED, Start,
    VERSION, WireRequest,
};
use crate::tree_hash::{GROUP_BYTES, TreeHash};
use crate::{CopyError, DestinationOptions, Existing, Request, Root, Summary, pull, serve};

const FILE: EntryKind = file(5);

const fn file(size: u64) -> EntryKind {
    EntryKind::File { size, token: [0; 16], contents: None }
}

fn entry(id: u64, name: &[u8], kind: EntryKind) -> FromSource {
    FromSource::Entry(Entry { id, name: name.into(), kind, mode: 0o644, mtime: 1, mtime_nanos: 2 })
}

pub(super) fn data(id: u64, offset: u64, content: &[u8]) -> Vec<u8> {
    let mut batch = Batch::new();
    batch
        .put_data(id, offset, content.len(), |room| {
            room.copy_from_slice(content);
            Ok::<_, ()>(())
        })
        .unwrap();
    batch.as_bytes().into()
}

pub(super) fn message(message: &FromSource) -> Vec<u8> {
    control_frame(message).unwrap()
}

fn stopped(text: &str, is_unchanged: bool) -> Vec<u8> {
    message(&FromSource::Stopped { id: 1, text: text.into(), is_unchanged })
}

fn end_of_list() -> Vec<u8> {
    message(&FromSource::Total { files: 0, bytes: 0 })
}

/// Sends a push request, raw frames and the end of the list to a server that is confined to `root`.
/// Then waits for the end of the copy, or ends the stream. Returns the server's result.
pub(super) async fn source_says(
    root: &Path,
    mut frames: Vec<Vec<u8>>,
    waits: bool,
) -> Result<Summary, CopyError> {
    let (near, far) = duplex(1 << 16);
    let (read, mut write) = split(near);
    let options = DestinationOptions { existing: Existing::Overwrite, ..DestinationOptions::default() };
    let hello = push_request(u64::MAX, options);
    if waits {
        frames.push(end_of_list());
    }
    let talk = async {
        write.write_all(&hello).await.unwrap();
        for frame in frames {
            if write.write_all(&frame).await.is_err() {
                break;
            }
        }
        let mut reader = FrameReader::new(read);
        assert!(matches!(reader.message().await, Ok(Some(Answer::Accepted { .. }))));
        if waits {
            // Without `Finished`, the destination has ended the copy, which is its result.
            while !matches!(reader.message().await, Ok(Some(FromDestination::Finished) | None) | Err(_)) {}
        }
        let _ = write.shutdown().await;
        while let Ok(Some(_)) = reader.message::<FromDestination>().await {}
    };
    tokio::join!(serve(far, confined(root), Arc::new(())), talk).0
}

#[tokio::test]
async fn names_outside_of_destination_are_refused() {
    let folder = Folder::new();
    let long = [b'a'; 256];
    let names: [&[u8]; 8] = [b"../up", b"/etc/x", b"a/b", b"..", b".", b"", b"zero\0", &long];
    let mut frames: Vec<_> = Vec::new();
    for (id, name) in (1..).zip(names) {
        frames.push(message(&entry(id, name, FILE)));
    }
    frames.push(message(&entry(9, b"..", EntryKind::Directory)));
    frames.push(message(&entry(10, b"inside", FILE)));
    frames.push(message(&FromSource::Leave { id: 9 }));
    let summary = source_says(&folder.dst(), frames, true).await.unwrap();
    assert_eq!((summary.failures, summary.files), (10, 0));
    assert!(failures(&summary)["../inside"].contains("its directory"));
    assert!(listing(&folder.dst()).is_empty());
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 2);
}

#[tokio::test]
async fn reserved_names_cannot_be_written() {
    let folder = Folder::new();
    let part = crate::name::Temporary::of(b"target").part;
    let frames = vec![message(&entry(1, &part, FILE))];
    let summary = source_says(&folder.dst(), frames, true).await.unwrap();
    assert!(summary.failed[0].text.contains("reserved"), "{summary:?}");
}

#[tokio::test]
async fn planted_links_lead_nowhere() {
    let folder = Folder::new();
    write(folder.path("victim"), b"victim");
    let link = EntryKind::Symlink { target: b"..".into() };
    // The name of the file in progress is a link to a file outside.
    let part = crate::name::Temporary::of(b"file").part;
    symlink(
        folder.path("victim"),
        folder.dst().join(std::ffi::OsStr::new(std::str::from_utf8(&part).unwrap())),
    )
    .unwrap();
    let frames = vec![
        message(&entry(1, b"up", link)),
        message(&entry(2, b"up", EntryKind::Directory)),
        message(&entry(3, b"escaped", FILE)),
        message(&FromSource::Leave { id: 2 }),
        message(&entry(4, b"file", FILE)),
        data(4, 0, b"HELLO"),
        message(&FromSource::End { id: 4, root: *blake3::hash(b"HELLO").as_bytes() }),
    ];
    // The data come before the server can have asked for them: an error, or the file is written.
    let _ = source_says(&folder.dst(), frames, false).await;
    assert!(!folder.path("escaped").exists());
    assert_eq!(fs::read(folder.path("victim")).unwrap(), b"victim");
}

/// Offers file 1 and returns the server's reply.
async fn first_want(root: &Path, kind: EntryKind) -> FromDestination {
    let (near, far) = duplex(1 << 16);
    let (read, mut write) = split(near);
    let request = push_request(1, DestinationOptions::default());
    let talk = async {
        write.write_all(&request).await.unwrap();
        write.write_all(&message(&entry(1, b"file", kind))).await.unwrap();
        let mut reader = FrameReader::new(read);
        assert!(matches!(reader.message().await.unwrap(), Some(Answer::Accepted { .. })));
        let reply = reader.message::<FromDestination>().await.unwrap().unwrap();
        write.shutdown().await.unwrap();
        reply
    };
    tokio::join!(serve(far, confined(root), Arc::new(())), talk).1
}

fn push_request(sources: u64, options: DestinationOptions) -> Vec<u8> {
    let request = WireRequest::Push {
        dest: b"/".into(),
        sources,
        first_name: Vec::new(),
        options: options.into(),
        command: [0; 32],
    };
    control_frame(&Hello { magic: MAGIC, version: VERSION, request }).unwrap()
}

fn pull_request(sources: Vec<Vec<u8>>) -> WireRequest {
    let compression = crate::Compression::Off;
    let excludes = Vec::new();
    WireRequest::Pull { sources, follow: false, excludes, into: None, compression, with_contents: false }
}

/// Waits for the server to want file 1, then sends frames.
pub(super) async fn after_want(root: &Path, size: u64, frames: Vec<Vec<u8>>) -> Result<Summary, CopyError> {
    let (near, far) = duplex(1 << 16);
    let (read, mut write) = split(near);
    let hello = push_request(1, DestinationOptions::default());
    let talk = async {
        write.write_all(&hello).await.unwrap();
        write.write_all(&message(&entry(1, b"file", file(size)))).await.unwrap();
        write.write_all(&end_of_list()).await.unwrap();
        let mut reader = FrameReader::new(read);
        assert!(matches!(reader.message().await.unwrap(), Some(Answer::Accepted { .. })));
        let want = reader.message::<FromDestination>().await.unwrap();
        assert!(matches!(want, Some(FromDestination::Want { id: 1, start: Start::Beginning })), "{want:?}");
        for frame in frames {
            if write.write_all(&frame).await.is_err() {
                break;
            }
        }
        while let Ok(Some(reply)) = reader.message::<FromDestination>().await {
            if reply == FromDestination::Finished {
                let _ = write.shutdown().await;
            }
        }
    };
    tokio::join!(serve(far, confined(root), Arc::new(())), talk).0
}

#[tokio::test]
async fn wrong_data_never_gets_final_name() {
    let folder = Folder::new();
    let right = *blake3::hash(b"HELLO").as_bytes();
    let end = |root| message(&FromSource::End { id: 1, root });
    let cases: [(Vec<Vec<u8>>, &str); 9] = [
        (vec![data(1, 0, b"HELLO"), end([7; 32])], "differ"),
        (vec![data(1, 0, b"HELLX"), end(right)], "differ"),
        (vec![data(1, 0, b"HELL"), end(right)], "protocol"),
        (vec![data(1, 0, b"HELLO!"), end(right)], "protocol"),
        (vec![data(1, 1, b"ELLO"), end(right)], "protocol"),
        (vec![data(1, 0, b"HE"), data(2, 0, b"LLO")], "protocol"),
        (vec![message(&FromSource::Group { id: 1, chaining_value: [0; 32] })], "protocol"),
        (vec![message(&FromSource::Hole { id: 1, offset: 0, len: u64::MAX })], "protocol"),
        (vec![data(1, 0, b"HE"), stopped("gone", false)], "gone"),
    ];
    for (frames, expected) in cases {
        let text = match after_want(&folder.dst(), 5, frames).await {
            Ok(summary) => summary.failed[0].text.clone(),
            Err(error) => error.to_string(),
        };
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(listing(&folder.dst()).is_empty(), "{expected}: {:?}", listing(&folder.dst()));
    }
    let frames = vec![data(1, 0, b"HELLO"), end(right)];
    assert_eq!(after_want(&folder.dst(), 5, frames).await.unwrap().files, 1);
}

#[tokio::test]
async fn read_error_of_source_keeps_part() {
    let folder = Folder::new();
    let size = GROUP_BYTES + 1;
    let group = bytes(512 << 10, 1);
    let chaining_value = TreeHash::new(size).update(&group).unwrap();
    let frames = |is_unchanged| {
        let value = message(&FromSource::Group { id: 1, chaining_value });
        vec![data(1, 0, &group), value, stopped("cannot be read", is_unchanged)]
    };
    let summary = after_want(&folder.dst(), size, frames(false)).await.unwrap();
    assert_eq!((summary.failures, listing(&folder.dst()).len()), (1, 0));
    let summary = after_want(&folder.dst(), size, frames(true)).await.unwrap();
    assert_eq!((summary.failures, listing(&folder.dst()).len()), (1, 2), "part and journal");
    let want = first_want(&folder.dst(), file(size)).await;
    assert!(matches!(want, FromDestination::Want { start: Start::Resume { offset: GROUP_BYTES, .. }, .. }));
}

#[tokio::test]
async fn huge_file_fails_alone() {
    let folder = Folder::new();
    for size in [u64::MAX, i64::MAX.cast_unsigned() - 5] {
        let frames = vec![data(1, 0, b"HELLO"), stopped("", false)];
        let summary = after_want(&folder.dst(), size, frames).await.unwrap();
        assert!(summary.failures == 1, "{summary:?}");
        assert!(listing(&folder.dst()).is_empty());
    }
}

#[tokio::test]
async fn source_without_credit_is_stopped() {
    let folder = Folder::new();
    let frames = (1..=MAX_UNRESOLVED as u64 + 1)
        .map(|id| message(&entry(id, format!("f{id}").as_bytes(), FILE)))
        .collect();
    let error = source_says(&folder.dst(), frames, false).await.unwrap_err();
    assert!(matches!(&error, CopyError::Protocol(text) if text.contains("more entries")), "{error}");
    assert!(listing(&folder.dst()).is_empty());
}

#[tokio::test]
async fn deep_directories_fail_alone() {
    let folder = Folder::new();
    let deep = MAX_DEPTH as u64 + 10;
    let mut frames: Vec<_> = (1..=deep).map(|id| message(&entry(id, b"d", EntryKind::Directory))).collect();
    frames.extend((1..=deep).rev().map(|id| message(&FromSource::Leave { id })));
    let summary = source_says(&folder.dst(), frames, true).await.unwrap();
    assert_eq!(summary.directories + summary.failures, deep);
    assert!(summary.failures >= 10 && summary.directories >= MAX_DEPTH as u64 - 10, "{summary:?}");
}

#[tokio::test]
async fn directories_without_end_end_copy() {
    let folder = Folder::new();
    let frames: Vec<_> =
        (1..=3 * MAX_DEPTH as u64).map(|id| message(&entry(id, b"d", EntryKind::Directory))).collect();
    let error = source_says(&folder.dst(), frames, true).await.unwrap_err();
    assert!(matches!(error, CopyError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn broken_order_ends_copy() {
    let folder = Folder::new();
    let directory = |id| message(&entry(id, b"d", EntryKind::Directory));
    let cases = [
        vec![directory(2)],
        vec![directory(1), directory(1)],
        vec![message(&FromSource::Leave { id: 0 })],
        vec![directory(1), message(&FromSource::Leave { id: 2 })],
        vec![directory(1), end_of_list()],
        vec![message(&entry(1, b"file", FILE)), end_of_list(), directory(2)],
        vec![data(7, 0, b"x")],
        vec![message(&FromSource::End { id: 7, root: [0; 32] })],
        vec![message(&FromSource::Same { id: 7 })],
        vec![vec![9, 0, 0, 0, 0]],
        vec![vec![1, 1, 0, 0, 0, 200]],
        vec![vec![1, 0, 0, 0, 255]],
    ];
    for frames in cases {
        let text = format!("{frames:?}");
        let error = source_says(&folder.dst(), frames, false).await.unwrap_err();
        assert!(matches!(error, CopyError::Protocol(_)), "{text}: {error}");
    }
}

#[tokio::test]
async fn random_bytes_end_copy_without_panic() {
    let folder = Folder::new();
    let mut random = rdt_testing::Numbers::new(3);
    for _ in 0..300 {
        let mut frames: Vec<_> = vec![
            message(&entry(1, b"d", EntryKind::Directory)),
            message(&entry(2, b"file", FILE)),
            data(2, 0, b"HELLO"),
            message(&FromSource::End { id: 2, root: [1; 32] }),
            message(&FromSource::Leave { id: 1 }),
        ];
        for _ in 0..=random.below(3) {
            let at = usize::try_from(random.below(frames.len() as u64)).unwrap();
            let byte = usize::try_from(random.below(frames[at].len() as u64)).unwrap();
            frames[at][byte] = random.below(256).to_le_bytes()[0];
        }
        if let Err(CopyError::System { error, .. }) = source_says(&folder.dst(), frames, false).await {
            panic!("{error}");
        }
        assert!(!folder.dst().join("d/file").exists());
    }
}

/// Answers a pull with raw frames, the last of them after `replies`. Returns the client's result.
async fn pull_from(
    folder: &Folder,
    request: Request,
    mut frames: Vec<Vec<u8>>,
    replies: usize,
) -> Result<Summary, CopyError> {
    let (near, far) = duplex(1 << 16);
    let last = frames.pop().unwrap();
    let talk = async {
        let (read, mut write) = split(far);
        let mut reader = FrameReader::new(read);
        reader.message::<Hello>().await.unwrap().unwrap();
        write
            .write_all(&control_frame(&Answer::Accepted { version: VERSION, into: None }).unwrap())
            .await
            .unwrap();
        for frame in frames {
            if write.write_all(&frame).await.is_err() {
                break;
            }
        }
        for _ in 0..replies {
            assert!(matches!(reader.message::<FromDestination>().await, Ok(Some(_))));
        }
        let _ = write.write_all(&last).await;
        while let Ok(Some(_)) = reader.message::<FromDestination>().await {
            let _ = write.shutdown().await;
        }
    };
    let _ = folder;
    tokio::join!(pull(near, request, Arc::new(())), talk).0
}

#[tokio::test]
async fn names_that_were_not_asked_for_end_pull() {
    let folder = Folder::new();
    let request = |dest| Request { sources: vec!["wanted".into()], dest, ..Request::default() };
    let directory = |id, name: &[u8]| message(&entry(id, name, EntryKind::Directory));
    let cases = [
        (folder.dst(), vec![directory(1, b".ssh")]),
        (folder.dst(), vec![directory(1, b"")]),
        (
            folder.dst(),
            vec![directory(1, b"wanted"), message(&FromSource::Leave { id: 1 }), directory(2, b"wanted")],
        ),
        (
            folder.path("new"),
            vec![directory(1, b"wanted"), message(&FromSource::Leave { id: 1 }), directory(2, b".ssh")],
        ),
    ];
    for (dest, frames) in cases {
        let error = pull_from(&folder, request(dest), frames, 0).await.unwrap_err();
        assert!(matches!(&error, CopyError::Protocol(text) if text.contains("not asked for")), "{error}");
    }
    assert!(!folder.dst().join(".ssh").exists() && !folder.path(".ssh").exists());
}

#[tokio::test]
async fn source_that_peer_does_not_list_fails() {
    let folder = Folder::new();
    let sources = vec!["wanted".into(), "dir/gone".into(), "there".into()];
    let request = Request { sources, dest: folder.dst(), ..Request::default() };
    let frames = vec![
        message(&FromSource::Unreadable { path: b"dir/gone".into(), text: "cannot be read".into() }),
        message(&entry(1, b"there", EntryKind::Directory)),
        message(&FromSource::Leave { id: 1 }),
        end_of_list(),
    ];
    let summary = pull_from(&folder, request, frames, 1).await.unwrap();
    assert_eq!((summary.directories, summary.failures), (1, 2), "{summary:?}");
    assert!(failures(&summary)["wanted"].contains("did not list"), "{summary:?}");
}

#[tokio::test]
async fn one_unreadable_path_accounts_for_one_source() {
    let folder = Folder::new();
    let sources = vec!["one/.".into(), "two/.".into(), "three/.".into()];
    let request = Request { sources, dest: folder.dst(), ..Request::default() };
    let frames = vec![
        message(&FromSource::Unreadable { path: Vec::new(), text: "cannot be read".into() }),
        message(&FromSource::Unreadable { path: b"two/.".into(), text: "cannot be read".into() }),
        message(&entry(1, b"", EntryKind::Directory)),
        message(&FromSource::Leave { id: 1 }),
        end_of_list(),
    ];
    let summary = pull_from(&folder, request, frames, 1).await.unwrap();
    assert_eq!((summary.directories, summary.failures), (1, 2), "{summary:?}");
}

/// Sends a pull request and raw answers to a server. Returns the server's result.
async fn destination_says(root: &Path, answers: &[FromDestination]) -> Result<Summary, CopyError> {
    let (near, far) = duplex(1 << 16);
    let talk = async {
        let (read, mut write) = split(near);
        let request = pull_request(vec![b"file".into()]);
        let hello = control_frame(&Hello { magic: MAGIC, version: VERSION, request }).unwrap();
        write.write_all(&hello).await.unwrap();
        let mut reader = FrameReader::new(read);
        assert!(matches!(reader.message().await.unwrap(), Some(Answer::Accepted { .. })));
        assert!(matches!(reader.message().await.unwrap(), Some(FromSource::Entry(_))));
        for answer in answers {
            let _ = write.write_all(&control_frame(answer).unwrap()).await;
        }
        while let Ok(Some(_)) = reader.message::<FromSource>().await {}
    };
    tokio::join!(serve(far, confined(root), Arc::new(())), talk).0
}

#[tokio::test]
async fn impossible_answers_end_source() {
    use FromDestination::{Done, Failed, Finished, Skip, Want};

    let folder = Folder::new();
    write(folder.src().join("file"), &bytes(20 << 20, 1));
    let want = |id, start| Want { id, start };
    let resume = |offset, values| want(1, Start::Resume { offset, stack: vec![[0; 32]; values] });
    let cases: [&[FromDestination]; 9] = [
        &[Finished],
        &[Done { id: 99, name: None }],
        &[Done { id: 1, name: Some(b"../x".into()) }],
        &[Skip { id: 0, reason: crate::SkipReason::Identical, name: None }],
        &[Failed { id: 1 << 40, text: String::new(), missing_bytes: 0 }],
        &[want(2, Start::Beginning)],
        &[resume(8 << 20, 2)],
        &[resume(5, 0)],
        &[resume(u64::MAX, 64)],
    ];
    for answers in cases {
        let error = destination_says(&folder.src(), answers).await.unwrap_err();
        assert!(matches!(error, CopyError::Protocol(_)), "{answers:?}: {error}");
    }
}

#[tokio::test]
async fn other_protocols_and_versions_are_refused() {
    let folder = Folder::new();
    let say = async |bytes: &[u8]| {
        let (mut near, far): (DuplexStream, _) = duplex(1 << 16);
        let write = async {
            let _ = near.write_all(bytes).await;
            let _ = near.shutdown().await;
        };
        tokio::join!(serve(far, Root::whole().unwrap(), Arc::new(())), write).0.unwrap_err().to_string()
    };
    let request = pull_request(vec![b"x".into()]);
    let hello = |magic, version| control_frame(&Hello { magic, version, request: request.clone() }).unwrap();
    assert!(say(&hello(*b"rdt-copX", VERSION)).await.contains("not one of rdt-copy"));
    assert!(say(&hello(MAGIC, 999)).await.contains("version"));
    let many = pull_request(vec![Vec::new(); 900_000]);
    let many = control_frame(&Hello { magic: MAGIC, version: VERSION, request: many }).unwrap();
    assert!(say(&many).await.contains("protocol"), "each source takes a byte here, and memory there");
    assert!(say(b"GET / HTTP/1.1\r\n\r\n").await.contains("protocol"));
    assert!(say(b"").await.contains("connection failed"));
    let request = Request { sources: vec![folder.src(), folder.path("x/src")], ..folder.request() };
    let (near, _) = pushed_to(request, Root::whole().unwrap()).await;
    assert!(near.unwrap_err().to_string().contains("two sources"));
}
