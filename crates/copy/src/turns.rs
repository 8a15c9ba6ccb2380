//! Turns of equal pushes. A client that was killed leaves a session at the server that waits for it
//! until the idle timeout, and holds its files. The same command of the same client ends that
//! session, and begins when its threads have ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, watch};

use crate::protocol::HashBytes;

/// What a client asks for: equal values are the same command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Command {
    /// Key of the client.
    pub(crate) peer: String,
    /// Hash of all sources, the destination and the options.
    pub(crate) hash: HashBytes,
}

/// Commands of all clients of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<BTreeMap<Command, Arc<Slot>>>>);

/// Sessions of one command, of which one runs.
#[derive(Debug, Default)]
struct Slot {
    running: Arc<AsyncMutex<()>>,
    /// Number of the newest session.
    newest: watch::Sender<u64>,
}

/// Turn of one session.
#[derive(Debug)]
pub(crate) struct Turn {
    slot: Arc<Slot>,
    number: u64,
}

/// Held while threads of a session may write.
#[derive(Debug)]
pub(crate) struct Running {
    _guard: OwnedMutexGuard<()>,
}

impl Turns {
    /// Ends the session of the same command, if there is one.
    pub(crate) fn take(&self, command: Command) -> Turn {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Drops the slots of sessions that have ended.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        let slot = Arc::clone(slots.entry(command).or_default());
        drop(slots);
        let mut number = 0;
        slot.newest.send_modify(|newest| {
            *newest += 1;
            number = *newest;
        });
        Turn { slot, number }
    }
}

impl Turn {
    /// Waits until the session before has ended.
    pub(crate) async fn begin(&self) -> Running {
        Running { _guard: Arc::clone(&self.slot.running).lock_owned().await }
    }

    /// Waits until the same command comes again.
    pub(crate) async fn replaced(&self) {
        let mut newest = self.slot.newest.subscribe();
        // The sender lives as long as the turn.
        let _ = newest.wait_for(|newest| *newest > self.number).await;
    }
}
