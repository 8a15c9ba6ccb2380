//! Directories of the destination that are being filled, and the state that all threads share.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rdt_udp::clock;
use rustix::fs::{fchmod, fsync};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Sender, UnboundedSender};

use super::attributes::{Attributes, NewMode};
use super::final_name::{Placed, Placement};
use super::part::{find_checkpoint, remove};
use crate::directory::Directory;
use crate::journal::{Checkpoint, Subject};
use crate::name::Temporary;
use crate::protocol::FromDestination;
use crate::report::{Lost, Report};
use crate::superseded_sessions::Running;
use crate::threads::Ended;
use crate::tree_hash::GROUP_BYTES;
use crate::{CopyError, DestinationOptions, Existing, Kind, SkipReason};

/// Time after the start for which a copy waits for files that another copy holds. The server of a
/// killed client holds its files until its ssh has ended and their data are synced.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts to lock a file.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct Shared {
    pub(crate) options: DestinationOptions,
    pub(crate) report: Report,
    pub(crate) replies: Sender<FromDestination>,
    pub(crate) fatal: UnboundedSender<CopyError>,
    /// Entries that were received and not resolved.
    pub(crate) unresolved: AtomicUsize,
    /// Signalled when the last one is resolved, perhaps before others arrive.
    pub(crate) resolved: Notify,
    pub(crate) placed: Placed,
    /// True after the copy has ended early. Stops work that takes long.
    pub(crate) is_stopped: AtomicBool,
    pub(crate) started: Instant,
    /// Ends with the last thread: then the same command may begin.
    pub(crate) _running: Option<Running>,
}

/// Directory that is being filled.
pub(crate) struct Node {
    /// `None`: creation failed, or dry run.
    pub(crate) directory: Option<Arc<Directory>>,
    /// Entry of the source; `None` for the destination itself.
    pub(crate) entry: Option<NodeEntry>,
    /// Incomplete entries, plus 1 while the source still lists the directory.
    open: AtomicUsize,
}

/// Entry of a directory, resolved when the last one in it is.
pub(crate) struct NodeEntry {
    pub(crate) target: Target,
    /// `None` after a failure of the directory itself, which has resolved the entry.
    pub(crate) attributes: Option<Attributes>,
    /// True: it was there before, perhaps of another owner.
    pub(crate) existed: bool,
    pub(crate) mode: NewMode,
}

impl NodeEntry {
    /// Removes the file with the mode that the directory had before.
    fn forget_mode(&self) -> io::Result<()> {
        match &self.target.node.directory {
            Some(parent) if self.existed && self.mode != NewMode::Keep => {
                remove(parent, &Temporary::of(&self.target.name).mode)
            }
            _ => Ok(()),
        }
    }
}

impl Node {
    pub(crate) fn new(directory: Option<Arc<Directory>>, entry: Option<NodeEntry>) -> Arc<Self> {
        Arc::new(Self { directory, entry, open: AtomicUsize::new(1) })
    }

    /// Notes an entry that [`Shared::close`] will end.
    pub(crate) fn open(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the path relative to the destination.
    pub(crate) fn path(&self) -> PathBuf {
        self.entry.as_ref().map_or_else(PathBuf::new, |entry| entry.target.path())
    }
}

/// Restores the mode of a directory that existed, if the copy ends early.
impl Drop for Node {
    fn drop(&mut self) {
        if *self.open.get_mut() > 0
            && let (Some(directory), Some(entry)) = (&self.directory, &self.entry)
            && let NewMode::Restore(mode) = entry.mode
        {
            // If it fails, no other step could do it.
            let restored = directory.handle().and_then(|handle| Ok(fchmod(&*handle, mode)?));
            let _ = restored.and_then(|()| entry.forget_mode());
        }
    }
}

/// Entry in a directory, as far as it is needed to resolve it.
pub(crate) struct Target {
    pub(crate) id: u64,
    pub(crate) node: Arc<Node>,
    pub(crate) name: Vec<u8>,
    /// Final name, if another file already had this one (`--keep-both`).
    pub(crate) other_name: Option<Vec<u8>>,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// Bytes of a file that neither this copy nor an earlier one has written.
    pub(crate) missing_bytes: u64,
}

impl Target {
    pub(crate) fn final_name(&self) -> &[u8] {
        self.other_name.as_ref().unwrap_or(&self.name)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.node.path().join(OsStr::from_bytes(self.final_name()))
    }
}

pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) directory: Arc<Directory>,
    pub(super) names: Temporary,
    pub(super) subject: Subject,
    pub(super) attributes: Attributes,
    /// Checkpoint at which an earlier copy ended.
    pub(super) resume: Option<Checkpoint>,
}

impl Plan {
    pub(super) fn find_checkpoint(&mut self) -> io::Result<()> {
        if self.target.size > GROUP_BYTES {
            self.resume = find_checkpoint(&self.directory, &self.names, &self.subject)?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum End<'a> {
    Done,
    Skipped(SkipReason),
    Failed(&'a str),
}

/// Syncs a file that was there before: the program that wrote it need not have done so.
fn sync_existing(target: &Target) -> io::Result<()> {
    let Some(directory) = target.node.directory.as_ref().filter(|_| target.kind == Kind::File) else {
        return Ok(());
    };
    Ok(fsync(directory.open_file(target.final_name())?)?)
}

impl Shared {
    /// Resolves an entry that has a final name, or whose equal has it.
    pub(super) fn placed(&self, target: &mut Target, placement: Placement) -> Result<(), Ended> {
        let (name, is_new) = match placement {
            Placement::New(name) => (name, true),
            Placement::Same(name) => (name, false),
        };
        if name != target.name {
            target.other_name = Some(name);
        }
        if is_new { self.resolve(target, End::Done) } else { self.skip(target, SkipReason::Identical) }
    }

    /// Resolves a file that is there. With `--overwrite` it gets the mode of the source.
    pub(crate) fn identical(&self, plan: &Plan) -> Result<(), Ended> {
        let DestinationOptions { existing, dry_run, special_modes, .. } = self.options;
        if existing == Existing::Overwrite
            && !dry_run
            && let Err(error) = plan.attributes.set_mode(&plan.directory, &plan.target.name, special_modes)
        {
            return self.failed(&plan.target, &format!("is there, and its mode cannot be set: {error}"));
        }
        self.skip(&plan.target, SkipReason::Identical)
    }

    pub(crate) fn skip(&self, target: &Target, reason: SkipReason) -> Result<(), Ended> {
        if self.options.sync
            && reason == SkipReason::Identical
            && let Err(error) = sync_existing(target)
        {
            return self.failed(target, &format!("is there and cannot be synced: {error}"));
        }
        self.resolve(target, End::Skipped(reason))
    }

    pub(crate) fn failed(&self, target: &Target, text: &str) -> Result<(), Ended> {
        self.resolve(target, End::Failed(text))
    }

    /// Ends one entry of a directory, or the source's visit to it. Completes the directory with its
    /// last one, and so on upwards.
    pub(crate) fn close(&self, node: &Arc<Node>) -> Result<(), Ended> {
        let mut node = Arc::clone(node);
        while node.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let Some(entry) = &node.entry else { return Ok(()) };
            if let Some(attributes) = &entry.attributes {
                self.complete(&node, entry, attributes)?;
            }
            let parent = Arc::clone(&entry.target.node);
            node = parent;
        }
        Ok(())
    }

    /// Calls `open` until no other copy holds the file, but no longer than [`RELEASE_TIMEOUT`]
    /// after the start.
    pub(crate) fn once_released<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let end = self.started + RELEASE_TIMEOUT;
        loop {
            match open() {
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy
                        && clock::now() < end
                        && !self.is_stopped.load(Ordering::Relaxed) =>
                {
                    #[expect(clippy::disallowed_methods, reason = "no event tells of a lock's end")]
                    std::thread::sleep(LOCK_INTERVAL);
                }
                result => return result,
            }
        }
    }

    /// Waits until every entry that was received is resolved. For one task.
    pub(crate) async fn all_resolved(&self) {
        while self.unresolved.load(Ordering::Relaxed) > 0 {
            self.resolved.notified().await;
        }
    }

    /// Ends the copy for all threads.
    pub(crate) fn fail(&self, error: CopyError) -> Ended {
        // Fails if the copy has ended.
        let _ = self.fatal.send(error);
        Ended
    }

    pub(crate) fn reply(&self, reply: FromDestination) -> Result<(), Ended> {
        self.replies.blocking_send(reply).map_err(|_| Ended)
    }

    fn resolve(&self, target: &Target, end: End<'_>) -> Result<(), Ended> {
        self.report_end(target, end)?;
        self.close(&target.node)
    }

    /// Tells the observer and the source how an entry has ended.
    fn report_end(&self, target: &Target, end: End<'_>) -> Result<(), Ended> {
        let Target { id, kind, size, missing_bytes, .. } = *target;
        let (path, name) = (target.path(), target.other_name.clone());
        let reply = match end {
            End::Done => {
                self.report.done(&path, kind, size);
                FromDestination::Done { id, name }
            }
            End::Skipped(reason) => {
                self.report.skipped(&path, kind, reason, size);
                FromDestination::Skip { id, reason, name }
            }
            End::Failed(text) => {
                self.report.failed(&path, text, Lost { kind: Some(kind), bytes: size, missing_bytes });
                FromDestination::Failed { id, text: text.into(), missing_bytes }
            }
        };
        // First, because the source may send another entry as soon as it has the reply.
        if self.unresolved.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.resolved.notify_one();
        }
        self.reply(reply)
    }

    /// Sets the mode and times of a directory and resolves its entry.
    fn complete(&self, node: &Node, entry: &NodeEntry, attributes: &Attributes) -> Result<(), Ended> {
        if self.options.dry_run {
            let reason = if entry.existed { SkipReason::Identical } else { SkipReason::DryRun };
            return self.report_end(&entry.target, End::Skipped(reason));
        }
        let set = node.directory.as_ref().map_or(Ok(()), |it| self.complete_directory(it, entry, attributes));
        let text = set.map_err(|error| format!("mode or times cannot be set: {error}"));
        self.report_end(&entry.target, text.as_ref().map_or_else(|text| End::Failed(text), |()| End::Done))
    }

    fn complete_directory(
        &self,
        directory: &Arc<Directory>,
        entry: &NodeEntry,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let handle = directory.handle()?;
        let mode = attributes.set_directory_mode(&*handle, entry.mode, self.options.special_modes);
        let times = attributes.set_times(&*handle);
        if self.options.sync {
            fsync(&*handle)?;
        }
        mode?;
        // The next copy removes a file that stays.
        let _ = entry.forget_mode();
        // The times of a directory that existed cannot be set if it has another owner.
        if entry.existed { Ok(()) } else { times }
    }
}
