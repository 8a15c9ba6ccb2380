//! Entries that the destination has not resolved yet. At the limit of their number the walk waits.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Kind;
use crate::directory::Directory;
use crate::protocol::{HashBytes, MAX_UNRESOLVED, RawPath, Token};
use crate::threads::Ended;

/// Path relative to the destination, as a chain of names. Thousands of entries are pending, and
/// their paths may have 255 KB each, so they share the names of their directories.
#[derive(Debug)]
pub(crate) struct Trail {
    parent: Option<Arc<Self>>,
    name: RawPath,
}

impl Trail {
    /// Begins a path; empty for a source whose contents alone are copied.
    pub(crate) fn top(path: &Path) -> Arc<Self> {
        Arc::new(Self { parent: None, name: path.as_os_str().as_bytes().into() })
    }

    /// Returns the path of a name in this directory.
    pub(crate) fn join(self: &Arc<Self>, name: &[u8]) -> Arc<Self> {
        Arc::new(Self { parent: Some(Arc::clone(self)), name: name.into() })
    }

    /// Builds the path, which a file system or a reader needs whole.
    pub(crate) fn path(&self) -> PathBuf {
        let mut names = vec![&self.name];
        let mut parent = &self.parent;
        while let Some(trail) = parent {
            names.push(&trail.name);
            parent = &trail.parent;
        }
        names.iter().rev().map(|name| OsStr::from_bytes(name)).collect()
    }
}

/// Entry that was sent.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) trail: Arc<Trail>,
    pub(crate) kind: Kind,
    /// Size of a file, bytes.
    pub(crate) size: u64,
    /// File's directory, name and identity; `None` for other kinds.
    pub(crate) file: Option<SourceFile>,
    /// Number of times that the destination may still want it: once to compare, once to get it.
    pub(crate) wants_left: u8,
}

/// File that the destination may want.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    pub(crate) directory: Arc<Directory>,
    pub(crate) name: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) token: Token,
    pub(crate) trail: Arc<Trail>,
}

/// Unresolved entries, shared by the threads of a source.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    state: Mutex<State>,
    /// Signalled when an entry is resolved, the destination accepts the copy, or the copy ends.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    items: BTreeMap<u64, Item>,
    last_id: u64,
    is_listed: bool,
    is_stopped: bool,
    is_accepted: bool,
    /// Identity of the destination, once it has accepted the copy.
    into: Option<HashBytes>,
}

impl Pending {
    /// Adds an entry and returns its id, or gives it back if there is no room.
    pub(crate) fn add(&self, item: Item) -> Result<u64, Item> {
        let mut state = self.lock();
        if state.items.len() >= MAX_UNRESOLVED {
            return Err(item);
        }
        state.last_id += 1;
        let id = state.last_id;
        state.items.insert(id, item);
        Ok(id)
    }

    /// Waits for room. Returns false if the copy has ended.
    pub(crate) fn wait_for_room(&self) -> bool {
        let mut state = self.lock();
        while state.items.len() >= MAX_UNRESOLVED && !state.is_stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_stopped
    }

    /// Notes that the destination has accepted the copy.
    pub(crate) fn accept(&self, into: Option<HashBytes>) {
        let mut state = self.lock();
        (state.is_accepted, state.into) = (true, into);
        self.changed.notify_all();
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.lock().is_accepted
    }

    /// Waits until the destination accepts the copy. Returns its identity.
    pub(crate) fn accepted(&self) -> Result<Option<HashBytes>, Ended> {
        let mut state = self.lock();
        while !state.is_accepted && !state.is_stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped { Err(Ended) } else { Ok(state.into) }
    }

    /// Removes an entry that the destination has resolved.
    pub(crate) fn resolve(&self, id: u64) -> Option<Item> {
        let item = self.lock().items.remove(&id)?;
        self.changed.notify_all();
        Some(item)
    }

    /// Returns the file of an unresolved entry, if the destination may want it now.
    pub(crate) fn want(&self, id: u64) -> Option<SourceFile> {
        let mut state = self.lock();
        let item = state.items.get_mut(&id)?;
        item.wants_left = item.wants_left.checked_sub(1)?;
        item.file.clone()
    }

    /// Returns true if an entry is unresolved, and the copy goes on.
    pub(crate) fn is_wanted(&self, id: u64) -> bool {
        let state = self.lock();
        !state.is_stopped && state.items.contains_key(&id)
    }

    /// Notes that no more entries follow.
    pub(crate) fn end_list(&self) {
        self.lock().is_listed = true;
    }

    /// Returns true if everything is listed and resolved.
    pub(crate) fn is_finished(&self) -> bool {
        let state = self.lock();
        state.is_listed && state.items.is_empty()
    }

    /// Ends the copy for the threads that wait or read.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trail_is_path_below_its_top() {
        let top = Trail::top(Path::new("src"));
        let file = top.join(b"deep").join(b"a\xff");
        assert_eq!(file.path(), Path::new(OsStr::from_bytes(b"src/deep/a\xff")));
        assert_eq!(Trail::top(Path::new("")).join(b"file").path(), Path::new("file"));
        assert_eq!(Trail::top(Path::new("")).path(), Path::new(""));
    }
}
