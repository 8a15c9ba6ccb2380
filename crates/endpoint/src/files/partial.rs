//! File in progress: written under a hidden name, renamed when it is complete, and removed if it is
//! dropped before. It is locked meanwhile, so that the next receiver in the directory recognises
//! those of a killed one.

#[cfg(unix)]
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::names::numbered;

const PREFIX: &str = ".rdt-partial-";
/// Attempts to get a hidden name that no [`sweep`] has taken for abandoned before it was locked.
const MAX_NAMES: u32 = 8;
/// Limit on the number in the name of a file.
const MAX_NAME_SUFFIX: u32 = 100_000;
/// Limit on attempts to get a free name for which other receivers compete.
const MAX_RENAMES: u32 = 100;

/// File that is being received.
#[derive(Debug)]
pub struct PartialFile(NamedTempFile);

impl PartialFile {
    /// Creates a file with a hidden name in this directory.
    pub fn create(directory: &Path) -> io::Result<Self> {
        // Opened here, because `tempfile` hides the error code. The umask gives the permissions.
        let open = |path: &Path| {
            let file = File::options().read(true).write(true).create_new(true).open(path)?;
            if lock(&file) { Ok(file) } else { Err(io::ErrorKind::AlreadyExists.into()) }
        };
        let create = || {
            let name = marked_name(getrandom::u64().map_err(io::Error::other)?);
            tempfile::Builder::new().prefix(&name).rand_bytes(0).make_in(directory, open)
        };
        let mut result = create();
        for _ in 1..MAX_NAMES {
            match &result {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => result = create(),
                _ => break,
            }
        }
        Ok(Self(result?))
    }

    /// Returns the file, for writing.
    pub fn file(&self) -> &File {
        self.0.as_file()
    }

    /// Renames the file to `path`, and replaces a file that is there.
    ///
    /// # Errors
    /// The answer of the operating system. The file is removed.
    pub fn replace(self, path: &Path) -> io::Result<()> {
        self.0.persist(path)?;
        Ok(())
    }

    /// Renames the file to `name`, with a number in it if there is a file of that name. Returns its
    /// path.
    ///
    /// # Errors
    /// The answer of the operating system, or no number is free. The file is removed.
    pub fn keep(self, directory: &Path, name: &str) -> io::Result<PathBuf> {
        let path = |number| directory.join(numbered(name, number));
        let mut file = self.0;
        // Another receiver may take the name meanwhile.
        for _ in 0..MAX_RENAMES {
            let Some(number) = free_number(|number| fs::symlink_metadata(path(number)).is_ok()) else {
                break;
            };
            match file.persist_noclobber(path(number)) {
                Ok(_) => return Ok(path(number)),
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => file = e.file,
                Err(e) => return Err(e.error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name in the directory"))
    }
}

/// Returns the hidden name with this number and the check that marks it as one of this program.
fn marked_name(number: u64) -> String {
    let check = rdt_crypto::crc32(&number.to_le_bytes());
    format!("{PREFIX}{number:016x}{check:08x}")
}

/// Returns true for a hidden name that this program has made. Another one that begins so belongs to
/// the user.
#[cfg(unix)]
fn is_marked(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.get(..16));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.is_some_and(|number| name == marked_name(number).as_str())
}

/// Locks a new temporary file until it is closed. False if a [`sweep`] has removed it before.
#[cfg(unix)]
fn lock(file: &File) -> bool {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;
    use std::os::unix::fs::MetadataExt as _;

    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => false,
        // If the file system has no locks, no receiver can lock the file, so none removes it.
        Ok(()) | Err(_) => file.metadata().is_ok_and(|metadata| metadata.nlink() > 0),
    }
}

#[cfg(not(unix))]
fn lock(_: &File) -> bool {
    true
}

/// Removes the temporary files of killed receivers: those of this user that are not locked.
#[cfg(unix)]
pub fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if is_marked(&entry.file_name()) {
            // Another receiver may have removed it, and a file that stays does no harm.
            let _ = remove_abandoned(&entry.path());
        }
    }
}

#[cfg(not(unix))]
pub fn sweep(_: &Path) {}

#[cfg(unix)]
fn remove_abandoned(path: &Path) -> io::Result<()> {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock};
    use std::os::unix::fs::MetadataExt as _;

    // For writing, because NFS gives exclusive locks to writers only.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw() {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // While the lock is held: a receiver that has just created the file finds it removed.
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Returns a number up to [`MAX_NAME_SUFFIX`] that is free and whose predecessor is not. It is the
/// lowest one, unless files were removed. Asks for about `2 log2` of that many names.
fn free_number(is_taken: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut taken, mut free) = (0, 1);
    while is_taken(free) {
        if free == MAX_NAME_SUFFIX {
            // A sender may choose names with just the numbers that were asked for.
            return (1..free).find(|number| !is_taken(*number));
        }
        (taken, free) = (free, (free * 2).min(MAX_NAME_SUFFIX));
    }
    while free - taken > 1 {
        let middle = taken.midpoint(free);
        if is_taken(middle) {
            taken = middle;
        } else {
            free = middle;
        }
    }
    Some(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_number_is_found_in_few_tries() {
        for files in [0, 1, 2, 3, 7, 8, 100, 65_535] {
            let tries = std::cell::Cell::new(0);
            let found = free_number(|number| {
                tries.set(tries.get() + 1);
                number <= files
            });
            assert_eq!(found, Some(files + 1));
            assert!(tries.get() <= 34, "{} tries for {files} files", tries.get());
        }
        assert_eq!(free_number(|_| true), None);
        let is_limited = |number| number < MAX_NAME_SUFFIX;
        assert_eq!(free_number(is_limited), Some(MAX_NAME_SUFFIX), "the limit is kept");
        assert_eq!(free_number(|number| [1, 2, 4].contains(&number)), Some(5), "after a removed file");
    }

    #[test]
    fn powers_of_two_block_no_name() {
        let is_power = |number: u32| number.is_power_of_two() || number == MAX_NAME_SUFFIX;
        assert_eq!(free_number(is_power), Some(3));
        let gap = MAX_NAME_SUFFIX - 1;
        assert_eq!(free_number(|number| number != gap), Some(gap));
        assert_eq!(free_number(u32::is_power_of_two), Some(65_537));
    }

    #[cfg(unix)]
    #[test]
    fn sweep_removes_only_unlocked_own_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let [abandoned, link, folder] = [1, 2, 3].map(marked_name);
        fs::write(path(&abandoned), b"part").unwrap();
        // Names of the user, however close they are.
        let marked = marked_name(4);
        let of_user = ["mine.txt", "", "a1b2c3", "0123456789abcdef", "0123456789abcdef01234567"];
        let mut of_user = of_user.map(|name| format!("{PREFIX}{name}")).to_vec();
        of_user.extend([format!("{marked}.txt"), format!("{marked}0"), "other".into()]);
        for name in &of_user {
            fs::write(path(name), b"whole").unwrap();
        }
        std::os::unix::fs::symlink(path("other"), path(&link)).unwrap();
        fs::create_dir(path(&folder)).unwrap();
        let open = PartialFile::create(directory.path()).unwrap();
        sweep(directory.path());
        let open = open.0.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected = [vec![link, folder, open], of_user].concat();
        expected.sort();
        assert_eq!(names(directory.path()), expected);
    }

    #[cfg(unix)]
    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
