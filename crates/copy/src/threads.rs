//! Threads of a copy, for calls that block on files.

use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::sync::mpsc::UnboundedSender;

use crate::CopyError;

/// The copy has ended, so the thread ends too.
#[derive(Debug)]
pub(crate) struct Ended;

/// Threads that were started, and end when their queues do.
#[derive(Debug)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle<()>>,
    fatal: UnboundedSender<CopyError>,
}

/// Ends the copy if its thread panics.
struct PanicGuard(UnboundedSender<CopyError>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = io::Error::other("it panicked");
            // Fails if the copy has ended.
            let _ = self.0.send(CopyError::System { step: "a thread of the copy", error });
        }
    }
}

impl Threads {
    /// Creates no thread yet. `fatal` gets an error if one panics.
    pub(crate) fn new(fatal: UnboundedSender<CopyError>) -> Self {
        Self { handles: Vec::new(), fatal }
    }

    /// Starts a thread. `stack` is the size of its stack in bytes, 0 the system's.
    pub(crate) fn start(
        &mut self,
        name: &str,
        stack: usize,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), CopyError> {
        let mut builder = Builder::new().name(format!("copy {name}"));
        if stack > 0 {
            builder = builder.stack_size(stack);
        }
        let guard = PanicGuard(self.fatal.clone());
        let work = move || {
            let _guard = guard;
            work();
        };
        let error = |error| CopyError::System { step: "cannot start a thread", error };
        self.handles.push(builder.spawn(work).map_err(error)?);
        Ok(())
    }

    pub(crate) async fn join(self) {
        let join = move || {
            for handle in self.handles {
                // A panic has ended the copy.
                let _ = handle.join();
            }
        };
        // Fails if the runtime is shut down.
        let _ = tokio::task::spawn_blocking(join).await;
    }
}
