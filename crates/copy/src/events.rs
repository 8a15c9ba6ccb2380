//! Events of a copy, for progress and reports.

use std::path::Path;

use crate::Summary;

/// Receiver of events. Called on threads of the copy, so it must return soon.
pub trait Observer: Send + Sync {
    /// Handles an event.
    fn event(&self, event: &Event<'_>);
}

impl Observer for () {
    fn event(&self, _: &Event<'_>) {}
}

/// Step of a copy. Paths are relative to the destination, and may contain any byte.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A server has read the request.
    Request {
        /// True: the peer sends files to this side.
        push: bool,
        /// Destination of a push, or first source of a pull, as the peer wrote it.
        path: &'a Path,
    },
    /// The source has listed everything.
    Total {
        /// Number of files.
        files: u64,
        /// Sum of the files' sizes.
        bytes: u64,
    },
    /// The first byte of a file is read or written.
    FileStarted {
        /// Path of the file.
        path: &'a Path,
        /// Size of the file, bytes.
        size: u64,
    },
    /// A file goes on where an earlier copy ended.
    Resumed {
        /// Path of the file.
        path: &'a Path,
        /// Bytes that need not be sent again.
        offset: u64,
    },
    /// Bytes of files were written at the destination. Holes count as bytes.
    Progress {
        /// Bytes since the previous event of this kind.
        bytes: u64,
    },
    /// A file, link or directory is complete under its final name.
    Done {
        /// Path with the final name. Differs from the source's name if an existing file was kept.
        path: &'a Path,
        /// Kind of the entry.
        kind: Kind,
        /// Size of a file, bytes; otherwise 0.
        bytes: u64,
    },
    /// A file or link is not copied, for a reason that is no failure.
    Skipped {
        /// Path of the entry.
        path: &'a Path,
        /// Kind of the entry.
        kind: Kind,
        /// Why.
        reason: SkipReason,
        /// Size of a file, bytes; otherwise 0.
        bytes: u64,
    },
    /// A file, link or directory is not copied; the others go on.
    Failed {
        /// Path of the entry.
        path: &'a Path,
        /// Why, in a sentence for the user.
        text: &'a str,
        /// Kind of the entry; `None` for a name that was not listed.
        kind: Option<Kind>,
        /// Size of a file, bytes; otherwise 0.
        bytes: u64,
        /// Bytes of a file that neither this copy nor an earlier one has written.
        missing_bytes: u64,
    },
    /// The copy has ended: it is complete, has failed, or was dropped. No event follows, except
    /// from threads that were at work when it was dropped.
    Ended {
        /// Counts of the copy.
        summary: &'a Summary,
    },
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
}

/// Why an entry is not copied although it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(unix, derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum SkipReason {
    /// The destination has the same file or link.
    Identical,
    /// The entry would be copied, but a dry run writes nothing.
    DryRun,
}
