//! Account of a running copy: events to the observer, counts for the summary.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Event, Failure, Kind, Observer, SkipReason, Summary};

/// Limit on failures that a summary names.
const MAX_NAMED_FAILURES: usize = 1000;
/// Limit on the path of such a failure, bytes. The peer chooses it.
const MAX_PATH_BYTES: usize = 4096;
/// Limit on its text, characters.
const MAX_TEXT_CHARS: usize = 512;

/// Account that the threads of a copy share.
#[derive(Clone)]
pub(crate) struct Report {
    observer: Arc<dyn Observer>,
    summary: Arc<Mutex<Summary>>,
}

impl Report {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, summary: Arc::default() }
    }

    pub(crate) fn event(&self, event: &Event<'_>) {
        self.observer.event(event);
    }

    pub(crate) fn summary(&self) -> Summary {
        self.lock().clone()
    }

    pub(crate) fn progress(&self, bytes: u64, is_sent: bool) {
        if is_sent {
            self.lock().sent_bytes += bytes;
        }
        self.event(&Event::Progress { bytes });
    }

    pub(crate) fn resumed(&self, path: &Path, offset: u64) {
        self.lock().resumed_bytes += offset;
        self.event(&Event::Resumed { path, offset });
    }

    pub(crate) fn done(&self, path: &Path, kind: Kind, bytes: u64) {
        let mut summary = self.lock();
        match kind {
            Kind::File => summary.files += 1,
            Kind::Directory => summary.directories += 1,
            Kind::Symlink => summary.links += 1,
        }
        summary.bytes += bytes;
        drop(summary);
        self.event(&Event::Done { path, kind, bytes });
    }

    pub(crate) fn skipped(&self, path: &Path, kind: Kind, reason: SkipReason, bytes: u64) {
        if kind != Kind::Directory {
            self.lock().skipped += 1;
        }
        self.event(&Event::Skipped { path, reason, bytes });
    }

    pub(crate) fn failed(&self, path: &Path, text: &str, bytes: u64) {
        let mut summary = self.lock();
        summary.failures += 1;
        if summary.failed.len() < MAX_NAMED_FAILURES {
            let bytes = path.as_os_str().as_bytes();
            let path = Path::new(OsStr::from_bytes(&bytes[..bytes.len().min(MAX_PATH_BYTES)])).into();
            summary.failed.push(Failure { path, text: text.chars().take(MAX_TEXT_CHARS).collect() });
        }
        drop(summary);
        self.event(&Event::Failed { path, text, bytes });
    }

    fn lock(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
