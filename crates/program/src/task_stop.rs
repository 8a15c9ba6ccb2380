//! Stop flag for tasks of tokio.

use std::process;

use tokio::sync::watch;

use crate::exit;
use crate::signals::on_interrupt;

/// Flag that ends all tasks of a program. Clones share the flag.
#[derive(Debug, Clone)]
pub struct TaskStop(watch::Receiver<bool>);

impl TaskStop {
    /// Creates a flag that is set through `flag`.
    pub fn new(flag: watch::Receiver<bool>) -> Self {
        Self(flag)
    }

    /// Creates a flag that the first Ctrl-C or termination signal sets. The second one ends the
    /// process.
    ///
    /// # Errors
    /// If the handler cannot be installed.
    pub fn at_interrupt() -> Result<Self, ctrlc::Error> {
        let (set, flag) = watch::channel(false);
        on_interrupt(move || {
            if set.send_replace(true) {
                process::exit(i32::from(exit::INTERRUPTED));
            }
        })?;
        Ok(Self(flag))
    }

    /// Returns true if the program is stopped.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the program is stopped.
    pub async fn wait(&self) {
        // An error means that the sender is gone, with it the reason to wait.
        let _ = self.0.clone().wait_for(|is_set| *is_set).await;
    }
}
