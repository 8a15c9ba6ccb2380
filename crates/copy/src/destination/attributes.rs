//! Mode and times of an entry.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens, utimensat};

use crate::protocol::Entry;

/// Mode and time of the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attributes {
    mode: u32,
    mtime: i64,
    mtime_nanos: u32,
}

impl Attributes {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { mode: entry.mode, mtime: entry.mtime, mtime_nanos: entry.mtime_nanos.min(999_999_999) }
    }

    /// Sets mode and time of an open file or directory.
    pub(crate) fn set(&self, handle: impl AsFd, special_modes: bool) -> io::Result<()> {
        let handle = handle.as_fd();
        let mask = if special_modes { 0o7777 } else { 0o777 };
        fchmod(handle, Mode::from_raw_mode((self.mode & mask) as rustix::fs::RawMode))?;
        Ok(futimens(handle, &self.times())?)
    }

    /// Sets the time of a symbolic link.
    pub(crate) fn set_link_time(&self, directory: impl AsFd, name: &[u8]) -> io::Result<()> {
        Ok(utimensat(directory, name, &self.times(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns true if an existing file has this time.
    #[expect(clippy::unnecessary_cast, reason = "other systems have other types")]
    pub(crate) fn has_time(&self, stat: &Stat) -> bool {
        (stat.st_mtime as i64, stat.st_mtime_nsec as u64) == (self.mtime, u64::from(self.mtime_nanos))
    }

    fn times(&self) -> Timestamps {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
        let last_modification = Timespec { tv_sec: self.mtime, tv_nsec: self.mtime_nanos.into() };
        Timestamps { last_access, last_modification }
    }
}
