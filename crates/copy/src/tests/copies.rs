//! Complete copies: everything arrives as it was.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::Arc;

use rdt_endpoint::tokio::Endpoint;
use rdt_endpoint::{Connect, Listen, Network, generate_key};
use tokio::io::duplex;

use super::support::{
    Folder, Log, PIPE_BYTES, bytes, failures, listing, plant, pulled, pushed, pushed_to, set_mode, write,
};
use crate::destination::write_replies;
use crate::frame::FrameReader;
use crate::protocol::FromDestination;
use crate::report::Report;
use crate::{DestinationOptions, Event, Observer, Request, Root, SourceOptions, push, serve};

#[tokio::test]
async fn tree_arrives_as_it_was() {
    for is_push in [true, false] {
        let folder = Folder::new();
        plant(&folder.src());
        let request = folder.request();
        let summary = if is_push { pushed(request).await } else { pulled(request).await }.unwrap();
        assert_eq!(failures(&summary), [].into());
        let counts = (summary.files, summary.directories, summary.links, summary.skipped);
        assert_eq!(counts, (8, 5, 2, 0));
        assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
        let sparse = fs::metadata(folder.dst().join("src/sparse")).unwrap();
        assert!(sparse.blocks() * 512 < 1 << 20, "{} blocks", sparse.blocks());
        assert_eq!(fs::metadata(folder.dst().join("src")).unwrap().mtime(), 1_200_000_000);
        set_mode(&folder.src().join("deep/er"), 0o755);
        set_mode(&folder.dst().join("src/deep/er"), 0o755);
    }
}

#[tokio::test]
async fn second_copy_sends_nothing() {
    let folder = Folder::new();
    plant(&folder.src());
    for checksum in [false, true] {
        pushed(folder.request()).await.unwrap();
        let destination = DestinationOptions { checksum, ..DestinationOptions::default() };
        let again = pushed(Request { destination, ..folder.request() }).await.unwrap();
        assert_eq!((again.files, again.skipped, again.sent_bytes, again.failures), (0, 10, 0, 0));
        assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
    }
}

#[tokio::test(start_paused = true)]
async fn tree_arrives_over_lossy_network() {
    let folder = Folder::new();
    plant(&folder.src());
    let network = Network::new("rtt 40ms rate 200mbit loss 1%", 5).unwrap();
    let (client, server) = (Endpoint::on_network(&network).unwrap(), Endpoint::on_network(&network).unwrap());
    let identity = generate_key().unwrap();
    let listener = server.listen(Listen::new(identity.clone())).unwrap();
    let connecting = client.connect(listener.local_addr(), Connect::to(identity.public()));
    let (near, far) = tokio::join!(connecting, listener.accept());
    let (observer, root) = (Arc::new(Log::default()), Root::whole().unwrap());
    let (near, far) = tokio::join!(
        push(near.unwrap(), folder.request(), observer.clone()),
        serve(far.unwrap(), root, Arc::new(()))
    );
    let (near, far) = (near.unwrap(), far.unwrap());
    assert_eq!((near.files, far.files, near.bytes), (8, 8, far.bytes));
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
    assert!(network.ledger().dropped_loss > 0);
    let events = observer.0.lock().unwrap();
    assert!(events.iter().any(|event| event.starts_with("Total { files: 8")), "{events:?}");
    assert_eq!(events.iter().filter(|event| event.starts_with("FileStarted")).count(), 8);
    drop(events);
    set_mode(&folder.src().join("deep/er"), 0o755);
    set_mode(&folder.dst().join("src/deep/er"), 0o755);
}

#[tokio::test]
async fn destination_names_follow_rule_of_scp() {
    let folder = Folder::new();
    write(folder.path("a"), b"a");
    write(folder.path("b"), b"b");
    write(folder.src().join("inner"), b"inner");
    let copy = async |sources: &[&str], dest: &str| {
        let sources = sources.iter().map(|name| folder.path(name)).collect();
        pushed(Request { sources, dest: folder.path(dest), ..Request::default() }).await
    };
    copy(&["a"], "dst").await.unwrap();
    copy(&["a"], "dst/renamed").await.unwrap();
    copy(&["src"], "dst/tree").await.unwrap();
    copy(&["a", "b"], "dst/new/").await.unwrap();
    copy(&["src/."], "dst/new").await.unwrap();
    copy(&["src/."], "dst/fresh").await.unwrap();
    copy(&["src/"], "dst/new").await.unwrap();
    for path in ["a", "renamed", "tree/inner", "new/a", "new/b", "new/inner", "fresh/inner", "new/src/inner"]
    {
        assert!(folder.dst().join(path).is_file(), "{path}");
    }
    for (sources, dest) in
        [(&["a", "b"][..], "dst/none"), (&["a"], "dst/none/x"), (&["a", "src/../a"], "dst")]
    {
        assert!(copy(sources, dest).await.is_err(), "{sources:?} {dest}");
    }
    let missing = copy(&["absent", "b"], "dst").await.unwrap();
    assert_eq!((missing.files, missing.failures), (1, 1));
}

#[tokio::test]
async fn wide_directories_are_listed_in_pieces() {
    let folder = Folder::new();
    for outer in 0..15 {
        for inner in 0..9 {
            let path = folder.src().join(format!("{outer}/{inner}"));
            fs::create_dir_all(&path).unwrap();
            write(path.join("file"), b"x");
        }
    }
    let summary = pushed(folder.request()).await.unwrap();
    assert_eq!((summary.files, summary.directories, summary.failures), (135, 151, 0));
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
}

#[tokio::test]
async fn dropped_copy_reports_its_counts() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(30 << 20, 1));
    let log = Arc::new(Log::default());
    let (near, far) = duplex(1 << 16);
    {
        let serving = serve(far, Root::whole().unwrap(), Arc::new(()));
        let pushing = push(near, folder.request(), log.clone());
        let started = async {
            while !log.0.lock().unwrap().iter().any(|event| event.starts_with("FileStarted")) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = async { tokio::join!(pushing, serving) } => panic!("it must not end"),
            () = started => {}
        }
    }
    let events = log.0.lock().unwrap();
    let last = events.iter().find(|event| event.starts_with("Ended")).unwrap();
    assert!(last.contains("files: 0") && !last.contains(" elapsed: 0ns"), "{last}");
}

#[tokio::test]
async fn excludes_have_rules_of_gitignore() {
    let folder = Folder::new();
    for name in ["keep.c", "drop.o", "important.o"] {
        write(folder.src().join(name), b"x");
    }
    for name in ["target/debug", "sub/target", "sub/build"] {
        fs::create_dir_all(folder.src().join(name)).unwrap();
        write(folder.src().join(name).join("f"), b"x");
    }
    let excludes = ["*.o", "!important.o", "/target/", "build"].map(String::from).to_vec();
    let source = SourceOptions { excludes, ..SourceOptions::default() };
    let summary = pulled(Request { source, ..folder.request() }).await.unwrap();
    let found: Vec<_> = listing(&folder.dst()).into_keys().collect();
    let expected = ["src", "src/important.o", "src/keep.c", "src/sub", "src/sub/target", "src/sub/target/f"];
    assert_eq!(found, expected.map(std::path::PathBuf::from));
    assert_eq!((summary.files, summary.failures), (3, 0));
}

#[tokio::test]
async fn followed_links_become_files_without_loops() {
    let folder = Folder::new();
    fs::create_dir(folder.src().join("real")).unwrap();
    write(folder.src().join("real/file"), b"content");
    symlink("real", folder.src().join("alias")).unwrap();
    symlink("real/file", folder.src().join("shortcut")).unwrap();
    symlink("..", folder.src().join("real/up")).unwrap();
    symlink("absent", folder.src().join("dangling")).unwrap();
    let source = SourceOptions { follow: true, ..SourceOptions::default() };
    let summary = pushed(Request { source, ..folder.request() }).await.unwrap();
    let dst = folder.dst().join("src");
    for name in ["alias/file", "shortcut", "real/file"] {
        assert!(!dst.join(name).is_symlink() && fs::read(dst.join(name)).unwrap() == b"content", "{name}");
    }
    assert!(dst.join("dangling").is_symlink());
    let failed = failures(&summary);
    assert!(failed["src/real/up"].contains("leads back"), "{failed:?}");
}

/// Appends to one file as soon as it is read.
struct Meddler(std::path::PathBuf);

impl Observer for Meddler {
    fn event(&self, event: &Event<'_>) {
        if let Event::FileStarted { path, .. } = event
            && path.ends_with("restless")
        {
            write(&self.0, b"changed while it is read");
        }
    }
}

#[tokio::test]
async fn file_that_changes_fails_alone() {
    let folder = Folder::new();
    for name in ["calm", "restless", "tranquil"] {
        write(folder.src().join(name), &bytes(3 << 20, 1));
    }
    let (near, far) = duplex(1 << 16);
    let meddler = Arc::new(Meddler(folder.src().join("restless")));
    let root = Root::whole().unwrap();
    let (near, far) = tokio::join!(push(near, folder.request(), meddler), serve(far, root, Arc::new(())));
    for summary in [near.unwrap(), far.unwrap()] {
        assert_eq!((summary.files, summary.failures), (2, 1));
        assert_eq!(failures(&summary)["src/restless"], "changed while it was read");
    }
    let found: Vec<_> = listing(&folder.dst().join("src")).into_keys().collect();
    assert_eq!(found, ["calm", "tranquil"].map(std::path::PathBuf::from));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn file_with_contents_and_size_zero_fails() {
    let folder = Folder::new();
    let request = Request { sources: vec!["/proc/version".into()], ..folder.request() };
    let summary = pushed(request).await.unwrap();
    assert!(failures(&summary)["version"].contains("although its size is 0"), "{summary:?}");
    assert!(listing(&folder.dst()).is_empty());
}

// macOS creates pipes by another call.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn unreadable_and_special_entries_fail_alone() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    let pipe = folder.src().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let summary = pulled(folder.request()).await.unwrap();
    assert!(failures(&summary)["src/pipe"].contains("neither file"), "{summary:?}");
    assert_eq!((summary.files, summary.failures), (1, 1));
}

#[tokio::test]
async fn special_mode_bits_arrive_only_on_request() {
    let folder = Folder::new();
    write(folder.src().join("tool"), b"x");
    set_mode(&folder.src().join("tool"), 0o4755);
    for (special_modes, dest, mode) in [(false, "dst/plain", 0o755), (true, "dst/special", 0o4755)] {
        let destination = DestinationOptions { special_modes, sync: true, ..DestinationOptions::default() };
        let request = Request { dest: folder.path(dest), destination, ..folder.request() };
        let (near, far) = pushed_to(request, Root::whole().unwrap()).await;
        assert!(near.unwrap().is_complete() && far.unwrap().is_complete());
        assert_eq!(fs::metadata(folder.path(dest).join("tool")).unwrap().mode() & 0o7777, mode);
    }
}

#[tokio::test]
async fn more_replies_than_batch_all_arrive() {
    const COUNT: u64 = 1000;
    let (replies, queue) = tokio::sync::mpsc::channel(1024);
    for id in 1..=COUNT {
        let text = "x".repeat(3000);
        replies.send(FromDestination::Failed { id, text, missing_bytes: 0 }).await.unwrap();
    }
    drop(replies);
    let (mut near, far) = duplex(PIPE_BYTES);
    let report = Report::new(Arc::new(()));
    let reading = async {
        let mut reader = FrameReader::new(far);
        for id in 1..=COUNT {
            let reply = reader.message().await.unwrap();
            assert!(matches!(reply, Some(FromDestination::Failed { id: found, .. }) if found == id), "{id}");
        }
    };
    let writing = async {
        write_replies(queue, &mut near, &report).await.unwrap();
        drop(near);
    };
    tokio::join!(reading, writing);
}
