//! File that is sent.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
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

/// Properties of a file that change with its contents. The inode change time (`ctime`) is left out,
/// because it also changes when the file is renamed, removed or replaced, while the open file keeps
/// its contents.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    length: u64,
    /// `None` where the system has no such time.
    modified: Option<SystemTime>,
}

impl FileState {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { length: metadata.len(), modified: metadata.modified().ok() })
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
            if FileState::of(&self.file)? != self.before {
                return Err(io::Error::other("it changed while it was sent"));
            }
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
