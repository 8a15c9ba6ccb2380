//! Final names: which one a file may take, and the step in which it takes it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Stat, readlinkat, renameat, symlinkat};
use rustix::io::Errno;

use super::part::remove;
use crate::Existing;
use crate::directory::{Directory, file_id, special_kind};
use crate::name::{Temporary, numbered};

/// Limit on numbers tried for a free name.
pub(super) const MAX_NUMBER: u32 = 100_000;
pub(super) const DIFFERS: &str = "exists and differs: --overwrite replaces it, --keep-both keeps both";

const PLACED_BEFORE: &str = "another entry of this copy has its name here: rename or exclude one";
const FORGOTTEN: &str = "exists, and this copy has placed more files than it can remember: copy again";
/// Limit on ranges of inodes, about 10 MB of memory.
const MAX_RANGES: usize = 1 << 18;

/// Files that this copy has placed, recorded if it may replace existing files. Without the record
/// it would replace its own: two sources may have equal names, and a file system may take two names
/// for one.
#[derive(Debug, Default)]
pub(crate) struct Placed(Mutex<Inodes>);

/// Set of devices and inodes. File systems number new files mostly in sequence, so ranges take less
/// memory than single numbers.
#[derive(Debug, Default)]
struct Inodes {
    /// Last inode of each range, by device and first inode.
    ranges: BTreeMap<(u64, u64), u64>,
    /// True after an inode was left out for want of room.
    is_incomplete: bool,
}

impl Inodes {
    fn contains(&self, (device, inode): (u64, u64)) -> bool {
        let below = self.ranges.range(..=(device, inode)).next_back();
        below.is_some_and(|((of, _), last)| *of == device && inode <= *last)
    }

    fn insert(&mut self, (device, inode): (u64, u64)) {
        if self.contains((device, inode)) {
            return;
        }
        let next = inode.checked_add(1).and_then(|next| self.ranges.remove(&(device, next)));
        let last = next.unwrap_or(inode);
        let is_full = self.ranges.len() >= MAX_RANGES;
        match self.ranges.range_mut(..(device, inode)).next_back() {
            Some(((of, _), end)) if *of == device && end.checked_add(1) == Some(inode) => *end = last,
            _ if is_full => self.is_incomplete = true,
            _ => {
                self.ranges.insert((device, inode), last);
            }
        }
    }
}

impl Placed {
    /// Replaces what has the name, unless this copy has placed it.
    fn replace(&self, directory: &Arc<Directory>, temporary: &[u8], name: &[u8]) -> io::Result<()> {
        let handle = directory.handle()?;
        let own = file_id(&directory.stat_name(temporary)?);
        // Held until the name is taken: another thread may be about to take it.
        let mut placed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = directory.stat_name(name).ok().and_then(|found| match file_id(&found) {
            _ if special_kind(&found).is_some() => not_replaced(&found),
            found if placed.contains(found) => Some(PLACED_BEFORE.into()),
            _ if placed.is_incomplete => Some(FORGOTTEN.into()),
            _ => None,
        });
        if let Some(text) = refused {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        renameat(&*handle, temporary, &*handle, name)?;
        placed.insert(own);
        Ok(())
    }
}

/// End of an attempt to take a final name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The file or link has this name.
    New(Vec<u8>),
    /// Another copy has placed the same file or link under this name first.
    Same(Vec<u8>),
}

/// Final name that a file or link shall have.
#[derive(Debug)]
pub(super) struct FinalName<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) name: &'a [u8],
    pub(super) existing: Existing,
    pub(super) placed: &'a Placed,
}

impl FinalName<'_> {
    /// Renames a complete file, in one step. `is_same` compares it with what has a name.
    pub(super) fn take_by_file(
        &self,
        temporary: &[u8],
        is_same: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Placement> {
        if self.existing == Existing::Overwrite {
            self.placed.replace(self.directory, temporary, self.name)?;
            return Ok(Placement::New(self.name.into()));
        }
        let handle = self.directory.handle()?;
        self.take(|name| rename_if_free(&*handle, temporary, name), is_same)
    }

    /// Creates a symbolic link, in one step.
    pub(super) fn take_by_link(&self, target: &[u8]) -> io::Result<Placement> {
        let Self { directory, name, existing, placed } = *self;
        let handle = directory.handle()?;
        if existing != Existing::Overwrite {
            let is_same = |name: &[u8]| matches!(is_link(directory, name, target), Ok(Some(true)));
            return self.take(|name| symlinkat(target, &*handle, name), is_same);
        }
        let names = Temporary::of(name);
        let temporary = loop {
            let temporary = names.own_link();
            match symlinkat(target, &*handle, &temporary) {
                // Of a process of another host, or of an earlier one.
                Err(Errno::EXIST) => {}
                result => break result.map(|()| temporary)?,
            }
        };
        let replaced = placed.replace(directory, &temporary, name);
        replaced.map(|()| Placement::New(name.into())).inspect_err(|_| {
            // One that stays is of no use, and does no harm.
            let _ = remove(directory, &temporary);
        })
    }

    /// Calls `take` with the name, and with numbered ones if both are to be kept.
    fn take(
        &self,
        take: impl Fn(&[u8]) -> Result<(), Errno>,
        is_same: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Placement> {
        let mut candidate = self.name.to_vec();
        for number in 2..MAX_NUMBER {
            match take(&candidate) {
                Ok(()) => return Ok(Placement::New(candidate)),
                Err(Errno::EXIST) if is_same(&candidate) => return Ok(Placement::Same(candidate)),
                Err(Errno::EXIST) if self.existing == Existing::KeepBoth => {
                    candidate = numbered(self.name, number);
                }
                Err(Errno::EXIST) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, DIFFERS))
    }
}

/// Returns why a name is not replaced with any option, if it is not.
pub(super) fn not_replaced(found: &Stat) -> Option<String> {
    let kind = match special_kind(found) {
        None if FileType::from_raw_mode(found.st_mode) == FileType::Directory => "a directory",
        kind => kind?,
    };
    Some(format!("exists and is {kind}, which is not replaced"))
}

/// Returns true if a name is a link to `to`, false if it is something else, `None` if it is free.
pub(super) fn is_link(directory: &Arc<Directory>, name: &[u8], to: &[u8]) -> io::Result<Option<bool>> {
    match readlinkat(&*directory.handle()?, name, Vec::new()) {
        Ok(found) => Ok(Some(found.as_bytes() == to)),
        Err(Errno::NOENT) => Ok(None),
        // Something that is no link.
        Err(Errno::INVAL) => Ok(Some(false)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_if_free(directory: impl AsFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    use rustix::fs::{RenameFlags, renameat_with};

    match renameat_with(&directory, from, &directory, to, RenameFlags::NOREPLACE) {
        // A file system or kernel without the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_and_unlink(directory, from, to),
        result => result,
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_if_free(directory: impl AsFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    link_and_unlink(directory, from, to)
}

fn link_and_unlink(directory: impl AsFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    use rustix::fs::{AtFlags, linkat, unlinkat};

    linkat(&directory, from, &directory, to, AtFlags::empty())?;
    unlinkat(&directory, from, AtFlags::empty())
}

/// Returns the numbered name under which an earlier copy that kept both has stored an entry.
/// `is_same` returns `None` for a free name, with which the search ends.
pub(super) fn kept_before(name: &[u8], mut is_same: impl FnMut(&[u8]) -> Option<bool>) -> Option<Vec<u8>> {
    for number in 2..MAX_NUMBER {
        let name = numbered(name, number);
        if is_same(&name)? {
            return Some(name);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Links;

    #[test]
    fn inodes_in_any_order_become_ranges() {
        let mut inodes = Inodes::default();
        // As four threads place files, with a gap of one.
        for turn in 0..250_000 {
            for thread in [2, 0, 3, 1] {
                let inode = 4 * turn + thread;
                if inode != 500_000 {
                    inodes.insert((7, inode));
                }
            }
        }
        assert_eq!(inodes.ranges, [((7, 0), 499_999), ((7, 500_001), 999_999)].into());
        for (file, expected) in [((7, 0), true), ((7, 500_000), false), ((6, 5), false), ((8, 5), false)] {
            assert_eq!(inodes.contains(file), expected, "{file:?}");
        }
        inodes.insert((7, 500_000));
        inodes.insert((7, u64::MAX));
        inodes.insert((8, 0));
        assert_eq!((inodes.ranges.len(), inodes.is_incomplete), (3, false));
    }

    fn folder() -> (tempfile::TempDir, Arc<Directory>) {
        let folder = tempfile::tempdir().unwrap();
        let handle = std::fs::File::open(folder.path()).unwrap().into();
        let directory = Directory::top(handle, "".into(), Links::Keep).unwrap();
        (folder, directory)
    }

    #[test]
    fn copy_that_forgets_inodes_replaces_nothing() {
        let (folder, directory) = folder();
        let placed = Placed::default();
        {
            let mut inodes = placed.0.lock().unwrap();
            for number in 0..=MAX_RANGES as u64 {
                inodes.insert((u64::MAX, 2 * number));
            }
            assert_eq!((inodes.ranges.len(), inodes.is_incomplete), (MAX_RANGES, true));
        }
        for name in ["old", "part"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let error = placed.replace(&directory, b"part", b"old").unwrap_err();
        assert!(error.to_string().contains("copy again"), "{error}");
        placed.replace(&directory, b"part", b"new").unwrap();
        assert_eq!(std::fs::read(folder.path().join("old")).unwrap(), b"old");
    }

    #[test]
    fn links_of_two_copies_keep_own_targets() {
        for existing in [Existing::Refuse, Existing::KeepBoth, Existing::Overwrite] {
            let (folder, directory) = folder();
            // Two copies at once: each has its own account of what it has placed.
            let copy = |target: &'static [u8]| {
                let (directory, placed) = (Arc::clone(&directory), Placed::default());
                std::thread::spawn(move || {
                    let name = FinalName { directory: &directory, name: b"l", existing, placed: &placed };
                    (0..300).map(|_| name.take_by_link(target)).collect::<Vec<_>>()
                })
            };
            let copies = [copy(b"x"), copy(b"y"), copy(b"x")];
            for (target, copy) in ["x", "y", "x"].iter().zip(copies) {
                for result in copy.join().unwrap() {
                    match result {
                        Ok(Placement::New(_)) if existing == Existing::Overwrite => {}
                        Ok(Placement::New(name) | Placement::Same(name)) => {
                            let link = folder.path().join(String::from_utf8(name).unwrap());
                            assert_eq!(std::fs::read_link(link).unwrap().as_os_str(), *target);
                        }
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}"),
                    }
                }
            }
            let names = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(names, if existing == Existing::KeepBoth { 2 } else { 1 }, "{existing:?}");
        }
    }
}
