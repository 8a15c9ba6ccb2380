//! File in progress beside its final name. A file larger than a group has a journal too, by which a
//! later copy goes on; its lock refuses a second copy at the same time.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdt_udp::clock;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, unlinkat};
use rustix::io::Errno;

use crate::directory::{Directory, device, inode};
use crate::journal::{Checkpoint, Journal, Subject};
use crate::name::Temporary;

/// Attempts to get a name for which other copies compete.
const MAX_ATTEMPTS: u32 = 8;

/// File in progress. Its lock ends with the handles.
#[derive(Debug)]
pub(super) struct Part {
    directory: Arc<Directory>,
    names: Temporary,
    file: Arc<File>,
    progress: Progress,
    /// True after the directory was synced: only then a crash leaves part and journal there.
    is_named: bool,
    /// Time of the last checkpoint; before the first one, of the opening.
    last_checkpoint: Instant,
}

/// Journal of a part.
#[derive(Debug)]
enum Progress {
    /// Small file: it is begun again after an interruption.
    None,
    Idle(Journal),
    /// A thread makes the data durable, and then writes the checkpoint.
    Syncing(JoinHandle<(Journal, io::Result<()>)>),
}

impl Part {
    /// Creates the part of a small file.
    pub(super) fn create_small(directory: &Arc<Directory>, names: Temporary) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            match directory.open(&names.part, flags, owner_only()) {
                Ok(file) => {
                    let file = File::from(file);
                    lock(&file)?;
                    // Another copy may have taken it for abandoned before it was locked.
                    if fstat(&file)?.st_nlink > 0 {
                        return Ok(Self::new(directory, names, file, Progress::None));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    remove_abandoned(directory, &names.part)?;
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
        let journal = open_journal(directory, &names)?;
        let created = remove(directory, &names.part)
            .and_then(|()| Journal::create(journal, subject))
            .and_then(|journal| {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
                let file = File::from(directory.open(&names.part, flags, owner_only())?);
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
        let replaced = || io::Error::other("another copy changed it meanwhile: copy again");
        let journal = open_journal(directory, &names)?;
        let (journal, found) = Journal::resume(journal, subject)?.ok_or_else(replaced)?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let file = File::from(directory.open(&names.part, flags, Mode::empty())?);
        if found != *expected || !is_own(&fstat(&file)?, subject.size) {
            return Err(replaced());
        }
        // What is behind the checkpoint was not verified, and a hole would leave it there.
        file.set_len(found.offset)?;
        file.set_len(subject.size)?;
        Ok(Self::new(directory, names, file, Progress::Idle(journal)))
    }

    fn new(directory: &Arc<Directory>, names: Temporary, file: File, progress: Progress) -> Self {
        let (directory, file) = (Arc::clone(directory), Arc::new(file));
        Self { directory, names, file, progress, is_named: false, last_checkpoint: clock::now() }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns true unless another process has replaced the file: then the name must not be used.
    pub(super) fn is_at_its_name(&self) -> io::Result<bool> {
        is_named(&self.directory, &self.names.part, &self.file)
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.names.part
    }

    pub(super) fn since_checkpoint(&self) -> Duration {
        clock::now().saturating_duration_since(self.last_checkpoint)
    }

    /// Makes the data durable and writes a checkpoint, on another thread. Waits for the checkpoint
    /// before, so that at most the data of two are sent again after a crash.
    pub(super) fn checkpoint(&mut self, checkpoint: Checkpoint) -> io::Result<()> {
        self.settle()?;
        self.last_checkpoint = clock::now();
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
                result
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
        // If it fails, the next copy begins at an earlier checkpoint.
        let _ = self.settle();
        match &mut self.progress {
            Progress::Idle(journal) => {
                if let Some(checkpoint) = checkpoint {
                    let _ = self.file.sync_data().and_then(|()| journal.write(&checkpoint));
                }
            }
            Progress::None | Progress::Syncing(_) => self.discard(),
        }
    }

    /// Removes the part and its journal.
    pub(super) fn discard(mut self) {
        // The next copy of this name removes what stays.
        let _ = self.settle();
        if self.is_at_its_name().unwrap_or(false) {
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
    let journal = match directory.open(&names.journal, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
        Ok(journal) => File::from(journal),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if let Err(Errno::WOULDBLOCK) = flock(&journal, FlockOperation::NonBlockingLockShared) {
        return Err(in_progress());
    }
    let part = match directory.stat_name(&names.part) {
        Ok(part) if is_own(&part, subject.size) => Journal::peek(&journal, subject)?,
        Ok(_) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(part)
}

/// Removes a file. One that does not exist is no error.
pub(super) fn remove(directory: &Arc<Directory>, name: &[u8]) -> io::Result<()> {
    match unlinkat(&*directory.handle()?, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn open_journal(directory: &Arc<Directory>, names: &Temporary) -> io::Result<File> {
    for _ in 0..MAX_ATTEMPTS {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
        let file = File::from(directory.open(&names.journal, flags, owner_only())?);
        lock(&file)?;
        let stat = fstat(&file)?;
        if is_private(&stat) {
            return Ok(file);
        }
        // Without a name: another copy may have ended, and removed it, before it was locked.
        if stat.st_nlink > 0 {
            return Err(io::Error::other("the name of its journal is taken by a file of another kind"));
        }
    }
    Err(in_progress())
}

/// Removes a part that no process has locked.
fn remove_abandoned(directory: &Arc<Directory>, name: &[u8]) -> io::Result<()> {
    match directory.open(name, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
        Ok(file) => {
            // Locked until it is removed: the name must not pass to another copy before.
            let file = File::from(file);
            lock(&file)?;
            if is_named(directory, name, &file)? { remove(directory, name) } else { Ok(()) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A link, pipe or directory that took the name: the system says which one.
        Err(_) => remove(directory, name),
    }
}

/// Returns true if the name still leads to this file.
fn is_named(directory: &Arc<Directory>, name: &[u8], file: &File) -> io::Result<bool> {
    let own = fstat(file)?;
    match directory.stat_name(name) {
        Ok(found) => Ok((device(&found), inode(&found)) == (device(&own), inode(&own))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(in_progress()),
        // A file system without locks.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns true for a file of this user that has no second name.
pub(super) fn is_private(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
}

/// Returns true for a part that this user has written.
fn is_own(stat: &Stat, size: u64) -> bool {
    is_private(stat) && u64::try_from(stat.st_size) == Ok(size)
}

fn in_progress() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another copy of it is in progress")
}

/// Mode of files in progress. Other users may read a file only when it has its own mode.
fn owner_only() -> Mode {
    Mode::RUSR | Mode::WUSR
}
