//! Final names: which one a file may take, and the step in which it takes it.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{renameat, symlinkat};
use rustix::io::Errno;

use super::part::remove;
use crate::Existing;
use crate::directory::Directory;
use crate::name::numbered;

/// Limit on numbers tried for a free name.
pub(super) const MAX_NUMBER: u32 = 100_000;
pub(super) const DIFFERS: &str = "exists and differs: --overwrite replaces it, --keep-both keeps both";

/// Gives a file or link its final name, in one step, and returns that name.
pub(super) fn place(
    directory: &Arc<Directory>,
    temporary: &[u8],
    name: &[u8],
    existing: Existing,
) -> io::Result<Vec<u8>> {
    let handle = directory.handle()?;
    if existing == Existing::Overwrite {
        renameat(&*handle, temporary, &*handle, name)?;
        return Ok(name.into());
    }
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
) -> io::Result<Vec<u8>> {
    // Remove the temporary link left by an interrupted copy.
    remove(directory, temporary)?;
    symlinkat(target, &*directory.handle()?, temporary)?;
    place(directory, temporary, name, existing).inspect_err(|_| {
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
