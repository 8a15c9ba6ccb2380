//! Sender and receiver do not name a format. Formats differ in properties of the wire
//! (`wire/codec.rs`), so a third format needs no change there.

use std::fs;
use std::path::{Path, PathBuf};

/// Places that may name formats: codecs, and the choice for a transfer.
const MAY: [&str; 2] = ["wire", "sender/config.rs"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns true for test files, which may name formats.
fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs")
}

#[test]
fn core_names_no_format() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/transport/src");
    let mut files = Vec::new();
    sources(&core, &mut files);
    assert!(files.len() > 50, "the core moved: {files:?}");
    let mut named = Vec::new();
    for path in files {
        let place = path.strip_prefix(&core).unwrap();
        if is_test(place) || MAY.iter().any(|may| place.starts_with(may)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (line, number) in code.lines().zip(1..) {
            if !line.trim_start().starts_with("//")
                && ["Wire::Classic", "Wire::Native"].iter().any(|w| line.contains(w))
            {
                named.push(format!("{}:{number}: {}", place.display(), line.trim()));
            }
        }
    }
    assert!(named.is_empty(), "{named:#?}");
}
