//! Receiver of files.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_endpoint::blocking::{Endpoint, Listener, Stream};
use rdt_endpoint::files::{PartialFile, name_of_peer, stored_name, sweep};
use rdt_endpoint::{EndpointConfig, generate_key};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Confirm, ConnectionConfig};
use rdt_trust::services::FILES;
use rdt_trust::{Gate, Ticket, TicketUse, reachable};
use rdt_udp::clock;

use super::{CANCELLED, CHUNK, FileTransferError, TransferHandle, bits_per_s, lost};

/// Time in which a ticket must be used.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Interval at which a wait for a sender looks for a cancellation.
const LOOK: Duration = Duration::from_millis(100);
/// Time in which the last answer is repeated to a sender that did not get it.
const LINGER: Duration = Duration::from_secs(1);

/// File in the directory of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// File, named as the sender suggests; with a number if there was a file of that name.
    pub path: PathBuf,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// Time from the connection until the file had its name.
    pub elapsed: Duration,
}

impl Received {
    /// Returns the rate of the transfer, bits per second.
    pub fn bits_per_s(&self) -> f64 {
        bits_per_s(self.bytes, self.elapsed)
    }
}

/// Receiver of files from those who have a ticket of it. It has a new key, and its tickets are good
/// as long as it exists. Its drop waits until a second has passed since the last file, because the
/// confirmation may get lost and is repeated.
#[derive(Debug)]
pub struct FileReceiver {
    gate: Arc<Gate>,
    listener: Listener,
    confirmed_at: Mutex<Option<Instant>>,
}

impl FileReceiver {
    /// Binds a UDP socket to `address`, such as `[::]:22345`.
    ///
    /// # Errors
    /// [`FileTransferError::System`].
    pub fn bind(address: impl ToSocketAddrs) -> Result<Self, FileTransferError> {
        let identity = generate_key()?;
        let gate = Arc::new(Gate::new(identity).service(FILES));
        let config = ConnectionConfig::default().confirm(Confirm::ByApplication).one_way();
        let endpoint = Endpoint::bind(address, EndpointConfig::default())?;
        let listener = endpoint.listen(gate.listen().config(config)).map_err(io::Error::from)?;
        listener.set_timeout(Some(LOOK));
        Ok(Self { gate, listener, confirmed_at: Mutex::new(None) })
    }

    /// Returns the address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Makes a ticket for one sender, with the addresses at which this host is reachable. Its text
    /// ([`ToString`]) is a secret; `rdt-send` takes it too. It must be used within a day.
    ///
    /// # Errors
    /// [`FileTransferError::Ticket`]: no random numbers.
    pub fn ticket(&self) -> Result<Ticket, FileTransferError> {
        self.ticket_at(&reachable(self.local_addr(), &[]))
    }

    /// Same as [`FileReceiver::ticket`] for a host that others reach at these addresses, such as
    /// behind a NAT.
    ///
    /// # Errors
    /// [`FileTransferError::Ticket`]: no address, or more than eight.
    pub fn ticket_at(&self, addresses: &[SocketAddr]) -> Result<Ticket, FileTransferError> {
        Ok(self.gate.issue(addresses, TicketUse::OneClient, LIFETIME.as_secs())?)
    }

    /// Waits for a sender, stores its file in `directory`, and confirms it. The name is that which
    /// the sender suggests, made safe: the file is in the directory, visible, and replaces none.
    /// Until it is whole it has a hidden name. After an error no file is left.
    ///
    /// Other senders wait until the next call, or for another thread that calls.
    ///
    /// # Errors
    /// [`FileTransferError`]: the directory, or the connection. The next call is for the next
    /// sender.
    pub fn receive_into(&self, directory: impl AsRef<Path>) -> Result<Received, FileTransferError> {
        self.receive_into_with(directory, &TransferHandle::new())
    }

    /// Same as [`FileReceiver::receive_into`], with a handle that shows progress and cancels: the
    /// wait for a sender within a tenth of a second.
    ///
    /// # Errors
    /// As [`FileReceiver::receive_into`], and [`FileTransferError::Cancelled`].
    pub fn receive_into_with(
        &self,
        directory: impl AsRef<Path>,
        handle: &TransferHandle,
    ) -> Result<Received, FileTransferError> {
        let directory = directory.as_ref();
        sweep(directory);
        let file = PartialFile::create(directory).map_err(|source| unstored(directory, source))?;
        let stream = self.accept(handle)?;
        let closing = stream.try_clone();
        let received = handle.run(
            move || closing.close(0, CANCELLED),
            || {
                store(&stream, file, directory, handle).inspect_err(|error| {
                    let is_storage = matches!(error, FileTransferError::File { .. });
                    stream.abort(if is_storage { CloseReason::Storage } else { CloseReason::Aborted });
                })
            },
        )?;
        *self.confirmed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock::now());
        Ok(received)
    }

    /// Repeats the last answer until a second has passed.
    pub(super) fn linger(&self) {
        let confirmed_at = *self.confirmed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = confirmed_at {
            let rest = (at + LINGER).saturating_duration_since(clock::now());
            self.listener.endpoint().wait_idle(Some(rest));
        }
    }

    fn accept(&self, handle: &TransferHandle) -> Result<Stream, FileTransferError> {
        while !handle.is_cancelled() {
            match self.listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => return Ok(accepted?),
            }
        }
        Err(FileTransferError::Cancelled)
    }
}

impl Drop for FileReceiver {
    fn drop(&mut self) {
        self.linger();
    }
}

/// Stores the stream, and confirms it.
fn store(
    mut stream: &Stream,
    file: PartialFile,
    directory: &Path,
    handle: &TransferHandle,
) -> Result<Received, FileTransferError> {
    let begin = clock::now();
    let suggested = stream.peer_name().and_then(|name| stored_name(&name));
    let name = suggested.or_else(|| stream.peer_addr().map(name_of_peer)).unwrap_or_default();
    let (mut chunk, mut bytes) = (vec![0; CHUNK], 0);
    while let length @ 1.. = stream.read(&mut chunk).map_err(lost)? {
        file.file().write_all(&chunk[..length]).map_err(|source| unstored(directory, source))?;
        bytes += length as u64;
        handle.set_bytes(bytes);
    }
    handle.commit()?;
    let path = file.keep(directory, &name).map_err(|source| unstored(directory, source))?;
    stream.confirm();
    Ok(Received { path, bytes, elapsed: clock::now().saturating_duration_since(begin) })
}

fn unstored(directory: &Path, source: io::Error) -> FileTransferError {
    FileTransferError::File { path: directory.to_owned(), source }
}
