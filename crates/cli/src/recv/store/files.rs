//! Files of transfers. A transfer is written to a hidden file, which is renamed when the transfer
//! is complete, and removed if it is aborted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rdt_endpoint::files::{PartialFile, name_of_peer};
use rdt_trust::is_out_of_descriptors;

use super::writer::Sink;
use super::{Busy, Stored, Transfer};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    /// This file for every transfer; each replaces the one before.
    One(PathBuf),
    In(PathBuf),
}

impl Names {
    fn directory(&self) -> &Path {
        match self {
            Self::One(path) => parent(path),
            Self::In(directory) => directory,
        }
    }
}

type SyncDirectory = fn(&Path) -> io::Result<()>;

#[derive(Debug)]
pub(super) struct Files {
    names: Names,
    /// With `--sync`: function that syncs the directory after a file was renamed; else `None`.
    sync: Option<SyncDirectory>,
    open: BTreeMap<Transfer, PartialFile>,
    max_open: usize,
}

impl Files {
    pub(super) fn new(names: Names, sync: bool, max_open: usize) -> Self {
        Self { names, sync: sync.then_some(sync_directory), open: BTreeMap::new(), max_open }
    }

    /// Creates the file of a transfer. The last quarter is for native senders: classic ones do not
    /// prove their addresses, so one host can pose as many.
    fn create(&self, transfer: Transfer) -> io::Result<PartialFile> {
        let max_open =
            if transfer.peer.is_native() { self.max_open } else { self.max_open - self.max_open / 4 };
        if self.open.len() >= max_open {
            return Err(Busy::Files.into());
        }
        PartialFile::create(self.names.directory()).map_err(|error| {
            // Descriptors that other parts of the program or other programs use are not counted.
            if is_out_of_descriptors(&error) { Busy::Files.into() } else { error }
        })
    }
}

impl Sink for Files {
    fn write(&mut self, transfer: Transfer, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = self.open.get(&transfer) {
            return file.file().write_all(bytes);
        }
        let file = self.create(transfer)?;
        file.file().write_all(bytes)?;
        self.open.insert(transfer, file);
        Ok(())
    }

    fn finish(&mut self, transfer: Transfer, name: Option<&str>) -> io::Result<Stored> {
        let file = match self.open.remove(&transfer) {
            Some(file) => file,
            // A transfer without data results in an empty file.
            None => self.create(transfer)?,
        };
        if self.sync.is_some() {
            file.file().sync_all()?;
        }
        let path = match &self.names {
            Names::One(path) => {
                file.replace(path)?;
                path.clone()
            }
            Names::In(directory) => match name {
                Some(name) => file.keep(directory, name)?,
                None => file.keep(directory, &name_of_peer(transfer.peer.address.addr))?,
            },
        };
        // From here on the file exists, even if the sync of the directory fails.
        let unsynced = self.sync.and_then(|sync| sync(self.names.directory()).err());
        Ok(Stored { path: Some(path), unsynced })
    }

    fn abort(&mut self, transfer: Transfer) {
        self.open.remove(&transfer);
    }
}

pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Syncs a directory, after which the renames in it are durable.
#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "other systems sync")]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rdt_transport::{ConnectionConfig, ConnectionSet, ConnectionSetConfig, InitiatorConfig};

    use super::*;

    fn transfer(number: u64) -> Transfer {
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
        Transfer { number, peer }
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn file_appears_only_when_finished() {
        for sync in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let mut files = Files::new(Names::In(directory.path().into()), sync, 1);
            files.write(transfer(1), b"ab").unwrap();
            files.write(transfer(1), b"c").unwrap();
            assert!(names(directory.path()).iter().all(|n| n.starts_with(".rdt-partial-")));
            let path = files.finish(transfer(1), None).unwrap().path.unwrap();
            assert_eq!(fs::read(path).unwrap(), b"abc");
            let path = files.finish(transfer(2), None).unwrap().path.unwrap();
            assert_eq!(fs::read(path).unwrap(), b"", "a transfer of nothing is a file too");
            assert_eq!(names(directory.path()), ["127.0.0.1-1-2.bin", "127.0.0.1-1.bin"]);
        }
    }

    #[test]
    fn names_of_senders_replace_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link.txt");
        #[cfg(unix)]
        std::os::unix::fs::symlink("/nowhere", &link).unwrap();
        #[cfg(not(unix))]
        fs::write(&link, b"").unwrap();
        fs::create_dir(directory.path().join("folder")).unwrap();
        let mut files = Files::new(Names::In(directory.path().into()), false, 9);
        let names: Vec<_> = ["data.bin", "data.bin", "data.bin", "folder", "link.txt"]
            .iter()
            .zip(1..)
            .map(|(name, number)| {
                let path = files.finish(transfer(number), Some(name)).unwrap().path.unwrap();
                path.strip_prefix(directory.path()).unwrap().to_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(names, ["data.bin", "data-2.bin", "data-3.bin", "folder-2", "link-2.txt"]);
        assert!(link.is_symlink() || cfg!(not(unix)), "the link stays");
    }

    #[test]
    fn restart_discards_earlier_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::new(Names::One(directory.path().join("out")), true, 2);
        files.write(transfer(1), b"abc").unwrap();
        files.write(transfer(2), b"xyz").unwrap();
        files.abort(transfer(1));
        let path = files.finish(transfer(2), None).unwrap().path.unwrap();
        assert_eq!(fs::read(path).unwrap(), b"xyz", "a restart voids what came before");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn aborted_transfer_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out");
        fs::write(&file, b"old").unwrap();
        let mut files = Files::new(Names::One(file.clone()), false, 1);
        files.write(transfer(1), b"new").unwrap();
        assert_eq!(names(directory.path()).len(), 2);
        files.abort(transfer(1));
        assert_eq!(names(directory.path()), ["out"]);
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }

    #[test]
    fn files_beyond_limit_are_busy_until_one_ends() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::new(Names::In(directory.path().into()), false, 2);
        files.write(transfer(1), b"abc").unwrap();
        files.write(transfer(2), b"abc").unwrap();
        assert!(Busy::is(&files.write(transfer(3), b"abc").unwrap_err()));
        assert!(Busy::is(&files.finish(transfer(4), None).unwrap_err()), "an empty file needs a place too");
        files.write(transfer(1), b"def").unwrap();
        files.finish(transfer(1), None).unwrap();
        files.write(transfer(3), b"abc").unwrap();
    }

    #[test]
    fn last_quarter_of_files_is_for_native_senders() {
        let entropy = rdt_crypto::Entropy::from_seed([1; 32]);
        let mut set = ConnectionSet::<u8>::new(ConnectionSetConfig::default(), entropy);
        let (keys, config) = (InitiatorConfig::default(), ConnectionConfig::default());
        let id = set.connect(rdt_testing::epoch(), 1, keys, config).unwrap();
        let native = Transfer { number: 9, peer: crate::peer::Peer::native(id, transfer(9).peer.address) };
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::new(Names::In(directory.path().into()), false, 4);
        (1..=3).for_each(|number| files.write(transfer(number), b"abc").unwrap());
        assert!(Busy::is(&files.write(transfer(4), b"abc").unwrap_err()));
        files.write(native, b"abc").unwrap();
    }

    #[test]
    fn failed_directory_sync_keeps_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut files = Files::new(Names::One(path.clone()), true, 1);
        files.sync = Some(|_| Err(io::Error::other("unplugged")));
        files.write(transfer(1), b"abc").unwrap();
        let kept = files.finish(transfer(1), None).unwrap();
        assert_eq!((kept.path, kept.unsynced.unwrap().to_string()), (Some(path.clone()), "unplugged".into()));
        assert_eq!(fs::read(path).unwrap(), b"abc");
    }
}
