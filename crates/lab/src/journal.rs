//! Results on disk. A folder has one journal file for each process that wrote to it, to which lines
//! are only appended, and a file of series for each repetition that keeps them. No file has two
//! writers, so several processes and hosts may write to one folder without locks.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | line | `line.rs` | the JSON form of a record, with its CRC |
//! | writer | `journal.rs` | one journal file |
//! | store | `store.rs` | the records of some folders, without duplicates |
//! | series | `series.rs` | the compressed file of the series of a repetition |

mod line;
mod series;
mod store;

use crate::record::Record;
use rdt_udp::clock;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use line::{LineError, decode, encode};
pub use series::{copy_series, read_columns, read_series, write_series};
pub use store::{Store, StoreError, lines_of_cells};

/// Name of the folder of journal files within a folder of results.
pub const JOURNAL_FOLDER: &str = "journal";
/// Name of the folder of series within a folder of results.
pub const SERIES_FOLDER: &str = "series";

/// Interval between synchronisations with [`Durability::Batched`].
const SYNC_INTERVAL: Duration = Duration::from_millis(200);

/// Writes a file that appears whole or not at all.
pub(crate) fn write_whole(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = Path::new(&unfinished);
    let result = write(unfinished).and_then(|()| fs::rename(unfinished, path));
    if result.is_err() {
        let _ = fs::remove_file(unfinished);
    }
    result
}

/// Times at which lines are synchronised with the disk (`fdatasync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After every line: for repetitions that take long.
    EachLine,
    /// At the first line that is more than 200 ms after the last time, and at the end: for
    /// repetitions in virtual time.
    Batched,
}

/// Appends records to a journal file of its own. If the host fails, at most the lines since the
/// last synchronisation are lost; if the process is killed, at most the last line is torn.
#[derive(Debug)]
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    durability: Durability,
    synced: Instant,
    unsynced: bool,
}

impl JournalWriter {
    /// Creates a new journal file in a folder of results. Its name has the host and the process, so
    /// that no other writer has the same file.
    pub fn create(results: &Path, host: &str, durability: Durability) -> io::Result<Self> {
        let folder = results.join(JOURNAL_FOLDER);
        fs::create_dir_all(&folder)?;
        let host: String =
            host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
        let mut attempt = 0_u32;
        loop {
            let path = folder.join(format!("{host}-{}-{attempt}.ndjson", std::process::id()));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
                result => {
                    let synced = clock::now();
                    return Ok(Self { file: result?, path, durability, synced, unsynced: false });
                }
            }
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Writing or synchronising failed. A part of the line may be in the file; readers ignore it.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if let Err(error) = self.file.write_all(encode(record).as_bytes()) {
            // Otherwise a later line would continue the torn one, and both would be lost.
            let _ = self.file.set_len(length);
            return Err(error);
        }
        self.unsynced = true;
        let now = clock::now();
        if self.durability == Durability::EachLine || now.duration_since(self.synced) >= SYNC_INTERVAL {
            self.sync()?;
            self.synced = now;
        }
        Ok(())
    }

    /// Synchronises all lines with the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync_data()?;
            self.unsynced = false;
        }
        Ok(())
    }
}

impl Drop for JournalWriter {
    /// Synchronises the file, and removes it if nothing was written.
    fn drop(&mut self) {
        let _ = self.sync();
        if self.file.metadata().is_ok_and(|it| it.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
