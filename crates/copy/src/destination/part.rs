//! File in progress beside its final name. A file larger than a group has a journal too, by which a
//! later copy goes on; its lock refuses a second copy at the same time. On a file system without
//! locks no part is used again: each copy writes one of its own.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdt_udp::clock;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, unlinkat};
use rustix::io::Errno;

use crate::directory::{Directory, file_id, inode, mode_of, owner_only};
use crate::journal::{Checkpoint, Journal, Subject};
use crate::name::Temporary;

/// Attempts to get a name for which other copies compete.
const MAX_ATTEMPTS: u32 = 8;

/// File in progress. Its lock ends with the handles.
#[derive(Debug)]
pub(super) struct Part {
    directory: Arc<Directory>,
    pub(super) names: Temporary,
    pub(super) file: Arc<File>,
    progress: Progress,
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
                        return Ok(Self::new(directory, names, file, Progress::None));
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
            // After the journal has forgotten an earlier part: one of this size can be resumed.
            file.set_len(subject.size)?;
            Ok((file, journal))
        });
        match created {
            Ok((file, journal)) => Ok(Self::new(directory, names, file, Progress::Idle(journal))),
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
        let found = Journal::resume(journal, subject, inode(&stat))?;
        let (journal, found) = found.ok_or_else(changed)?;
        if found != *expected || !is_own(&stat, subject.size) {
            return Err(changed());
        }
        // What is behind the checkpoint was not verified, and a hole would leave it there.
        file.set_len(found.offset)?;
        file.set_len(subject.size)?;
        Ok(Self::new(directory, names, file, Progress::Idle(journal)))
    }

    fn new(directory: &Arc<Directory>, names: Temporary, file: File, progress: Progress) -> Self {
        let (directory, file) = (Arc::clone(directory), Arc::new(file));
        let last_checkpoint = clock::now();
        Self { directory, names, file, progress, is_named: false, last_checkpoint, has_lost_data: false }
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
    match found(directory.stat_name(&names.part))? {
        Some(part) if is_own(&part, subject.size) => Journal::peek(&journal, subject, inode(&part)),
        _ => Ok(None),
    }
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
/// get its final name may already have the mode of a read-only file.
fn is_own(stat: &Stat, size: u64) -> bool {
    is_private(stat) && mode_of(stat).contains(Mode::WUSR) && u64::try_from(stat.st_size) == Ok(size)
}

fn in_progress() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another copy of it is in progress")
}

#[cfg(test)]
mod tests;
