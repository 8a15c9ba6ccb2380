//! Where a receiver keeps what arrives. A file gets its name only when its transfer is complete; until then
//! it is a hidden temporary one beside it, removed if the transfer ends otherwise.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf, is_separator};

use rdt_driver::Remote;
use tempfile::NamedTempFile;

/// Prefix of the temporary files.
const PREFIX: &str = ".rdt-partial-";
/// Names tried in a directory before giving up.
const MAX_NAMES: u32 = 100_000;

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

#[derive(Debug)]
enum Incoming {
    /// Nothing arrived yet: a SYN, which anybody can send, takes no file and no output.
    Announced,
    Temporary(NamedTempFile),
    /// The standard output; bytes went there.
    Stdout,
}

/// Transfers being stored.
#[derive(Debug)]
pub(crate) struct Store {
    output: Output,
    incoming: BTreeMap<Remote, Incoming>,
    /// A transfer has the standard output, or had it.
    stdout_taken: bool,
}

impl Store {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, incoming: BTreeMap::new(), stdout_taken: false }
    }

    /// A transfer of `peer` begins; what came before it and was not finished is removed.
    pub(crate) fn start(&mut self, peer: Remote) -> io::Result<()> {
        if self.output == Output::Discard {
            return Ok(());
        }
        if let Some(Incoming::Stdout) = self.incoming.get(&peer) {
            return Err(io::Error::other("it began again when part of it was written"));
        }
        self.incoming.insert(peer, Incoming::Announced);
        Ok(())
    }

    /// The next bytes of `peer`.
    pub(crate) fn write(&mut self, peer: Remote, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(Incoming::Announced) = self.incoming.get(&peer) {
            let place = self.place()?;
            self.incoming.insert(peer, place);
        }
        match self.incoming.get_mut(&peer) {
            Some(Incoming::Temporary(file)) => file.as_file_mut().write_all(bytes),
            Some(Incoming::Stdout) => io::stdout().lock().write_all(bytes),
            Some(Incoming::Announced) | None => Ok(()),
        }
    }

    /// Makes the place for a transfer of which something arrived, or which is complete without.
    fn place(&mut self) -> io::Result<Incoming> {
        match &self.output {
            Output::Discard => Ok(Incoming::Announced),
            Output::File(path) => temporary(parent(path)).map(Incoming::Temporary),
            Output::Directory(path) => temporary(path).map(Incoming::Temporary),
            Output::Stdout if self.stdout_taken => {
                let why = "the standard output takes one transfer only";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
            }
            Output::Stdout => {
                self.stdout_taken = true;
                Ok(Incoming::Stdout)
            }
        }
    }

    /// The transfer of `peer` is complete: its file gets its name, which is returned.
    pub(crate) fn finish(&mut self, peer: Remote) -> io::Result<Option<PathBuf>> {
        let incoming = match self.incoming.remove(&peer) {
            None => return Ok(None),
            Some(Incoming::Announced) => self.place()?,
            Some(incoming) => incoming,
        };
        match incoming {
            Incoming::Announced => Ok(None),
            Incoming::Stdout => io::stdout().lock().flush().map(|()| None),
            Incoming::Temporary(file) => match &self.output {
                Output::Directory(directory) => name_in(directory, peer, file).map(Some),
                Output::File(path) => {
                    file.persist(path)?;
                    Ok(Some(path.clone()))
                }
                Output::Discard | Output::Stdout => Ok(None),
            },
        }
    }

    /// The transfer of `peer` ends otherwise. True if bytes of it cannot be taken back.
    pub(crate) fn abort(&mut self, peer: Remote) -> bool {
        matches!(self.incoming.remove(&peer), Some(Incoming::Stdout))
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn temporary(directory: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    // As any program makes files: the user's mask decides who may read them.
    #[cfg(unix)]
    builder.permissions(<std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    builder.tempfile_in(directory)
}

/// Gives the file a name that is free: the peer's address, and a number if it is not the first.
fn name_in(directory: &Path, peer: Remote, mut file: NamedTempFile) -> io::Result<PathBuf> {
    let ip = peer.addr.ip().to_canonical().to_string().replace(':', "_");
    for number in 1..MAX_NAMES {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = directory.join(format!("{ip}-{}{suffix}.bin", peer.addr.port()));
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => file = e.file,
            Err(e) => return Err(e.error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name in the directory"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn peer(port: u16) -> Remote {
        std::net::SocketAddr::from(([127, 0, 0, 1], port)).into()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_whole_and_only_when_finished() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::new(Output::parse(Some(directory.path())).unwrap());
        store.start(peer(1)).unwrap();
        store.write(peer(1), b"abc").unwrap();
        assert!(names(directory.path()).iter().all(|n| n.starts_with(PREFIX)));
        store.start(peer(1)).unwrap();
        store.write(peer(1), b"xyz").unwrap();
        let path = store.finish(peer(1)).unwrap().unwrap();
        assert_eq!(fs::read(path).unwrap(), b"xyz", "a restart voids what came before");
        store.start(peer(1)).unwrap();
        store.finish(peer(1)).unwrap();
        assert_eq!(names(directory.path()), ["127.0.0.1-1-2.bin", "127.0.0.1-1.bin"]);
    }

    #[test]
    fn a_transfer_of_which_nothing_arrived_takes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::new(Output::parse(Some(directory.path())).unwrap());
        store.start(peer(1)).unwrap();
        store.write(peer(1), b"").unwrap();
        assert!(names(directory.path()).is_empty());
        store.write(peer(1), b"abc").unwrap();
        assert_eq!(names(directory.path()).len(), 1);
        store.start(peer(1)).unwrap();
        assert!(names(directory.path()).is_empty(), "a restart voids what came before");
        let path = store.finish(peer(1)).unwrap().unwrap();
        assert_eq!(fs::read(path).unwrap(), b"", "a transfer of nothing is a file too");
    }

    #[test]
    fn the_standard_output_belongs_to_whoever_writes_first() {
        let mut store = Store::new(Output::Stdout);
        for port in 1..=3 {
            store.start(peer(port)).unwrap();
        }
        store.start(peer(2)).unwrap();
        store.finish(peer(2)).unwrap();
        assert_eq!(store.write(peer(1), b"late").unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(!store.abort(peer(1)), "nothing of it was written");
        assert_eq!(store.finish(peer(3)).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn an_aborted_transfer_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out");
        fs::write(&file, b"old").unwrap();
        let mut store = Store::new(Output::parse(Some(&file)).unwrap());
        store.start(peer(1)).unwrap();
        store.write(peer(1), b"new").unwrap();
        assert!(!store.abort(peer(1)), "nothing remains that cannot be taken back");
        assert_eq!(names(directory.path()), ["out"]);
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }

    #[test]
    fn an_output_that_cannot_be_made_fails_at_once() {
        assert!(Output::parse(Some(Path::new("/no/such/directory/file"))).is_err());
    }
}
