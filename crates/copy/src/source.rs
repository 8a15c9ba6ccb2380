//! Source of a copy: lists the tree, sends the files that the destination wants.
//!
//! | noun | file | runs on |
//! |---|---|---|
//! | walk, its begin at named sources | `walk.rs`, `top.rs` | a thread |
//! | wildcards | `wildcard.rs` | the same thread |
//! | excludes | `excludes.rs` | the same thread, and the other side |
//! | reader | `read.rs` | a thread |
//! | pending entries | `pending.rs` | shared by all |
//! | outgoing batches | `outgoing.rs` | from both threads to the network task |

mod excludes;
mod outgoing;
mod pending;
pub(crate) mod read;
mod top;
mod walk;
mod wildcard;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use rdt_udp::clock;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};

pub(crate) use self::excludes::{excludes, is_excluded_source};
use self::outgoing::Outgoing;
pub(crate) use self::outgoing::Spare;
use self::pending::Pending;
use self::read::{Reader, Want};
pub(crate) use self::top::SourcePath;
use self::walk::{CONTENTS_BYTES, Walk};
pub(crate) use self::wildcard::{Wildcard, is_pattern};
use crate::compression::{Compressor, Line};
use crate::directory::RootDirectory;
use crate::frame::{Batch, FrameReader};
use crate::name::refuse;
use crate::protocol::{FromDestination, HashBytes, RawPath, Start};
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

/// Sources, as the request names them.
pub(crate) struct Named {
    pub(crate) paths: Vec<PathBuf>,
    /// True: a path with wildcards stands for what it matches.
    pub(crate) has_wildcards: bool,
}

pub(crate) struct Source {
    pending: StopGuard,
    report: Report,
    wants: Sender<Want>,
    batches: Receiver<Batch>,
    spare: Spare,
    line: Arc<Line>,
    threads: Threads,
    fatal: UnboundedReceiver<CopyError>,
}

impl Source {
    /// Starts to list the sources. Small files leave with their entries if the destination
    /// `takes_contents`. Directories wait for [`Self::accepted`], or for the answer that
    /// [`Self::run`] reads.
    pub(crate) fn start(
        root: RootDirectory,
        sources: Named,
        options: &SourceOptions,
        takes_contents: bool,
        report: &Report,
    ) -> Result<Self, CopyError> {
        let pending = Arc::new(Pending::default());
        let excludes = excludes(options)?;
        let ([to_walk, to_reader], batches, spare) = Outgoing::pair();
        let walk = Walk {
            root: Arc::new(root),
            follow: options.follow,
            has_wildcards: sources.has_wildcards,
            top_names: BTreeMap::new(),
            excludes,
            pending: Arc::clone(&pending),
            out: to_walk,
            report: report.clone(),
            files: 0,
            bytes: 0,
            contents_left: if takes_contents { CONTENTS_BYTES } else { 0 },
            held_names: 0,
        };
        let reader = Reader { pending: Arc::clone(&pending), out: to_reader, report: report.clone() };
        let (wants, queue) = channel();
        let (to_fatal, fatal) = unbounded_channel();
        let mut threads = Threads::new(to_fatal);
        // Before the threads, so that one that was started ends if another one cannot be.
        let pending = StopGuard(pending);
        // The threads end early if the copy has ended.
        threads.start("walk", WALK_STACK_BYTES, move || _ = walk.run(&sources.paths))?;
        threads.start("read", 0, move || _ = reader.run(&queue))?;
        let (line, report) = (Arc::new(Line::default()), report.clone());
        let compressor = Compressor::new(options.compression, &line, &spare, &report);
        let error = |error| CopyError::System { step: "cannot compress", error };
        let batches = match compressor.map_err(error)? {
            None => batches,
            Some(compressor) => {
                let (queue, compressed) = outgoing::compressed();
                threads.start("compress", 0, move || _ = compressor.run(batches, &queue))?;
                compressed
            }
        };
        Ok(Self { pending, report, wants, batches, spare, line, threads, fatal })
    }

    /// Notes that the copy was accepted, for a destination with the identity `into`, which is not
    /// listed.
    pub(crate) fn accepted(self, into: Option<HashBytes>) -> Self {
        self.pending.0.accept(into);
        self
    }

    /// Runs the copy to its end. Reads the server's answer, unless the copy was accepted before.
    pub(crate) async fn run(
        mut self,
        reader: &mut FrameReader<impl AsyncRead + Unpin>,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), CopyError> {
        let result = self.exchange(reader, writer).await;
        let Self { threads, pending, wants, batches, .. } = self;
        drop((pending, wants, batches));
        threads.join().await;
        result
    }

    async fn exchange(
        &mut self,
        reader: &mut FrameReader<impl AsyncRead + Unpin>,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), CopyError> {
        let Self { pending: StopGuard(pending), report, wants, batches, spare, line, fatal, .. } = self;
        let answers = Answers { pending, report, wants };
        tokio::select! {
            result = answers.read(reader) => result,
            Err(error) = send(batches, spare, line, writer) => Err(error),
            Some(error) = fatal.recv() => Err(error),
        }
    }
}

/// Writes batches until the threads have ended.
async fn send(
    batches: &mut Receiver<Batch>,
    spare: &Spare,
    line: &Line,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), CopyError> {
    while let Some(batch) = batches.recv().await {
        let begun_at = clock::now();
        writer.write_all(batch.as_bytes()).await.map_err(CopyError::Stream)?;
        line.took(batch.len(), clock::now().saturating_duration_since(begun_at));
        spare.give(batch);
    }
    Ok(())
}

struct Answers<'a> {
    pending: &'a Pending,
    report: &'a Report,
    wants: &'a Sender<Want>,
}

impl Answers<'_> {
    /// Reads until the destination has finished.
    async fn read(&self, reader: &mut FrameReader<impl AsyncRead + Unpin>) -> Result<(), CopyError> {
        if !self.pending.is_accepted() {
            self.pending.accept(reader.answer().await?);
        }
        loop {
            match reader.message().await? {
                None => return Err(CopyError::Stream(std::io::ErrorKind::UnexpectedEof.into())),
                Some(FromDestination::Finished) if self.pending.is_finished() => return Ok(()),
                Some(message) => self.handle(message)?,
            }
        }
    }

    fn handle(&self, message: FromDestination) -> Result<(), CopyError> {
        let unknown = |id| CopyError::Protocol(format!("entry {id} is not unresolved"));
        let resolve = |id| self.pending.resolve(id).ok_or_else(|| unknown(id));
        match message {
            FromDestination::Want { id, start } => {
                let file = self.pending.want(id).ok_or_else(|| unknown(id))?;
                let tree = match &start {
                    Start::Resume { offset, stack } => TreeHash::resume(file.size, *offset, stack)
                        .ok_or_else(|| CopyError::Protocol(format!("entry {id} cannot begin at {offset}")))?,
                    _ => TreeHash::new(file.size),
                };
                // Fails if the reader has ended with the copy.
                let _ = self.wants.send(Want { id, file, start, tree });
            }
            FromDestination::Done { id, name } => {
                let item = resolve(id)?;
                self.report.done(&stored_path(item.trail.path(), name)?, item.kind, item.size);
            }
            FromDestination::Skip { id, reason, name } => {
                let item = resolve(id)?;
                let path = stored_path(item.trail.path(), name)?;
                self.report.skipped(&path, item.kind, reason, item.size);
            }
            FromDestination::Failed { id, text, missing_bytes } => {
                let item = resolve(id)?;
                let (kind, bytes) = (Some(item.kind), item.size);
                let lost = Lost { kind, bytes, missing_bytes: missing_bytes.min(bytes) };
                self.report.failed(&item.trail.path(), &text, lost);
            }
            FromDestination::Written { bytes, sent_bytes } => self.report.written(bytes, sent_bytes),
            FromDestination::Finished => {
                return Err(CopyError::Protocol("the end before all entries are resolved".into()));
            }
        }
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
