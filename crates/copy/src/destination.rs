//! Destination of a copy: decides what it needs, writes and verifies it.
//!
//! | noun | file | runs on |
//! |---|---|---|
//! | destination directory | `dest.rs` | the task of the copy, before its threads |
//! | planner | `plan.rs` | a thread: directories, links, and which files are wanted |
//! | worker | `worker.rs` | several threads, each with files of its own |
//! | part | `part.rs` | file in progress and its journal |
//! | final name | `final_name.rs` | name of a complete file, taken in one step |
//! | marker | `marker.rs` | file beside a new directory, by which the same command goes on |
//! | tree | `tree.rs` | directories in progress, state of all threads |
//! | attributes | `attributes.rs` | modes and times, as the file system holds them |
//! | buffers | `buffers.rs` | limited memory from the network task to the threads |

mod attributes;
mod buffers;
mod dest;
mod final_name;
mod marker;
mod part;
mod plan;
mod tree;
mod worker;

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rdt_udp::clock;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use self::attributes::TimeProbe;
use self::buffers::{Buffers, Room};
use self::dest::Missing;
pub(crate) use self::dest::{OpenDestination, Sources};
use self::final_name::Placed;
use self::marker::Marker;
pub(crate) use self::plan::Expected;
use self::plan::{Planner, Step};
use self::tree::{Node, Shared};
use self::worker::{Job, Work, Worker};
use crate::compression::Decompressor;
use crate::directory::Directory;
use crate::frame::{Batch, FrameHead, FrameReader, write_message};
use crate::protocol::{Entry, FromDestination, FromSource, HashBytes, MAX_UNRESOLVED};
use crate::report::{Lost, Report};
use crate::superseded_sessions::Running;
use crate::threads::Threads;
use crate::{CopyError, DestinationOptions, Event};

/// Limit on threads that write files. One file needs one.
const MAX_WORKERS: usize = 4;
/// Limit on replies that wait to be written to the stream.
const MAX_QUEUED_REPLIES: usize = 1024;
/// Time between two reports of the bytes written.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Memory charged for each queued frame in addition to its data, bytes.
const JOB_BYTES: usize = 256;

/// Stops long work of the threads when the copy ends early or is dropped.
struct StopGuard(Arc<Shared>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct Destination {
    shared: StopGuard,
    queues: Queues,
    threads: Threads,
    replies: Receiver<FromDestination>,
    fatal: UnboundedReceiver<CopyError>,
    directory: Option<Arc<Directory>>,
    /// Directory that this copy has created as DEST.
    created: Option<Missing>,
    marker: Option<Marker>,
    other: Option<Marker>,
}

/// Queues to the threads, and the order in which frames may come.
struct Queues {
    steps: Sender<(Step, Room)>,
    workers: Vec<Sender<Work>>,
    buffers: Buffers,
    last_id: u64,
    /// True: no entry follows.
    is_listed: bool,
    /// File whose data have begun, and not ended. One at a time, so that few files are open.
    current: Option<u64>,
}

impl Destination {
    /// Returns the identity of the directory where the copy goes.
    pub(crate) fn identity(&self) -> Option<HashBytes> {
        self.directory.as_ref().and_then(|directory| directory.identity())
    }

    pub(crate) fn start(
        open: OpenDestination,
        options: DestinationOptions,
        running: Option<Running>,
        report: &Report,
    ) -> Result<Self, CopyError> {
        let (to_replies, replies) = mpsc::channel(MAX_QUEUED_REPLIES);
        let (to_fatal, fatal) = unbounded_channel();
        let mut threads = Threads::new(to_fatal.clone());
        let shared = Arc::new(Shared {
            options,
            report: report.clone(),
            replies: to_replies,
            fatal: to_fatal,
            unresolved: AtomicUsize::new(0),
            resolved: Notify::new(),
            placed: Placed::default(),
            is_stopped: AtomicBool::new(false),
            started: clock::now(),
            _running: running,
        });
        let count = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, MAX_WORKERS);
        let mut workers = Vec::new();
        for _ in 0..count {
            let (jobs, queue) = channel();
            let worker = Worker::new(Arc::clone(&shared));
            // Ends early if the copy has ended.
            threads.start("write", 0, move || _ = worker.run(&queue))?;
            workers.push(jobs);
        }
        let (steps, queue) = channel();
        let OpenDestination { directory, is_new, missing: created, top, marker, other } =
            open.create(options)?;
        let planner = Planner {
            shared: Arc::clone(&shared),
            nodes: vec![Node::new(directory.clone(), None)],
            top,
            is_new,
            marker: marker.clone(),
            probe: TimeProbe::new(options.dry_run),
            workers: workers.clone(),
        };
        threads.start("plan", 0, move || _ = planner.run(&queue))?;
        let queues =
            Queues { steps, workers, buffers: Buffers::new(), last_id: 0, is_listed: false, current: None };
        let shared = StopGuard(shared);
        Ok(Self { shared, queues, threads, replies, fatal, directory, created, marker, other })
    }

    /// Runs the copy to its end over a stream whose opening is done. The caller removes the marker
    /// that it returns when the peer knows of the end: until then, the same command may come again.
    pub(crate) async fn run(
        self,
        reader: &mut FrameReader<impl AsyncRead + Unpin>,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Option<Marker>, CopyError> {
        let Self { shared, mut queues, threads, replies, mut fatal, directory, created, marker, other } =
            self;
        if let (Some(directory), Some(other)) = (&directory, other) {
            other.remove_if_other(directory);
        }
        let sync = shared.0.options.sync;
        let report = shared.0.report.clone();
        let error = |error| CopyError::System { step: "cannot decompress", error };
        reader.decompress_with(Decompressor::new(&report).map_err(error)?);
        // Continues after the reads have ended, because it may be in the middle of a frame.
        let mut writing = Box::pin(write_replies(replies, writer, &report));
        let result = tokio::select! {
            result = read(reader, &mut queues, &shared.0) => result,
            Err(error) = &mut writing => Err(error),
            Some(error) = fatal.recv() => Err(error),
        };
        drop((queues, shared));
        if let Err(error) = result {
            drop(writing);
            threads.join().await;
            // The peer's protocol error is more specific than the end of the stream.
            return Err(fatal.try_recv().unwrap_or(error));
        }
        tokio::try_join!(writing, async {
            threads.join().await;
            Ok(())
        })?;
        if let Ok(error) = fatal.try_recv() {
            return Err(error);
        }
        let summary = report.summary();
        if let Some(created) = &created {
            created.remove_if_unused(&summary);
        }
        if sync && let Some(directory) = directory {
            let error = |error| CopyError::System { step: "cannot sync the destination", error };
            let sync = move || directory.handle().and_then(|handle| Ok(rustix::fs::fsync(&*handle)?));
            tokio::task::spawn_blocking(sync).await.unwrap_or(Ok(())).map_err(error)?;
        }
        write_message(writer, &FromDestination::Finished).await?;
        // Then a repeated command has nothing left to copy.
        let is_over = summary.is_complete() || summary.directories == 0;
        Ok(marker.filter(|_| is_over))
    }
}

fn worker_of(id: u64, workers: usize) -> usize {
    usize::try_from(id % workers as u64).unwrap_or(0)
}

/// Writes replies, and what was written of files, until the threads have ended.
pub(crate) async fn write_replies(
    mut replies: Receiver<FromDestination>,
    writer: &mut (impl AsyncWrite + Unpin),
    report: &Report,
) -> Result<(), CopyError> {
    let mut batch = Batch::new();
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_ended = false;
    while !has_ended {
        let mut next = tokio::select! {
            reply = replies.recv() => {
                has_ended = reply.is_none();
                reply
            }
            _ = ticks.tick() => None,
        };
        while let Some(reply) = next {
            put(&mut batch, &reply, writer).await?;
            next = replies.try_recv().ok();
        }
        // After the replies, so that nothing of their files is left out.
        if let Some(written) = report.take_unreported() {
            put(&mut batch, &written, writer).await?;
        }
        write_batch(&mut batch, writer).await?;
    }
    Ok(())
}

/// Adds a reply to the batch. A full batch is written before.
async fn put(
    batch: &mut Batch,
    reply: &FromDestination,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), CopyError> {
    if !batch.put_control(reply) {
        write_batch(batch, writer).await?;
        // Replies are short, except for texts of the system, which fit an empty batch.
        batch.put_control(reply);
    }
    Ok(())
}

async fn write_batch(batch: &mut Batch, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), CopyError> {
    if !batch.is_empty() {
        writer.write_all(batch.as_bytes()).await.map_err(CopyError::Stream)?;
        batch.clear();
    }
    Ok(())
}

/// Reads frames until the list is complete and all its entries are resolved.
async fn read<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    queues: &mut Queues,
    shared: &Shared,
) -> Result<(), CopyError> {
    loop {
        let head = if queues.is_listed {
            tokio::select! {
                biased;
                () = shared.all_resolved() => return Ok(()),
                head = reader.head() => head?,
            }
        } else {
            reader.head().await?
        };
        match head {
            None => return Err(CopyError::Stream(io::ErrorKind::UnexpectedEof.into())),
            Some(FrameHead::Data { id, offset, length }) => {
                queues.check(id)?;
                let room = queues.buffers.room(length + JOB_BYTES).await;
                let mut bytes = queues.buffers.buffer(length);
                reader.data(bytes.as_mut()).await?;
                queues.job(id, Job::Data { offset, bytes }, room)?;
            }
            Some(FrameHead::Control(length)) => {
                let room = queues.buffers.room(length + JOB_BYTES).await;
                let message = reader.control(length).await?;
                handle(message, room, queues, shared)?;
            }
        }
    }
}

/// Passes a message on.
fn handle(message: FromSource, room: Room, queues: &mut Queues, shared: &Shared) -> Result<(), CopyError> {
    let (id, job) = match message {
        FromSource::Entry(entry) => {
            queues.admit(&entry, shared)?;
            queues.step(Step::Entry(entry), room);
            return Ok(());
        }
        FromSource::Leave { id } => {
            queues.step(Step::Leave { id }, room);
            return Ok(());
        }
        FromSource::Unreadable { path, text } => {
            shared.report.failed(Path::new(std::ffi::OsStr::from_bytes(&path)), &text, Lost::default());
            queues.step(Step::Unreadable { path }, room);
            return Ok(());
        }
        FromSource::Total { files, bytes } => {
            shared.report.event(&Event::Total { files, bytes });
            queues.step(Step::End, room);
            queues.is_listed = true;
            return Ok(());
        }
        FromSource::Hole { id, offset, len } => (id, Job::Hole { offset, len }),
        FromSource::Group { id, chaining_value } => (id, Job::Group(chaining_value)),
        FromSource::End { id, root } => (id, Job::End(root)),
        FromSource::Stopped { id, text, is_unchanged } => (id, Job::Stopped { text, is_unchanged }),
        FromSource::Same { id } => (id, Job::Same),
        FromSource::Different { id, root } => (id, Job::Different { root }),
    };
    queues.job(id, job, room)
}

impl Queues {
    fn step(&self, step: Step, room: Room) {
        // Fails if the planner has ended, which ends the copy.
        let _ = self.steps.send((step, room));
    }

    /// Queues a job for a file, the only one whose data are under way.
    fn job(&mut self, id: u64, job: Job, room: Room) -> Result<(), CopyError> {
        self.check(id)?;
        if !matches!(job, Job::Data { .. } | Job::Hole { .. } | Job::Group(_)) {
            self.current = None;
        }
        let worker = &self.workers[worker_of(id, self.workers.len())];
        // Fails if the worker has ended, which ends the copy.
        let _ = worker.send(Work { id, job, room });
        Ok(())
    }

    fn check(&mut self, id: u64) -> Result<(), CopyError> {
        if *self.current.get_or_insert(id) == id {
            return Ok(());
        }
        Err(CopyError::Protocol("data of two files at the same time".into()))
    }

    fn admit(&mut self, entry: &Entry, shared: &Shared) -> Result<(), CopyError> {
        if self.is_listed {
            return Err(CopyError::Protocol("an entry after the end of the list".into()));
        }
        if entry.id != self.last_id + 1 {
            return Err(CopyError::Protocol(format!("entry {} after {}", entry.id, self.last_id)));
        }
        self.last_id = entry.id;
        if shared.unresolved.fetch_add(1, Ordering::Relaxed) >= MAX_UNRESOLVED {
            return Err(CopyError::Protocol("more entries than this side can hold".into()));
        }
        Ok(())
    }
}
