//! Marker of a new directory: a file beside DEST that exists while DEST is the new name of the only
//! source and the copy is not complete. It makes the same command continue the copy instead of
//! copying into DEST.
//!
//! It names the directory (inode, time of creation) and the source (BLAKE3 of its name), so that a
//! marker which an earlier copy left is not taken for one of this copy. The device is not named: a
//! disk may have another number after a boot.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{OFlags, fstat};

use super::part::{is_private, remove};
use crate::directory::{Directory, Links, RootDirectory, with_descriptor};
use crate::name::Temporary;
use crate::protocol::HashBytes;

const MAGIC: [u8; 8] = *b"rdtcopyN";
/// Bytes of magic, inode, time of creation and hash.
const MARKER_BYTES: usize = 56;

#[derive(Debug, Clone)]
pub(crate) struct Marker {
    /// Directory that contains DEST.
    parent: Arc<Directory>,
    /// File name of the marker in it.
    name: Vec<u8>,
    /// BLAKE3 of the source's name.
    source: HashBytes,
}

/// Identity of the directory that a marker is for. All fields are 0 until the directory exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Identity {
    inode: u64,
    /// Creation time. It tells the directory from a later one with the same inode number. 0 where
    /// the file system records no such time.
    created_nanos: u64,
}

impl Identity {
    fn of(directory: impl AsFd) -> io::Result<Self> {
        let file = with_descriptor(|| directory.as_fd().try_clone_to_owned()).map(File::from)?;
        let metadata = file.metadata()?;
        let created = metadata.created().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let created_nanos = created.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
        Ok(Self { inode: metadata.ino(), created_nanos })
    }
}

impl Marker {
    /// Returns the marker of a copy that gives a source the new name `dest`.
    pub(super) fn of(parent: Arc<Directory>, dest: &[u8], source: &[u8]) -> Self {
        Self { parent, name: Temporary::of(dest).new, source: blake3::hash(source).into() }
    }

    /// Opens the directory of the marker that DEST has as the new name of `source`.
    pub(super) fn find(root: &RootDirectory, dest: &Path, source: &[u8]) -> Option<Self> {
        let parent = root.open_directory(dest.parent()?).ok()?;
        let parent = Directory::top(parent, dest.into(), Links::Keep).ok()?;
        Some(Self::of(parent, dest.file_name()?.as_bytes(), source))
    }

    /// Returns true if an interrupted copy of this source by this user has created this directory.
    pub(super) fn is_of(&self, directory: &OwnedFd) -> bool {
        let Ok((_, found)) = self.read() else { return false };
        let Ok(identity) = Identity::of(directory) else { return false };
        if found == self.bytes(identity) {
            return true;
        }
        // The copy was interrupted after it created the directory and before it bound the marker.
        found == self.bytes(Identity::default()) && is_empty(directory)
    }

    /// Removes the marker if it is one of another directory than this one.
    pub(super) fn remove_if_other(&self, directory: &Arc<Directory>) {
        let Ok((file, found)) = self.read() else { return };
        let Ok(identity) = directory.handle().and_then(Identity::of) else { return };
        let is_other = found.starts_with(&MAGIC)
            && !found.starts_with(&named(identity))
            && !found.starts_with(&named(Identity::default()));
        if is_other && file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            // A marker that cannot be removed does no harm.
            self.remove();
        }
    }

    /// Writes the marker before the directory is created. Errors are ignored: where no file can be
    /// created, the directory cannot either, and that error is reported.
    pub(super) fn announce(&self) {
        let _ = self.write(Identity::default());
    }

    /// Adds the identity of the created directory to the marker. If that fails, a later copy copies
    /// into the directory instead of continuing this one.
    pub(super) fn bind(&self, directory: &Arc<Directory>) {
        let _ = directory.handle().and_then(Identity::of).and_then(|identity| self.write(identity));
    }

    /// Removes the marker of a complete copy. If that fails, the next copy of this name removes it.
    pub(crate) fn remove(&self) {
        let _ = remove(&self.parent, &self.name);
    }

    fn write(&self, identity: Identity) -> io::Result<()> {
        let open = |flag: OFlags| {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NONBLOCK | flag;
            self.parent.open(&self.name, flags).map(File::from)
        };
        let file = match open(OFlags::empty()) {
            Ok(file) if is_private(&fstat(&file)?) => file,
            // A link, or a file that has another name too: another user may have put it there.
            _ => {
                remove(&self.parent, &self.name)?;
                open(OFlags::EXCL)?
            }
        };
        file.set_len(MARKER_BYTES as u64)?;
        file.write_all_at(&self.bytes(identity), 0)?;
        file.sync_data()
    }

    /// Reads the marker, if it is a file of this user.
    fn read(&self) -> io::Result<(File, Vec<u8>)> {
        let file = self.parent.open_file(&self.name)?;
        if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut found = Vec::new();
        (&file).take(MARKER_BYTES as u64 + 1).read_to_end(&mut found)?;
        Ok((file, found))
    }

    fn bytes(&self, identity: Identity) -> Vec<u8> {
        let bytes = [&named(identity)[..], &self.source].concat();
        debug_assert_eq!(bytes.len(), MARKER_BYTES);
        bytes
    }
}

/// Returns the part of a marker that names its directory.
fn named(Identity { inode, created_nanos }: Identity) -> Vec<u8> {
    [MAGIC, inode.to_le_bytes(), created_nanos.to_le_bytes()].concat()
}

fn is_empty(directory: &OwnedFd) -> bool {
    let Ok(list) = rustix::fs::Dir::read_from(directory) else { return false };
    let mut names = list.map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec()));
    names.all(|name| name.is_ok_and(|name| matches!(&*name, b"." | b"..")))
}
