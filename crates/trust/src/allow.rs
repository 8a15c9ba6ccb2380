//! Public keys that a receiver admits: a key a line, then a comment.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::path::PathBuf;
use std::time::SystemTime;

use rdt_crypto::PublicKey;

use crate::files::{self, Forbid, refused};
use crate::{FileError, LineError, lines};

/// List of admitted public keys, read again when its file changes.
#[derive(Debug)]
pub struct AllowList {
    path: PathBuf,
    stamp: Option<Stamp>,
    keys: BTreeSet<PublicKey>,
}

/// Properties of a file that a change of its contents changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// An editor that renames a new file over the old one changes this number.
    inode: u64,
    /// Seconds and nanoseconds of the last change, which no program can set.
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (inode, changed) = {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (inode, changed) = (0, (0, 0));
        Self { modified: metadata.modified().ok(), bytes: metadata.len(), inode, changed }
    }
}

impl AllowList {
    /// Reads a list. An empty one admits no peer.
    ///
    /// # Errors
    /// [`FileError`]: the file is missing or exposed, or has a line that cannot be read.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, FileError> {
        let mut list = Self { path: path.into(), stamp: None, keys: BTreeSet::new() };
        let mut file = list.open()?;
        list.read(&mut file)?;
        Ok(list)
    }

    /// Reads the list again if the file's times, length or inode changed. True if it was read.
    /// Costs one `open` and one `fstat` if nothing changed.
    ///
    /// # Errors
    /// As [`load`](Self::load). The list is empty from then on until the file can be read: a key
    /// that was removed from it must not stay admitted because another line is wrong. After a
    /// [shortage](FileError::is_shortage) it stays as it was, which may be out of date.
    pub fn refresh(&mut self) -> Result<bool, FileError> {
        let opened = self.open();
        let result = opened.and_then(|mut file| {
            let metadata = file.metadata().map_err(refused("read", &self.path))?;
            let changed = self.stamp.as_ref() != Some(&Stamp::of(&metadata));
            if changed {
                self.read(&mut file)?;
            }
            Ok(changed)
        });
        if result.as_ref().is_err_and(|error| !error.is_shortage()) {
            self.stamp = None;
            self.keys.clear();
        }
        result
    }

    /// Returns whether the list has this key.
    pub fn admits(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    fn open(&self) -> Result<File, FileError> {
        files::open(&self.path, OpenOptions::new().read(true), Forbid::WritingOfConfiguration)
    }

    fn read(&mut self, file: &mut File) -> Result<(), FileError> {
        // Before the contents: a change in between is seen at the next refresh.
        let stamp = Stamp::of(&file.metadata().map_err(refused("read", &self.path))?);
        let text = files::read(&self.path, file)?;
        let mut keys = BTreeSet::new();
        lines::for_each_line(&self.path, &text, |_, words| {
            keys.insert(words[0].parse().map_err(LineError::Key)?);
            Ok(())
        })?;
        self.stamp = Some(stamp);
        self.keys = keys;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use rdt_crypto::StaticKey;

    use super::*;
    use crate::files::tests::{file, sentence};

    fn key(seed: u8) -> PublicKey {
        StaticKey::from_bytes([seed; 32]).public()
    }

    /// Writes the file and sets a time of modification that differs from all before.
    fn rewrite(path: &Path, text: &str, version: u64) {
        fs::write(path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + version);
        OpenOptions::new().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn listed_keys_are_admitted() {
        let text =
            format!("# friends\n\n{} anna's laptop\n  {}  # backup host\n{}\n", key(1), key(2), key(3));
        let (_folder, path) = file("allow", &text, 0o644);
        let list = AllowList::load(&path).unwrap();
        assert!([1, 2, 3].iter().all(|&seed| list.admits(&key(seed))));
        assert!(!list.admits(&key(4)));
        assert_eq!(list.keys.len(), 3);
    }

    #[test]
    fn changed_file_is_read_again() {
        let (_folder, path) = file("allow", "", 0o600);
        rewrite(&path, &format!("{}\n", key(1)), 0);
        let mut list = AllowList::load(&path).unwrap();
        assert!(!list.refresh().unwrap());
        rewrite(&path, &format!("{}\n", key(2)), 1);
        assert!(list.refresh().unwrap());
        assert!(list.admits(&key(2)) && !list.admits(&key(1)));
        assert!(!list.refresh().unwrap());
        rewrite(&path, &format!("{}\n{}\n", key(2), key(3)), 1);
        assert!(list.refresh().unwrap(), "the same time, another length");
        assert_eq!(list.keys.len(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn revoked_key_goes_although_time_is_kept() {
        use std::os::unix::fs::MetadataExt as _;

        let (_folder, path) = file("allow", "", 0o600);
        rewrite(&path, &format!("{}\n", key(1)), 0);
        let mut list = AllowList::load(&path).unwrap();
        let changed = || fs::metadata(&path).map(|found| (found.ctime(), found.ctime_nsec())).unwrap();
        let before = changed();
        // The clock of the file system has steps of some milliseconds.
        while changed() == before {
            rewrite(&path, &format!("{}\n", key(2)), 0);
        }
        assert!(list.refresh().unwrap(), "the same time, length and inode");
        assert!(list.admits(&key(2)) && !list.admits(&key(1)));
    }

    #[cfg(unix)]
    #[test]
    fn renamed_file_is_read_again() {
        use crate::files::tests::set_mode;

        let (_folder, path) = file("allow", "", 0o600);
        rewrite(&path, &format!("{}\n", key(1)), 0);
        let mut list = AllowList::load(&path).unwrap();
        let other = path.with_file_name("other");
        rewrite(&other, &format!("{}\n", key(2)), 0);
        set_mode(&other, 0o600);
        fs::rename(&other, &path).unwrap();
        assert!(list.refresh().unwrap(), "the same time and length, another file");
        assert!(list.admits(&key(2)));
    }

    #[test]
    fn unreadable_change_admits_no_peer() {
        let (_folder, path) = file("allow", "", 0o600);
        rewrite(&path, &format!("{}\n", key(1)), 0);
        let mut list = AllowList::load(&path).unwrap();
        rewrite(&path, &format!("# one\n{}\nkey\n", key(1)), 1);
        for _ in 0..2 {
            let error = sentence(list.refresh(), &path);
            assert_eq!(error, "allow, line 3: no base32: the last character is wrong or missing");
            assert!(list.keys.is_empty() && !list.admits(&key(1)));
        }
        rewrite(&path, &format!("{}\n", key(1)), 2);
        assert!(list.refresh().unwrap());
        assert!(list.admits(&key(1)));
        fs::remove_file(&path).unwrap();
        assert!(list.refresh().is_err());
        assert!(list.keys.is_empty());
        // Even the file of before, with its old time, is read again.
        rewrite(&path, &format!("{}\n", key(1)), 2);
        assert!(list.refresh().unwrap());
        assert!(list.admits(&key(1)));
    }

    #[cfg(unix)]
    #[test]
    fn list_survives_lack_of_descriptors() {
        rdt_testing::run_alone("allow::tests::refresh_without_descriptors");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "run by another test"]
    fn refresh_without_descriptors() {
        let (_folder, path) = file("allow", &format!("{}\n", key(1)), 0o600);
        let mut list = AllowList::load(&path).unwrap();
        let limit = rdt_testing::NoDescriptors::new();
        assert!(list.refresh().unwrap_err().is_shortage());
        assert!(list.admits(&key(1)));
        drop(limit);
        fs::remove_file(&path).unwrap();
        assert!(!list.refresh().unwrap_err().is_shortage());
        assert!(!list.admits(&key(1)));
    }

    #[cfg(unix)]
    #[test]
    fn list_that_others_may_write_is_refused() {
        use crate::files::tests::set_mode;

        let (_folder, path) = file("allow", "", 0o666);
        let expected = "allow: group or others may write it (mode 666): run chmod go-w allow";
        assert_eq!(sentence(AllowList::load(&path), &path), expected);
        set_mode(&path, 0o644);
        let mut list = AllowList::load(&path).unwrap();
        set_mode(&path, 0o620);
        assert!(list.refresh().is_err(), "the mode is checked even if the contents stay");
    }
}
