//! Public keys of receivers, trusted at first use. One line a key:
//!
//! ```text
//! host port rdt-key-1 KEY 2026-11-23
//! ```

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rdt_crypto::PublicKey;

use crate::files::{self, Forbid, refused};
use crate::{FileError, LineError, lines};

/// Third word of a line. The number changes with the kind of key.
const KIND: &str = "rdt-key-1";

/// Verdict on the key that a receiver showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The file has this key for the host and port.
    Same,
    /// The file has no key for the host and port.
    New,
    /// The file has another key: the receiver was set up again, or another program answers.
    Changed {
        /// Key in the file.
        expected: PublicKey,
        /// Its line, counted from 1, which the user deletes if the change was intended.
        line: usize,
    },
}

/// File of known receivers.
///
/// Names are compared without regard to case and to a final dot, as in DNS. A receiver that is
/// reached by name and by address has two lines. If several lines name a host and port, each of
/// their keys is right.
#[derive(Debug, Clone)]
pub struct KnownHosts {
    path: PathBuf,
}

impl KnownHosts {
    /// Names the file. It is read at each call, and need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compares a key with the file. A file that does not exist has no keys.
    ///
    /// # Errors
    /// [`FileError`]: the file is exposed, a link, or has a line that cannot be read.
    pub fn check(&self, host: &str, port: u16, key: PublicKey) -> Result<Known, FileError> {
        Ok(verdict(&self.keys(host, port)?, key))
    }

    /// Returns the key of a host and port, and its line, counted from 1. `None` without a key, and
    /// if several lines have one.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn key(&self, host: &str, port: u16) -> Result<Option<(PublicKey, usize)>, FileError> {
        Ok(if let [key] = self.keys(host, port)?[..] { Some(key) } else { None })
    }

    /// Returns the keys of a host and port, and their lines. A file that does not exist has none.
    fn keys(&self, host: &str, port: u16) -> Result<Vec<(PublicKey, usize)>, FileError> {
        let host = normal_name(host)?;
        match files::open(&self.path, OpenOptions::new().read(true), Forbid::Writing) {
            Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            file => self.keys_in(&files::read(&self.path, &mut file?)?, &host, port),
        }
    }

    /// Compares a key with the file and appends it if it is new. For that the file is locked and
    /// compared once more: if two programs meet different keys at the same time, the second one
    /// gets [`Known::Changed`]. A key in the file needs neither the lock nor the right to write.
    /// `now_s` gives the date in the line, seconds since 1970.
    ///
    /// # Errors
    /// As [`check`](Self::check), and if the file cannot be made or written.
    pub fn check_or_add(
        &self,
        host: &str,
        port: u16,
        key: PublicKey,
        now_s: u64,
    ) -> Result<Known, FileError> {
        match self.check(host, port, key) {
            // Another program may be writing: the file counts when it is locked.
            Ok(Known::New) | Err(_) => {}
            Ok(known) => return Ok(known),
        }
        let host = normal_name(host)?;
        let mut file = files::open_locked(&self.path, Forbid::Writing)?;
        let text = files::read(&self.path, &mut file)?;
        let known = verdict(&self.keys_in(&text, &host, port)?, key);
        if known == Known::New {
            let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            let line = format!("{separator}{host} {port} {KIND} {key} {}\n", date(now_s));
            let length = file.metadata().map_err(refused("write", &self.path))?.len();
            if let Err(error) = file.write_all(line.as_bytes()) {
                // On a full disk a part may be written, and half a line makes the file unreadable.
                let _ = file.set_len(length);
                return Err(refused("write", &self.path)(error));
            }
        }
        Ok(known)
    }

    fn keys_in(&self, text: &str, host: &str, port: u16) -> Result<Vec<(PublicKey, usize)>, FileError> {
        let mut keys = Vec::new();
        lines::for_each_line(&self.path, text, |line, words| {
            let found = parse(words)?;
            if found.1 == port && normal(found.0) == host {
                keys.push((found.2, line));
            }
            Ok(())
        })?;
        Ok(keys)
    }
}

/// Compares a key with those of the file.
fn verdict(keys: &[(PublicKey, usize)], key: PublicKey) -> Known {
    match keys {
        [] => Known::New,
        keys if keys.iter().any(|(known, _)| *known == key) => Known::Same,
        &[(expected, line), ..] => Known::Changed { expected, line },
    }
}

fn parse<'a>(words: &[&'a str]) -> Result<(&'a str, u16, PublicKey), LineError> {
    let &[host, port, kind, key, _date] = words else {
        return Err(LineError::Fields("five words: host, port, rdt-key-1, key, date"));
    };
    let number = port.parse().ok().filter(|&number| number != 0);
    let port = number.ok_or_else(|| LineError::Port(port.to_owned()))?;
    if kind != KIND {
        return Err(LineError::Kind { found: kind.to_owned(), expected: KIND });
    }
    Ok((host, port, key.parse()?))
}

/// Checks a name, and returns it as names are compared. A name with a blank or line feed would
/// write a line of its own choice; one that begins with `#` would be a comment, so its key would
/// never be compared.
pub(crate) fn normal_name(host: &str) -> Result<String, FileError> {
    let name = normal(host);
    let bad = name.is_empty()
        || name.len() > 255
        || name.starts_with('#')
        || name.chars().any(|c| c.is_whitespace() || c.is_control());
    if bad { Err(FileError::HostName(host.chars().take(80).collect())) } else { Ok(name) }
}

/// Returns a name in small letters and without its final dot: the resolver takes all spellings for
/// the same host, so another one must not count as a host that was never seen.
fn normal(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_lowercase()
}

/// Returns the date in UTC of a time in seconds since 1970, by the algorithm `civil_from_days` of
/// Howard Hinnant (chrono-Compatible Low-Level Date Algorithms, 2021): years begin in March, so
/// that the leap day is the last one. Times after the year 9999 give the first day.
fn date(now_s: u64) -> String {
    /// 10000-01-01, in seconds since 1970.
    const END_S: u64 = 253_402_300_800;
    /// Days from March 1 of the year 0 to 1970.
    const EPOCH: u64 = 719_468;
    /// Days in 400 years.
    const ERA: u64 = 146_097;
    let days = if now_s < END_S { now_s / 86_400 + EPOCH } else { EPOCH };
    let day_of_era = days % ERA;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (days / ERA * 400 + year_of_era, month + 3),
        _ => (days / ERA * 400 + year_of_era + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rdt_crypto::StaticKey;

    use super::*;
    use crate::files::tests::{file, sentence};

    /// 2026-11-23, 07:00 UTC.
    const NOW_S: u64 = 1_795_417_200;

    fn key(seed: u8) -> PublicKey {
        StaticKey::from_bytes([seed; 32]).public()
    }

    fn hosts(text: &str) -> (tempfile::TempDir, KnownHosts) {
        let (folder, path) = file("known_hosts", text, 0o600);
        (folder, KnownHosts::new(path))
    }

    #[test]
    fn first_key_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::new(folder.path().join("rdt").join("known_hosts"));
        assert_eq!(hosts.check("host", 5000, key(1)).unwrap(), Known::New);
        assert!(!hosts.path().exists(), "checking alone makes no file");
        assert_eq!(hosts.check_or_add("host", 5000, key(1), NOW_S).unwrap(), Known::New);
        assert_eq!(hosts.check_or_add("host", 5000, key(1), NOW_S).unwrap(), Known::Same);
        assert_eq!(hosts.check("host", 5000, key(1)).unwrap(), Known::Same);
        let line = format!("host 5000 rdt-key-1 {} 2026-11-23\n", key(1));
        assert_eq!(fs::read_to_string(hosts.path()).unwrap(), line);
    }

    #[test]
    fn other_spelling_of_name_is_same_host() {
        let (_folder, hosts) = hosts(&format!("Older.Example 5000 rdt-key-1 {} 2026-11-23\n", key(1)));
        hosts.check_or_add("Server.", 5000, key(1), NOW_S).unwrap();
        for name in ["server", "SERVER.", "older.example", "OLDER.example."] {
            assert_eq!(hosts.check(name, 5000, key(1)).unwrap(), Known::Same, "{name}");
            let other = hosts.check_or_add(name, 5000, key(2), NOW_S).unwrap();
            assert!(matches!(other, Known::Changed { .. }), "{name}");
        }
        assert_eq!(fs::read_to_string(hosts.path()).unwrap().lines().count(), 2);
        assert!(hosts.check(".", 5000, key(1)).is_err());
    }

    #[test]
    fn only_key_of_host_is_returned() {
        let (_folder, hosts) = hosts("");
        hosts.check_or_add("other", 5000, key(3), NOW_S).unwrap();
        hosts.check_or_add("host", 5000, key(1), NOW_S).unwrap();
        assert_eq!(hosts.key("host", 5000).unwrap(), Some((key(1), 2)));
        assert_eq!(hosts.key("host", 5001).unwrap(), None);
        let line = format!("host 5000 rdt-key-1 {} 2026-11-23\n", key(2));
        fs::write(hosts.path(), fs::read_to_string(hosts.path()).unwrap() + &line).unwrap();
        assert_eq!(hosts.key("host", 5000).unwrap(), None, "two keys");
        fs::remove_file(hosts.path()).unwrap();
        assert_eq!(hosts.key("host", 5000).unwrap(), None);
    }

    #[test]
    fn changed_key_is_told_and_not_stored() {
        let (_folder, hosts) = hosts("");
        hosts.check_or_add("other", 5000, key(3), NOW_S).unwrap();
        hosts.check_or_add("host", 5000, key(1), NOW_S).unwrap();
        let before = fs::read(hosts.path()).unwrap();
        let changed = Known::Changed { expected: key(1), line: 2 };
        assert_eq!(hosts.check("host", 5000, key(2)).unwrap(), changed);
        assert_eq!(hosts.check_or_add("host", 5000, key(2), NOW_S).unwrap(), changed);
        assert_eq!(fs::read(hosts.path()).unwrap(), before);
        for (host, port) in [("host", 5001), ("hosts", 5000), ("host.example", 5000), ("192.0.2.1", 5000)] {
            assert_eq!(hosts.check(host, port, key(2)).unwrap(), Known::New, "{host} {port}");
        }
    }

    #[test]
    fn each_key_of_several_lines_is_right() {
        let line = |seed| format!("host 5000 rdt-key-1 {} 2026-01-01", key(seed));
        let (_folder, hosts) = hosts(&format!("# keys\n\n  {}\n{}", line(1), line(2)));
        assert_eq!(hosts.check("host", 5000, key(1)).unwrap(), Known::Same);
        assert_eq!(hosts.check("host", 5000, key(2)).unwrap(), Known::Same);
        let changed = Known::Changed { expected: key(1), line: 3 };
        assert_eq!(hosts.check("host", 5000, key(3)).unwrap(), changed);
        // The last line has no line feed: the next one begins on a line of its own.
        assert_eq!(hosts.check_or_add("new", 5000, key(4), NOW_S).unwrap(), Known::New);
        assert_eq!(hosts.check("host", 5000, key(2)).unwrap(), Known::Same);
        assert_eq!(hosts.check("new", 5000, key(4)).unwrap(), Known::Same);
    }

    #[test]
    fn wrong_lines_are_named() {
        let good = format!("host 5000 rdt-key-1 {} 2026-01-01\n", key(1));
        let refused = |line: String, expected: &str| {
            let (_folder, hosts) = hosts(&format!("{good}{line}\n{good}"));
            let expected = format!("known_hosts, line 2: {expected}");
            assert_eq!(sentence(hosts.check("host", 5000, key(1)), hosts.path()), expected);
            assert_eq!(sentence(hosts.check_or_add("new", 5000, key(1), NOW_S), hosts.path()), expected);
        };
        let fields = "expected five words: host, port, rdt-key-1, key, date";
        refused("host 5000 rdt-key-1".to_owned(), fields);
        refused(format!("host 5000 rdt-key-1 {} 2026-01-01 more", key(2)), fields);
        for port in ["0", "65536", "-1", "http"] {
            refused(
                format!("host {port} rdt-key-1 {} -", key(2)),
                &format!("{port:?} is no port: 1 to 65535"),
            );
        }
        refused(format!("host 5000 ssh-rsa {} -", key(2)), "\"ssh-rsa\" where rdt-key-1 belongs");
        let text = key(2).to_string();
        refused(
            format!("host 5000 rdt-key-1 {} -", &text[..48]),
            "30 bytes where a key has 34: is the text complete?",
        );
        let other = if text.starts_with('a') { "b" } else { "a" };
        refused(
            format!("host 5000 rdt-key-1 {other}{} -", &text[1..]),
            "the check characters at the end do not fit: a character is wrong",
        );
    }

    #[test]
    fn hostile_names_are_refused() {
        let (_folder, hosts) = hosts("");
        let long = "x".repeat(256);
        for name in ["", "a b", "a\nb", "a\tb", "#a", "a\u{a0}b", "a\u{2028}b", "a\0b", "a\u{1b}[2J", &long] {
            let refused = hosts.check_or_add(name, 5000, key(1), NOW_S);
            assert!(matches!(refused, Err(FileError::HostName { .. })), "{name:?}");
            assert!(hosts.check(name, 5000, key(1)).is_err(), "{name:?}");
        }
        assert_eq!(fs::read(hosts.path()).unwrap(), b"");
        for name in ["host", "2001:db8::1", "fe80::1%eth0", "räksmörgås.example", &long[1..]] {
            assert_eq!(hosts.check_or_add(name, 5000, key(1), NOW_S).unwrap(), Known::New);
            assert_ne!(hosts.check(name, 5000, key(2)).unwrap(), Known::New, "{name}");
        }
    }

    /// Eight threads meet a host for the first time, each with another key: one key is stored.
    #[cfg(unix)]
    #[test]
    fn simultaneous_first_contacts_store_one_key() {
        let (_folder, hosts) = hosts("");
        let verdicts: Vec<_> = std::thread::scope(|scope| {
            let hosts = &hosts;
            let start = |seed| scope.spawn(move || (seed, hosts.check_or_add("h", 1, key(seed), NOW_S)));
            let threads: Vec<_> = (1..9).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let new: Vec<_> = verdicts.iter().filter(|(_, known)| matches!(known, Ok(Known::New))).collect();
        assert_eq!(new.len(), 1);
        let expected = key(new[0].0);
        for (seed, known) in &verdicts {
            let known = *known.as_ref().unwrap();
            assert!(*seed == new[0].0 || known == Known::Changed { expected, line: 1 }, "{known:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn exposed_file_is_refused() {
        use crate::files::tests::set_mode;

        let (_folder, hosts) = hosts("");
        set_mode(hosts.path(), 0o644);
        assert_eq!(hosts.check("host", 5000, key(1)).unwrap(), Known::New, "reading is no danger");
        set_mode(hosts.path(), 0o664);
        let expected = "known_hosts: group or others may write it (mode 664): run chmod go-w known_hosts";
        assert_eq!(sentence(hosts.check("host", 5000, key(1)), hosts.path()), expected);
        assert_eq!(sentence(hosts.check_or_add("host", 5000, key(1), NOW_S), hosts.path()), expected);
    }

    /// The values are those of `date --utc --date=@SECONDS +%F`.
    #[test]
    fn dates_are_those_of_utc() {
        for (now_s, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (NOW_S, "2026-11-23"),
            (1_798_761_599, "2026-12-31"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
            (253_402_300_800, "1970-01-01"),
            (u64::MAX, "1970-01-01"),
        ] {
            assert_eq!(date(now_s), expected, "{now_s}");
        }
    }
}
