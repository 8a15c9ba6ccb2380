//! Directory where a copy goes: found or created, and the names that the copy may use there.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rdt_program::files::is_descriptor;
use rustix::fs::{AtFlags, Mode, fstat, mkdirat, unlinkat};
use rustix::io::Errno;

use super::attributes::is_unfinished;
use super::marker::Marker;
use super::plan::{Expected, TopNames, enter};
use crate::directory::{Directory, Links, RootDirectory, file_id, identity, special_kind, with_descriptor};
use crate::protocol::HashBytes;
use crate::{CopyError, DestinationOptions, Summary};

/// Sources of a copy, as the request names them.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) count: u64,
    /// Name of the first one; empty if its contents are copied.
    pub(crate) first_name: Vec<u8>,
    /// All sources, if this side has chosen them.
    pub(crate) expected: Option<Vec<Expected>>,
}

/// Opened destination directory, and the names that the copy may use in it.
#[derive(Debug)]
pub(crate) struct OpenDestination {
    /// `None` in a dry run, and before [`Self::create`].
    pub(super) directory: Option<Arc<Directory>>,
    /// True: the directory has no mode of its own yet. This copy creates it, or an interrupted one
    /// has done so.
    pub(super) is_new: bool,
    /// Directory that does not exist before [`Self::create`].
    pub(super) missing: Option<Missing>,
    pub(super) top: TopNames,
    /// Marker of DEST if it is the new name of the only source.
    pub(super) marker: Option<Marker>,
    /// Stale marker beside an existing DEST; removed if it names another directory.
    pub(super) other: Option<Marker>,
}

/// Directory to create. Only an accepted copy creates it.
#[derive(Debug)]
pub(super) struct Missing {
    parent: OwnedFd,
    path: PathBuf,
    /// True: it gets the mode of a source when that is complete.
    takes_contents: bool,
}

impl Missing {
    /// Removes the directory that was created for sources that the peer does not have.
    pub(super) fn remove_if_unused(&self, summary: &Summary) {
        if let Some(name) = self.path.file_name().filter(|_| summary.directories == 0 && summary.failures > 0)
        {
            // Fails if something is in it.
            let _ = unlinkat(&self.parent, name, AtFlags::REMOVEDIR);
        }
    }
}

impl OpenDestination {
    pub(crate) fn open(
        root: &RootDirectory,
        dest: &Path,
        sources: Sources,
        options: DestinationOptions,
    ) -> Result<Self, CopyError> {
        let Sources { count, first_name, expected } = sources;
        let top = TopNames { expected, rename: None, left: count };
        let error = |error: io::Error| refused(dest, &error);
        let is_directory = dest.as_os_str().as_bytes().ends_with(b"/");
        let wrap = |handle| Directory::top(handle, dest.into(), Links::Keep).map_err(error);
        let may_rename = !is_directory && count == 1;
        match root.open_directory(dest) {
            Ok(handle) => match may_rename.then(|| Marker::find(root, dest, &first_name)).flatten() {
                Some(found) if found.is_of(&handle) => {}
                found => {
                    let other = found.filter(|_| !options.dry_run);
                    // DIR of a server keeps its mode.
                    let is_new =
                        dest.file_name().is_some() && fstat(&handle).is_ok_and(|stat| is_unfinished(&stat));
                    return Ok(Self { is_new, other, ..Self::of(wrap(handle)?, top) });
                }
            },
            Err(found) if found.kind() == io::ErrorKind::NotFound => {}
            Err(found) if found.kind() == io::ErrorKind::NotADirectory && may_rename => {}
            Err(found) => return Err(error(found)),
        }
        let (Some(parent), Some(name)) = (dest.parent(), dest.file_name()) else {
            return Err(error(io::ErrorKind::NotFound.into()));
        };
        let parent = root.open_directory(parent).map_err(error)?;
        if may_rename {
            refuse_special(root, &parent, dest).map_err(error)?;
            let top = TopNames { rename: Some(name.as_bytes().into()), ..top };
            let parent = wrap(parent)?;
            let marker = || Marker::of(Arc::clone(&parent), name.as_bytes(), &first_name);
            let marker = (!options.dry_run).then(marker);
            return Ok(Self { marker, ..Self::of(parent, top) });
        }
        if !is_directory {
            let text = "several sources, or a pattern, need a directory that exists, or that ends in '/'";
            return Err(error(io::Error::other(text)));
        }
        let takes_contents = first_name.is_empty();
        let missing = (!options.dry_run).then(|| Missing { parent, path: dest.to_owned(), takes_contents });
        Ok(Self { directory: None, is_new: true, missing, top, marker: None, other: None })
    }

    fn of(directory: Arc<Directory>, top: TopNames) -> Self {
        Self { directory: Some(directory), is_new: false, missing: None, top, marker: None, other: None }
    }

    /// Returns the identity of the directory where the copy goes, or of the one above it if it is
    /// missing: no source may contain it.
    pub(crate) fn identity(&self) -> Option<HashBytes> {
        match (&self.directory, &self.missing) {
            (Some(directory), _) => directory.identity(),
            (_, Some(missing)) => fstat(&missing.parent).ok().and_then(|stat| identity(file_id(&stat))),
            _ => None,
        }
    }

    /// Creates DEST if it is missing, for a copy that both sides have accepted.
    pub(crate) fn create(mut self, options: DestinationOptions) -> Result<Self, CopyError> {
        let Some(Missing { parent, path, takes_contents }) = &self.missing else { return Ok(self) };
        let create = || {
            let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
            let parent = with_descriptor(|| parent.try_clone())?;
            let parent = Directory::top(parent, path.clone(), Links::Keep)?;
            let directory = if *takes_contents {
                enter(&parent, name.as_bytes(), options)?.directory.ok_or(io::ErrorKind::NotFound)?
            } else {
                mkdirat(&*parent.handle()?, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
                parent.open_directory(name.as_bytes())?
            };
            if options.sync {
                rustix::fs::fsync(&*parent.handle()?)?;
            }
            Ok(directory)
        };
        self.directory = Some(create().map_err(|error| refused(path, &error))?);
        Ok(self)
    }
}

/// Fails for a DEST that is, or leads to, something that is neither file nor directory.
fn refuse_special(root: &RootDirectory, parent: &OwnedFd, dest: &Path) -> io::Result<()> {
    let kind = if !root.is_confined && is_descriptor(dest) {
        Some("an open descriptor")
    } else {
        let (Some(folder), Some(name)) = (dest.parent(), dest.file_name()) else { return Ok(()) };
        let parent = with_descriptor(|| parent.try_clone())?;
        let parent = Directory::top(parent, folder.into(), root.links(true))?;
        // It need not exist.
        parent.stat(name.as_bytes()).ok().and_then(|stat| special_kind(&stat))
    };
    let text = |kind| format!("is {kind}, which is not replaced: name a file or a directory");
    kind.map_or(Ok(()), |kind| Err(io::Error::other(text(kind))))
}

/// Returns the error of a DEST that cannot be used: a wrong request, or a failure of the system.
pub(super) fn refused(dest: &Path, error: &io::Error) -> CopyError {
    let text = format!("{}: {error}", dest.display());
    // Errors of this program have no number.
    let is_request = Errno::from_io_error(error).is_none_or(|errno| {
        matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::INVAL | Errno::NAMETOOLONG | Errno::LOOP)
    });
    if is_request {
        return CopyError::Request(text);
    }
    CopyError::System { step: "cannot use the destination", error: io::Error::new(error.kind(), text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_of_destination_are_told_apart() {
        let of = |error: io::Error| refused(Path::new("new/"), &error);
        for errno in [Errno::ACCESS, Errno::ROFS, Errno::NOSPC, Errno::MFILE, Errno::IO] {
            let error = of(errno.into());
            assert!(matches!(error, CopyError::System { .. }), "{error:?}");
            assert!(error.to_string().starts_with("cannot use the destination: new/: "), "{error}");
        }
        for error in [Errno::NOENT.into(), Errno::LOOP.into(), io::Error::other("no directory")] {
            assert!(matches!(of(error), CopyError::Request(_)));
        }
    }
}
