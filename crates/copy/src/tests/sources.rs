//! How sources are named: paths without a name, patterns, descriptors.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::support::{Folder, confined, failures, listing, pulled, pulled_from, pushed, write};
use crate::{Existing, Request, SourceOptions};

/// Folder with photos, hidden ones and others.
fn photos() -> Folder {
    let folder = Folder::new();
    fs::create_dir(folder.src().join("sub")).unwrap();
    for name in ["a.jpg", "b.jpg", ".c.jpg", "notes.txt", "x[1].txt", "sub/a.jpg", "sub/d.jpg"] {
        write(folder.src().join(name), name.as_bytes());
    }
    folder
}

fn names(path: &Path) -> Vec<String> {
    listing(path).into_keys().map(|path| path.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn paths_without_name_copy_contents() {
    for source in ["src/", "src/.", "src/./", "src/.//", "src/sub/..", "src/sub/../", "src//sub/../."] {
        let folder = photos();
        let request = Request { sources: vec![folder.path(source)], ..Request::default() };
        // A name with a slash stays a name, as in cp and scp.
        let expected = if source == "src/" { folder.dst().join("src") } else { folder.dst() };
        let summary = pulled(Request { dest: folder.dst(), ..request.clone() }).await.unwrap();
        assert!(summary.is_complete(), "{source}: {summary:?}");
        assert_eq!(listing(&expected), listing(&folder.src()), "{source}");
        fs::remove_dir_all(folder.dst()).unwrap();
        fs::create_dir(folder.dst()).unwrap();
        assert!(pushed(Request { dest: folder.dst(), ..request }).await.unwrap().is_complete(), "{source}");
        assert_eq!(listing(&expected), listing(&folder.src()), "{source}");
    }
    let folder = photos();
    for source in ["./", "sub/..", ".", "/"] {
        let request = Request { sources: vec![source.into()], dest: folder.dst(), ..Request::default() };
        let summary = pulled_from(request, confined(&folder.src())).await.0.unwrap();
        assert!(summary.is_complete(), "{source}: {summary:?}");
        assert_eq!(listing(&folder.dst()), listing(&folder.src()), "{source}");
    }
}

#[tokio::test]
async fn empty_path_copies_nothing() {
    let folder = photos();
    for request in [
        Request { sources: vec!["".into()], dest: folder.dst(), ..Request::default() },
        Request { sources: vec![folder.src()], dest: "".into(), ..Request::default() },
    ] {
        pushed(request.clone()).await.unwrap_err();
        pulled(request).await.unwrap_err();
    }
    assert_eq!(names(&folder.dst()), [""; 0]);
}

#[tokio::test]
async fn pattern_copies_what_matches_at_peer() {
    let folder = photos();
    let copy = |sources: &[&str], dest: &str| {
        let (dest, sources) = (folder.path(dest), sources.iter().map(Into::into).collect());
        let root = confined(&folder.src());
        async { pulled_from(Request { sources, dest, ..Request::default() }, root).await.0 }
    };
    for (sources, dest, expected) in [
        (&["*.jpg"][..], "all/", &["a.jpg", "b.jpg"][..]),
        (&["*.jpg", "a.jpg", "a*"], "twice/", &["a.jpg", "b.jpg"]),
        (&[".*"], "hidden/", &[".c.jpg"]),
        (&["*/d.jpg"], "deep/", &["d.jpg"]),
        (&["s*/."], "contents/", &["a.jpg", "d.jpg"]),
        (&["*/"], "folders/", &["sub", "sub/a.jpg", "sub/d.jpg"]),
        (&["x[1].txt"], "literal/", &["x[1].txt"]),
        (&["x\\[1\\].txt"], "escaped/", &["x[1].txt"]),
    ] {
        let summary = copy(sources, dest).await.unwrap();
        assert!(summary.is_complete(), "{sources:?}: {summary:?}");
        assert_eq!(names(&folder.path(dest)), expected, "{sources:?}");
    }
    let summary = copy(&["*.gif", "*.txt"], "some/").await.unwrap();
    assert_eq!((summary.files, summary.failures), (2, 1));
    assert_eq!(failures(&summary)["*.gif"], "no name matches");
    let summary = copy(&["*.jpg", "*/*.jpg"], "same/").await.unwrap();
    assert_eq!(failures(&summary)["sub/a.jpg"], "another source has the same name");
    assert_eq!(names(&folder.path("same")), ["a.jpg", "b.jpg", "d.jpg"]);
    let error = copy(&["*.jpg"], "new").await.unwrap_err().to_string();
    assert!(error.contains("a pattern"), "{error}");
    assert!(!folder.path("new").exists());
}

#[tokio::test]
async fn pattern_spares_excluded_names() {
    let folder = photos();
    let source = SourceOptions { excludes: vec!["a.*".into()], ..SourceOptions::default() };
    for (pattern, expected) in [("*.jpg", &["b.jpg"][..]), ("a*", &["b.jpg"])] {
        let sources = vec![pattern.into()];
        let request = Request { sources, dest: folder.dst(), source: source.clone(), ..Request::default() };
        let summary = pulled_from(request, confined(&folder.src())).await.0.unwrap();
        assert!(summary.is_complete(), "{pattern}: {summary:?}");
        assert_eq!(names(&folder.dst()), expected, "{pattern}");
    }
}

#[tokio::test]
async fn names_of_push_have_no_wildcards() {
    let folder = photos();
    write(folder.src().join("*"), b"star");
    let sources = ["*", "*.jpg"].map(|name| folder.src().join(name)).to_vec();
    let summary = pushed(Request { sources, dest: folder.dst(), ..Request::default() }).await.unwrap();
    assert_eq!((names(&folder.dst()), summary.failures), (vec!["*".to_owned()], 1));
}

#[tokio::test]
async fn open_descriptor_is_no_source() {
    let folder = Folder::new();
    let (pipe, _writer) = std::io::pipe().unwrap();
    write(folder.path("file"), b"text");
    let file = fs::File::open(folder.path("file")).unwrap();
    symlink("/proc/self/fd/0", folder.path("stdin")).unwrap();
    let descriptor = |number: i32| format!("/dev/fd/{number}").into();
    for source in [descriptor(pipe.as_raw_fd()), descriptor(file.as_raw_fd()), folder.path("stdin")] {
        let request = Request { sources: vec![source.clone()], ..folder.request_with(Existing::Refuse) };
        let summary = pushed(request).await.unwrap();
        let text = failures(&summary)[source.to_str().unwrap()];
        assert!(text.contains("store what it gives in a file"), "{source:?}: {text}");
    }
    assert_eq!(names(&folder.dst()), [""; 0]);
}
