//! Final names: which one a file may take, and the step in which it takes it.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{renameat, symlinkat};
use rustix::io::Errno;

use super::part::remove;
use crate::Existing;
use crate::directory::{Directory, device, inode};
use crate::name::numbered;

/// Limit on numbers tried for a free name.
pub(super) const MAX_NUMBER: u32 = 100_000;
pub(super) const DIFFERS: &str = "exists and differs: --overwrite replaces it, --keep-both keeps both";

const PLACED_BEFORE: &str = "another entry of this copy has its name here: rename or exclude one";

/// Devices and inodes of what this copy has placed, if it may replace what exists: two sources may
/// have equal names, and a file system may take two names for one.
#[derive(Debug, Default)]
pub(crate) struct Placed(Mutex<HashSet<(u64, u64)>>);

impl Placed {
    /// Replaces what has the name, unless this copy has placed it.
    fn replace(&self, directory: &Arc<Directory>, temporary: &[u8], name: &[u8]) -> io::Result<()> {
        let handle = directory.handle()?;
        let identity = |name| directory.stat_name(name).map(|stat| (device(&stat), inode(&stat)));
        let own = identity(temporary)?;
        // Held until the name is taken: another thread may be about to take it.
        let mut placed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if identity(name).is_ok_and(|found| placed.contains(&found)) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, PLACED_BEFORE));
        }
        renameat(&*handle, temporary, &*handle, name)?;
        placed.insert(own);
        Ok(())
    }
}

/// Gives a file or link its final name, in one step, and returns that name.
pub(super) fn place(
    directory: &Arc<Directory>,
    temporary: &[u8],
    name: &[u8],
    existing: Existing,
    placed: &Placed,
) -> io::Result<Vec<u8>> {
    if existing == Existing::Overwrite {
        placed.replace(directory, temporary, name)?;
        return Ok(name.into());
    }
    let handle = directory.handle()?;
    let mut candidate = name.to_vec();
    for number in 2..MAX_NUMBER {
        match rename_if_free(&*handle, temporary, &candidate) {
            Ok(()) => return Ok(candidate),
            Err(Errno::EXIST) if existing == Existing::KeepBoth => candidate = numbered(name, number),
            Err(Errno::EXIST) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, DIFFERS))
}

/// Creates a symbolic link, or replaces what has its name.
pub(super) fn place_link(
    directory: &Arc<Directory>,
    temporary: &[u8],
    target: &[u8],
    name: &[u8],
    existing: Existing,
    placed: &Placed,
) -> io::Result<Vec<u8>> {
    // Remove the temporary link left by an interrupted copy.
    remove(directory, temporary)?;
    symlinkat(target, &*directory.handle()?, temporary)?;
    place(directory, temporary, name, existing, placed).inspect_err(|_| {
        // The next copy of this name removes it.
        let _ = remove(directory, temporary);
    })
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
