//! Sender of one file.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdt_crypto::StaticKey;
use rdt_endpoint::blocking::{Endpoint, Stream};
use rdt_endpoint::files::{CheckedFile, suggested_name};
use rdt_endpoint::{Connect, EndpointConfig, generate_key};
use rdt_transport::{ConnectionConfig, SenderConfig, StreamName};
use rdt_trust::{Dialer, Ticket, bind_towards};
use rdt_udp::clock;

use super::{CANCELLED, CHUNK, FileTransferError, TransferHandle, bits_per_s, lost, surroundings};

/// File that the receiver has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Length of the file, bytes.
    pub bytes: u64,
    /// Time from the call until the receiver had stored the file, the search for an address
    /// included.
    pub elapsed: Duration,
}

impl Sent {
    /// Returns the rate of the transfer, bits per second.
    pub fn bits_per_s(&self) -> f64 {
        bits_per_s(self.bytes, self.elapsed)
    }
}

/// Sends a regular file to the receiver that gave out this ticket, and returns when it has stored
/// it. All calls of a process are one client: a ticket is good for many files.
///
/// # Errors
/// [`FileTransferError`]: the file, the ticket, or the connection. A receiver may have the file
/// even if the connection fails: its last answer may have got lost.
pub fn send_file(ticket: &Ticket, path: impl AsRef<Path>) -> Result<Sent, FileTransferError> {
    send_file_with(ticket, path, &TransferHandle::new())
}

/// Same as [`send_file`], with a handle that shows progress and cancels.
///
/// # Errors
/// As [`send_file`], and [`FileTransferError::Cancelled`].
pub fn send_file_with(
    ticket: &Ticket,
    path: impl AsRef<Path>,
    handle: &TransferHandle,
) -> Result<Sent, FileTransferError> {
    let path = path.as_ref();
    send_as(ticket, path, suggested_name(path), handle)
}

pub(super) fn send_as(
    ticket: &Ticket,
    path: &Path,
    name: Option<StreamName>,
    handle: &TransferHandle,
) -> Result<Sent, FileTransferError> {
    let mut file = open(path).map_err(|source| FileTransferError::File { path: path.to_owned(), source })?;
    handle.set_total(file.length());
    let begin = clock::now();
    let endpoint = bind_towards(ticket.addresses(), |any| Endpoint::bind(any, EndpointConfig::default()))?;
    let closing = endpoint.clone();
    let bytes = handle.run(
        move || closing.close(0, CANCELLED),
        || {
            let mut sending = Sending { stream: connect(&endpoint, ticket, name)?, is_stored: false };
            sending.send(&mut file, path, handle)
        },
    )?;
    Ok(Sent { bytes, elapsed: clock::now().saturating_duration_since(begin) })
}

fn open(path: &Path) -> io::Result<CheckedFile> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    CheckedFile::new(file)
}

/// Connects to the first address of the ticket that answers.
fn connect(
    endpoint: &Endpoint,
    ticket: &Ticket,
    name: Option<StreamName>,
) -> Result<Stream, FileTransferError> {
    let dialer =
        Dialer::of_ticket(identity()?, ticket, &surroundings()).map_err(FileTransferError::Ticket)?;
    let mut config = ConnectionConfig::default().one_way();
    config.sender = SenderConfig { name, ..SenderConfig::native(0) };
    let connected = endpoint.connect(ticket.addresses(), Connect::from(&dialer).config(config));
    connected.map_err(|error| {
        let name = ticket.addresses().first().map(ToString::to_string).unwrap_or_default();
        let refusal = error.closed().and_then(|closed| dialer.refusal(&name, closed));
        refusal.map_or_else(|| lost(error.into()), FileTransferError::Ticket)
    })
}

/// Returns the key by which receivers recognise this process.
fn identity() -> io::Result<Arc<StaticKey>> {
    static KEY: Mutex<Option<Arc<StaticKey>>> = Mutex::new(None);
    let mut key = KEY.lock().unwrap_or_else(PoisonError::into_inner);
    match &*key {
        Some(key) => Ok(Arc::clone(key)),
        None => Ok(Arc::clone(key.insert(generate_key()?))),
    }
}

/// Stream of a file. A dropped stream ends as if the file were whole, so this one is closed.
struct Sending {
    stream: Stream,
    is_stored: bool,
}

impl Sending {
    /// Sends the file, and waits until the receiver has stored it. Returns its length.
    fn send(
        &mut self,
        file: &mut CheckedFile,
        path: &Path,
        handle: &TransferHandle,
    ) -> Result<u64, FileTransferError> {
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => self.stream.write_all(&chunk[..n]).map_err(lost)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(FileTransferError::File { path: path.to_owned(), source }),
            }
            handle.set_bytes(self.stream.stats().map_or(0, |stats| stats.sender.bytes_acked));
        }
        self.stream.shutdown(Shutdown::Write).map_err(lost)?;
        let bytes = self.stream.delivered()?;
        self.is_stored = true;
        handle.set_bytes(bytes);
        Ok(bytes)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_stored {
            self.stream.close(0, "the sender has failed");
        }
    }
}
