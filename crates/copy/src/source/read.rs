//! Reads the files that the destination wants, one after the other, on a thread of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use rustix::fs::{SeekFrom, Stat, fstat, seek};
use rustix::io::Errno;

use super::outgoing::Outgoing;
use super::pending::{Pending, SourceFile};
use crate::Event;
use crate::directory::inode;
use crate::protocol::{Contents, FromSource, MAX_DATA_BYTES, Start, Token};
use crate::report::Report;
use crate::threads::Ended;
use crate::tree_hash::{GROUP_BYTES, TreeHash};

const CHANGED: &str = "changed while it was read";

/// File that the destination wants.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) id: u64,
    pub(crate) file: SourceFile,
    pub(crate) start: Start,
    /// State at the start of a resumed file.
    pub(crate) tree: TreeHash,
}

pub(crate) struct Reader {
    pub(crate) pending: Arc<Pending>,
    pub(crate) out: Outgoing,
    pub(crate) report: Report,
}

/// Why a file is not sent to its end.
enum Stop {
    /// The destination does not want it any more.
    Unwanted,
    /// The file cannot be read further, and has not changed, so the bytes sent so far are right.
    Unreadable(String),
    Changed(&'static str),
    Ended,
}

impl From<Ended> for Stop {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Changed(CHANGED),
            _ => Self::Unreadable(format!("cannot be read: {error}")),
        }
    }
}

impl Reader {
    /// Sends files until the queue ends. Small files share batches.
    pub(crate) fn run(mut self, wants: &Receiver<Want>) -> Result<(), Ended> {
        loop {
            let want = match wants.try_recv() {
                Ok(want) => want,
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) => {
                    self.out.flush()?;
                    let Ok(want) = wants.recv() else { return Ok(()) };
                    want
                }
            };
            let id = want.id;
            let (text, is_unchanged) = match self.send(want) {
                Ok(()) => continue,
                Err(Stop::Ended) => return Err(Ended),
                Err(Stop::Unwanted) => (String::new(), false),
                Err(Stop::Unreadable(text)) => (text, true),
                Err(Stop::Changed(text)) => (text.into(), false),
            };
            self.out.message(&FromSource::Stopped { id, text, is_unchanged })?;
        }
    }

    fn send(&mut self, want: Want) -> Result<(), Stop> {
        let Want { id, file, start, mut tree } = want;
        if !self.pending.is_wanted(id) {
            return Err(Stop::Unwanted);
        }
        let handle = open(&file)?;
        match start {
            Start::IfDifferent { root } => {
                let own = hash_rest(&handle, &mut tree, file.size, || self.check(id))?;
                if !is_unchanged(&handle, &file)? {
                    return Err(Stop::Changed(CHANGED));
                }
                let is_same = own == root;
                let answer =
                    if is_same { FromSource::Same { id } } else { FromSource::Different { id, root: own } };
                return Ok(self.out.message(&answer)?);
            }
            Start::Beginning => {}
            Start::Resume { offset, .. } => self.report.resumed(&file.trail.path(), offset),
        }
        self.report.event(&Event::FileStarted { path: &file.trail.path(), size: file.size });
        let extents = Extents::of(&handle, file.size)?;
        while tree.offset() < file.size {
            match extents.next(tree.offset())? {
                Extent::Hole(end) => self.hole(id, &mut tree, end)?,
                Extent::Data(end) => self.data(id, &handle, &mut tree, end)?,
            }
        }
        if !is_unchanged(&handle, &file)? {
            return Err(Stop::Changed(CHANGED));
        }
        if file.size == 0 && handle.read_at(&mut [0], 0)? > 0 {
            return Err(Stop::Changed("has contents although its size is 0, as in /proc"));
        }
        Ok(self.out.message(&FromSource::End { id, root: tree.finish() })?)
    }

    fn data(&mut self, id: u64, handle: &File, tree: &mut TreeHash, end: u64) -> Result<(), Stop> {
        while tree.offset() < end {
            self.check(id)?;
            let offset = tree.offset();
            let n = tree.room().min(end - offset).min(MAX_DATA_BYTES as u64);
            #[expect(clippy::cast_possible_truncation, reason = "at most 1 MiB")]
            let batch = self.out.with_room(n as usize)?;
            #[expect(clippy::cast_possible_truncation, reason = "at most 1 MiB")]
            let bytes = batch.put_data(id, offset, n as usize, |room| handle.read_exact_at(room, offset))?;
            let group = tree.update(bytes);
            self.group(id, group)?;
        }
        Ok(())
    }

    fn hole(&mut self, id: u64, tree: &mut TreeHash, end: u64) -> Result<(), Stop> {
        while tree.offset() < end {
            self.check(id)?;
            let (offset, len) = (tree.offset(), tree.zero_run(end));
            self.out.message(&FromSource::Hole { id, offset, len })?;
            let group = tree.update_zeros(len);
            self.group(id, group)?;
        }
        Ok(())
    }

    fn group(&mut self, id: u64, chaining_value: Option<[u8; 32]>) -> Result<(), Ended> {
        match chaining_value {
            Some(chaining_value) => self.out.message(&FromSource::Group { id, chaining_value }),
            None => Ok(()),
        }
    }

    /// Fails if the file is not wanted any more. Flushes messages that have waited for long.
    fn check(&mut self, id: u64) -> Result<(), Stop> {
        if self.pending.is_wanted(id) {
            return Ok(self.out.flush_late()?);
        }
        Err(if self.pending.is_stopped() { Stop::Ended } else { Stop::Unwanted })
    }
}

/// Reads a file of this size to its end and returns its hash. `check` may stop it between pieces.
pub(crate) fn hash_rest<E: From<io::Error>>(
    handle: &File,
    tree: &mut TreeHash,
    size: u64,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<[u8; 32], E> {
    let mut buffer = vec![0; MAX_DATA_BYTES];
    let extents = Extents::of(handle, size)?;
    while tree.offset() < size {
        check()?;
        let offset = tree.offset();
        match extents.next(offset)? {
            Extent::Hole(end) => _ = tree.update_zeros(tree.zero_run(end)),
            Extent::Data(end) => {
                let n = tree.room().min(end - offset).min(MAX_DATA_BYTES as u64);
                #[expect(clippy::cast_possible_truncation, reason = "at most 1 MiB")]
                let piece = &mut buffer[..n as usize];
                handle.read_exact_at(piece, offset)?;
                tree.update(piece);
            }
        }
    }
    Ok(tree.finish())
}

/// Reads a small file for its entry. `None` if it has changed or cannot be read: then the
/// destination asks for it as for a large one, and hears why.
pub(super) fn contents(file: &SourceFile) -> Option<Contents> {
    let handle = open(file).ok()?;
    let mut bytes = vec![0; usize::try_from(file.size).ok()?];
    handle.read_exact_at(&mut bytes, 0).ok()?;
    let has_all = handle.read_at(&mut [0], file.size).ok()? == 0 && is_unchanged(&handle, file).ok()?;
    let mut tree = TreeHash::new(file.size);
    tree.update(&bytes);
    has_all.then(|| Contents { root: tree.finish(), bytes })
}

/// Opens the file that was listed.
fn open(file: &SourceFile) -> Result<File, Stop> {
    let handle = file.directory.open_file(&file.name)?;
    if !is_unchanged(&handle, file)? {
        return Err(Stop::Changed("changed after it was listed"));
    }
    Ok(handle)
}

fn is_unchanged(handle: &File, file: &SourceFile) -> io::Result<bool> {
    Ok(token(&fstat(handle)?) == file.token)
}

/// Data and holes of a file, as its file system tells them.
struct Extents<'a> {
    handle: &'a File,
    size: u64,
    may_have_holes: bool,
}

/// Kind and end of an extent.
#[derive(Debug, PartialEq, Eq)]
enum Extent {
    Data(u64),
    Hole(u64),
}

impl<'a> Extents<'a> {
    fn of(handle: &'a File, size: u64) -> io::Result<Self> {
        let stat = fstat(handle)?;
        // A small file without holes saves a system call, which network file systems pass on. A
        // large one may have space that was reserved and not written: also a hole.
        let may_have_holes =
            size > GROUP_BYTES || u64::try_from(stat.st_blocks).is_ok_and(|blocks| blocks * 512 < size);
        Ok(Self { handle, size, may_have_holes })
    }

    /// Returns the extent at `offset`, which is less than the size.
    fn next(&self, offset: u64) -> io::Result<Extent> {
        let Self { handle, size, may_have_holes } = *self;
        if !may_have_holes {
            return Ok(Extent::Data(size));
        }
        match seek(handle, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => return Ok(Extent::Hole(data.min(size))),
            Ok(_) => {}
            Err(Errno::NXIO) => return Ok(Extent::Hole(size)),
            // The file system does not tell.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Extent::Data(size)),
            Err(error) => return Err(error.into()),
        }
        match seek(handle, SeekFrom::Hole(offset)) {
            // Another thread may have truncated the file: at least one byte, whose read then fails.
            Ok(end) => Ok(Extent::Data(end.clamp(offset + 1, size))),
            Err(_) => Ok(Extent::Data(size)),
        }
    }
}

/// Returns the identity of a file's contents, which changes when the file is written to or
/// replaced. It tells the peer nothing but whether that happened. Not with the device: a disk may
/// have another number after a boot.
#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "systems have different types")]
pub(crate) fn token(stat: &Stat) -> Token {
    let mut hasher = blake3::Hasher::new_derive_key("rdt-copy 1 source token");
    let numbers = [
        inode(stat).to_le_bytes(),
        (stat.st_size as i64).to_le_bytes(),
        (stat.st_mtime as i64).to_le_bytes(),
        (stat.st_mtime_nsec as u64).to_le_bytes(),
        (stat.st_ctime as i64).to_le_bytes(),
        (stat.st_ctime_nsec as u64).to_le_bytes(),
    ];
    hasher.update(numbers.as_flattened());
    let mut token = Token::default();
    hasher.finalize_xof().fill(&mut token);
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_outlives_device_number() {
        let mut stat = fstat(tempfile::tempfile().unwrap()).unwrap();
        let before = token(&stat);
        stat.st_dev += 1;
        assert_eq!(token(&stat), before);
        stat.st_ino += 1;
        assert_ne!(token(&stat), before);
    }

    #[test]
    fn read_error_is_no_change() {
        let stop = Stop::from(io::Error::from(Errno::IO));
        assert!(matches!(stop, Stop::Unreadable(text) if text.starts_with("cannot be read")));
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::UnexpectedEof)), Stop::Changed(CHANGED)));
    }
}
