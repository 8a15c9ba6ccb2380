//! Store of a receiver, as used by the network thread: the open transfers, and which of them has
//! reserved an output for one transfer. A thread of its own writes, because a disk may be slow and
//! the reader of a pipe may pause.

mod files;
mod queue;
mod writer;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf, is_separator};

use rdt_endpoint::files::{PartialFile, stored_name, sweep};
use rdt_program::files::is_descriptor;
use rdt_program::standard::{check_stdout, stdout};
use rdt_program::talk;

use crate::peer::Peer;
use files::{Files, Names, parent};
use queue::Job;
pub(crate) use writer::WriteResult;
use writer::{Sink, Writer};

pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    Discard,
    Files(Names),
    /// The standard output, for one transfer only.
    Stdout,
    /// This device, named pipe or open descriptor, for one transfer only.
    Device(PathBuf),
}

impl Output {
    /// Parses `--output`, checks that it can be written, and removes what killed receivers left
    /// there. Creates a directory that ends with a separator, but not its parents. A symbolic link
    /// to a file is refused, because the file would replace it, unless `force` is set.
    pub(crate) fn parse(path: Option<&Path>, force: bool) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::Discard) };
        if is_stdout(path) {
            check_stdout()?;
            return Ok(Self::Stdout);
        }
        if is_descriptor(path) {
            return Ok(Self::Device(path.into()));
        }
        // An unusable path fails here and not after the first transfer.
        if path.as_os_str().to_string_lossy().ends_with(is_separator) {
            create_directory(path)?;
        }
        let directory = path.is_dir();
        if path.exists() && !directory && !path.is_file() {
            return Ok(Self::Device(path.into()));
        }
        if !directory && path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no file name"));
        }
        if !directory && path.is_symlink() && !force {
            return Err(io::Error::other("it is a symbolic link: --force replaces it"));
        }
        let folder = if directory { path } else { parent(path) };
        PartialFile::create(folder)?;
        sweep(folder);
        Ok(Self::Files(if directory { Names::In(path.into()) } else { Names::One(path.into()) }))
    }

    /// True for an output that takes the bytes of one transfer as they arrive.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stdout | Self::Device(_))
    }
}

/// Creates a directory and says so, unless it exists.
fn create_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => talk(&format!("rdt-recv: created the directory {}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Identifies one transfer. A peer may have several, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transfer {
    /// Number of the transfer: unique, in ascending order.
    number: u64,
    pub(crate) peer: Peer,
}

/// Why the store has no place now. The sender is told that the receiver is busy, not broken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Busy {
    #[error("the output takes one transfer only")]
    Output,
    #[error("too many files are open (see ulimit -n)")]
    Files,
}

impl Busy {
    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<Self>)
    }
}

impl From<Busy> for io::Error {
    fn from(busy: Busy) -> Self {
        Self::new(io::ErrorKind::ResourceBusy, busy)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) path: Option<PathBuf>,
    /// With `--sync`: error of the directory's sync. A power loss may remove the file.
    pub(crate) unsynced: Option<io::Error>,
}

#[derive(Debug, Clone)]
struct Incoming {
    transfer: Transfer,
    /// Name for its file, safe as a component of a path; `None`: the address of the sender.
    name: Option<Box<str>>,
    /// True once the writer has bytes of it. Anyone can send a SYN, so that reserves no output.
    begun: bool,
}

/// Store of the transfers of one thread. No call blocks on a disk or on the reader of a pipe.
#[derive(Debug)]
pub(crate) struct Store {
    writer: Option<Writer>,
    incoming: BTreeMap<Peer, Incoming>,
    count: u64,
    is_stream: bool,
    is_taken: bool,
}

impl Store {
    /// Creates a store with at most `max_files` open files. `sync` requests an fsync before a
    /// transfer is reported as stored. `wake` is called when [`Store::poll`] has a result, when a
    /// full queue has room again, and when the writer thread ends.
    pub(crate) fn new(
        output: Output,
        sync: bool,
        max_files: usize,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let is_stream = output.is_stream();
        let writer = match output {
            Output::Discard => return Ok(Self::discard()),
            Output::Files(names) => Writer::new(Files::new(names, sync, max_files), wake),
            // The reader may pause for ever, so exiting does not wait for the writer thread.
            Output::Stdout => Writer::detached(Stream(Box::new(stdout())), wake),
            Output::Device(path) => Writer::detached(Stream(Box::new(Device { path, file: None })), wake),
        };
        Ok(Self { writer: Some(writer?), is_stream, ..Self::discard() })
    }

    pub(crate) fn discard() -> Self {
        Self { writer: None, incoming: BTreeMap::new(), count: 0, is_stream: false, is_taken: false }
    }

    /// Begins a transfer of `peer` with the name that it suggests; aborts its unfinished one.
    pub(crate) fn start(&mut self, peer: Peer, suggested: Option<&str>) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if let Some(Incoming { transfer, begun: true, .. }) = self.incoming.get(&peer) {
            if self.is_stream {
                return Err(io::Error::other("it began again when part of it was written"));
            }
            writer.queue.push(Job::Abort(*transfer));
        }
        self.count += 1;
        let transfer = Transfer { number: self.count, peer };
        let name = suggested.and_then(stored_name).map(String::into_boxed_str);
        self.incoming.insert(peer, Incoming { transfer, name, begun: false });
        Ok(())
    }

    /// Queues the next bytes of `peer`, and returns their number; 0 if the queue is full.
    pub(crate) fn write(&mut self, peer: Peer, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() || self.writer.is_none() {
            return Ok(bytes.len());
        }
        if !self.has_room() {
            return Ok(0);
        }
        let Some(transfer) = self.begin(peer)? else { return Ok(bytes.len()) };
        Ok(self.writer.as_mut().map_or(bytes.len(), |writer| writer.queue.write(transfer, bytes)))
    }

    pub(crate) fn has_room(&self) -> bool {
        self.writer.as_ref().is_none_or(|writer| writer.queue.has_room())
    }

    /// Completes the transfer of `peer`, all of whose bytes were queued. Must be called only if
    /// [`Store::has_room`], because a peer can send any number of empty transfers. Returns the
    /// transfer whose result [`Store::poll`] will return; `None` if there will be no result.
    pub(crate) fn finish(&mut self, peer: Peer) -> io::Result<Option<Transfer>> {
        let transfer = if self.writer.is_some() { self.begin(peer)? } else { None };
        let name = self.incoming.remove(&peer).and_then(|incoming| incoming.name);
        if let (Some(writer), Some(transfer)) = (&mut self.writer, transfer) {
            writer.queue.push(Job::Finish(transfer, name));
        }
        Ok(transfer)
    }

    /// Reserves the output for the transfer of `peer`; returns the transfer.
    fn begin(&mut self, peer: Peer) -> io::Result<Option<Transfer>> {
        self.check(peer)?;
        let Some(incoming) = self.incoming.get_mut(&peer) else { return Ok(None) };
        incoming.begun = true;
        self.is_taken |= self.is_stream;
        Ok(Some(incoming.transfer))
    }

    pub(crate) fn check(&self, peer: Peer) -> io::Result<()> {
        match self.incoming.get(&peer) {
            Some(Incoming { begun: false, .. }) if self.is_taken => Err(Busy::Output.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<WriteResult> {
        self.writer.as_mut()?.poll()
    }

    pub(crate) fn has_died(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.queue.is_abandoned())
    }

    pub(crate) fn is_at(&self, transfer: Transfer) -> bool {
        self.incoming.get(&transfer.peer).is_some_and(|incoming| incoming.transfer == transfer)
    }

    /// Aborts the transfer of `peer`. Returns true if part of it is in an output for good.
    pub(crate) fn abort(&mut self, peer: Peer) -> bool {
        let Some(Incoming { transfer, begun: true, .. }) = self.incoming.remove(&peer) else { return false };
        if let Some(writer) = &mut self.writer {
            // Their number is bounded by that of open files.
            writer.queue.push(Job::Abort(transfer));
        }
        self.is_stream
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.is_stream
    }
}

/// Output that takes the bytes of one transfer as they arrive.
struct Stream(Box<dyn Write + Send>);

impl Sink for Stream {
    fn write(&mut self, _: Transfer, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(&mut self, _: Transfer, _: Option<&str>) -> io::Result<Stored> {
        self.0.flush().map(|()| Stored::default())
    }

    fn abort(&mut self, _: Transfer) {}
}

struct Device {
    path: PathBuf,
    /// Opened by the first write, because the open of a named pipe waits for its reader.
    file: Option<File>,
}

impl Write for Device {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            // Without truncation, in case that a regular file takes its place meanwhile.
            None => self.file.insert(File::options().write(true).open(&self.path)?),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rdt_udp::Remote;

    use super::*;

    fn peer(port: u16) -> Peer {
        Remote::from(std::net::SocketAddr::from(([127, 0, 0, 1], port))).into()
    }

    #[test]
    fn stdout_belongs_to_first_writer() {
        let mut store = Store::new(Output::Stdout, false, usize::MAX, || {}).unwrap();
        for port in 1..=3 {
            store.start(peer(port), None).unwrap();
        }
        store.start(peer(2), None).unwrap();
        assert!(store.finish(peer(2)).unwrap().is_some());
        assert!(Busy::is(&store.write(peer(1), b"late").unwrap_err()));
        assert!(!store.abort(peer(1)), "nothing of it was written");
        assert!(Busy::is(&store.finish(peer(3)).unwrap_err()));
    }

    #[test]
    fn restarted_transfer_gets_new_number() {
        let directory = tempfile::tempdir().unwrap();
        let output = Output::parse(Some(directory.path()), false).unwrap();
        let mut store = Store::new(output, false, usize::MAX, || {}).unwrap();
        store.start(peer(1), None).unwrap();
        assert_eq!(store.write(peer(1), b"abc").unwrap(), 3);
        let old = store.incoming[&peer(1)].transfer;
        store.start(peer(1), None).unwrap();
        assert!(!store.is_at(old));
        let new = store.finish(peer(1)).unwrap().unwrap();
        assert!(new != old && !store.is_at(new), "it is not under way any more");
        assert!(!store.abort(peer(1)));
    }

    #[test]
    fn discard_takes_all_bytes_at_once() {
        let mut store = Store::discard();
        store.start(peer(1), None).unwrap();
        assert_eq!(store.write(peer(1), b"abc").unwrap(), 3);
        assert!(store.has_room() && store.finish(peer(1)).unwrap().is_none() && store.poll().is_none());
    }

    /// Sink whose writes block until the sender of the channel is dropped.
    struct Stopped(std::sync::mpsc::Receiver<()>);

    impl Sink for Stopped {
        fn write(&mut self, _: Transfer, _: &[u8]) -> io::Result<()> {
            let _ = self.0.recv();
            Ok(())
        }

        fn finish(&mut self, _: Transfer, _: Option<&str>) -> io::Result<Stored> {
            let _ = self.0.recv();
            Ok(Stored::default())
        }

        fn abort(&mut self, _: Transfer) {
            let _ = self.0.recv();
        }
    }

    #[test]
    fn restarts_do_not_lengthen_queue() {
        let (go, stopped) = std::sync::mpsc::channel();
        let writer = Some(Writer::new(Stopped(stopped), || {}).unwrap());
        let mut store = Store { writer, ..Store::discard() };
        let bytes = vec![7; 100_000];
        // Like `ReceiverApp`, does not finish a transfer while the queue is full.
        let act = |store: &mut Store, port| {
            store.start(peer(port), None).unwrap();
            let _ = store.write(peer(port), &bytes[..usize::from(port % 2) * 10]).unwrap();
            if port % 3 == 0 && store.has_room() {
                store.finish(peer(port)).unwrap();
            }
        };
        for turn in 0..100_000_u32 {
            act(&mut store, u16::try_from(turn % 50).unwrap());
        }
        while store.has_room() {
            store.start(peer(60), None).unwrap();
            store.write(peer(60), &bytes).unwrap();
        }
        let full = store.writer.as_ref().unwrap().queue.load();
        for turn in 0..100_000_u32 {
            act(&mut store, u16::try_from(turn % 50).unwrap());
        }
        let now = store.writer.as_ref().unwrap().queue.load();
        // Each peer with data in the queue may add one abort to a full queue.
        assert!(now.0 <= full.0 + 50, "{full:?}, {now:?}");
        drop(go);
    }

    #[test]
    fn missing_output_directory_fails_at_once() {
        assert!(Output::parse(Some(Path::new("/no/such/directory/file")), false).is_err());
    }
}
