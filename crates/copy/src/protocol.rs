//! Messages of a copy.
//!
//! A connection carries one copy. The client is the side that connected or has the request; the
//! server answers. The data goes from the source to the destination, in either direction.
//!
//! # Frames
//!
//! A frame has a kind (1 byte), the length of the rest (4), and the rest. Numbers of these headers
//! are little endian.
//!
//! | kind | longest rest, bytes | rest |
//! |---|---|---|
//! | 1: control | 1 MiB | one message in postcard's format |
//! | 2: data | 1 MiB + 16 | id (8), offset (8), bytes of the file |
//! | 3: compressed | 1 MiB + 40 KiB + 4 | length of frames (4), part of a zstd stream |
//!
//! A source may compress whole frames of kinds 1 and 2, at most 1 MiB + 32 KiB together. All
//! compressed frames are one zstd stream with a window of at most 2 MiB, flushed after each part.
//!
//! # Order
//!
//! 1. The client sends [`Hello`], the server answers with [`Answer`]. The source of a push does not
//!    wait for the answer: its list follows the request at once, up to the first directory, because
//!    the answer says which directory no source may contain.
//! 2. The source lists the tree depth first: [`FromSource::Entry`] for each name,
//!    [`FromSource::Leave`] after the last name in a directory, and [`FromSource::Total`] at the
//!    end. Ids count from 1. The directory of an entry is the innermost one that was not left. The
//!    entries of the first small files carry their [`Contents`], so a small copy takes one round
//!    trip.
//! 3. The destination resolves every entry exactly once: [`FromDestination::Done`], `Skip` or
//!    `Failed`. At most [`MAX_UNRESOLVED`] entries are unresolved, which bounds the memory of both
//!    sides.
//! 4. A file that the destination needs, and does not have from its entry, is asked for with
//!    [`FromDestination::Want`]. The source answers in the order of the wants, one file after the
//!    other: data frames and [`FromSource::Hole`] by rising offset, [`FromSource::Group`] after
//!    every full group but the last and those that are holes as a whole, and [`FromSource::End`]
//!    or [`FromSource::Stopped`].
//! 5. The destination reports its progress with [`FromDestination::Written`], several times a
//!    second while data arrives, and before the end.
//! 6. When the list is complete and all entries are resolved, the destination sends
//!    [`FromDestination::Finished`] and ends its stream. It ignores what still arrives, such as the
//!    rest of a file that has failed. The source then ends its stream, too.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::{Compression, DestinationOptions, Existing, SkipReason};

/// First bytes of a [`Hello`].
pub(crate) const MAGIC: [u8; 8] = *b"rdt-copy";
/// Version of this protocol.
pub(crate) const VERSION: u16 = 1;
/// Limit on entries that the destination has not resolved. Over a path with 100 ms RTT an entry
/// takes two round trips, so this is 80,000 files a second.
pub(crate) const MAX_UNRESOLVED: usize = 16_384;
/// Limit on bytes of a file in one data frame.
pub(crate) const MAX_DATA_BYTES: usize = 1 << 20;
/// Limit on the message of a control frame, bytes.
pub(crate) const MAX_CONTROL_BYTES: usize = 1 << 20;
/// Limit on the contents of a file in its entry, bytes.
pub(crate) const MAX_CONTENTS_BYTES: usize = 64 << 10;
/// Limit on nested directories.
pub(crate) const MAX_DEPTH: usize = 1000;
/// Limit on sources of a pull.
pub(crate) const MAX_SOURCES: usize = 65_536;
/// Limit on lines of `--exclude`.
pub(crate) const MAX_EXCLUDES: usize = 1000;
/// Longest name, bytes: the limit of Linux and macOS.
pub(crate) const MAX_NAME_BYTES: usize = 255;
/// Longest target of a symbolic link, bytes: `PATH_MAX` of Linux.
pub(crate) const MAX_TARGET_BYTES: usize = 4096;

/// Path or name as the system has it, which need not be UTF-8.
pub(crate) type RawPath = Vec<u8>;
/// Hash of a file, or chaining value of a part of it.
pub(crate) type HashBytes = [u8; 32];
/// Identity of a file's contents at the source. Equal tokens mean: same file, unchanged.
pub(crate) type Token = [u8; 16];

/// First message of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u16,
    pub(crate) request: WireRequest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireRequest {
    Push {
        dest: RawPath,
        /// Number of sources: more than one need a directory.
        sources: u64,
        /// Name of the first source; empty if its contents are copied.
        first_name: RawPath,
        options: WireOptions,
        /// Hash of the whole command: the same one may end a session that a killed client left.
        command: HashBytes,
    },
    Pull {
        #[serde(deserialize_with = "at_most::<MAX_SOURCES, _, _>")]
        sources: Vec<RawPath>,
        follow: bool,
        #[serde(deserialize_with = "at_most::<MAX_EXCLUDES, _, _>")]
        excludes: Vec<String>,
        /// Identity of the destination, which no source may contain.
        into: Option<HashBytes>,
        compression: Compression,
        /// True: entries of small files may carry their contents.
        with_contents: bool,
    },
}

/// [`DestinationOptions`] on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireOptions {
    existing: u8,
    /// A bit for each switch, in the order of the fields.
    flags: u8,
}

/// Reads a list of at most `N` values. The length of the message does not bound the memory of the
/// list, because a value of one byte in the message may take much more memory.
fn at_most<'de, const N: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<const N: usize, T>(PhantomData<T>);

    impl<'de, const N: usize, T: Deserialize<'de>> Visitor<'de> for List<N, T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {N} values")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(value) = values.next_element()? {
                if list.len() == N {
                    return Err(Error::invalid_length(N + 1, &self));
                }
                list.push(value);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<N, T>(PhantomData))
}

/// Answer of the server to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// `into` is the identity of the destination of a push, which no source may contain.
    Accepted {
        version: u16,
        into: Option<HashBytes>,
    },
    Refused {
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromSource {
    Entry(Entry),
    /// The innermost directory is complete.
    Leave {
        id: u64,
    },
    /// This path, relative to the destination, cannot be read, and has no entry.
    Unreadable {
        path: RawPath,
        text: String,
    },
    /// The list is complete.
    Total {
        files: u64,
        bytes: u64,
    },
    /// Zero bytes that take no space: within a group, whole groups, or from the beginning of a
    /// group to the end of the file.
    Hole {
        id: u64,
        offset: u64,
        len: u64,
    },
    /// Chaining value of the group that ends here.
    Group {
        id: u64,
        chaining_value: HashBytes,
    },
    /// The file is complete, and did not change while it was read.
    End {
        id: u64,
        root: HashBytes,
    },
    /// The source gives the file up.
    Stopped {
        id: u64,
        text: String,
        /// True: what has arrived is still right, and a later copy may go on there.
        is_unchanged: bool,
    },
    /// Answer to [`Start::IfDifferent`]: the contents are equal.
    Same {
        id: u64,
    },
    /// Answer to [`Start::IfDifferent`]: the contents differ. `root` is the hash of the source's.
    Different {
        id: u64,
        root: HashBytes,
    },
}

/// Name in a directory of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// Name in its directory. Empty for a source of which only the contents are copied.
    pub(crate) name: RawPath,
    pub(crate) kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky.
    pub(crate) mode: u32,
    /// Time of the last write, seconds since 1970.
    pub(crate) mtime: i64,
    pub(crate) mtime_nanos: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EntryKind {
    Directory,
    File { size: u64, token: Token, contents: Option<Contents> },
    Symlink { target: RawPath },
}

/// All bytes of a small file. They did not change while they were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) root: HashBytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromDestination {
    Want {
        id: u64,
        start: Start,
    },
    /// The entry is complete. `name` is the name that it got, if not its own.
    Done {
        id: u64,
        name: Option<RawPath>,
    },
    /// The entry is not needed. `name` is the name of what is there, if not its own.
    Skip {
        id: u64,
        reason: SkipReason,
        name: Option<RawPath>,
    },
    Failed {
        id: u64,
        text: String,
        /// Bytes of a file that were not written.
        missing_bytes: u64,
    },
    Finished,
    /// Progress: bytes written to files since the previous message of this kind.
    Written {
        /// Bytes of data and holes.
        bytes: u64,
        /// Bytes of data alone. The source does not send holes.
        sent_bytes: u64,
    },
}

/// Where a file that the destination wants begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Start {
    Beginning,
    /// The destination has verified the bytes before `offset`. `stack` is the state of their tree.
    Resume {
        offset: u64,
        stack: Vec<HashBytes>,
    },
    /// The destination has a file of this size with this hash: compare first.
    IfDifferent {
        root: HashBytes,
    },
}

/// Policies by their numbers on the wire.
const POLICIES: [Existing; 3] = [Existing::Refuse, Existing::Overwrite, Existing::KeepBoth];

impl From<DestinationOptions> for WireOptions {
    fn from(options: DestinationOptions) -> Self {
        let DestinationOptions { existing, checksum, sync, special_modes, dry_run } = options;
        let flags = [checksum, sync, special_modes, dry_run].map(u8::from);
        let flags = flags.iter().enumerate().map(|(bit, flag)| flag << bit).sum();
        Self { existing: existing as u8, flags }
    }
}

impl TryFrom<WireOptions> for DestinationOptions {
    type Error = &'static str;

    fn try_from(WireOptions { existing, flags }: WireOptions) -> Result<Self, Self::Error> {
        let existing = *POLICIES.get(usize::from(existing)).ok_or("unknown policy for existing names")?;
        if flags >= 1 << 4 {
            return Err("unknown options");
        }
        let [checksum, sync, special_modes, dry_run] = [0, 1, 2, 3].map(|bit| flags & 1 << bit != 0);
        Ok(Self { existing, checksum, sync, special_modes, dry_run })
    }
}
