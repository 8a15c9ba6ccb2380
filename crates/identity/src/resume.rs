//! Resumption cookies: one line for each receiver, `host port COOKIE`, the newest last.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use rdt_crypto::{RESUMPTION_COOKIE_BYTES, ResumptionCookie, base32};

use crate::files::{self, Change, Forbid, refused};
use crate::known_hosts::normal_name;
use crate::{FileError, LineError};

/// File of resumption cookies, each of which is used once.
///
/// The file is a cache: a line that cannot be read is dropped, and a lost file costs a round trip
/// for each receiver.
#[derive(Debug, Clone)]
pub struct ResumeFile {
    path: PathBuf,
}

impl ResumeFile {
    /// Most lines that are kept.
    pub const MAX_LINES: usize = 1024;

    /// Names the file, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the cookie of a receiver from the file and returns it. Two programs never get the
    /// same cookie.
    ///
    /// # Errors
    /// [`FileError`]: the file is exposed or a link, or cannot be written.
    pub fn take(&self, host: &str, port: u16) -> Result<Option<ResumptionCookie>, FileError> {
        let host = &*normal_name(host)?;
        let (mut file, mut lines) = self.open()?;
        let found = lines.iter().rposition(|line| (&*line.host, line.port) == (host, port));
        let Some(found) = found else { return Ok(None) };
        let cookie = lines[found].cookie;
        lines.retain(|line| (&*line.host, line.port) != (host, port));
        self.write(&mut file, &lines)?;
        Ok(Some(cookie))
    }

    /// Stores the cookie of a receiver in place of an older one. Beyond 1,024 lines the oldest is
    /// dropped.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn put(&self, host: &str, port: u16, cookie: &ResumptionCookie) -> Result<(), FileError> {
        let host = &*normal_name(host)?;
        let (mut file, mut lines) = self.open()?;
        lines.retain(|line| (&*line.host, line.port) != (host, port));
        lines.push(Line { host: host.to_owned(), port, cookie: *cookie });
        let excess = lines.len().saturating_sub(Self::MAX_LINES);
        lines.drain(..excess);
        self.write(&mut file, &lines)
    }

    fn open(&self) -> Result<(File, Vec<Line>), FileError> {
        let mut file = files::open_locked(&self.path, Forbid::All, Change::Rewrite)?;
        let text = match files::read(&self.path, &mut file) {
            // Damaged: begin with an empty file.
            Err(FileError::Line { .. } | FileError::TooLong { .. }) => String::new().into(),
            text => text?,
        };
        let mut lines = vec![];
        files::for_each_line(&self.path, &text, |_, words| {
            lines.extend(Line::parse(words));
            Ok(())
        })?;
        Ok((file, lines))
    }

    /// Replaces the contents. The lock holds for this file, so it is not replaced by another one.
    fn write(&self, file: &mut File, lines: &[Line]) -> Result<(), FileError> {
        let text: Vec<_> = lines
            .iter()
            .map(|line| format!("{} {} {}\n", line.host, line.port, base32::encode(&line.cookie)))
            .collect();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.concat().as_bytes()))
            .map_err(refused("write", &self.path))
    }
}

struct Line {
    host: String,
    port: u16,
    cookie: ResumptionCookie,
}

impl Line {
    fn parse(words: &[&str]) -> Result<Self, LineError> {
        let &[host, port, cookie] = words else {
            return Err(LineError::Fields { expected: "three words: host, port, cookie" });
        };
        let port = port.parse().map_err(|_| LineError::Port { found: port.to_owned() })?;
        let cookie: [u8; RESUMPTION_COOKIE_BYTES] = base32::decode(cookie)?
            .try_into()
            .map_err(|_| LineError::Fields { expected: "a cookie of 48 bytes" })?;
        Ok(Self { host: host.to_owned(), port, cookie })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::tests::file;

    fn resume(text: &str) -> (tempfile::TempDir, ResumeFile) {
        let (folder, path) = file("resume", text, 0o600);
        (folder, ResumeFile::new(path))
    }

    #[test]
    fn cookie_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let resume = ResumeFile::new(folder.path().join("rdt").join("resume"));
        assert_eq!(resume.take("host", 5000).unwrap(), None);
        resume.put("host", 5000, &[1; 48]).unwrap();
        resume.put("host", 5000, &[2; 48]).unwrap();
        resume.put("host", 5001, &[3; 48]).unwrap();
        assert_eq!(resume.take("other", 5000).unwrap(), None);
        assert_eq!(resume.take("host", 5000).unwrap(), Some([2; 48]));
        assert_eq!(resume.take("host", 5000).unwrap(), None);
        assert_eq!(resume.take("host", 5001).unwrap(), Some([3; 48]));
        assert_eq!(fs::read(resume.path()).unwrap(), b"");
    }

    #[test]
    fn oldest_cookies_are_dropped() {
        let line = |i: usize| format!("host{i} 5000 {}\n", base32::encode(&[1; 48]));
        let (_folder, resume) = resume(&(0..ResumeFile::MAX_LINES).map(line).collect::<String>());
        resume.put("new", 5000, &[2; 48]).unwrap();
        assert_eq!(resume.take("host0", 5000).unwrap(), None);
        assert_eq!(resume.take("host1", 5000).unwrap(), Some([1; 48]));
        assert_eq!(resume.take("new", 5000).unwrap(), Some([2; 48]));
        let text = fs::read_to_string(resume.path()).unwrap();
        assert_eq!(text.lines().count(), ResumeFile::MAX_LINES - 2);
    }

    #[test]
    fn damaged_lines_are_dropped() {
        let good = format!("host 5000 {}", base32::encode(&[1; 48]));
        let (_folder, resume) = resume(&format!("host\nhost x y\n{good}\nhost 5000 abc!\n{}", &good[..70]));
        assert_eq!(resume.take("host", 5000).unwrap(), Some([1; 48]));
        assert_eq!(fs::read(resume.path()).unwrap(), b"");
        fs::write(resume.path(), b"\xff\xfe").unwrap();
        resume.put("host", 5000, &[4; 48]).unwrap();
        assert_eq!(resume.take("host", 5000).unwrap(), Some([4; 48]));
        assert!(matches!(resume.put("a b", 5000, &[4; 48]), Err(FileError::HostName { .. })));
    }

    /// Eight threads want the one cookie.
    #[cfg(unix)]
    #[test]
    fn one_of_many_gets_the_cookie() {
        let (_folder, resume) = resume("");
        resume.put("host", 5000, &[1; 48]).unwrap();
        let taken = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| resume.take("host", 5000).unwrap())).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).count()
        });
        assert_eq!(taken, 1);
    }

    #[cfg(unix)]
    #[test]
    fn exposed_file_is_refused() {
        use crate::files::tests::sentence;

        let (_folder, path) = file("resume", "", 0o644);
        let expected = "resume: group or others have access to it (mode 644): run chmod 600 resume";
        assert_eq!(sentence(ResumeFile::new(&path).take("host", 5000), &path), expected);
    }
}
