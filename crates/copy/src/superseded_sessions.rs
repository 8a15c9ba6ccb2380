//! Supersedes a session left by a killed client, which would wait until the idle timeout and hold
//! its files. A repeated push of the same client ends the earlier session. It starts once the
//! threads of that session have ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, watch};

use crate::protocol::HashBytes;

/// Command of a client. Equal values are the same command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Command {
    /// Key of the client.
    pub(crate) peer: String,
    /// Hash of all sources, the destination and the options.
    pub(crate) hash: HashBytes,
}

/// Running pushes of all clients of a server, by command.
#[derive(Debug, Clone, Default)]
pub(crate) struct PushSessions(Arc<Mutex<BTreeMap<Command, Arc<SameCommand>>>>);

/// Sessions of one command. Only one of them may write at a time.
#[derive(Debug, Default)]
struct SameCommand {
    running: Arc<AsyncMutex<()>>,
    newest: watch::Sender<u64>,
}

/// One session of a command. A newer one supersedes it.
#[derive(Debug)]
pub(crate) struct PushSession {
    command: Arc<SameCommand>,
    number: u64,
}

/// Held while threads of a session may write.
pub(crate) type Running = OwnedMutexGuard<()>;

impl PushSessions {
    /// Registers a session of this command, which supersedes earlier ones.
    pub(crate) fn register(&self, command: Command) -> PushSession {
        let mut commands = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Drops the commands whose sessions have ended.
        commands.retain(|_, command| Arc::strong_count(command) > 1);
        let command = Arc::clone(commands.entry(command).or_default());
        drop(commands);
        let mut number = 0;
        command.newest.send_modify(|newest| {
            *newest += 1;
            number = *newest;
        });
        PushSession { command, number }
    }
}

impl PushSession {
    /// Waits until the threads of earlier sessions have ended.
    pub(crate) async fn begin(&self) -> Running {
        Arc::clone(&self.command.running).lock_owned().await
    }

    /// Waits until a newer session supersedes this one.
    pub(crate) async fn superseded(&self) {
        let mut newest = self.command.newest.subscribe();
        // The sender lives as long as this session.
        let _ = newest.wait_for(|newest| *newest > self.number).await;
    }
}
