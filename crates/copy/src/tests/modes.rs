//! Modes of directories that a copy creates and does not complete.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use tokio::io::duplex;

use super::support::{Folder, PIPE_BYTES, confined, listing, pushed_to, set_mode, write};
use crate::{Request, push, serve};

fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.mode() & 0o7777)
}

#[tokio::test]
async fn interrupted_contents_are_private_until_complete() {
    let folder = Folder::new();
    write(folder.src().join("large"), &vec![7; 20 << 20]);
    set_mode(&folder.src(), 0o750);
    let new = folder.dst().join("new");
    let request = || Request { sources: vec![folder.path("src/.")], dest: "new/".into(), ..folder.request() };
    let (near, far) = duplex(PIPE_BYTES);
    let serving = tokio::spawn(serve(far, confined(&folder.dst()), Arc::new(())));
    let pushing = tokio::spawn(push(near, request(), Arc::new(())));
    while mode(&new).is_none() || fs::read_dir(&new).unwrap().next().is_none() {
        assert!(!serving.is_finished(), "the copy ended before");
        tokio::task::yield_now().await;
    }
    assert_eq!(mode(&new), Some(0o1700));
    pushing.abort();
    serving.await.unwrap().unwrap_err();
    assert_eq!(mode(&new), Some(0o1700));
    assert!(pushed_to(request(), confined(&folder.dst())).await.0.unwrap().is_complete());
    assert_eq!(mode(&new), Some(0o750));
    assert_eq!(listing(&new), listing(&folder.src()));
}

#[tokio::test]
async fn served_folder_keeps_mode_of_unfinished_one() {
    let folder = Folder::new();
    set_mode(&folder.src(), 0o750);
    set_mode(&folder.dst(), 0o1700);
    let request = Request { sources: vec![folder.path("src/.")], dest: ".".into(), ..folder.request() };
    assert!(pushed_to(request, confined(&folder.dst())).await.0.unwrap().is_complete());
    assert_eq!(mode(&folder.dst()), Some(0o1700));
}
