//! Source of a copy: lists the tree, sends the files that the destination wants.
//!
//! | noun | file | runs on |
//! |---|---|---|
//! | walk | `walk.rs` | a thread |
//! | reader | `read.rs` | a thread |
//! | pending entries | `pending.rs` | shared by all |
//! | outgoing batches | `outgoing.rs` | from both threads to the network task |

mod outgoing;
mod pending;
pub(crate) mod read;
mod walk;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use self::outgoing::{Outgoing, Spare};
use self::pending::Pending;
use self::read::{Reader, Want};
use self::walk::Walk;
pub(crate) use self::walk::{excludes, is_excluded_source, top_name};
use crate::directory::RootDirectory;
use crate::frame::{Batch, FrameReader, control_frame};
use crate::name::refuse;
use crate::protocol::{FromDestination, FromSource, HashBytes, RawPath, Start};
use crate::report::{Lost, Report};
use crate::threads::Threads;
use crate::tree_hash::TreeHash;
use crate::{CopyError, SourceOptions};

/// Stack of the walking thread, bytes: directories are nested up to 1000 deep.
const WALK_STACK_BYTES: usize = 16 << 20;

/// Ends the threads when the copy ends, or is dropped.
struct StopGuard(Arc<Pending>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Source of one copy.
pub(crate) struct Source {
    pending: Arc<Pending>,
    guard: StopGuard,
    report: Report,
    /// `None` after everything was wanted that will be.
    wants: Option<Sender<Want>>,
    batches: Receiver<Batch>,
    spare: Spare,
    listed: oneshot::Receiver<()>,
    threads: Threads,
    fatal: UnboundedReceiver<CopyError>,
}

impl Source {
    /// Starts to list the sources, but for the destination with the identity `into`.
    pub(crate) fn start(
        root: RootDirectory,
        sources: Vec<PathBuf>,
        options: &SourceOptions,
        into: Option<HashBytes>,
        report: &Report,
    ) -> Result<Self, CopyError> {
        let pending = Arc::new(Pending::default());
        let excludes = excludes(options)?;
        let ([to_walk, to_reader], batches, spare) = Outgoing::pair();
        let walk = Walk {
            root,
            follow: options.follow,
            excludes,
            into,
            pending: Arc::clone(&pending),
            out: to_walk,
            report: report.clone(),
            files: 0,
            bytes: 0,
            held_names: 0,
        };
        let reader = Reader { pending: Arc::clone(&pending), out: to_reader, report: report.clone() };
        let (wants, queue) = channel();
        let (has_listed, listed) = oneshot::channel();
        let (to_fatal, fatal) = unbounded_channel();
        let mut threads = Threads::new(to_fatal);
        // Before the threads, so that one that was started ends if another one cannot be.
        let guard = StopGuard(Arc::clone(&pending));
        threads.start("walk", WALK_STACK_BYTES, move || {
            if walk.run(&sources).is_ok() {
                // Fails if the copy has ended.
                let _ = has_listed.send(());
            }
        })?;
        threads.start("read", 0, move || {
            // Ends early if the copy has ended.
            let _ = reader.run(&queue);
        })?;
        let report = report.clone();
        Ok(Self { pending, guard, report, wants: Some(wants), batches, spare, listed, threads, fatal })
    }

    /// Runs the copy to its end over a stream whose opening is done.
    pub(crate) async fn run<R, W>(
        mut self,
        reader: &mut FrameReader<R>,
        writer: &mut W,
    ) -> Result<(), CopyError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let result = self.exchange(reader, writer).await;
        let Self { threads, guard, wants, batches, .. } = self;
        drop((guard, wants, batches));
        threads.join().await;
        result
    }

    async fn exchange<R, W>(&mut self, reader: &mut FrameReader<R>, writer: &mut W) -> Result<(), CopyError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (finish, finished) = oneshot::channel();
        let Self { pending, report, wants, batches, spare, listed, fatal, .. } = self;
        let answers = Answers { pending, report, wants: wants.as_ref(), finish: Some(finish) };
        let sending = send(batches, spare, finished, writer);
        let exchange = async { tokio::try_join!(answers.read(reader, listed), sending).map(drop) };
        tokio::select! {
            result = exchange => result,
            Some(error) = fatal.recv() => Err(error),
        }
    }
}

/// Writes batches until everything is resolved, and then that this is so.
async fn send(
    batches: &mut Receiver<Batch>,
    spare: &Spare,
    mut finished: oneshot::Receiver<()>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), CopyError> {
    loop {
        let batch = tokio::select! {
            biased;
            Some(batch) = batches.recv() => batch,
            result = &mut finished => {
                if result.is_err() {
                    // The reading half has failed, and its error counts.
                    return Ok(());
                }
                break;
            }
        };
        writer.write_all(batch.as_bytes()).await.map_err(CopyError::Stream)?;
        spare.give(batch);
    }
    let finish = control_frame(&FromSource::Finish)?;
    writer.write_all(&finish).await.map_err(CopyError::Stream)?;
    writer.flush().await.map_err(CopyError::Stream)
}

/// Answers of the destination.
struct Answers<'a> {
    pending: &'a Pending,
    report: &'a Report,
    wants: Option<&'a Sender<Want>>,
    finish: Option<oneshot::Sender<()>>,
}

impl Answers<'_> {
    async fn read<R: AsyncRead + Unpin>(
        mut self,
        reader: &mut FrameReader<R>,
        listed: &mut oneshot::Receiver<()>,
    ) -> Result<(), CopyError> {
        let mut is_listed = false;
        loop {
            // Not cancelled in the middle of a frame: the end of the list only needs a look.
            let message = {
                let message = reader.message();
                tokio::pin!(message);
                loop {
                    tokio::select! {
                        message = &mut message => break message?,
                        result = &mut *listed, if !is_listed => {
                            is_listed = true;
                            if result.is_ok() {
                                self.pending.end_list();
                                self.finish_if_resolved();
                            }
                        }
                    }
                }
            };
            match message {
                None => return Err(CopyError::Stream(std::io::ErrorKind::UnexpectedEof.into())),
                Some(FromDestination::Finished) if self.finish.is_none() => return Ok(()),
                Some(message) => self.handle(message)?,
            }
        }
    }

    fn finish_if_resolved(&mut self) {
        if self.pending.is_finished()
            && let Some(finish) = self.finish.take()
        {
            // Fails if the sending half has failed, and its error counts.
            let _ = finish.send(());
        }
    }

    fn handle(&mut self, message: FromDestination) -> Result<(), CopyError> {
        let unknown = |id| CopyError::Protocol(format!("entry {id} is not unresolved"));
        match message {
            FromDestination::Want { id, start } => {
                let file = self.pending.want(id).ok_or_else(|| unknown(id))?;
                let tree = match &start {
                    Start::Resume { offset, stack } => TreeHash::resume(file.size, *offset, stack)
                        .ok_or_else(|| CopyError::Protocol(format!("entry {id} cannot begin at {offset}")))?,
                    _ => TreeHash::new(file.size),
                };
                if let Some(wants) = self.wants {
                    // Fails if the reader has ended with the copy.
                    let _ = wants.send(Want { id, file, start, tree });
                }
                return Ok(());
            }
            FromDestination::Done { id, name } => {
                let item = self.pending.resolve(id).ok_or_else(|| unknown(id))?;
                self.report.done(&stored_path(item.trail.path(), name)?, item.kind, item.size);
            }
            FromDestination::Skip { id, reason, name } => {
                let item = self.pending.resolve(id).ok_or_else(|| unknown(id))?;
                self.report.skipped(
                    &stored_path(item.trail.path(), name)?,
                    item.kind,
                    reason.into(),
                    item.size,
                );
            }
            FromDestination::Failed { id, text, missing_bytes } => {
                let item = self.pending.resolve(id).ok_or_else(|| unknown(id))?;
                let (kind, bytes) = (Some(item.kind), item.size);
                let lost = Lost { kind, bytes, missing_bytes: missing_bytes.min(bytes) };
                self.report.failed(&item.trail.path(), &text, lost);
            }
            FromDestination::Written { bytes, sent_bytes } => self.report.written(bytes, sent_bytes),
            FromDestination::Finished => {
                return Err(CopyError::Protocol("the end before all entries are resolved".into()));
            }
        }
        self.finish_if_resolved();
        Ok(())
    }
}

/// Returns the path of an entry that is stored under another name.
fn stored_path(mut path: PathBuf, name: Option<RawPath>) -> Result<PathBuf, CopyError> {
    if let Some(name) = name {
        if let Some(why) = refuse(&name) {
            return Err(CopyError::Protocol(why.into()));
        }
        path.set_file_name(OsStr::from_bytes(&name));
    }
    Ok(path)
}
