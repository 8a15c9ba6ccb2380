//! Account of a running copy: events to the observer, counts for the summary.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::FromDestination;
use crate::{Event, Failure, Kind, Observer, SkipReason, Summary};

/// Limit on failures that a summary names.
const MAX_NAMED_FAILURES: usize = 1000;
/// Limit on the path of such a failure, bytes. The peer chooses it.
const MAX_PATH_BYTES: usize = 4096;
/// Limit on its text, characters.
const MAX_TEXT_CHARS: usize = 512;

/// Entry that failed. The default is a name that was not listed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lost {
    pub(crate) kind: Option<Kind>,
    pub(crate) bytes: u64,
    /// Bytes of it that were not written.
    pub(crate) missing_bytes: u64,
}

/// Account that the threads of a copy share.
#[derive(Clone)]
pub(crate) struct Report {
    observer: Arc<dyn Observer>,
    summary: Arc<Mutex<Summary>>,
    /// Bytes that were written and not reported to the source: all, and those that were sent.
    unreported: Arc<[AtomicU64; 2]>,
}

impl Report {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, summary: Arc::default(), unreported: Arc::default() }
    }

    pub(crate) fn event(&self, event: &Event<'_>) {
        self.observer.event(event);
    }

    pub(crate) fn summary(&self) -> Summary {
        self.lock().clone()
    }

    /// Counts bytes that this side has written.
    pub(crate) fn progress(&self, bytes: u64, is_sent: bool) {
        let sent_bytes = if is_sent { bytes } else { 0 };
        self.written(bytes, sent_bytes);
        self.unreported[0].fetch_add(bytes, Relaxed);
        self.unreported[1].fetch_add(sent_bytes, Relaxed);
    }

    /// Counts bytes that the destination has written, `sent_bytes` of which were sent.
    pub(crate) fn written(&self, bytes: u64, sent_bytes: u64) {
        let mut summary = self.lock();
        // The peer may report any number.
        summary.sent_bytes = summary.sent_bytes.saturating_add(sent_bytes);
        drop(summary);
        self.event(&Event::Progress { bytes });
    }

    /// Returns the progress that the source has not been told yet. `None` if nothing was written
    /// meanwhile.
    pub(crate) fn take_unreported(&self) -> Option<FromDestination> {
        let [bytes, sent_bytes] = [0, 1].map(|index: usize| self.unreported[index].swap(0, Relaxed));
        (bytes > 0).then_some(FromDestination::Written { bytes, sent_bytes })
    }

    /// Counts frames that were sent compressed.
    pub(crate) fn compressed(&self, bytes: u64, to_bytes: u64) {
        let mut summary = self.lock();
        summary.uncompressed_bytes += bytes;
        summary.compressed_bytes += to_bytes;
    }

    pub(crate) fn resumed(&self, path: &Path, offset: u64) {
        let mut summary = self.lock();
        summary.resumed_bytes = summary.resumed_bytes.saturating_add(offset);
        drop(summary);
        self.event(&Event::Resumed { path, offset });
    }

    pub(crate) fn done(&self, path: &Path, kind: Kind, bytes: u64) {
        let mut summary = self.lock();
        match kind {
            Kind::File => summary.files += 1,
            Kind::Directory => summary.directories += 1,
            Kind::Symlink => summary.links += 1,
        }
        // Sparse files may have any size.
        summary.bytes = summary.bytes.saturating_add(bytes);
        drop(summary);
        self.event(&Event::Done { path, kind, bytes });
    }

    pub(crate) fn skipped(&self, path: &Path, kind: Kind, reason: SkipReason, bytes: u64) {
        if kind != Kind::Directory {
            let mut summary = self.lock();
            match reason {
                SkipReason::Identical => summary.skipped += 1,
                SkipReason::DryRun => summary.planned += 1,
            }
        }
        self.event(&Event::Skipped { path, kind, reason, bytes });
    }

    pub(crate) fn failed(&self, path: &Path, text: &str, lost: Lost) {
        let mut summary = self.lock();
        summary.failures += 1;
        if summary.failed.len() < MAX_NAMED_FAILURES {
            let bytes = path.as_os_str().as_bytes();
            let path = Path::new(OsStr::from_bytes(&bytes[..bytes.len().min(MAX_PATH_BYTES)])).into();
            summary.failed.push(Failure { path, text: text.chars().take(MAX_TEXT_CHARS).collect() });
        }
        drop(summary);
        let Lost { kind, bytes, missing_bytes } = lost;
        self.event(&Event::Failed { path, text, kind, bytes, missing_bytes });
    }

    fn lock(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
