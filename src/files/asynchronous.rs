//! File transfers for tokio. Files block, so a transfer runs on a thread of the runtime for calls
//! that block.

use std::net::ToSocketAddrs;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;

use rdt_trust::Ticket;
use tokio::task::spawn_blocking;

use super::{FileTransferError, Received, Sent, TransferHandle};

/// Sends a file as [`rdt::send_file`](crate::send_file). The drop of the future cancels.
///
/// # Errors
/// As [`rdt::send_file`](crate::send_file).
pub async fn send_file(ticket: &Ticket, path: impl AsRef<Path>) -> Result<Sent, FileTransferError> {
    send_file_with(ticket, path, &TransferHandle::new()).await
}

/// Sends a file as [`rdt::send_file_with`](crate::send_file_with). The drop of the future cancels.
///
/// # Errors
/// As [`rdt::send_file_with`](crate::send_file_with).
pub async fn send_file_with(
    ticket: &Ticket,
    path: impl AsRef<Path>,
    handle: &TransferHandle,
) -> Result<Sent, FileTransferError> {
    let (ticket, path) = (ticket.clone(), path.as_ref().to_owned());
    on_thread(handle, move |handle| super::send_file_with(&ticket, path, handle)).await
}

/// Receiver of files, as [`rdt::FileReceiver`](crate::FileReceiver). Its drop does not wait: the
/// end of the runtime does.
#[derive(Debug, Clone)]
pub struct FileReceiver(Arc<super::FileReceiver>);

impl FileReceiver {
    /// Binds a UDP socket to `address`, such as `[::]:22345`.
    ///
    /// # Errors
    /// [`FileTransferError::System`].
    pub fn bind(address: impl ToSocketAddrs) -> Result<Self, FileTransferError> {
        Ok(Self(Arc::new(super::FileReceiver::bind(address)?)))
    }

    /// Stores a file as [`rdt::FileReceiver::receive_into`](crate::FileReceiver::receive_into). The
    /// drop of the future cancels.
    ///
    /// # Errors
    /// As there.
    pub async fn receive_into(&self, directory: impl AsRef<Path>) -> Result<Received, FileTransferError> {
        self.receive_into_with(directory, &TransferHandle::new()).await
    }

    /// Same as [`FileReceiver::receive_into`], with a handle that shows progress and cancels.
    ///
    /// # Errors
    /// As there, and [`FileTransferError::Cancelled`].
    pub async fn receive_into_with(
        &self,
        directory: impl AsRef<Path>,
        handle: &TransferHandle,
    ) -> Result<Received, FileTransferError> {
        let (receiver, directory) = (Arc::clone(&self.0), directory.as_ref().to_owned());
        let received = on_thread(handle, move |handle| receiver.receive_into_with(directory, handle)).await?;
        let receiver = Arc::clone(&self.0);
        spawn_blocking(move || receiver.linger());
        Ok(received)
    }
}

/// Tickets and addresses are those of the receiver for threads.
impl std::ops::Deref for FileReceiver {
    type Target = super::FileReceiver;

    fn deref(&self) -> &super::FileReceiver {
        &self.0
    }
}

async fn on_thread<T: Send + 'static>(
    handle: &TransferHandle,
    transfer: impl FnOnce(&TransferHandle) -> Result<T, FileTransferError> + Send + 'static,
) -> Result<T, FileTransferError> {
    let mut call = Call { handle: handle.clone(), has_ended: false };
    let handle = handle.clone();
    let ended = spawn_blocking(move || transfer(&handle)).await;
    call.has_ended = true;
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        // The runtime ends.
        Err(_) => Err(FileTransferError::Cancelled),
    })
}

/// Call that may be dropped before its end.
struct Call {
    handle: TransferHandle,
    has_ended: bool,
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.has_ended {
            self.handle.cancel();
        }
    }
}
