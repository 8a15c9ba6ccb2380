//! Sessions: one copy over one stream.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, timeout};

use crate::destination::{Destination, Expected, OpenDestination, Sources};
use crate::directory::RootDirectory;
use crate::frame::{FrameReader, write_message};
use crate::protocol::{Answer, HashBytes, Hello, MAGIC, MAX_SOURCES, VERSION, WireRequest};
use crate::report::Report;
use crate::source::{Named, Source, SourcePath, excludes, is_pattern};
use crate::superseded_sessions::{Command, PushSession, Running};
use crate::{
    CopyError, DestinationOptions, Event, Existing, Observer, Permission, Request, Root, SourceOptions,
    Summary,
};

/// Time for the ends of both streams after the copy is complete.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the request of a client, which sends it as soon as it is connected.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Stream that carries a copy: `rdt_endpoint::tokio::Stream`, or anything like it.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// Copies from this host to the peer, which calls [`serve`].
///
/// # Errors
/// If the copy as a whole fails. Failures of single files are in the summary.
pub async fn push(
    stream: impl ByteStream,
    request: Request,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    let (mut session, root) = open(stream, &request, false, observer)?;
    let command = hash_of_command(&request, &root.path);
    let wire = WireRequest::Push {
        dest: request.dest.into_os_string().into_vec(),
        sources: request.sources.len() as u64,
        first_name: request.sources.first().map(|it| SourcePath::of(it).top_name()).unwrap_or_default(),
        options: request.destination.into(),
        command,
    };
    session.ask(wire).await?;
    let sources = Named { paths: request.sources, has_wildcards: false };
    let takes_contents = request.destination.takes_contents();
    let source = Source::start(root, sources, &request.source, takes_contents, &session.report)?;
    source.run(&mut session.reader, &mut session.writer).await?;
    Ok(session.close().await.0)
}

/// Copies from the peer, which calls [`serve`], to this host.
///
/// # Errors
/// If the copy as a whole fails. Failures of single files are in the summary.
pub async fn pull(
    stream: impl ByteStream,
    request: Request,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    Ok(pull_to_end(stream, request, observer).await?.close().await.0)
}

/// Copies as [`pull`], and does not wait until the peer has read that the copy is complete.
pub(crate) async fn pull_unconfirmed(
    stream: impl ByteStream,
    request: Request,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    let mut session = pull_to_end(stream, request, observer).await?;
    // The copy is over, whether that works or not.
    let _ = session.writer.shutdown().await;
    Ok(session.summary())
}

async fn pull_to_end<S: ByteStream>(
    stream: S,
    request: Request,
    observer: Arc<dyn Observer>,
) -> Result<Session<S>, CopyError> {
    let (mut session, root) = open(stream, &request, true, observer)?;
    if request.sources.len() > MAX_SOURCES {
        return Err(CopyError::Request(format!("more than {MAX_SOURCES} sources: name their directory")));
    }
    let excludes = excludes(&request.source)?;
    let expected: Vec<_> = request.sources.iter().map(|it| Expected::of(it, &excludes)).collect();
    let sources: Vec<_> = expected.iter().map(|source| source.path.clone()).collect();
    let first_name = expected.first().map(|source| source.name.clone()).unwrap_or_default();
    // A pattern may match any number of names.
    let count = if expected.iter().any(|it| it.is_pattern) { u64::MAX } else { sources.len() as u64 };
    let named = Sources { count, first_name, expected: Some(expected) };
    let open = OpenDestination::open(&root, &request.dest, named, request.destination)?;
    let SourceOptions { follow, excludes, compression } = request.source;
    let into = open.identity();
    let with_contents = request.destination.takes_contents();
    session.ask(WireRequest::Pull { sources, follow, excludes, into, compression, with_contents }).await?;
    session.reader.answer().await?;
    let destination = Destination::start(open, request.destination, None, &session.report)?;
    let marker = destination.run(&mut session.reader, &mut session.writer).await?;
    if let Some(marker) = marker {
        marker.remove();
    }
    Ok(session)
}

/// Checks a request of this side, and opens what it needs.
fn open<S: ByteStream>(
    stream: S,
    request: &Request,
    has_wildcards: bool,
    observer: Arc<dyn Observer>,
) -> Result<(Session<S>, RootDirectory), CopyError> {
    check_sources(request, has_wildcards)?;
    excludes(&request.source)?;
    let root = Root::whole().map_err(|error| CopyError::System { step: "the current directory", error })?;
    let root = open_root(&root)?;
    Ok((Session::new(stream, observer), root))
}

/// Answers one request of the peer within `root`.
///
/// # Errors
/// If the copy as a whole fails, or the request was refused.
pub async fn serve(
    stream: impl ByteStream,
    root: Root,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    let mut session = Session::new(stream, observer);
    let request = timeout(REQUEST_TIMEOUT, session.receive_request()).await;
    let request = request.unwrap_or(Err(CopyError::NoRequest))?;
    let Some(push) = register(&request, &root) else { return answer(session, request, root, None).await };
    let answered = async {
        let running = push.begin().await;
        answer(session, request, root, Some(running)).await
    };
    tokio::select! {
        result = answered => result,
        () = push.superseded() => Err(CopyError::Replaced),
    }
}

/// Registers a push of a client with a key, which supersedes earlier sessions of the same command.
/// A dry run writes nothing, so it supersedes none.
fn register(request: &WireRequest, root: &Root) -> Option<PushSession> {
    let WireRequest::Push { command, options, .. } = request else { return None };
    let options = DestinationOptions::try_from(*options).ok().filter(|options| !options.dry_run);
    let peer = options.and(root.peer.clone())?;
    Some(root.pushes.register(Command { peer, hash: *command }))
}

/// Returns the hash of a command that was given in `folder`. Other folders have other files under
/// the same relative paths.
fn hash_of_command(request: &Request, folder: &Path) -> HashBytes {
    let Request { sources, dest, source: SourceOptions { follow, excludes, .. }, destination } = request;
    let mut hasher = blake3::Hasher::new_derive_key("rdt-copy 1 command");
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(format!("{destination:?} {follow} {}", sources.len()).as_bytes());
    for path in [folder, dest].into_iter().chain(sources.iter().map(PathBuf::as_path)) {
        add(path.as_os_str().as_bytes());
    }
    for line in excludes {
        add(line.as_bytes());
    }
    hasher.finalize().into()
}

async fn answer<S: ByteStream>(
    mut session: Session<S>,
    request: WireRequest,
    root: Root,
    running: Option<Running>,
) -> Result<Summary, CopyError> {
    let prepared = match prepare(request, &root, running, &session.report) {
        Ok(prepared) => prepared,
        Err(error) => {
            session.answer(&Answer::Refused { text: error.to_string() }).await?;
            session.close().await;
            return Err(error);
        }
    };
    let into = match &prepared {
        Prepared::Destination(destination) => destination.identity(),
        Prepared::Source(_) => None,
    };
    session.answer(&Answer::Accepted { version: VERSION, into }).await?;
    let marker = match prepared {
        Prepared::Source(source) => {
            source.run(&mut session.reader, &mut session.writer).await?;
            None
        }
        Prepared::Destination(destination) => {
            destination.run(&mut session.reader, &mut session.writer).await?
        }
    };
    let (summary, has_peer_ended) = session.close().await;
    if let Some(marker) = marker.filter(|_| has_peer_ended) {
        marker.remove();
    }
    Ok(summary)
}

/// The server's side of a copy, ready to run.
enum Prepared {
    Source(Box<Source>),
    Destination(Box<Destination>),
}

fn prepare(
    request: WireRequest,
    root: &Root,
    running: Option<Running>,
    report: &Report,
) -> Result<Prepared, CopyError> {
    let refuse = |text: &str| Err(CopyError::Request(text.into()));
    let directory = open_root(root)?;
    let is_write_only = matches!(root.permission, Permission::WriteOnly | Permission::AddOnly);
    match request {
        WireRequest::Push { .. } if root.permission == Permission::ReadOnly => {
            refuse("this side may only be read")
        }
        WireRequest::Pull { .. } if is_write_only => refuse("this side may only be written to"),
        WireRequest::Push { dest, sources, first_name, options, .. } => {
            let dest = PathBuf::from(OsString::from_vec(dest));
            report.event(&Event::Request { push: true, path: &dest });
            let mut options: DestinationOptions =
                options.try_into().map_err(|text: &str| CopyError::Request(text.into()))?;
            if options.checksum && is_write_only {
                return refuse(
                    "this side may only be written to, and tells no contents: leave out --checksum",
                );
            }
            if options.existing == Existing::Overwrite && root.permission == Permission::AddOnly {
                return refuse("this side lets no file be replaced: leave out --overwrite");
            }
            // A file that runs with the rights of the server's user is not for a client to make.
            options.special_modes &= !root.confined;
            let sources = Sources { count: sources, first_name, expected: None };
            let open = OpenDestination::open(&directory, &dest, sources, options)?;
            Ok(Prepared::Destination(Box::new(Destination::start(open, options, running, report)?)))
        }
        WireRequest::Pull { sources, follow, excludes, into, compression, with_contents } => {
            let sources: Vec<PathBuf> =
                sources.into_iter().map(|source| OsString::from_vec(source).into()).collect();
            let Some(first) = sources.first() else { return refuse("no source is named") };
            report.event(&Event::Request { push: false, path: first });
            let compression = compression.of_peer(root.confined);
            let options = SourceOptions { follow, excludes, compression };
            let sources = Named { paths: sources, has_wildcards: true };
            let source = Source::start(directory, sources, &options, with_contents, report)?;
            Ok(Prepared::Source(Box::new(source.accepted(into))))
        }
    }
}

/// Both directions of a stream, and the account of the copy.
struct Session<S> {
    reader: FrameReader<ReadHalf<S>>,
    writer: WriteHalf<S>,
    report: Report,
    started: Instant,
}

impl<S: ByteStream> Session<S> {
    fn new(stream: S, observer: Arc<dyn Observer>) -> Self {
        let (read, writer) = split(stream);
        let (reader, report) = (FrameReader::new(read), Report::new(observer));
        Self { reader, writer, report, started: Instant::now() }
    }

    /// Sends the request.
    async fn ask(&mut self, request: WireRequest) -> Result<(), CopyError> {
        write_message(&mut self.writer, &Hello { magic: MAGIC, version: VERSION, request }).await
    }

    async fn receive_request(&mut self) -> Result<WireRequest, CopyError> {
        let Some(hello) = self.reader.message::<Hello>().await? else {
            return Err(CopyError::Stream(io::ErrorKind::UnexpectedEof.into()));
        };
        if hello.magic != MAGIC {
            return Err(CopyError::Protocol("its stream is not one of rdt-copy".into()));
        }
        if hello.version != VERSION {
            let text = format!("rdt-copy here speaks version {VERSION}, not {}", hello.version);
            self.answer(&Answer::Refused { text: text.clone() }).await?;
            return Err(CopyError::Protocol(text));
        }
        Ok(hello.request)
    }

    async fn answer(&mut self, answer: &Answer) -> Result<(), CopyError> {
        write_message(&mut self.writer, answer).await
    }

    /// Ends the outgoing stream and waits for the end of the peer's, so that the last bytes arrive.
    /// The copy is over, whether that works or not. Returns true with the summary if it has worked.
    async fn close(mut self) -> (Summary, bool) {
        let end = async {
            self.writer.shutdown().await.map_err(CopyError::Stream)?;
            self.reader.drain().await
        };
        let has_ended = matches!(timeout(CLOSE_TIMEOUT, end).await, Ok(Ok(())));
        (self.summary(), has_ended)
    }
}

impl<S> Session<S> {
    fn summary(&self) -> Summary {
        Summary { elapsed: self.started.elapsed(), ..self.report.summary() }
    }
}

/// Reports what was done, also of a copy that fails or is dropped.
impl<S> Drop for Session<S> {
    fn drop(&mut self) {
        self.report.event(&Event::Ended { summary: &self.summary() });
    }
}

fn open_root(root: &Root) -> Result<RootDirectory, CopyError> {
    RootDirectory::open(root)
        .map_err(|error| CopyError::Request(format!("{}: {error}", root.directory.display())))
}

/// Checks that the sources have different names, because they go into one directory.
fn check_sources(request: &Request, has_wildcards: bool) -> Result<(), CopyError> {
    if request.sources.is_empty() {
        return Err(CopyError::Request("no source is named".into()));
    }
    let mut names = BTreeSet::new();
    if request.dest.as_os_str().is_empty() {
        return Err(CopyError::Request("the destination has an empty path, which names nothing".into()));
    }
    for source in &request.sources {
        if source.as_os_str().is_empty() {
            return Err(CopyError::Request("a source has an empty path, which names nothing".into()));
        }
        let name = SourcePath::of(source).top_name();
        // The walk compares the names that patterns match.
        let is_any = name.is_empty() || (has_wildcards && is_pattern(source));
        if !is_any && !names.insert(name.clone()) {
            let text = format!("two sources have the name '{}'", name.escape_ascii());
            return Err(CopyError::Request(text));
        }
    }
    Ok(())
}
