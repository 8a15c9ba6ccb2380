//! Modes and times of entries. A file system may hold a time only in part: whole seconds, steps of
//! two, or some range of years. A time is compared as the destination's file system holds it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Mode, OFlags, RawMode, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, fstat, futimens,
    utimensat,
};

use super::part::{is_private, remove};
use crate::directory::{Directory, mode_of, mtime};
use crate::name::Temporary;
use crate::protocol::Entry;

/// Mode and time of the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    mode: u32,
    mtime: i64,
    mtime_nanos: u32,
}

impl Attributes {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { mode: entry.mode, mtime: entry.mtime, mtime_nanos: entry.mtime_nanos.min(999_999_999) }
    }

    /// Sets mode and time of an open file.
    pub(crate) fn set(&self, handle: impl AsFd, special_modes: bool) -> io::Result<()> {
        let handle = handle.as_fd();
        fchmod(handle, self.mode(special_modes))?;
        Ok(futimens(handle, &self.times())?)
    }

    /// Sets the mode of a directory. A setgid bit that it inherited stays.
    pub(crate) fn set_directory_mode(
        &self,
        handle: impl AsFd,
        mode: NewMode,
        special_modes: bool,
    ) -> io::Result<()> {
        let handle = handle.as_fd();
        match mode {
            NewMode::Source => {
                let inherited = mode_of(&fstat(handle)?) & Mode::SGID;
                fchmod(handle, self.mode(special_modes) | inherited)?;
            }
            NewMode::Restore(mode) => fchmod(handle, mode)?,
            NewMode::Keep => {}
        }
        Ok(())
    }

    pub(crate) fn set_times(&self, handle: impl AsFd) -> io::Result<()> {
        Ok(futimens(handle, &self.times())?)
    }

    /// Sets the mode of a file that exists, if it has another one.
    pub(crate) fn set_mode(
        &self,
        directory: &Arc<Directory>,
        name: &[u8],
        special_modes: bool,
    ) -> io::Result<()> {
        let mode = self.mode(special_modes);
        let mask = if special_modes { Mode::all() } else { Mode::RWXU | Mode::RWXG | Mode::RWXO };
        if mode_of(&directory.stat_name(name)?) & mask == mode {
            return Ok(());
        }
        Ok(fchmod(directory.open_file(name)?, mode)?)
    }

    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_truncation,
        reason = "systems have different types"
    )]
    fn mode(&self, special_modes: bool) -> Mode {
        let mask = if special_modes { 0o7777 } else { 0o777 };
        Mode::from_raw_mode((self.mode & mask) as RawMode)
    }

    pub(crate) fn set_link_time(&self, directory: impl AsFd, name: &[u8]) -> io::Result<()> {
        Ok(utimensat(directory, name, &self.times(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn times(&self) -> Timestamps {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
        let last_modification = Timespec { tv_sec: self.mtime, tv_nsec: self.mtime_nanos.into() };
        Timestamps { last_access, last_modification }
    }
}

/// Mode that a directory gets when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewMode {
    Source,
    /// Mode that the directory had before [`fillable`] added bits to it.
    Restore(Mode),
    Keep,
}

/// Adds u+rwx to an existing directory, so that this user can fill it. Returns the mode to set when
/// it is complete. A file beside it has that mode, for the next copy if this one is killed.
pub(super) fn fillable(parent: &Arc<Directory>, name: &[u8], directory: impl AsFd, stat: &Stat) -> NewMode {
    let (found, kept_in) = (mode_of(stat), Temporary::of(name).mode);
    let kept = read_mode(parent, &kept_in);
    // Only the mode that a killed copy left; one that the user has set since then stays.
    if let Some(mode) = kept.filter(|mode| *mode != found && *mode | Mode::RWXU == found) {
        return NewMode::Restore(mode);
    }
    if kept.is_some() {
        // If the removal fails, the file has no effect: the directory's mode does not match it.
        let _ = remove(parent, &kept_in);
    }
    if found.contains(Mode::RWXU) {
        return NewMode::Keep;
    }
    // May fail if the parent directory forbids it. Then a killed copy leaves the added bits.
    let _ = write_mode(parent, &kept_in, found);
    // Fails for a directory of another owner. If its mode does not suffice, creating the first file
    // in it fails with the reason.
    if fchmod(directory, found | Mode::RWXU).is_err() {
        let _ = remove(parent, &kept_in);
        return NewMode::Keep;
    }
    NewMode::Restore(found)
}

fn write_mode(parent: &Arc<Directory>, name: &[u8], mode: Mode) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = File::from(parent.open(name, flags)?);
    file.write_all(format!("{:o}", mode.as_raw_mode()).as_bytes())
}

/// Reads a mode from a file that this user wrote by [`write_mode`].
fn read_mode(parent: &Arc<Directory>, name: &[u8]) -> Option<Mode> {
    let file = parent.open_file(name).ok()?;
    let mut digits = String::new();
    is_private(&fstat(&file).ok()?).then(|| file.take(8).read_to_string(&mut digits))?.ok()?;
    RawMode::from_str_radix(&digits, 8).ok().map(Mode::from_raw_mode)
}

/// Mode of a directory that this program has created and not completed. No other program uses it,
/// so a later copy knows that the directory has no mode of its own yet.
pub(super) fn unfinished() -> Mode {
    Mode::RWXU | Mode::SVTX
}

/// Returns true for a directory that an interrupted copy has created.
pub(super) fn is_unfinished(stat: &Stat) -> bool {
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    is_own && mode_of(stat) & !Mode::SGID == unfinished()
}

/// File without a name, whose time is set and read back to find what its file system makes of it.
#[derive(Debug)]
pub(super) struct TimeProbe {
    is_dry_run: bool,
    /// The file, and the device that it is on.
    file: Option<(u64, File)>,
}

impl TimeProbe {
    pub(super) fn new(is_dry_run: bool) -> Self {
        Self { is_dry_run, file: None }
    }

    /// Returns true if a file in this directory has the wanted time, as its file system holds it.
    pub(super) fn has_time(&mut self, stat: &Stat, wanted: &Attributes, directory: &Arc<Directory>) -> bool {
        mtime(stat) == (wanted.mtime, wanted.mtime_nanos)
            // Without a probe, times must be equal.
            || self.held(wanted, directory).is_ok_and(|held| mtime(stat) == held)
    }

    fn held(&mut self, wanted: &Attributes, directory: &Arc<Directory>) -> io::Result<(i64, u32)> {
        let device = directory.id.0;
        let file = match self.file.take() {
            Some((of, file)) if of == device => file,
            _ => unnamed_file(directory, self.is_dry_run)?,
        };
        let set = futimens(&file, &wanted.times()).and_then(|()| fstat(&file));
        self.file = Some((device, file));
        Ok(mtime(&set?))
    }
}

/// Creates a file without a name. A dry run fails where the file would have a name for a moment.
fn unnamed_file(directory: &Arc<Directory>, is_dry_run: bool) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    if let Ok(file) = directory.open(b".", OFlags::TMPFILE | OFlags::WRONLY) {
        return Ok(file.into());
    }
    if is_dry_run {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let name = Temporary::own_probe();
    let file = directory.open(&name, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
    remove(directory, &name)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Links;

    /// Returns a time far behind the range of ext4 and XFS, and what this file system makes of it.
    fn far_time(directory: &Arc<Directory>) -> (Attributes, Stat) {
        let far = Attributes { mode: 0o644, mtime: 1 << 40, mtime_nanos: 7 };
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = directory.open(b"file", flags).unwrap();
        far.set(&file, false).unwrap();
        (far, fstat(&file).unwrap())
    }

    #[test]
    fn time_out_of_range_is_compared_as_held() {
        let folder = tempfile::tempdir().unwrap();
        let handle = File::open(folder.path()).unwrap().into();
        let directory = Directory::top(handle, "".into(), Links::Keep).unwrap();
        let (far, stat) = far_time(&directory);
        let mut probe = TimeProbe::new(false);
        assert!(probe.has_time(&stat, &far, &directory), "{:?}", mtime(&stat));
        let later = Attributes { mtime: 1_000_000_000, ..far };
        assert!(!probe.has_time(&stat, &later, &directory));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a probe has no name");
    }
}
