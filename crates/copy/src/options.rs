//! Request of a copy, its options for either side, and the part of the file system that a server
//! offers.

use std::io;
use std::path::{Path, PathBuf};

/// Sources of a copy and their destination. [`push`](crate::push) reads `sources` here and has
/// `dest` at the peer; [`pull`](crate::pull) has it the other way round.
///
/// A destination that is an existing directory, or that ends in `/`, receives the sources inside.
/// Otherwise it is the new name of the only source. A source that ends in `/.` or `..` is copied
/// without its own name: its contents go into the destination. Sources of a pull may have the
/// wildcards `*`, `?` and `[...]`.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Files and directories. Relative paths of the peer begin at its [`Root`](crate::Root).
    pub sources: Vec<PathBuf>,
    /// Destination.
    pub dest: PathBuf,
    /// Options of the side that reads.
    pub source: SourceOptions,
    /// Options of the side that writes.
    pub destination: DestinationOptions,
}

/// Options of the side that reads.
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    /// True: copies what symbolic links point to. False: copies links as links.
    pub follow: bool,
    /// Names that are left out, as lines of a `.gitignore` at each source directory. Those without
    /// a leading `/` leave out sources, too.
    pub excludes: Vec<String>,
    /// Compression of what is sent.
    pub compression: Compression,
}

/// Compression of the data that a source sends, by zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(unix, derive(serde::Serialize, serde::Deserialize))]
pub enum Compression {
    /// While data becomes smaller and the stream is slower than the compression.
    #[default]
    Auto,
    /// Never.
    Off,
    /// While data becomes smaller, at this level of zstd, from 1 to 19. A server that is confined
    /// to a directory uses at most level 3.
    Level(u8),
}

impl Compression {
    /// Highest level. Those beyond need a larger window, which the other side does not accept.
    pub(crate) const MAX_LEVEL: u8 = 19;
    #[cfg(unix)]
    const MAX_SERVER_LEVEL: u8 = 3;

    /// Returns what a source does that a peer has asked for this.
    #[cfg(unix)]
    pub(crate) fn of_peer(self, is_confined: bool) -> Self {
        let most = if is_confined { Self::MAX_SERVER_LEVEL } else { Self::MAX_LEVEL };
        if let Self::Level(level) = self { Self::Level(level.clamp(1, most)) } else { self }
    }
}

/// Options of the side that writes.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the command line")]
pub struct DestinationOptions {
    /// Policy for a name that exists and is not identical.
    pub existing: Existing,
    /// True: compares existing files of the same size by content. False: by size and time.
    pub checksum: bool,
    /// True: data and directory entries are durable before success is reported.
    pub sync: bool,
    /// True: keeps setuid, setgid and sticky bits.
    pub special_modes: bool,
    /// True: decides and reports, and writes nothing.
    pub dry_run: bool,
}

#[cfg(unix)]
impl DestinationOptions {
    /// Returns true if a new file is written without a question about its contents before.
    pub(crate) fn takes_contents(self) -> bool {
        !self.checksum && !self.dry_run
    }
}

/// Policy for a name that exists at the destination and is not identical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// The file fails, and the others go on.
    #[default]
    Refuse,
    /// The new file takes the name in one step, after it is complete.
    Overwrite,
    /// The new file gets a free name: `name (2).ext`.
    KeepBoth,
}

/// Part of the file system that a server offers.
#[derive(Debug, Clone)]
#[cfg_attr(not(unix), expect(dead_code, reason = "sessions need Unix"))]
pub struct Root {
    pub(crate) directory: PathBuf,
    /// True: nothing outside of `directory` can be named or reached.
    pub(crate) confined: bool,
    pub(crate) permission: Permission,
    /// Key of the client, if the same push of a client supersedes an earlier one.
    pub(crate) peer: Option<String>,
    #[cfg(unix)]
    pub(crate) pushes: crate::superseded_sessions::PushSessions,
}

/// Directions in which a peer may copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Permission {
    /// Pull and push.
    #[default]
    ReadWrite,
    /// Only pull.
    ReadOnly,
    /// Only push. Existing files are not compared by their contents, because the answer would tell
    /// the client about them.
    WriteOnly,
    /// Only push, and replace no existing file.
    AddOnly,
}

impl Root {
    /// Offers all that the user of this process may access. Relative paths begin at the current
    /// directory.
    pub fn whole() -> io::Result<Self> {
        let directory = std::env::current_dir()?;
        Ok(Self::new(directory, false, Permission::ReadWrite))
    }

    /// Offers one directory. Its contents can be reached, also by links that stay inside, and
    /// nothing else.
    pub fn confined(directory: &Path, permission: Permission) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        if !directory.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self::new(directory, true, permission))
    }

    /// Returns the same for one client, named by its key. The same push of this client ends the one
    /// before, which may be of a process that was killed, and goes on where it was.
    #[must_use]
    pub fn for_peer(&self, key: &str) -> Self {
        Self { peer: Some(key.into()), ..self.clone() }
    }

    fn new(directory: PathBuf, confined: bool, permission: Permission) -> Self {
        Self {
            directory,
            confined,
            permission,
            peer: None,
            #[cfg(unix)]
            pushes: crate::superseded_sessions::PushSessions::default(),
        }
    }
}
