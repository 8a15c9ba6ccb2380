//! Named sources: their paths, their wildcards, and the begin of the walk over each of them.

use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Stat, readlinkat};

use super::pending::Trail;
use super::walk::{Walk, WalkEntry};
use super::wildcard::{Search, is_pattern};
use crate::directory::{Directory, is_symlink};
use crate::protocol::RawPath;
use crate::threads::Ended;

const DESCRIPTOR: &str = "is an open descriptor, without a name or a size: store what it gives in a file, or send it by 'rdt-send TICKET -'";
const SAME_NAME: &str = "another source has the same name";

/// Path of a source, and what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourcePath<'a> {
    /// Directory that contains the source; the source itself if only its contents are copied.
    pub(super) parent: &'a Path,
    pub(super) name: &'a [u8],
    /// True: its contents go into the destination, and not its name. A path that ends with `.` or
    /// `..` has no name.
    pub(crate) is_contents: bool,
    /// True: a `/` behind the name says that it is a directory, perhaps by a link.
    pub(super) has_slash: bool,
}

impl<'a> SourcePath<'a> {
    pub(crate) fn of(path: &'a Path) -> Self {
        let bytes = path.as_os_str().as_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let name = &bytes[start..end];
        if matches!(name, b"" | b"." | b"..") {
            return Self { parent: path, name: b".", is_contents: true, has_slash: false };
        }
        let parent = Path::new(OsStr::from_bytes(&bytes[..start]));
        Self { parent, name, is_contents: false, has_slash: end < bytes.len() }
    }

    /// Returns the name that the source has at the destination. Empty: its contents alone are
    /// copied.
    pub(crate) fn top_name(&self) -> RawPath {
        if self.is_contents { RawPath::new() } else { self.name.into() }
    }
}

impl Walk {
    /// Lists a source, or those that a pattern finds.
    pub(super) fn sources_of(&mut self, source: &Path) -> Result<(), Ended> {
        if !self.has_wildcards || !is_pattern(source) {
            return self.unless_same_name(source);
        }
        match Search::run(&self.root, source) {
            Ok(found) => found.iter().try_for_each(|source| self.unless_same_name(source)),
            Err(error) => self.left_out(source, error.to_string()),
        }
    }

    /// Lists a source unless one of its name was listed. A path that was listed is left out without
    /// a word: patterns may find the same one.
    fn unless_same_name(&mut self, source: &Path) -> Result<(), Ended> {
        let name = SourcePath::of(source).top_name();
        if self.has_wildcards && !name.is_empty() {
            match self.top_names.entry(name) {
                Entry::Vacant(slot) => drop(slot.insert(source.into())),
                Entry::Occupied(slot) if slot.get() == source => return Ok(()),
                Entry::Occupied(_) => return self.left_out(source, SAME_NAME.into()),
            }
        }
        self.source(source)
    }

    fn source(&mut self, source: &Path) -> Result<(), Ended> {
        let SourcePath { parent, name, is_contents, has_slash } = SourcePath::of(source);
        if source.as_os_str().is_empty() {
            return self.unreadable(source, &io::ErrorKind::NotFound.into());
        }
        let directory = match self.open_top(parent) {
            Ok(directory) => directory,
            Err(error) => return self.unreadable(source, &error),
        };
        let trail = Trail::top(Path::new(OsStr::from_bytes(if is_contents { b"" } else { name })));
        let (in_source, has_name) = (PathBuf::new(), !is_contents);
        let entry = WalkEntry { directory: &directory, name, trail, in_source, has_name };
        if has_slash {
            // `link/` names the directory that the link points to.
            return match self.open_top(source) {
                Ok(_) if self.is_excluded(&entry, true) => Ok(()),
                Ok(directory) => match directory.stat(b".") {
                    Ok(stat) => self.list(&entry, &stat, &directory),
                    Err(error) => self.unreadable(&entry.trail.path(), &error),
                },
                Err(error) => self.unreadable(source, &error),
            };
        }
        if entry.directory.stat(name).is_ok_and(|stat| is_descriptor(&directory, name, &stat)) {
            return self.left_out(source, DESCRIPTOR.into());
        }
        if let Some(entry) = self.visit(entry)? {
            self.directory(&entry)?;
        }
        Ok(())
    }
}

/// Returns true for `/dev/stdin`, `/dev/fd/63` and the like: links whose text means nothing at
/// another host.
fn is_descriptor(directory: &Arc<Directory>, name: &[u8], stat: &Stat) -> bool {
    const STANDARD: &[u8] = b"/proc/self/fd/";
    if !is_symlink(stat) {
        return false;
    }
    let Ok(handle) = directory.handle() else { return false };
    (name.iter().all(u8::is_ascii_digit) && is_proc(&handle))
        || readlinkat(&*handle, name, Vec::new()).is_ok_and(|target| target.as_bytes().starts_with(STANDARD))
}

#[cfg(target_os = "linux")]
fn is_proc(directory: impl std::os::fd::AsFd) -> bool {
    rustix::fs::fstatfs(directory).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_proc(_: impl std::os::fd::AsFd) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_source_or_its_contents() {
        for path in ["/", ".", "./", ".//", "..", "sub/..", "sub/../", "sub/.", "sub/.//", "/.", "../.."] {
            let source = SourcePath::of(Path::new(path));
            assert!(source.is_contents && source.top_name().is_empty(), "{path}: {source:?}");
            assert_eq!((source.parent, source.name), (Path::new(path), &b"."[..]));
        }
        for (path, parent, name, has_slash) in [
            ("photos", "", "photos", false),
            ("photos/", "", "photos", true),
            ("a/photos//", "a/", "photos", true),
            ("/photos", "/", "photos", false),
            ("./-x", "./", "-x", false),
            ("...", "", "...", false),
        ] {
            let expected = SourcePath {
                parent: Path::new(parent),
                name: name.as_bytes(),
                is_contents: false,
                has_slash,
            };
            assert_eq!(SourcePath::of(Path::new(path)), expected, "{path}");
        }
    }
}
