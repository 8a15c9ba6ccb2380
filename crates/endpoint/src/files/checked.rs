//! File that is sent.

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut, Read};
use std::path::PathBuf;
use std::time::SystemTime;

/// Interval between two comparisons of a file with its state at the start, bytes read. A transfer
/// of a changed file fails at the next comparison and not only at the end of the file.
const CHECK_INTERVAL_BYTES: usize = 64 << 20;

/// Regular file that must not be written to while it is read, because the bytes read would be a
/// mixture of old and new contents. If it was, reading fails instead of returning the end.
#[derive(Debug)]
pub struct CheckedFile {
    file: File,
    before: FileState,
    /// Bytes read since the last comparison.
    unchecked: usize,
}

/// Properties of a file that change with its contents.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    length: u64,
    /// `None` where the system has no such time.
    modified: Option<SystemTime>,
    changed: Changed,
}

/// Time of the last change of the inode, which no program can put back, and its names. A file that
/// is renamed, removed or replaced has another time, too, while the open file keeps its contents.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    /// Seconds since 1970 and nanoseconds; 0 where the system has no such time.
    at: (i64, i64),
    names: u64,
    /// `None` where the system does not tell.
    path: Option<PathBuf>,
}

impl FileState {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let changed = Changed::of(file, &metadata);
        Ok(Self { length: metadata.len(), modified: metadata.modified().ok(), changed })
    }

    /// Returns true if the file has the same contents as with this earlier state.
    fn is_same(&self, before: &Self) -> bool {
        let (now, then) = (&self.changed, &before.changed);
        let has_other_name = now.names != then.names || now.path != then.path;
        (self.length, self.modified) == (before.length, before.modified)
            && (now.at == then.at || has_other_name)
    }
}

impl Changed {
    #[cfg(unix)]
    fn of(file: &File, metadata: &Metadata) -> Self {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::MetadataExt as _;

        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        Self { at: (metadata.ctime(), metadata.ctime_nsec()), names: metadata.nlink(), path }
    }

    #[cfg(not(unix))]
    fn of(_: &File, _: &Metadata) -> Self {
        Self { at: (0, 0), names: 1, path: None }
    }
}

impl CheckedFile {
    /// Notes the state of an open file.
    ///
    /// # Errors
    /// If the system does not tell it.
    pub fn new(file: File) -> io::Result<Self> {
        Ok(Self { before: FileState::of(&file)?, file, unchecked: 0 })
    }

    /// Returns the length of the file, bytes.
    pub fn length(&self) -> u64 {
        self.before.length
    }

    /// Compares the file with its state at the start if it is time to. `n` is the result of the
    /// last read into room for at least a byte.
    fn check(&mut self, n: usize) -> io::Result<usize> {
        self.unchecked += n;
        if n == 0 || self.unchecked >= CHECK_INTERVAL_BYTES {
            self.unchecked = 0;
            let found = FileState::of(&self.file)?;
            if !found.is_same(&self.before) {
                return Err(io::Error::other("it changed while it was sent"));
            }
            self.before = found;
        }
        Ok(n)
    }
}

impl Read for CheckedFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(out)?;
        self.check(n)
    }

    fn read_vectored(&mut self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let n = self.file.read_vectored(out)?;
        self.check(n)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    /// Reads a file of `length` bytes and writes to it after the first MiB. Returns the number of
    /// bytes read before the error.
    fn read_before_error(length: usize) -> usize {
        let path = std::env::temp_dir().join(format!("rdt-source-{}-{length}", std::process::id()));
        fs::write(&path, vec![1; length]).unwrap();
        // A file that was just written may get the same time again.
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let mut source = CheckedFile::new(file).unwrap();
        let mut out = vec![0; 1 << 20];
        assert_eq!(source.read(&mut out).unwrap(), out.len());
        File::options().write(true).open(&path).unwrap().write_all(b"new").unwrap();
        // An open file outlives its name.
        fs::remove_file(&path).unwrap();
        let mut total = out.len();
        loop {
            match source.read(&mut out) {
                Ok(0) => panic!("end of a changed file"),
                Ok(n) => total += n,
                Err(error) => {
                    assert_eq!(error.to_string(), "it changed while it was sent");
                    return total;
                }
            }
        }
    }

    #[test]
    fn changed_file_fails_at_end_or_next_check() {
        assert_eq!(read_before_error(3 << 20), 3 << 20);
        assert_eq!(read_before_error(CHECK_INTERVAL_BYTES + (3 << 20)), CHECK_INTERVAL_BYTES - (1 << 20));
    }

    #[cfg(unix)]
    #[test]
    fn time_put_back_hides_no_change() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 8]).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified).unwrap();
        let mut source = CheckedFile::new(file.try_clone().unwrap()).unwrap();
        let before = file.metadata().unwrap();
        loop {
            // The clock of inodes has steps of some milliseconds.
            std::os::unix::fs::FileExt::write_all_at(&file, &[2], 0).unwrap();
            file.set_modified(modified).unwrap();
            if !Changed::of(&file, &before).eq(&Changed::of(&file, &file.metadata().unwrap())) {
                break;
            }
        }
        let error = source.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.to_string(), "it changed while it was sent");
    }

    #[test]
    fn removed_file_is_read_to_its_end() {
        let path = std::env::temp_dir().join(format!("rdt-source-{}", std::process::id()));
        fs::write(&path, b"old").unwrap();
        let mut source = CheckedFile::new(File::open(&path).unwrap()).unwrap();
        fs::rename(&path, path.with_extension("renamed")).unwrap();
        fs::remove_file(path.with_extension("renamed")).unwrap();
        let mut out = [0; 8];
        assert_eq!(source.read(&mut out).unwrap(), 3);
        assert_eq!(source.read(&mut out).unwrap(), 0);
    }
}
