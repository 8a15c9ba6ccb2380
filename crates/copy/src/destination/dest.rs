//! Directory where a copy goes: found or created, and the names that the copy may use there.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, mkdirat, unlinkat};

use super::marker::{Marker, OtherMarker};
use super::plan::{Expected, TopNames};
use crate::directory::{Directory, Links, RootDirectory};
use crate::{CopyError, DestinationOptions, Summary};

/// Sources of a copy, as the request names them.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) count: u64,
    /// Name of the first one; empty if its contents are copied.
    pub(crate) first_name: Vec<u8>,
    /// All of them, if this side has chosen them.
    pub(crate) expected: Option<Vec<Expected>>,
}

/// Directory where a copy goes, and the names that it may use there.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None`: it would be created in a real run, or [`Self::create`] does so.
    pub(super) directory: Option<Arc<Directory>>,
    /// True: this copy creates the directory.
    pub(super) is_new: bool,
    /// Directory that does not exist before [`Self::create`].
    pub(super) missing: Option<Missing>,
    pub(super) top: TopNames,
    /// Marker of DEST if it is the new name of the only source.
    pub(super) marker: Option<Marker>,
    /// Marker that may be one of another directory, if DEST exists.
    pub(super) other: Option<OtherMarker>,
}

/// Directory to create. Only an accepted copy creates it.
#[derive(Debug)]
pub(super) struct Missing {
    parent: OwnedFd,
    path: PathBuf,
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

impl Place {
    /// Opens the destination of these sources.
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
            Ok(handle) => match may_rename.then(|| OtherMarker::find(root, dest, &first_name)).flatten() {
                Some(found) if found.marker.is_of(&found.parent, &handle) => {}
                found => {
                    let other = found.filter(|_| !options.dry_run);
                    return Ok(Self {
                        directory: Some(wrap(handle)?),
                        is_new: false,
                        missing: None,
                        top,
                        marker: None,
                        other,
                    });
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
            let top = TopNames { rename: Some(name.as_bytes().into()), ..top };
            let marker = (!options.dry_run).then(|| Marker::of(name.as_bytes(), &first_name));
            return Ok(Self {
                directory: Some(wrap(parent)?),
                is_new: false,
                missing: None,
                top,
                marker,
                other: None,
            });
        }
        if !is_directory {
            let text = "several sources need a directory that exists, or that ends in '/'";
            return Err(error(io::Error::other(text)));
        }
        let missing = (!options.dry_run).then(|| Missing { parent, path: dest.to_owned() });
        Ok(Self { directory: None, is_new: true, missing, top, marker: None, other: None })
    }

    /// Creates DEST if it is missing, for a copy that both sides have accepted.
    pub(crate) fn create(mut self, options: DestinationOptions) -> Result<Self, CopyError> {
        let Some(Missing { parent, path }) = &self.missing else { return Ok(self) };
        let create = || {
            let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
            mkdirat(parent, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
            if options.sync {
                rustix::fs::fsync(parent)?;
            }
            let parent = parent.try_clone()?;
            Directory::top(parent, path.clone(), Links::Keep)?.open_directory(name.as_bytes())
        };
        self.directory = Some(create().map_err(|error| refused(path, &error))?);
        Ok(self)
    }
}

/// Returns the error of a DEST that cannot be used.
pub(super) fn refused(dest: &Path, error: &io::Error) -> CopyError {
    CopyError::Request(format!("{}: {error}", dest.display()))
}
