//! Names that exist, dry runs, and servers that are confined.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use super::support::{
    Folder, Log, PIPE_BYTES, confined, failures, listing, pulled, pulled_from, pushed, pushed_to, set_mode,
    set_time, write,
};
use crate::name::Temporary;
use crate::{DestinationOptions, Existing, Permission, Request, Root, SourceOptions, push, serve};

fn os(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

/// Source and destination with one name each that is new, identical, and different.
fn conflict() -> Folder {
    let folder = Folder::new();
    let dst = folder.dst().join("src");
    fs::create_dir(&dst).unwrap();
    for name in ["new.txt", "same.txt", "other.txt"] {
        write(folder.src().join(name), b"source");
    }
    symlink("source", folder.src().join("link")).unwrap();
    symlink("destination", dst.join("link")).unwrap();
    write(dst.join("same.txt"), b"source");
    write(dst.join("other.txt"), b"destination");
    folder
}

#[tokio::test]
async fn existing_name_fails_by_default() {
    let folder = conflict();
    let summary = pushed(folder.request()).await.unwrap();
    assert_eq!((summary.files, summary.skipped, summary.failures), (1, 1, 2));
    let failed = failures(&summary);
    assert!(failed["src/other.txt"].contains("--overwrite"), "{failed:?}");
    assert!(failed["src/link"].contains("exists"), "{failed:?}");
    assert_eq!(fs::read(folder.dst().join("src/other.txt")).unwrap(), b"destination");
}

#[tokio::test]
async fn file_emptied_by_power_loss_is_explained() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"text");
    fs::create_dir(folder.dst().join("src")).unwrap();
    write(folder.dst().join("src/file"), b"");
    let summary = pushed(folder.request()).await.unwrap();
    assert!(failures(&summary)["src/file"].contains("loss of power"), "{summary:?}");
    assert_eq!(pushed(folder.request_with(Existing::Overwrite)).await.unwrap().files, 1);
}

#[tokio::test]
async fn overwrite_replaces_files_and_links() {
    let folder = conflict();
    let summary = pushed(folder.request_with(Existing::Overwrite)).await.unwrap();
    assert_eq!((summary.files, summary.links, summary.skipped, summary.failures), (2, 1, 1, 0));
    assert_eq!(fs::read(folder.dst().join("src/other.txt")).unwrap(), b"source");
    assert_eq!(fs::read_link(folder.dst().join("src/link")).unwrap().as_os_str(), "source");
}

#[tokio::test]
async fn overwrite_spares_directories_and_link_targets() {
    let folder = Folder::new();
    let dst = folder.dst().join("src");
    fs::create_dir_all(dst.join("name")).unwrap();
    write(folder.src().join("name"), b"file");
    write(folder.path("victim"), b"victim");
    write(folder.src().join("linked"), b"file");
    symlink(folder.path("victim"), dst.join("linked")).unwrap();
    fs::create_dir(folder.src().join("sub")).unwrap();
    write(folder.src().join("sub/inside"), b"file");
    symlink(folder.path("src"), dst.join("sub")).unwrap();
    let summary = pushed(folder.request_with(Existing::Overwrite)).await.unwrap();
    let failed = failures(&summary);
    assert!(failed["src/name"].contains("is a directory"), "{failed:?}");
    assert!(failed["src/sub"].contains("no directory"), "{failed:?}");
    assert!(failed["src/sub/inside"].contains("its directory"), "{failed:?}");
    assert_eq!(fs::read(folder.path("victim")).unwrap(), b"victim");
    assert_eq!(fs::read(dst.join("linked")).unwrap(), b"file");
}

#[tokio::test]
async fn keep_both_numbers_the_new_one() {
    let folder = conflict();
    for event in ["Done", "Skipped"] {
        let logs = [Arc::new(Log::default()), Arc::new(Log::default())];
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let pushing = push(near, folder.request_with(Existing::KeepBoth), logs[0].clone());
        let (near, far) = tokio::join!(pushing, serve(far, Root::whole().unwrap(), logs[1].clone()));
        assert_eq!((near.unwrap().failures, far.unwrap().failures), (0, 0));
        for log in &logs {
            let events = log.0.lock().unwrap();
            for name in ["other (2).txt", "link (2)"] {
                let expected = format!("{event} {{ path: \"src/{name}\"");
                assert!(events.iter().any(|event| event.starts_with(&expected)), "{expected}: {events:?}");
            }
        }
    }
    let dst = folder.dst().join("src");
    assert_eq!(fs::read(dst.join("other.txt")).unwrap(), b"destination");
    assert_eq!(fs::read(dst.join("other (2).txt")).unwrap(), b"source");
    assert!(!dst.join("other (3).txt").exists(), "the second copy finds that of the first");
}

#[tokio::test]
async fn checksum_finds_change_that_time_hides() {
    let folder = Folder::new();
    let dst = folder.dst().join("src");
    fs::create_dir(&dst).unwrap();
    for name in ["equal", "changed"] {
        write(folder.src().join(name), b"content");
    }
    write(dst.join("changed"), b"CONTENT");
    write(dst.join("equal"), b"content");
    set_time(&dst.join("equal"), 5);
    let destination =
        DestinationOptions { checksum: true, existing: Existing::Overwrite, ..DestinationOptions::default() };
    let summary = pushed(Request { destination, ..folder.request() }).await.unwrap();
    assert_eq!((summary.files, summary.skipped, summary.failures), (1, 1, 0));
    assert_eq!(fs::read(dst.join("changed")).unwrap(), b"content");
}

#[tokio::test]
async fn checksum_finds_contents_kept_before() {
    let folder = Folder::new();
    let dst = folder.dst().join("src");
    fs::create_dir(&dst).unwrap();
    for name in ["equal size", "other size", "same time"] {
        write(folder.src().join(name), b"content");
    }
    write(dst.join("equal size"), b"CONTENT");
    write(dst.join("other size"), b"short");
    write(dst.join("same time"), b"short");
    write(dst.join("same time (2)"), b"CONTENT");
    let destination =
        DestinationOptions { checksum: true, existing: Existing::KeepBoth, ..DestinationOptions::default() };
    for (files, skipped) in [(3, 0), (0, 3), (0, 3)] {
        let summary = pushed(Request { destination, ..folder.request() }).await.unwrap();
        assert_eq!((summary.files, summary.skipped, summary.failures), (files, skipped, 0), "{summary:?}");
        // Their contents count, and not their times.
        for name in ["equal size (2)", "other size (2)", "same time (3)"] {
            assert_eq!(fs::read(dst.join(name)).unwrap(), b"content");
            set_time(&dst.join(name), 5);
        }
    }
    assert_eq!(listing(&dst).len(), 7);
}

#[tokio::test]
async fn dry_run_writes_nothing() {
    let folder = conflict();
    fs::create_dir(folder.src().join("directory")).unwrap();
    write(folder.src().join("directory/file"), b"x");
    let before = listing(&folder.dst());
    let destination = DestinationOptions { dry_run: true, ..DestinationOptions::default() };
    let summary = pushed(Request { destination, ..folder.request() }).await.unwrap();
    assert_eq!((summary.planned, summary.skipped), (2, 1), "{summary:?}");
    assert_eq!((summary.files, summary.failures, summary.sent_bytes), (0, 2, 0));
    assert_eq!(listing(&folder.dst()), before);
    let fresh = Request { dest: folder.path("absent/"), destination, ..folder.request() };
    assert!(pushed(fresh).await.unwrap().is_complete());
    assert!(!folder.path("absent").exists());
}

#[tokio::test]
async fn confined_server_offers_nothing_outside() {
    let folder = Folder::new();
    write(folder.path("secret"), b"secret");
    write(folder.src().join("own"), b"own");
    let root = folder.path("root");
    fs::create_dir(&root).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("../secret", root.join("leak")).unwrap();
    symlink("inner", root.join("within")).unwrap();
    write(root.join("inner"), b"inner");
    for dest in ["../dst", "up", "up/dst", "/../dst", "within/x"] {
        let request =
            Request { sources: vec![folder.src().join("own")], dest: dest.into(), ..Request::default() };
        let (near, far) = pushed_to(request, confined(&root)).await;
        assert!(near.is_err() && far.is_err(), "{dest}: {near:?}");
    }
    for source in ["../secret", "up/secret", "/up/secret", "leak"] {
        let source_options = SourceOptions { follow: true, ..SourceOptions::default() };
        let request = Request {
            sources: vec![source.into()],
            dest: folder.dst(),
            source: source_options,
            ..Request::default()
        };
        let summary = pulled_from(request, confined(&root)).await.0.unwrap();
        assert_eq!((summary.files, summary.failures), (0, 1), "{source}");
    }
    let request = Request { sources: vec!["/within".into()], dest: folder.dst(), ..Request::default() };
    let follow = SourceOptions { follow: true, ..SourceOptions::default() };
    let summary = pulled_from(Request { source: follow, ..request }, confined(&root)).await.0.unwrap();
    assert_eq!((summary.files, summary.failures), (1, 0), "{summary:?}");
    assert_eq!(fs::read(folder.dst().join("within")).unwrap(), b"inner");
    assert_eq!(listing(&folder.dst()).len(), 1);
}

#[tokio::test]
async fn permissions_of_server_are_kept() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    let request =
        || Request { sources: vec![folder.src().join("file")], dest: "/".into(), ..Request::default() };
    let root = |permission| Root::confined(&folder.dst(), permission).unwrap();
    let (near, _) = pushed_to(request(), root(Permission::ReadOnly)).await;
    assert!(near.unwrap_err().to_string().contains("only be read"));
    let (near, _) = pulled_from(folder.request(), root(Permission::WriteOnly)).await;
    assert!(near.unwrap_err().to_string().contains("only be written"));
    let (near, _) = pushed_to(request(), root(Permission::WriteOnly)).await;
    assert!(near.unwrap().is_complete());
    assert!(folder.dst().join("file").is_file());
    let (near, _) = pulled_from(folder.request(), root(Permission::AddOnly)).await;
    assert!(near.unwrap_err().to_string().contains("only be written"));
}

#[tokio::test]
async fn read_only_directory_of_earlier_copy_is_filled() {
    let folder = Folder::new();
    fs::create_dir_all(folder.dst().join("src/sub")).unwrap();
    fs::create_dir(folder.src().join("sub")).unwrap();
    write(folder.src().join("sub/file"), b"x");
    for path in [folder.src().join("sub"), folder.dst().join("src/sub")] {
        set_mode(&path, 0o555);
    }
    assert!(pushed(folder.request()).await.unwrap().is_complete());
    assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
    for path in [folder.src().join("sub"), folder.dst().join("src/sub")] {
        set_mode(&path, 0o755);
    }
}

#[tokio::test]
async fn reserved_names_of_source_are_reported() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    write(folder.src().join(".rdt-copy-notes"), b"x");
    fs::create_dir(folder.src().join(".RDT-COPY-folder")).unwrap();
    write(folder.src().join(".RDT-COPY-folder/inside"), b"x");
    let excludes = vec![".rdt-copy-*".to_owned(), ".RDT-COPY-*/".to_owned()];
    let source = SourceOptions { excludes, ..SourceOptions::default() };
    for is_push in [true, false] {
        let run = async |request| if is_push { pushed(request).await } else { pulled(request).await };
        let summary = run(folder.request()).await.unwrap();
        let failed = failures(&summary);
        assert!(failed["src/.rdt-copy-notes"].contains("reserved"), "{failed:?}");
        assert!(failed["src/.RDT-COPY-folder"].contains("reserved"), "{failed:?}");
        assert_eq!((summary.failures, summary.files + summary.skipped), (2, 1));
        let summary = run(Request { source: source.clone(), ..folder.request() }).await.unwrap();
        assert!(summary.is_complete(), "{summary:?}");
    }
}

#[tokio::test]
async fn unreadable_entry_hides_no_source() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("a")).unwrap();
    let socket = UnixListener::bind(folder.path("a/b")).unwrap();
    write(folder.path("b"), b"source");
    write(folder.path("c"), b"source");
    let sources = ["a/.", "b", "c"].map(|name| folder.path(name)).into();
    let request = Request { sources, dest: folder.dst(), ..Request::default() };
    let summary = pulled(request).await.unwrap();
    assert_eq!((summary.files, summary.failures), (2, 1), "{summary:?}");
    assert!(failures(&summary)["b"].contains("neither file"), "{summary:?}");
    drop(socket);
}

#[tokio::test]
async fn marker_belongs_to_source_and_directory() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    // Its failure keeps the copy incomplete, so the marker stays.
    write(folder.src().join(".rdt-copy-x"), b"x");
    fs::create_dir(folder.path("other")).unwrap();
    write(folder.path("other/more"), b"x");
    let new = folder.dst().join("new");
    let copy = async |source: &str| {
        let sources = vec![folder.path(source)];
        pushed(Request { sources, dest: new.clone(), ..Request::default() }).await.unwrap()
    };
    let marker = folder.dst().join(os(&Temporary::of(b"new").new));
    for _ in 0..2 {
        assert_eq!(copy("src").await.failures, 1);
        assert!(marker.is_file() && new.join("file").is_file() && !new.join("src").exists());
    }
    assert!(copy("other").await.is_complete());
    assert!(new.join("other/more").is_file() && marker.is_file());

    fs::remove_dir_all(&new).unwrap();
    fs::create_dir(&new).unwrap();
    let request = || Request { dest: new.clone(), ..folder.request() };
    let destination = DestinationOptions { dry_run: true, ..DestinationOptions::default() };
    pushed(Request { destination, ..request() }).await.unwrap();
    let refusing = Root::confined(&folder.dst(), Permission::WriteOnly).unwrap();
    assert!(pulled_from(request(), refusing).await.0.is_err());
    assert!(marker.is_file(), "neither a dry run nor a refused copy removes it");
    copy("src").await;
    assert!(new.join("src/file").is_file(), "another directory has the name now");
    assert!(!marker.exists());
}

#[tokio::test]
async fn pull_of_nothing_leaves_no_directory() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    let request = || Request { dest: folder.dst().join("new/"), ..folder.request() };
    let refusing = Root::confined(&folder.dst(), Permission::WriteOnly).unwrap();
    assert!(pulled_from(request(), refusing).await.0.is_err());
    assert!(!folder.dst().join("new").exists());
    let missing = Request { sources: vec![folder.src().join("missing")], ..request() };
    assert_eq!(pulled(missing).await.unwrap().failures, 1);
    assert!(!folder.dst().join("new").exists());
    assert!(pulled(request()).await.unwrap().is_complete());
    assert!(folder.dst().join("new/src/file").is_file());
}

#[tokio::test]
async fn marker_without_directory_needs_empty_one() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    let new = folder.dst().join("new");
    let request = || Request { dest: new.clone(), ..folder.request() };
    let marker = folder.dst().join(os(&Temporary::of(b"new").new));
    let announced = [&b"rdtcopyN"[..], &[0; 16], blake3::hash(b"src").as_bytes()].concat();
    fs::create_dir(&new).unwrap();
    fs::write(&marker, &announced).unwrap();
    assert!(pushed(request()).await.unwrap().is_complete());
    assert!(new.join("file").is_file() && !marker.exists());
    fs::write(&marker, &announced).unwrap();
    assert!(pushed(request()).await.unwrap().is_complete());
    assert!(new.join("src/file").is_file());
}

#[tokio::test]
async fn file_that_is_no_marker_stays() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    fs::create_dir(folder.dst().join("new")).unwrap();
    let of_user = folder.dst().join(os(&Temporary::of(b"new").new));
    write(&of_user, b"text of the user");
    assert!(
        pushed(Request { dest: folder.dst().join("new"), ..folder.request() }).await.unwrap().is_complete()
    );
    assert_eq!(fs::read(of_user).unwrap(), b"text of the user");
}

#[tokio::test]
async fn planted_marker_changes_no_other_file() {
    let plants: [fn(&Path, &Path) -> std::io::Result<()>; 2] =
        [|victim, marker| fs::hard_link(victim, marker), |victim, marker| symlink(victim, marker)];
    for plant in plants {
        let folder = Folder::new();
        write(folder.src().join("file"), b"x");
        write(folder.src().join(".rdt-copy-x"), b"its failure keeps the marker");
        let victim = folder.path("victim");
        write(&victim, b"victim");
        let marker = folder.dst().join(os(&Temporary::of(b"new").new));
        plant(&victim, &marker).unwrap();
        let new = folder.dst().join("new");
        for _ in 0..2 {
            let summary = pushed(Request { dest: new.clone(), ..folder.request() }).await.unwrap();
            assert_eq!((summary.failures, new.join("src").exists()), (1, false));
        }
        assert_eq!(fs::read(&victim).unwrap(), b"victim");
        assert!(fs::symlink_metadata(&marker).unwrap().is_file());
    }
}

#[tokio::test]
async fn marker_in_source_is_left_out() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"x");
    write(folder.src().join(os(&Temporary::of(b"new").new)), b"of a copy that was not complete");
    let summary = pushed(folder.request()).await.unwrap();
    assert_eq!((summary.files, summary.failures), (1, 0), "{summary:?}");
    assert_eq!(listing(&folder.dst().join("src")).len(), 1);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn existing_directory_keeps_mode_unless_overwritten() {
    let folder = Folder::new();
    fs::create_dir_all(folder.src().join("sub")).unwrap();
    fs::create_dir_all(folder.dst().join("src/sub")).unwrap();
    set_mode(&folder.src().join("sub"), 0o755);
    for (existing, old, new) in [
        (Existing::Refuse, 0o700, 0o700),
        (Existing::KeepBoth, 0o500, 0o500),
        (Existing::Overwrite, 0o700, 0o755),
    ] {
        write(folder.src().join(format!("sub/{old:o}")), b"x");
        set_mode(&folder.dst().join("src/sub"), old);
        assert!(pushed(folder.request_with(existing)).await.unwrap().is_complete());
        assert_eq!(mode(&folder.dst().join("src/sub")), new, "{existing:?}");
    }
}

#[tokio::test]
async fn contents_leave_mode_of_served_folder() {
    let folder = Folder::new();
    set_mode(&folder.src(), 0o777);
    set_mode(&folder.dst(), 0o750);
    for existing in [Existing::Refuse, Existing::Overwrite] {
        let request = Request {
            sources: vec![folder.path("src/.")],
            dest: ".".into(),
            ..folder.request_with(existing)
        };
        let root = Root::confined(&folder.dst(), Permission::WriteOnly).unwrap();
        assert!(pushed_to(request, root).await.0.unwrap().is_complete());
        assert_eq!(mode(&folder.dst()), 0o750);
    }
    // One that the copy creates has the mode of the source.
    let request = Request { sources: vec![folder.path("src/.")], dest: "new/".into(), ..folder.request() };
    assert!(pushed_to(request, confined(&folder.dst())).await.0.unwrap().is_complete());
    assert_eq!(mode(&folder.dst().join("new")), 0o777);
}

#[tokio::test]
async fn directory_of_interrupted_copy_gets_mode_of_source() {
    let folder = Folder::new();
    fs::create_dir(folder.dst().join("src")).unwrap();
    set_mode(&folder.dst().join("src"), 0o1700);
    set_mode(&folder.src(), 0o751);
    assert!(pushed(folder.request()).await.unwrap().is_complete());
    assert_eq!(mode(&folder.dst().join("src")), 0o751);
}

#[tokio::test]
async fn new_directories_inherit_setgid() {
    let folder = Folder::new();
    fs::create_dir(folder.src().join("sub")).unwrap();
    set_mode(&folder.src().join("sub"), 0o755);
    set_mode(&folder.src(), 0o755);
    set_mode(&folder.dst(), 0o2775);
    assert!(pushed(folder.request()).await.unwrap().is_complete());
    assert_eq!([mode(&folder.dst().join("src")), mode(&folder.dst().join("src/sub"))], [0o2755; 2]);
}

#[tokio::test]
async fn equal_names_of_two_sources_fail() {
    let folder = Folder::new();
    for (source, time) in [("a", 5), ("b", 6)] {
        fs::create_dir_all(folder.path(source).join("sub")).unwrap();
        for number in 0..20 {
            let file = folder.path(source).join(format!("sub/{number}"));
            write(&file, source.as_bytes());
            set_time(&file, time);
        }
        symlink(source, folder.path(source).join("link")).unwrap();
    }
    // The names exist before, so that they are replaced once.
    fs::create_dir(folder.dst().join("sub")).unwrap();
    write(folder.dst().join("sub/7"), b"older");
    let sources = ["a/.", "b/."].map(|name| folder.path(name)).to_vec();
    let summary = pushed(Request { sources, ..folder.request_with(Existing::Overwrite) }).await.unwrap();
    assert_eq!((summary.files, summary.links, summary.failures), (20, 1, 21), "{summary:?}");
    assert!(failures(&summary)["sub/3"].contains("another entry of this copy"), "{summary:?}");
    assert_ne!(fs::read(folder.dst().join("sub/7")).unwrap(), b"older");
}

#[tokio::test]
async fn overwrite_sets_mode_of_identical_file() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"text");
    set_mode(&folder.src().join("file"), 0o644);
    pushed(folder.request()).await.unwrap();
    set_mode(&folder.src().join("file"), 0o600);
    for (existing, mode) in [(Existing::Refuse, 0o644), (Existing::Overwrite, 0o600)] {
        let summary = pushed(folder.request_with(existing)).await.unwrap();
        assert_eq!((summary.skipped, summary.failures), (1, 0));
        let found = fs::metadata(folder.dst().join("src/file")).unwrap().mode();
        assert_eq!(found & 0o777, mode, "{existing:?}");
    }
}

#[tokio::test]
async fn stopped_copy_restores_mode_of_directory() {
    let folder = Folder::new();
    fs::create_dir(folder.dst().join("src")).unwrap();
    set_mode(&folder.dst().join("src"), 0o555);
    write(folder.src().join("large"), &vec![7; 20 << 20]);
    let mode = || fs::metadata(folder.dst().join("src")).unwrap().mode() & 0o777;
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let root = confined(&folder.dst());
    let serving = tokio::spawn(serve(far, root, Arc::new(())));
    let pushing = tokio::spawn(push(near, Request { dest: "/".into(), ..folder.request() }, Arc::new(())));
    while mode() == 0o555 {
        assert!(!serving.is_finished(), "the copy ended before");
        tokio::task::yield_now().await;
    }
    let kept = folder.dst().join(os(&Temporary::of(b"src").mode));
    fs::rename(&kept, folder.path("kept")).unwrap();
    pushing.abort();
    serving.await.unwrap().unwrap_err();
    assert_eq!(mode(), 0o555);
    // A copy that is killed leaves the file, and the mode with which it fills the directory.
    set_mode(&folder.dst().join("src"), 0o755);
    fs::rename(folder.path("kept"), &kept).unwrap();
    assert!(pushed(folder.request()).await.unwrap().is_complete());
    assert_eq!(mode(), 0o555);
    assert!(!kept.exists());
}

#[tokio::test]
async fn mode_of_earlier_copy_yields_to_newer_one() {
    let folder = Folder::new();
    let (dst, kept) = (folder.dst().join("src"), folder.dst().join(os(&Temporary::of(b"src").mode)));
    fs::create_dir(&dst).unwrap();
    write(folder.src().join("file"), b"text");
    for (existing, before, after) in [
        (Existing::Refuse, 0o711, 0o711),
        (Existing::Refuse, 0o511, 0o511),
        (Existing::Overwrite, 0o755, 0o750),
    ] {
        set_mode(&folder.src(), 0o750);
        set_mode(&dst, before);
        fs::write(&kept, "555").unwrap();
        assert!(pushed(folder.request_with(existing)).await.unwrap().is_complete());
        assert_eq!((mode(&dst) & 0o777, kept.exists()), (after, false), "{before:o}");
    }
}
