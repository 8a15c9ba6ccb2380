//! Walk over the sources, depth first, on a thread of its own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::Gitignore;
use rustix::fs::{FileType, Stat, readlinkat};

use super::excludes::is_excluded_source;
use super::outgoing::Outgoing;
use super::pending::{Item, Pending, SourceFile, Trail};
use super::read::{contents, token};
use crate::directory::{Directory, RootDirectory, mtime};
use crate::name::{is_marker, is_temporary};
use crate::protocol::{Contents, Entry, EntryKind, FromSource, MAX_CONTENTS_BYTES, MAX_DEPTH, RawPath};
use crate::report::{Lost, Report};
use crate::threads::Ended;
use crate::{Event, Kind};

/// Bytes of entries that leave together.
const FLUSH_BYTES: usize = 16 << 10;
/// Bytes of files that leave with their entries: what a sender has in flight at first. Later ones
/// wait for the destination to want them, because it may have them.
pub(super) const CONTENTS_BYTES: u64 = 128 << 10;
const RESERVED: &str = "its name is reserved for unfinished files of rdt-copy: rename or exclude it";
const INTO_ITSELF: &str = "the copy goes into it: exclude it, or choose another destination";
/// Limit on names of directories that are listed before they are visited. Beyond it, a list stays
/// open while they are: with the longest names, 20 MB of memory.
const MAX_HELD_NAMES: usize = if cfg!(test) { 4 } else { 65_536 };

pub(crate) struct Walk {
    pub(crate) root: Arc<RootDirectory>,
    pub(crate) follow: bool,
    /// True: sources may be patterns, because another host has named them.
    pub(crate) has_wildcards: bool,
    /// Paths of the sources so far, by their names at the destination, if there may be patterns.
    pub(crate) top_names: BTreeMap<RawPath, PathBuf>,
    pub(crate) excludes: Gitignore,
    pub(crate) pending: Arc<Pending>,
    pub(crate) out: Outgoing,
    pub(crate) report: Report,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Bytes of files that may still leave with their entries.
    pub(crate) contents_left: u64,
    /// Names of directories that were listed, and not visited, in all directories.
    pub(crate) held_names: usize,
}

/// Name found by the walk: its directory, and its paths relative to the destination and to the
/// source.
pub(super) struct WalkEntry<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) name: &'a [u8],
    pub(super) trail: Arc<Trail>,
    /// Empty for the source itself.
    pub(super) in_source: PathBuf,
    /// False: a source whose contents alone are copied.
    pub(super) has_name: bool,
}

impl WalkEntry<'_> {
    /// Returns the entry of a name in this directory, which is open.
    fn join<'a>(&self, directory: &'a Arc<Directory>, name: &'a [u8]) -> WalkEntry<'a> {
        let in_source = self.in_source.join(OsStr::from_bytes(name));
        WalkEntry { directory, name, trail: self.trail.join(name), in_source, has_name: true }
    }
}

impl Walk {
    /// Lists all sources, and ends the list.
    pub(crate) fn run(mut self, sources: &[PathBuf]) -> Result<(), Ended> {
        for source in sources {
            self.sources_of(source)?;
        }
        let (files, bytes) = (self.files, self.bytes);
        self.report.event(&Event::Total { files, bytes });
        self.out.message(&FromSource::Total { files, bytes })?;
        // First, because the destination may answer at once.
        self.pending.end_list();
        self.out.flush()
    }

    pub(super) fn open_top(&self, path: &Path) -> io::Result<Arc<Directory>> {
        Directory::in_root(&self.root, path.into(), self.root.links(self.follow))
    }

    /// Sends a file or link to the peer. Returns the entry if it is a directory.
    pub(super) fn visit<'a>(&mut self, entry: WalkEntry<'a>) -> Result<Option<WalkEntry<'a>>, Ended> {
        let stat = match entry.directory.stat(entry.name) {
            Ok(stat) => stat,
            // With `follow`: a link to nothing is copied as a link.
            Err(error) if self.follow && error.kind() == io::ErrorKind::NotFound => {
                match entry.directory.stat_name(entry.name) {
                    Ok(stat) => stat,
                    Err(_) => return self.unreadable(&entry.trail.path(), &error).map(|()| None),
                }
            }
            Err(error) => return self.unreadable(&entry.trail.path(), &error).map(|()| None),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return Ok((!self.is_excluded(&entry, true)).then_some(entry)),
            _ if self.is_excluded(&entry, false) => {}
            FileType::RegularFile => self.file(&entry, &stat)?,
            FileType::Symlink => self.link(&entry, &stat)?,
            _ => {
                let error = io::Error::other("neither file, directory nor symbolic link");
                self.unreadable(&entry.trail.path(), &error)?;
            }
        }
        Ok(None)
    }

    fn file(&mut self, entry: &WalkEntry<'_>, stat: &Stat) -> Result<(), Ended> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let token = token(stat);
        let file = SourceFile {
            directory: Arc::clone(entry.directory),
            name: entry.name.into(),
            size,
            token,
            trail: Arc::clone(&entry.trail),
        };
        let contents = self.contents_of(&file);
        let item = Item { size, file: Some(file), wants_left: 2, ..item(&entry.trail, Kind::File) };
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.entry(wire_entry(entry, stat, EntryKind::File { size, token, contents }), item).map(drop)
    }

    /// Returns the contents of a file that leave with its entry.
    fn contents_of(&mut self, file: &SourceFile) -> Option<Contents> {
        let left = self.contents_left.checked_sub(file.size)?;
        let is_small = file.size <= MAX_CONTENTS_BYTES as u64;
        let contents = is_small.then(|| contents(file)).flatten()?;
        self.contents_left = left;
        self.report.event(&Event::FileStarted { path: &file.trail.path(), size: file.size });
        Some(contents)
    }

    fn link(&mut self, entry: &WalkEntry<'_>, stat: &Stat) -> Result<(), Ended> {
        let target =
            entry.directory.handle().and_then(|handle| Ok(readlinkat(&*handle, entry.name, Vec::new())?));
        match target {
            Ok(target) => {
                let kind = EntryKind::Symlink { target: target.into_bytes() };
                self.entry(wire_entry(entry, stat, kind), item(&entry.trail, Kind::Symlink)).map(drop)
            }
            Err(error) => self.unreadable(&entry.trail.path(), &error),
        }
    }

    pub(super) fn directory(&mut self, entry: &WalkEntry<'_>) -> Result<(), Ended> {
        let opened = entry.directory.stat(entry.name).and_then(|stat| {
            if entry.directory.depth >= MAX_DEPTH - 1 {
                return Err(io::Error::other("the directories are nested too deep"));
            }
            // With `follow`, a link may lead back to a directory that contains it.
            if self.follow && entry.has_name && entry.directory.is_within(&stat) {
                return Err(io::Error::other("a symbolic link leads back to a directory above it"));
            }
            Ok((stat, entry.directory.open_directory(entry.name)?))
        });
        match opened {
            Ok((stat, directory)) => self.list(entry, &stat, &directory),
            Err(error) => self.unreadable(&entry.trail.path(), &error),
        }
    }

    /// Sends an open directory and its contents.
    pub(super) fn list(
        &mut self,
        entry: &WalkEntry<'_>,
        stat: &Stat,
        directory: &Arc<Directory>,
    ) -> Result<(), Ended> {
        if !self.pending.is_accepted() {
            self.out.flush()?;
        }
        // A list of the destination would find what the copy makes there, without end.
        let into = self.pending.accepted()?;
        if into.is_some() && directory.identity() == into {
            return self.left_out(&entry.trail.path(), INTO_ITSELF.into());
        }
        let item = item(&entry.trail, Kind::Directory);
        let id = self.entry(wire_entry(entry, stat, EntryKind::Directory), item)?;
        self.contents(directory, entry)?;
        self.out.message(&FromSource::Leave { id })
    }

    /// Lists a directory in the order of the file system: its files and links first, so that no
    /// handle stays open for the list while subdirectories are visited. One with very many
    /// subdirectories is listed in pieces.
    fn contents(&mut self, directory: &Arc<Directory>, parent: &WalkEntry<'_>) -> Result<(), Ended> {
        let list = match directory.list() {
            Ok(list) => list,
            Err(error) => return self.unreadable(&parent.trail.path(), &error),
        };
        let mut directories: Vec<RawPath> = Vec::new();
        for found in list {
            if self.pending.is_stopped() {
                return Err(Ended);
            }
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    self.unreadable(&parent.trail.path(), &error.into())?;
                    break;
                }
            };
            let name = found.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let entry = parent.join(directory, name);
            let is_directory = found.file_type() == FileType::Directory;
            let is_to_visit = if is_marker(name) {
                // Marker of an unfinished copy to this host: of no use at the destination.
                false
            } else if is_temporary(name) {
                if !self.is_excluded(&entry, is_directory) {
                    self.left_out(&entry.trail.path(), RESERVED.into())?;
                }
                false
            } else if is_directory {
                !self.is_excluded(&entry, true)
            } else {
                self.visit(entry)?.is_some()
            };
            if is_to_visit {
                directories.push(name.into());
                self.held_names += 1;
            }
            if self.held_names >= MAX_HELD_NAMES {
                self.directories(&mut directories, directory, parent)?;
            }
        }
        self.directories(&mut directories, directory, parent)
    }

    /// Visits the directories with these names, and forgets the names.
    fn directories(
        &mut self,
        names: &mut Vec<RawPath>,
        directory: &Arc<Directory>,
        parent: &WalkEntry<'_>,
    ) -> Result<(), Ended> {
        debug_assert!(self.held_names <= MAX_HELD_NAMES);
        for name in names.drain(..) {
            self.held_names -= 1;
            self.directory(&parent.join(directory, &name))?;
        }
        Ok(())
    }

    pub(super) fn is_excluded(&self, entry: &WalkEntry<'_>, is_directory: bool) -> bool {
        if !entry.in_source.as_os_str().is_empty() {
            return self.excludes.matched(&entry.in_source, is_directory).is_ignore();
        }
        entry.has_name && is_excluded_source(&self.excludes, OsStr::from_bytes(entry.name), is_directory)
    }

    fn entry(&mut self, mut entry: Entry, mut item: Item) -> Result<u64, Ended> {
        loop {
            match self.pending.add(item) {
                Ok(id) => {
                    entry.id = id;
                    self.out.message(&FromSource::Entry(entry))?;
                    if self.out.len() >= FLUSH_BYTES {
                        self.out.flush()?;
                    }
                    self.out.flush_late()?;
                    return Ok(id);
                }
                Err(back) => item = back,
            }
            self.out.flush()?;
            if !self.pending.wait_for_room() {
                return Err(Ended);
            }
        }
    }

    pub(super) fn unreadable(&mut self, path: &Path, error: &io::Error) -> Result<(), Ended> {
        self.left_out(path, format!("cannot be read: {error}"))
    }

    /// Reports an entry that is not listed, on both sides.
    pub(super) fn left_out(&mut self, path: &Path, text: String) -> Result<(), Ended> {
        self.report.failed(path, &text, Lost::default());
        self.out.message(&FromSource::Unreadable { path: path.as_os_str().as_bytes().into(), text })
    }
}

fn item(trail: &Arc<Trail>, kind: Kind) -> Item {
    Item { trail: Arc::clone(trail), kind, size: 0, file: None, wants_left: 0 }
}

fn wire_entry(entry: &WalkEntry<'_>, stat: &Stat, kind: EntryKind) -> Entry {
    let (mtime, mtime_nanos) = mtime(stat);
    Entry {
        id: 0,
        name: if entry.has_name { entry.name.into() } else { RawPath::new() },
        kind,
        mode: mode(stat),
        mtime,
        mtime_nanos,
    }
}

#[cfg_attr(
    target_os = "linux",
    expect(clippy::useless_conversion, reason = "other systems have other types")
)]
fn mode(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}
