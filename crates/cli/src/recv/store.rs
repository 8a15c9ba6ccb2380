//! What a receiver keeps, seen from the thread that answers senders: which transfers there are, what of them was
//! handed to the thread that writes, and to whom the standard output belongs.

mod files;
mod queue;
mod writer;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf, is_separator};

use rdt_driver::Remote;

use files::{Files, Names, parent, temporary};
pub(crate) use writer::WriteResult;
use writer::{Sink, Writer};

/// Where transfers go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    /// Nowhere.
    Discard,
    /// To this file; each finished transfer replaces it.
    File(PathBuf),
    /// To new files in this directory.
    Directory(PathBuf),
    /// To the standard output: one transfer only.
    Stdout,
}

impl Output {
    /// Reads `--output`, and looks whether it can work at all.
    pub(crate) fn parse(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::Discard) };
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let directory = path.is_dir();
        // What cannot work should fail now, not when the first transfer is complete.
        if !directory && path.as_os_str().to_string_lossy().ends_with(is_separator) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such directory"));
        }
        if path.exists() && !directory && !path.is_file() {
            return Err(io::Error::other("neither a file nor a directory; - is the standard output"));
        }
        if !directory && path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no file name"));
        }
        temporary(if directory { path } else { parent(path) })?;
        Ok(if directory { Self::Directory(path.into()) } else { Self::File(path.into()) })
    }
}

/// One transfer of a peer, which may have had others before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transfer {
    /// Counts up.
    number: u64,
    pub(crate) peer: Remote,
}

/// A transfer that is stored.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// The file that it is in, if it is in one.
    pub(crate) path: Option<PathBuf>,
    /// Why the file's name may not outlive a loss of power, where it was to.
    pub(crate) unsynced: Option<io::Error>,
}

/// A transfer that was announced and has not ended.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    transfer: Transfer,
    /// Something of it was handed on. A SYN, which anybody can send, takes no file and no output, and neither do bytes
    /// for which there was no room.
    begun: bool,
}

/// Transfers being stored. No call waits for a disk or a reader.
#[derive(Debug)]
pub(crate) struct Store {
    /// `None`: nothing is kept.
    writer: Option<Writer>,
    incoming: BTreeMap<Remote, Incoming>,
    /// Transfers so far.
    count: u64,
    is_stdout: bool,
    /// A transfer has the standard output, or had it.
    stdout_taken: bool,
}

impl Store {
    /// `sync`: files are on the disk before they are said to be stored. `wake` is called when [`Store::poll`] has
    /// something, when there is room after there was none, and when nothing can be stored any more. Fails if no thread
    /// can be had.
    pub(crate) fn new(output: Output, sync: bool, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let is_stdout = output == Output::Stdout;
        let writer = match output {
            Output::Discard => return Ok(Self::discard()),
            Output::File(path) => Writer::new(Files::new(Names::One(path), sync), wake),
            Output::Directory(path) => Writer::new(Files::new(Names::In(path), sync), wake),
            // Who reads it may pause for ever.
            Output::Stdout => Writer::detached(Stdout, wake),
        };
        Ok(Self { writer: Some(writer?), is_stdout, ..Self::discard() })
    }

    /// One that keeps nothing.
    pub(crate) fn discard() -> Self {
        Self { writer: None, incoming: BTreeMap::new(), count: 0, is_stdout: false, stdout_taken: false }
    }

    /// A transfer of `peer` begins; what came before it and was not finished is removed.
    pub(crate) fn start(&mut self, peer: Remote) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if let Some(Incoming { transfer, begun: true }) = self.incoming.get(&peer) {
            if self.is_stdout {
                return Err(io::Error::other("it began again when part of it was written"));
            }
            writer.abort(*transfer);
        }
        self.count += 1;
        let transfer = Transfer { number: self.count, peer };
        self.incoming.insert(peer, Incoming { transfer, begun: false });
        Ok(())
    }

    /// The next bytes of `peer`; gives how many of them were taken. None at all if there is no room for now.
    pub(crate) fn write(&mut self, peer: Remote, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() || self.writer.is_none() {
            return Ok(bytes.len());
        }
        if !self.has_room() {
            return Ok(0);
        }
        let Some(transfer) = self.begin(peer)? else { return Ok(bytes.len()) };
        Ok(self.writer.as_mut().map_or(bytes.len(), |writer| writer.write(transfer, bytes)))
    }

    /// False if nothing is taken for now.
    pub(crate) fn has_room(&self) -> bool {
        self.writer.as_ref().is_none_or(Writer::has_room)
    }

    /// All bytes of the transfer of `peer` were taken, and there is room ([`Store::has_room`]). WriteResult of the transfer that
    /// is given will follow; without one there was nothing to store.
    pub(crate) fn finish(&mut self, peer: Remote) -> io::Result<Option<Transfer>> {
        let transfer = if self.writer.is_some() { self.begin(peer)? } else { None };
        self.incoming.remove(&peer);
        if let (Some(writer), Some(transfer)) = (&mut self.writer, transfer) {
            writer.finish(transfer);
        }
        Ok(transfer)
    }

    /// Makes sure that there is a place for the transfer of `peer`, of which something arrived or which is complete.
    fn begin(&mut self, peer: Remote) -> io::Result<Option<Transfer>> {
        self.check(peer)?;
        let Some(incoming) = self.incoming.get_mut(&peer) else { return Ok(None) };
        incoming.begun = true;
        self.stdout_taken |= self.is_stdout;
        Ok(Some(incoming.transfer))
    }

    /// Fails if nothing of the transfer of `peer` will ever be taken.
    pub(crate) fn check(&self, peer: Remote) -> io::Result<()> {
        match self.incoming.get(&peer) {
            Some(Incoming { begun: false, .. }) if self.stdout_taken => {
                let why = "the standard output takes one transfer only";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
            }
            _ => Ok(()),
        }
    }

    /// The next news: of a transfer that was finished, or that could not be written.
    pub(crate) fn poll(&mut self) -> Option<WriteResult> {
        self.writer.as_mut()?.poll()
    }

    /// True if nothing will ever be stored any more.
    pub(crate) fn has_died(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::has_died)
    }

    /// True if this is the transfer that `peer` is at, and not one before.
    pub(crate) fn is_at(&self, transfer: Transfer) -> bool {
        self.incoming.get(&transfer.peer).is_some_and(|incoming| incoming.transfer == transfer)
    }

    /// The transfer of `peer` ends otherwise. True if bytes of it cannot be taken back.
    pub(crate) fn abort(&mut self, peer: Remote) -> bool {
        let Some(Incoming { transfer, begun: true }) = self.incoming.remove(&peer) else { return false };
        if let Some(writer) = &mut self.writer {
            writer.abort(transfer);
        }
        self.is_stdout
    }

    /// True if what is written cannot be taken back.
    pub(crate) fn is_stdout(&self) -> bool {
        self.is_stdout
    }
}

/// The standard output.
#[derive(Debug)]
struct Stdout;

impl Sink for Stdout {
    fn write(&mut self, _: Transfer, bytes: &[u8]) -> io::Result<()> {
        io::stdout().lock().write_all(bytes)
    }

    fn finish(&mut self, _: Transfer) -> io::Result<Stored> {
        io::stdout().lock().flush().map(|()| Stored::default())
    }

    fn abort(&mut self, _: Transfer) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> Remote {
        std::net::SocketAddr::from(([127, 0, 0, 1], port)).into()
    }

    #[test]
    fn the_standard_output_belongs_to_whoever_writes_first() {
        let mut store = Store::new(Output::Stdout, false, || {}).unwrap();
        for port in 1..=3 {
            store.start(peer(port)).unwrap();
        }
        store.start(peer(2)).unwrap();
        assert!(store.finish(peer(2)).unwrap().is_some());
        assert_eq!(store.write(peer(1), b"late").unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(!store.abort(peer(1)), "nothing of it was written");
        assert_eq!(store.finish(peer(3)).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn a_transfer_that_begins_again_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::new(Output::parse(Some(directory.path())).unwrap(), false, || {}).unwrap();
        store.start(peer(1)).unwrap();
        assert_eq!(store.write(peer(1), b"abc").unwrap(), 3);
        let old = store.incoming[&peer(1)].transfer;
        store.start(peer(1)).unwrap();
        assert!(!store.is_at(old));
        let new = store.finish(peer(1)).unwrap().unwrap();
        assert!(new != old && !store.is_at(new), "it is not under way any more");
        assert!(!store.abort(peer(1)));
    }

    #[test]
    fn what_is_not_kept_is_taken_at_once() {
        let mut store = Store::discard();
        store.start(peer(1)).unwrap();
        assert_eq!(store.write(peer(1), b"abc").unwrap(), 3);
        assert!(store.has_room() && store.finish(peer(1)).unwrap().is_none() && store.poll().is_none());
    }

    /// Does nothing until nobody is left who could say that it may.
    struct Stopped(std::sync::mpsc::Receiver<()>);

    impl Sink for Stopped {
        fn write(&mut self, _: Transfer, _: &[u8]) -> io::Result<()> {
            let _ = self.0.recv();
            Ok(())
        }

        fn finish(&mut self, _: Transfer) -> io::Result<Stored> {
            let _ = self.0.recv();
            Ok(Stored::default())
        }

        fn abort(&mut self, _: Transfer) {
            let _ = self.0.recv();
        }
    }

    #[test]
    fn strangers_who_begin_again_and_again_do_not_lengthen_the_queue() {
        let (go, stopped) = std::sync::mpsc::channel();
        let writer = Some(Writer::new(Stopped(stopped), || {}).unwrap());
        let mut store = Store { writer, ..Store::discard() };
        let bytes = vec![7; 100_000];
        // As an application on a server does: no end while there is no room.
        let act = |store: &mut Store, port| {
            store.start(peer(port)).unwrap();
            let _ = store.write(peer(port), &bytes[..usize::from(port % 2) * 10]).unwrap();
            if port % 3 == 0 && store.has_room() {
                store.finish(peer(port)).unwrap();
            }
        };
        for turn in 0..100_000_u32 {
            act(&mut store, u16::try_from(turn % 50).unwrap());
        }
        while store.has_room() {
            store.start(peer(60)).unwrap();
            store.write(peer(60), &bytes).unwrap();
        }
        let full = store.writer.as_ref().unwrap().load();
        for turn in 0..100_000_u32 {
            act(&mut store, u16::try_from(turn % 50).unwrap());
        }
        let now = store.writer.as_ref().unwrap().load();
        // Of each peer that had something in the queue one end may follow.
        assert!(now.0 <= full.0 + 50, "{full:?}, {now:?}");
        drop(go);
    }

    #[test]
    fn an_output_that_cannot_be_made_fails_at_once() {
        assert!(Output::parse(Some(Path::new("/no/such/directory/file"))).is_err());
    }
}
