//! File in progress beside its final name. A file larger than a group has a journal too, by which a
//! later copy goes on; its lock refuses a second copy at the same time. On a file system without
//! locks no part is used again: each copy writes one of its own.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdt_udp::clock;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, unlinkat};
use rustix::io::Errno;

use crate::directory::{Directory, file_id, inode, mode_of, owner_only};
use crate::journal::{Checkpoint, Journal, Left, Notes, Subject};
use crate::name::Temporary;
use crate::tree_hash::{GROUP_BYTES, TreeHash};

/// Larger files have their full size from the start, and are durable before they get their name.
pub(super) const LARGE_BYTES: u64 = 8 << 20;
/// Limit on the data behind a checkpoint that is hashed again, bytes.
const MAX_HASHED_AGAIN: u64 = 256 << 20;
/// Attempts to get a name for which other copies compete.
const MAX_ATTEMPTS: u32 = 8;

/// File in progress. Its lock ends with the handles.
#[derive(Debug)]
pub(super) struct Part {
    directory: Arc<Directory>,
    pub(super) names: Temporary,
    pub(super) file: Arc<File>,
    progress: Progress,
    /// Notes of the ends of groups; `None` without a journal.
    notes: Option<Notes>,
    /// True after the directory was synced: only then a crash leaves part and journal there.
    is_named: bool,
    /// Time of the last checkpoint; before the first one, of the opening.
    last_checkpoint: Instant,
    /// True after a failed write or sync. The system reports lost data once, so a later sync that
    /// succeeds proves nothing, and no checkpoint may follow.
    has_lost_data: bool,
}

#[derive(Debug)]
enum Progress {
    /// Small file, or one without a lock: it is begun again after an interruption.
    None,
    Idle(Journal),
    /// A thread makes the data durable, and then writes the checkpoint.
    Syncing(JoinHandle<(Journal, io::Result<()>)>),
}

impl Part {
    pub(super) fn create_small(directory: &Arc<Directory>, mut names: Temporary) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            match create(directory, &names.part) {
                Ok(file) => {
                    // Without locks no other copy uses it either: only its creator removes it.
                    lock(&file)?;
                    // Another copy may have taken it for abandoned before it was locked.
                    if fstat(&file)?.st_nlink > 0 {
                        return Self::new(directory, names, file, None);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if remove_abandoned(directory, &names.part)? == Lock::Unsupported {
                        names = names.with_own_part();
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(in_progress())
    }

    /// Creates the part and the journal of a large file. What an earlier copy left is removed.
    pub(super) fn create_large(
        directory: &Arc<Directory>,
        names: Temporary,
        subject: Subject,
    ) -> io::Result<Self> {
        let Some(journal) = open_journal(directory, &names)? else {
            return Self::create_small(directory, names);
        };
        let created = remove(directory, &names.part).and_then(|()| {
            let file = create(directory, &names.part)?;
            let journal = Journal::create(journal, subject, inode(&fstat(&file)?))?;
            // After the journal has forgotten an earlier part, which could be resumed.
            set_full_size(&file, subject.size)?;
            Ok((file, journal))
        });
        match created {
            Ok((file, journal)) => Self::new(directory, names, file, Some(journal)),
            Err(error) => {
                // The next copy removes what stays.
                let _ = remove(directory, &names.part);
                let _ = remove(directory, &names.journal);
                Err(error)
            }
        }
    }

    /// Opens the part of a large file that goes on at `expected`.
    pub(super) fn resume(
        directory: &Arc<Directory>,
        names: Temporary,
        subject: Subject,
        expected: &Checkpoint,
    ) -> io::Result<Self> {
        let changed = || io::Error::other("another copy changed it meanwhile: copy again");
        let journal = open_journal(directory, &names)?.ok_or_else(changed)?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let file = File::from(directory.open(&names.part, flags)?);
        let stat = fstat(&file)?;
        let (journal, Left { durable, noted }) = Journal::resume(journal, subject, inode(&stat))?;
        let is_left = [durable, noted].iter().flatten().any(|left| left == expected);
        if !is_left || !is_own(&stat, expected.offset, subject.size) {
            return Err(changed());
        }
        // What is behind the checkpoint was not verified, and a hole would leave it there.
        file.set_len(expected.offset)?;
        set_full_size(&file, subject.size)?;
        Self::new(directory, names, file, Some(journal))
    }

    fn new(
        directory: &Arc<Directory>,
        names: Temporary,
        file: File,
        journal: Option<Journal>,
    ) -> io::Result<Self> {
        Ok(Self {
            directory: Arc::clone(directory),
            names,
            file: Arc::new(file),
            notes: journal.as_ref().map(Journal::notes).transpose()?,
            progress: journal.map_or(Progress::None, Progress::Idle),
            is_named: false,
            last_checkpoint: clock::now(),
            has_lost_data: false,
        })
    }

    /// Notes the end of a group, for the case that this process is killed.
    pub(super) fn note(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        match &self.notes {
            Some(notes) if !self.has_lost_data => notes.write(checkpoint),
            _ => Ok(()),
        }
    }

    /// Notes a failed write or sync of the file.
    pub(super) fn written(&mut self, result: io::Result<()>) -> io::Result<()> {
        self.has_lost_data |= result.is_err();
        result
    }

    pub(super) fn sync_data(&mut self) -> io::Result<()> {
        self.written(self.file.sync_data())
    }

    /// Fails if another process has replaced the file: then neither its name nor its journal may be
    /// used.
    pub(super) fn check_name(&self) -> io::Result<()> {
        if is_named(&self.directory, &self.names.part, &self.file)? {
            return Ok(());
        }
        Err(io::Error::other("another process has replaced the file in progress"))
    }

    pub(super) fn since_checkpoint(&self) -> Duration {
        clock::now().saturating_duration_since(self.last_checkpoint)
    }

    /// Makes the data durable and writes a checkpoint, on another thread. Waits for the checkpoint
    /// before, so that at most the data of two are sent again after a crash.
    pub(super) fn checkpoint(&mut self, checkpoint: Checkpoint) -> io::Result<()> {
        self.settle()?;
        self.last_checkpoint = clock::now();
        self.check_name()?;
        if let Progress::Idle(mut journal) = std::mem::replace(&mut self.progress, Progress::None) {
            let file = Arc::clone(&self.file);
            let directory = if std::mem::replace(&mut self.is_named, true) {
                None
            } else {
                Some(self.directory.handle()?)
            };
            let work = move || {
                let result = file.sync_data().and_then(|()| journal.write(&checkpoint));
                let sync = |directory: Arc<OwnedFd>| rustix::fs::fsync(&*directory).map_err(io::Error::from);
                let result = result.and_then(|()| directory.map_or(Ok(()), sync));
                (journal, result)
            };
            self.progress =
                Progress::Syncing(std::thread::Builder::new().name("copy sync".into()).spawn(work)?);
        }
        Ok(())
    }

    /// Waits for the checkpoint in progress.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.progress, Progress::None) {
            Progress::Syncing(thread) => {
                let panicked = |_| io::Error::other("the thread that writes checkpoints has failed");
                let (journal, result) = thread.join().map_err(panicked)?;
                self.progress = Progress::Idle(journal);
                self.written(result)
            }
            other => {
                self.progress = other;
                Ok(())
            }
        }
    }

    /// Ends the part of an interrupted copy: a large file stays for the next one, with a last
    /// checkpoint.
    pub(super) fn suspend(mut self, checkpoint: Option<Checkpoint>) {
        // It may have the final mode already, which may be that of a read-only file. If this fails,
        // the next copy begins it again.
        let _ = fchmod(&*self.file, owner_only());
        // If it fails, the next copy begins at an earlier checkpoint.
        let _ = self.settle();
        let may_write = !self.has_lost_data && self.check_name().is_ok();
        match &mut self.progress {
            Progress::Idle(journal) => {
                if let Some(checkpoint) = checkpoint.filter(|_| may_write) {
                    let _ = self.file.sync_data().and_then(|()| journal.write(&checkpoint));
                }
            }
            Progress::None | Progress::Syncing(_) => self.discard(),
        }
    }

    pub(super) fn discard(mut self) {
        // The next copy of this name removes what stays.
        let _ = self.settle();
        if self.check_name().is_ok() {
            let _ = remove(&self.directory, &self.names.part);
        }
        let _ = self.remove_journal();
    }

    /// Removes the journal of a file that has its final name.
    pub(super) fn remove_journal(&self) -> io::Result<()> {
        match self.progress {
            Progress::None => Ok(()),
            _ => remove(&self.directory, &self.names.journal),
        }
    }
}

/// Returns where a large file goes on. An error: another copy of it is in progress.
pub(super) fn find_checkpoint(
    directory: &Arc<Directory>,
    names: &Temporary,
    subject: &Subject,
) -> io::Result<Option<Checkpoint>> {
    let Some(journal) = found(directory.open_file(&names.journal))? else { return Ok(None) };
    if take_lock(&journal, FlockOperation::NonBlockingLockShared)? == Lock::Unsupported {
        return Ok(None);
    }
    let Some(part) = found(directory.stat_name(&names.part))? else { return Ok(None) };
    let Left { durable, noted } = Journal::peek(&journal, subject, inode(&part))?;
    let durable = durable.filter(|at| is_own(&part, at.offset, subject.size));
    let noted = noted.filter(|at| is_own(&part, at.offset, subject.size));
    // An error of a read leaves the checkpoint.
    let is_there = |noted: &Checkpoint| {
        directory
            .open_file(&names.part)
            .and_then(|part| has_data(&part, subject.size, durable.as_ref(), noted))
    };
    Ok(noted.filter(|noted| is_there(noted).unwrap_or(false)).or(durable))
}

/// Returns true if the data between a checkpoint and a note is what was verified when it arrived.
fn has_data(part: &File, size: u64, durable: Option<&Checkpoint>, noted: &Checkpoint) -> io::Result<bool> {
    let tree = durable.map_or_else(
        || Some(TreeHash::new(size)),
        |durable| TreeHash::resume(size, durable.offset, &durable.stack),
    );
    let Some(mut tree) = tree.filter(|tree| noted.offset - tree.offset() <= MAX_HASHED_AGAIN) else {
        return Ok(false);
    };
    let mut piece = vec![0; usize::try_from(GROUP_BYTES).unwrap_or(0)];
    while tree.offset() < noted.offset {
        part.read_exact_at(&mut piece, tree.offset())?;
        tree.update(&piece);
    }
    Ok(tree.state() == (noted.offset, noted.stack.as_slice()))
}

/// Gives a large file its size, so that a full disk shows early.
fn set_full_size(file: &File, size: u64) -> io::Result<()> {
    if size > LARGE_BYTES { file.set_len(size) } else { Ok(()) }
}

/// Returns `None` for a name that does not exist.
pub(super) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Removes a file. One that does not exist is no error.
pub(super) fn remove(directory: &Arc<Directory>, name: &[u8]) -> io::Result<()> {
    match unlinkat(&*directory.handle()?, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes what an interrupted copy of a large file left, after something else has completed the
/// file. A copy in progress keeps it.
pub(super) fn remove_left(directory: &Arc<Directory>, names: &Temporary) -> io::Result<()> {
    let Some(journal) = found(directory.open_file(&names.journal))? else { return Ok(()) };
    if lock(&journal)? == Lock::Held && is_named(directory, &names.journal, &journal)? {
        remove(directory, &names.part)?;
        remove(directory, &names.journal)?;
    }
    Ok(())
}

fn create(directory: &Arc<Directory>, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    Ok(directory.open(name, flags)?.into())
}

/// Opens the journal, or creates it. `None`: the file system has no locks, so there is no journal.
fn open_journal(directory: &Arc<Directory>, names: &Temporary) -> io::Result<Option<File>> {
    for _ in 0..MAX_ATTEMPTS {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
        let file = File::from(directory.open(&names.journal, flags)?);
        let lock = lock(&file)?;
        let stat = fstat(&file)?;
        if lock == Lock::Unsupported {
            // Another host, whose file system has locks, may use one that is not empty.
            if stat.st_size == 0 {
                remove(directory, &names.journal)?;
            }
            return Ok(None);
        }
        if is_private(&stat) {
            return Ok(Some(file));
        }
        // Without a name: another copy may have ended, and removed it, before it was locked.
        if stat.st_nlink > 0 {
            return Err(io::Error::other("the name of its journal is taken by a file of another kind"));
        }
    }
    Err(in_progress())
}

/// Removes a part that no process has locked. Without locks, it stays.
fn remove_abandoned(directory: &Arc<Directory>, name: &[u8]) -> io::Result<Lock> {
    match directory.open(name, OFlags::WRONLY | OFlags::NONBLOCK) {
        Ok(file) => {
            // Locked until it is removed: the name must not pass to another copy before.
            let file = File::from(file);
            let lock = lock(&file)?;
            if lock == Lock::Held && is_named(directory, name, &file)? {
                remove(directory, name)?;
            }
            Ok(lock)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lock::Held),
        // A link, pipe or directory that took the name: the system says which one.
        Err(_) => remove(directory, name).map(|()| Lock::Held),
    }
}

/// Returns true if the name still leads to this file.
fn is_named(directory: &Arc<Directory>, name: &[u8], file: &File) -> io::Result<bool> {
    let own = fstat(file)?;
    Ok(found(directory.stat_name(name))?.is_some_and(|found| file_id(&found) == file_id(&own)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    Held,
    /// The file system has no locks, so another copy may use the file.
    Unsupported,
}

fn lock(file: &File) -> io::Result<Lock> {
    take_lock(file, FlockOperation::NonBlockingLockExclusive)
}

fn take_lock(file: &File, operation: FlockOperation) -> io::Result<Lock> {
    #[cfg(test)]
    if tests::HAS_NO_LOCKS.get() {
        return Ok(Lock::Unsupported);
    }
    match flock(file, operation) {
        Ok(()) => Ok(Lock::Held),
        Err(Errno::WOULDBLOCK) => Err(in_progress()),
        Err(_) => Ok(Lock::Unsupported),
    }
}

/// Returns true for a file of this user that has no second name.
pub(super) fn is_private(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
}

/// Returns true for a part that this user has written and may write to. A part that was about to
/// get its final name may already have the mode of a read-only file. It has the data before
/// `offset`.
fn is_own(stat: &Stat, offset: u64, size: u64) -> bool {
    let has_data = u64::try_from(stat.st_size).is_ok_and(|length| (offset..=size).contains(&length));
    is_private(stat) && mode_of(stat).contains(Mode::WUSR) && has_data
}

fn in_progress() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another copy of it is in progress")
}

#[cfg(test)]
mod tests;
