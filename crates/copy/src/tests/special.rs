//! Devices, pipes and sockets at the destination, which no copy replaces.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::support::{Folder, failures, pushed, write};
use crate::{DestinationOptions, Existing, Request};

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn is_special(path: &Path) -> bool {
    let kind = fs::symlink_metadata(path).unwrap().file_type();
    kind.is_fifo() || kind.is_socket()
}

#[tokio::test]
async fn no_option_replaces_pipe_or_socket() {
    let folder = Folder::new();
    let dst = folder.dst().join("src");
    fs::create_dir(&dst).unwrap();
    write(folder.src().join("pipe"), b"file");
    symlink("/nowhere", folder.src().join("socket")).unwrap();
    make_pipe(&dst.join("pipe"));
    let _socket = UnixListener::bind(dst.join("socket")).unwrap();
    for existing in [Existing::Refuse, Existing::Overwrite] {
        for dry_run in [true, false] {
            let destination = DestinationOptions { existing, dry_run, ..DestinationOptions::default() };
            let summary = pushed(Request { destination, ..folder.request() }).await.unwrap();
            let failed = failures(&summary);
            assert!(failed["src/pipe"].contains("is a named pipe, which is not replaced"), "{failed:?}");
            assert!(failed["src/socket"].contains("is a socket, which is not replaced"), "{failed:?}");
        }
    }
    let summary = pushed(folder.request_with(Existing::KeepBoth)).await.unwrap();
    assert_eq!((summary.files, summary.links, summary.failures), (1, 1, 0), "{summary:?}");
    assert!(is_special(&dst.join("pipe")) && is_special(&dst.join("socket")));
}

#[tokio::test]
async fn no_option_replaces_directory_by_link() {
    let folder = Folder::new();
    fs::create_dir_all(folder.dst().join("src/name")).unwrap();
    symlink("/nowhere", folder.src().join("name")).unwrap();
    let summary = pushed(folder.request_with(Existing::Overwrite)).await.unwrap();
    assert!(failures(&summary)["src/name"].contains("is a directory, which is not replaced"), "{summary:?}");
    assert!(folder.dst().join("src/name").is_dir());
}

#[tokio::test]
async fn device_as_destination_is_refused() {
    let folder = Folder::new();
    write(folder.src().join("file"), b"text");
    make_pipe(&folder.path("pipe"));
    symlink("pipe", folder.path("link")).unwrap();
    for dest in ["/dev/null".into(), folder.path("pipe"), folder.path("link"), "/dev/fd/1".into()] {
        for existing in [Existing::Refuse, Existing::Overwrite, Existing::KeepBoth] {
            let sources = vec![folder.src().join("file")];
            let request = Request { sources, dest: dest.clone(), ..folder.request_with(existing) };
            let error = pushed(request).await.unwrap_err().to_string();
            assert!(error.contains("name a file or a directory"), "{dest:?}: {error}");
        }
    }
    assert!(is_special(&folder.path("pipe")) && folder.path("link").is_symlink());
}
