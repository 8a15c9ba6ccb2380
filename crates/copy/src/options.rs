//! Request of a copy, and its options for either side.

use std::path::PathBuf;

/// What is copied, and where to. [`push`](crate::push) reads `sources` here and has `dest` at the
/// peer; [`pull`](crate::pull) has it the other way round.
///
/// A destination that is an existing directory, or that ends in `/`, receives the sources inside.
/// Otherwise it is the new name of the only source. A source that ends in `/.` is copied without
/// its own name: its contents go into the destination.
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
    /// Names that are left out, as lines of a `.gitignore` at each source directory.
    pub excludes: Vec<String>,
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
